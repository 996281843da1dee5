//! How one process tells another that a DMB has news, and sleeps when there is none.
//!
//! Each side of a channel has [`Bells`] that it alone writes; the other maps them for
//! reading only. So every word has one writer, ringing is two plain stores and a
//! fence, and nobody can silence a peer's bells or hold it up.
//!
//! ```text
//!  ringer                               listener
//!  move, write CDC
//!  leaf[slot] =       generation, n+1
//!  group[of]  = slot, generation, n+1   group counted one more: that slot rang
//!                                       several more: look at the group's leaves
//!  fence                                seen = the ringer's wakes
//!  listener parked in a spell that      parked = a new spell, and where
//!  was not woken yet?  wake it:         fence
//!  a message through the socket, or     no group changed?  sleep at the socket, or
//!  wakes = n+1 and a call to who        while wakes = seen; then parked = not
//!  sleeps at that word
//! ```
//!
//! The two fences make sleeping safe: of a ring and a parking that cross, either the
//! ringer sees the parking or the listener sees the ring. While the listener spins,
//! no system call is made.
//!
//! A ringer may be hostile. What it writes only ever names a slot and a generation,
//! which the listener looks up; it can cause work no larger than its own.

use std::collections::VecDeque;

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

#[cfg(not(loom))]
const GROUPS: usize = 8;
#[cfg(not(loom))]
const GROUP: usize = 128;
#[cfg(loom)]
const GROUPS: usize = 1;
#[cfg(loom)]
const GROUP: usize = 2;

/// DMBs a channel can have each way.
pub(crate) const SLOTS: u32 = (GROUPS * GROUP) as u32;

const GENERATION_BITS: u32 = 16;
/// Rings of a group are counted; a leaf holds the count of its last ring. At a ring
/// every ten nanoseconds the count comes round after most of an hour.
const COUNT_BITS: u32 = 38;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
/// What a group's word says beside its slot: what the slot's leaf says.
const RUNG: u64 = (1 << (GENERATION_BITS + COUNT_BITS)) - 1;

/// Keeps what one side polls apart from what the other side writes: two lines of most
/// processors, because they fetch them in pairs.
#[repr(C, align(128))]
struct Line<T>(T);

/// Words that one side writes and the other reads.
#[repr(C)]
pub(crate) struct Bells {
    parked: Line<AtomicU64>,
    wakes: Line<AtomicU32>,
    groups: Line<[AtomicU64; GROUPS]>,
    leaves: Line<[AtomicU64; GROUPS * GROUP]>,
}

/// What rang: a DMB's slot and the low bits of its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    pub(crate) slot: u32,
    pub(crate) generation: u16,
}

impl Ring {
    /// A slot, with the generation in a word of its bells.
    fn of(slot: u32, word: u64) -> Self {
        Self {
            slot,
            generation: (word >> COUNT_BITS) as u16,
        }
    }
}

impl Bells {
    #[cfg(any(test, loom))]
    pub(crate) fn new() -> Self {
        let word = |_| AtomicU64::new(0);
        Self {
            parked: Line(word(0)),
            wakes: Line(AtomicU32::new(0)),
            groups: Line(core::array::from_fn(word)),
            leaves: Line(core::array::from_fn(word)),
        }
    }

    /// Rings for a DMB. Everything this thread wrote before is seen by who hears it.
    /// The caller then asks [`Waker::must_wake`].
    pub(crate) fn ring(&self, ring: Ring) {
        let rung = self.ring_leaf(ring);
        self.ring_group(ring.slot, rung);
    }

    fn ring_leaf(&self, ring: Ring) -> u64 {
        let slot = (ring.slot % SLOTS) as usize;
        let group = self.groups.0.get(slot / GROUP);
        let count = group.map_or(0, |group| group.load(Ordering::Relaxed));
        let rung = (u64::from(ring.generation) << COUNT_BITS) | (count.wrapping_add(1) & COUNT);
        if let Some(leaf) = self.leaves.0.get(slot) {
            leaf.store(rung, Ordering::Release);
        }
        rung
    }

    fn ring_group(&self, slot: u32, rung: u64) {
        let slot = slot % SLOTS;
        if let Some(group) = self.groups.0.get(slot as usize / GROUP) {
            let slot = u64::from(slot) << (GENERATION_BITS + COUNT_BITS);
            group.store(slot | rung, Ordering::Release);
        }
    }

