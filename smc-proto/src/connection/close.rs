//! Closing and aborting a connection (RFC 7609 4.8): the states. The events are
//! in `transitions`.
//!
//! ```text
//!                              ACTIVE
//!        own close: C      |          |      peer's D or C
//!        own shutdown: D   v          v
//!            PeerCloseWait1          AppCloseWait1 --- own shutdown: D ---+
//!     peer's D |    | | peer's C      |  | own close: C                   v
//!              v    | | (own C sent)  |  |                      AppCloseWait2
//!  PeerCloseWait2   | |               |  +--------------+-----------------+
//!            |  |   | |               |                 | own close: C
//!   peer's C |  |   | |               | peer had sent C |
//!   (own     v  v   | |               |                 v
//!   only D)  AppFin | |               |           PeerFinCloseWait
//!         CloseWait | |               |                 | peer's C
//!  own close: C |   v v               v                 v
//!               +------------------> CLOSED <-----------+
//!                                    ^    ^
//!             peer's A, or timer     |    |   own A emitted
//!                        PeerAbortWait    ProcessAbort
//!                              ^               ^
//!     any state, own C not sent:               any state, own C not sent:
//!     abort, TCP reset, fault: send A          peer's A: send A back
//! ```
//!
//! A close that finds unsent data is pending: it takes effect when all data and
//! the CDC messages that publish it are completed. An own C or A is decided here
//! and emitted later; until it is emitted, an abort replaces C by A.

use super::notices::CloseCause;
use crate::wire::cdc::ConnectionFlags;
use core::hash::{Hash, Hasher};

/// State of the close and abort handshake, RFC 7609 4.8.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CloseState {
    /// Data flows both ways.
    Active,
    /// This side has finished writing; the peer has not.
    PeerCloseWait1,
    /// Both sides have finished writing; the peer has not closed.
    PeerCloseWait2,
    /// The peer has closed; the application has not.
    AppFinCloseWait,
    /// The peer has finished writing; this side may still write.
    AppCloseWait1,
    /// Both sides have finished writing, the peer first. The application has not closed.
    AppCloseWait2,
    /// This side has closed, after the peer has finished writing. The peer has not closed.
    PeerFinCloseWait,
    /// This side has aborted, and waits for the peer's abort.
    PeerAbortWait,
    /// The peer has aborted; this side's abort is sent next.
    ProcessAbort,
    /// Both sides have closed or aborted.
    Closed,
}

/// A close that waits until all data is delivered.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Pending {
    Nothing,
    /// Then D: only the sending direction is shut down.
    Done,
    /// Then C.
    Close,
}

bitflags::bitflags! {
    /// What the connection has to do after a transition.
    #[derive(Clone, Copy, PartialEq, Eq, Debug)]
    pub(super) struct Act: u16 {
        /// Send a CDC message with the flags of the new state.
        const SEND = 1 << 0;
        /// Nothing goes to the peer from now on.
        const SILENCE = 1 << 1;
        /// Drop unread and unsent data.
        const PURGE = 1 << 2;
        const LINGER = 1 << 3;
        const CLOSE_WAIT = 1 << 4;
        const ABORT_WAIT = 1 << 5;
        const END_OF_STREAM = 1 << 6;
        const RESET = 1 << 7;
        const TCP_RESET = 1 << 8;
        const TCP_CLOSE = 1 << 9;
        const CLOSED = 1 << 10;
    }
}

#[derive(Clone, Debug)]
pub(super) struct Close {
    pub(super) state: CloseState,
    pub(super) pending: Pending,
    /// The application closed both directions.
    pub(super) full: bool,
    /// The peer's C arrived.
    pub(super) peer_closed: bool,
    /// The peer's C or A arrived, in whatever state: it reads nothing any more.
    pub(super) peer_finished: bool,
    /// Flags decided, carried by every CDC message from then on.
    pub(super) flags: ConnectionFlags,
    /// Flags that some emitted CDC message carried.
    pub(super) emitted: ConnectionFlags,
    /// Why the connection ends abnormally, once that is known.
    pub(super) cause: Option<CloseCause>,
}

