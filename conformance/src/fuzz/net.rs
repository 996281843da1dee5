//! Two endpoints, and between them TCP streams and queue pairs that move only
//! on a call.

mod tcp;

use smc_proto::command::{RdmaCommand, Segment};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::config::Config;
use smc_proto::endpoint::ConnOptions;
use smc_proto::id::{ConnId, LinkId};
use smc_proto::time::Duration;
use smc_proto::wire::types::RKey;

use super::contract::QueuePair;
use super::side::Side;
use crate::rig::QpState;
use tcp::Stream;

pub(super) use tcp::GREETING;

/// A TCP connection between the two hosts, by sending side.
#[derive(Clone, Debug)]
pub(super) struct Tcp {
    pub(super) ids: [ConnId; 2],
    streams: [Stream; 2],
    /// Something other than the two engines happened to it.
    pub(super) disturbed: bool,
}

/// Two hosts; 0 is the client.
#[derive(Clone, Debug)]
pub(super) struct Net {
    pub(super) sides: [Side; 2],
    pub(super) tcp: Vec<Tcp>,
}

impl Net {
    pub(super) fn new(configure: impl Fn(usize, &mut Config)) -> Self {
        Self {
            sides: [
                Side::new(1, |config| configure(0, config)),
                Side::new(2, |config| configure(1, config)),
            ],
            tcp: Vec::new(),
        }
    }

    /// Opens a connection, if there is room at both ends.
    pub(super) fn open(&mut self, options: &ConnOptions) -> Option<usize> {
        let client = self.sides[0].open(true, options.clone())?;
        let Some(server) = self.sides[1].open(false, options.clone()) else {
            let now = self.sides[0].now;
            if let Some(mut conn) = self.sides[0].endpoint.conn(client) {
                conn.abort(now);
            }
            return None;
        };
        self.tcp.push(Tcp {
            ids: [client, server],
            streams: Default::default(),
            disturbed: false,
        });
        Some(self.tcp.len() - 1)
    }

    /// Drains a side, and lets its TCP commands take effect: whether there were any.
    pub(super) fn poll(&mut self, side: usize, commands: usize) -> bool {
        let mut executed = false;
        self.sides[side].poll(commands);
        while let Some((id, bytes)) = self.sides[side].clc.pop_front() {
            let at = self.tcp.iter().rposition(|tcp| tcp.ids[side] == id);
            if let Some(at) = at {
                self.tcp[at].streams[side].sent.extend(bytes);
            }
        }
        for at in 0..self.tcp.len() {
            let command = self.sides[side].conn(self.tcp[at].ids[side]).tcp;
            if command != self.tcp[at].streams[side].command {
                let stream = &mut self.tcp[at].streams[side];
                let first = stream.command.is_none();
                stream.command = command;
                self.execute(at, side, command, first);
                executed = true;
            }
        }
        executed
    }

    /// The state of the queue pair at the other end of a link, and its handle.
    fn other_end(&self, side: usize, link: LinkId) -> Option<(LinkId, QpState)> {
        let to = self.sides[side].contract.nic.qp(link)?.bound?.peer.qpn;
        let other = self.sides[1 - side].contract.nic.numbered(to)?;
        (!other.work).then_some((other.link, other.state))
    }

    /// Executes the oldest WRITE or SEND of a side: whether anything happened.
    pub(super) fn deliver(&mut self, side: usize) -> bool {
        let link = match self.sides[side].wire.front() {
            Some(RdmaCommand::Write { link, .. } | RdmaCommand::Send { link, .. }) => *link,
            _ => return false,
        };
        let qp = self.sides[side].contract.nic.qp(link);
        if qp.is_none_or(|qp| qp.state != QpState::Rts) {
            self.sides[side].wire.pop_front();
            return true;
        }
        let target = match self.other_end(side, link) {
            Some((target, QpState::Rtr | QpState::Rts)) => target,
            Some((_, QpState::Init)) => return false,
            _ => {
                self.fail(side, link);
                return true;
            }
        };
        match self.sides[side].wire.pop_front() {
            Some(RdmaCommand::Write {
                buffer,
                source,
                rkey,
                address,
                ..
            }) => {
                let memory = self.sides[side].contract.memory(buffer);
                let mut bytes = Vec::new();
                for Segment { offset, length } in source {
                    bytes.extend(memory.read(offset as usize, length as usize));
                }
                self.write(1 - side, target, rkey, address, &bytes);
            }
            Some(RdmaCommand::Send { wr_id, payload, .. }) => {
                let link = target;
                self.sides[1 - side].rdma(RdmaCompletion::Received {
                    link,
                    payload: &payload,
                });
                self.sides[side]
                    .sent
                    .push((self.link_of(side, link), wr_id));
            }
            _ => {}
        }
        true
    }

