//! A link: one queue pair of this side and what is in flight on it.

mod queue_pair;

use core::hash::{Hash, Hasher};

pub(crate) use queue_pair::{QpGoal, QpState};

use super::link_state::{LinkNotified, LinkState};
use super::open_transmit::LinkTransmit;
use super::transmit_queue::TransmitQueue;
use crate::command::QpAddress;
use crate::config::{DATA_SLOTS, LINKS_PER_GROUP, REPLY_SLOTS, SEND_SLOTS};
use crate::connection::NotifyRecord;
use crate::fingerprint::until;
use crate::id::{ConnIdx, GroupIdx};
use crate::path::{LocalPath, RoceVersion};
use crate::queue::Queue;
use crate::slots::{Linked, Links};
use crate::time::Instant;
use crate::version::SERVES_V2;
use crate::wire::llc::LLC_LENGTH;
use crate::wire::types::{Gid, LinkNumber, LinkUserId, Mac, Mtu, Psn, Qpn};

/// List kinds of links.
pub(crate) mod list {
    /// Has a command for its device.
    pub(crate) const READY: usize = 0;
    /// By hash of the peer's queue pair number.
    pub(crate) const HASHED: usize = 1;
    /// Has an event to report.
    pub(crate) const EVENTS: usize = 2;
}

/// A link as the tables hold it. Opaque.
#[derive(Clone, Debug)]
pub struct Link {
    pub(crate) group: GroupIdx,
    /// Position in the group, below [`LINKS_PER_GROUP`].
    pub(crate) position: u8,
    pub(crate) path: LocalPath,
    pub(crate) number: LinkNumber,
    pub(crate) user_id: LinkUserId,
    /// The peer's number of the link, 0 until the peer confirms it.
    pub(crate) peer_user_id: LinkUserId,
    pub(crate) state: QpState,
    pub(crate) goal: QpGoal,
    pub(crate) link_state: LinkState,
    /// Shares an RNIC, on one side, with an earlier link of the group.
    pub(crate) asymmetric: bool,
    /// Connections whose writes go over it.
    pub(crate) connections: u16,
    /// What the application was notified of it.
    pub(crate) notified: LinkNotified,
    /// What the control command in flight leads to, `Absent` if that is the end.
    pub(crate) pending: Option<QpState>,
    pub(crate) qpn: Qpn,
    pub(crate) psn: Psn,
    pub(crate) peer: Option<QpAddress>,
    pub(crate) mtu: Mtu,
    /// No IP gateway is between both ends.
    pub(crate) direct: bool,
    /// Buffers registered on this link, or about to be.
    pub(crate) registrations: u16,
    /// Connections with something to send.
    pub(crate) queue: TransmitQueue,
    /// [`Core::changes`](crate::core::Core::changes) as this link last transmitted, 0 if
    /// it had none.
    flowed_at: u64,
    /// The transmit that is given out step by step; its SEND counts as in flight already.
    pub(crate) transmit: Option<LinkTransmit>,
    pub(crate) in_flight: Queue<SendKind, SEND_SLOTS>,
    pub(crate) replies: Queue<[u8; LLC_LENGTH], REPLY_SLOTS>,
    /// The request of the group's exchange, to be sent on this link.
    pub(crate) request: Option<[u8; LLC_LENGTH]>,
    /// ADD LINK of version 2 waits to be sent here: whether it is the reply.
    pub(crate) large: Option<bool>,
    /// Requests of a client outside any exchange that wait to be sent here.
    pub(crate) free_flowing: FreeFlowing,
    pub(crate) last_received: Instant,
    /// Until then a request of the peer may arrive that it wrote before it knew of
    /// this link.
    pub(crate) new_until: Instant,
    pub(crate) test: TestLinkState,
    links: [Links<Self>; 3],
}

const _: () = assert!(size_of::<Link>() <= 4096);
const _: () = assert!(LINKS_PER_GROUP <= 16);

bitflags::bitflags! {
    /// Requests of a client that need no exchange (LLCSER-001).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
    pub(crate) struct FreeFlowing: u8 {
        /// ADD LINK: this side has a port to spare.
        const ADD_LINK = 1;
        /// DELETE LINK for a link that is leaving.
        const DELETE_LINK = 2;
    }
}

/// The keepalive of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TestLinkState {
    Idle,
    /// A request waits to be sent.
    Due {
        deadline: Instant,
    },
    /// A request with this user data went out.
    Sent {
        user_data: [u8; 16],
        deadline: Instant,
    },
}

