//! The rendezvous: from a TCP connection to SMC-R, or back to plain TCP.
//!
//! ```text
//!  client: Proposing ► AwaitingAccept ► Preparing ► Confirming ─┬─► active   (subsequent contact)
//!                                                               └─► Forming ► active  (first contact)
//!  server: AwaitingProposal ► Proposed ► [Queued] ► Preparing ► Accepting ► AwaitingConfirm
//!                                                               ┌───────────────┘
//!                                                               ├─► active   (subsequent contact)
//!                                                               └─► Forming ► active  (first contact)
//!  either: … ► Declining ► plain TCP        … ► reset
//! ```
//!
//! A handshake moves when a CLC message arrives, and whenever something it
//! waits for changed: a queue pair, a registration, its link group. It then
//! checks all of them anew, so that no order of completions matters.

mod client;
mod completions;
mod establish;
mod fallback;
mod input;
#[cfg(feature = "smc-d")]
mod ism;
mod message;
mod output;
mod paths;
mod peer_end;
mod progress;
mod proposed;
mod server;
mod tcp;
mod version;
#[cfg(not(feature = "smc-d"))]
mod without_ism;
#[cfg(all(test, not(feature = "smc-v2")))]
mod without_v2;

use core::hash::{Hash, Hasher};

use heapless::Vec;

use crate::config::{MAX_ISM_PATHS, MAX_PATHS, Offers};
use crate::connection_record::ContactStep;
use crate::engine::Engine;
use crate::fingerprint::until;
use crate::id::{ConnIdx, HandshakeIdx};
use crate::link_group::{LinkGroup, Role};
use crate::path::{IsmPath, LocalPath};
use crate::slots::{Linked, Links};
use crate::time::{Duration, Instant};
use crate::trace::TraceEvent;
use crate::version::{Negotiated, SmcVersion};
use crate::wire::cdc::{Cdc, ProducerFlags};
#[cfg(feature = "smc-d")]
use crate::wire::cdc_ism::CdcIsm;
use crate::wire::clc::Subnets;
use crate::wire::types::{BufferSize, DiagnosisCode};

pub use input::{ClcError, ClcProgress, Next};
#[cfg(feature = "smc-d")]
pub(crate) use ism::SmcdEnds;
pub(crate) use peer_end::PeerEnd;
pub use proposed::{Proposed, ProposedV2};
#[cfg(not(feature = "smc-d"))]
pub(crate) use without_ism::SmcdEnds;

/// What the embedder knows of a TCP connection, and wants for it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct ConnOptions {
    /// Whether both SYN and SYN-ACK carried the SMC option; if not, the
    /// connection is plain TCP at once (TCPOPT-008).
    pub option_negotiated: bool,
    /// Client: subnet or prefixes of the local address, for the Proposal. If they
    /// cannot be known, nothing of version 1 is offered (V2-032).
    pub subnets: Option<Subnets>,
    /// Client: whether the TCP connection is one of IPv4; as IPv4-mapped IPv6 it is,
    /// too. Only then there is SMC-R of version 2 (V2-031).
    pub ipv4: bool,
    /// VLAN of the TCP connection (LINK-004).
    pub vlan: Option<u16>,
    /// Receive buffer; the configured one if `None`.
    pub receive_buffer: Option<BufferSize>,
    /// Send buffer; the configured one if `None`.
    pub send_buffer: Option<BufferSize>,
    /// Send small writes at once instead of coalescing them (FLOW-023).
    pub nodelay: bool,
    /// Read urgent bytes in their place in the stream; otherwise reading stops
    /// before one until it was taken.
    pub urgent_inline: bool,
}

impl ConnOptions {
    /// A connection whose SYN and SYN-ACK carried the option, in this subnet: of IPv6
    /// if that has IPv6 prefixes.
    #[must_use]
    pub fn new(subnets: Subnets) -> Self {
        Self {
            option_negotiated: true,
            ipv4: subnets.ipv6.is_empty(),
            subnets: Some(subnets),
            vlan: None,
            receive_buffer: None,
            send_buffer: None,
            nodelay: false,
            urgent_inline: true,
        }
    }
}