    /// The link of a side whose other end this is.
    fn link_of(&self, side: usize, other: LinkId) -> LinkId {
        let qpn = self.sides[1 - side].contract.nic.qp(other).map(|qp| qp.qpn);
        let bound = |qp: &QueuePair| qp.bound.map(|bound| bound.peer.qpn);
        let contract = &self.sides[side].contract;
        let link = contract.newest(|qp| bound(qp) == qpn && qp.state == QpState::Rts);
        link.expect("the link that carried it")
    }

    /// A WRITE arrives: it must lie inside one element of memory that was
    /// granted on this link.
    fn write(&mut self, to: usize, link: LinkId, rkey: RKey, address: u64, bytes: &[u8]) {
        let contract = &mut self.sides[to].contract;
        let named = contract.nic.registered(link, rkey);
        let (named, base) = named.expect("a key that was given out for the link");
        let (id, element) = (named.id, named.element_size as usize);
        let start = address.checked_sub(base);
        let start = start.expect("an address given out");
        let start = usize::try_from(start).expect("an address given out");
        let end = start + bytes.len();
        let memory = contract.memory(id);
        assert!(end <= memory.len() && start / element == (end - 1) / element);
        memory.write(start, bytes);
    }

    /// A link of a side breaks.
    pub(super) fn fail(&mut self, side: usize, link: LinkId) {
        let host = &mut self.sides[side];
        let up = |qp: &&mut QueuePair| !qp.work && qp.state == QpState::Rts;
        let Some(qp) = host.contract.nic.qp_mut(link).filter(up) else {
            return;
        };
        qp.work = true;
        let of = |command: &RdmaCommand| match *command {
            RdmaCommand::Write { link: l, .. } | RdmaCommand::Send { link: l, .. } => l == link,
            _ => false,
        };
        host.wire.retain(|command| !of(command));
        host.sent.retain(|(l, _)| *l != link);
        host.rdma(RdmaCompletion::LinkFailed {
            link,
            cause: LinkFailure::RetriesExhausted,
            conn: None,
        });
    }

    /// Answers the Proposals that arrived.
    pub(super) fn accept(&mut self) {
        let host = &mut self.sides[1];
        for conn in std::mem::take(&mut host.proposed) {
            let _ = host.endpoint.accept(host.now, conn, &[host.path]);
            host.check();
        }
    }

    /// Everything moves until nothing does, without time passing.
    pub(super) fn run_until_idle(&mut self) {
        for _ in 0..1000 {
            let mut moved = false;
            for side in 0..2 {
                moved |= self.poll(side, usize::MAX);
                while !self.sides[side].pending.is_empty() {
                    self.sides[side].complete(0, true);
                    moved = true;
                }
                while self.deliver(side) {
                    moved = true;
                }
                while !self.sides[side].sent.is_empty() {
                    self.sides[side].report(0);
                    moved = true;
                }
                for at in 0..self.tcp.len() {
                    moved |= self.move_bytes(at, side, usize::MAX);
                }
            }
            moved |= !self.sides[1].proposed.is_empty();
            self.accept();
            if !moved {
                return;
            }
        }
        panic!("two honest endpoints never come to rest");
    }

    pub(super) fn advance(&mut self, by: Duration) {
        for side in &mut self.sides {
            side.advance(by);
        }
    }

    /// Time until the next deadline of either side.
    pub(super) fn until_next(&mut self) -> Option<Duration> {
        let [a, b] = self.sides.each_mut().map(Side::until_next);
        a.into_iter().chain(b).min()
    }

    /// Settles, and lets time pass up to `limit`.
    pub(super) fn run(&mut self, limit: Duration) {
        let mut left = limit;
        self.run_until_idle();
        while let Some(by) = self.until_next().filter(|by| *by <= left) {
            left -= by;
            self.advance(by);
            self.run_until_idle();
        }
    }

    /// Closes what is open and waits until nothing is left at either side.
    pub(super) fn wind_down(&mut self) {
        for side in 0..2 {
            let host = &mut self.sides[side];
            for id in host.conns.iter().map(|c| c.id).collect::<Vec<_>>() {
                if let Some(mut conn) = host.endpoint.conn(id) {
                    conn.shutdown(host.now, smc_proto::connection::Shutdown::Both);
                }
            }
        }
        self.run_until_idle();
        for _ in 0..300 {
            if self.sides[0].is_empty() && self.sides[1].is_empty() {
                break;
            }
            let by = self.until_next().unwrap_or_default();
            self.advance(by);
            self.run_until_idle();
        }
        for side in &mut self.sides {
            let usage = side.endpoint.usage();
            assert!(side.is_empty(), "{usage:?} left");
            side.contract.check_empty();
            let open = side.conns.iter().find(|c| c.end.is_none());
            assert!(open.is_none(), "{open:?} never ended");
        }
    }
}
