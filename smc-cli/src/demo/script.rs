//! What happens to links in the course of a demo, and when.

use std::collections::VecDeque;

use smc_transport_sim::random::Random;

/// Something that happens to links.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Act {
    /// A link that carries data dies; the number selects the end, unless the
    /// other one is the better choice.
    Kill(Death, usize),
    /// Ports that are down come back.
    Revive,
}

/// How a link dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Death {
    /// The port at one end loses its carrier: nothing leads there any more.
    PortDown,
    /// The queue pair at one end fails: its port can have another one.
    QueuePair,
}

/// Acts, and the percentage of the file after which each of them comes.
#[derive(Debug)]
pub(super) struct Script(VecDeque<(u8, Act)>);

impl Script {
    /// Ports and queue pairs die alternately, at ends drawn from the seed. A port is
    /// the first one if ports are to come back.
    pub(super) fn new(kills: &[u8], revive: Option<u8>, seed: u64) -> Self {
        let mut random = Random::new(seed ^ 0x006c_696e_6b73);
        let mut port = revive.is_some() || random.below(2) == 0;
        let mut acts = VecDeque::new();
        for percent in kills {
            let death = if port {
                Death::PortDown
            } else {
                Death::QueuePair
            };
            port = !port;
            let end = random.below(2) as usize;
            acts.push_back((*percent, Act::Kill(death, end)));
        }
        if let Some(percent) = revive {
            // Before a kill at the same time, which then leaves a link.
            let place = kills.iter().take_while(|kill| **kill < percent).count();
            acts.insert(place, (percent, Act::Revive));
        }
        Self(acts)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether something is to happen now that so many bytes of so many came back.
    pub(super) fn is_due(&self, back: u64, length: u64) -> bool {
        let due = |(percent, _): &(u8, Act)| {
            u128::from(back) * 100 >= u128::from(length) * u128::from(*percent)
        };
        self.0.front().is_some_and(due)
    }

    /// What happens next.
    pub(super) fn next(&mut self) -> Option<Act> {
        self.0.pop_front().map(|(_, act)| act)
    }
}
