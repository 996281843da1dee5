//! An adapter of memory that does not exist and queue pairs to nowhere. It knows which
//! command is allowed when, so that an engine that breaks the contract is found out.

use core::fmt;
use std::collections::BTreeMap;

use smc_proto::command::{QpAddress, RdmaCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::id::{BufferId, LinkId};
use smc_proto::wire::types::{Gid, Mac, Mtu, Qpn, RKey, RToken};

/// Kinds of commands, named as the commands are.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    CreateQp,
    ConnectQp,
    ActivateQp,
    QpToError,
    DestroyQp,
    Alloc,
    Register,
    Deregister,
    Free,
    Clear,
    Write,
    Send,
}

impl Kind {
    /// All that are answered by a completion of their own.
    pub const CONTROL: [Self; 10] = [
        Self::CreateQp,
        Self::ConnectQp,
        Self::ActivateQp,
        Self::QpToError,
        Self::DestroyQp,
        Self::Alloc,
        Self::Register,
        Self::Deregister,
        Self::Free,
        Self::Clear,
    ];

    /// Kind of a command.
    #[must_use]
    pub const fn of(command: &RdmaCommand) -> Self {
        match command {
            RdmaCommand::CreateQp { .. } => Self::CreateQp,
            RdmaCommand::ConnectQp { .. } => Self::ConnectQp,
            RdmaCommand::ActivateQp { .. } => Self::ActivateQp,
            RdmaCommand::QpToError { .. } => Self::QpToError,
            RdmaCommand::DestroyQp { .. } => Self::DestroyQp,
            RdmaCommand::AllocBuffer { .. } => Self::Alloc,
            RdmaCommand::RegisterBuffer { .. } => Self::Register,
            RdmaCommand::DeregisterBuffer { .. } => Self::Deregister,
            RdmaCommand::FreeBuffer { .. } => Self::Free,
            RdmaCommand::ClearElement { .. } => Self::Clear,
            RdmaCommand::Write { .. } => Self::Write,
            RdmaCommand::Send { .. } | RdmaCommand::SendLarge { .. } => Self::Send,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Debug)]
enum Qp {
    Init,
    Rtr,
    Rts,
    Error,
}

/// What an adapter holds and how it is to behave.
#[derive(Clone, Debug, Default)]
pub struct Adapter {
    qps: BTreeMap<LinkId, Qp>,
    /// Queue pairs that were connected: the peer's address, and the MTU.
    pub connected: Vec<(QpAddress, Mtu)>,
    buffers: BTreeMap<BufferId, Vec<LinkId>>,
    refuse: Vec<(Kind, u32)>,
    /// Answers to this kind of command are kept back.
    pub hold: Option<Kind>,
    /// If set, only those for this link.
    pub hold_link: Option<LinkId>,
    qpns: BTreeMap<u32, LinkId>,
    peers: BTreeMap<LinkId, QpAddress>,
    pub(crate) held: Vec<RdmaCommand>,
    /// Buffers that were asked for with eye catchers.
    pub marked: usize,
    next_qpn: u32,
    next_key: u32,
    asked: [usize; 12],
}

impl Adapter {
    /// How many commands of a kind were given.
    #[must_use]
    pub fn asked(&self, kind: Kind) -> usize {
        self.asked[kind as usize]
    }

    pub(crate) fn count(&mut self, kind: Kind) {
        self.asked[kind as usize] += 1;
    }

    /// Buffers, and the links on whose protection domains they are registered.
    pub fn registrations(&self) -> impl Iterator<Item = (BufferId, &[LinkId])> + '_ {
        let buffers = self.buffers.iter();
        buffers.map(|(buffer, links)| (*buffer, links.as_slice()))
    }

    /// Refuses the `number`-th command of a kind from now on, counted from 1.
    pub fn refuse(&mut self, kind: Kind, number: u32) {
        self.refuse.push((kind, number));
    }

    /// The link whose queue pair has this number.
    pub(super) fn link_of(&self, qpn: Qpn) -> Option<LinkId> {
        self.qpns.get(&qpn.value()).copied()
    }

    /// The peer's end of a link that was connected.
    pub(super) fn peer_of(&self, link: LinkId) -> (Qpn, Gid, Mac) {
        let peer = self.peers.get(&link).expect("a link that was connected");
        (peer.qpn, peer.gid, peer.mac)
    }

