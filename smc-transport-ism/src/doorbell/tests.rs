//! Every ring is found, whatever the order, and whichever pages are there.

use std::rc::Rc;

use super::{
    Doorbells, FAR, GROUP, Leaves, Listener, NEAR, OF_A_PAGE, PAGES, Pages, ParkTarget, Ring,
    SLOTS, TopChange, Waker, pages_for,
};

/// Further pages, of which one side has the first so many.
#[derive(Clone)]
struct Made(Rc<Vec<Leaves>>, usize);

impl Pages for Made {
    fn page(&self, at: usize) -> Option<&Leaves> {
        self.0.get(at).filter(|_| at < self.1)
    }
}

impl Made {
    fn first(&self, count: usize) -> Self {
        Self(Rc::clone(&self.0), count)
    }
}

fn pages(count: usize) -> Made {
    Made(Rc::new((0..count).map(|_| Leaves::new()).collect()), count)
}

fn ring(slot: u32) -> Ring {
    Ring::new(slot, 3)
}

fn found(listener: &mut Listener, doorbells: &Doorbells, pages: &Made) -> Vec<u32> {
    let mut slots: Vec<_> = core::iter::from_fn(|| listener.next(doorbells, pages, SLOTS))
        .inspect(|ring| assert!(ring.is_for(3)))
        .map(|ring| ring.slot)
        .collect();
    slots.sort_unstable();
    slots
}

//= SHM-025 test
#[test]
fn every_slot_is_found_alone_and_in_company() {
    let (doorbells, all, mut listener) = (Doorbells::new(), pages(PAGES), Listener::new());
    for slot in 0..SLOTS {
        doorbells.ring(&all, ring(slot));
        assert_eq!(listener.next(&doorbells, &all, SLOTS), Some(ring(slot)));
        assert_eq!(listener.next(&doorbells, &all, SLOTS), None);
    }
    for stride in [1, 3, GROUP, 1000] {
        let rung: Vec<_> = (0..SLOTS).step_by(stride).collect();
        rung.iter()
            .for_each(|slot| assert!(doorbells.ring(&all, ring(*slot))));
        assert_eq!(found(&mut listener, &doorbells, &all), rung);
    }
}

/// Either end may lack a page: then a ring alone names its slot, and among several all slots
/// of the group count as rung, and no others.
//= SHM-071 test
#[test]
fn a_missing_page_loses_no_ring() {
    let slots = [300, 301, 5, 700, 800, 16_000];
    for (ringers, listeners) in [(0, 0), (1, 0), (1, 1), (PAGES, 1), (PAGES, 0)] {
        let (doorbells, mut listener) = (Doorbells::new(), Listener::new());
        let at_ringer = pages(PAGES).first(ringers);
        let at_listener = at_ringer.first(listeners);
        for slot in slots {
            doorbells.ring(&at_ringer, ring(slot));
            assert_eq!(found(&mut listener, &doorbells, &at_listener), [slot]);
        }
        slots
            .iter()
            .for_each(|slot| _ = doorbells.ring(&at_ringer, ring(*slot)));
        let found = found(&mut listener, &doorbells, &at_listener);
        assert!(slots.iter().all(|slot| found.contains(slot)));
        let rang = |group| slots.iter().any(|slot| slot / GROUP as u32 == group);
        assert!(found.iter().all(|slot| rang(slot / GROUP as u32)));
    }
}

/// The ringer writes leaf, group and top of each ring, and makes a page before any ring; the
/// page arrives at any moment behind that, or never; the listener reads at any moment. After
/// each order of these steps, every ring was found at or behind the first of its stores.
//= SHM-071 test
#[test]
fn no_order_of_rings_and_pages_hides_a_ring() {
    let first = (NEAR * GROUP) as u32;
    let slots = first + (OF_A_PAGE * GROUP) as u32;
    let rings = [
        [first, first + 1, first],
        [first, first + GROUP as u32, first],
        [first + 1, first + 1, first],
    ];
    let places = 3 * rings[0].len();
    let mut orders = 0;
    for rung in rings {
        for made in 0..=rung.len() {
            for arrives in 3 * made..=places + 1 {
                for reads in 0..1_u32 << places {
                    orders += 1;
                    let (doorbells, mut listener) = (Doorbells::new(), Listener::new());
                    let (page, mut unread) = (pages(1), Vec::new());
                    let mut word = 0;
                    for place in 0..=places {
                        let at_listener = page.first(usize::from(place >= arrives));
                        // With a page, the ringer sends whether it rang there before.
                        if place == arrives && made > 0 {
                            listener.add_rung_page(&doorbells, 0, slots);
                        }
                        if place == places || reads >> place & 1 == 1 {
                            while let Some(ring) = listener.next(&doorbells, &at_listener, slots) {
                                unread.retain(|slot| *slot != ring.slot);
                            }
                        }
                        let Some(slot) = rung.get(place / 3) else {
                            continue;
                        };
                        let at_ringer = page.first(usize::from(place / 3 >= made));
                        match place % 3 {
                            0 => {
                                unread.push(*slot);
                                word = doorbells.next_word(ring(*slot));
                                super::ring_far_leaf(&at_ringer, *slot, word);
                            }
                            1 => doorbells.ring_group(*slot, word),
                            _ => doorbells.ring_top(*slot, word),
                        }
                    }
                    assert_eq!(
                        unread,
                        [],
                        "{rung:?}, page {made}, {arrives}; reads {reads:b}"
                    );
                }
            }
        }
    }
    assert!(orders > 30_000, "{orders}");
}

