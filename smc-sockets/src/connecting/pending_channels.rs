//! Channels that a client is about to receive.
//!
//! Connections that pair at the same time make a channel each, and the server offers its
//! memory on the first one that it has. So a client proposes only when it has received every
//! channel that the server may have by then.

use std::sync::{Mutex, MutexGuard, PoisonError};

use smc_transport_ism::shared::pairing::Peer;

/// Attempts to connect that have sent GO to a server, and have not received its channel.
#[derive(Debug, Default)]
pub(crate) struct PendingChannels(Mutex<Attempts>);

#[derive(Debug, Default)]
struct Attempts {
    /// Number of the last one that has begun.
    last: u64,
    /// Number of each that has not ended, and its server, once that is known.
    open: Vec<(u64, Option<Peer>)>,
}

impl PendingChannels {
    fn attempts(&self) -> MutexGuard<'_, Attempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins an attempt, and returns its number.
    pub(super) fn begin(&self) -> u64 {
        let mut attempts = self.attempts();
        attempts.last += 1;
        let number = attempts.last;
        attempts.open.push((number, None));
        number
    }

    /// Sets the server of an attempt.
    pub(super) fn set_peer(&self, number: u64, peer: Peer) {
        let mut attempts = self.attempts();
        let entry = attempts.open.iter_mut().find(|(of, _)| *of == number);
        if let Some((_, of)) = entry {
            *of = Some(peer);
        }
    }

    /// Ends an attempt, whatever its outcome.
    pub(super) fn end(&self, number: u64) {
        self.attempts().open.retain(|(of, _)| *of != number);
    }

    /// The number of the last attempt that has begun.
    pub(super) fn last(&self) -> u64 {
        self.attempts().last
    }

    /// Whether no attempt up to this number may still receive a channel of a peer.
    pub(super) fn have_ended(&self, last: u64, peer: Peer) -> bool {
        let may_be_with =
            |(number, of): &(u64, Option<Peer>)| *number <= last && of.is_none_or(|of| of == peer);
        !self.attempts().open.iter().any(may_be_with)
    }
}

#[cfg(test)]
mod tests {
    use super::{Peer, PendingChannels};
    use smc_transport_ism::device::Gid128;

    const GID: Gid128 = Gid128 { gid: 1, ext: 1 };
    const ONE: Peer = Peer { gid: GID, uid: 1 };
    /// Another user may claim the same GID.
    const TWO: Peer = Peer { gid: GID, uid: 2 };

    #[test]
    fn only_earlier_attempts_with_the_same_peer_are_waited_for() {
        let channels = PendingChannels::default();
        let (first, second) = (channels.begin(), channels.begin());
        let last = channels.last();
        assert!(!channels.have_ended(last, ONE));
        channels.set_peer(second, TWO);
        channels.set_peer(first, ONE);
        assert!(!channels.have_ended(last, ONE) && !channels.have_ended(last, TWO));
        let later = channels.begin();
        channels.end(first);
        assert!(channels.have_ended(last, ONE) && !channels.have_ended(last, TWO));
        channels.end(second);
        assert!(channels.have_ended(last, TWO) && !channels.have_ended(later, TWO));
    }
}
