//! A peer that pairs by the rules, and then does what a test wants: an engine and a device
//! of its own, whose CLC octets pass through the test's hands.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::{Duration, Instant as Clock};

use smc_proto::command::IsmCommand;
use smc_proto::config::{Config, Offers};
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::{ConnOptions, Endpoint};
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::{BufferId, ConnId, DeviceId};
use smc_proto::path::{IsmPath, Paths};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::clc::{
    ClcMessage, ClcVersion, Decline, MAX_LENGTH, PeerOs, SmcdAcceptConfirm,
};
use smc_proto::wire::types::{DiagnosisCode, Eid, Mac, PeerId};
use smc_transport_ism::binding::Binding;
use smc_transport_ism::device::IsmDevice;
use smc_transport_ism::shared::Device;
use smc_transport_ism::shared::pairing::{Call, Outcome, Paired, PairingTimeouts, Rendezvous};

const LONG: Duration = Duration::from_secs(30);
const NOW: Instant = Instant::from_nanos(1);

pub(crate) fn timeouts() -> PairingTimeouts {
    PairingTimeouts {
        accept: LONG,
        grace: LONG,
        go: LONG,
    }
}

/// Where the peer listens.
pub(crate) struct Door {
    tcp: TcpListener,
    rendezvous: Rendezvous,
    device: Device,
}

impl Door {
    pub(crate) fn open() -> Self {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let device = Device::open().unwrap();
        let rendezvous = Rendezvous::open(&tcp, device.facts().gid).unwrap();
        Self {
            tcp,
            rendezvous,
            device,
        }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.tcp.local_addr().unwrap()
    }

    /// Accepts one connection, whose client will speak CLC.
    pub(crate) fn accept(mut self) -> Peer {
        let (tcp, _) = self.tcp.accept().unwrap();
        let device = &self.device;
        let answer = self
            .rendezvous
            .answer(&tcp, |peer| device.is_joined(peer), &timeouts());
        let outcome = answer.expect("called").finish().unwrap();
        Peer::new(tcp, self.device, outcome)
    }
}

/// One end of a TCP connection on which CLC is spoken.
pub(crate) struct Peer {
    pub(crate) tcp: TcpStream,
    engine: Endpoint<Owned>,
    binding: Binding<Device>,
    conn: Option<ConnId>,
    received: Vec<u8>,
    dmbs: Vec<BufferId>,
    /// The send buffer, which is the DMB of the other side.
    send_buffer: Option<BufferId>,
}

impl Peer {
    /// Connects to a listener that pairs.
    pub(crate) fn connect(to: SocketAddr) -> Self {
        let (family, kind) = (
            rustix::net::AddressFamily::INET,
            rustix::net::SocketType::STREAM,
        );
        let socket = rustix::net::socket(family, kind, None).unwrap();
        let device = Device::open().unwrap();
        let call = Call::announce(&socket, to, device.facts().gid, timeouts());
        let call = call.unwrap().expect("a name to call");
        rustix::net::connect(&socket, &to).unwrap();
        let tcp = TcpStream::from(socket);
        let outcome = call.finish(&tcp, |peer| device.is_joined(peer)).unwrap();
        Self::new(tcp, device, outcome)
    }

    fn new(tcp: TcpStream, mut device: Device, outcome: Outcome) -> Self {
        let Outcome::Paired(paired) = outcome else {
            panic!("plain");
        };
        let _: &Paired = &paired;
        device.admit(paired).unwrap();
        let mut config = Config::new(PeerId::new(7, Mac::default()));
        config.offers = Offers::SMCD_V2;
        let eid = Eid::user("SMC-SOCKETS.SHARED-MEMORY").unwrap();
        config.v2.ueids.push(eid).unwrap();
        let storage = Owned::new(Limits::for_connections(4));
        tcp.set_read_timeout(Some(LONG)).unwrap();
        Self {
            tcp,
            engine: Endpoint::new(config, 7, storage),
            binding: Binding::new(device, DeviceId(0)),
            conn: None,
            received: Vec::new(),
            dmbs: Vec::new(),
            send_buffer: None,
        }
    }

    fn path(&self) -> IsmPath {
        let mut path = IsmPath::new(self.binding.id(), self.binding.gid());
        path.attaches = true;
        path
    }

