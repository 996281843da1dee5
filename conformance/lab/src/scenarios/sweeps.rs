//! Steps that go through many sizes and places.

use crate::conversation::Step;

const KIB: u64 = 1024;

/// `2^k - 1`, `2^k` and `2^k + 1` bytes for k up to 18, and about a ring of 64 KiB.
pub(super) const SIZES: [Step; 64] = {
    let mut steps = [Step::End; 64];
    let mut k = 0;
    let mut next = 0;
    while k <= 18 {
        let size = 1_u64 << k;
        // 2^0 - 1 bytes are none to wait for.
        if k > 0 {
            steps[next] = Step::Echoed(size - 1);
            next += 1;
        }
        steps[next] = Step::Echoed(size);
        steps[next + 1] = Step::Echoed(size + 1);
        next += 2;
        k += 1;
    }
    steps[next] = Step::Echoed(64 * KIB - 64);
    steps[next + 1] = Step::Echoed(64 * KIB + 64);
    next += 2;
    while next < 62 {
        // Odd sizes move every later one to other places of the ring.
        steps[next] = Step::Echoed(1_000 + 7_919 * next as u64);
        next += 1;
    }
    steps[62] = Step::Shutdown;
    steps
};

/// The next of a series of numbers without order (Knuth's MMIX).
const fn next(number: u64) -> u64 {
    number
        .wrapping_mul(6_364_136_223_846_793_005)
        .wrapping_add(1_442_695_040_888_963_407)
}

/// 500 sizes without order, of 1 to 128 KiB, of which the small ones are as many as the
/// large ones.
pub(super) static RANDOM_SIZES: [Step; 501] = {
    let mut steps = [Step::Shutdown; 501];
    let mut number = 7_609;
    let mut at = 0;
    while at < 500 {
        number = next(number);
        let most = 1_u64 << ((number >> 33) % 18);
        steps[at] = Step::Echoed(1 + (number >> 40) % most);
        at += 1;
    }
    steps
};

/// Where urgent bytes are, counted from the one before: 1 to 64, then 64 before the end
/// of a ring of 64 KiB to 64 behind it, then 200 without order. None is alone: see
/// `urgent-alone-to-server`.
const OFFSETS: [u64; 393] = {
    let ring = 64 * KIB;
    let mut offsets = [0; 393];
    let mut position = 0;
    let mut at = 0;
    while at < 64 {
        offsets[at] = at as u64 + 1;
        position += offsets[at] + 1;
        at += 1;
    }
    // From here each is one place further within the ring.
    offsets[at] = 2 * ring - 64 - position % ring;
    at += 1;
    while at < 64 + 129 {
        offsets[at] = ring;
        at += 1;
    }
    let mut number = 793;
    while at < 393 {
        number = next(number);
        offsets[at] = 1 + (number >> 40) % 3_000;
        at += 1;
    }
    offsets
};

/// Most bytes that are read only behind the urgent one: fewer than a ring has.
const BEHIND: u64 = 1_000;

/// Sends urgent bytes at all offsets, each after the one before was taken.
pub(super) static URGENT_SWEEP: [Step; 3 * 393 + 3] = {
    let mut steps = [Step::Shutdown; 3 * 393 + 3];
    let mut at = 0;
    while at < 393 {
        steps[3 * at] = Step::Send(OFFSETS[at]);
        steps[3 * at + 1] = Step::SendUrgent;
        steps[3 * at + 2] = Step::Receive(1);
        at += 1;
    }
    // Linux forgets the flags of an urgent byte that nothing follows.
    steps[3 * 393] = Step::Send(1);
    steps[3 * 393 + 2] = Step::End;
    steps
};

/// Takes them: ahead of the bytes before, as far as there is room for these.
pub(super) static URGENT_ASKS: [Step; 3 * 393 + 3] = {
    let mut steps = [Step::Shutdown; 3 * 393 + 3];
    let mut at = 0;
    while at < 393 {
        let behind = if OFFSETS[at] < BEHIND {
            OFFSETS[at]
        } else {
            BEHIND
        };
        steps[3 * at] = Step::Receive(OFFSETS[at] - behind);
        steps[3 * at + 1] = Step::ReceiveUrgent(behind);
        steps[3 * at + 2] = Step::Send(1);
        at += 1;
    }
    steps[3 * 393] = Step::Receive(1);
    steps[3 * 393 + 1] = Step::End;
    steps
};

#[cfg(test)]
mod tests {
    use super::{KIB, OFFSETS};
    use std::collections::BTreeSet;

    #[test]
    fn urgent_bytes_stand_on_both_sides_of_the_wrap() {
        let ring = 64 * KIB;
        let mut position = 0;
        let mut places = BTreeSet::new();
        for offset in &OFFSETS[..64 + 129] {
            position += offset;
            places.insert(position % ring);
            position += 1;
        }
        for place in 0..=64 {
            assert!(places.contains(&place), "{place} behind");
            assert!(places.contains(&((ring - place) % ring)), "{place} before");
        }
    }
}
