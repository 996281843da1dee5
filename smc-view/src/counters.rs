//! Counters of connections, and their totals.

use std::sync::atomic::{AtomicU64, Ordering};

/// Classes of sizes: up to 8, 16, 32, 64, 128, 256, 512 and 1024 KiB, and above.
pub(crate) const SIZES: usize = 9;

/// Keys of the statistics of a technology.
pub(crate) const KEYS: usize = 65;

/// Distinct reasons of fallbacks, by side; further ones are counted in the totals alone.
pub(crate) const FALLBACKS: usize = 64;

/// Counters of a connection, which one thread at a time writes: the one that reads or writes the
/// connection.
#[repr(C)]
pub(crate) struct Counters {
    /// Which connection they are of.
    pub(crate) serial: AtomicU64,
    pub(crate) sent: AtomicU64,
    pub(crate) received: AtomicU64,
    pub(crate) sent_sizes: [AtomicU64; SIZES],
    pub(crate) received_sizes: [AtomicU64; SIZES],
    pub(crate) written: AtomicU64,
    pub(crate) completed: AtomicU64,
    pub(crate) peer_consumed: AtomicU64,
    pub(crate) arrived: AtomicU64,
    pub(crate) messages: AtomicU64,
    /// Times a write found no room.
    pub(crate) full: AtomicU64,
    /// Times a write found no room since the peer's buffer was full; part of `full`.
    pub(crate) peer_full: AtomicU64,
    /// Times a read found the receive buffer full.
    pub(crate) receive_full: AtomicU64,
    /// When the connection had got as far as `written` to `messages` say.
    pub(crate) progress_time: AtomicU64,
}

/// Totals of a process: of connections that have ended, and of what is counted once.
#[repr(C, align(64))]
pub(crate) struct Totals {
    /// Odd while the counters of a connection move here.
    pub(crate) moves: AtomicU64,
    /// SMC-D, SMC-R, in the order of the statistics' keys.
    pub(crate) technologies: [[AtomicU64; KEYS]; 2],
    /// Connections over TCP, as client and as server.
    pub(crate) tcp: [AtomicU64; 2],
    /// Handshakes that failed where no fallback was left, as client and as server.
    pub(crate) handshake_errors: [AtomicU64; 2],
    /// Messages of connections that have ended: SMC-D, SMC-R.
    pub(crate) messages: [AtomicU64; 2],
    pub(crate) link_moves: AtomicU64,
    pub(crate) fallbacks: [FallbackCount; FALLBACKS],
}

/// Connections over TCP for a reason, at a side: `code | side << 32`, and 1 in the highest bit.
#[repr(C)]
pub(crate) struct FallbackCount {
    pub(crate) key: AtomicU64,
    pub(crate) count: AtomicU64,
}

impl FallbackCount {
    pub(crate) const USED: u64 = 1 << 63;

    /// Whether the entry counts this key, for which a free one is taken.
    pub(crate) fn claim(&self, key: u64) -> bool {
        let order = Ordering::Relaxed;
        let found = self.key.compare_exchange(0, key, order, order);
        found.is_ok() || found == Err(key)
    }
}

/// The class of a size in bytes.
#[inline(always)]
pub(crate) const fn class_of(bytes: usize) -> usize {
    let above = bytes.saturating_sub(1) >> 13;
    let class = (usize::BITS - above.leading_zeros()) as usize;
    if class < SIZES { class } else { SIZES - 1 }
}

/// Adds to a counter that no other thread writes at the same time.
#[inline(always)]
pub(crate) fn add(counter: &AtomicU64, amount: u64) {
    let sum = counter.load(Ordering::Relaxed).wrapping_add(amount);
    counter.store(sum, Ordering::Relaxed);
}

/// Adds to a counter that threads share.
pub(crate) fn add_shared(counter: &AtomicU64, amount: u64) {
    counter.fetch_add(amount, Ordering::Relaxed);
}

impl Counters {
    /// Counts bytes that one call sent.
    #[inline(always)]
    pub(crate) fn sent(&self, bytes: usize) {
        add(&self.sent, bytes as u64);
        if let Some(class) = self.sent_sizes.get(class_of(bytes)) {
            add(class, 1);
        }
    }

    /// Counts bytes that one call received.
    #[inline(always)]
    pub(crate) fn received(&self, bytes: usize) {
        add(&self.received, bytes as u64);
        if let Some(class) = self.received_sizes.get(class_of(bytes)) {
            add(class, 1);
        }
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &AtomicU64> {
        let alone = [&self.sent, &self.received];
        let sizes = self.sent_sizes.iter().chain(&self.received_sizes);
        let progress = [&self.written, &self.completed, &self.peer_consumed];
        let others = [
            &self.arrived,
            &self.messages,
            &self.full,
            &self.peer_full,
            &self.receive_full,
            &self.progress_time,
        ];
        alone.into_iter().chain(sizes).chain(progress).chain(others)
    }

    /// All zero, of another connection.
    pub(crate) fn begin(&self, serial: u64) {
        self.all()
            .for_each(|counter| counter.store(0, Ordering::Relaxed));
        self.serial.store(serial, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_are_those_of_the_keys() {
        for (bytes, class) in [
            (0, 0),
            (1, 0),
            (8192, 0),
            (8193, 1),
            (16_384, 1),
            (16_385, 2),
            (1 << 19, 6),
            (1 << 20, 7),
            ((1 << 20) + 1, 8),
            (usize::MAX, 8),
        ] {
            assert_eq!(class_of(bytes), class, "{bytes}");
        }
    }
}
