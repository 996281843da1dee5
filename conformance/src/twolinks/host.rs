//! One end: an endpoint, its memory and its queue pairs.

use std::collections::VecDeque;

use smc_proto::config::Config;
use smc_proto::endpoint::Endpoint;
use smc_proto::event::Event;
use smc_proto::id::{BufferId, ConnId, DeviceId, LinkId, WrId};
use smc_proto::path::{LocalPath, PathEvent};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::types::{BufferSize, Gid, Mac, PeerId, RKey};

use super::{App, Shape};
use smc_proto::command::{Segment, TcpCommand};

/// Address of each buffer's first byte; the key distinguishes the buffers.
pub(super) const BASE: u64 = 0x7f00_0000_0000;

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
        /// Its number.
        wr_id: WrId,
        /// Its bytes.
        payload: [u8; 44],
    },
}

/// A queue pair.
#[derive(Clone, Debug)]
pub struct Qp {
    /// The link that owns it.
    pub link: LinkId,
    /// Its RNIC.
    pub device: DeviceId,
    pub(super) qpn: u32,
    pub(super) peer_qpn: Option<u32>,
    /// In the error state: nothing is sent or received any more.
    pub broken: bool,
    /// `QpDrained` was reported.
    pub drained: bool,
    /// Posted and not completed, in order.
    pub posted: VecDeque<Item>,
    /// Of these, how many have arrived at the peer.
    pub arrived: usize,
}

/// A registration of a buffer on a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Registration {
    pub(super) rkey: RKey,
    pub(super) link: LinkId,
    pub(super) buffer: BufferId,
}

/// One end.
#[derive(Clone, Debug)]
pub struct Host {
    /// The engine.
    pub endpoint: Endpoint<Owned>,
    /// Its ports.
    pub paths: Vec<LocalPath>,
    pub(super) buffers: Vec<Vec<u8>>,
    pub(super) registrations: Vec<Registration>,
    /// Queue pairs by index of their link.
    pub qps: Vec<Option<Qp>>,
    next_serial: u32,
    /// Events since they were last taken.
    pub events: Vec<Event>,
    /// Commands for TCP connections since they were last taken.
    pub tcp: Vec<(ConnId, TcpCommand)>,
    /// One application per connection.
    pub apps: Vec<App>,
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
                let mut gid = [0; 16];
                gid[10] = 0xff;
                gid[11] = 0xff;
                gid[12..].copy_from_slice(&[10, 0, number, port]);
                let mut path = LocalPath::new(DeviceId(port), 1, Gid(gid), mac(port));
                path.subnet_match = true;
                path
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
            buffers: Vec::new(),
            registrations: Vec::new(),
            qps: Vec::new(),
            next_serial: u32::from(number),
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

    /// A number for a new queue pair of this link.
    pub(super) fn new_qpn(&mut self, link: LinkId) -> u32 {
        self.next_serial += 2;
        self.next_serial << 6 | link.index()
    }

    /// The queue pair of a link, unless the handle is stale.
    pub fn qp(&mut self, link: LinkId) -> Option<&mut Qp> {
        self.qps
            .get_mut(link.index() as usize)?
            .as_mut()
            .filter(|qp| qp.link == link)
    }

    pub(super) fn key(buffer: BufferId, link: LinkId) -> RKey {
        RKey(0x1000 | buffer.index() << 16 | link.index() << 4 | (link.generation() & 0xf))
    }

    pub(super) fn octets(&self, buffer: BufferId, pieces: &[Segment; 2]) -> Vec<u8> {
        let memory = &self.buffers[buffer.index() as usize];
        pieces
            .iter()
            .flat_map(|piece| {
                let start = piece.offset as usize;
                memory[start..start + piece.length as usize].iter().copied()
            })
            .collect()
    }

    pub(super) fn put(&mut self, buffer: BufferId, pieces: &[Segment; 2], bytes: &[u8]) {
        let memory = &mut self.buffers[buffer.index() as usize];
        let mut rest = bytes;
        for piece in pieces {
            let n = rest.len().min(piece.length as usize);
            let start = piece.offset as usize;
            memory[start..start + n].copy_from_slice(&rest[..n]);
            rest = &rest[n..];
        }
        assert!(rest.is_empty(), "more octets than there is room for");
    }
}
