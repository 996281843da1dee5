//! What the applications of a run do and when.

use smc_proto::time::{Duration, Instant};

use super::scenario::{Plan, RING};
use crate::random::Random;

/// Something an application does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// Connects.
    Open,
    /// One side writes so many bytes.
    Write { side: usize, bytes: u64 },
    /// One side has written all and closes in order.
    Finish { side: usize },
    /// One side closes, whatever the other one does.
    Close { side: usize },
    /// One side aborts.
    Abort { side: usize },
    /// One side stops or goes on reading.
    Pause { side: usize, paused: bool },
}

/// One line of a script: when, which connection, what.
pub(super) type Line = (Instant, usize, Act);

/// Faults strike and connections begin within so long.
pub(super) const ACTIVE: Duration = Duration::from_millis(40);

/// The script of one connection. Returns whether both sides end in order.
pub(super) fn draw(
    from: Instant,
    index: usize,
    plan: &Plan,
    random: &mut Random,
    lines: &mut Vec<Line>,
) -> bool {
    let micros = |random: &mut Random, most: u64| Duration::from_micros(random.below(most));
    let opens = from.after(micros(random, 12_000));
    lines.push((opens, index, Act::Open));
    let mut written = opens;
    for side in [0, 1] {
        let mut left = plan.bytes.get(side).copied().unwrap_or(0);
        let mut at = opens;
        // All at once, or bit by bit.
        let piece = match random.below(4) {
            0 => left,
            1 | 2 => RING / 4 + random.below(RING),
            _ => RING / 2 + random.below(2 * RING),
        };
        let pause = 1 + random.below(8_000);
        while left > 0 {
            let bytes = left.min(piece);
            lines.push((at, index, Act::Write { side, bytes }));
            left -= bytes;
            written = written.max(at);
            at = at.after(micros(random, pause));
        }
        if random.below(3) == 0 {
            let stops = opens.after(micros(random, 15_000));
            let goes_on = stops.after(micros(random, 10_000));
            for (at, paused) in [(stops, true), (goes_on, false)] {
                lines.push((at, index, Act::Pause { side, paused }));
            }
        }
    }
    end(opens, written, index, random, lines)
}

/// How a connection ends: mostly in order, else in the middle of something.
fn end(
    opens: Instant,
    written: Instant,
    index: usize,
    random: &mut Random,
    lines: &mut Vec<Line>,
) -> bool {
    let side = random.below(2) as usize;
    let early = opens.after(Duration::from_micros(random.below(40_000)));
    match random.below(8) {
        0 => lines.push((early, index, Act::Abort { side })),
        1 => lines.push((early, index, Act::Close { side })),
        _ => {
            for side in [0, 1] {
                lines.push((written, index, Act::Finish { side }));
            }
            return true;
        }
    }
    false
}
