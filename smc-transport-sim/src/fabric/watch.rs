//! Follows link groups from outside: by events of queue pairs and by messages, without the state
//! of an engine.
//!
//! Two queue pairs bound to each other are a link. A further link joins the group of the link that
//! carried its ADD LINK. The phase of a group is derived from the LLC and CDC messages that are
//! posted and that arrive. Faults are counted by that phase, and the oracle excuses links and hosts
//! that a fault has disturbed.

use std::collections::{BTreeMap, BTreeSet};

use smc_proto::time::{Duration, Instant};
use smc_proto::wire::cdc::{Cdc, ProducerFlags};
use smc_proto::wire::llc::{LlcMessage, version_of};
use smc_proto::wire::types::Qpn;

use super::lives::LinkRecord;
use super::queue_pair::{QueuePairId, QueuePairState, Work};
use super::{Fabric, HostId, WorkOwner};
use crate::fault::Phase;

/// Number of a link group in the simulation, the same for both ends. Not on the wire.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct FabricGroup(pub u32);

/// An interval in which a fault delayed a host so much that its timers may expire without a fault of
/// the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HostHarm {
    /// The host.
    pub host: HostId,
    /// When it began.
    pub from: Instant,
    /// Latest end of the interval.
    pub until: Instant,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Watch {
    next_group: u32,
    groups: BTreeMap<u32, GroupWatch>,
    /// Group of each queue pair, those that were destroyed included.
    pub(super) group_of: BTreeMap<QueuePairId, u32>,
    pub(super) links: Vec<LinkRecord>,
    /// Index of each queue pair's link in `links`.
    pub(super) link_of: BTreeMap<QueuePairId, usize>,
    /// Queue pairs that a fault disturbed before both ends were ready to send.
    harmed_early: BTreeMap<QueuePairId, Instant>,
    harmed_hosts: Vec<HostHarm>,
    lost_writes: BTreeSet<(HostId, WorkOwner)>,
    /// Alert tokens of CDC messages that were lost.
    lost_tokens: BTreeSet<(HostId, u32)>,
}

#[derive(Clone, Copy, Debug)]
struct GroupWatch {
    /// First contact is complete: a reply to CONFIRM LINK has arrived.
    formed: bool,
    /// The exchange of LLC messages that goes on, with the time of its last message.
    exchange: Option<(Phase, Instant)>,
    /// End of the time in which data counts as in flight.
    data_until: Instant,
    /// End of the time in which a connection counts as closing.
    closing_until: Instant,
    /// End of the time in which a failover counts as going on.
    failing_over_until: Instant,
}

/// Time after which an exchange without an answer is over.
const EXCHANGE: Duration = Duration::from_secs(5);
/// Time that data, a close or the validation of a failover counts as in flight after its message.
pub(super) const RECENT: Duration = Duration::from_millis(1);
/// Time that a failover counts as going on after the loss of the link.
const FAILOVER: Duration = Duration::from_millis(20);
/// A delay below this excuses nothing: every timeout of the engine is longer.
pub(super) const TOLERATED_DELAY: Duration = Duration::from_secs(1);

impl Watch {
    /// A queue pair was created: it is a group of its own until more is known.
    pub(super) fn created(&mut self, id: QueuePairId, further: bool) {
        let group = self.next_group;
        self.next_group += 1;
        let watch = GroupWatch {
            formed: false,
            exchange: further.then_some((Phase::AddingLink, Instant::MAX)),
            data_until: Instant::ZERO,
            closing_until: Instant::ZERO,
            failing_over_until: Instant::ZERO,
        };
        self.groups.insert(group, watch);
        self.group_of.insert(id, group);
        self.link_of.remove(&id);
        self.harmed_early.remove(&id);
    }

    /// Two queue pairs belong to one group: that of the first one.
    fn unite(&mut self, one: QueuePairId, other: QueuePairId) {
        let (Some(&kept), Some(&gone)) = (self.group_of.get(&one), self.group_of.get(&other))
        else {
            return;
        };
        if kept == gone {
            return;
        }
        for group in self.group_of.values_mut().filter(|group| **group == gone) {
            *group = kept;
        }
        for link in &mut self.links {
            if link.group.0 == gone {
                link.group.0 = kept;
            }
        }
        self.groups.remove(&gone);
    }

    fn group_mut(&mut self, id: QueuePairId) -> Option<&mut GroupWatch> {
        self.groups.get_mut(self.group_of.get(&id)?)
    }

