//! One direction of a TCP connection: puts segments in order and takes CLC
//! messages out.

use super::clc::{Phase, Step, step};
use super::item::{Content, Protocol};

/// Segments that may wait for an earlier one.
const MAX_PENDING: usize = 16;
/// CLC messages in one direction: a Proposal and a Confirm or Decline, and a
/// Decline after them. More are not CLC.
const MAX_MESSAGES: usize = 8;

/// A CLC message, or why there is none.
pub(super) struct Found {
    pub(super) content: Content,
    pub(super) bytes: Vec<u8>,
    pub(super) retransmission: bool,
}

/// A message that was emitted, to recognise it when it is sent again.
struct Emitted {
    start: u32,
    content: Content,
    bytes: Vec<u8>,
}

pub(super) struct Direction {
    limit: usize,
    pub(super) phase: Phase,
    /// Sequence number behind the bytes in `buffer`, once known.
    next: Option<u32>,
    /// Bytes in order that are not yet a whole message.
    buffer: Vec<u8>,
    /// Bytes behind a gap.
    pending: Vec<(u32, Vec<u8>)>,
    emitted: Vec<Emitted>,
    /// Bytes behind the last message that were not reported yet.
    data: u64,
}

/// How far `sequence` lies behind `reference`, negative if before it.
fn distance(reference: u32, sequence: u32) -> i64 {
    i64::from(sequence.wrapping_sub(reference) as i32)
}

