//! TCP over smoltcp's loopback device: one interface, two sockets.

use std::time::{Duration, Instant as Clock};

use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{Loopback as Device, Medium};
use smoltcp::socket::tcp;
use smoltcp::time::Instant;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};

/// Two connected sockets.
pub(crate) struct Loopback {
    interface: Interface,
    device: Device,
    sockets: SocketSet<'static>,
    client: SocketHandle,
    server: SocketHandle,
    clock: i64,
}

impl Loopback {
    /// The buffer size at which it streams fastest on this machine.
    pub(crate) fn best_buffer() -> usize {
        let time = |size| {
            (0..3)
                .map(|_| Self::new(size).stream(64 << 10, 64 << 20))
                .min()
        };
        [32, 64, 128, 256, 512]
            .map(|kib| kib << 10)
            .into_iter()
            .min_by_key(|s| time(*s))
            .unwrap()
    }

    pub(crate) fn new(buffer: usize) -> Self {
        let mut device = Device::new(Medium::Ip);
        let mut interface =
            Interface::new(Config::new(HardwareAddress::Ip), &mut device, Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            addresses
                .push(IpCidr::new(IpAddress::v4(127, 0, 0, 1), 8))
                .unwrap();
        });
        let socket = || {
            let ring = || tcp::SocketBuffer::new(vec![0; buffer]);
            let mut socket = tcp::Socket::new(ring(), ring());
            socket.set_nagle_enabled(false);
            socket.set_ack_delay(None);
            socket
        };
        let mut sockets = SocketSet::new(Vec::new());
        let (server, client) = (sockets.add(socket()), sockets.add(socket()));
        sockets.get_mut::<tcp::Socket>(server).listen(1234).unwrap();
        let remote = (IpAddress::v4(127, 0, 0, 1), 1234);
        sockets
            .get_mut::<tcp::Socket>(client)
            .connect(interface.context(), remote, 65000)
            .unwrap();
        let mut pair = Self {
            interface,
            device,
            sockets,
            client,
            server,
            clock: 0,
        };
        while !pair.socket(pair.client).may_send() || !pair.socket(pair.server).may_send() {
            pair.poll();
        }
        pair
    }

    fn socket(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }

    fn poll(&mut self) {
        self.clock += 1;
        self.interface.poll(
            Instant::from_micros(self.clock),
            &mut self.device,
            &mut self.sockets,
        );
    }

    /// Time of one round trip.
    pub(crate) fn ping_pong(mut self, size: usize, rounds: u32) -> Duration {
        let data = vec![7u8; size];
        let mut octets = vec![0u8; size];
        let start = Clock::now();
        for _ in 0..rounds {
            for (from, to) in [(self.client, self.server), (self.server, self.client)] {
                self.socket(from).send_slice(&data).unwrap();
                let mut received = 0;
                while received < size {
                    self.poll();
                    received += self.socket(to).recv_slice(&mut octets).unwrap();
                }
            }
        }
        start.elapsed() / rounds
    }

    /// Time for `total` octets in writes of `write`.
    pub(crate) fn stream(mut self, write: usize, total: usize) -> Duration {
        let data = vec![7u8; write];
        let mut octets = vec![0u8; write];
        let start = Clock::now();
        let (mut received, mut offset) = (0, 0);
        while received < total {
            let client = self.client;
            let sent = self.socket(client).send_slice(&data[offset..]).unwrap();
            offset = (offset + sent) % write;
            self.poll();
            loop {
                let server = self.server;
                let n = self.socket(server).recv_slice(&mut octets).unwrap();
                if n == 0 {
                    break;
                }
                received += n;
            }
        }
        start.elapsed()
    }
}
