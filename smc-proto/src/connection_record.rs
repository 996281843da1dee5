//! A connection's slot: the protocol state and what it holds of its link group.

use core::hash::{Hash, Hasher};

use crate::command::{BufferSpans, TcpCommand};
use crate::connection::{Connection, Shutdown, Spans, segments};
use crate::event::{CloseReason, FallbackReason};
use crate::id::{BufferId, BufferIdx, GroupId, GroupIdx, HandshakeIdx, Idx, LinkIdx, RemoteRmbIdx};
use crate::slots::{Linked, Links};
use crate::time::Instant;
use crate::wire::types::{AlertToken, RKey};

/// List kinds of connections.
pub(crate) mod list {
    /// On a link: has data or a CDC message to send.
    pub(crate) const READY: usize = 0;
    /// Has an event to report.
    pub(crate) const EVENTS: usize = 1;
    /// Has a command for its TCP connection.
    pub(crate) const TCP: usize = 2;
    /// Member of a link group.
    pub(crate) const MEMBERS: usize = 3;
    /// In rendezvous, and something that this waits for changed.
    pub(crate) const WAKE: usize = 4;
    /// In rendezvous, and waits for a link group to be formed.
    pub(crate) const QUEUED: usize = 5;
}

/// A connection as the tables hold it. Opaque: use
/// [`Endpoint::conn`](crate::endpoint::Endpoint::conn).
///
/// Laid out for the cache, in lines of 64 bytes from the start of the slot. A message
/// touches three lines of its sender and three of its receiver, those marked.
///
/// ```text
///   0    s r   generation, phase, group, link, lists; where bytes to be sent are
///   1          counts, timers, urgent bytes sent
///   2    s     send buffer, window, numbers            (within the connection)
///   3    s r   cursors, what there is to do            (within the connection)
///   4      r   receive ring, close handshake           (within the connection);
///              token; where bytes received are
///   5, 6       what is rare
/// ```
///
/// The lines are odd in number: with an even one, the same line of all connections
/// would share half of the sets of a cache.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct ConnectionRecord {
    pub(crate) phase: Phase,
    pub(crate) group: GroupIdx,
    pub(crate) link: LinkIdx,
    /// Events not yet polled.
    pub(crate) notices: Pending,
    pub(crate) first_contact: bool,
    pub(crate) tcp: Option<TcpCommand>,
    ready: Links<Self>,
    events: Links<Self>,
    pub(crate) send_buffer: BufferIdx,
    /// Generation of the send buffer, which saves reading its slot.
    pub(crate) send_generation: u32,
    pub(crate) target: Target,
    /// Set once the rendezvous gave the peer's half.
    pub(crate) connection: Option<Connection>,
    /// The own alert token, as the peer sends it in CDC messages.
    pub(crate) token: AlertToken,
    pub(crate) rmb: Element,
    pub(crate) remote: RemoteElement,
    tcp_out: Links<Self>,
    members: Links<Self>,
    /// How it ended, once it has.
    pub(crate) end: Option<End>,
    /// The group it was established in, for as long as the handle lives.
    pub(crate) home: GroupId,
    /// What the application shut down during the rendezvous.
    pub(crate) shutdown: Option<Shutdown>,
    /// Whether `connection` is lent out.
    pub(crate) lending: Lending,
    /// Whether the RMB element and the send buffer are of buffers that were there before.
    pub(crate) reused: [bool; 2],
    /// What link groups have to know of its rendezvous.
    pub(crate) contact: Contact,
    wake: Links<Self>,
    queued: Links<Self>,
}

/// What link groups have to know of the rendezvous of a connection; the rendezvous keeps it up
/// to date.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Contact {
    pub(crate) step: ContactStep,
    /// The peer does not want the RMB on a link: the rendezvous is to be declined.
    pub(crate) unwanted: bool,
    /// Server: how many links had left the group when the Accept left.
    pub(crate) links_left: u32,
    /// The group whose forming is waited for.
    pub(crate) queued_on: GroupIdx,
    /// The peer's RMB: index and generation.
    pub(crate) remote_rmb: Option<(RemoteRmbIdx, u32)>,
}

