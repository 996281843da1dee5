//! Whether the other end of a connection speaks SMC, before either says a word of it.
//!
//! Between processes of one host, pairing tells. For all others there are two ways: the
//! TCP option, which both sides see in SYN and SYN-ACK, and the policy of both, which says
//! so. Whichever it is, both ends come to the same: who does not speak CLC must not get
//! any, and who was promised some waits for it.

use crate::carrier::{Cause, OptionMissing};

/// How it is known that the peer of a connection speaks SMC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Discovery {
    /// By the TCP option, which both sent.
    Option,
    /// By the policy.
    Assumed,
}

/// What became of the TCP option on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// This side asked, and so did the other one.
    Heard,
    /// This side asked, and the other one did not.
    Silent,
    /// This side did not ask, for this reason.
    Not(NotAsked),
}

/// Why this side did not ask by the TCP option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotAsked {
    /// There is nothing to offer.
    NoDevice,
    /// It cannot.
    Missing(OptionMissing),
    /// The listener listened already.
    TooLate,
    /// The server did not understand a Proposal lately.
    Shunned,
}

/// Whether CLC is spoken on a connection that is not one of shared memory, and how that is
/// known; else what TCP is due to.
pub(crate) fn discover(asked: Asked, assumed: bool) -> Result<Discovery, Cause> {
    match asked {
        // A peer that sent the option speaks CLC, and expects it.
        Asked::Heard => Ok(Discovery::Option),
        // The other end, which has the same policy, may lack the rights for the option.
        _ if assumed => Ok(Discovery::Assumed),
        Asked::Silent => Err(Cause::NoOption),
        Asked::Not(NotAsked::NoDevice) => Err(Cause::NoDevice),
        Asked::Not(NotAsked::Missing(what)) => Err(Cause::CannotAsk(what)),
        Asked::Not(NotAsked::TooLate) => Err(Cause::AskedTooLate),
        Asked::Not(NotAsked::Shunned) => Err(Cause::Shunned),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Asked; 6] = [
        Asked::Heard,
        Asked::Silent,
        Asked::Not(NotAsked::NoDevice),
        Asked::Not(NotAsked::Missing(OptionMissing::NoCgroup)),
        Asked::Not(NotAsked::TooLate),
        Asked::Not(NotAsked::Shunned),
    ];

    #[test]
    fn an_option_that_was_heard_or_a_policy_is_needed() {
        assert_eq!(discover(Asked::Heard, false), Ok(Discovery::Option));
        for asked in &ALL[1..] {
            assert!(discover(*asked, false).is_err());
            assert_eq!(discover(*asked, true), Ok(Discovery::Assumed));
        }
        assert_eq!(discover(Asked::Silent, false), Err(Cause::NoOption));
    }

    /// The kernel lets a side hear the option only if both asked. Whatever else holds at
    /// each of them, they must agree.
    #[test]
    fn both_ends_come_to_the_same() {
        for here in ALL {
            for there in ALL {
                let heard = (here == Asked::Heard) == (there == Asked::Heard);
                let asks = |at| matches!(at, Asked::Heard | Asked::Silent);
                let both = asks(here) && asks(there);
                if !heard || (both && here != Asked::Heard) {
                    continue;
                }
                for assumed in [false, true] {
                    let (here, there) = (discover(here, assumed), discover(there, assumed));
                    assert_eq!(here.is_ok(), there.is_ok());
                    assert_eq!(here.ok(), there.ok());
                }
            }
        }
    }
}
