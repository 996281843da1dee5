//! Sentences, each found by its key.

use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};

/// A place for a sentence, shared by processes.
#[derive(Debug)]
#[repr(C)]
pub struct Sentence {
    /// 0 while the place is free.
    key: AtomicU32,
    /// 0 until the sentence is complete.
    length: AtomicU32,
    text: [AtomicU8; Sentence::MOST],
}

impl Sentence {
    /// Most bytes of a sentence; longer ones are cut.
    pub const MOST: usize = 376;

    /// Bytes before the text.
    pub(crate) const HEAD: usize = 8;

    /// Takes the place for a key, if it is free, and writes the sentence. Returns whether
    /// the place is that of the key.
    pub fn enter(&self, key: u32, sentence: &[u8]) -> bool {
        let order = Ordering::Relaxed;
        match self.key.compare_exchange(0, key, order, order) {
            Ok(_) => self.write(sentence),
            Err(of) => return of == key,
        }
        true
    }

    fn write(&self, sentence: &[u8]) {
        let mut length = 0;
        for (at, byte) in self.text.iter().zip(sentence) {
            at.store(*byte, Ordering::Relaxed);
            length += 1;
        }
        self.length.store(length, Ordering::Release);
    }

    /// Bytes of the place that are in use; 0 if none are.
    pub(crate) fn used(&self) -> usize {
        let length = self.length.load(Ordering::Relaxed) as usize;
        match self.key.load(Ordering::Relaxed) {
            0 => 0,
            _ => Self::HEAD + length.min(Self::MOST),
        }
    }

    /// The sentence, if the place is that of the key; empty if it is not complete.
    #[must_use]
    pub fn read(&self, key: u32) -> Option<Vec<u8>> {
        if self.key.load(Ordering::Relaxed) != key {
            return None;
        }
        let length = self.length.load(Ordering::Acquire) as usize;
        let text = self.text.iter().take(length);
        Some(text.map(|byte| byte.load(Ordering::Relaxed)).collect())
    }
}

/// The key of a sentence (FNV-1a), never 0.
#[must_use]
pub fn key_of(sentence: &[u8]) -> u32 {
    let hash = sentence.iter().fold(0x811c_9dc5_u32, |hash, byte| {
        (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193)
    });
    hash.max(1)
}
