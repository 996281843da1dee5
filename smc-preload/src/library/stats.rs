//! Counters in a file that `smcx run` reads: shared by all processes of a run, and complete
//! however they end.
//!
//! ```text
//!   0     magic          8    processes       16   SMC-D connected, accepted
//!   32    SMC-R connected, accepted           48   TCP connected, accepted
//!   64    TCP although the policy permits SMC 72   refused
//!   1024  reasons for TCP, 128 bytes each: key, count, text
//! ```

use std::os::fd::AsFd;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use rustix::mm::{MapFlags, ProtFlags};
use smc_sockets::{Carrier, Cause, Technology};

const LENGTH: usize = 8192;
const MAGIC: u64 = 0x534d_4353_5441_5431;
/// Words before the reasons.
const REASONS: usize = 1024 / 8;
/// Words of a reason.
const REASON: usize = 128 / 8;
/// Bytes of its text.
const TEXT: usize = 112;

/// The words of the file.
struct Counters(NonNull<AtomicU64>);

// SAFETY: the memory is mapped for good, and every access is atomic.
unsafe impl Send for Counters {}
// SAFETY: as above.
unsafe impl Sync for Counters {}

static COUNTERS: OnceLock<Counters> = OnceLock::new();

impl Counters {
    fn word(&self, at: usize) -> &AtomicU64 {
        let at = at.min(LENGTH / 8 - 1);
        // SAFETY: the mapping has so many words, aligned to a page, and is never unmapped.
        unsafe { self.0.add(at).as_ref() }
    }

    fn add(&self, at: usize) {
        self.word(at / 8).fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a reason, at the first free place if it is new.
    fn count_reason(&self, text: &str) {
        let key = hash(text);
        for place in (REASONS..LENGTH / 8).step_by(REASON) {
            let claim =
                self.word(place)
                    .compare_exchange(0, key, Ordering::Relaxed, Ordering::Relaxed);
            match claim {
                Ok(_) => {
                    let bytes = text.as_bytes();
                    let bytes = bytes.get(..TEXT).unwrap_or(bytes);
                    for (at, part) in bytes.chunks(8).enumerate() {
                        let mut word = [0; 8];
                        word.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
                        let word = u64::from_ne_bytes(word);
                        self.word(place + 2 + at).store(word, Ordering::Relaxed);
                    }
                }
                Err(known) if known != key => continue,
                Err(_) => {}
            }
            self.word(place + 1).fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
}

/// A number for a text that is not 0 (FNV-1a).
fn hash(text: &str) -> u64 {
    let mix = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
    text.as_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, mix)
        .max(1)
}

/// Maps the file that `SMC_STATS` names, if there is one of the right length.
pub(crate) fn start() {
    let Some(path) = std::env::var_os("SMC_STATS") else {
        return;
    };
    let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let Ok(file) = rustix::fs::open(path, flags, Mode::empty()) else {
        return;
    };
    let is_right = rustix::fs::fstat(file.as_fd()).is_ok_and(|of| of.st_size == LENGTH as i64);
    if !is_right {
        return;
    }
    let access = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping of a file, which nothing else in this process refers to.
    let mapped = unsafe {
        rustix::mm::mmap(
            std::ptr::null_mut(),
            LENGTH,
            access,
            MapFlags::SHARED,
            file.as_fd(),
            0,
        )
    };
    if let Some(at) = mapped
        .ok()
        .and_then(|at| NonNull::new(at.cast::<AtomicU64>()))
    {
        let counters = Counters(at);
        let magic = counters.word(0);
        let claim = magic.compare_exchange(0, MAGIC, Ordering::Relaxed, Ordering::Relaxed);
        if claim.is_ok() || claim == Err(MAGIC) {
            counters.add(8);
            let _ = COUNTERS.set(counters);
        }
    }
}

/// It is decided what carries a connection.
pub(crate) fn decided(carrier: &Carrier, accepted: bool) {
    let Some(counters) = COUNTERS.get() else {
        return;
    };
    let base = match carrier {
        Carrier::Smc(terms) if terms.technology == Technology::SmcR => 32,
        Carrier::Smc(_) => 16,
        _ => 48,
    };
    counters.add(base + if accepted { 8 } else { 0 });
    if let Some(why) = carrier.why_tcp() {
        if !matches!(why.cause(), Cause::Policy(_)) {
            counters.add(64);
        }
        counters.count_reason(&why.sentence());
    }
}

/// TCP carries a connection of which nothing was asked, for a reason that is known at once.
pub(crate) fn plain(accepted: bool, reason: &str, is_wanted: bool) {
    if let Some(counters) = COUNTERS.get() {
        counters.add(48 + if accepted { 8 } else { 0 });
        if is_wanted {
            counters.add(64);
        }
        counters.count_reason(reason);
    }
}

/// Something was refused that cannot be kept.
pub(crate) fn refused() {
    if let Some(counters) = COUNTERS.get() {
        counters.add(72);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_are_counted_at_a_place_of_their_own_until_there_is_none() {
        let memory: Vec<AtomicU64> = (0..LENGTH / 8).map(|_| AtomicU64::new(0)).collect();
        let memory = Vec::leak(memory);
        let counters = Counters(NonNull::from(&memory[0]));
        for _ in 0..3 {
            counters.count_reason("a peer without SMC");
        }
        counters.count_reason(&"long ".repeat(40));
        assert_eq!(memory[REASONS + 1].load(Ordering::Relaxed), 3);
        assert_eq!(memory[REASONS + REASON + 1].load(Ordering::Relaxed), 1);
        let text: Vec<u8> = (0..3)
            .flat_map(|at| {
                memory[REASONS + 2 + at]
                    .load(Ordering::Relaxed)
                    .to_ne_bytes()
            })
            .collect();
        assert_eq!(&text[..18], b"a peer without SMC");
        for number in 0..100 {
            counters.count_reason(&format!("reason {number}"));
        }
        let total: u64 = (REASONS..LENGTH / 8)
            .step_by(REASON)
            .map(|at| memory[at + 1].load(Ordering::Relaxed))
            .sum();
        assert_eq!(total, 4 + 54);
    }
}
