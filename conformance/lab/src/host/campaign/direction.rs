//! Which end is the client, and which the server.

use std::fmt;
use std::str::FromStr;

/// Whose SMC an end has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Linux's.
    Kernel,
    /// Ours.
    Ours,
}

/// Whose SMC the client and the server have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Direction {
    /// The client's.
    pub client: End,
    /// The server's.
    pub server: End,
}

impl Direction {
    /// The control, and what can go wrong in either role.
    pub const ALL: [Self; 4] = [
        Self {
            client: End::Kernel,
            server: End::Kernel,
        },
        Self {
            client: End::Ours,
            server: End::Ours,
        },
        Self {
            client: End::Ours,
            server: End::Kernel,
        },
        Self {
            client: End::Kernel,
            server: End::Ours,
        },
    ];

    pub(super) fn has_ours(self) -> bool {
        self.client == End::Ours || self.server == End::Ours
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |end| match end {
            End::Kernel => "kernel",
            End::Ours => "ours",
        };
        write!(f, "{}-{}", name(self.client), name(self.server))
    }
}

impl FromStr for Direction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL
            .into_iter()
            .find(|direction| direction.to_string() == text);
        found.ok_or_else(|| "one of kernel-kernel, ours-ours, ours-kernel, kernel-ours".to_owned())
    }
}
