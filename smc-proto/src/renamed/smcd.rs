//! Old names of what serves SMC-D alone.

use crate::command::Signal;
use crate::connection::ApiMisuse;
use crate::endpoint::{BufferSpans, Endpoint, PollOutcome};
use crate::id::{BufferId, ConnId, DeviceId};
use crate::storage::Storage;
use crate::time::Instant;
use crate::wire::cdc_ism::CDC_ISM_LENGTH;

/// Old name of [`PollOutcome`].
#[deprecated(note = "renamed to `PollOutcome`")]
pub type Looked = PollOutcome;

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
