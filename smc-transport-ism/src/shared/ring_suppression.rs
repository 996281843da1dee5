//! Ring suppression: a device whose owner polls the heads of its DMBs, so that peers need not
//! ring for them.
//!
//! ```text
//!          suppress_rings                     restore_rings, park
//!   rings ───────────────► no rings for DMBs ─────────────────────► rings
//!                          a thread that waits for                  then all heads are polled
//!                          one DMB polls its head                   once
//! ```
//!
//! Rings of all connections of a channel change the same words. Threads with a connection each
//! would take those words from each other with every message.

use super::device::Device;

/// Most DMBs of a device that suppresses rings: all are polled each time it restores them.
pub(super) const MOST_POLLED: usize = 64;

impl Device {
    /// Asks the peers not to ring for DMBs, unless the device is parked or has more than 64
    /// DMBs. Parking ends that; then what was written meanwhile is reported.
    ///
    /// The caller sees to it that each thread that waits for a DMB polls its head
    /// ([`IsmDevice::poll_head`](crate::device::IsmDevice::poll_head)), or parks the device.
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

    /// Whether the peers were asked not to ring for DMBs.
    #[must_use]
    pub fn suppresses_rings(&self) -> bool {
        self.suppresses_rings
    }

    /// Asks the peers to ring for DMBs again, and reports what was written meanwhile.
    //= SHM-075
    pub fn restore_rings(&mut self) {
        if std::mem::take(&mut self.suppresses_rings) {
            let channels = self.channels.iter();
            channels.for_each(|(_, channel)| channel.restore_rings());
            self.poll_heads();
        }
    }

    /// Queues a report for each DMB whose head has changed since it was last reported or polled.
    pub fn poll_heads(&mut self) {
        let changed = self.dmbs.iter().filter(|(_, own)| own.has_news());
        let changed: Vec<_> = changed.map(|(key, _)| key).collect();
        for key in changed {
            let signal = self.signalled(key);
            self.queue_signal(signal);
        }
    }
}
