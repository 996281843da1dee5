//! Old names of public items, kept until 0.1.0. Each forwards to its successor.

use crate::command::{DataTransmit, Signal};
use crate::config::ConnectionConfig;
use crate::connection::{ApiMisuse, Connection, FatalCause, Sent};
use crate::endpoint::{BufferSpans, Endpoint, PollOutcome, ReadOutcome};
use crate::id::{BufferId, ConnId, DeviceId};
use crate::storage::Storage;
use crate::time::Instant;
use crate::wire::cdc_ism::CDC_ISM_LENGTH;
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

/// Old name of [`PollOutcome`].
#[deprecated(note = "renamed to `PollOutcome`")]
pub type Looked = PollOutcome;

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

impl<S: Storage> Endpoint<S> {
    /// Old name of [`Endpoint::poll_dmb`].
    #[deprecated(note = "renamed to `poll_dmb`")]
    pub fn look(
        &mut self,
        now: Instant,
        conn: ConnId,
        look: impl FnOnce(BufferId, &mut [u8; CDC_ISM_LENGTH]) -> bool,
    ) -> PollOutcome {
        self.poll_dmb(now, conn, look)
    }

    /// Old name of [`Endpoint::write_and_signal`].
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was sent.
    #[deprecated(note = "renamed to `write_and_signal`")]
    pub fn write_and_tell<T>(
        &mut self,
        now: Instant,
        conn: ConnId,
        peer: &mut T,
        fill: impl FnOnce(&mut T, &BufferSpans) -> u32,
        tell: impl FnOnce(&mut T, &Signal),
    ) -> Option<Result<u32, ApiMisuse>> {
        self.write_and_signal(now, conn, peer, fill, tell)
    }

    /// Old name of [`Endpoint::is_idle`].
    #[deprecated(note = "renamed to `is_idle`")]
    pub fn is_quiet(&self, device: DeviceId) -> bool {
        self.is_idle(device)
    }
}
