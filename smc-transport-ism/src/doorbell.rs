//! Doorbells: how one process notifies another of a CDC message in a DMB, and waits in the
//! kernel while there is none.
//!
//! Each side of a channel has [`Doorbells`] that it alone writes; the other maps them for
//! reading only. So every machine word has one writer, ringing takes plain stores and a fence, and
//! no process can silence a peer's doorbells or hold it up.
//!
//! ```text
//!  ringer                               listener
//!  move, write CDC
//!  leaf[slot]  = word                   top counted one more: that slot rang
//!  top[of it]  = word                   several more: read the leaves below it
//!  fence                                seen = the ringer's wakes
//!  listener parked, and not woken       parked = a new number, and where
//!  since?  wake it:                     fence
//!  a message through the socket, or     no top changed?  wait at the socket, or
//!  wakes = n+1 and a futex wake         while wakes = seen; then parked = not
//!  at that word
//! ```
//!
//! The two fences make parking safe: of a ring and a parking that cross, either the
//! ringer sees the parking or the listener sees the ring. While the listener spins,
//! no system call is made.
//!
//! A word is the slot, the DMB's generation and the count of rings of its top. [`NEAR`]
//! tops are groups of [`GROUP`] leaves in the first page. The last top is for all groups
//! whose leaves are in further pages, [`Leaves`], which the ringer makes when it needs them:
//!
//! ```text
//!  first page   tops   [ group 0 | group 1 | groups 2.. ]
//!               groups [ 2 | 3 | 4 | 5 | 6 | ... ]          which of them rang
//!               leaves [ 0 .. 255 ]
//!  page 1       leaves [ 256 .. 767 ]     groups 2 to 5
//!  page 2       leaves [ 768 .. 1279 ]    groups 6 to 9
//! ```
//!
//! A ring there writes the leaf, the group and the top, in this order. The page may be
//! missing at either end: it is still on its way, or one side had no memory for it. Then a
//! ring whose top counted one more is known by its word, and where several rang, all slots of
//! a changed group count as rung; so they do when a page arrives in which the ringer had rung
//! before it made it. So a missing page costs work and loses no ring.
//!
//! A ringer may be hostile. What it writes only ever names a slot and a generation,
//! which the listener looks up; it causes at most the work for a group of its own DMBs.

use std::collections::VecDeque;

use crate::sync::{AtomicU32, AtomicU64, Ordering, fence};

/// Leaves of a group.
#[cfg(not(loom))]
const GROUP: usize = 128;
/// Groups whose leaves are in the first page, and that have tops of their own.
#[cfg(not(loom))]
const NEAR: usize = 2;
/// Groups of a further page.
#[cfg(not(loom))]
const OF_A_PAGE: usize = 4;
/// Most further pages of a channel, each way.
#[cfg(not(loom))]
const PAGES: usize = 32;

#[cfg(loom)]
const GROUP: usize = 2;
#[cfg(loom)]
const NEAR: usize = 1;
#[cfg(loom)]
const OF_A_PAGE: usize = 1;
#[cfg(loom)]
const PAGES: usize = 1;

/// Groups whose leaves are in further pages.
const FAR: usize = PAGES * OF_A_PAGE;

/// DMBs a channel can have each way.
pub(crate) const SLOTS: u32 = ((NEAR + FAR) * GROUP) as u32;

/// Slots whose leaves are in the first page.
pub(crate) const FIRST_PAGE: u32 = (NEAR * GROUP) as u32;

const SLOT_BITS: u32 = 15;
const GENERATION_BITS: u32 = 12;
/// Rings below a top are counted. At a ring every ten nanoseconds the count starts again
/// after twenty minutes.
const COUNT_BITS: u32 = u64::BITS - SLOT_BITS - GENERATION_BITS;
const COUNT: u64 = (1 << COUNT_BITS) - 1;
const _: () = assert!(SLOTS <= 1 << SLOT_BITS);

/// The bits of a generation that a word has.
const GENERATION: u16 = (1 << GENERATION_BITS) - 1;