    fn options(&self) -> ConnOptions {
        let mut options = ConnOptions::new(Default::default());
        options.option_negotiated = true;
        options.subnets = None;
        options
    }

    /// Returns the Proposal of a client.
    pub(crate) fn propose(&mut self) -> Vec<u8> {
        let ism = [self.path()];
        let paths = Paths::new(&[], &ism);
        let conn = self.engine.connect(NOW, self.options(), paths);
        self.conn = Some(conn.unwrap());
        self.next()
    }

    /// Begins to receive CLC messages as a server.
    pub(crate) fn listen(&mut self) {
        let conn = self.engine.listen(NOW, self.options());
        self.conn = Some(conn.unwrap());
    }

    /// The engine's next CLC message, for which the device works if need be.
    pub(crate) fn next(&mut self) -> Vec<u8> {
        let end = Clock::now() + LONG;
        while Clock::now() < end {
            let mut octets = [0; MAX_LENGTH];
            if let Some((_, len)) = self.engine.poll_clc(NOW, &mut octets).unwrap() {
                return octets[..len].to_vec();
            }
            if let Some(command) = self.engine.poll_ism(NOW, self.binding.id()) {
                if let IsmCommand::RegisterDmb { buffer, .. } = command {
                    self.dmbs.push(buffer);
                }
                if let IsmCommand::AttachDmb { buffer, .. } = command {
                    self.send_buffer = Some(buffer);
                }
                self.binding.execute(command);
            } else if let Some(completion) = self.binding.poll() {
                self.engine.handle_ism(NOW, completion);
            } else if let Some(Event::Proposed { conn }) = self.engine.poll_event() {
                let mut path = self.path();
                let proposal = self.engine.proposal(conn).unwrap();
                path.reaches = proposal.ism_gids().find(|gid| self.binding.reaches(*gid));
                let ism = [path];
                let paths = Paths::new(&[], &ism);
                self.engine.accept(NOW, conn, paths).unwrap();
            }
        }
        panic!("no message");
    }

    /// Writes bytes and closes this half, once SMC has begun.
    pub(crate) fn write_all(&mut self, octets: &[u8]) {
        let conn = self.conn.unwrap();
        let mut open = self.engine.conn(conn).unwrap();
        let fill = |space: &_| self.binding.fill(space, octets).unwrap();
        assert_eq!(open.write(NOW, fill), Ok(octets.len() as u32));
        open.shutdown(NOW, Shutdown::Write);
        while let Some(command) = self.engine.poll_ism(NOW, self.binding.id()) {
            self.binding.execute(command);
        }
    }

    /// Writes bytes, the last of them urgent, once SMC has begun.
    pub(crate) fn write_urgent(&mut self, octets: &[u8]) {
        let conn = self.conn.unwrap();
        let mut open = self.engine.conn(conn).unwrap();
        let space = open.send_space().unwrap();
        let len = self.binding.fill(&space, octets).unwrap();
        assert_eq!(len as usize, octets.len());
        open.commit_urgent(NOW, len).unwrap();
        while let Some(command) = self.engine.poll_ism(NOW, self.binding.id()) {
            self.binding.execute(command);
        }
    }

    /// Writes as many bytes as the other side has room for, and returns how many that were.
    pub(crate) fn fill(&mut self) -> usize {
        while let Some(completion) = self.binding.poll() {
            self.engine.handle_ism(NOW, completion);
        }
        let conn = self.conn.unwrap();
        let mut open = self.engine.conn(conn).unwrap();
        let bytes = vec![7; 1 << 20];
        let written = open.write(NOW, |space| self.binding.fill(space, &bytes).unwrap());
        self.execute();
        written.unwrap() as usize
    }

    /// Writes bytes of which the last one is urgent, and aborts the connection, all of which one
    /// message says.
    pub(crate) fn abort_behind_urgent(&mut self, octets: &[u8]) {
        let conn = self.conn.unwrap();
        let mut open = self.engine.conn(conn).unwrap();
        let space = open.send_space().unwrap();
        let len = self.binding.fill(&space, octets).unwrap();
        open.commit_urgent(NOW, len).unwrap();
        // The message that the next one overwrites.
        let command = self.engine.poll_ism(NOW, self.binding.id());
        assert!(command.is_some(), "it announces the bytes");
        self.engine.conn(conn).unwrap().abort(NOW);
        self.execute();
    }

