//! What keeps a connection on TCP.

use std::fmt;
use std::net::IpAddr;

use super::{Subnet, Transport};

/// A rule of a policy that keeps connections on TCP, or from using a transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Rule {
    /// The file that was found is wrong ([`Policy::warning`](super::Policy::warning)).
    Unusable,
    /// Nothing is enabled.
    Disabled,
    /// No transport is.
    NoTransport,
    /// The listener's port is not one of those that may.
    ListenPort(u16),
    /// The server's port is not.
    ConnectPort(u16),
    /// The peer is excluded, by this entry.
    Excluded(Subnet),
    /// No entry permits the peer.
    NotPermitted(IpAddr),
    /// The transport is not one of those that may be used.
    Transport(Transport),
}

impl Rule {
    /// The key of the policy; empty for [`Self::Unusable`].
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

    /// What to do about it.
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

/// The key, and what about it.
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
