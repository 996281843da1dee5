//! One engine of SMC-D against a peer and an ISM device that a test plays by hand.
//!
//! What the engine sends is kept until the test asks; its device executes commands at
//! once and checks that each is allowed, unless the test [holds](Hand::hold) it.

mod device;
mod peer;

use std::collections::VecDeque;

use smc_proto::command::{IsmCommand, TcpCommand};
use smc_proto::completion::IsmCompletion;
use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::{ConnOptions, Endpoint, Usage};
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::{BufferId, ConnId, DeviceId};
use smc_proto::path::{IsmPath, Paths};
use smc_proto::storage::Limits;
use smc_proto::time::{Duration, Instant};
use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc_ism::CDC_ISM_LENGTH;
use smc_proto::wire::clc::{ClcMessage, Subnets};
use smc_proto::wire::types::{BufferSize, Mac, PeerId};
use smc_transport_sim::sim::{Tables, tables_of_test};

use crate::rig::Ism;
pub use crate::rig::peer::smcd::Mode;
use crate::rig::peer::smcd::eid;

/// The engine's only device.
pub const DEVICE: DeviceId = DeviceId(0);
/// Bytes of the ring of every DMB here.
pub const RING: u32 = 16_384 - HEAD;
/// Bytes in front of the ring, where the CDC message lies.
pub const HEAD: u32 = CDC_ISM_LENGTH as u32;

/// The engine, its device, and what both did.
#[derive(Clone, Debug)]
pub struct Hand {
    /// The engine under test.
    pub endpoint: Endpoint<Tables>,
    /// Virtual time.
    pub now: Instant,
    /// How the two sides speak.
    pub mode: Mode,
    /// Whether control commands wait until the test has them executed.
    pub hold: bool,
    /// Control commands that wait, in order.
    pub commands: VecDeque<IsmCommand>,
    /// All commands that the device executed.
    pub executed: Vec<IsmCommand>,
    /// Moves, signals and events that the device executed.
    pub moved: Vec<IsmCommand>,
    /// CLC messages that the engine sent.
    pub sent_clc: VecDeque<(ConnId, ClcMessage)>,
    /// Commands for TCP connections.
    pub tcp: Vec<(ConnId, TcpCommand)>,
    /// Events of the engine.
    pub events: Vec<Event>,
    device: Ism,
    conns: Vec<ConnId>,
}

impl Hand {
    /// An engine with the smallest buffers there are.
    #[must_use]
    pub fn new(mode: Mode) -> Self {
        Self::with(mode, |_| {})
    }

    /// One with other settings.
    #[must_use]
    pub fn with(mode: Mode, configure: impl FnOnce(&mut Config)) -> Self {
        Self::limited(mode, Limits::for_connections(8), configure)
    }

    /// One with other settings and tables.
    #[must_use]
    pub fn limited(mode: Mode, limits: Limits, configure: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(PeerId::new(1, Mac([2; 6])));
        config.offers = match mode.version {
            SmcVersion::V1 => Offers::SMCD_V1,
            SmcVersion::V2 => Offers::SMCD_V2,
        };
        config.v2.ueids.push(eid()).expect("the first one");
        config.receive_buffer = BufferSize::K16;
        config.send_buffer = BufferSize::K16;
        configure(&mut config);
        Self {
            endpoint: Endpoint::new(config, 1, tables_of_test(limits)),
            now: Instant::from_nanos(1),
            mode,
            hold: false,
            commands: VecDeque::new(),
            executed: Vec::new(),
            moved: Vec::new(),
            sent_clc: VecDeque::new(),
            tcp: Vec::new(),
            events: Vec::new(),
            device: Ism::new(0xd000),
            conns: Vec::new(),
        }
    }

    // ---- what the engine's host does -------------------------------------------------

    fn path(&self) -> IsmPath {
        let v1 = self.mode.version == SmcVersion::V1;
        let mut path = IsmPath::new(DEVICE, self.mode.device(1));
        path.pnet_match = v1;
        path.reaches_v1 = v1;
        path.v2 = !v1;
        path.reaches = (!v1).then_some(self.mode.device(2));
        path.attaches = self.mode.maps;
        path
    }

    /// Opens a connection as client; its Proposal is kept.
    #[track_caller]
    pub fn connect(&mut self) -> ConnId {
        let ism = [self.path()];
        let options = ConnOptions::new(Subnets::default());
        let paths = Paths::new(&[], &ism);
        let opened = self.endpoint.connect(self.now, options, paths);
        let conn = opened.expect("a free slot");
        self.conns.push(conn);
        self.pump();
        conn
    }

