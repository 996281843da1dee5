//! Link groups: the links between two peers and the buffers used over them.
//!
//! ```text
//!  LinkGroup ── links ──── Link ── queue pair, LLC out, SENDs in flight
//!     │                            (SMC-D: none, the group transmits to an ISM device itself)
//!     │
//!     ├── members ──────── connections, each on one link
//!     ├── spare buffers ── Buffer ── RMB elements and send buffers to give out
//!     └── remote RMBs ──── RemoteRmb ── RTokens of the peer
//! ```
//!
//! The life of a link, and where it is decided:
//!
//! ```text
//!   server: AddLinkSchedule due, a port to spare                client: ADD LINK came
//!        │ llc/addition/server                               │ llc/addition/client
//!        ▼                                                   ▼
//!     Offered ─── rejected ──► (slot freed)               Adding
//!        │ reply                                             │
//!        ▼      CONTINUATIONs, CONFIRM LINK (llc/addition)   ▼
//!     Adding ───────────────────────┬────────────────────────┘
//!        │ fails: DELETE LINK       │ confirmed: `activate_link`, LinkUp
//!        │                          ▼
//!        │                       Active ── connections are assigned (selection)
//!        │                          │
//!        │          fails (failure) │ or is to be deleted (leaving)
//!        │                          ▼
//!        └────────────────────► Leaving ── Due ► Requested ► Agreed (llc/removal)
//!                                   │ failed: at once; gracefully: once agreed and drained
//!                                   ▼
//!                         queue pair to error, drained ── connections move (moving)
//!                                   │ registrations undone
//!                                   ▼
//!                         destroyed, and agreed ── LinkDown, slot freed (dropping)
//!                                                   then another one is wanted
//! ```
//!
//! The last link has no such end: with it ends the group (`teardown`).
//!
//! Everything the group wants done is derived from the state of these objects:
//! a queue pair that is not yet what it should be, a buffer not yet registered,
//! an exchange whose request was not yet sent.

mod allocation;
mod buffer;
mod completions;
mod consequences;
mod context;
mod dropping;
mod each;
mod failure;
#[cfg(feature = "smc-d")]
mod ism;
mod keepalive;
mod kind;
mod leaving;
mod link;
mod link_state;
mod llc;
mod matching;
mod moving;
mod open_transmit;
mod peer_rmbs;
mod ports;
mod remote_rmb;
mod room;
mod rtokens;
mod selection;
mod teardown;
mod transmit_queue;
mod waiting;
#[cfg(not(feature = "smc-d"))]
mod without_ism;
mod work;

#[cfg(feature = "smc-d")]
pub(crate) use completions::UselessBuffer;
pub(crate) use context::Groups;
#[cfg(feature = "smc-d")]
pub(crate) use ism::{Answer, IsmBuffer, IsmFollowUp, IsmPeer, PeerDmb, owner_of, same_device};
pub(crate) use kind::{GroupKind, SmcrGroup};
pub(crate) use matching::{peer_bucket, qpn_bucket};

pub use buffer::Buffer;
pub(crate) use buffer::{Agreement, Control, Memory};
pub use link::Link;
pub(crate) use link::list as link_list;
pub(crate) use link::{QpGoal, QpState, SendKind};
pub(crate) use link_state::{LinkNotified, LinkState};
pub(crate) use llc::{AddLinkSchedule, Addition, Flow, Formation};
#[cfg(feature = "smc-d")]
pub(crate) use open_transmit::IsmTransmit;
pub(crate) use open_transmit::LinkTransmit;
pub use remote_rmb::RemoteRmb;
pub(crate) use remote_rmb::find as find_remote_rmb;
pub(crate) use room::Acquired;
pub(crate) use rtokens::LinkSet;
pub(crate) use teardown::Fallback;
pub(crate) use transmit_queue::TransmitQueue;

#[cfg(not(feature = "smc-d"))]
use without_ism as ism;

use core::hash::{Hash, Hasher};

use crate::config::LINKS_PER_GROUP;
use crate::connection_record::ConnectionRecord;
use crate::connection_record::list::{MEMBERS, QUEUED};
use crate::event::CloseReason;
use crate::fingerprint::until;
use crate::id::{ConnIdx, Idx, LinkIdx, RemoteRmbIdx};
use crate::slots::{Linked, Links, List};
use crate::time::{Instant, earliest};
use crate::version::{PeerHost, Terms};
use crate::wire::types::{DiagnosisCode, LinkNumber};

