//! Connection attempts of this process that may still make a channel to their server.
//!
//! Connections that pair with one server at the same time make a channel each. The server
//! offers its memory over the channel that it has first. A client that does not have that
//! channel yet could not receive the offer. So a client proposes only when no earlier attempt to
//! the same server is pending: it then has every channel that the server may have.
//!
//! ```text
//!  begin ─► is_with (server known, GO sent) ─► end (channel made, or failed)
//!    another attempt: last ─► paired ─► are_over(last, server)? ─► Proposal
//! ```

use std::sync::{Mutex, MutexGuard, PoisonError};

use smc_transport_ism::shared::pairing::Peer;

/// Pending attempts, by number in the order in which they began. Shared by all threads of a
/// stack.
#[derive(Debug, Default)]
pub(crate) struct PendingChannels(Mutex<Attempts>);

#[derive(Debug, Default)]
struct Attempts {
    /// Number of the newest attempt.
    last: u64,
    pending: Vec<Attempt>,
}

/// An attempt that has not ended.
#[derive(Debug)]
struct Attempt {
    number: u64,
    /// Its server. `None` until a process has answered: it may be any.
    peer: Option<Peer>,
}

impl PendingChannels {
    fn lock(&self) -> MutexGuard<'_, Attempts> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an attempt and returns its number. The caller has to [`end`](Self::end) it.
    pub(super) fn begin(&self) -> u64 {
        let mut attempts = self.lock();
        attempts.last += 1;
        let number = attempts.last;
        attempts.pending.push(Attempt { number, peer: None });
        number
    }

    /// Notes the server of an attempt. Attempts to other servers no longer wait for it.
    pub(super) fn is_with(&self, number: u64, peer: Peer) {
        let mut attempts = self.lock();
        let mut pending = attempts.pending.iter_mut();
        if let Some(attempt) = pending.find(|attempt| attempt.number == number) {
            attempt.peer = Some(peer);
        }
    }

    /// Removes an attempt, whatever its outcome.
    pub(super) fn end(&self, number: u64) {
        let mut attempts = self.lock();
        attempts.pending.retain(|attempt| attempt.number != number);
    }

    /// Number of the newest attempt, pending or not.
    pub(super) fn last(&self) -> u64 {
        self.lock().last
    }

    /// Whether every attempt up to number `last` that is or may be one to `peer` has ended.
    pub(super) fn are_over(&self, last: u64, peer: Peer) -> bool {
        let is_awaited =
            |attempt: &Attempt| attempt.number <= last && attempt.peer.is_none_or(|of| of == peer);
        !self.lock().pending.iter().any(is_awaited)
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
    fn only_earlier_attempts_at_the_same_peer_are_waited_for() {
        let channels = PendingChannels::default();
        let (first, second) = (channels.begin(), channels.begin());
        let last = channels.last();
        assert!(!channels.are_over(last, ONE));
        channels.is_with(second, TWO);
        channels.is_with(first, ONE);
        assert!(!channels.are_over(last, ONE) && !channels.are_over(last, TWO));
        let later = channels.begin();
        channels.end(first);
        assert!(channels.are_over(last, ONE) && !channels.are_over(last, TWO));
        channels.end(second);
        assert!(channels.are_over(last, TWO) && !channels.are_over(later, TWO));
    }
}