impl Direction {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            limit,
            phase: Phase::Clc,
            next: None,
            buffer: Vec::new(),
            pending: Vec::new(),
            emitted: Vec::new(),
            data: 0,
        }
    }

    /// Bytes that are none of CLC and were not taken before.
    pub(super) fn take_data(&mut self) -> u64 {
        core::mem::take(&mut self.data)
    }

    /// Counts bytes behind the last message, those that are seen again left out.
    fn count(&mut self, sequence: u32, bytes: usize) {
        let next = *self.next.get_or_insert(sequence);
        let end = sequence.wrapping_add(bytes as u32);
        let fresh = u64::try_from(distance(next, end)).unwrap_or(0);
        self.data += fresh.min(bytes as u64);
        if fresh > 0 {
            self.next = Some(end);
        }
    }

    /// Sets the sequence number of the first byte.
    pub(super) fn start(&mut self, sequence: u32) {
        self.next = Some(sequence);
    }

    /// Takes a segment. `missing` bytes follow its payload that the capture
    /// does not hold; `certain` means that there must be CLC.
    pub(super) fn push(
        &mut self,
        sequence: u32,
        payload: &[u8],
        missing: usize,
        certain: bool,
        found: &mut Vec<Found>,
    ) {
        self.repeat(sequence, payload, found);
        if self.phase == Phase::Ended {
            self.count(sequence, payload.len() + missing);
            return;
        }
        let next = *self.next.get_or_insert(sequence);
        let ahead = distance(next, sequence);
        if ahead > 0 {
            self.wait(ahead, sequence, payload);
            return;
        }
        // Bytes before `next` were seen: skip them.
        let seen = usize::try_from(-ahead).unwrap_or(usize::MAX);
        let Some(fresh) = payload.get(seen..) else {
            return;
        };
        self.append(fresh, certain, found);
        if missing > 0 && !fresh.is_empty() {
            if let Some((have, need, bytes)) = self.unfinished() {
                found.push(Found {
                    content: Content::Cut {
                        protocol: Protocol::Clc,
                        have,
                        need,
                    },
                    bytes,
                    retransmission: false,
                });
            }
            self.end();
            return;
        }
        while let Some((sequence, bytes)) = self.take_pending() {
            let next = self.next.unwrap_or(sequence);
            let seen = usize::try_from(-distance(next, sequence)).unwrap_or(usize::MAX);
            if let Some(fresh) = bytes.get(seen..) {
                self.append(fresh, certain, found);
            }
        }
    }

    /// Keeps a segment that came before its turn.
    fn wait(&mut self, ahead: i64, sequence: u32, payload: &[u8]) {
        let held: usize = self.pending.iter().map(|(_, bytes)| bytes.len()).sum();
        let reach = usize::try_from(ahead).unwrap_or(usize::MAX);
        if self.pending.len() < MAX_PENDING
            && reach <= self.limit
            && held + payload.len() <= self.limit
        {
            self.pending.push((sequence, payload.to_vec()));
        }
    }

    /// A waiting segment whose turn it is.
    fn take_pending(&mut self) -> Option<(u32, Vec<u8>)> {
        let next = self.next?;
        let index = self
            .pending
            .iter()
            .position(|(sequence, _)| distance(next, *sequence) <= 0)?;
        Some(self.pending.swap_remove(index))
    }

    fn append(&mut self, bytes: &[u8], certain: bool, found: &mut Vec<Found>) {
        let Some(next) = self.next else {
            return;
        };
        if self.phase == Phase::Ended {
            self.count(next, bytes.len());
            return;
        }
        // More than the limit is never needed to judge what is there.
        let room = self.limit.saturating_sub(self.buffer.len());
        let kept = bytes.get(..room.min(bytes.len())).unwrap_or_default();
        self.buffer.extend(kept);
        let mut start = next.wrapping_sub((self.buffer.len() - kept.len()) as u32);
        self.next = Some(next.wrapping_add(bytes.len() as u32));
        loop {
            match step(self.phase, &self.buffer, certain) {
                Step::NeedMore { .. } => break,
                Step::Message {
                    content,
                    length,
                    next,
                } => {
                    let bytes: Vec<u8> = self.buffer.drain(..length).collect();
                    let content = *content;
                    self.phase = next;
                    self.emitted.push(Emitted {
                        start,
                        content: content.clone(),
                        bytes: bytes.clone(),
                    });
                    start = start.wrapping_add(length as u32);
                    found.push(Found {
                        content,
                        bytes,
                        retransmission: false,
                    });
                    if self.emitted.len() == MAX_MESSAGES {
                        self.phase = Phase::Ended;
                    }
                }
                Step::Malformed { offset, reason } => {
                    found.push(Found {
                        content: Content::Malformed {
                            protocol: Protocol::Clc,
                            offset,
                            reason,
                        },
                        bytes: core::mem::take(&mut self.buffer),
                        retransmission: false,
                    });
                    self.end();
                }
                Step::NotClc => self.end(),
            }
            if self.phase == Phase::Ended {
                self.end();
                break;
            }
        }
        if self.buffer.len() >= self.limit {
            found.push(Found {
                content: Content::Malformed {
                    protocol: Protocol::Clc,
                    offset: 5,
                    reason: format!("CLC message of more than {} octets", self.limit),
                },
                bytes: core::mem::take(&mut self.buffer),
                retransmission: false,
            });
            self.end();
        }
    }

    /// Reports messages that the segment holds once more.
    fn repeat(&self, sequence: u32, payload: &[u8], found: &mut Vec<Found>) {
        for message in &self.emitted {
            let offset = usize::try_from(distance(sequence, message.start)).ok();
            let again = offset
                .and_then(|offset| payload.get(offset..))
                .is_some_and(|rest| rest.starts_with(&message.bytes));
            if again {
                found.push(Found {
                    content: message.content.clone(),
                    bytes: message.bytes.clone(),
                    retransmission: true,
                });
            }
        }
    }

    fn end(&mut self) {
        self.phase = Phase::Ended;
        self.data += self.buffer.len() as u64;
        self.buffer = Vec::new();
        self.pending = Vec::new();
    }

    /// The message that has begun and not ended: bytes there are, bytes it
    /// takes, and what there is.
    pub(super) fn unfinished(&self) -> Option<(usize, usize, Vec<u8>)> {
        if self.phase != Phase::Clc || self.buffer.is_empty() {
            return None;
        }
        match step(self.phase, &self.buffer, false) {
            Step::NeedMore { total } => Some((self.buffer.len(), total, self.buffer.clone())),
            _ => None,
        }
    }
}