/// A rendezvous as the tables hold it. Opaque.
#[derive(Clone, Debug)]
pub struct Handshake {
    pub(crate) conn: ConnIdx,
    pub(crate) role: Role,
    pub(crate) state: State,
    pub(crate) options: KeptOptions,
    pub(crate) paths: Vec<LocalPath, MAX_PATHS>,
    /// Client: what the Proposal offers.
    pub(crate) offers: Offers,
    side: Side,
    /// Result of the negotiation: of this side's choice, or of the peer's.
    pub(crate) agreed: Negotiated,
    /// Version of a Decline.
    pub(crate) version: SmcVersion,
    /// Both ends of SMC-D, if that was chosen. `None` is SMC-R, or not decided yet.
    pub(crate) smcd: Option<SmcdEnds>,
    /// The peer's Accept or Confirm.
    pub(crate) peer: Option<PeerEnd>,
    /// Early CDC messages (RENDEZVOUS-050): the newest, and the last one with urgent data before
    /// that.
    pub(crate) early: [Option<Cdc>; 2],
    /// End of the present wait.
    pub(crate) deadline: Option<Instant>,
    /// End of all local work until Accept or Confirm leaves, however often it begins
    /// anew: the peer's wait for that message goes on meanwhile.
    pub(crate) prepared_by: Option<Instant>,
    /// End of the whole rendezvous.
    pub(crate) overall: Instant,
    clc_out: Links<Self>,
}

/// State of one role alone. No rendezvous has both, and both are large.
#[derive(Clone, Hash, Debug)]
// There is no allocator to box with.
#[allow(clippy::large_enum_variant)]
enum Side {
    /// What the Proposal is written with, and the Accept judged by.
    Client {
        ism: Vec<IsmPath, MAX_ISM_PATHS>,
        subnets: Option<Subnets>,
    },
    /// What the client proposed.
    Server(Option<Proposed>),
}

/// Options of the connection that are needed until it is established.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeptOptions {
    pub(crate) vlan: Option<u16>,
    pub(crate) receive_buffer: Option<BufferSize>,
    pub(crate) send_buffer: Option<BufferSize>,
    pub(crate) nodelay: bool,
    pub(crate) urgent_inline: bool,
}

/// State of a rendezvous. The module's diagram has the order.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum State {
    Proposing,
    AwaitingAccept,
    Preparing,
    Confirming,
    AwaitingProposal,
    Proposed,
    Queued,
    Accepting,
    AwaitingConfirm,
    Forming,
    Declining {
        code: DiagnosisCode,
        out_of_sync: bool,
        /// The peer may decline at the same time.
        crossing: bool,
    },
}

impl State {
    /// The part of the state that link groups need.
    const fn step(self) -> ContactStep {
        match self {
            Self::Preparing => ContactStep::Preparing,
            Self::Accepting | Self::Confirming => ContactStep::MessageDue,
            Self::AwaitingConfirm => ContactStep::AwaitingConfirm,
            _ => ContactStep::Other,
        }
    }
}

impl Handshake {
    const fn new(conn: ConnIdx, role: Role, options: &ConnOptions, overall: Instant) -> Self {
        Self {
            conn,
            role,
            state: match role {
                Role::Client => State::Proposing,
                Role::Server => State::AwaitingProposal,
            },
            options: KeptOptions {
                vlan: options.vlan,
                receive_buffer: options.receive_buffer,
                send_buffer: options.send_buffer,
                nodelay: options.nodelay,
                urgent_inline: options.urgent_inline,
            },
            paths: Vec::new(),
            offers: Offers::empty(),
            side: match role {
                Role::Client => Side::Client {
                    ism: Vec::new(),
                    subnets: None,
                },
                Role::Server => Side::Server(None),
            },
            agreed: Negotiated::NOTHING,
            //= V2-071
            version: SmcVersion::V1,
            smcd: None,
            peer: None,
            early: [None; 2],
            deadline: None,
            prepared_by: None,
            overall,
            clc_out: Links::UNLINKED,
        }
    }

    /// Keeps a CDC message that came before its time. A newer one says all that
    /// an older one said, except where urgent data ended.
    //= CDC-033
    pub(crate) fn keep_early(&mut self, cdc: &Cdc) {
        let [urgent, newest] = &mut self.early;
        let stale = newest
            .is_some_and(|kept| cdc.sequence.wrapping_sub(kept.sequence).wrapping_sub(1) >= 0x7fff);
        if stale
            || cdc
                .producer_flags
                .contains(ProducerFlags::FAILOVER_VALIDATION)
        {
            return;
        }
        if cdc.producer_flags.contains(ProducerFlags::URGENT_PRESENT) {
            *urgent = Some(*cdc);
        }
        *newest = Some(*cdc);
    }