    /// Accepts a TCP connection as server.
    #[track_caller]
    pub fn listen(&mut self) -> ConnId {
        let options = ConnOptions::new(Subnets::default());
        let opened = self.endpoint.listen(self.now, options);
        let conn = opened.expect("a free slot");
        self.conns.push(conn);
        self.pump();
        conn
    }

    /// Lets time pass; timers fire when they are due.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now.after(time);
        while let Some(due) = self.endpoint.poll_timeout().filter(|due| *due <= end) {
            self.now = self.now.max(due);
            self.endpoint.handle_timeout(self.now);
            self.pump();
        }
        self.now = end;
    }

    /// The device reports something.
    pub fn report(&mut self, completion: IsmCompletion) {
        self.endpoint.handle_ism(self.now, completion);
        self.pump();
    }

    // ---- the outcome --------------------------------------------------------------

    /// Whether data flows on a connection.
    #[must_use]
    pub fn is_established(&self, conn: ConnId) -> bool {
        let established = |e: &Event| matches!(e, Event::Established { conn: c, .. } if *c == conn);
        self.events.iter().any(established)
    }

    /// Why a connection ended.
    #[must_use]
    pub fn closed(&self, conn: ConnId) -> Option<CloseReason> {
        self.events.iter().find_map(|event| match event {
            Event::Closed { conn: c, reason } if *c == conn => Some(*reason),
            _ => None,
        })
    }

    /// The DMB registered last that is still there.
    #[must_use]
    #[track_caller]
    pub fn dmb(&self) -> BufferId {
        self.device.dmbs.last().expect("a DMB").buffer
    }

    /// Buffers the device knows: DMBs, and what is or may be bound to the peer's.
    pub fn buffers(&self) -> impl Iterator<Item = BufferId> + '_ {
        let dmbs = self.device.dmbs.iter().map(|dmb| dmb.buffer);
        let sources = self.device.sources.iter().map(|source| source.buffer);
        dmbs.chain(sources)
    }

    /// Bytes that can be read, if the connection is there.
    pub fn readable(&mut self, conn: ConnId) -> Option<u32> {
        Some(self.endpoint.conn(conn)?.readable()?.len())
    }

    /// Bytes that can be written, if the connection is there.
    pub fn space(&mut self, conn: ConnId) -> Option<u32> {
        Some(self.endpoint.conn(conn)?.send_space()?.len())
    }

    /// Invariants of every connection, whatever its peer sends: nothing can be read but
    /// what is in its ring, and nothing written but what is in the peer's.
    #[track_caller]
    pub fn check(&mut self) {
        let maps = self.mode.maps;
        for conn in self.conns.clone() {
            let Some(conn) = self.endpoint.conn(conn) else {
                continue;
            };
            let urgent = conn.urgent();
            let readable = conn.readable().into_iter();
            for spans in readable.chain(urgent.map(|(_, spans)| spans)) {
                assert!(spans.len() <= RING, "{spans:?}");
                for segment in spans.segments.iter().filter(|at| at.length > 0) {
                    let end = u64::from(segment.offset) + u64::from(segment.length);
                    assert!(segment.offset >= HEAD, "{spans:?}");
                    assert!(end <= u64::from(HEAD + RING), "{spans:?}");
                }
            }
            if let Some(spans) = conn.send_space() {
                let (head, length) = if maps { (HEAD, RING) } else { (0, HEAD + RING) };
                assert!(spans.len() <= length, "{spans:?}");
                for segment in spans.segments.iter().filter(|at| at.length > 0) {
                    let end = u64::from(segment.offset) + u64::from(segment.length);
                    assert!(segment.offset >= head, "{spans:?}");
                    assert!(end <= u64::from(head + length), "{spans:?}");
                }
            }
        }
    }

    /// Ends all there is: nothing is left here, or in the device.
    #[track_caller]
    pub fn end(mut self) {
        self.hold = false;
        for command in core::mem::take(&mut self.commands) {
            self.execute(command);
        }
        self.pump();
        for conn in core::mem::take(&mut self.conns) {
            let now = self.now;
            if let Some(mut conn) = self.endpoint.conn(conn) {
                conn.abort(now);
            }
        }
        self.pump();
        self.run_out();
        assert_eq!(self.endpoint.usage(), Usage::default(), "{:?}", self.events);
        assert!(self.device.is_empty(), "{:?}", self.device);
    }

    #[track_caller]
    fn run_out(&mut self) {
        for _ in 0..10_000 {
            match self.endpoint.poll_timeout() {
                Some(due) => self.wait(due.since(self.now)),
                None => return,
            }
        }
        panic!("timers never end");
    }
}