/// List kinds of link groups.
pub(crate) mod list {
    /// Has room for connections, by hash of the peer.
    pub(crate) const JOINABLE: usize = 0;
    /// Has an event to report.
    pub(crate) const EVENTS: usize = 1;
    /// Has a command for its ISM device.
    #[cfg(feature = "smc-d")]
    pub(crate) const READY: usize = 2;
}

/// List kinds of buffers.
pub(crate) mod buffer_list {
    /// Has a command for a device.
    pub(crate) const READY: usize = 0;
    /// Can be given to a connection, by kind and size.
    pub(crate) const SPARE: usize = 1;
    /// Belongs to a group.
    pub(crate) const OWNED: usize = 2;
    /// Waits for CONFIRM RKEY or DELETE RKEY.
    pub(crate) const AGREEMENT: usize = 3;
}

/// Which side of the TCP connections of a group this endpoint is (LINK-023).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub(crate) enum Role {
    /// The own side opens the connections.
    Client,
    /// The own side accepts them, and decides about links.
    Server,
}

/// How many kinds of lists a link group can be in.
const LISTS: usize = if cfg!(feature = "smc-d") { 3 } else { 2 };

/// A link group as the tables hold it. Opaque.
#[derive(Clone, Debug)]
pub struct LinkGroup {
    pub(crate) kind: GroupKind,
    pub(crate) role: Role,
    pub(crate) vlan: Option<u16>,
    /// What both sides agreed on at first contact.
    pub(crate) terms: Terms,
    /// What the peer said of its host; not known in version 1.
    pub(crate) host: PeerHost,
    pub(crate) state: GroupState,
    /// Links of the group by position; RTokens are kept by position, too.
    pub(crate) links: [LinkIdx; LINKS_PER_GROUP],
    /// The number the server gave last (LINK-027).
    pub(crate) last_number: LinkNumber,
    /// Whether a link was ever taken out.
    pub(crate) lost_links: bool,
    /// The further link being added.
    pub(crate) addition: Addition,
    /// Whether and when a further link is wanted.
    pub(crate) add_schedule: AddLinkSchedule,
    /// Most links, as CONFIRM LINK decided (LINK-016).
    pub(crate) max_links: u8,
    /// First cursor value in both directions: 0 without eye catchers, else 4.
    pub(crate) ring_base: u32,
    pub(crate) members: List<ConnectionRecord, MEMBERS>,
    pub(crate) connection_count: u16,
    /// Spare send buffers and RMBs, by [kind][size code].
    pub(crate) spare: [[List<Buffer, { buffer_list::SPARE }>; 16]; 2],
    pub(crate) buffers: List<Buffer, { buffer_list::OWNED }>,
    pub(crate) rmb_count: u16,
    /// Whether connections wait for an RMB of theirs, because there are as many as
    /// there may be.
    pub(crate) rmb_awaited: bool,
    pub(crate) agreements: List<Buffer, { buffer_list::AGREEMENT }>,
    pub(crate) remote_rmbs: List<RemoteRmb, 0>,
    pub(crate) remote_rmb_count: u16,
    /// CONFIRM RKEY of the peer that is not complete: the RMB, and links of which
    /// it has not announced yet.
    pub(crate) incoming_rkey: Option<IncomingRkey>,
    /// The one configuration exchange this side runs beside `addition` (LLCSER-002).
    pub(crate) flow: Flow,
    pub(crate) flow_deadline: Option<Instant>,
    /// Connections that wait for the first contact of another one to end.
    pub(crate) queued: List<ConnectionRecord, QUEUED>,
    /// The connection whose rendezvous forms this group.
    pub(crate) founder: ConnIdx,
    pub(crate) idle_deadline: Option<Instant>,
    /// While forming: the code to decline with, unless that is too late.
    pub(crate) decline: Option<DiagnosisCode>,
    pub(crate) notified: GroupNotified,
    list_links: [Links<Self>; LISTS],
}

/// A CONFIRM RKEY whose CONTINUATIONs are still to come.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct IncomingRkey {
    /// The peer's RMB.
    pub(crate) rmb: RemoteRmbIdx,
    /// The link it comes on.
    pub(crate) via_link: LinkIdx,
    /// Entries that remain.
    pub(crate) left: u8,
    /// Links that the peer knew of when it wrote the first message.
    pub(crate) known: LinkSet,
}