    /// Keeps an early message of SMC-D, where nothing is numbered and each one is the newest.
    #[cfg(feature = "smc-d")]
    pub(crate) fn keep_early_ism(&mut self, cdc: &CdcIsm) {
        let [_, newest] = &self.early;
        let number = newest.map_or(0, |kept| kept.sequence).wrapping_add(1);
        self.keep_early(&cdc.numbered(number));
    }

    /// Client: its ISM devices.
    pub(crate) fn ism(&self) -> &[IsmPath] {
        match &self.side {
            Side::Client { ism, .. } => ism,
            Side::Server(_) => &[],
        }
    }

    /// Server: what the client proposed, once it did.
    pub(crate) const fn proposal(&self) -> Option<&Proposed> {
        match &self.side {
            Side::Server(proposal) => proposal.as_ref(),
            Side::Client { .. } => None,
        }
    }

    /// The path of the preferred port that serves a version.
    pub(crate) fn path_for(&self, version: SmcVersion) -> Option<LocalPath> {
        let mac = self.paths.first()?.mac;
        let fits = |path: &&LocalPath| path.mac == mac && path.serves(version);
        self.paths.iter().find(fits).copied()
    }

    /// Whether a CLC message waits to be sent.
    fn has_output(&self) -> bool {
        matches!(
            self.state,
            State::Proposing | State::Confirming | State::Accepting | State::Declining { .. }
        )
    }

    pub(crate) fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        self.clc_out.hash(hasher);
        (self.conn, self.role, self.state, &self.paths).hash(hasher);
        (&self.side, self.offers, self.agreed, self.version).hash(hasher);
        (&self.peer, &self.smcd, &self.early).hash(hasher);
        until(self.deadline, now).hash(hasher);
        until(self.prepared_by, now).hash(hasher);
        until(Some(self.overall), now).hash(hasher);
    }

    /// When Accept or Confirm must leave: `wait` from the first call of a rendezvous.
    pub(crate) fn prepare_by(&mut self, now: Instant, wait: Duration) -> Instant {
        *self.prepared_by.get_or_insert(now.after(wait))
    }

    //= CLC-068
    fn next_deadline(&self) -> Instant {
        self.deadline
            .map_or(self.overall, |deadline| deadline.min(self.overall))
    }
}

/// List kinds of handshakes.
pub(crate) mod list {
    /// Has a CLC message to send.
    pub(crate) const CLC: usize = 0;
}

impl Linked<{ list::CLC }> for Handshake {
    fn links(&mut self) -> &mut Links<Self> {
        &mut self.clc_out
    }
}

impl Engine<'_> {
    /// Moves a rendezvous to another state, and notes for link groups how far it is.
    fn set_state(&mut self, handshake: HandshakeIdx, state: State) {
        let Some(h) = self.handshakes.at_mut(handshake) else {
            debug_assert!(false, "the caller has a live rendezvous");
            return;
        };
        let (conn, old) = (h.conn, h.state);
        h.state = state;
        let Some(record) = self.groups.data.connections.at_mut(h.conn) else {
            debug_assert!(false, "a connection outlives its rendezvous");
            return;
        };
        record.contact.step = state.step();
        if state == State::AwaitingConfirm {
            let group = self.groups.data.groups.at(record.group);
            let smcr = group.and_then(LinkGroup::smcr);
            record.contact.links_left = smcr.map_or(0, |smcr| smcr.former.count());
        }
        // Preparing begins anew whenever something is missing.
        if old != state {
            self.trace_conn(conn, || TraceEvent::RendezvousMoved {
                old: old.into(),
                new: state.into(),
            });
        }
    }

    /// Begins or resumes the local work before Accept or Confirm. The first call of a
    /// rendezvous sets when it ends at the latest, `wait` from now.
    //= CLC-067
    fn prepare(&mut self, handshake: HandshakeIdx, now: Instant, wait: Duration) {
        if let Some(h) = self.handshakes.at_mut(handshake) {
            h.deadline = Some(h.prepare_by(now, wait));
        }
        self.set_state(handshake, State::Preparing);
    }
}
