//! What is carried: a file, or pseudo-random bytes.

use std::io::{self, Read};
use std::path::Path;

use smc_transport_sim::random::Random;

use crate::input;
use crate::output::{Failure, reason};

/// Bytes to carry, a piece at a time.
pub struct Source {
    bytes: Box<dyn Read>,
    name: String,
    length: Option<u64>,
}

impl Source {
    /// A file; "-" is standard input.
    ///
    /// # Errors
    /// [`Failure::Problem`] if it cannot be opened.
    pub fn file(path: &Path) -> Result<Self, Failure> {
        let name = match input::is_standard(path) {
            true => "standard input".to_owned(),
            false => path.display().to_string(),
        };
        let input = input::open(path).map_err(|error| unreadable(&name, &error))?;
        Ok(Self {
            bytes: input.bytes,
            name,
            length: input.length,
        })
    }

    /// `length` bytes of a seed.
    #[must_use]
    pub fn seeded(seed: u64, length: u64) -> Self {
        Self::new(Noise::new(seed).take(length), Some(length))
    }

    /// Anything else.
    #[must_use]
    pub fn new(bytes: impl Read + 'static, length: Option<u64>) -> Self {
        Self {
            bytes: Box::new(bytes),
            name: "pseudo-random bytes".to_owned(),
            length,
        }
    }

    /// What to call it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many bytes, if that is known beforehand.
    #[must_use]
    pub const fn length(&self) -> Option<u64> {
        self.length
    }

    /// The next piece of up to `most` bytes, empty at the end.
    pub(super) fn piece(&mut self, most: u64) -> Result<Vec<u8>, Failure> {
        let mut piece = Vec::with_capacity(most as usize);
        match (&mut self.bytes).take(most).read_to_end(&mut piece) {
            Ok(_) => Ok(piece),
            Err(error) => Err(unreadable(&self.name, &error)),
        }
    }
}

fn unreadable(name: &str, error: &io::Error) -> Failure {
    Failure::Problem(format!("{name}: cannot be read: {}", reason(error)))
}

/// The endless stream of a generator, the same however it is read.
struct Noise {
    random: Random,
    word: [u8; 8],
    used: usize,
}

impl Noise {
    const fn new(seed: u64) -> Self {
        Self {
            random: Random::new(seed),
            word: [0; 8],
            used: 8,
        }
    }
}

impl Read for Noise {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let length = into.len();
        let kept = self.word.get(self.used..).unwrap_or_default();
        let (head, rest) = into.split_at_mut(kept.len().min(length));
        head.copy_from_slice(&kept[..head.len()]);
        self.used += head.len();
        let (words, tail) = rest.as_chunks_mut::<8>();
        for word in words {
            *word = self.random.next_u64().to_le_bytes();
        }
        if !tail.is_empty() {
            self.word = self.random.next_u64().to_le_bytes();
            tail.copy_from_slice(&self.word[..tail.len()]);
            self.used = tail.len();
        }
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn noise_is_the_same_however_it_is_read() {
        let mut whole = [0; 1000];
        Noise::new(7).read_exact(&mut whole).unwrap();
        let mut noise = Noise::new(7);
        let mut parts = Vec::new();
        for length in (0..40).cycle() {
            let mut part = vec![0; length];
            noise.read_exact(&mut part).unwrap();
            parts.extend(part);
            if parts.len() >= whole.len() {
                break;
            }
        }
        assert_eq!(parts[..whole.len()], whole);
    }
}