    /// Begins a spell of sleep. After this, what the peers' bells said must be looked
    /// at once more before sleeping.
    //= SHM-026
    pub(crate) fn park(&self, at: Bed) {
        let place = match at {
            Bed::Socket => PARKED,
            Bed::Word => PARKED | AT_WORD,
        };
        let spell = (self.spell() | PARKED | AT_WORD).wrapping_add(1);
        self.parked.0.store(spell | place, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Ends it.
    pub(crate) fn unpark(&self) {
        let awake = self.spell() & !(PARKED | AT_WORD);
        self.parked.0.store(awake, Ordering::Relaxed);
    }

    fn spell(&self) -> u64 {
        self.parked.0.load(Ordering::Relaxed)
    }

    /// Where the peer sleeps while this holds what it has seen there.
    pub(crate) fn wakes(&self) -> &AtomicU32 {
        &self.wakes.0
    }

    /// Changes it; the caller then calls who sleeps there.
    pub(crate) fn count_wake(&self) {
        self.wakes.0.fetch_add(1, Ordering::Release);
    }
}

/// Where a listener sleeps.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Bed {
    /// Until a message comes through the channel's socket.
    Socket,
    /// Until the ringer counts one more wake.
    Word,
}

/// Bits of the word that says whether and where a listener sleeps; above them, its spells
/// are counted.
const PARKED: u64 = 1;
const AT_WORD: u64 = 2;

/// Whom to wake: the ringer's side of parking.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    woken: u64,
}

impl Waker {
    /// Where, after a ring, the listener sleeps whom nobody has woken in this spell.
    //= SHM-026
    pub(crate) fn must_wake(&mut self, listener: &Bells) -> Option<Bed> {
        fence(Ordering::SeqCst);
        let spell = listener.spell();
        if spell & PARKED == 0 || spell == self.woken {
            return None;
        }
        self.woken = spell;
        Some(if spell & AT_WORD == 0 {
            Bed::Socket
        } else {
            Bed::Word
        })
    }
}

/// What a listener has heard of a peer's bells.
#[derive(Debug)]
pub(crate) struct Listener {
    groups: [u64; GROUPS],
    leaves: Vec<u64>,
    heard: VecDeque<Ring>,
    crowded: bool,
    /// The group to be looked at next.
    turn: usize,
}

/// What a look at a group brings.
enum News {
    None,
    One(Ring),
    /// The leaves tell which.
    Several,
}

impl Listener {
    pub(crate) fn new() -> Self {
        Self {
            groups: [0; GROUPS],
            leaves: Vec::new(),
            heard: VecDeque::new(),
            crowded: false,
            turn: 0,
        }
    }

    /// The next ring, of slots below `slots`.
    #[inline]
    pub(crate) fn next(&mut self, bells: &Bells, slots: u32) -> Option<Ring> {
        self.heard.pop_front().or_else(|| self.look(bells, slots))
    }

    /// Whether the last ring heard was not the only one of its group by then.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Looks at the groups, each in its turn, for the first with news.
    #[inline]
    fn look(&mut self, bells: &Bells, slots: u32) -> Option<Ring> {
        let groups = (slots as usize).div_ceil(GROUP).min(GROUPS);
        for _ in 0..groups {
            // The one after the last that was heard: no group keeps the others unheard.
            let at = if self.turn < groups { self.turn } else { 0 };
            self.turn = at + 1;
            match self.compare(bells, at, slots) {
                News::None => {}
                News::One(ring) => return Some(ring),
                News::Several => {
                    self.search(bells, at);
                    if let Some(ring) = self.heard.pop_front() {
                        return Some(ring);
                    }
                }
            }
        }
        None
    }

    /// What a group says beyond what was heard of it.
    #[inline]
    fn compare(&mut self, bells: &Bells, at: usize, slots: u32) -> News {
        let (Some(group), Some(before)) = (bells.groups.0.get(at), self.groups.get_mut(at)) else {
            return News::None;
        };
        // The acquire pairs with the ringer's release: whatever it moved before is
        // there for who reads on.
        let now = group.load(Ordering::Acquire);
        if now == *before {
            return News::None;
        }
        let rings = now.wrapping_sub(*before) & COUNT;
        *before = now;
        self.crowded = rings > 1;
        if self.leaves.len() < slots as usize {
            self.leaves.resize(slots as usize, 0);
        }
        let ring = Ring::of((now >> (GENERATION_BITS + COUNT_BITS)) as u32, now);
        if rings != 1 || ring.slot as usize / GROUP != at {
            return News::Several;
        }
        let heard = self.leaves.get_mut(ring.slot as usize);
        // Not if it was found already, while looking for those before it.
        match heard.filter(|heard| **heard != now & RUNG) {
            Some(heard) => {
                *heard = now & RUNG;
                News::One(ring)
            }
            None => News::None,
        }
    }

    #[cold]
    fn search(&mut self, bells: &Bells, group: usize) {
        let numbered = (0u32..).zip(bells.leaves.0.iter().zip(&mut self.leaves));
        for (slot, (leaf, before)) in numbered.skip(group * GROUP).take(GROUP) {
            let now = leaf.load(Ordering::Acquire);
            if now != *before {
                *before = now;
                self.heard.push_back(Ring::of(slot, now));
            }
        }
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
