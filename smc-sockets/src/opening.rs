//! The beginning of a connection that this side has declined before it received the client's
//! Proposal: the CLC messages that are still to come are not the application's.
//!
//! ```text
//!   ◄─ Decline (sent at once)
//!   ─► Proposal, or Decline ─► perhaps a Decline, of a client that had waited too long
//!   ─► the application's bytes
//! ```

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};

use smc_proto::wire::clc::{
    ClcHeader, ClcKind, ClcMessage, ClcParseError, ClcVersion, Decline, EYE_CATCHER,
    EYE_CATCHER_SMCD, HEADER_LENGTH, MAX_LENGTH, PeerOs,
};
use smc_proto::wire::types::{DiagnosisCode, PeerId};
use smc_transport_ism::process::PerProcess;

/// What the next bytes of the client may be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Opening {
    /// A CLC message, which the client has promised.
    Promised,
    /// A Decline, or the application's.
    MaybeDecline,
    /// The application's.
    Over,
}

/// What to do with the bytes that have come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Step {
    /// Wait until there are so many.
    Wait(usize),
    /// This many of the bytes are a CLC message: drop them.
    Drop(usize),
    /// The bytes are the application's, all of them.
    Over,
    /// The bytes are neither a CLC message nor the application's.
    Malformed,
}

impl Opening {
    /// Classifies bytes that have come, at least one.
    pub(crate) fn classify(self, bytes: &[u8]) -> Step {
        if self == Self::Over || !begins_like_clc(bytes, self) {
            return Step::Over;
        }
        match (ClcHeader::parse(bytes), self) {
            (Ok(header), _) => match usize::from(header.length) {
                total if total <= bytes.len() => Step::Drop(total),
                total => Step::Wait(total),
            },
            (Err(ClcParseError::TooShort { .. }), _) => Step::Wait(HEADER_LENGTH),
            (Err(_), Self::Promised) => Step::Malformed,
            (Err(_), _) => Step::Over,
        }
    }

    /// What may follow a message.
    pub(crate) fn after(self) -> Self {
        match self {
            Self::Promised => Self::MaybeDecline,
            Self::MaybeDecline | Self::Over => Self::Over,
        }
    }
}

/// Whether bytes begin as the messages do that may come.
fn begins_like_clc(bytes: &[u8], opening: Opening) -> bool {
    [EYE_CATCHER, EYE_CATCHER_SMCD].iter().any(|eye_catcher| {
        let (eye, kind) = bytes.split_at(bytes.len().min(eye_catcher.len()));
        let may_be = |kind: &u8| {
            let promised = opening == Opening::Promised;
            *kind == ClcKind::Decline as u8 || promised && *kind == ClcKind::Proposal as u8
        };
        eye_catcher.starts_with(eye) && kind.first().is_none_or(may_be)
    })
}

/// The Decline of a side that no engine speaks for.
pub(crate) fn decline(peer_id: PeerId, why: DiagnosisCode) -> Option<Vec<u8>> {
    let message = ClcMessage::Decline(Decline {
        // Every peer takes it, whatever it has proposed.
        version: ClcVersion::V1,
        out_of_sync: false,
        peer_id,
        diagnosis: why,
        os: PeerOs::LINUX,
    });
    let mut bytes = vec![0; MAX_LENGTH];
    let len = message.emit(&mut bytes).ok()?;
    bytes.truncate(len);
    Some(bytes)
}

/// The opening of a socket, which the threads that read from it share, and children that have
/// inherited it.
#[derive(Debug)]
pub(crate) struct SharedOpening {
    state: AtomicU8,
    /// Held by the thread that advances. Each process has its own: a thread of the parent may
    /// hold the parent's at the fork.
    //= SHM-061
    advancing: PerProcess<Mutex<()>>,
}

impl SharedOpening {
    pub(crate) const fn new() -> Self {
        Self {
            state: AtomicU8::new(Opening::Over as u8),
            advancing: PerProcess::new(),
        }
    }

    /// Sets the state, before other threads have the socket.
    pub(crate) fn begin(&self, opening: Opening) {
        self.set(opening);
    }

