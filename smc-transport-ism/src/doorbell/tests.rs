//! Every ring is heard, whatever the order.

use super::{Bed, Bells, GROUP, GROUPS, Listener, News, Ring, SLOTS, Waker};

fn ring(slot: u32) -> Ring {
    Ring {
        slot,
        generation: 3,
    }
}

fn heard(listener: &mut Listener, bells: &Bells) -> Vec<u32> {
    core::iter::from_fn(|| listener.next(bells, SLOTS))
        .map(|ring| ring.slot)
        .collect()
}

#[test]
fn every_slot_is_heard_alone_and_in_company() {
    let (bells, mut listener) = (Bells::new(), Listener::new());
    for slot in 0..SLOTS {
        bells.ring(ring(slot));
        assert_eq!(listener.next(&bells, SLOTS), Some(ring(slot)));
        assert_eq!(listener.next(&bells, SLOTS), None);
    }
    for stride in [1, 3, GROUP, 1000] {
        let rung: Vec<_> = (0..SLOTS).step_by(stride).collect();
        rung.iter().for_each(|slot| bells.ring(ring(*slot)));
        let mut heard = heard(&mut listener, &bells);
        heard.sort_unstable();
        assert_eq!(heard, rung);
    }
}

#[test]
fn rings_heard_alone_and_in_company_are_each_heard_once() {
    let (bells, mut listener) = (Bells::new(), Listener::new());
    for round in 0..1000u32 {
        let slots: Vec<_> = (0..round % 4).map(|at| (round * 7 + at * 5) % 40).collect();
        slots.iter().for_each(|slot| bells.ring(ring(*slot)));
        let mut wanted = slots.clone();
        wanted.sort_unstable();
        wanted.dedup();
        let mut heard = heard(&mut listener, &bells);
        heard.sort_unstable();
        assert_eq!(heard, wanted, "round {round}");
    }
}

#[test]
fn slots_beyond_those_in_use_are_not_heard() {
    let (bells, mut listener) = (Bells::new(), Listener::new());
    bells.ring(ring(5));
    assert_eq!(listener.next(&bells, 5), None);
    bells.ring(ring(900));
    bells.ring(ring(2));
    bells.ring(ring(6));
    assert_eq!(listener.next(&bells, 5), Some(ring(2)));
    assert_eq!(listener.next(&bells, 5), None);
}

/// Ringer and listener by turns, one access to a word at a time, in millions of
/// orders. Once the last ring of a burst was missed, when rings before it had
/// been found while others were looked for.
#[test]
fn no_order_of_accesses_hides_a_ring() {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    let mut below = |bound: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 20) % bound
    };
    let runs = if cfg!(miri) { 200 } else { 200_000 };
    let (bells, mut listener) = (Bells::new(), Listener::new());
    for run in 0..runs {
        let rings = below(14) + 1;
        let (mut rung, mut half, mut several) = (0, None, false);
        // The number of the last ring, and what was heard at or after it, by slot.
        let (mut last, mut heard) = ([0; 2], [0; 2]);
        let mut hear = |ring: Ring, rung| heard[ring.slot as usize] = rung;
        while rung < rings || half.is_some() {
            match (half.take(), below(2)) {
                (Some((slot, word)), 0) => bells.ring_group(slot, word),
                (None, 0) if rung < rings => {
                    let slot = below(4) as u32 / 3;
                    rung += 1;
                    last[slot as usize] = rung;
                    half = Some((slot, bells.ring_leaf(ring(slot))));
                }
                (unchanged, _) => {
                    half = unchanged;
                    if std::mem::take(&mut several) {
                        listener.search(&bells, 0);
                        listener.heard.drain(..).for_each(|ring| hear(ring, rung));
                    } else {
                        match listener.compare(&bells, 0, 2) {
                            News::None => {}
                            News::One(ring) => hear(ring, rung),
                            News::Several => several = true,
                        }
                    }
                }
            }
        }
        if several {
            listener.search(&bells, 0);
        }
        while let Some(ring) = listener.next(&bells, 2) {
            hear(ring, rung);
        }
        let all = heard.iter().zip(&last).all(|(heard, last)| heard >= last);
        assert!(all, "run {run}: heard {heard:?} of {last:?}");
    }
}

#[test]
fn no_group_keeps_others_unheard() {
    let (bells, mut listener) = (Bells::new(), Listener::new());
    bells.ring(ring(SLOTS - 1));
    let mut heard = Vec::new();
    for _ in 0..GROUPS + 1 {
        bells.ring(ring(0));
        heard.extend(listener.next(&bells, SLOTS));
    }
    assert!(heard.contains(&ring(SLOTS - 1)));
}

#[test]
fn one_wake_for_each_spell() {
    let (listener, mut waker) = (Bells::new(), Waker::default());
    assert_eq!(waker.must_wake(&listener), None);
    for bed in [Bed::Socket, Bed::Word, Bed::Word, Bed::Socket] {
        listener.park(bed);
        assert_eq!(waker.must_wake(&listener), Some(bed));
        assert_eq!(waker.must_wake(&listener), None, "woken already");
        listener.unpark();
        assert_eq!(waker.must_wake(&listener), None);
        listener.unpark();
    }
}
