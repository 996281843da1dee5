//! Rows of words that a writer never withholds.

use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Reads of a row that changes meanwhile, before a reader gives it up.
const ATTEMPTS: usize = 64;

/// Two copies of a row: even numbers say that readers use the first one, odd ones the second.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Latch<const WORDS: usize> {
    number: AtomicU64,
    copies: [[AtomicU64; WORDS]; 2],
}

impl<const WORDS: usize> Latch<WORDS> {
    /// Writes a row. Callers exclude each other.
    pub(crate) fn write(&self, words: &[u64; WORDS]) {
        let [first, second] = &self.copies;
        let number = self.number.load(Ordering::Relaxed);
        self.begin(number | 1);
        store(first, words);
        self.begin((number | 1).wrapping_add(1));
        store(second, words);
    }

    /// Changes one word of a row by its value. Callers exclude each other.
    pub(crate) fn change(&self, at: usize, change: impl FnOnce(u64) -> u64) {
        let [first, second] = &self.copies;
        let (Some(first), Some(second)) = (first.get(at), second.get(at)) else {
            return;
        };
        let number = self.number.load(Ordering::Relaxed);
        // Both copies are the same between two writes.
        let word = change(second.load(Ordering::Relaxed));
        self.begin(number | 1);
        first.store(word, Ordering::Relaxed);
        self.begin((number | 1).wrapping_add(1));
        second.store(word, Ordering::Relaxed);
    }

    /// Sends readers to the other copy.
    fn begin(&self, number: u64) {
        // What was written to that copy is seen by all who see the number, and what is written
        // from here on by none who did not see it.
        self.number.store(number, Ordering::Release);
        fence(Ordering::Release);
    }

    /// The row; `None` if it changed at each attempt.
    pub(crate) fn read(&self) -> Option<[u64; WORDS]> {
        (0..ATTEMPTS).find_map(|_| {
            let number = self.number.load(Ordering::Acquire);
            let [first, second] = &self.copies;
            let copy = if number & 1 == 0 { first } else { second };
            let words = std::array::from_fn(|at| copy[at].load(Ordering::Relaxed));
            fence(Ordering::Acquire);
            (self.number.load(Ordering::Relaxed) == number).then_some(words)
        })
    }

    /// Begins to write, and is stopped before the end, for tests.
    #[cfg(test)]
    pub(crate) fn write_half(&self, words: &[u64; WORDS]) {
        let number = self.number.load(Ordering::Relaxed);
        self.begin(number | 1);
        store(&self.copies[0], words);
    }
}

fn store<const WORDS: usize>(to: &[AtomicU64; WORDS], words: &[u64; WORDS]) {
    for (to, word) in to.iter().zip(words) {
        to.store(*word, Ordering::Relaxed);
    }
}