    /// Whether the answer to a command is kept back.
    pub(crate) fn holds(&self, command: &RdmaCommand) -> bool {
        let concerned = match (self.hold_link, command) {
            (None, _) => true,
            (
                Some(wanted),
                RdmaCommand::CreateQp { link, .. }
                | RdmaCommand::ConnectQp { link, .. }
                | RdmaCommand::ActivateQp { link, .. }
                | RdmaCommand::QpToError { link }
                | RdmaCommand::DestroyQp { link }
                | RdmaCommand::RegisterBuffer { link, .. }
                | RdmaCommand::DeregisterBuffer { link, .. }
                | RdmaCommand::Write { link, .. }
                | RdmaCommand::Send { link, .. }
                | RdmaCommand::SendLarge { link, .. },
            ) => *link == wanted,
            _ => false,
        };
        concerned && self.hold == Some(Kind::of(command))
    }

    /// Links with a queue pair, oldest first.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.qps
            .iter()
            .filter(|(_, state)| **state != Qp::Error)
            .map(|(link, _)| *link)
    }

    /// Number of queue pairs, broken ones included.
    #[must_use]
    pub fn queue_pairs(&self) -> usize {
        self.qps.len()
    }

    pub(crate) fn must_refuse(&mut self, kind: Kind) -> bool {
        let mut strikes = false;
        self.refuse.retain_mut(|(refused, left)| {
            if *refused == kind {
                *left -= 1;
            }
            strikes |= *left == 0;
            *left > 0
        });
        strikes
    }

    pub(crate) fn refusal(command: &RdmaCommand) -> Option<RdmaCompletion<'static>> {
        Some(match *command {
            RdmaCommand::CreateQp { link, .. }
            | RdmaCommand::ConnectQp { link, .. }
            | RdmaCommand::ActivateQp { link, .. }
            | RdmaCommand::QpToError { link }
            | RdmaCommand::DestroyQp { link } => RdmaCompletion::LinkRefused { link },
            RdmaCommand::AllocBuffer { buffer, .. }
            | RdmaCommand::RegisterBuffer { buffer, .. }
            | RdmaCommand::DeregisterBuffer { buffer, .. }
            | RdmaCommand::FreeBuffer { buffer }
            | RdmaCommand::ClearElement { buffer, .. } => RdmaCompletion::BufferRefused { buffer },
            RdmaCommand::Write { .. }
            | RdmaCommand::Send { .. }
            | RdmaCommand::SendLarge { .. } => return None,
        })
    }

    /// Nothing is asked of an RNIC that cannot be taken back: what is refused
    /// there counts as gone.
    pub(crate) fn on_refused(&mut self, command: &RdmaCommand) {
        match *command {
            RdmaCommand::QpToError { .. }
            | RdmaCommand::DestroyQp { .. }
            | RdmaCommand::DeregisterBuffer { .. }
            | RdmaCommand::FreeBuffer { .. } => {
                self.carry_out(command);
            }
            _ => {}
        }
    }

    /// Whether a command is allowed now (seam contract).
    pub(crate) fn check(&self, command: &RdmaCommand) -> Result<(), String> {
        let qp = |link: &LinkId| self.qps.get(link).copied();
        let want = |allowed: bool, what: &str| {
            allowed
                .then_some(())
                .ok_or_else(|| format!("contract broken, {what}: {command:?}"))
        };
        match command {
            RdmaCommand::CreateQp { link, .. } => want(qp(link).is_none(), "it exists"),
            RdmaCommand::ConnectQp { link, .. } => want(qp(link) == Some(Qp::Init), "not INIT"),
            RdmaCommand::ActivateQp { link, .. } => want(qp(link) == Some(Qp::Rtr), "not RTR"),
            RdmaCommand::QpToError { link } => want(qp(link).is_some(), "no queue pair"),
            RdmaCommand::DestroyQp { link } => {
                want(qp(link) == Some(Qp::Error), "not drained")?;
                let registered = self.buffers.values().any(|links| links.contains(link));
                want(!registered, "buffers are registered")
            }
            RdmaCommand::AllocBuffer { buffer, .. } => {
                want(!self.buffers.contains_key(buffer), "it exists")
            }
            RdmaCommand::RegisterBuffer { buffer, link } => {
                want(qp(link).is_some_and(|q| q < Qp::Error), "no queue pair")?;
                let links = self.buffers.get(buffer);
                want(links.is_some_and(|l| !l.contains(link)), "no such memory")
            }
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                let links = self.buffers.get(buffer);
                want(links.is_some_and(|l| l.contains(link)), "not registered")
            }
            RdmaCommand::FreeBuffer { buffer } => {
                let links = self.buffers.get(buffer);
                want(links.is_some_and(Vec::is_empty), "still registered")
            }
            RdmaCommand::ClearElement { buffer, .. } => {
                want(self.buffers.contains_key(buffer), "no such memory")
            }
            RdmaCommand::Write { link, buffer, .. } => {
                want(qp(link) == Some(Qp::Rts), "not RTS")?;
                let links = self.buffers.get(buffer);
                want(links.is_some_and(|l| l.contains(link)), "not registered")
            }
            RdmaCommand::Send { link, .. } | RdmaCommand::SendLarge { link, .. } => {
                want(qp(link) == Some(Qp::Rts), "not RTS")
            }
        }
    }

    pub(crate) fn carry_out(&mut self, command: &RdmaCommand) -> Option<RdmaCompletion<'static>> {
        Some(match *command {
            RdmaCommand::CreateQp { link, .. } => {
                self.qps.insert(link, Qp::Init);
                self.next_qpn += 1;
                let qpn = Qpn::new(self.next_qpn);
                self.qpns.insert(self.next_qpn, link);
                RdmaCompletion::QpCreated { link, qpn }
            }
            RdmaCommand::ConnectQp {
                link, peer, mtu, ..
            } => {
                self.qps.insert(link, Qp::Rtr);
                self.connected.push((peer, mtu));
                self.peers.insert(link, peer);
                RdmaCompletion::QpConnected { link }
            }
            RdmaCommand::ActivateQp { link, .. } => {
                self.qps.insert(link, Qp::Rts);
                RdmaCompletion::QpActive { link }
            }
            RdmaCommand::QpToError { link } => {
                self.qps.insert(link, Qp::Error);
                RdmaCompletion::QpDrained { link }
            }
            RdmaCommand::DestroyQp { link } => {
                self.qps.remove(&link);
                RdmaCompletion::QpDestroyed { link }
            }
            RdmaCommand::AllocBuffer {
                buffer,
                eye_catcher,
                ..
            } => {
                self.marked += usize::from(eye_catcher);
                self.buffers.insert(buffer, Vec::new());
                RdmaCompletion::BufferAllocated { buffer }
            }
            RdmaCommand::RegisterBuffer { buffer, link } => {
                if let Some(links) = self.buffers.get_mut(&buffer) {
                    links.push(link);
                }
                self.next_key += 1;
                RdmaCompletion::BufferRegistered {
                    buffer,
                    link,
                    rtoken: RToken {
                        rkey: RKey(self.next_key),
                        address: 0x1000,
                    },
                }
            }
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                if let Some(links) = self.buffers.get_mut(&buffer) {
                    links.retain(|other| *other != link);
                }
                RdmaCompletion::BufferDeregistered { buffer, link }
            }
            RdmaCommand::FreeBuffer { buffer } => {
                self.buffers.remove(&buffer);
                RdmaCompletion::BufferFreed { buffer }
            }
            RdmaCommand::ClearElement { buffer, offset, .. } => {
                RdmaCompletion::ElementCleared { buffer, offset }
            }
            RdmaCommand::Send { link, wr_id, .. } | RdmaCommand::SendLarge { link, wr_id, .. } => {
                // What was posted before a failure is flushed with it.
                let alive = self.qps.get(&link) == Some(&Qp::Rts);
                return alive.then_some(RdmaCompletion::Sent { link, wr_id });
            }
            RdmaCommand::Write { .. } => return None,
        })
    }

    /// Whether everything was given back, or what was not.
    pub fn is_empty(&self) -> Result<(), String> {
        if self.qps.is_empty() && self.buffers.is_empty() {
            return Ok(());
        }
        Err(format!("{:?} {:?}", self.qps, self.buffers))
    }
}
