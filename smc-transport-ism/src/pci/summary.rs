//! What the function writes by itself: a page of bits that show which DMBs have signals,
//! and a ring of events.
//!
//! ```text
//!  summary page, 4096 bytes                   event queue, 512 bytes
//!  0     bit 31: any, bit 30: an event         0    index of the event to come, 1 to 15
//!  4     a bit for each place, 60 words,       8    length, 16 length of an entry, 24 zero
//!        highest bit first; word 0 unused      32   15 entries: type, code, token,
//!  256   a mask for each place: elements            time, info
//! ```

use std::sync::atomic::Ordering;

use super::access::DeviceMemory;
use crate::device::{DeviceEvent, EventKind, Gid128, IsmError};

/// Bytes of each of them.
pub(super) const PAGE: u32 = 4096;
/// First place of a DMB, and the one after the last.
pub(super) const PLACES: core::ops::Range<u32> = 32..1920;

const BITS: u32 = 4;
const MASKS: u32 = 256;
/// Words of bits in use: the first is not.
const BIT_WORDS: u32 = PLACES.end / 32 - 1;
const ANY_BIT: u32 = 1 << 31;
const EVENT_BIT: u32 = 1 << 30;
const EVENTS: u32 = 32;
const EVENT: u32 = 32;
const EVENTS_HELD: u64 = 15;
/// Bytes of the event queue.
pub(super) const QUEUE: u32 = EVENTS + EVENT * EVENTS_HELD as u32;

/// Takes the bits of the summary page, each once.
#[derive(Debug)]
pub(super) struct Summary {
    page: DeviceMemory,
    /// Words still to be read, and what was taken from the last one.
    words: u32,
    taken: u32,
}

impl Summary {
    pub(super) fn new() -> Result<Self, IsmError> {
        Ok(Self {
            page: DeviceMemory::new(PAGE)?,
            words: 0,
            taken: 0,
        })
    }

    pub(super) fn memory(&self) -> &DeviceMemory {
        &self.page
    }

    /// Whether anything is new. The function sets this bit after all others, and it
    /// is taken before them: what comes meanwhile sets it again.
    pub(super) fn take_any(&mut self) -> Result<bool, IsmError> {
        let any = self.take(0, ANY_BIT)? != 0;
        if any {
            self.words = BIT_WORDS;
        }
        Ok(any)
    }

    /// Whether there are events; taken before the events are read.
    pub(super) fn take_event(&self) -> Result<bool, IsmError> {
        Ok(self.take(0, EVENT_BIT)? != 0)
    }

    /// The next place with signals, and the mask of its elements.
    pub(super) fn take_place(&mut self) -> Result<Option<(u32, u16)>, IsmError> {
        while self.taken == 0 {
            if self.words == 0 {
                return Ok(None);
            }
            self.words -= 1;
            self.taken = self.take(self.bits_at(), u32::MAX)?;
        }
        let bit = self.taken.leading_zeros();
        self.taken &= !(0x8000_0000 >> bit);
        let place = self.word() * 32 + bit;
        Ok(Some((place, self.take_mask(place)?)))
    }

    /// The word that was read last.
    fn word(&self) -> u32 {
        BIT_WORDS - self.words
    }

    fn bits_at(&self) -> u32 {
        BITS + self.word() * 4
    }

    /// Forgets signals of a place that a DMB has left.
    pub(super) fn clear(&mut self, place: u32) -> Result<(), IsmError> {
        let bit = 0x8000_0000 >> (place % 32);
        if self.word() == place / 32 {
            self.taken &= !bit;
        }
        self.take(BITS + place / 32 * 4, bit)?;
        self.take_mask(place).map(|_| ())
    }

    fn take_mask(&self, place: u32) -> Result<u16, IsmError> {
        // Two masks share a word; it holds the even place's first.
        let at = MASKS + place / 2 * 4;
        let (bits, shift) = if place.is_multiple_of(2) {
            (0xffff_0000, 16)
        } else {
            (0xffff, 0)
        };
        Ok((self.take(at, bits)? >> shift) as u16)
    }

    /// Clears bits of a word, as the function sets them; those that were set.
    fn take(&self, at: u32, bits: u32) -> Result<u32, IsmError> {
        let word = self.page.0.word(at)?;
        // Read first: an interlocked update that changes nothing costs as much as any.
        if u32::from_be(word.load(Ordering::Acquire)) & bits == 0 {
            return Ok(0);
        }
        Ok(u32::from_be(word.fetch_and(!bits.to_be(), Ordering::AcqRel)) & bits)
    }
}

/// Takes events in order.
#[derive(Debug)]
pub(super) struct Events {
    queue: DeviceMemory,
    /// Events taken, modulo what the queue holds.
    taken: u64,
}

impl Events {
    pub(super) fn new() -> Result<Self, IsmError> {
        let queue = DeviceMemory::new(PAGE)?;
        let header = [0, u64::from(QUEUE), u64::from(EVENT), 0].map(u64::to_be_bytes);
        queue.0.copy_in(0, header.as_flattened())?;
        Ok(Self { queue, taken: 0 })
    }

    pub(super) fn memory(&self) -> &DeviceMemory {
        &self.queue
    }

    /// The next event of a kind that is known.
    pub(super) fn next(&mut self) -> Result<Option<DeviceEvent>, IsmError> {
        loop {
            // The index is the highest word's low half: it never exceeds 15.
            let index = u32::from_be(self.queue.0.word(4)?.load(Ordering::Acquire));
            if u64::from(index) % EVENTS_HELD == self.taken {
                return Ok(None);
            }
            let at = EVENTS + self.taken as u32 * EVENT;
            self.taken = (self.taken + 1) % EVENTS_HELD;
            let mut bytes = [0; EVENT as usize];
            self.queue.0.copy_out(at, &mut bytes)?;
            if let Some(event) = parse(&bytes) {
                return Ok(Some(event));
            }
        }
    }
}

fn parse(bytes: &[u8; EVENT as usize]) -> Option<DeviceEvent> {
    let (units, _) = bytes.as_chunks::<8>();
    let mut words = units.iter().map(|unit| u64::from_be_bytes(*unit));
    let (head, token, _time, info) = (words.next()?, words.next()?, words.next()?, words.next()?);
    let code = head as u32;
    let kind = match head >> 32 {
        0 => EventKind::Dmb,
        1 => EventKind::Gid,
        2 => EventKind::Software,
        _ => return None,
    };
    let peer = (kind != EventKind::Dmb).then_some(Gid128 { gid: token, ext: 0 });
    Some(DeviceEvent {
        kind,
        token,
        peer,
        code,
        info,
    })
}
