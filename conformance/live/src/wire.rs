//! The peer's end: TCP sockets and queue pairs.

use std::collections::{BTreeMap, VecDeque};
use std::net::{Ipv4Addr, TcpListener};
use std::time::{Duration, Instant};

use conformance::scripts::{
    Announced, End, Failed, Kind, Received, RnicAct, Seen, Target, Wire, field, names,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use smc_proto::command::QpAddress;
use smc_proto::wire::types::{Gid, Mac, Mtu, Psn, Qpn};
use smc_transport_verbs::rnic::{Connect, Rnic};

use crate::auto_reply;
use crate::held::Held;
use crate::names::{Names, begins, far_end};
use crate::sockets::Sockets;
use crate::tcp::{Came, Mark, Tcp, listening};

/// How late something may be that is due at once: machines are busy.
const GRACE: Duration = Duration::from_secs(3);
/// How early, and how long what is on its way may take at the end of a script.
const HASTE: Duration = Duration::from_millis(100);
/// How long what the peer sends has to reach the engine before an application acts.
const PAUSE: Duration = Duration::from_millis(30);
/// Number of messages that are a flood.
const FLOOD: u32 = 200;
/// Applications are asked so often.
const TICK: Duration = Duration::from_millis(2);

/// An RNIC of the peer, and how it is reached.
#[derive(Debug)]
pub struct Nic<R> {
    /// The RNIC.
    pub rnic: R,
    /// Port of the RNIC, from 1.
    pub port: u8,
    /// Index of the GID.
    pub gid_index: u16,
    /// The GID.
    pub gid: Gid,
    /// MAC of the port.
    pub mac: Mac,
}

/// The peer's end of a live wire, and sockets under test at the other end.
pub struct Live<R: Rnic, S> {
    pub(crate) held: Held<R>,
    names: Names,
    pub(crate) sockets: S,
    pub(crate) tcp: BTreeMap<u8, Tcp>,
    server: Option<TcpListener>,
    pub(crate) mark: Option<Mark>,
    /// The peer takes leave of its groups before it vanishes.
    pub(crate) parts: bool,
    /// The peer answers withdrawals by itself.
    auto_reply: bool,
    pub(crate) v2: bool,
    address: Ipv4Addr,
    subnet: (Ipv4Addr, u8),
    received: VecDeque<Received>,
    pub(crate) seen: VecDeque<(u8, Seen)>,
    begun: Instant,
    /// How long what the peer sent has to reach the engine, before an application acts.
    pub(crate) pause: Duration,
    /// How often the peer has sent something.
    sends: u32,
    /// Channel over which the peer has sent something since.
    sent: Option<Over>,
}

/// Channel over which the peer sends something.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Over {
    Tcp(u8),
    Link(Target),
    /// An event of an RNIC of the engine.
    Rnic,
}

impl<R: Rnic, S: Sockets> Live<R, S> {
    /// A peer with these RNICs, at this address of this subnet.
    #[must_use]
    pub fn new(nics: Vec<Nic<R>>, (address, bits): (Ipv4Addr, u8), sockets: S) -> Self {
        let named = |nic: &Nic<R>| (u128::from_be_bytes(nic.gid.0), mac_number(nic.mac));
        let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
        Self {
            names: Names {
                peer: nics.iter().map(named).collect(),
                ..Names::default()
            },
            held: Held {
                links: BTreeMap::new(),
                rmbs: BTreeMap::new(),
                groups: BTreeMap::new(),
                nics,
            },
            sockets,
            tcp: BTreeMap::new(),
            server: None,
            mark: None,
            parts: false,
            auto_reply: false,
            v2: false,
            address,
            subnet: (Ipv4Addr::from(u32::from(address) & mask), bits),
            received: VecDeque::new(),
            seen: VecDeque::new(),
            begun: Instant::now(),
            pause: PAUSE,
            sends: 0,
            sent: None,
        }
    }

    /// With sockets of the peer to which this is done first.
    #[must_use]
    pub fn with_mark(mut self, mark: Mark) -> Self {
        self.mark = Some(mark);
        self
    }

    /// With a peer that ends its link groups, of this version, before it vanishes: an RNIC of
    /// the other end may repeat for ever what is not answered.
    #[must_use]
    pub fn with_farewell(mut self, v2: bool) -> Self {
        (self.parts, self.v2) = (true, v2);
        self
    }

    /// Adds a peer that answers each DELETE RKEY by itself, which the script does not see:
    /// Linux withdraws an RMB as soon as its connection has ended.
    #[must_use]
    pub fn with_auto_reply(mut self, auto_reply: bool) -> Self {
        self.auto_reply = auto_reply;
        self
    }

