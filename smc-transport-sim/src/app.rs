//! The application half of a connection: what it wants to write, what it read,
//! and a check that nothing was lost, added or changed in between.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::random::{Random, StreamHash};

/// One end of a connection, as its application sees it.
#[derive(Clone, Debug, Default)]
pub struct App {
    to_write: VecDeque<Chunk>,
    wanted: Ending,
    done: Ending,
    paused: bool,
    urgent: bool,
    forgets: bool,
    gave_up: bool,
    unhashed: bool,
    received: Vec<u8>,
    written_hash: StreamHash,
    read_hash: StreamHash,
    end_of_stream: bool,
}

/// How far an application ended its connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Ending {
    /// Not at all.
    #[default]
    None,
    /// The application sends no more.
    Finished,
    /// The application is done with the connection.
    Closed,
}

#[derive(Clone, Debug)]
enum Chunk {
    Bytes {
        bytes: Vec<u8>,
        position: usize,
    },
    /// A block repeated over and over, from a position in it.
    Pattern {
        block: Arc<[u8]>,
        position: usize,
        left: u64,
    },
}

/// Bytes of a pattern before it repeats: a prime, so that no ring or segment
/// size ever falls in step with it and hides a displacement.
const PATTERN: usize = 65_521;

impl App {
    /// Queues bytes to be written.
    pub fn write(&mut self, bytes: &[u8]) {
        if !bytes.is_empty() {
            let bytes = bytes.to_vec();
            self.to_write.push_back(Chunk::Bytes { bytes, position: 0 });
        }
    }

    /// Queues bytes to be written without copying them.
    pub fn write_owned(&mut self, bytes: Vec<u8>) {
        if !bytes.is_empty() {
            let chunk = Chunk::Bytes { bytes, position: 0 };
            self.to_write.push_back(chunk);
        }
    }

    /// Bytes queued and not yet handed to the connection.
    #[must_use]
    pub fn queued(&self) -> u64 {
        let left = |chunk: &Chunk| match chunk {
            Chunk::Bytes { bytes, position } => (bytes.len() - position) as u64,
            Chunk::Pattern { left, .. } => *left,
        };
        self.to_write.iter().map(left).sum()
    }

    /// Queues `length` bytes that a seed gives, without keeping them all.
    pub fn write_pattern(&mut self, seed: u64, length: u64) {
        let mut random = Random::new(seed);
        let block = (0..PATTERN).map(|_| random.next_u64() as u8).collect();
        if length > 0 {
            self.to_write.push_back(Chunk::Pattern {
                block,
                position: 0,
                left: length,
            });
        }
    }

    /// Queues `length` bytes of a block repeated over and over, from a position in it,
    /// without copying it.
    pub fn write_block(&mut self, block: &Arc<[u8]>, position: usize, length: u64) {
        if length > 0 && !block.is_empty() {
            self.to_write.push_back(Chunk::Pattern {
                block: block.clone(),
                position: position % block.len(),
                left: length,
            });
        }
    }

    /// The last byte of everything queued is urgent, and so is that of what is queued
    /// later on.
    pub fn urge(&mut self) {
        self.urgent = true;
    }

    /// Whether the last byte queued is urgent.
    pub(crate) const fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Ends sending once everything queued was written, and closes once the peer
    /// ended sending too and everything was read.
    pub fn finish(&mut self) {
        self.wanted = self.wanted.max(Ending::Finished);
    }

    /// Closes the connection once everything queued was written, whatever the
    /// peer still sends.
    pub fn close(&mut self) {
        self.wanted = Ending::Closed;
    }

    /// Writes no more: the connection takes nothing any more.
    pub(crate) fn give_up_writing(&mut self) {
        self.to_write.clear();
        self.gave_up = true;
    }

    /// Whether the connection took nothing any more before everything was written.
    #[must_use]
    pub const fn gave_up(&self) -> bool {
        self.gave_up
    }

    /// Stops or goes on reading.
    pub fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    /// Keeps nothing of what is read but its length and its hash.
    pub fn forget_bytes(&mut self) {
        self.forgets = true;
    }

    /// Leaves out the hashes of [`App::written`] and [`App::read`], lengths too,
    /// for callers that check the bytes themselves.
    pub fn skip_hashes(&mut self) {
        self.unhashed = true;
    }

    /// What was read and not taken.
    #[must_use]
    pub fn received(&self) -> &[u8] {
        &self.received
    }

    /// Takes what was read.
    pub fn take_received(&mut self) -> Vec<u8> {
        std::mem::take(&mut self.received)
    }

    /// Bytes handed to the connection so far, and their hash.
    #[must_use]
    pub const fn written(&self) -> &StreamHash {
        &self.written_hash
    }

    /// Bytes read from the connection so far, and their hash.
    #[must_use]
    pub const fn read(&self) -> &StreamHash {
        &self.read_hash
    }

    /// Whether the peer's last byte was read.
    #[must_use]
    pub const fn is_at_end(&self) -> bool {
        self.end_of_stream
    }

