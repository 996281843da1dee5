//! Closing and aborting a connection (RFC 7609 4.8): one method per event, each
//! a table over the states.
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
    /// This side is done, nothing from the peer yet.
    PeerCloseWait1,
    /// Both sides are done writing, the peer has not closed.
    PeerCloseWait2,
    /// The peer closed, the application still owes its close.
    AppFinCloseWait,
    /// The peer is done, this side may still write.
    AppCloseWait1,
    /// The peer was done first, then this side; the application owes its close.
    AppCloseWait2,
    /// This side closed second, the peer still owes its close.
    PeerFinCloseWait,
    /// This side aborted and waits for the peer's abort.
    PeerAbortWait,
    /// The peer aborted, our own abort goes out next.
    ProcessAbort,
    /// Over.
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
    /// Flags decided, carried by every CDC message from then on.
    pub(super) flags: ConnectionFlags,
    /// Flags that some emitted CDC message carried.
    pub(super) emitted: ConnectionFlags,
    /// Why the connection ends abnormally, once that is known.
    pub(super) cause: Option<CloseCause>,
}

use CloseState::{
    Active, AppCloseWait1, AppCloseWait2, AppFinCloseWait, Closed, PeerAbortWait, PeerCloseWait1,
    PeerCloseWait2, PeerFinCloseWait, ProcessAbort,
};

impl Close {
    pub(super) const fn new() -> Self {
        //= CLOSE-001
        Self {
            state: Active,
            pending: Pending::Nothing,
            full: false,
            peer_closed: false,
            flags: ConnectionFlags::empty(),
            emitted: ConnectionFlags::empty(),
            cause: None,
        }
    }

    /// close() or shutdown of both directions (CLOSE-002).
    pub(super) fn close(&mut self, unread: bool, drained: bool) -> Act {
        match self.state {
            Active | AppCloseWait1 | AppCloseWait2 | PeerCloseWait1 | PeerCloseWait2
            | AppFinCloseWait
                if self.full =>
            {
                Act::empty()
            }
            //= CLOSE-003
            //= ABORT-012
            Active | AppCloseWait1 | AppCloseWait2 | PeerCloseWait1 | PeerCloseWait2
            | AppFinCloseWait
                if unread =>
            {
                self.abort(CloseCause::UnreadData)
            }
            //= CLOSE-004
            //= CLOSE-019
            Active | AppCloseWait1 if !drained => {
                self.full = true;
                self.pending = Pending::Close;
                Act::LINGER
            }
            Active | AppCloseWait1 | AppCloseWait2 => {
                self.full = true;
                self.decide_close()
            }
            //= CLOSE-013
            // Everything was delivered before D, so C need not wait.
            PeerCloseWait1 | PeerCloseWait2 => {
                self.full = true;
                self.flags |= ConnectionFlags::PEER_CONNECTION_CLOSED;
                Act::SEND | Act::CLOSE_WAIT
            }
            //= CLOSE-012
            AppFinCloseWait => {
                self.full = true;
                self.flags |= ConnectionFlags::PEER_CONNECTION_CLOSED;
                self.finish(None) | Act::SEND
            }
            PeerFinCloseWait | PeerAbortWait | ProcessAbort | Closed => Act::empty(),
        }
    }

    /// shutdown of the sending direction; unread data does not matter (CLOSE-008).
    pub(super) fn shutdown_write(&mut self, drained: bool) -> Act {
        match self.state {
            Active | AppCloseWait1 if self.pending != Pending::Nothing => Act::empty(),
            Active | AppCloseWait1 if !drained => {
                self.pending = Pending::Done;
                Act::empty()
            }
            //= CLOSE-008
            Active | AppCloseWait1 => self.decide_done(),
            _ => Act::empty(),
        }
    }

    /// All data and the CDC messages that publish it are completed (CLOSE-005).
    pub(super) fn drained(&mut self) -> Act {
        //= CLOSE-005
        match (self.state, self.pending) {
            (Active | AppCloseWait1, Pending::Close) => self.decide_close(),
            (Active | AppCloseWait1, Pending::Done) => self.decide_done(),
            _ => Act::empty(),
        }
    }

    /// The peer's D.
    pub(super) fn peer_done(&mut self) -> Act {
        match self.state {
            //= CLOSE-014
            //= CLOSE-016
            Active => {
                self.state = AppCloseWait1;
                Act::END_OF_STREAM
            }
            //= CLOSE-009
            //= CLOSE-026
            PeerCloseWait1 => {
                self.state = PeerCloseWait2;
                Act::END_OF_STREAM
            }
            //= CLOSE-023
            //= ABORT-017
            _ => Act::empty(),
        }
    }