    /// With this identity of the peer, in place of that of scripts: an engine that remembers
    /// groups from script to script takes it for another host.
    #[must_use]
    pub fn with_identity(mut self, identity: u64) -> Self {
        self.names.own = Some(identity.into());
        self
    }

    pub(crate) fn elapsed(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Where the peer accepts connections.
    pub(crate) fn server(&mut self) -> std::io::Result<&TcpListener> {
        if self.server.is_none() {
            self.server = Some(listening(self.address, self.mark.as_ref())?);
        }
        let none = std::io::ErrorKind::NotConnected;
        self.server.as_ref().ok_or_else(|| none.into())
    }

    /// The engine's ports, if they are known before it announces them.
    #[must_use]
    pub fn with_engine_ports(mut self, ports: impl IntoIterator<Item = (Gid, Mac)>) -> Self {
        let named = |(gid, mac): (Gid, Mac)| (u128::from_be_bytes(gid.0), mac_number(mac));
        self.names.engine = ports.into_iter().map(named).collect();
        self
    }

    /// With so much more time for everything, where the machine has none.
    #[must_use]
    pub fn with_pause(mut self, pause: Duration) -> Self {
        self.pause = pause;
        self
    }

    /// The peer sends something over this: what it sent over anything else comes first, as
    /// nothing but time sees to.
    pub(crate) fn before_sending(&mut self, over: Over) {
        self.sends += 1;
        // With time to spare the engine may also finish what its last message belongs to; of a
        // flood there is no end otherwise.
        if self.pause > PAUSE && self.sends < FLOOD {
            self.sent = Some(over);
            self.settle();
        } else if self.sent.is_some_and(|before| before != over) {
            self.settle();
        }
        self.sent = Some(over);
    }

    /// Lets what the peer has sent reach the engine: lines of a script are in order.
    pub(crate) fn settle(&mut self) {
        if self.sent.take().is_some() {
            let until = self.begun.elapsed() + self.pause;
            while self.begun.elapsed() < until {
                self.take_in();
                std::thread::sleep(TICK);
            }
        }
    }

    /// Takes in what has come.
    pub(crate) fn take_in(&mut self) {
        while let Some(seen) = self.sockets.step() {
            self.seen.push_back(seen);
        }
        for (conn, tcp) in &mut self.tcp {
            let conn = *conn;
            while let Some(came) = tcp.next() {
                self.received.push_back(match came {
                    Came::Bytes(bytes) => Received::Tcp { conn, bytes },
                    Came::Fin => Received::Fin { conn },
                    Came::Reset => Received::Reset { conn },
                });
            }
        }
        for nic in &self.held.nics {
            while nic.rnic.next_ready().is_some() {}
        }
        for link in self.held.links.values_mut() {
            let (Some(nic), Some(qpn)) = (self.held.nics.get(link.rnic), link.peer) else {
                continue;
            };
            while let Some(bytes) = link.next(&nic.rnic) {
                if self.auto_reply
                    && let Some(answer) = auto_reply::to_withdrawal(&bytes)
                {
                    // A reply that does not go out any more is not missed.
                    let _ = link.send(&nic.rnic, &answer);
                    continue;
                }
                let end = End::Qp(qpn);
                self.received.push_back(Received::Sent { end, bytes });
            }
        }
    }

    /// Waits until something may have come.
    fn wait(&self, longest: Duration) {
        let rnics = self.held.nics.iter();
        let rnics = rnics.map(|nic| nic.rnic.completions_fd());
        let mut fds: Vec<PollFd<'_>> = rnics
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let open = self.tcp.values().filter(|tcp| tcp.is_open());
        fds.extend(open.map(|tcp| PollFd::new(&tcp.stream, PollFlags::IN)));
        let time = Timespec::try_from(longest.min(TICK)).ok();
        // Whatever is wrong is seen by what comes.
        let _ = poll(&mut fds, time.as_ref());
    }
}

fn mac_number(mac: Mac) -> u128 {
    mac.0
        .iter()
        .fold(0, |all, each| all << 8 | u128::from(*each))
}

impl<R: Rnic, S: Sockets> Wire for Live<R, S> {
    fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    fn grace(&self) -> Duration {
        GRACE
    }

    fn haste(&self) -> Duration {
        HASTE
    }

