//! One endpoint with an adapter that answers on a call, and the
//! invariants that hold after every input.

mod outputs;

use std::collections::VecDeque;

use smc_proto::command::{RdmaCommand, TcpCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::Config;
use smc_proto::endpoint::{ConnOptions, Endpoint, TcpEvent};
use smc_proto::event::{CloseReason, FallbackReason};
use smc_proto::id::{ConnId, DeviceId, GroupId, LinkId, WrId};
use smc_proto::path::LocalPath;
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::types::{AlertToken, BufferSize, Mac, PeerId};

use super::contract::Contract;
use super::trace;
use crate::rig::{ipv4_gid, local_port};

/// The only RNIC.
pub(super) const DEVICE: DeviceId = DeviceId(0);
/// Tables small enough to run full.
pub(super) const LIMITS: Limits = Limits::new(5, 3, 3, 5, 9, 6);
/// Most steps of one input with these tables, whatever the peer sends.
const MAX_STEPS: u32 = 400;

/// How a connection ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum End {
    FellBack(FallbackReason),
    Closed(CloseReason),
}

/// What is known of a handle that was given out.
#[derive(Clone, Debug)]
pub(super) struct Conn {
    pub(super) id: ConnId,
    pub(super) established: bool,
    pub(super) end: Option<End>,
    pub(super) tcp: Option<TcpCommand>,
    /// The engine was notified that its TCP connection is gone.
    pub(super) tcp_is_lost: bool,
}

/// An endpoint and its device.
#[derive(Clone, Debug)]
pub(super) struct Side {
    pub(super) endpoint: Endpoint<Owned>,
    pub(super) contract: Contract,
    pub(super) now: Instant,
    pub(super) path: LocalPath,
    pub(super) conns: Vec<Conn>,
    pub(super) groups: Vec<GroupId>,
    /// Control commands that were not answered.
    pub(super) pending: Vec<RdmaCommand>,
    /// WRITEs and SENDs that were not executed.
    pub(super) wire: VecDeque<RdmaCommand>,
    /// The content of messages among them that have more than 44 bytes.
    pub(super) large: Vec<((LinkId, WrId), Vec<u8>)>,
    /// SENDs that were executed and not reported.
    pub(super) sent: Vec<(LinkId, WrId)>,
    /// CLC messages that were not delivered.
    pub(super) clc: VecDeque<(ConnId, Vec<u8>)>,
    /// Alert tokens given out in Accept and Confirm.
    pub(super) tokens: Vec<(ConnId, AlertToken)>,
    /// Proposals that were not answered.
    pub(super) proposed: Vec<ConnId>,
}

/// The port of a host.
fn path(number: u8) -> LocalPath {
    let (gid, mac) = (ipv4_gid([10, 0, 0, number]), Mac([2, 0, 0, 0, 0, number]));
    local_port(DEVICE, 1, gid, mac)
}

impl Side {
    pub(super) fn new(number: u8, configure: impl FnOnce(&mut Config)) -> Self {
        let path = path(number);
        let mut config = Config::new(PeerId::new(u16::from(number), path.mac));
        config.receive_buffer = BufferSize::K16;
        config.send_buffer = BufferSize::K16;
        // A group outlives its connections by one TEST LINK and no more.
        config.timeouts.group_idle_server = Duration::from_secs(40);
        config.timeouts.group_idle_client = Duration::from_secs(50);
        configure(&mut config);
        Self {
            endpoint: Endpoint::new(config, u64::from(number), Owned::new(LIMITS)),
            contract: Contract::new(u32::from(number) << 16),
            now: Instant::ZERO,
            path,
            conns: Vec::new(),
            groups: Vec::new(),
            pending: Vec::new(),
            wire: VecDeque::new(),
            large: Vec::new(),
            sent: Vec::new(),
            clc: VecDeque::new(),
            tokens: Vec::new(),
            proposed: Vec::new(),
        }
    }

    /// Opens a connection, if there is room.
    pub(super) fn open(&mut self, client: bool, options: ConnOptions) -> Option<ConnId> {
        let paths = [self.path];
        let opened = match client {
            true => self.endpoint.connect(self.now, options, &paths),
            false => self.endpoint.listen(self.now, options),
        };
        self.check();
        let id = opened.ok()?;
        assert!(self.conns.iter().all(|c| c.id != id), "{id} twice");
        self.conns.push(Conn {
            id,
            established: false,
            end: None,
            tcp: None,
            tcp_is_lost: false,
        });
        Some(id)
    }

