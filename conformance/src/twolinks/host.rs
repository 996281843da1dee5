//! One end: an endpoint, its memory and its queue pairs.

use std::collections::VecDeque;

use smc_proto::config::Config;
use smc_proto::endpoint::Endpoint;
use smc_proto::event::Event;
use smc_proto::id::{BufferId, ConnId, DeviceId, LinkId, WrId};
use smc_proto::path::{LocalPath, PathEvent};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::types::{BufferSize, Mac, PeerId, RKey, RToken};

use super::{App, Shape};
use crate::rig::memory::{gather, scatter};
use crate::rig::{Nic, Numbers, ipv4_gid, local_port, nic};
use smc_proto::command::{Segment, TcpCommand};

/// A work request on a queue pair.
#[derive(Clone, Debug)]
pub enum Item {
    /// RDMA WRITE; the bytes are read from the send buffer when it is placed.
    Write {
        /// The send buffer.
        buffer: BufferId,
        /// Pieces of it.
        source: [Segment; 2],
        /// Key of the target on this link.
        rkey: RKey,
        /// Where it goes.
        address: u64,
        /// The connection it belongs to.
        conn: ConnId,
    },
    /// SEND.
    Send {
        /// Number of the work request.
        wr_id: WrId,
        /// Bytes that are sent.
        payload: [u8; 44],
    },
}

/// The work of a queue pair.
#[derive(Clone, Debug, Default)]
pub struct Work {
    /// Nothing is sent or received any more.
    pub broken: bool,
    /// Posted and not completed, in order.
    pub posted: VecDeque<Item>,
    /// Of these, how many have arrived at the peer.
    pub arrived: usize,
}

impl Work {
    /// Nothing passes any more, and what was posted is flushed.
    pub(super) fn break_down(&mut self) {
        self.broken = true;
        self.posted.clear();
        self.arrived = 0;
    }
}

/// A queue pair.
pub type Qp = nic::QueuePair<Work>;

/// One end.
#[derive(Clone, Debug)]
pub struct Host {
    /// The engine.
    pub endpoint: Endpoint<Owned>,
    /// Ports of the host.
    pub paths: Vec<LocalPath>,
    /// RNICs and memory of the host.
    pub nic: Nic<Vec<u8>, Work>,
    /// Events since they were last taken.
    pub events: Vec<Event>,
    /// Commands for TCP connections since they were last taken.
    pub tcp: Vec<(ConnId, TcpCommand)>,
    /// One application per connection.
    pub apps: Vec<App>,
}

fn key(buffer: BufferId, link: LinkId) -> RKey {
    RKey(0x1000 | buffer.index() << 16 | link.index() << 4 | (link.generation() & 0xf))
}

impl Host {
    pub(super) fn new(number: u8, shape: &Shape) -> Self {
        let mac = |port: u8| Mac([2, 0, 0, 0, number, port]);
        let mut config = Config::new(PeerId::new(u16::from(number), mac(0)));
        config.receive_buffer = BufferSize::at_least(shape.receive[usize::from(number) - 1]);
        config.send_buffer = BufferSize::at_least(shape.send[usize::from(number) - 1]);
        config.max_links = shape.links.max(2);
        config.eye_catcher = shape.eye_catcher;
        config.elements_per_rmb = shape.elements;
        let paths = (0..shape.ports[usize::from(number) - 1])
            .map(|port| {
                let gid = ipv4_gid([10, 0, number, port]);
                local_port(DeviceId(port), 1, gid, mac(port))
            })
            .collect();
        let limits = Limits::new(
            shape.connections + 1,
            shape.connections.min(8) + 1,
            2,
            6,
            2 * shape.connections + 4,
            shape.connections + 2,
        );
        Self {
            endpoint: Endpoint::new(config, u64::from(number), Owned::new(limits)),
            paths,
            nic: Nic::new(Numbers {
                first: number.into(),
                qpn: |first, made, link| (first + 2 * made) << 6 | link.index(),
                rtoken: |_, _, buffer, link| RToken {
                    rkey: key(buffer, link),
                    address: Numbers::BASE,
                },
            }),
            events: Vec::new(),
            tcp: Vec::new(),
            apps: Vec::new(),
        }
    }

    /// Notifies the engine that a port is up.
    pub fn port_up(&mut self, now: Instant, port: usize) {
        let path = self.paths[port];
        self.endpoint.handle_path(now, PathEvent::PortUp(path));
    }

    pub(super) fn octets(&mut self, buffer: BufferId, pieces: &[Segment; 2]) -> Vec<u8> {
        let memory = self.nic.memory_of(buffer).expect("a buffer");
        gather(memory, pieces).expect("pieces of the buffer")
    }

    pub(super) fn put(&mut self, buffer: BufferId, pieces: &[Segment; 2], bytes: &[u8]) {
        let memory = self.nic.memory_of(buffer).expect("a buffer");
        let put = scatter(memory, pieces, bytes);
        assert_eq!(
            put,
            Some(bytes.len()),
            "all octets into pieces of the buffer"
        );
    }
}