    fn pass(&mut self, until: Duration) {
        loop {
            self.take_in();
            let left = until.saturating_sub(self.now());
            if !self.received.is_empty() || !self.seen.is_empty() || left.is_zero() {
                return;
            }
            self.wait(left);
        }
    }

    fn receive(&mut self) -> Option<Received> {
        if self.received.is_empty() {
            self.take_in();
        }
        self.received.pop_front()
    }

    fn tcp(&mut self, conn: u8, bytes: &[u8]) {
        self.before_sending(Over::Tcp(conn));
        if let Some(tcp) = self.tcp.get_mut(&conn) {
            tcp.send(bytes);
        }
    }

    fn fin(&mut self, conn: u8) {
        self.before_sending(Over::Tcp(conn));
        if let Some(tcp) = self.tcp.get_mut(&conn) {
            tcp.fin();
        }
    }

    fn reset(&mut self, conn: u8) {
        self.before_sending(Over::Tcp(conn));
        if let Some(tcp) = self.tcp.get_mut(&conn) {
            tcp.reset();
        }
    }

    fn join(&mut self, link: u8, kind: Kind, message: &[u8]) -> Result<(), Failed> {
        let known = self.names.engine_port(kind, message);
        let (gid, mac) = known.ok_or("the engine has not announced its GID")?;
        let (qpn, psn, mtu) =
            far_end(kind, message).ok_or("the engine has announced no queue pair")?;
        let [_, _, mac @ ..] = (mac as u64).to_be_bytes();
        let peer = QpAddress::new(
            Qpn::new(qpn),
            Psn::new(psn),
            Gid(gid.to_be_bytes()),
            Mac(mac),
        );
        let connect = Connect {
            peer,
            mtu: Mtu::from_code(mtu.min(3)),
            hop_limit: 64,
        };
        let rnic = self.held.link(link)?.rnic;
        let Held { links, nics, .. } = &mut self.held;
        let parts = links.get_mut(&link).zip(nics.get(rnic));
        let (link, nic) = parts.ok_or("the RNIC is gone")?;
        link.join(&nic.rnic, &connect)
    }

    fn name_for_wire(&mut self, conn: u8, kind: Kind, message: &mut [u8]) -> Result<(), Failed> {
        if let Some(link) = begins(kind, message) {
            self.held.groups.insert(conn, link);
        }
        if let (Kind::Clc(_, 1), Some(subnet)) = (kind, field(kind, "subnet"))
            && subnet.get(message) == 0
        {
            subnet.put(message, u32::from(self.subnet.0).into());
            if let Some(bits) = field(kind, "prefix_length") {
                bits.put(message, self.subnet.1.into());
            }
        }
        self.names.name_for_wire(kind, message, &mut self.held)
    }

    fn name_for_script(&mut self, kind: Kind, message: &mut [u8]) {
        self.names.name_for_script(kind, message, &self.held);
    }

    fn leaves_open(&self, kind: Kind) -> bool {
        // What a host offers is its own affair.
        matches!(kind, Kind::Clc(_, 1))
    }

    fn announced(&mut self, end: End, places: &[Announced]) -> Vec<Received> {
        let wrote = |place: &Announced| {
            let (number, conn) = names::rmb_of(place.key.into())?;
            let offset = names::offset_of(number, conn, place.address.into())?;
            let rmb = self.held.rmbs.get_mut(&conn)?;
            Some(Received::Wrote {
                end,
                key: place.key,
                address: place.address,
                bytes: rmb.take(offset, place.length as usize),
            })
        };
        places.iter().filter_map(wrote).collect()
    }

    fn send(&mut self, over: Target, bytes: &[u8]) -> Result<(), Failed> {
        self.before_sending(Over::Link(over));
        let (link, rnic) = self.held.link_to(over)?;
        link.send(rnic, bytes)
    }

    fn write(&mut self, over: Target, key: u64, address: u64, bytes: &[u8]) -> Result<(), Failed> {
        self.before_sending(Over::Link(over));
        let (link, rnic) = self.held.link_to(over)?;
        link.write(rnic, (key as u32, address), bytes)
    }

    fn breaks(&mut self, over: Target) -> Result<(), Failed> {
        self.before_sending(Over::Link(over));
        self.settle();
        let Target::Qp(qpn) = over else {
            return Err("no RNIC carries SMC-D".to_owned());
        };
        self.held.links.retain(|_, link| link.peer != Some(qpn));
        // The engine is notified at once, and not when something is not answered.
        let breaks = RnicAct::Breaks(1, "retries".to_owned());
        self.sockets.rnic(&breaks, Some(qpn))
    }
}
