//! A device whose owner looks at the heads of its DMBs by itself: peers need not ring for them.
//!
//! ```text
//!             attend                        stop_attending, park
//!   rings ──────────────► no rings for DMBs ─────────────────────► rings
//!                         whoever waits for one DMB                then all heads are looked
//!                         looks at its head                        at once
//! ```
//!
//! Rings of all connections of a channel change the same words. Threads with a connection each
//! would take those words from each other with every message.

use super::device::Device;

/// Most DMBs of a device that attends: all of them are looked at each time it ends that.
pub(super) const ATTENDED: usize = 64;

impl Device {
    /// Lets the peers do without rings for DMBs, unless the device is parked or has too many
    /// DMBs. Parking ends that; then what was written meanwhile is reported.
    ///
    /// The caller sees to it that whoever waits for a DMB looks at its head, or parks the device.
    //= SHM-075
    #[inline]
    pub fn attend(&mut self) {
        if !self.attends && !self.parked && self.dmbs.len() <= ATTENDED {
            self.attends = true;
            self.channels
                .iter()
                .for_each(|(_, channel)| channel.attend());
        }
    }

    /// Whether the peers do without rings for DMBs.
    #[must_use]
    pub fn attends(&self) -> bool {
        self.attends
    }

    /// Has the peers ring for DMBs again, and reports what was written meanwhile.
    //= SHM-075
    pub fn stop_attending(&mut self) {
        if std::mem::take(&mut self.attends) {
            let channels = self.channels.iter();
            channels.for_each(|(_, channel)| channel.stop_attending());
            self.look_at_heads();
        }
    }

    /// Reports the DMBs whose heads have changed since they were last reported or looked at.
    pub fn look_at_heads(&mut self) {
        let changed = self.dmbs.iter().filter(|(_, own)| own.has_news());
        let changed: Vec<_> = changed.map(|(key, _)| key).collect();
        for key in changed {
            let signal = self.signalled(key);
            self.queue_signal(signal);
        }
    }
}
