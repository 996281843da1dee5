//! The events of the close and abort handshake, RFC 7609 4.8: one method each, a
//! table over the states. What a row does besides is returned as [`Act`].

use super::close::CloseState::{
    Active, AppCloseWait1, AppCloseWait2, AppFinCloseWait, Closed, PeerAbortWait, PeerCloseWait1,
    PeerCloseWait2, PeerFinCloseWait, ProcessAbort,
};
use super::close::{Act, Close, Pending};
use super::notices::CloseCause;
use crate::wire::cdc::ConnectionFlags;

impl Close {
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

    /// The peer's C, which implies D (AMB-45). `undelivered`: bytes committed
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

    /// Abort by the application, by a fault the peer can be notified of, or because
    /// the end took too long.
    pub(super) fn abort(&mut self, cause: CloseCause) -> Act {
        match self.state {
            PeerAbortWait | ProcessAbort | Closed => Act::empty(),
            // Nothing may follow our C, but the peer may still write: its element
            // is kept until its last message (C or A) or the time for that is over
            // (RMB-021, AMB-33).
            //= RMB-021
            _ if self.close_emitted() => {
                self.state = PeerAbortWait;
                self.pending = Pending::Nothing;
                self.cause = Some(cause);
                Act::SILENCE | Act::PURGE | Act::RESET | Act::TCP_RESET | Act::ABORT_WAIT
            }
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
            // The application and TCP were notified when the abort began.
            PeerAbortWait | ProcessAbort => self.finish(Some(cause)) | Act::SILENCE,
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
}