    /// The peer's C, which implies D (AMB-45). `undelivered`: octets committed
    /// here neither completed nor consumed by the peer.
    pub(super) fn peer_closed(&mut self, undelivered: bool) -> Act {
        match self.state {
            Active | AppCloseWait1 | AppCloseWait2 if self.peer_closed => Act::empty(),
            //= CLOSE-015
            Active | AppCloseWait1 | AppCloseWait2 if undelivered => {
                self.peer_closed = true;
                self.abort(CloseCause::PeerClosedEarly)
            }
            //= CLOSE-014
            Active => {
                self.peer_closed = true;
                self.state = AppCloseWait1;
                Act::END_OF_STREAM
            }
            //= CLOSE-022
            AppCloseWait1 | AppCloseWait2 => {
                self.peer_closed = true;
                Act::empty()
            }
            //= CLOSE-010
            //= CLOSE-028
            PeerCloseWait1 | PeerCloseWait2 if self.full => self.finish(None),
            //= CLOSE-011
            PeerCloseWait1 | PeerCloseWait2 => {
                self.peer_closed = true;
                self.state = AppFinCloseWait;
                Act::END_OF_STREAM
            }
            //= CLOSE-021
            PeerFinCloseWait => self.finish(None),
            //= ABORT-017
            AppFinCloseWait | PeerAbortWait | ProcessAbort | Closed => Act::empty(),
        }
    }

    /// The peer's A.
    pub(super) fn peer_abort(&mut self) -> Act {
        match self.state {
            ProcessAbort | Closed => Act::empty(),
            //= ABORT-005
            //= ABORT-011
            PeerAbortWait => self.finish(None),
            //= ABORT-014
            _ if self.close_emitted() => self.break_off(CloseCause::PeerAborted),
            //= ABORT-008
            //= ABORT-009
            //= ABORT-013
            _ => {
                self.decide_abort(ProcessAbort, CloseCause::PeerAborted);
                Act::SEND | Act::PURGE | Act::RESET | Act::TCP_RESET | Act::ABORT_WAIT
            }
        }
    }

    /// Abort by the application, by a fault the peer can be told of, or because
    /// the end took too long.
    pub(super) fn abort(&mut self, cause: CloseCause) -> Act {
        match self.state {
            PeerAbortWait | ProcessAbort | Closed => Act::empty(),
            _ if self.close_emitted() => self.break_off(cause),
            //= ABORT-002
            //= ABORT-018
            _ => {
                self.decide_abort(PeerAbortWait, cause);
                Act::SEND | Act::PURGE | Act::RESET | Act::TCP_RESET | Act::ABORT_WAIT
            }
        }
    }

    /// The peer reset the TCP connection.
    pub(super) fn tcp_reset(&mut self) -> Act {
        //= ABORT-010
        //= ABORT-016
        self.abort(CloseCause::TcpReset).difference(Act::TCP_RESET)
    }

    /// A fault after which nothing may be written to the peer.
    pub(super) fn lose(&mut self, cause: CloseCause) -> Act {
        match self.state {
            Closed => Act::SILENCE,
            //= ABORT-015
            //= CLOSE-040
            _ => self.break_off(cause),
        }
    }

    /// The deadline that a transition armed has passed.
    pub(super) fn timeout(&mut self) -> Act {
        match self.state {
            //= ABORT-001
            Active | AppCloseWait1 if self.pending == Pending::Close => {
                self.abort(CloseCause::LingerExpired)
            }
            //= CLOSE-031
            //= CLOSE-039
            PeerCloseWait1 | PeerCloseWait2 | PeerFinCloseWait if self.full => {
                self.break_off(CloseCause::CloseWaitExpired)
            }
            //= ABORT-006
            //= ABORT-007
            PeerAbortWait | ProcessAbort => self.finish(None) | Act::SILENCE,
            _ => Act::empty(),
        }
    }

    /// A CDC message with the present flags was emitted.
    pub(super) fn emitted(&mut self) -> Act {
        self.emitted = self.flags;
        match self.state {
            //= ABORT-009
            ProcessAbort => self.finish(None),
            _ => Act::empty(),
        }
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

    const fn close_emitted(&self) -> bool {
        self.emitted
            .contains(ConnectionFlags::PEER_CONNECTION_CLOSED)
    }

    fn decide_close(&mut self) -> Act {
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

    fn decide_done(&mut self) -> Act {
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

    fn decide_abort(&mut self, state: CloseState, cause: CloseCause) {
        self.state = state;
        self.pending = Pending::Nothing;
        self.cause = Some(cause);
        self.flags.remove(ConnectionFlags::PEER_CONNECTION_CLOSED);
        self.flags |= ConnectionFlags::ABNORMAL_CLOSE;
    }

    /// The end without another word to the peer.
    fn break_off(&mut self, cause: CloseCause) -> Act {
        self.finish(Some(cause)) | Act::SILENCE | Act::PURGE | Act::RESET | Act::TCP_RESET
    }

    fn finish(&mut self, cause: Option<CloseCause>) -> Act {
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