#[test]
fn rings_found_alone_and_in_company_are_each_found_once() {
    let all = pages(PAGES);
    for base in [0, (NEAR * GROUP) as u32] {
        let (doorbells, mut listener) = (Doorbells::new(), Listener::new());
        for round in 0..1000u32 {
            let slots = (0..round % 4).map(|at| base + (round * 7 + at * 5) % 40);
            let mut wanted: Vec<_> = slots.collect();
            wanted
                .iter()
                .for_each(|slot| assert!(doorbells.ring(&all, ring(*slot))));
            wanted.sort_unstable();
            wanted.dedup();
            let found = found(&mut listener, &doorbells, &all);
            assert_eq!(found, wanted, "round {round}");
        }
    }
}

#[test]
fn slots_beyond_those_in_use_are_not_found() {
    let (doorbells, all, mut listener) = (Doorbells::new(), pages(PAGES), Listener::new());
    let mut next = |doorbells: &Doorbells, slots| listener.next(doorbells, &all, slots);
    doorbells.ring(&all, ring(5));
    assert_eq!(next(&doorbells, 5), None);
    doorbells.ring(&all, ring(900));
    doorbells.ring(&all, ring(2));
    doorbells.ring(&all, ring(6));
    assert_eq!(next(&doorbells, 5), Some(ring(2)));
    assert_eq!(next(&doorbells, 5), None);
}

/// Ringer and listener alternate, one access to a word at a time, in millions of
/// orders. Once the last ring of a burst was missed, when rings before it had
/// been found while others were searched for.
#[test]
fn no_order_of_accesses_hides_a_ring() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % bound
    };
    let runs = if cfg!(miri) { 200 } else { 100_000 };
    for (base, at_listener) in [(0, 0), (NEAR * GROUP, 1), (NEAR * GROUP, 0)] {
        let (doorbells, mut listener) = (Doorbells::new(), Listener::new());
        let all = pages(1);
        let there = all.first(at_listener);
        let (top, base) = (super::top_of(base as u32), base as u32);
        let (slots, all) = (base + 2, &all);
        for run in 0..runs {
            let rings = below(14) + 1;
            let (mut rung, mut half, mut several) = (0, None, false);
            // The number of the last ring, and what was found at or after it, by slot.
            let (mut last, mut found) = ([0; 2], [0; 2]);
            let mut note = |ring: Ring, rung| found[(ring.slot - base) as usize] = rung;
            while rung < rings || half.is_some() {
                match (half.take(), below(2)) {
                    (Some((slot, word, 1)), 0) => doorbells.ring_top(slot, word),
                    (Some((slot, word, _)), 0) => {
                        doorbells.ring_group(slot, word);
                        half = Some((slot, word, 1));
                    }
                    (None, 0) if rung < rings => {
                        let at = below(4) as u32 / 3;
                        rung += 1;
                        last[at as usize] = rung;
                        let slot = base + at;
                        let word = doorbells.next_word(ring(slot));
                        match doorbells.leaves.0.get(slot as usize) {
                            Some(leaf) => leaf.store(word, super::Ordering::Release),
                            None => assert!(super::ring_far_leaf(all, slot, word)),
                        }
                        half = Some((slot, word, 0));
                    }
                    (unchanged, _) => {
                        half = unchanged;
                        if std::mem::take(&mut several) {
                            listener.search(&doorbells, &there, top, slots);
                            listener.found.drain(..).for_each(|ring| note(ring, rung));
                        } else {
                            match listener.compare(&doorbells, top, slots) {
                                TopChange::None => {}
                                TopChange::One(ring) => note(ring, rung),
                                TopChange::Several => several = true,
                            }
                        }
                    }
                }
            }
            if several {
                listener.search(&doorbells, &there, top, slots);
            }
            while let Some(ring) = listener.next(&doorbells, &there, slots) {
                note(ring, rung);
            }
            let all = found.iter().zip(&last).all(|(found, last)| found >= last);
            assert!(all, "base {base}, run {run}: found {found:?} of {last:?}");
        }
    }
}

#[test]
fn no_group_keeps_rings_of_others_waiting() {
    let (doorbells, all, mut listener) = (Doorbells::new(), pages(PAGES), Listener::new());
    doorbells.ring(&all, ring(SLOTS - 1));
    let mut found = Vec::new();
    for _ in 0..NEAR + 2 {
        doorbells.ring(&all, ring(0));
        found.extend(listener.next(&doorbells, &all, SLOTS));
    }
    assert!(found.contains(&ring(SLOTS - 1)));
}

#[test]
fn pages_are_counted_by_the_slots_in_use() {
    let near = (NEAR * GROUP) as u32;
    let of_a_page = (SLOTS - near) / PAGES as u32;
    for (slots, wanted) in [
        (0, 0),
        (near, 0),
        (near + 1, 1),
        (near + of_a_page, 1),
        (near + of_a_page + 1, 2),
        (SLOTS, PAGES),
        (u32::MAX, PAGES),
    ] {
        assert_eq!(pages_for(slots), wanted, "{slots}");
    }
    assert_eq!(FAR * GROUP, (SLOTS - near) as usize);
}

#[test]
fn one_wake_for_each_spell() {
    let (listener, mut waker) = (Doorbells::new(), Waker::default());
    assert_eq!(waker.must_wake(&listener), None);
    for target in [
        ParkTarget::Socket,
        ParkTarget::FutexWord,
        ParkTarget::FutexWord,
        ParkTarget::Socket,
    ] {
        listener.park(target);
        assert_eq!(waker.must_wake(&listener), Some(target));
        assert_eq!(waker.must_wake(&listener), None, "woken already");
        listener.unpark();
        assert_eq!(waker.must_wake(&listener), None);
        listener.unpark();
    }
}
