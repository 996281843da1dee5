//! An RNIC of which a test can have commands held back or refused. An engine that breaks
//! the contract is found out.

use smc_proto::command::{QpAddress, RdmaCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::id::{BufferId, LinkId};
use smc_proto::wire::types::{Gid, Mac, Mtu, Qpn};

use crate::rig::{Kind, Memory, Nic, QpState};

/// An RNIC, and how it is to behave.
#[derive(Clone, Debug, Default)]
pub struct Adapter<M = ()> {
    pub(crate) nic: Nic<M>,
    /// Queue pairs that were connected: the peer's address, and the MTU.
    pub connected: Vec<(QpAddress, Mtu)>,
    refuse: Vec<(Kind, u32)>,
    /// Answers to this kind of command are kept back.
    pub hold: Option<Kind>,
    /// If set, only those for this link.
    pub hold_link: Option<LinkId>,
    pub(crate) held: Vec<RdmaCommand>,
    asked: [usize; 12],
}

/// What becomes of a command.
pub(crate) enum Answered {
    /// The command is held back.
    Held,
    /// The command was refused.
    Refused(Option<RdmaCompletion<'static>>),
    /// The command was executed.
    Done(Option<RdmaCompletion<'static>>),
}

impl<M: Memory> Adapter<M> {
    /// How many commands of a kind were given.
    #[must_use]
    pub fn asked(&self, kind: Kind) -> usize {
        self.asked[kind as usize]
    }

    /// Buffers, and the links on whose protection domains they are registered.
    pub fn registrations(&self) -> impl Iterator<Item = (BufferId, Vec<LinkId>)> + '_ {
        self.nic.buffers().map(|b| (b.id, b.links().collect()))
    }

    /// Refuses the `number`-th command of a kind from now on, counted from 1.
    pub fn refuse(&mut self, kind: Kind, number: u32) {
        self.refuse.push((kind, number));
    }

    /// The link whose queue pair has this number.
    pub(crate) fn link_of(&self, qpn: Qpn) -> Option<LinkId> {
        self.nic.numbered(qpn).map(|qp| qp.link)
    }

    /// The peer's end of a link that was connected.
    pub(super) fn peer_of(&self, link: LinkId) -> (Qpn, Gid, Mac) {
        let bound = self.nic.qp(link).and_then(|qp| qp.bound);
        let peer = bound.expect("a link that was connected").peer;
        (peer.qpn, peer.gid, peer.mac)
    }

    /// Whether the answer to a command is kept back.
    fn holds(&self, command: &RdmaCommand) -> bool {
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
        let up = QpState::Init..QpState::Error;
        let qps = self.nic.qps().filter(move |qp| up.contains(&qp.state));
        qps.map(|qp| qp.link)
    }

    /// Number of queue pairs, broken ones included.
    #[must_use]
    pub fn queue_pairs(&self) -> usize {
        let made = |state| state > QpState::Requested;
        self.nic.qps().filter(|qp| made(qp.state)).count()
    }

    fn must_refuse(&mut self, kind: Kind) -> bool {
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

    /// Checks a command, and executes it unless it is to be refused or held back.
    pub(crate) fn issue(&mut self, command: &RdmaCommand) -> Result<Answered, String> {
        let kind = Kind::of(command);
        self.asked[kind as usize] += 1;
        self.nic.issue(command)?;
        Ok(if self.must_refuse(kind) {
            Answered::Refused(self.nic.refused(command))
        } else if self.holds(command) {
            self.held.push(*command);
            Answered::Held
        } else {
            Answered::Done(self.done(command))
        })
    }

    /// Executes a command.
    pub(crate) fn done(&mut self, command: &RdmaCommand) -> Option<RdmaCompletion<'static>> {
        if let RdmaCommand::ConnectQp { peer, mtu, .. } = *command {
            self.connected.push((peer, mtu));
        }
        self.nic.done(command)
    }

    /// Whether everything was given back, or what was not.
    pub fn is_empty(&self) -> Result<(), String> {
        self.nic.is_empty()
    }
}