    /// Writes a message to the head of the other side's DMB, and signals it.
    pub(crate) fn signal(&mut self, message: &[u8; 32]) {
        let remote = self.binding.remote(self.send_buffer.unwrap()).unwrap();
        let device = self.binding.device_mut();
        device.move_cdc(remote, 0, 0, message, true).unwrap();
    }

    fn execute(&mut self) {
        while let Some(command) = self.engine.poll_ism(NOW, self.binding.id()) {
            self.binding.execute(command);
        }
    }

    /// Why the connection ends, for which engine and device work.
    pub(crate) fn end(&mut self) -> CloseReason {
        let end = Clock::now() + LONG;
        while Clock::now() < end {
            if let Some(Event::Closed { reason, .. }) = self.engine.poll_event() {
                return reason;
            }
            while let Some(command) = self.engine.poll_ism(NOW, self.binding.id()) {
                self.binding.execute(command);
            }
            match self.binding.poll() {
                Some(completion) => self.engine.handle_ism(NOW, completion),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
        panic!("no end");
    }

    /// Ends both directions.
    pub(crate) fn close(&mut self) {
        let conn = self.conn.unwrap();
        let mut open = self.engine.conn(conn).unwrap();
        open.shutdown(NOW, Shutdown::Both);
        self.execute();
    }

    /// Takes its DMBs back, on which the other side relies.
    pub(crate) fn withdraw(&mut self) {
        for buffer in std::mem::take(&mut self.dmbs) {
            self.binding.execute(IsmCommand::UnregisterDmb { buffer });
        }
    }

    /// The other side's next CLC message, off TCP.
    pub(crate) fn receive(&mut self) -> ClcMessage {
        loop {
            if let Ok((message, len)) = ClcMessage::parse(&self.received) {
                self.received.drain(..len);
                return message;
            }
            let mut octets = [0; MAX_LENGTH];
            let len = self.tcp.read(&mut octets).unwrap();
            assert!(len > 0, "the connection has ended");
            self.received.extend_from_slice(&octets[..len]);
        }
    }

    /// Hands a message to the engine.
    pub(crate) fn handle(&mut self, message: &ClcMessage) {
        let mut octets = [0; MAX_LENGTH];
        let len = message.emit(&mut octets).unwrap();
        let conn = self.conn.unwrap();
        let _ = self.engine.handle_clc(NOW, conn, &octets[..len]).unwrap();
    }

    pub(crate) fn send(&mut self, octets: &[u8]) {
        self.tcp.write_all(octets).unwrap();
    }

    /// What was received behind the last message, to the end of the stream.
    pub(crate) fn rest(&mut self) -> Vec<u8> {
        self.tcp.read_to_end(&mut self.received).unwrap();
        std::mem::take(&mut self.received)
    }
}

/// The octets of a Decline.
pub(crate) fn decline() -> Vec<u8> {
    let message = ClcMessage::Decline(Decline {
        version: ClcVersion::V2,
        out_of_sync: false,
        peer_id: PeerId::new(7, Mac::default()),
        diagnosis: DiagnosisCode::MEMORY,
        os: PeerOs::LINUX,
    });
    let mut octets = [0; MAX_LENGTH];
    let len = message.emit(&mut octets).unwrap();
    octets[..len].to_vec()
}

/// An Accept or Confirm, but of a DMB that is not there.
pub(crate) fn with_another_dmb(octets: &[u8]) -> Vec<u8> {
    changed(octets, |part| part.token.0 ^= 1)
}

/// An Accept or Confirm, but of a device that the sender does not have.
pub(crate) fn of_another_process(octets: &[u8]) -> Vec<u8> {
    changed(octets, |part| part.gid ^= 1)
}

fn changed(octets: &[u8], change: impl FnOnce(&mut SmcdAcceptConfirm)) -> Vec<u8> {
    let (mut message, _) = ClcMessage::parse(octets).unwrap();
    let (ClcMessage::SmcdAccept(part) | ClcMessage::SmcdConfirm(part)) = &mut message else {
        panic!("{message:?}");
    };
    change(part);
    let mut octets = [0; MAX_LENGTH];
    let len = message.emit(&mut octets).unwrap();
    octets[..len].to_vec()
}
