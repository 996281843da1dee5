//! Old names of public items, kept until 0.1.0. Each forwards to its successor.

#[cfg(feature = "smc-d")]
mod smcd;

#[cfg(feature = "smc-d")]
#[allow(deprecated)]
pub use smcd::Looked;

#[cfg(feature = "allocation-failures")]
use crate::storage::{AllocationFailure, PoolHead};

use crate::command::DataTransmit;
use crate::config::ConnectionConfig;
use crate::connection::{Connection, FatalCause, Sent};
use crate::endpoint::ReadOutcome;
use crate::time::Instant;
use crate::wire::types::AddLinkRejectReason;

/// Old name of [`DataTransmit`].
#[deprecated(note = "renamed to `DataTransmit`")]
pub type DataTurn = DataTransmit;

/// Old name of [`Sent`].
#[deprecated(note = "renamed to `Sent`")]
pub type Told = Sent;

/// Old name of [`ReadOutcome`].
#[deprecated(note = "renamed to `ReadOutcome`")]
pub type Taken = ReadOutcome;

impl AddLinkRejectReason {
    /// Old name of [`AddLinkRejectReason::UNSPECIFIED`].
    #[deprecated(note = "renamed to `UNSPECIFIED`")]
    pub const NOT_TOLD: Self = Self::UNSPECIFIED;
}

impl FatalCause {
    /// Old name of [`FatalCause::can_notify_peer`].
    #[deprecated(note = "renamed to `can_notify_peer`")]
    #[must_use]
    pub const fn can_tell_peer(self) -> bool {
        self.can_notify_peer()
    }
}

impl Connection {
    /// Old name of [`Connection::next_transmit`].
    #[deprecated(note = "renamed to `next_transmit`")]
    pub fn next_turn(
        &mut self,
        now: Instant,
        cfg: &ConnectionConfig,
        address: u64,
        turn: &mut DataTransmit,
    ) -> Option<Sent> {
        self.next_transmit(now, cfg, address, turn)
    }

    /// Old name of [`Connection::has_received`].
    #[deprecated(note = "renamed to `has_received`")]
    #[must_use]
    pub const fn has_heard(&self) -> bool {
        self.has_received()
    }
}

/// Old name of [`AllocationFailure`].
#[cfg(feature = "allocation-failures")]
#[deprecated(note = "renamed to `AllocationFailure`")]
pub type Ration = AllocationFailure;

#[cfg(feature = "allocation-failures")]
impl PoolHead {
    /// Old name of [`PoolHead::fail_allocations`].
    #[deprecated(note = "renamed to `fail_allocations`")]
    pub const fn ration(&mut self, which: AllocationFailure) {
        self.fail_allocations(which);
    }
}