impl Contact {
    pub(crate) const NONE: Self = Self {
        step: ContactStep::Other,
        unwanted: false,
        links_left: 0,
        queued_on: Idx::NONE,
        remote_rmb: None,
    };
}

/// How far a rendezvous is, as link groups see it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ContactStep {
    /// Buffers and links are made ready for Accept or Confirm.
    Preparing,
    /// Accept or Confirm is to be sent next, and names a link.
    MessageDue,
    /// The Accept left: the Confirm may name a link that leaves now.
    AwaitingConfirm,
    /// Any other.
    Other,
}

/// State of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Phase {
    /// In rendezvous, with this handshake.
    Rendezvous(HandshakeIdx),
    /// Carried by SMC-R.
    Active,
    /// Plain TCP, but a Decline of the peer may still arrive (AMB-46).
    Watching,
    /// Over; the slot stays until work, events and commands have left.
    Ended,
}

// Within a slot the record is behind the generation, see `Slot`.
#[cfg(target_pointer_width = "64")]
const _: () = {
    use crate::connection::LINE;
    use crate::slots::Slot;
    use core::mem::offset_of;

    let record = offset_of!(Slot<ConnectionRecord>, value);
    let connection = record.wrapping_add(offset_of!(ConnectionRecord, connection));
    assert!(connection == LINE);
    assert!(connection.wrapping_add(Connection::LINES_AT) == LINE.wrapping_mul(2));
    assert!(size_of::<Slot<ConnectionRecord>>() == LINE.wrapping_mul(7));
};

/// Where the protocol state of a connection is.
#[cfg_attr(
    not(feature = "smc-d"),
    expect(dead_code, reason = "only connections of SMC-D are lent")
)]
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Lending {
    /// Here.
    No,
    /// Lent out.
    Lent,
    /// Lent out, and lost meanwhile: the connection ends when it is given back.
    Lost,
}

/// An element of a local RMB.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(C)]
pub(crate) struct Element {
    pub(crate) buffer: BufferIdx,
    /// Generation of the buffer, which does not change while it is in use.
    pub(crate) generation: u32,
    /// First byte in the RMB.
    pub(crate) offset: u32,
    /// 1 to 255, 0 if none.
    pub(crate) index: u8,
}

impl Element {
    pub(crate) const NONE: Self = Self {
        buffer: Idx::NONE,
        generation: 0,
        index: 0,
        offset: 0,
    };

    /// Handle of the RMB.
    #[inline(always)]
    pub(crate) const fn id(&self) -> BufferId {
        BufferId {
            index: self.buffer,
            generation: self.generation,
        }
    }

    /// Pieces of its ring, for the embedder.
    #[inline(always)]
    pub(crate) fn spans(&self, spans: Spans, eye_catcher: bool) -> BufferSpans {
        BufferSpans {
            buffer: self.id(),
            segments: segments(spans, self.offset),
            eye_catcher_at: eye_catcher.then_some(self.offset),
        }
    }
}

/// The peer's element.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RemoteElement {
    pub(crate) rmb: RemoteRmbIdx,
    pub(crate) index: u8,
}

impl RemoteElement {
    pub(crate) const NONE: Self = Self {
        rmb: Idx::NONE,
        index: 0,
    };
}

/// The peer's element as addressed on the connection's link. Packed, for the first
/// cache line is full.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(C, packed(4))]
pub(crate) struct Target {
    pub(crate) rkey: RKey,
    /// Address of the element's first byte.
    pub(crate) address: u64,
}

impl Target {
    pub(crate) const NONE: Self = Self::within(0);

    /// An element known by something else than a key.
    pub(crate) const fn within(address: u64) -> Self {
        let rkey = RKey(0);
        Self { rkey, address }
    }
}