    /// What the next bytes may be.
    #[inline]
    pub(crate) fn state(&self) -> Opening {
        match self.state.load(Ordering::Acquire) {
            state if state == Opening::Promised as u8 => Opening::Promised,
            state if state == Opening::MaybeDecline as u8 => Opening::MaybeDecline,
            _ => Opening::Over,
        }
    }

    /// Whether all bytes that come are the application's.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        self.state() == Opening::Over
    }

    /// Replaces the state by what `step` makes of it, in one thread of this process at a time.
    pub(crate) fn advance<T>(&self, step: impl FnOnce(Opening) -> (Opening, T)) -> T {
        let lock = self.advancing.get_or_make(|| Ok(Mutex::default()));
        // To make a lock cannot fail.
        let _advancing = lock.map(|lock| lock.lock().unwrap_or_else(PoisonError::into_inner));
        let (next, outcome) = step(self.state());
        self.set(next);
        outcome
    }

    fn set(&self, opening: Opening) {
        self.state.store(opening as u8, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A thread of the parent advances at the fork, and the opening is over in the child only.
    //= SHM-061 test
    #[test]
    fn a_child_waits_for_no_thread_of_its_parent() {
        let opening = SharedOpening::new();
        opening.begin(Opening::Promised);
        opening.advance(|before| {
            crate::children::fork(|| {
                let child = opening.advance(|before| (Opening::Over, before));
                assert_eq!(child, Opening::Promised);
                assert!(opening.is_over());
            })
            .succeeds();
            (before.after(), ())
        });
        assert_eq!(opening.state(), Opening::MaybeDecline);
    }

    /// How the bytes of a client are divided, however few of them come at a time.
    fn application(bytes: &[u8]) -> Result<Vec<u8>, Step> {
        let (mut opening, mut at, mut shown) = (Opening::Promised, 0, 1);
        while opening != Opening::Over {
            if at + shown > bytes.len() {
                return Err(Step::Wait(shown));
            }
            match opening.classify(&bytes[at..at + shown]) {
                Step::Wait(total) => {
                    assert!(total > shown);
                    shown += 1;
                }
                Step::Drop(len) => {
                    assert_eq!(len, shown);
                    (at, shown) = (at + len, 1);
                    opening = opening.after();
                }
                Step::Over => break,
                Step::Malformed => return Err(Step::Malformed),
            }
        }
        Ok(bytes[at..].to_vec())
    }

    #[test]
    fn the_application_gets_all_of_its_bytes_and_no_clc() {
        let decline = decline(PeerId::default(), DiagnosisCode::MEMORY).unwrap();
        let proposal = {
            // As long as its header says.
            let mut bytes = decline.clone();
            bytes[4] = ClcKind::Proposal as u8;
            bytes.resize(52, 0);
            bytes[5..7].copy_from_slice(&52_u16.to_be_bytes());
            bytes
        };
        let eye = &EYE_CATCHER[..];
        for (name, sent, expected) in [
            ("plain", vec![], &b"GET / HTTP/1.1"[..]),
            ("proposal", vec![&proposal], b"octets"),
            ("impatient", vec![&proposal, &decline], b"octets"),
            ("declines", vec![&decline], b"octets"),
            (
                "declines like a decline",
                vec![&proposal, &decline],
                &decline,
            ),
            ("like a proposal", vec![&proposal], &proposal),
            (
                "begins like clc",
                vec![&proposal],
                &[&eye[..3], b"and not"].concat(),
            ),
        ] {
            let mut bytes: Vec<u8> = sent.into_iter().flatten().copied().collect();
            bytes.extend_from_slice(expected);
            assert_eq!(application(&bytes).as_deref(), Ok(expected), "{name}");
        }
        // A message that never ends is waited for.
        let cut = &proposal[..proposal.len() - 1];
        assert_eq!(application(cut), Err(Step::Wait(52)));
        let mut endless = proposal;
        endless[5..7].fill(0xff);
        assert_eq!(application(&endless), Err(Step::Malformed));
    }
}
