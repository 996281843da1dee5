//! The two sides of a link group, and values that each side has.

use core::fmt;

/// A side of a link group. A peer has the same role in all connections of a group (RFC 7609, 2.2.3);
/// connections with reversed roles use another group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Side {
    /// The side that opens the TCP connections.
    Client,
    /// The side that accepts them.
    Server,
}

impl Side {
    /// Both sides, the client first.
    pub(crate) const BOTH: [Self; 2] = [Self::Client, Self::Server];

    /// The peer of this side.
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Client => Self::Server,
            Self::Server => Self::Client,
        }
    }
}

/// Name of the side within a sentence: `the client`.
impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "the client",
            Self::Server => "the server",
        })
    }
}

/// One value for each side.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pair<T> {
    client: T,
    server: T,
}

impl<T> Pair<T> {
    /// The value of a side.
    pub(crate) const fn of(&self, side: Side) -> &T {
        match side {
            Side::Client => &self.client,
            Side::Server => &self.server,
        }
    }

    /// The value of a side, to be changed.
    pub(crate) const fn of_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Client => &mut self.client,
            Side::Server => &mut self.server,
        }
    }
}
