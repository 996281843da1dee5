//! The rules of a policy that keep a connection on TCP.

use std::fmt;
use std::net::IpAddr;

use super::{Subnet, Transport};

/// A rule of a policy that keeps connections on TCP, or from using a transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Rule {
    /// The policy file has a mistake, so that nothing is permitted
    /// ([`Policy::warning`](super::Policy::warning)).
    Unusable,
    /// `enabled` is false.
    Disabled,
    /// `transports` is empty.
    NoTransport,
    /// `listen-ports` does not have the listener's port.
    ListenPort(u16),
    /// `connect-ports` does not have the server's port.
    ConnectPort(u16),
    /// `exclude` has the peer, by this entry.
    Excluded(Subnet),
    /// `permit` does not have the peer.
    NotPermitted(IpAddr),
    /// `transports` does not have this transport.
    Transport(Transport),
}

impl Rule {
    /// The key of the policy that has the rule; empty for [`Self::Unusable`].
    #[must_use]
    pub const fn key(&self) -> &'static str {
        match self {
            Self::Unusable => "",
            Self::Disabled => "enabled",
            Self::NoTransport | Self::Transport(_) => "transports",
            Self::ListenPort(_) => "listen-ports",
            Self::ConnectPort(_) => "connect-ports",
            Self::Excluded(_) => "exclude",
            Self::NotPermitted(_) => "permit",
        }
    }

    /// What an operator can do about it.
    pub(crate) fn remedy(&self) -> String {
        match self {
            Self::Unusable => "Correct the policy file: `smcx why` names the line and the key \
                               (docs/policy.md)."
                .to_owned(),
            _ => format!(
                "If that is not what you want, change `{}` in the policy (docs/policy.md).",
                self.key()
            ),
        }
    }
}

/// The key and the part of its value that keeps the connection on TCP.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unusable => f.write_str("its file has a mistake"),
            Self::Disabled => f.write_str("enabled = false"),
            Self::NoTransport => f.write_str("transports is empty"),
            Self::Transport(of) => write!(f, "transports does not have \"{of}\""),
            Self::ListenPort(port) => write!(f, "listen-ports does not have {port}"),
            Self::ConnectPort(port) => write!(f, "connect-ports does not have {port}"),
            Self::Excluded(of) => write!(f, "exclude has \"{of}\""),
            Self::NotPermitted(peer) => write!(f, "permit does not have {peer}"),
        }
    }
}
