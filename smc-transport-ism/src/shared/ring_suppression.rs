//! Ring suppression: peers do not ring doorbells for a device's DMBs while its threads poll the
//! heads of the DMBs anyway.
//!
//! ```text
//!          suppress_rings                     restore_rings, park
//!   rings ───────────────► no rings for DMBs ─────────────────────► rings
//!                          a thread that waits for                  then all heads are polled
//!                          one DMB polls its head                   once
//! ```
//!
//! That is faster where many threads have a connection each: rings of all connections of a channel
//! change the same words of shared memory, so that with every message a processor would take the
//! words' cache line from another one.

use super::device::Device;

/// Most DMBs of a device that suppresses rings. All are polled when rings are restored.
pub(super) const MOST_POLLED: usize = 64;

impl Device {
    /// Suppresses rings for DMBs, until [`Self::restore_rings`] or until the device is parked. Does
    /// nothing if the device is parked, or has more than 64 DMBs.
    ///
    /// Each thread that waits for a DMB has to poll its head meanwhile
    /// ([`IsmDevice::poll_head`](crate::device::IsmDevice::poll_head)), or to park the device.
    //= SHM-075
    #[inline]
    pub fn suppress_rings(&mut self) {
        if !self.suppresses_rings && !self.parked && self.dmbs.len() <= MOST_POLLED {
            self.suppresses_rings = true;
            self.channels
                .iter()
                .for_each(|(_, channel)| channel.suppress_rings());
        }
    }

    /// Whether rings for DMBs are suppressed.
    #[must_use]
    pub fn suppresses_rings(&self) -> bool {
        self.suppresses_rings
    }

    /// Ends ring suppression, and reports the DMBs that were written to meanwhile.
    //= SHM-075
    pub fn restore_rings(&mut self) {
        if std::mem::take(&mut self.suppresses_rings) {
            let channels = self.channels.iter();
            channels.for_each(|(_, channel)| channel.restore_rings());
            self.poll_heads();
        }
    }

    /// Queues a signal report for each DMB whose head has changed since it was last reported or
    /// polled.
    pub fn poll_heads(&mut self) {
        let changed = self.dmbs.iter().filter(|(_, own)| own.has_changed());
        let changed: Vec<_> = changed.map(|(key, _)| key).collect();
        for key in changed {
            let signal = self.signalled(key);
            self.queue_signal(signal);
        }
    }
}