/// A value that keeps what one side polls apart from what the other side writes: two lines of most
/// processors, because they fetch them in pairs.
#[repr(C, align(128))]
struct Line<T>(T);

/// Words that one side writes and the other reads: the first page.
#[repr(C)]
pub(crate) struct Doorbells {
    parked: Line<AtomicU64>,
    wakes: Line<AtomicU32>,
    /// One for each near group, and one for all further groups.
    tops: Line<[AtomicU64; NEAR + 1]>,
    /// The last ring of each further group.
    groups: Line<[AtomicU64; FAR]>,
    leaves: Line<[AtomicU64; NEAR * GROUP]>,
}

/// A further page of leaves.
#[repr(C)]
pub(crate) struct Leaves([AtomicU64; OF_A_PAGE * GROUP]);

impl Leaves {
    #[cfg(any(test, loom))]
    pub(crate) fn new() -> Self {
        Self(core::array::from_fn(|_| AtomicU64::new(0)))
    }
}

/// Further pages, as far as they are there.
pub(crate) trait Pages {
    /// A further page, the first of which is number 0.
    fn page(&self, at: usize) -> Option<&Leaves>;
}

/// Further pages that the leaves of slots below `slots` need.
pub(crate) fn pages_for(slots: u32) -> usize {
    let groups = (slots as usize).div_ceil(GROUP);
    groups.saturating_sub(NEAR).div_ceil(OF_A_PAGE).min(PAGES)
}

/// What rang: a DMB's slot and the low bits of its generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ring {
    pub(crate) slot: u32,
    pub(crate) generation: u16,
}

impl Ring {
    /// Matches every generation of a slot. No ring's word has this value.
    const ANY: u16 = u16::MAX;

    /// A slot and its generation, of which a word has the low bits.
    pub(crate) fn new(slot: u32, generation: u32) -> Self {
        let generation = generation as u16 & GENERATION;
        Self { slot, generation }
    }

    /// Whether this is a ring for a slot of this generation.
    #[inline]
    pub(crate) fn is_for(self, generation: u32) -> bool {
        self.generation == generation as u16 & GENERATION || self.generation == Self::ANY
    }

    /// A slot, with the generation in a word of its doorbells.
    fn of(slot: u32, word: u64) -> Self {
        Self::new(slot, (word >> COUNT_BITS) as u32)
    }

    /// The slot and the generation that a word names.
    fn named(word: u64) -> Self {
        Self::of((word >> (GENERATION_BITS + COUNT_BITS)) as u32, word)
    }
}

/// The top below which a slot is.
#[inline]
fn top_of(slot: u32) -> usize {
    (slot as usize / GROUP).min(NEAR)
}

impl Doorbells {
    #[cfg(any(test, loom))]
    pub(crate) fn new() -> Self {
        let word = |_| AtomicU64::new(0);
        Self {
            parked: Line(word(0)),
            wakes: Line(AtomicU32::new(0)),
            tops: Line(core::array::from_fn(word)),
            groups: Line(core::array::from_fn(word)),
            leaves: Line(core::array::from_fn(word)),
        }
    }

    /// Rings for a DMB; whether there is a leaf for it. Everything this thread wrote before is
    /// visible to the thread that reads the ring. The caller then asks [`Waker::must_wake`].
    #[inline]
    pub(crate) fn ring(&self, pages: &impl Pages, ring: Ring) -> bool {
        let word = self.next_word(ring);
        let Some(leaf) = self.leaves.0.get(ring.slot as usize) else {
            return self.ring_far(pages, ring.slot, word);
        };
        leaf.store(word, Ordering::Release);
        self.ring_top(ring.slot, word);
        true
    }

    #[inline(never)]
    fn ring_far(&self, pages: &impl Pages, slot: u32, word: u64) -> bool {
        let has_leaf = ring_far_leaf(pages, slot, word);
        self.ring_group(slot, word);
        self.ring_top(slot, word);
        has_leaf
    }