    fn phase(&self, id: QueuePairId, state: Option<QueuePairState>, now: Instant) -> Phase {
        let group = self.group_of.get(&id).and_then(|g| self.groups.get(g));
        let Some(group) = group else {
            return Phase::Handshake;
        };
        let exchange = group
            .exchange
            .filter(|(_, since)| now.since(*since) < EXCHANGE);
        let ready = state == Some(QueuePairState::ReadyToSend);
        if let Some((Phase::DeletingLink, _)) = exchange {
            // Each failover begins with one.
            Phase::DeletingLink
        } else if group.failing_over_until > now {
            Phase::FailingOver
        } else if let Some((phase, _)) = exchange {
            phase
        } else if !group.formed {
            if ready {
                Phase::FirstContact
            } else {
                Phase::Handshake
            }
        } else if group.closing_until > now {
            Phase::Closing
        } else if group.data_until > now {
            Phase::Data
        } else {
            Phase::Idle
        }
    }
}

/// What an LLC message begins or carries on; `None` for those that do neither.
const fn exchange_of(message: &LlcMessage<'_>, formed: bool) -> Option<Phase> {
    Some(match message {
        LlcMessage::ConfirmLink(_) if !formed => Phase::FirstContact,
        LlcMessage::ConfirmLink(_)
        | LlcMessage::AddLink(_)
        | LlcMessage::AddLinkContinuation(_) => Phase::AddingLink,
        LlcMessage::DeleteLink(_) => Phase::DeletingLink,
        LlcMessage::ConfirmRkey(_)
        | LlcMessage::ConfirmRkeyContinuation(_)
        | LlcMessage::DeleteRkey(_) => Phase::Rkeys,
        LlcMessage::RequestAddLink(_) | LlcMessage::TestLink(_) => return None,
    })
}

impl Fabric {
    /// Lives of all links there were.
    #[must_use]
    pub fn links(&self) -> &[LinkRecord] {
        &self.watch.links
    }

    /// The group a queue pair belongs or belonged to.
    #[must_use]
    pub fn group_of(&self, host: HostId, qpn: Qpn) -> Option<FabricGroup> {
        let id = QueuePairId { host, qpn };
        self.watch.group_of.get(&id).copied().map(FabricGroup)
    }

    /// When faults harmed hosts as a whole.
    #[must_use]
    pub fn harmed_hosts(&self) -> &[HostHarm] {
        &self.watch.harmed_hosts
    }

    /// Whether a WRITE that a host posted for `owner` was acknowledged and not
    /// placed.
    #[must_use]
    pub fn lost_write(&self, host: HostId, owner: WorkOwner) -> bool {
        self.watch.lost_writes.contains(&(host, owner))
    }

    /// Whether a CDC message to a host, for the connection with this alert token,
    /// was acknowledged and not received.
    #[must_use]
    pub fn lost_message(&self, host: HostId, alert_token: u32) -> bool {
        self.watch.lost_tokens.contains(&(host, alert_token))
    }

    /// A fault makes a host so late that its waits may expire, for so long.
    pub fn harm_host(&mut self, host: HostId, time: Duration) {
        let from = self.queue.now();
        let until = from.after(time);
        let harm = HostHarm { host, from, until };
        self.watch.harmed_hosts.push(harm);
    }

    pub(super) fn harm_link(&mut self, id: QueuePairId) {
        let now = self.queue.now();
        let record = self.watch.link_of.get(&id).copied();
        if let Some(record) = record.and_then(|record| self.watch.links.get_mut(record)) {
            record.harmed.get_or_insert(now);
        } else {
            // What was refused for it then it lacks later.
            self.watch.harmed_early.entry(id).or_insert(now);
        }
    }

    /// What the group of a queue pair is doing.
    pub(super) fn phase_of(&self, id: QueuePairId) -> Phase {
        let state = self.queue_pairs.get(&id).map(|queue_pair| queue_pair.state);
        self.watch.phase(id, state, self.queue.now())
    }

    /// Returns what a host is doing: the most significant of what its groups and its TCP
    /// connections do.
    pub(super) fn phase_of_host(&self, host: HostId) -> Phase {
        let now = self.queue.now();
        let mine = self.queue_pairs.range(QueuePairId::all_of(host));
        let groups = mine.map(|(id, q)| self.watch.phase(*id, Some(q.state), now));
        let handshake = self.tcp.in_rendezvous(host).then_some(Phase::Handshake);
        groups
            .chain(self.ism.phase(host, now))
            .chain(handshake)
            .max_by_key(|phase| phase.weight())
            .unwrap_or(Phase::Idle)
    }

    pub(super) fn watch_created(&mut self, id: QueuePairId) {
        let mut mine = self.queue_pairs.range(QueuePairId::all_of(id.host));
        let formed = mine.any(|(other, _)| {
            let group = self.watch.group_of.get(other);
            group
                .and_then(|g| self.watch.groups.get(g))
                .is_some_and(|g| g.formed)
        });
        let further = formed && !self.tcp.in_rendezvous(id.host);
        self.watch.created(id, further);
    }

