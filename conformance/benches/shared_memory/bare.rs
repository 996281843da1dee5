//! The least there can be between two cores: a ring of bytes with a head and a tail
//! and nothing else, and two cache lines. What a transport adds is seen against these.

use std::cell::UnsafeCell;
use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::{Pieces, apart};

/// Length of the ring: as long as the buffers of sockets that are measured beside it. Longer
/// ones are faster, as less of them is in the other core's caches when it is written again.
const RING: usize = 1 << 20;
/// Bytes timed at a time.
const PIECE: u64 = 2 << 20;

/// A counter with cache lines to itself.
#[repr(align(128))]
struct Line(AtomicU64);

/// One producer, one consumer.
struct Ring {
    head: Line,
    tail: Line,
    bytes: Box<[UnsafeCell<u8>]>,
}

// SAFETY: the bytes between tail and head belong to the consumer, the others to the
// producer; each moves only its own counter, released after and acquired before the
// bytes are touched.
unsafe impl Sync for Ring {}

impl Ring {
    fn new() -> Arc<Self> {
        // Touched, so that no page is made while measuring.
        let bytes = (0..RING).map(|at| UnsafeCell::new(at as u8)).collect();
        let line = || Line(AtomicU64::new(0));
        Arc::new(Self {
            head: line(),
            tail: line(),
            bytes,
        })
    }

    fn address(&self) -> *mut u8 {
        self.bytes.as_ptr().cast_mut().cast()
    }

    /// Copies `source` in at `head`, in two pieces at the end of the ring.
    fn copy_in(&self, head: u64, source: &[u8]) {
        let at = head as usize % RING;
        let first = source.len().min(RING - at);
        // SAFETY: both pieces lie in the ring and belong to the producer, as there is
        // room; see `Sync`.
        unsafe {
            core::ptr::copy_nonoverlapping(source.as_ptr(), self.address().add(at), first);
            let rest = source.len() - first;
            core::ptr::copy_nonoverlapping(source.as_ptr().add(first), self.address(), rest);
        }
    }

    /// Copies out at `tail`.
    fn copy_out(&self, tail: u64, into: &mut [u8]) {
        let at = tail as usize % RING;
        let first = into.len().min(RING - at);
        // SAFETY: both pieces lie in the ring and belong to the consumer, as they are
        // filled; see `Sync`.
        unsafe {
            let from = self.address().cast_const();
            core::ptr::copy_nonoverlapping(from.add(at), into.as_mut_ptr(), first);
            let rest = into.len() - first;
            core::ptr::copy_nonoverlapping(from, into.as_mut_ptr().add(first), rest);
        }
    }
}

/// Spins until the condition holds. Where another thread wants the core, it is given away.
fn until(mut so: impl FnMut() -> bool) {
    let mut spins = 0u32;
    while !so() {
        core::hint::spin_loop();
        spins += 1;
        if spins.is_multiple_of(4096) {
            std::thread::yield_now();
        }
    }
}

/// Gigabytes a second that one core copies, 64 KiB at a time.
pub(crate) fn copy() -> f64 {
    const LEN: usize = 65536;
    let (source, mut into) = (vec![7u8; LEN], vec![0u8; LEN]);
    let mut pieces = Pieces::begin();
    for _ in 0..500 {
        for _ in 0..PIECE as usize / LEN {
            black_box(&mut into).copy_from_slice(black_box(&source));
        }
        pieces.done();
    }
    PIECE as f64 / pieces.median()
}

/// Gigabytes a second in pieces of 64 KiB.
pub(crate) fn stream(total: u64) -> f64 {
    transfer(total, 65536)
}

/// Gigabytes a second in pieces of 64 bytes.
pub(crate) fn messages(count: u64) -> f64 {
    transfer(count * 64, 64)
}

fn transfer(total: u64, size: usize) -> f64 {
    let ring = Ring::new();
    let other = Arc::clone(&ring);
    apart(
        move || {
            let source = vec![7; size];
            // The other side's counter is read again only when it seems to be in the way.
            let (mut head, mut tail) = (0, 0);
            let mut pieces = Pieces::begin();
            while head < total {
                if head + size as u64 - tail > RING as u64 {
                    until(|| {
                        tail = ring.tail.0.load(Ordering::Acquire);
                        head + size as u64 - tail <= RING as u64
                    });
                }
                ring.copy_in(head, &source);
                head += size as u64;
                ring.head.0.store(head, Ordering::Release);
                if head % PIECE == 0 {
                    pieces.done();
                }
            }
            until(|| ring.tail.0.load(Ordering::Acquire) == total);
            PIECE as f64 / pieces.median()
        },
        move || {
            let (mut into, mut head, mut tail) = (vec![0; 65536], 0, 0);
            while tail < total {
                if head == tail {
                    until(|| {
                        head = other.head.0.load(Ordering::Acquire);
                        head != tail
                    });
                }
                let len = ((head - tail) as usize).min(into.len());
                // Read, or a compiler that sees through all of this leaves it out.
                other.copy_out(tail, &mut into[..len]);
                black_box(&mut into);
                tail += len as u64;
                other.tail.0.store(tail, Ordering::Release);
            }
        },
    )
}

/// Nanoseconds for a number there and back.
pub(crate) fn ping_pong(rounds: u32) -> f64 {
    let lines = Arc::new([Line(AtomicU64::new(0)), Line(AtomicU64::new(0))]);
    let other = Arc::clone(&lines);
    apart(
        move || {
            let mut pieces = Pieces::begin();
            for round in 1..=u64::from(rounds) {
                lines[0].0.store(round, Ordering::Release);
                until(|| lines[1].0.load(Ordering::Acquire) == round);
                if round % 100 == 0 {
                    pieces.done();
                }
            }
            pieces.median() / 100.0
        },
        move || {
            for round in 1..=u64::from(rounds) {
                until(|| other[0].0.load(Ordering::Acquire) == round);
                other[1].0.store(round, Ordering::Release);
            }
        },
    )
}
