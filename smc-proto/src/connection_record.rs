//! A connection's slot: the protocol state and what it holds of its link group.

use core::hash::{Hash, Hasher};

use crate::command::{BufferSpans, TcpCommand};
use crate::connection::{Connection, Shutdown, Spans};
use crate::event::{CloseReason, FallbackReason};
use crate::id::{BufferId, GroupId, NONE};
use crate::link_group::segments;
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
}

/// A connection as the tables hold it. Opaque: use
/// [`Endpoint::conn`](crate::endpoint::Endpoint::conn).
///
/// In the order in which a message needs it, so that it touches few cache lines:
/// behind the connection, nothing is looked at while octets flow.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct ConnectionRecord {
    pub(crate) phase: Phase,
    /// This side's token, as the peer sends it in CDC messages.
    pub(crate) token: AlertToken,
    pub(crate) group: u32,
    pub(crate) link: u32,
    pub(crate) send_buffer: u32,
    /// Generation of the send buffer: its slot need not be looked at.
    pub(crate) send_generation: u32,
    /// Events not yet polled.
    pub(crate) notices: Pending,
    pub(crate) first_contact: bool,
    pub(crate) tcp: Option<TcpCommand>,
    links: [Links; 4],
    pub(crate) remote: RemoteElement,
    pub(crate) rmb: Element,
    /// Set once the rendezvous gave the peer's half.
    pub(crate) connection: Option<Connection>,
    /// How it ended, once it has.
    pub(crate) end: Option<End>,
    /// The group it was established in, for as long as the handle lives.
    pub(crate) home: GroupId,
    /// What the application shut down while the rendezvous was under way.
    pub(crate) shutdown: Option<Shutdown>,
}

/// Where a connection stands.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Phase {
    /// In rendezvous, with this handshake.
    Rendezvous(u32),
    /// Carried by SMC-R.
    Active,
    /// Plain TCP, but a Decline of the peer may still arrive (AMB-46).
    Watching,
    /// Over; the slot stays until work, events and commands have left.
    Ended,
}

/// An element of a local RMB.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Element {
    pub(crate) buffer: u32,
    /// Generation of the buffer, which does not change while it is in use.
    pub(crate) generation: u32,
    /// 1 to 255, 0 if none.
    pub(crate) index: u8,
    /// First octet in the RMB.
    pub(crate) offset: u32,
}

impl Element {
    pub(crate) const NONE: Self = Self {
        buffer: NONE,
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

/// The peer's element, as addressed on the connection's link.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct RemoteElement {
    pub(crate) rmb: u32,
    pub(crate) index: u8,
    pub(crate) rkey: RKey,
    /// Address of the element's first octet.
    pub(crate) address: u64,
}

impl RemoteElement {
    pub(crate) const NONE: Self = Self {
        rmb: NONE,
        index: 0,
        rkey: RKey(0),
        address: 0,
    };
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
    pub(crate) const fn new(handshake: u32) -> Self {
        Self {
            phase: Phase::Rendezvous(handshake),
            connection: None,
            token: AlertToken(0),
            group: NONE,
            link: NONE,
            rmb: Element::NONE,
            send_buffer: NONE,
            send_generation: 0,
            remote: RemoteElement::NONE,
            notices: Pending::empty(),
            end: None,
            tcp: None,
            first_contact: false,
            home: GroupId {
                index: NONE,
                generation: 0,
            },
            shutdown: None,
            links: [Links::UNLINKED; 4],
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

    /// Whether CDC messages with this token on links of this group are for it.
    #[inline(always)]
    pub(crate) fn is_receiver(&self, group: u32, token: AlertToken) -> bool {
        self.token == token && self.group == group && self.phase == Phase::Active
    }

    pub(crate) fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        (self.first_contact, self.shutdown, self.links).hash(hasher);
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
            fn links(&mut self) -> &mut Links {
                let [ready, events, tcp, members] = &mut self.links;
                match $kind {
                    list::READY => ready,
                    list::EVENTS => events,
                    list::TCP => tcp,
                    _ => members,
                }
            }
        }
    )*};
}
linked!(list::READY, list::EVENTS, list::TCP, list::MEMBERS);