bitflags::bitflags! {
    /// Events that wait to be polled, the lowest bit first.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(crate) struct Pending: u8 {
        const PROPOSED = 1;
        const ESTABLISHED = 2;
        const URGENT = 4;
        const READABLE = 8;
        const WRITABLE = 16;
        const END = 32;
        const RESET = 64;
    }
}

impl Pending {
    /// The event to report first.
    #[inline]
    pub(crate) const fn first(self) -> Option<Self> {
        let bits = self.bits();
        if bits == 0 {
            return None;
        }
        Some(Self::from_bits_truncate(bits & bits.wrapping_neg()))
    }
}

/// How a handle ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    FellBack(FallbackReason),
    Closed(CloseReason),
}

impl ConnectionRecord {
    pub(crate) const fn new(handshake: HandshakeIdx) -> Self {
        Self {
            phase: Phase::Rendezvous(handshake),
            connection: None,
            token: AlertToken(0),
            group: Idx::NONE,
            link: Idx::NONE,
            rmb: Element::NONE,
            send_buffer: Idx::NONE,
            send_generation: 0,
            remote: RemoteElement::NONE,
            target: Target::NONE,
            notices: Pending::empty(),
            end: None,
            tcp: None,
            first_contact: false,
            home: GroupId {
                index: Idx::NONE,
                generation: 0,
            },
            shutdown: None,
            lending: Lending::No,
            reused: [false; 2],
            contact: Contact::NONE,
            wake: Links::UNLINKED,
            queued: Links::UNLINKED,
            ready: Links::UNLINKED,
            events: Links::UNLINKED,
            tcp_out: Links::UNLINKED,
            members: Links::UNLINKED,
        }
    }

    /// Handle of the send buffer.
    #[inline(always)]
    pub(crate) const fn send_buffer_id(&self) -> BufferId {
        BufferId {
            index: self.send_buffer,
            generation: self.send_generation,
        }
    }

    /// Whether there is something to send, or an event to be polled.
    #[cfg(feature = "smc-d")]
    pub(crate) const fn is_listed(&self) -> bool {
        self.ready.is_linked() || self.events.is_linked()
    }

    /// Gives up the peer's element: which it was.
    pub(crate) const fn leave_remote(&mut self) -> RemoteElement {
        self.target = Target::NONE;
        core::mem::replace(&mut self.remote, RemoteElement::NONE)
    }

    /// Whether CDC messages with this token on links of this group are for it.
    #[inline(always)]
    pub(crate) fn is_receiver(&self, group: GroupIdx, token: AlertToken) -> bool {
        self.token == token && self.group == group && self.phase == Phase::Active
    }

    pub(crate) fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        let links = [self.ready, self.events, self.tcp_out, self.members];
        (self.first_contact, self.shutdown, self.lending, links).hash(hasher);
        (self.wake, self.queued, self.contact.queued_on).hash(hasher);
        let remote_rmb = self.contact.remote_rmb;
        remote_rmb.map(|(index, _)| index).hash(hasher);
        (
            self.phase,
            self.group,
            self.link,
            self.rmb,
            self.send_buffer,
        )
            .hash(hasher);
        (
            self.remote,
            self.target,
            self.notices.bits(),
            self.end.is_some(),
            self.tcp.is_some(),
        )
            .hash(hasher);
        if let Some(connection) = &self.connection {
            connection.fingerprint(now, hasher);
        }
    }
}

macro_rules! linked {
    ($($kind:expr),*) => {$(
        impl Linked<{ $kind }> for ConnectionRecord {
            #[inline]
            fn links(&mut self) -> &mut Links<Self> {
                match $kind {
                    list::READY => &mut self.ready,
                    list::EVENTS => &mut self.events,
                    list::TCP => &mut self.tcp_out,
                    list::WAKE => &mut self.wake,
                    list::QUEUED => &mut self.queued,
                    _ => &mut self.members,
                }
            }
        }
    )*};
}
linked!(
    list::READY,
    list::EVENTS,
    list::TCP,
    list::MEMBERS,
    list::WAKE,
    list::QUEUED
);
