//! Whether the other end of a connection speaks SMC, before either sends a CLC message.
//!
//! Between processes of one host, pairing decides. All others learn it by the TCP option, which
//! both sides see in SYN and SYN-ACK, or by the policies of both. Both ends must reach the same
//! result: a peer that does not speak CLC must not receive any, and one that expects it waits.

use std::net::IpAddr;

use smc_transport_ism::shared::pairing;

use crate::carrier::{Cause, Limit, OptionMissing};

/// How the peer of a connection is known to speak SMC.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Discovery {
    /// By the TCP option, which both sent.
    Option,
    /// By the policy.
    Assumed,
}

/// Outcome of the TCP option on a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OptionExchange {
    /// The option was sent, and the peer sent it, too.
    Answered,
    /// The option was sent, and the peer did not send it.
    Silent,
    /// The option was not sent, for this reason.
    NotSent(OptionNotSent),
}

/// Why this side did not send the TCP option.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum OptionNotSent {
    /// The policy refuses SMC.
    Refused,
    /// The endpoint has no room for another connection.
    Full,
    /// There is no RNIC to offer.
    NoDevice,
    /// The option cannot be set.
    Missing(OptionMissing),
    /// The listener listened already.
    TooLate,
    /// The server has misread a Proposal lately.
    Shunned,
}

/// How the peer of a connection that has not paired is known to speak SMC.
///
/// # Errors
/// Why the connection is TCP.
pub(crate) fn discover(option: OptionExchange, assumed: bool) -> Result<Discovery, Cause> {
    match option {
        // A peer that sent the option speaks CLC, and expects it.
        OptionExchange::Answered => Ok(Discovery::Option),
        // The other end, which has the same policy, may lack the rights for the option.
        _ if assumed => Ok(Discovery::Assumed),
        OptionExchange::Silent => Err(Cause::NoOption),
        // The caller has a more specific cause.
        OptionExchange::NotSent(OptionNotSent::Refused | OptionNotSent::Full) => {
            Err(Cause::NotOffered)
        }
        OptionExchange::NotSent(OptionNotSent::NoDevice) => Err(Cause::NoDevice),
        OptionExchange::NotSent(OptionNotSent::Missing(what)) => Err(Cause::CannotAsk(what)),
        OptionExchange::NotSent(OptionNotSent::TooLate) => Err(Cause::AskedTooLate),
        OptionExchange::NotSent(OptionNotSent::Shunned) => Err(Cause::Shunned),
    }
}

/// Whether the peer of a connection is certainly on this host, by the addresses of both ends.
pub(crate) fn is_near(local: IpAddr, peer: IpAddr) -> bool {
    let (local, peer) = (local.to_canonical(), peer.to_canonical());
    peer.is_loopback() || local == peer
}

/// The cause to report of a connection whose peer is not known to speak SMC: first what this side
/// refused or had no room for, then the outcome of pairing within the host, and last why the TCP
/// option was not sent.
pub(crate) fn most_specific_cause(
    cause: Cause,
    full: Option<Limit>,
    called: bool,
    near: bool,
) -> Cause {
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

/// Replaces the cause by the user of this process, if it is because of this user that no process of
/// this host pairs.
pub(crate) fn blame_own_user(cause: Cause, would_pair: bool) -> Cause {
    match (cause, pairing::own_user()) {
        (Cause::NotOffered, Err(uid)) if would_pair => Cause::UnknownUser(uid),
        _ => cause,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL: [OptionExchange; 8] = [
        OptionExchange::Answered,
        OptionExchange::Silent,
        OptionExchange::NotSent(OptionNotSent::Refused),
        OptionExchange::NotSent(OptionNotSent::Full),
        OptionExchange::NotSent(OptionNotSent::NoDevice),
        OptionExchange::NotSent(OptionNotSent::Missing(OptionMissing::NoCgroup)),
        OptionExchange::NotSent(OptionNotSent::TooLate),
        OptionExchange::NotSent(OptionNotSent::Shunned),
    ];

    #[test]
    fn an_option_of_the_peer_or_a_policy_is_needed() {
        assert_eq!(
            discover(OptionExchange::Answered, false),
            Ok(Discovery::Option)
        );
        for option in &ALL[1..] {
            assert!(discover(*option, false).is_err());
            assert_eq!(discover(*option, true), Ok(Discovery::Assumed));
        }
        assert_eq!(
            discover(OptionExchange::Silent, false),
            Err(Cause::NoOption)
        );
    }

    /// The kernel shows a side the option only if both asked. Whatever else holds at
    /// each of them, they must agree.
    #[test]
    fn both_ends_reach_the_same_result() {
        for here in ALL {
            for there in ALL {
                let answered =
                    (here == OptionExchange::Answered) == (there == OptionExchange::Answered);
                let asks = |at| matches!(at, OptionExchange::Answered | OptionExchange::Silent);
                let both = asks(here) && asks(there);
                if !answered || (both && here != OptionExchange::Answered) {
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
    fn the_most_specific_cause_is_reported() {
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
            assert_eq!(
                most_specific_cause(cause, full, called, near),
                expected,
                "{cause:?}"
            );
        }
        let near = |local: &str, peer: &str| is_near(local.parse().unwrap(), peer.parse().unwrap());
        assert!(near("10.0.0.1", "::ffff:10.0.0.1") && near("10.0.0.1", "127.0.0.1"));
        assert!(!near("10.0.0.1", "10.0.0.2"));
    }
}