    /// A queue pair was bound to its peer or became ready to send.
    pub(super) fn watch_bound(&mut self, id: QueuePairId) {
        let Some(peer) = self.peer_of(id) else {
            return;
        };
        self.watch.unite(peer, id);
        let ready = |id| {
            let queue_pair = self.queue_pairs.get(&id);
            queue_pair.is_some_and(|q| q.state == QueuePairState::ReadyToSend)
        };
        if ready(id)
            && ready(peer)
            && let Some(&group) = self.watch.group_of.get(&id)
        {
            let number = self.watch.links.len();
            let hosts = [id.host, peer.host];
            let mut record = LinkRecord::new(FabricGroup(group), hosts, self.queue.now());
            let early = [id, peer].map(|end| self.watch.harmed_early.remove(&end));
            record.harmed = early.into_iter().flatten().min();
            self.watch.links.push(record);
            self.watch.link_of.insert(id, number);
            self.watch.link_of.insert(peer, number);
        }
    }

    /// An end of a link stops: broken, or stopped by its host.
    pub(super) fn watch_stopped(&mut self, id: QueuePairId) {
        let now = self.queue.now();
        let record = self.watch.link_of.get(&id).copied();
        let Some(record) = record.and_then(|record| self.watch.links.get_mut(record)) else {
            // It never came up: nothing has to move.
            return;
        };
        record.stopped.get_or_insert(now);
        let group = self.watch.group_of.get(&id).copied();
        let mut mine = self.queue_pairs.range(QueuePairId::all_of(id.host));
        let survives = mine.any(|(other, queue_pair)| {
            *other != id
                && queue_pair.state == QueuePairState::ReadyToSend
                && self.watch.group_of.get(other).copied() == group
        });
        if survives && let Some(group) = self.watch.group_mut(id) {
            group.failing_over_until = now.after(FAILOVER);
        }
    }

    /// Work was posted.
    pub(super) fn watch_posted(&mut self, id: QueuePairId, work: Work, payload: &[u8]) {
        let now = self.queue.now();
        let Some(group) = self.watch.group_mut(id) else {
            return;
        };
        let recent = group.data_until.max(now.after(RECENT));
        if let Work::Write { .. } = work {
            group.data_until = recent;
            return;
        }
        // LLC messages that belong to no exchange, TEST LINK, are no data either.
        if let Ok(cdc) = Cdc::parse(payload) {
            group.data_until = recent;
            if !cdc.connection_flags.is_empty() {
                group.closing_until = now.after(RECENT);
            }
            let validates = ProducerFlags::FAILOVER_VALIDATION;
            if cdc.producer_flags.contains(validates) {
                group.failing_over_until = group.failing_over_until.max(now.after(RECENT));
            }
        } else if let Ok(message) = LlcMessage::parse(payload, version_of(payload)) {
            if let Some(phase) = exchange_of(&message, group.formed) {
                group.exchange = Some((phase, now));
            }
            if let LlcMessage::AddLink(offer) = message
                && offer.rejection.is_none()
            {
                let (host, qpn) = (id.host, offer.qpn);
                self.watch.unite(id, QueuePairId { host, qpn });
            }
            if let LlcMessage::DeleteLink(delete) = message {
                self.watch.deleted(id, &delete, now);
            }
        }
    }

    /// A SEND arrived and was accepted.
    pub(super) fn watch_arrived(&mut self, id: QueuePairId, payload: &[u8]) {
        let now = self.queue.now();
        let Some(group) = self.watch.group_mut(id) else {
            return;
        };
        let Ok(message) = LlcMessage::parse(payload, version_of(payload)) else {
            return;
        };
        if !message.is_reply() {
            return;
        }
        match message {
            LlcMessage::ConfirmLink(confirm) => {
                group.formed = true;
                group.exchange = None;
                self.watch.confirmed(id, confirm.link, now);
            }
            // An accepted one goes on until the new link is confirmed.
            LlcMessage::AddLink(offer) if offer.rejection.is_none() => {}
            LlcMessage::AddLinkContinuation(_)
            | LlcMessage::RequestAddLink(_)
            | LlcMessage::TestLink(_) => {}
            _ => group.exchange = None,
        }
    }

    /// Work was acknowledged and thrown away.
    pub(super) fn watch_lost(
        &mut self,
        sender: QueuePairId,
        receiver: HostId,
        work: Work,
        payload: &[u8],
    ) {
        if let Work::Write { owner, .. } = work {
            self.watch.lost_writes.insert((sender.host, owner));
        } else if let Ok(cdc) = Cdc::parse(payload) {
            let token = cdc.alert_token.0;
            self.watch.lost_tokens.insert((receiver, token));
        }
        self.harm_link(sender);
    }
}