impl TestLinkState {
    pub(crate) const fn is_due(self) -> bool {
        matches!(self, Self::Due { .. })
    }
}

/// Whose SEND it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SendKind {
    /// A CDC message of a connection.
    Notify {
        index: ConnIdx,
        generation: u32,
        record: NotifyRecord,
    },
    /// The request of the group's exchange.
    Request,
    /// A reply or TEST LINK.
    Llc,
    /// ADD LINK of version 2, as the server's request or the client's reply.
    Large { reply: bool },
}

impl Link {
    pub(crate) const fn new(
        group: GroupIdx,
        position: u8,
        path: LocalPath,
        psn: Psn,
        user_id: LinkUserId,
        now: Instant,
    ) -> Self {
        Self {
            group,
            position,
            path,
            number: LinkNumber(0),
            user_id,
            peer_user_id: LinkUserId(0),
            state: QpState::Absent,
            goal: QpGoal::Init,
            link_state: LinkState::Adding,
            asymmetric: false,
            connections: 0,
            notified: LinkNotified::Nothing,
            pending: None,
            qpn: Qpn::new(0),
            psn,
            peer: None,
            mtu: path.mtu,
            direct: true,
            registrations: 0,
            queue: TransmitQueue::EMPTY,
            flowed_at: 0,
            transmit: None,
            in_flight: Queue::new(),
            replies: Queue::new(),
            request: None,
            large: None,
            free_flowing: FreeFlowing::empty(),
            last_received: now,
            new_until: Instant::ZERO,
            test: TestLinkState::Idle,
            links: [Links::UNLINKED; 3],
        }
    }

