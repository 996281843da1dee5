//! The TCP side: a smoltcp interface, its sockets, and the cable between two.
//!
//! Nothing here knows SMC except for one thing: a TCP option of SYN and SYN-ACK
//! announces whether SMC may be tried.

use std::cell::RefCell;
use std::collections::{BTreeSet, VecDeque};
use std::rc::Rc;

use smc_proto::wire::tcp_option::{OPTION, find_in_options};
use smoltcp::iface::{Config, Interface, PollResult, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{
    HardwareAddress, IpAddress, IpCidr, IpProtocol, Ipv4Address, Ipv4Packet, TcpPacket,
};

/// The port servers listen on.
const PORT: u16 = 7000;
const TCP_BUFFER: usize = 8 << 10;

/// One host's TCP.
pub(crate) struct Stack {
    interface: Interface,
    cable: Cable,
    sockets: SocketSet<'static>,
}

impl Stack {
    /// Two hosts in the network 10.0.0.0/24, joined by a cable.
    pub(crate) fn pair(addresses: [Ipv4Address; 2]) -> [Self; 2] {
        let (to_a, to_b) = (Packets::default(), Packets::default());
        let [a, b] = addresses;
        [
            Self::new(a, Cable::new(to_a.clone(), to_b.clone())),
            Self::new(b, Cable::new(to_b, to_a)),
        ]
    }

    fn new(address: Ipv4Address, mut cable: Cable) -> Self {
        let config = Config::new(HardwareAddress::Ip);
        let mut interface = Interface::new(config, &mut cable, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            let cidr = IpCidr::new(IpAddress::Ipv4(address), 24);
            addresses.push(cidr).expect("room for one address");
        });
        Self {
            interface,
            cable,
            sockets: SocketSet::new(Vec::new()),
        }
    }

    fn add_socket(&mut self) -> SocketHandle {
        let ring = || tcp::SocketBuffer::new(vec![0; TCP_BUFFER]);
        self.sockets.add(tcp::Socket::new(ring(), ring()))
    }

    pub(crate) fn socket(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    pub(crate) fn listen(&mut self) -> SocketHandle {
        let handle = self.add_socket();
        self.socket(handle).listen(PORT).expect("a new socket");
        handle
    }

    pub(crate) fn connect(&mut self, to: Ipv4Address, local_port: u16) -> SocketHandle {
        let handle = self.add_socket();
        let socket = self.sockets.get_mut::<tcp::Socket>(handle);
        let remote = (IpAddress::Ipv4(to), PORT);
        socket
            .connect(self.interface.context(), remote, local_port)
            .expect("a new socket");
        handle
    }

    /// Whether this host puts the SMC option into its SYNs and SYN-ACKs.
    pub(crate) fn offer_smc(&mut self, offer: bool) {
        self.cable.offers_smc = offer;
    }

    /// Whether both SYN and SYN-ACK of an established connection had the option.
    pub(crate) fn both_offered_smc(&mut self, handle: SocketHandle) -> bool {
        let socket = self.socket(handle);
        let (local, remote) = (socket.local_endpoint(), socket.remote_endpoint());
        let (Some(local), Some(remote)) = (local, remote) else {
            return false;
        };
        // A SYN-ACK has the option only if the SYN had it, so at either end it is
        // enough to offer it and to have received it.
        self.cable.offers_smc && self.cable.received.contains(&(local.port, remote.port))
    }

    /// Lets smoltcp receive and send; whether anything changed.
    pub(crate) fn poll(&mut self, now: Instant) -> bool {
        let (cable, sockets) = (&mut self.cable, &mut self.sockets);
        let waiting = !cable.incoming.borrow().is_empty();
        let result = self.interface.poll(now, cable, sockets);
        waiting || result == PollResult::SocketStateChanged
    }

    pub(crate) fn poll_at(&mut self, now: Instant) -> Option<Instant> {
        self.interface.poll_at(now, &self.sockets)
    }
}

type Packets = Rc<RefCell<VecDeque<Vec<u8>>>>;

/// One end of the cable: a queue of IP packets for each direction.
struct Cable {
    incoming: Packets,
    outgoing: Packets,
    offers_smc: bool,
    /// Local and remote port of connections whose peer sent the option. There is
    /// one peer, so that its address need not be kept.
    received: BTreeSet<(u16, u16)>,
}

impl Cable {
    fn new(incoming: Packets, outgoing: Packets) -> Self {
        Self {
            incoming,
            outgoing,
            offers_smc: true,
            received: BTreeSet::new(),
        }
    }

    /// Searches a SYN or SYN-ACK that arrives for the option.
    ///
    /// smoltcp neither sets TCP options of its user nor shows those it received.
    /// In a stack of your own, this is a line where SYNs are parsed, and the
    /// result a flag of the connection.
    fn note_option(&mut self, packet: &[u8]) {
        let Some((ip_header, _)) = syn(packet) else {
            return;
        };
        let tcp = TcpPacket::new_unchecked(&packet[ip_header..]);
        if find_in_options(tcp.options()) {
            self.received.insert((tcp.dst_port(), tcp.src_port()));
        }
    }

    /// Puts the option into a SYN that leaves, and into a SYN-ACK if the SYN had
    /// it. In a stack of your own, this is a line where SYNs are built.
    fn add_option(&self, packet: &mut Vec<u8>) {
        let Some((ip_header, tcp_header)) = syn(packet) else {
            return;
        };
        let tcp = TcpPacket::new_unchecked(&packet[ip_header..]);
        let asked = self.received.contains(&(tcp.src_port(), tcp.dst_port()));
        // Options are a multiple of 4 bytes; two no-operations fill up. They go
        // first, because receivers ignore what follows an end-of-list option.
        let [o0, o1, o2, o3, o4, o5] = OPTION;
        let option = [o0, o1, o2, o3, o4, o5, 1, 1];
        if !self.offers_smc || (tcp.ack() && !asked) || tcp_header + option.len() > 60 {
            return;
        }
        let at = ip_header + 20;
        packet.splice(at..at, option);
        let total = packet.len() as u16;
        let mut ip = Ipv4Packet::new_unchecked(&mut packet[..]);
        ip.set_total_len(total);
        ip.fill_checksum();
        let ends = [ip.src_addr(), ip.dst_addr()].map(IpAddress::Ipv4);
        let mut tcp = TcpPacket::new_unchecked(ip.payload_mut());
        tcp.set_header_len((tcp_header + option.len()) as u8);
        tcp.fill_checksum(&ends[0], &ends[1]);
    }
}

/// Lengths of the IP and TCP headers, if the packet is a SYN or SYN-ACK.
fn syn(packet: &[u8]) -> Option<(usize, usize)> {
    let ip = Ipv4Packet::new_checked(packet).ok()?;
    if ip.next_header() != IpProtocol::Tcp {
        return None;
    }
    let tcp = TcpPacket::new_checked(ip.payload()).ok()?;
    let lengths = (usize::from(ip.header_len()), usize::from(tcp.header_len()));
    tcp.syn().then_some(lengths)
}

impl phy::Device for Cable {
    type RxToken<'a> = RxToken;
    type TxToken<'a> = TxToken<'a>;

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ip;
        capabilities.max_transmission_unit = 1500;
        capabilities
    }

    fn receive(&mut self, _: Instant) -> Option<(RxToken, TxToken<'_>)> {
        let packet = self.incoming.borrow_mut().pop_front()?;
        self.note_option(&packet);
        Some((RxToken(packet), TxToken(self)))
    }

    fn transmit(&mut self, _: Instant) -> Option<TxToken<'_>> {
        Some(TxToken(self))
    }
}

struct RxToken(Vec<u8>);

impl phy::RxToken for RxToken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

struct TxToken<'a>(&'a Cable);

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, f: F) -> R {
        let mut packet = vec![0; length];
        let result = f(&mut packet);
        self.0.add_option(&mut packet);
        self.0.outgoing.borrow_mut().push_back(packet);
        result
    }
}