/// Life of a link group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum GroupState {
    /// First contact is in progress.
    Forming(Formation),
    /// Connections can be added.
    Active,
    /// Being taken down; the reason its connections get.
    Ending(CloseReason),
}

/// What the application was notified of a group.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum GroupNotified {
    /// Nothing: a group that never came up goes without an event.
    Nothing,
    /// `GroupUp` waits to be polled.
    Rising,
    /// `GroupUp` was polled.
    Up,
}

impl LinkGroup {
    pub(crate) const fn new(
        kind: GroupKind,
        role: Role,
        vlan: Option<u16>,
        terms: Terms,
        formation: Formation,
    ) -> Self {
        Self {
            kind,
            role,
            vlan,
            terms,
            host: PeerHost::UNKNOWN,
            state: GroupState::Forming(formation),
            links: [Idx::NONE; LINKS_PER_GROUP],
            last_number: LinkNumber(0),
            lost_links: false,
            addition: Addition::IDLE,
            add_schedule: AddLinkSchedule::NONE,
            max_links: terms.max_links,
            ring_base: 4,
            members: List::EMPTY,
            connection_count: 0,
            spare: [[List::EMPTY; 16]; 2],
            buffers: List::EMPTY,
            rmb_count: 0,
            rmb_awaited: false,
            agreements: List::EMPTY,
            remote_rmbs: List::EMPTY,
            remote_rmb_count: 0,
            incoming_rkey: None,
            flow: Flow::Idle,
            flow_deadline: None,
            queued: List::EMPTY,
            founder: Idx::NONE,
            idle_deadline: None,
            decline: None,
            notified: GroupNotified::Nothing,
            list_links: [Links::UNLINKED; LISTS],
        }
    }

    pub(crate) const fn is_active(&self) -> bool {
        matches!(self.state, GroupState::Active)
    }

    pub(crate) const fn is_ending(&self) -> bool {
        matches!(self.state, GroupState::Ending(_))
    }

    pub(crate) fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        (self.founder, self.max_links, self.list_links).hash(hasher);
        (self.links, self.last_number, self.incoming_rkey).hash(hasher);
        self.addition.fingerprint(now, hasher);
        self.add_schedule.fingerprint(now, hasher);
        if let GroupState::Forming(Formation::Connecting { not_before }) = self.state {
            until(Some(not_before), now).hash(hasher);
        } else {
            self.state.hash(hasher);
        }
        (self.role, self.vlan, self.terms).hash(hasher);
        self.lost_links.hash(hasher);
        self.kind.fingerprint(hasher);
        (
            self.ring_base,
            self.connection_count,
            (self.rmb_count, self.rmb_awaited),
            self.flow,
        )
            .hash(hasher);
        (self.remote_rmb_count, self.decline, self.notified).hash(hasher);
        until(self.next_deadline(), now).hash(hasher);
    }

    /// Earliest of the group's own deadlines.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let exchanges = earliest(self.flow_deadline, self.addition.deadline);
        earliest(
            exchanges,
            earliest(self.idle_deadline, self.add_schedule.retry),
        )
    }

    /// The link that the group was formed with, until it is gone.
    pub(crate) const fn first_link(&self) -> LinkIdx {
        let [first, ..] = self.links;
        first
    }

    /// Whether no link is left and, over SMC-D, nothing to be sent to the peer about the end of
    /// the group.
    pub(crate) fn has_left_peer(&self) -> bool {
        let is_silent = self.smcd().is_none_or(|smcd| !smcd.is_farewell_due());
        self.links == [Idx::NONE; LINKS_PER_GROUP] && is_silent
    }
}

impl Linked<{ list::JOINABLE }> for LinkGroup {
    fn links(&mut self) -> &mut Links<Self> {
        let [joinable, ..] = &mut self.list_links;
        joinable
    }
}

impl Linked<{ list::EVENTS }> for LinkGroup {
    fn links(&mut self) -> &mut Links<Self> {
        let [_, events, ..] = &mut self.list_links;
        events
    }
}

#[cfg(feature = "smc-d")]
impl Linked<{ list::READY }> for LinkGroup {
    #[inline]
    fn links(&mut self) -> &mut Links<Self> {
        let [.., ready] = &mut self.list_links;
        ready
    }
}
