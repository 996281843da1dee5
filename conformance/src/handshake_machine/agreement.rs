//! What must never be: two answers, and bytes in the wrong hands.

use smc_proto::endpoint::{ClcError, ClcProgress};

use super::host::{Clc, Host, Outcome};
use super::tcp::Origin;
use super::world::World;

impl World {
    /// An application is notified of an outcome: of SMC or TCP once, and of an end once.
    pub(super) fn decide(&mut self, side: usize, outcome: Outcome) {
        let before = std::mem::replace(&mut self.hosts[side].outcome, outcome);
        let follows = match before {
            Outcome::Undecided => true,
            Outcome::Smc => outcome == Outcome::Over,
            // Being handed over twice ends the watch for a Decline.
            Outcome::Tcp => outcome == Outcome::Over || outcome == Outcome::Tcp,
            Outcome::Over => outcome == Outcome::Over,
        };
        if !follows {
            self.find(format!(
                "side {side} was given {before:?}, then {outcome:?}"
            ));
        }
    }

    pub(super) fn check_fell_back(&mut self, side: usize) {
        let outcome = self.hosts[side].outcome;
        if !matches!(outcome, Outcome::Tcp | Outcome::Over) {
            self.find(format!("side {side} fell back, but was given {outcome:?}"));
        }
    }

    /// Whether the engine took what is its own: whole CLC messages, and nothing else.
    pub(super) fn check_progress(&mut self, side: usize, progress: &Result<ClcProgress, ClcError>) {
        let host = &self.hosts[side];
        let first = host.unread.front().map(|byte| byte.origin);
        let is_message = |length: usize| {
            let bytes = host.unread.iter().take(length).map(|byte| byte.origin);
            let of = length as u16;
            (0..of).map(|at| Origin::Clc { at, of }).eq(bytes)
        };
        let wrong = match (progress, first) {
            (Ok(ClcProgress::Consumed { len, .. }), _) => !is_message(*len),
            // What it waits for is the rest of a message of the peer's, or what an
            // application sends that begins like one.
            (Ok(ClcProgress::NeedMore { total }), Some(Origin::Clc { at, of })) => {
                at != 0 || *total > usize::from(of)
            }
            (Ok(ClcProgress::NeedMore { .. }), _) => host.clc != Clc::Watching,
            // Bytes behind the last CLC message of a connection that SMC carries.
            (Ok(ClcProgress::NotClc), Some(Origin::Clc { .. })) => host.outcome == Outcome::Tcp,
            (Ok(ClcProgress::NotClc), _) => false,
            (Err(_), _) => true,
        };
        if wrong {
            self.find(format!(
                "side {side} makes {progress:?} of what begins with {first:?}"
            ));
        }
    }

    /// Whether both sides have the same answer, and all that was sent has arrived.
    pub(super) fn agree(&self) -> bool {
        let [a, b] = &self.hosts;
        let has_all = |reader: &Host, writer: &Host| {
            reader.application_is_done || reader.got == writer.written
        };
        match (a.outcome, b.outcome) {
            (Outcome::Smc, Outcome::Smc) => !a.application_is_done && !b.application_is_done,
            (Outcome::Tcp, Outcome::Tcp) => has_all(a, b) && has_all(b, a),
            (Outcome::Over, Outcome::Over) => true,
            _ => false,
        }
    }
}