    /// The word of a ring: one more than the last below the same top.
    #[inline]
    fn next_word(&self, ring: Ring) -> u64 {
        let top = self.tops.0.get(top_of(ring.slot));
        let count = top.map_or(0, |top| top.load(Ordering::Relaxed));
        (u64::from(ring.slot) << (GENERATION_BITS + COUNT_BITS))
            | (u64::from(ring.generation & GENERATION) << COUNT_BITS)
            | (count.wrapping_add(1) & COUNT)
    }

    fn ring_group(&self, slot: u32, word: u64) {
        let at = (slot as usize / GROUP).checked_sub(NEAR);
        if let Some(group) = at.and_then(|at| self.groups.0.get(at)) {
            group.store(word, Ordering::Release);
        }
    }

    #[inline]
    fn ring_top(&self, slot: u32, word: u64) {
        if let Some(top) = self.tops.0.get(top_of(slot)) {
            top.store(word, Ordering::Release);
        }
    }

    /// Announces to the ringer that this side is about to wait, in a new park epoch. The caller
    /// polls the peer's doorbells once more after this, and only then waits.
    //= SHM-026
    pub(crate) fn park(&self, at: ParkTarget) {
        let place = match at {
            ParkTarget::Socket => PARKED,
            ParkTarget::FutexWord => PARKED | AT_FUTEX_WORD,
        };
        let epoch = (self.park_epoch() | STATES).wrapping_add(1);
        self.parked.0.store(epoch | place, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Announces to the ringer that this side polls again.
    pub(crate) fn unpark(&self) {
        let unparked = self.park_epoch() & !(PARKED | AT_FUTEX_WORD);
        self.parked.0.store(unparked, Ordering::Relaxed);
    }

    /// Asks the ringer not to ring for DMBs until [`Self::park`] or [`Self::restore_rings`]:
    /// meanwhile this side polls the heads of its DMBs. Not to be called while parked.
    //= SHM-075
    pub(crate) fn suppress_rings(&self) {
        let flags = self.park_epoch() | NO_RINGS;
        self.parked.0.store(flags, Ordering::Relaxed);
    }

    /// Asks the ringer to ring again. The caller polls the heads of all DMBs once after this:
    /// what was written there before was not rung for.
    //= SHM-075
    pub(crate) fn restore_rings(&self) {
        let flags = self.park_epoch() & !NO_RINGS;
        self.parked.0.store(flags, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether this side, a listener, polls the heads of its DMBs, so that the caller, which has
    /// just written to one, need not ring.
    //= SHM-075
    #[inline]
    pub(crate) fn suppresses_rings(&self) -> bool {
        if self.park_epoch() & NO_RINGS == 0 {
            return false;
        }
        // What was written is visible to a listener that wants rings before this.
        fence(Ordering::SeqCst);
        self.park_epoch() & NO_RINGS != 0
    }

    /// Number and flags of this side's latest park.
    fn park_epoch(&self) -> u64 {
        self.parked.0.load(Ordering::Relaxed)
    }

    /// Futex word at which the peer waits while its value is the one that the peer has seen.
    pub(crate) fn wakes(&self) -> &AtomicU32 {
        &self.wakes.0
    }

    /// Counts one more wake in the futex word; the caller then wakes the threads that wait there.
    pub(crate) fn count_wake(&self) {
        self.wakes.0.fetch_add(1, Ordering::Release);
    }
}

/// Where a listener waits while it is parked.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ParkTarget {
    /// Until a message comes through the channel's socket.
    Socket,
    /// Until the ringer counts one more wake.
    FutexWord,
}

/// Bit of the word `parked`: the listener waits. Above the flags that word counts the park
/// epochs.
const PARKED: u64 = 1;
/// Bit of the word `parked`: the listener waits at the futex word.
const AT_FUTEX_WORD: u64 = 2;
/// Bit of the word `parked`: the listener polls the heads of its DMBs, and wants no rings.
const NO_RINGS: u64 = 4;
const STATES: u64 = PARKED | AT_FUTEX_WORD | NO_RINGS;

/// The ringer's side of parking: which park epoch of the listener was woken last.
#[derive(Debug, Default)]
pub(crate) struct Waker {
    woken: u64,
}

impl Waker {
    /// Where the listener waits that has to be woken after a ring: `None` if it is not parked, or
    /// was woken in this park epoch already.
    //= SHM-026
    pub(crate) fn must_wake(&mut self, listener: &Doorbells) -> Option<ParkTarget> {
        fence(Ordering::SeqCst);
        let epoch = listener.park_epoch();
        if epoch & PARKED == 0 || epoch == self.woken {
            return None;
        }
        self.woken = epoch;
        Some(if epoch & AT_FUTEX_WORD == 0 {
            ParkTarget::Socket
        } else {
            ParkTarget::FutexWord
        })
    }
}

/// Writes a leaf in a further page; whether that is there.
fn ring_far_leaf(pages: &impl Pages, slot: u32, word: u64) -> bool {
    let at = (slot as usize).saturating_sub(NEAR * GROUP);
    let (page, at) = (at / (OF_A_PAGE * GROUP), at % (OF_A_PAGE * GROUP));
    let leaf = pages.page(page).and_then(|page| page.0.get(at));
    if let Some(leaf) = leaf {
        leaf.store(word, Ordering::Release);
    }
    leaf.is_some()
}

/// What a listener has read of a peer's doorbells.
#[derive(Debug)]
pub(crate) struct Listener {
    tops: [u64; NEAR + 1],
    /// Words of further groups, as far as there are DMBs.
    groups: Vec<u64>,
    leaves: Vec<u64>,
    /// Rings that were found together and not returned yet.
    found: VecDeque<Ring>,
    crowded: bool,
    /// Index of the top to be read next.
    next_top: usize,
}

/// What has changed below a top since it was last read.
enum TopChange {
    None,
    One(Ring),
    /// The groups and leaves show which.
    Several,
}

impl Listener {
    pub(crate) fn new() -> Self {
        Self {
            tops: [0; NEAR + 1],
            groups: Vec::new(),
            leaves: Vec::new(),
            found: VecDeque::new(),
            crowded: false,
            next_top: 0,
        }
    }

    /// The next ring, of slots below `slots`.
    #[inline]
    pub(crate) fn next(
        &mut self,
        doorbells: &Doorbells,
        pages: &impl Pages,
        slots: u32,
    ) -> Option<Ring> {
        let found = self.found.pop_front();
        found.or_else(|| self.poll_tops(doorbells, pages, slots))
    }

    /// Whether the last ring read was not the only one below its top by then.
    #[inline]
    pub(crate) fn is_crowded(&self) -> bool {
        self.crowded
    }

    /// Reads the tops round-robin up to the first that has changed.
    #[inline]
    fn poll_tops(&mut self, doorbells: &Doorbells, pages: &impl Pages, slots: u32) -> Option<Ring> {
        let tops = (slots as usize).div_ceil(GROUP).min(NEAR + 1);
        for _ in 0..tops {
            // The one after the last that had changed: no top keeps rings of others waiting.
            let at = if self.next_top < tops {
                self.next_top
            } else {
                0
            };
            self.next_top = at + 1;
            match self.compare(doorbells, at, slots) {
                TopChange::None => {}
                TopChange::One(ring) => return Some(ring),
                TopChange::Several => {
                    self.search(doorbells, pages, at, slots);
                    if let Some(ring) = self.found.pop_front() {
                        return Some(ring);
                    }
                }
            }
        }
        None
    }

    /// Compares a top with what was last read of it.
    #[inline]
    fn compare(&mut self, doorbells: &Doorbells, at: usize, slots: u32) -> TopChange {
        let (Some(top), Some(before)) = (doorbells.tops.0.get(at), self.tops.get_mut(at)) else {
            return TopChange::None;
        };
        // The acquire pairs with the ringer's release: whatever it moved before is
        // there for the reads behind this one.
        let now = top.load(Ordering::Acquire);
        if now == *before {
            return TopChange::None;
        }
        let rings = now.wrapping_sub(*before) & COUNT;
        *before = now;
        self.crowded = rings > 1;
        if self.leaves.len() < slots as usize {
            self.make_room(slots);
        }
        let ring = Ring::named(now);
        if rings != 1 || top_of(ring.slot) != at {
            return TopChange::Several;
        }
        let group = (ring.slot as usize / GROUP).checked_sub(NEAR);
        if let Some(group) = group.and_then(|group| self.groups.get_mut(group)) {
            *group = now;
        }
        let known = self.leaves.get_mut(ring.slot as usize);
        // Not if it was found already, together with those before it.
        match known.filter(|known| **known != now) {
            Some(known) => {
                *known = now;
                TopChange::One(ring)
            }
            None => TopChange::None,
        }
    }

    #[cold]
    fn make_room(&mut self, slots: u32) {
        self.leaves.resize(slots as usize, 0);
        let groups = (slots as usize).div_ceil(GROUP).saturating_sub(NEAR);
        self.groups.resize(groups, 0);
    }

    /// Whether something rang below the last top, at last in a further page from number `pages`
    /// on, below `slots`.
    #[inline]
    pub(crate) fn lacks_page(&self, doorbells: &Doorbells, pages: usize, slots: u32) -> bool {
        let [.., before] = self.tops;
        let [.., top] = &doorbells.tops.0;
        let now = top.load(Ordering::Acquire);
        let slot = Ring::named(now).slot;
        now != before && slot < slots && pages < pages_for(slot + 1)
    }

    /// A further page has arrived whose ringer may have rung there before it made the page: takes
    /// what rang in its groups.
    ///
    /// Such a ring is in no leaf. It is in its group's word, which was written before the page was
    /// sent.
    //= SHM-071
    pub(crate) fn add_rung_page(&mut self, doorbells: &Doorbells, page: usize, slots: u32) {
        self.make_room(slots);
        let groups = doorbells.groups.0.iter().zip(&mut self.groups).enumerate();
        let mut changed = [None; OF_A_PAGE];
        for ((at, (group, before)), changed) in groups.skip(page * OF_A_PAGE).zip(&mut changed) {
            let now = group.load(Ordering::Acquire);
            *changed = (now != *before).then_some(at);
            *before = now;
        }
        for at in changed.into_iter().flatten() {
            self.take_all(NEAR + at, slots);
        }
    }

    /// Finds what rang below a top.
    #[cold]
    fn search(&mut self, doorbells: &Doorbells, pages: &impl Pages, top: usize, slots: u32) {
        if let Some(leaves) = doorbells.leaves.0.chunks(GROUP).nth(top) {
            return self.compare_leaves(top, leaves);
        }
        for (at, group) in doorbells.groups.0.iter().enumerate() {
            let Some(before) = self.groups.get_mut(at) else {
                return;
            };
            let now = group.load(Ordering::Acquire);
            if now == *before {
                continue;
            }
            *before = now;
            let page = pages.page(at / OF_A_PAGE);
            let leaves = page.and_then(|page| page.0.chunks(GROUP).nth(at % OF_A_PAGE));
            match leaves {
                Some(leaves) => self.compare_leaves(NEAR + at, leaves),
                None => self.take_all(NEAR + at, slots),
            }
        }
    }

    /// Finds the leaves of a group that have changed.
    fn compare_leaves(&mut self, group: usize, leaves: &[AtomicU64]) {
        let from = group * GROUP;
        let known = self.leaves.iter_mut().skip(from);
        for (slot, (leaf, before)) in (from as u32..).zip(leaves.iter().zip(known)) {
            let now = leaf.load(Ordering::Acquire);
            if now != *before {
                *before = now;
                self.found.push_back(Ring::of(slot, now));
            }
        }
    }

    /// Takes all slots of a group for rung: the page of its leaves is missing.
    //= SHM-071
    fn take_all(&mut self, group: usize, slots: u32) {
        let from = (group * GROUP) as u32;
        let generation = Ring::ANY;
        let all = (from..slots.min(from + GROUP as u32)).map(|slot| Ring { slot, generation });
        self.found.extend(all);
    }
}

#[cfg(all(test, loom))]
mod loom_tests;
#[cfg(all(test, not(loom)))]
mod tests;
