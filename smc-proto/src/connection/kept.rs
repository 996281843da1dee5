//! What had arrived before a connection was reset, if the application is to read it
//! ([`ConnectionConfig::keep_received`]).
//!
//! ```text
//!   reset ──► kept: bytes are read, writes fail ──┬─ all was read ──────► CLOSED
//!             SMC-R: A at once; SMC-D: A waits    └─ closed, aborted ───► CLOSED
//!   reset, path lost ──► kept, no A ───────────────────────── closed, aborted ─────────► CLOSED
//! ```
//!
//! Where the peer had ended its stream before, that end stays readable behind the bytes: CLOSED
//! is reported when the application has closed or aborted the connection.

use super::close::{Act, CloseState};
use super::notices::{CloseCause, Notices};
use super::{Connection, FatalCause};
use crate::config::ConnectionConfig;
use crate::time::Instant;

impl CloseCause {
    /// Whether the bytes that had arrived before are those of the peer, in order.
    const fn leaves_received(self) -> bool {
        match self {
            Self::PeerAborted | Self::PeerClosedEarly | Self::TcpReset => true,
            Self::Fatal(cause) => matches!(
                cause,
                FatalCause::LinkLost
                    | FatalCause::MemoryOutOfReach
                    | FatalCause::DataLost
                    | FatalCause::AccessRefused
            ),
            // The application has given the connection up, or the bytes are not to be trusted.
            //= RMB-025
            _ => false,
        }
    }
}

impl Connection {
    /// Whether the peer has ended its stream. A reset alone does not end it.
    pub(crate) const fn is_done_in_order(&self) -> bool {
        self.rx.done
    }

    /// Whether the connection was reset, and the application may still read what arrived before:
    /// bytes, or the end of the stream.
    pub(crate) fn keeps_received(&self) -> bool {
        self.kept && (self.rx.unread() > 0 || self.is_done_in_order())
    }

    /// Whether A waits until all bytes were read: over SMC-D the peer may give back the memory that
    /// it has written when it has this side's A. An RMB is this side's own.
    //= D-061
    pub(super) fn is_abort_deferred(&self) -> bool {
        #[cfg(feature = "smc-d")]
        let smcd = self.smcd;
        #[cfg(not(feature = "smc-d"))]
        let smcd = false;
        smcd && self.kept && self.rx.unread() > 0
    }

    /// Drops what was received, or keeps it for the application. Returns what is left to be done:
    /// the peer's last message is waited for when this side's is out.
    pub(super) fn purge_received(&mut self, cfg: &ConnectionConfig, act: Act) -> Act {
        let trusted = self.close.cause.is_some_and(CloseCause::leaves_received);
        self.kept = cfg.keep_received && trusted && !self.is_given_up();
        if !self.keeps_received() {
            self.drop_received();
            return act;
        }
        self.timers = super::Timers::NONE;
        act.difference(Act::ABORT_WAIT)
    }

    fn drop_received(&mut self) {
        self.kept = false;
        self.rx.purge();
        self.notices.remove(Notices::READABLE);
    }

    /// CLOSED is reached: whether it is to be reported, which ends what is kept. As long as there is
    /// anything left to read, the element is needed.
    pub(super) fn end_kept(&mut self) -> bool {
        let ends = !self.keeps_received();
        self.kept &= !ends;
        ends
    }

    /// The application reads no more.
    pub(super) fn give_up_kept(&mut self, now: Instant, cfg: &ConnectionConfig) {
        if self.kept {
            self.drop_received();
            self.close.full = true;
            let act = match self.close.state {
                // What was kept is why that is not reported yet.
                CloseState::Closed => Act::CLOSED,
                _ => Act::ABORT_WAIT,
            };
            self.perform(now, cfg, act);
        }
    }

    /// What follows when this side's last message is out that has waited for the application: the
    /// wait for the peer's, unless that is here already.
    pub(super) fn follow_kept(&self) -> Act {
        match self.close.state {
            CloseState::PeerAbortWait if self.kept => Act::ABORT_WAIT,
            CloseState::Closed if self.kept => Act::CLOSED,
            _ => Act::empty(),
        }
    }
}