    /// Whether everything queued was handed to the connection.
    #[must_use]
    pub fn is_all_written(&self) -> bool {
        self.to_write.is_empty()
    }

    /// Whether the connection was closed by this side.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.done == Ending::Closed
    }

    /// Whether this side reads now.
    #[must_use]
    pub const fn wants_to_read(&self) -> bool {
        !self.paused
    }

    /// The next step of ending the connection, if it is due; each comes once.
    pub(crate) fn take_ending(&mut self) -> Option<Ending> {
        let mut due = self.wanted;
        if due == Ending::Finished && self.end_of_stream {
            due = Ending::Closed;
        }
        if !self.to_write.is_empty() || due <= self.done {
            return None;
        }
        self.done = due;
        Some(due)
    }

    /// Appends the next bytes to write to `into`, at most `most`.
    pub(crate) fn take_to_write(&mut self, most: usize, into: &mut Vec<u8>) {
        let start = into.len();
        while let Some(chunk) = self.to_write.front_mut() {
            let room = most - (into.len() - start);
            if room == 0 {
                break;
            }
            let done = match chunk {
                Chunk::Bytes { bytes, position } => {
                    let end = bytes.len().min(position.saturating_add(room));
                    into.extend_from_slice(bytes.get(*position..end).unwrap_or_default());
                    *position = end;
                    end == bytes.len()
                }
                Chunk::Pattern {
                    block,
                    position,
                    left,
                } => {
                    let length = usize::try_from(*left).unwrap_or(usize::MAX);
                    let end = block.len().min(position.saturating_add(room.min(length)));
                    into.extend_from_slice(block.get(*position..end).unwrap_or_default());
                    *left -= (end - *position) as u64;
                    *position = end % block.len();
                    *left == 0
                }
            };
            if done {
                self.to_write.pop_front();
            }
        }
        if !self.unhashed {
            self.written_hash
                .update(into.get(start..).unwrap_or_default());
        }
    }

    pub(crate) fn on_bytes(&mut self, bytes: &[u8]) {
        if !self.unhashed {
            self.read_hash.update(bytes);
        }
        if !self.forgets {
            self.received.extend_from_slice(bytes);
        }
    }

    pub(crate) fn on_end(&mut self) {
        self.end_of_stream = true;
    }
}

/// Bytes written at one end and not yet read at the other: what is read must
/// be their beginning (reliability I2).
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight {
    bytes: Vec<u8>,
    read: usize,
}

impl InFlight {
    pub(crate) fn on_written(&mut self, bytes: &[u8]) {
        if self.read * 2 > self.bytes.len() {
            self.bytes.drain(..self.read);
            self.read = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Where the bytes just read differ from those written, if they do.
    pub(crate) fn on_read(&mut self, bytes: &[u8]) -> Result<(), usize> {
        let expected = self.bytes.get(self.read..).unwrap_or_default();
        let same = expected.get(..bytes.len()) == Some(bytes);
        if same {
            self.read += bytes.len();
            return Ok(());
        }
        let differs = expected
            .iter()
            .zip(bytes)
            .position(|(one, other)| one != other);
        Err(differs.unwrap_or(expected.len()))
    }

    pub(crate) const fn len(&self) -> usize {
        self.bytes.len() - self.read
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_queued_is_written_in_order() {
        let mut app = App::default();
        app.write(b"head");
        app.write_pattern(1, 200_000);
        app.write(b"tail");
        app.finish();
        let mut random = Random::new(2);
        let mut bytes = Vec::new();
        while !app.is_all_written() {
            assert_eq!(app.take_ending(), None);
            app.take_to_write(random.below(40_000) as usize, &mut bytes);
        }
        assert_eq!(app.take_ending(), Some(Ending::Finished));
        assert_eq!(app.take_ending(), None);
        app.on_end();
        assert_eq!(app.take_ending(), Some(Ending::Closed));
        assert_eq!(app.take_ending(), None);
        assert_eq!(bytes.len(), 200_008);
        assert_eq!(
            (&bytes[..4], &bytes[200_004..]),
            (&b"head"[..], &b"tail"[..])
        );
        assert_eq!(bytes[4..1004], bytes[4 + PATTERN..1004 + PATTERN]);
        let mut hash = StreamHash::new();
        hash.update(&bytes);
        assert_eq!(*app.written(), hash);
    }

    #[test]
    fn bytes_in_flight_must_arrive_as_they_left() {
        let mut flight = InFlight::default();
        flight.on_written(b"abcdef");
        assert_eq!(flight.on_read(b"abc"), Ok(()));
        assert_eq!(flight.on_read(b"dx"), Err(1));
        assert_eq!(flight.on_read(b"defg"), Err(3));
        flight.on_written(b"gh");
        assert_eq!(flight.on_read(b"defgh"), Ok(()));
        assert_eq!(flight.len(), 0);
        assert_eq!(flight.on_read(b"i"), Err(0));
    }
}