use CloseState::{Active, AppCloseWait2, Closed, PeerCloseWait1, PeerFinCloseWait};

impl Close {
    pub(super) const fn new() -> Self {
        //= CLOSE-001
        Self {
            state: Active,
            pending: Pending::Nothing,
            full: false,
            peer_closed: false,
            peer_finished: false,
            flags: ConnectionFlags::empty(),
            emitted: ConnectionFlags::empty(),
            cause: None,
        }
    }

    /// Whether both sides may send and neither has announced an end.
    pub(super) const fn is_steady(&self) -> bool {
        matches!(
            (self.state, self.pending, self.cause),
            (Active, Pending::Nothing, None)
        ) && !self.full
            && !self.peer_closed
            && self.flags.is_empty()
    }

    /// Whether the last CDC message of this side is decided: C or A.
    pub(super) const fn final_decided(&self) -> bool {
        self.flags.intersects(
            ConnectionFlags::PEER_CONNECTION_CLOSED.union(ConnectionFlags::ABNORMAL_CLOSE),
        )
    }

    /// Whether the last CDC message of this side is out (CLOSE-029, ABORT-019).
    pub(super) const fn final_emitted(&self) -> bool {
        self.emitted.intersects(
            ConnectionFlags::PEER_CONNECTION_CLOSED.union(ConnectionFlags::ABNORMAL_CLOSE),
        )
    }

    pub(super) fn hash(&self, h: &mut impl Hasher) {
        self.state.hash(h);
        self.pending.hash(h);
        self.full.hash(h);
        self.peer_closed.hash(h);
        self.flags.hash(h);
        self.emitted.hash(h);
        self.cause.hash(h);
    }

    pub(super) const fn close_emitted(&self) -> bool {
        self.emitted
            .contains(ConnectionFlags::PEER_CONNECTION_CLOSED)
    }

    pub(super) fn decide_close(&mut self) -> Act {
        self.pending = Pending::Nothing;
        self.flags |= ConnectionFlags::PEER_CONNECTION_CLOSED;
        match self.state {
            //= CLOSE-006
            Active => {
                self.state = PeerCloseWait1;
                Act::SEND | Act::CLOSE_WAIT
            }
            //= CLOSE-018
            _ if self.peer_closed => self.finish(None) | Act::SEND,
            //= CLOSE-020
            _ => {
                self.state = PeerFinCloseWait;
                Act::SEND | Act::CLOSE_WAIT
            }
        }
    }

    pub(super) fn decide_done(&mut self) -> Act {
        self.pending = Pending::Nothing;
        self.flags |= ConnectionFlags::SENDING_DONE;
        self.state = match self.state {
            //= CLOSE-007
            Active => PeerCloseWait1,
            //= CLOSE-017
            _ => AppCloseWait2,
        };
        Act::SEND
    }

    pub(super) fn decide_abort(&mut self, state: CloseState, cause: CloseCause) {
        self.state = state;
        self.pending = Pending::Nothing;
        self.cause = Some(cause);
        self.flags.remove(ConnectionFlags::PEER_CONNECTION_CLOSED);
        self.flags |= ConnectionFlags::ABNORMAL_CLOSE;
    }

    /// Ends the connection without another message to the peer.
    pub(super) fn break_off(&mut self, cause: CloseCause) -> Act {
        self.finish(Some(cause)) | Act::SILENCE | Act::PURGE | Act::RESET | Act::TCP_RESET
    }

    pub(super) fn finish(&mut self, cause: Option<CloseCause>) -> Act {
        self.state = Closed;
        self.pending = Pending::Nothing;
        self.cause = self.cause.or(cause);
        //= CLOSE-033
        match self.cause {
            None => {
                self.cause = Some(CloseCause::Orderly);
                Act::CLOSED | Act::TCP_CLOSE
            }
            Some(_) => Act::CLOSED,
        }
    }
}
