//! Channels that a client is about to take in.
//!
//! Connections that pair at the same time make a channel each, and the server offers its
//! memory on the first that it has. So a client proposes only when it has taken in every
//! channel that the server may have by then.

use std::sync::{Mutex, MutexGuard, PoisonError};

use smc_transport_ism::shared::pairing::Peer;

/// Attempts that have sent GO to their server, and have not taken its channel in.
#[derive(Debug, Default)]
pub(crate) struct Greetings(Mutex<Under>);

#[derive(Debug, Default)]
struct Under {
    last: u64,
    /// By their numbers; the peer, as far as it is known.
    way: Vec<(u64, Option<Peer>)>,
}

impl Greetings {
    fn under(&self) -> MutexGuard<'_, Under> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One may begin: its number.
    pub(super) fn begin(&self) -> u64 {
        let mut under = self.under();
        under.last += 1;
        let number = under.last;
        under.way.push((number, None));
        number
    }

    /// Its peer is known.
    pub(super) fn is_with(&self, number: u64, peer: Peer) {
        let mut under = self.under();
        let way = under.way.iter_mut().find(|(of, _)| *of == number);
        if let Some((_, of)) = way {
            *of = Some(peer);
        }
    }

    /// Removes an attempt that has ended, whatever its outcome.
    pub(super) fn end(&self, number: u64) {
        self.under().way.retain(|(of, _)| *of != number);
    }

    /// The number of the last that has begun.
    pub(super) fn last(&self) -> u64 {
        self.under().last
    }

    /// Whether all up to this number that may be with a peer are over.
    pub(super) fn are_over(&self, last: u64, peer: Peer) -> bool {
        let concerns =
            |(number, of): &(u64, Option<Peer>)| *number <= last && of.is_none_or(|of| of == peer);
        !self.under().way.iter().any(concerns)
    }
}

#[cfg(test)]
mod tests {
    use super::{Greetings, Peer};
    use smc_transport_ism::device::Gid128;

    const GID: Gid128 = Gid128 { gid: 1, ext: 1 };
    const ONE: Peer = Peer { gid: GID, uid: 1 };
    /// Another user may claim the same GID.
    const TWO: Peer = Peer { gid: GID, uid: 2 };

    #[test]
    fn only_earlier_greetings_of_the_same_peer_are_waited_for() {
        let greetings = Greetings::default();
        let (first, second) = (greetings.begin(), greetings.begin());
        let last = greetings.last();
        assert!(!greetings.are_over(last, ONE));
        greetings.is_with(second, TWO);
        greetings.is_with(first, ONE);
        assert!(!greetings.are_over(last, ONE) && !greetings.are_over(last, TWO));
        let later = greetings.begin();
        greetings.end(first);
        assert!(greetings.are_over(last, ONE) && !greetings.are_over(last, TWO));
        greetings.end(second);
        assert!(greetings.are_over(last, TWO) && !greetings.are_over(later, TWO));
    }
}
