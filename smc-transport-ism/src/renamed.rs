//! Old names of public items, kept until 0.1.0. Each forwards to its successor.

use std::time::Duration;

use smc_proto::command::Signal;
use smc_proto::id::BufferId;
use smc_proto::wire::cdc_ism::CDC_ISM_LENGTH;

use crate::binding::Binding;
use crate::device::{Cdc, IsmDevice};
use crate::shared::{Device, FutexWords, Lane, WakeHandle};

impl<D: IsmDevice> Binding<D> {
    /// Old name of [`Binding::write_signal`].
    #[deprecated(note = "renamed to `write_signal`")]
    pub fn tell(&mut self, signal: &Signal) {
        self.write_signal(signal);
    }

    /// Old name of [`Binding::poll_head`].
    #[deprecated(note = "renamed to `poll_head`")]
    pub fn look(&self, buffer: BufferId, head: &mut [u8; CDC_ISM_LENGTH]) -> bool {
        self.poll_head(buffer, head)
    }
}

impl Lane {
    /// Old name of [`Lane::write_signal`].
    #[deprecated(note = "renamed to `write_signal`")]
    pub fn tell(&self, signal: &Signal) -> bool {
        self.write_signal(signal)
    }

    /// Old name of [`Lane::poll_head`].
    #[deprecated(note = "renamed to `poll_head`")]
    pub fn look(&mut self, head: &mut Cdc) -> bool {
        self.poll_head(head)
    }
}

impl Device {
    /// Old name of [`Device::note_readable`].
    #[deprecated(note = "renamed to `note_readable`")]
    pub fn heed(&mut self) {
        self.note_readable();
    }

    /// Old name of [`Device::set_externally_polled`].
    #[deprecated(note = "renamed to `set_externally_polled`")]
    pub fn is_heard(&mut self) {
        self.set_externally_polled();
    }

    /// Old name of [`Device::limit_spin`].
    #[deprecated(note = "renamed to `limit_spin`")]
    pub fn look_at_most(&mut self, time: Duration) {
        self.limit_spin(time);
    }

    /// Old name of [`Device::poll_heads`].
    #[deprecated(note = "renamed to `poll_heads`")]
    pub fn look_at_heads(&mut self) {
        self.poll_heads();
    }

    /// Old name of [`Device::suppress_rings`].
    #[deprecated(note = "renamed to `suppress_rings`")]
    pub fn attend(&mut self) {
        self.suppress_rings();
    }

    /// Old name of [`Device::suppresses_rings`].
    #[deprecated(note = "renamed to `suppresses_rings`")]
    #[must_use]
    pub fn attends(&self) -> bool {
        self.suppresses_rings()
    }

    /// Old name of [`Device::restore_rings`].
    #[deprecated(note = "renamed to `restore_rings`")]
    pub fn stop_attending(&mut self) {
        self.restore_rings();
    }

    /// Old name of [`Device::futex_words`].
    #[deprecated(note = "renamed to `futex_words`")]
    pub fn words(&mut self) -> Option<FutexWords> {
        self.futex_words()
    }

    /// Old name of [`Device::release_futex_words`].
    #[deprecated(note = "renamed to `release_futex_words`")]
    pub fn forget_words(&mut self) {
        self.release_futex_words();
    }
}

impl WakeHandle {
    /// Old name of [`WakeHandle::count`].
    #[deprecated(note = "renamed to `count`")]
    #[must_use]
    pub fn made(&self) -> u32 {
        self.count()
    }

    /// Old name of [`WakeHandle::wake`].
    #[deprecated(note = "renamed to `wake`")]
    pub fn make(&self) {
        self.wake();
    }

    /// Old name of [`WakeHandle::wait`].
    #[deprecated(note = "renamed to `wait`")]
    pub fn sleep(&self, made: u32, timeout: Option<Duration>) -> bool {
        self.wait(made, timeout)
    }
}

impl FutexWords {
    /// Old name of [`FutexWords::wait`].
    ///
    /// # Errors
    /// Errors of [`FutexWords::wait`].
    #[deprecated(note = "renamed to `wait`")]
    pub fn sleep(
        &self,
        call: &WakeHandle,
        made: u32,
        timeout: Option<Duration>,
    ) -> std::io::Result<bool> {
        self.wait(call, made, timeout)
    }
}