    pub(super) fn conn(&mut self, id: ConnId) -> &mut Conn {
        let conn = self.conns.iter_mut().find(|c| c.id == id);
        conn.expect("a handle that was given out")
    }

    /// Whether the handle still names a connection that has not ended.
    pub(super) fn is_open(&self, id: ConnId) -> bool {
        self.conns.iter().any(|c| c.id == id && c.end.is_none())
    }

    /// What holds after every input and command.
    pub(super) fn check(&mut self) {
        let steps = self.endpoint.last_steps();
        assert!(steps <= MAX_STEPS, "{steps} steps");
        let usage = self.endpoint.usage();
        assert!(
            usage.connections as usize <= LIMITS.connections
                && usage.handshakes <= usage.connections
                && usage.groups as usize <= LIMITS.groups
                && usage.links <= 9 * usage.groups
                && usage.links as usize <= LIMITS.links
                && usage.buffers as usize <= LIMITS.buffers
                && usage.remote_rmbs as usize <= LIMITS.remote_rmbs,
            "{usage:?}"
        );
    }

    /// What holds for every connection that can be read and written.
    pub(super) fn check_conns(&mut self) {
        for at in 0..self.conns.len() {
            let Some(conn) = self.endpoint.conn(self.conns[at].id) else {
                continue;
            };
            let (space, readable) = (conn.send_space(), conn.readable());
            for spans in [space, readable].into_iter().flatten() {
                if spans.is_empty() || !self.contract.trusted {
                    continue;
                }
                let memory = self.contract.memory(spans.buffer).len();
                assert!(spans.len() <= BufferSize::K16.octets(), "{spans:?}");
                for piece in spans.segments {
                    assert!(piece.offset as usize + piece.length as usize <= memory);
                }
            }
        }
    }

    /// Notifies the engine of an event of a TCP connection.
    pub(super) fn tcp(&mut self, id: ConnId, event: TcpEvent) {
        trace(format_args!("{:?} {id}: {event:?}", self.now));
        self.conn(id).tcp_is_lost |= event != TcpEvent::PeerFin;
        self.endpoint.handle_tcp(self.now, id, event);
        self.check();
    }

    /// Gives the engine a completion of an RNIC.
    pub(super) fn rdma(&mut self, completion: RdmaCompletion<'_>) {
        trace(format_args!("{:?} {completion:?}", self.now));
        self.endpoint.handle_rdma(self.now, completion);
        self.check();
    }

    /// Answers a control command.
    pub(super) fn complete(&mut self, at: usize, success: bool) {
        if at >= self.pending.len() {
            return;
        }
        let command = self.pending.remove(at);
        let ended = match command {
            RdmaCommand::QpToError { link } | RdmaCommand::DestroyQp { link } => Some(link),
            _ => None,
        };
        if let Some(gone) = ended {
            let of = |command: &RdmaCommand| match *command {
                RdmaCommand::Write { link, .. } | RdmaCommand::Send { link, .. } => link == gone,
                _ => false,
            };
            self.wire.retain(|command| !of(command));
            self.sent.retain(|(link, _)| *link != gone);
        }
        let completion = match success {
            true => self.contract.done(&command),
            false => self.contract.refused(&command),
        };
        self.rdma(completion.expect("a control command"));
    }

    /// Reports a SEND, and with it all before it on its link.
    pub(super) fn report(&mut self, at: usize) {
        if at >= self.sent.len() {
            return;
        }
        let (link, wr_id) = self.sent.remove(at);
        self.contract.sent(link, wr_id);
        self.rdma(RdmaCompletion::Sent { link, wr_id });
    }

    /// Moves the time and lets timers fire.
    pub(super) fn advance(&mut self, by: Duration) {
        self.now = self.now.after(by);
        trace(format_args!("time {:?}", self.now));
        self.endpoint.handle_timeout(self.now);
        self.check();
        let next = self.endpoint.poll_timeout();
        assert!(
            next.is_none_or(|deadline| deadline > self.now),
            "{next:?} is due after handle_timeout at {:?}",
            self.now
        );
    }

    /// Time until the next deadline.
    pub(super) fn until_next(&mut self) -> Option<Duration> {
        let deadline = self.endpoint.poll_timeout()?;
        Some(deadline.since(self.now))
    }

    /// What is left of the engine when everything ended.
    pub(super) fn is_empty(&mut self) -> bool {
        let usage = self.endpoint.usage();
        let objects = usage.links + usage.buffers + usage.remote_rmbs;
        usage.connections + usage.handshakes + usage.groups + objects == 0
    }
}