    pub(crate) fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        (self.peer, self.mtu, self.qpn, self.links).hash(hasher);
        now.since(self.last_received).hash(hasher);
        self.new_until.since(now).hash(hasher);
        (
            self.group,
            self.position,
            self.number,
            self.state,
            self.goal,
            self.pending,
        )
            .hash(hasher);
        (self.registrations, self.in_flight.len(), self.replies.len()).hash(hasher);
        (
            self.asymmetric,
            self.connections,
            self.notified,
            self.free_flowing.bits(),
        )
            .hash(hasher);
        self.link_state.fingerprint(now, hasher);
        (self.request, self.path.device, self.path.port).hash(hasher);
        (self.path.roce, self.direct, self.large).hash(hasher);
        self.queue.fingerprint(hasher);
        if let Some(transmit) = &self.transmit {
            transmit.fingerprint(hasher);
        }
        match self.test {
            TestLinkState::Idle => 0u64.hash(hasher),
            TestLinkState::Due { deadline } => (1, until(Some(deadline), now)).hash(hasher),
            TestLinkState::Sent { deadline, .. } => (2, until(Some(deadline), now)).hash(hasher),
        }
    }

    /// Counts a transmit of this connection in the link's round. Returns whether the link keeps its
    /// place on its device's list.
    #[inline(always)]
    pub(crate) fn advance_round(&mut self, index: ConnIdx) -> bool {
        self.queue.advance_round(index, self.connections)
    }

    /// Gives it the other end of its queue pair. The path MTU is the smaller of both.
    //= LLC-026
    //= CLC-042
    pub(crate) const fn bind(&mut self, peer: QpAddress, mtu: Mtu) {
        let (own, other) = (self.path.mtu.code(), mtu.code());
        self.mtu = Mtu::from_code(if own < other { own } else { other });
        self.peer = Some(peer);
    }

    /// Nothing more is sent on it, and its queue pair goes.
    pub(crate) fn shut(&mut self) {
        self.goal = QpGoal::Gone;
        self.transmit = None;
        self.replies.clear();
        self.request = None;
        self.large = None;
        self.free_flowing = FreeFlowing::empty();
    }

    /// Whether buffers are to be registered in its protection domain: there is
    /// one, and the link is more than an offer.
    pub(crate) fn takes_registrations(&self) -> bool {
        self.state >= QpState::Init
            && self.state < QpState::Drained
            && self.goal != QpGoal::Gone
            && match self.link_state {
                LinkState::Adding | LinkState::Active => true,
                // ADD LINK of version 2 announces them already.
                //= V2-185
                LinkState::Offered => self.is_v2(),
                LinkState::Leaving(_) => false,
            }
    }

    /// Whether connections may be given this link.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        matches!(self.link_state, LinkState::Active)
    }

    /// Whether the group has it in common with the peer: active, or to be deleted.
    pub(crate) const fn is_known(&self) -> bool {
        matches!(self.link_state, LinkState::Active | LinkState::Leaving(_))
    }

    /// Whether its ports are taken: not once both peers know that it is gone,
    /// though its queue pair may still be there.
    pub(crate) fn holds_ports(&self) -> bool {
        self.is_active() || self.is_unagreed()
    }

    /// Whether nothing this side posted waits on it, so that it can be closed
    /// without cutting anything off.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight.is_empty()
            && self.replies.is_empty()
            && self.request.is_none()
            && self.large.is_none()
    }

    /// Whether no CDC message is in flight on it, and so no write before one.
    pub(crate) fn is_free_of_data(&self) -> bool {
        !self
            .in_flight
            .iter()
            .any(|kind| matches!(kind, SendKind::Notify { .. }))
    }

    /// Whether it is the same RNIC port at this end.
    pub(crate) fn is_at(&self, path: &LocalPath) -> bool {
        self.path.is_at(path)
    }

    /// Whether the peer's end is at this port. In version 2 the GID alone decides.
    //= V2-210
    pub(crate) fn leads_to(&self, gid: Gid, mac: Mac) -> bool {
        self.peer
            .is_some_and(|peer| peer.gid == gid && (self.is_v2() || peer.mac == mac))
    }

    /// Whether it belongs to a group of version 2.
    pub(crate) const fn is_v2(&self) -> bool {
        SERVES_V2 && matches!(self.path.roce, RoceVersion::V2)
    }

    /// Whether SENDs can be posted.
    #[inline]
    pub(crate) fn is_usable(&self) -> bool {
        self.state == QpState::Rts && self.goal == QpGoal::Rts
    }

    /// Whether an LLC message waits to be sent and can be.
    #[inline(always)]
    pub(crate) fn wants_llc(&self) -> bool {
        (!self.replies.is_empty()
            || self.request.is_some()
            || self.large.is_some()
            || self.test.is_due()
            || !self.free_flowing.is_empty())
            && self.is_usable()
            && !self.in_flight.is_full()
    }

    /// Whether the queue has room for the message of a connection.
    #[inline(always)]
    pub(crate) const fn has_free_slot(&self) -> bool {
        self.in_flight.len() < DATA_SLOTS
    }

    /// Whether a connection may post its writes and the CDC message behind them.
    #[inline]
    pub(crate) fn has_data_slot(&self) -> bool {
        self.is_usable() && self.link_state.carries_data() && self.has_free_slot()
    }

    /// Whether the transmit of a connection comes next, before any LLC message.
    #[inline(always)]
    pub(crate) fn is_for_data(&self) -> bool {
        self.has_data_slot() && self.transmit.is_none() && !self.wants_llc()
    }

    /// Notes that [`Link::is_for_data`] holds but for a free slot, and that no buffer of
    /// its RNIC wants anything.
    #[inline(always)]
    pub(crate) const fn flow(&mut self, changes: u64) {
        self.flowed_at = changes;
    }

    /// Whether nothing but bytes of connections waits for the RNIC of this link: the
    /// link carries data, no LLC message and no open transmit comes before them, and
    /// no buffer of the RNIC wants anything. Known from an earlier transmit; whatever could
    /// change it needs the whole engine, which is counted.
    #[inline(always)]
    pub(crate) const fn is_flowing(&self, changes: u64) -> bool {
        self.flowed_at == changes
    }

    /// Whether a connection waits to transmit and can do so, on a link that
    /// carries data.
    #[inline(always)]
    pub(crate) fn wants_transmit(&self) -> bool {
        !self.queue.is_empty() && self.has_free_slot()
    }

    /// Whether the device has anything to fetch from this link.
    #[inline(always)]
    pub(crate) fn wants_device(&self) -> bool {
        if !self.is_usable() {
            return self.wants_control();
        }
        (self.wants_transmit() && self.link_state.carries_data())
            || self.transmit.is_some()
            || self.wants_llc()
    }
}

impl Linked<{ list::READY }> for Link {
    #[inline]
    fn links(&mut self) -> &mut Links<Self> {
        let [ready, ..] = &mut self.links;
        ready
    }
}

impl Linked<{ list::HASHED }> for Link {
    fn links(&mut self) -> &mut Links<Self> {
        let [_, hashed, _] = &mut self.links;
        hashed
    }
}

impl Linked<{ list::EVENTS }> for Link {
    fn links(&mut self) -> &mut Links<Self> {
        let [.., events] = &mut self.links;
        events
    }
}
