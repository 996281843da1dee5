//! Whether the other end of a connection speaks SMC, before either says a word of it.
//!
//! Between processes of one host, pairing decides. For all others there are two ways: the
//! TCP option, which both sides see in SYN and SYN-ACK, and the policy of both, which says
//! so. Whichever it is, both ends come to the same: who does not speak CLC must not get
//! any, and who was promised some waits for it.

use std::net::IpAddr;

use smc_transport_ism::shared::pairing;

use crate::carrier::{Cause, Limit, OptionMissing};

/// How it is known that the peer of a connection speaks SMC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Discovery {
    /// By the TCP option, which both sent.
    Option,
    /// By the policy.
    Assumed,
}

/// Outcome of the TCP option on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Asked {
    /// The option was sent, and the peer sent it, too.
    Answered,
    /// The option was sent, and the peer did not send it.
    Silent,
    /// The option was not sent, for this reason.
    Not(NotAsked),
}

/// Why this side did not ask by the TCP option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NotAsked {
    /// SMC is not used for another reason.
    Refused,
    /// There is no room for another connection.
    Full,
    /// There is nothing to offer.
    NoDevice,
    /// The option cannot be set.
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
        Asked::Answered => Ok(Discovery::Option),
        // The other end, which has the same policy, may lack the rights for the option.
        _ if assumed => Ok(Discovery::Assumed),
        Asked::Silent => Err(Cause::NoOption),
        // The code that decided knows better why.
        Asked::Not(NotAsked::Refused | NotAsked::Full) => Err(Cause::NotOffered),
        Asked::Not(NotAsked::NoDevice) => Err(Cause::NoDevice),
        Asked::Not(NotAsked::Missing(what)) => Err(Cause::CannotAsk(what)),
        Asked::Not(NotAsked::TooLate) => Err(Cause::AskedTooLate),
        Asked::Not(NotAsked::Shunned) => Err(Cause::Shunned),
    }
}

/// Whether an address is surely this host's, of a connection between both.
pub(crate) fn is_near(local: IpAddr, peer: IpAddr) -> bool {
    let (local, peer) = (local.to_canonical(), peer.to_canonical());
    peer.is_loopback() || local == peer
}

/// What a connection whose peer is not known to speak SMC is TCP for: what this side
/// refused or had no room for comes first, then what came of calling each other within the
/// host, and last why no peer could be asked by the TCP option.
pub(crate) fn unmet(cause: Cause, full: Option<Limit>, called: bool, near: bool) -> Cause {
    match (cause, full) {
        (Cause::Policy(_) | Cause::NoOption | Cause::Shunned, _) => cause,
        (_, Some(limit)) if near => Cause::Limit(limit),
        _ if called => Cause::NotPaired,
        // Neither RNICs nor the option are for processes of one host.
        (Cause::NoDevice | Cause::CannotAsk(_) | Cause::AskedTooLate, _) if near => {
            Cause::NotOffered
        }
        _ => cause,
    }
}

/// Names the user of this process instead, if that is why no process of this host was
/// called and none calls.
pub(crate) fn blame_own_user(cause: Cause, would_pair: bool) -> Cause {
    match (cause, pairing::own_user()) {
        (Cause::NotOffered, Err(uid)) if would_pair => Cause::UnknownUser(uid),
        _ => cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [Asked; 8] = [
        Asked::Answered,
        Asked::Silent,
        Asked::Not(NotAsked::Refused),
        Asked::Not(NotAsked::Full),
        Asked::Not(NotAsked::NoDevice),
        Asked::Not(NotAsked::Missing(OptionMissing::NoCgroup)),
        Asked::Not(NotAsked::TooLate),
        Asked::Not(NotAsked::Shunned),
    ];

    #[test]
    fn an_option_that_was_heard_or_a_policy_is_needed() {
        assert_eq!(discover(Asked::Answered, false), Ok(Discovery::Option));
        for asked in &ALL[1..] {
            assert!(discover(*asked, false).is_err());
            assert_eq!(discover(*asked, true), Ok(Discovery::Assumed));
        }
        assert_eq!(discover(Asked::Silent, false), Err(Cause::NoOption));
    }

    /// The kernel shows a side the option only if both asked. Whatever else holds at
    /// each of them, they must agree.
    #[test]
    fn both_ends_come_to_the_same() {
        for here in ALL {
            for there in ALL {
                let answered = (here == Asked::Answered) == (there == Asked::Answered);
                let asks = |at| matches!(at, Asked::Answered | Asked::Silent);
                let both = asks(here) && asks(there);
                if !answered || (both && here != Asked::Answered) {
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

    #[test]
    fn what_is_nearest_to_the_peer_is_told() {
        let full = Some(Limit::Connections(1));
        let missing = Cause::CannotAsk(OptionMissing::NoCgroup);
        for (cause, full, called, near, expected) in [
            (Cause::NoDevice, None, false, true, Cause::NotOffered),
            (Cause::NoDevice, None, false, false, Cause::NoDevice),
            (Cause::NoDevice, full, false, false, Cause::NoDevice),
            (missing, None, false, false, missing),
            (missing, None, true, true, Cause::NotPaired),
            (
                missing,
                full,
                false,
                true,
                Cause::Limit(Limit::Connections(1)),
            ),
            (Cause::NoOption, full, true, true, Cause::NoOption),
            (Cause::Shunned, None, true, false, Cause::Shunned),
            (Cause::NotOffered, None, false, true, Cause::NotOffered),
        ] {
            assert_eq!(unmet(cause, full, called, near), expected, "{cause:?}");
        }
        let near = |local: &str, peer: &str| is_near(local.parse().unwrap(), peer.parse().unwrap());
        assert!(near("10.0.0.1", "::ffff:10.0.0.1") && near("10.0.0.1", "127.0.0.1"));
        assert!(!near("10.0.0.1", "10.0.0.2"));
    }
}
