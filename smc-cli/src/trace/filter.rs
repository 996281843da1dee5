//! Which events are shown.

use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;

use smc_proto::trace::{Entry, Kind, Subject};

use crate::cli::canonical;

/// A connection, or many, as a user names them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Which {
    /// Either end has this address.
    Address(IpAddr),
    /// Either end has this port.
    Port(u16),
    /// Either end is this one.
    End(SocketAddr),
    /// The connection has this name in its stack.
    Name(String),
}

impl FromStr for Which {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.strip_prefix('[').and_then(|at| at.strip_suffix(']'));
        if let Ok(address) = bare.unwrap_or(text).parse::<IpAddr>() {
            return Ok(Self::Address(address.to_canonical()));
        }
        if let Ok(end) = text.parse() {
            return Ok(Self::End(canonical(end)));
        }
        let port = text.strip_prefix(':').filter(|at| !at.starts_with('+'));
        if let Some(port) = port.and_then(|port| port.parse().ok()) {
            return Ok(Self::Port(port));
        }
        let parts = text.strip_prefix("conn").and_then(|at| at.split_once('.'));
        let is_number = |part: &str| part.bytes().all(|at| at.is_ascii_digit()) && !part.is_empty();
        if parts.is_some_and(|(index, generation)| is_number(index) && is_number(generation)) {
            return Ok(Self::Name(text.to_owned()));
        }
        Err("neither an address, nor :PORT, ADDRESS:PORT or a name such as conn0.1".to_owned())
    }
}

impl Which {
    fn fits(&self, subject: Subject, ends: Option<(SocketAddr, SocketAddr)>) -> bool {
        if let Self::Name(name) = self {
            return subject.to_string() == *name;
        }
        let Some((local, peer)) = ends else {
            return false;
        };
        [local, peer].map(canonical).iter().any(|end| match self {
            Self::Address(address) => end.ip() == *address,
            Self::Port(port) => end.port() == *port,
            Self::End(wanted) => end == wanted,
            Self::Name(_) => false,
        })
    }
}

/// A group of kinds, or one kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kinds {
    /// All kinds of a group.
    Group(&'static str),
    /// One kind.
    One(Kind),
}

impl FromStr for Kinds {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut groups = Kind::ALL.iter().map(|kind| kind.group());
        if let Some(group) = groups.find(|group| *group == text) {
            return Ok(Self::Group(group));
        }
        let mut kinds = Kind::ALL.iter().copied();
        let one = kinds.find(|kind| kind.full_name() == text);
        one.map(Self::One)
            .ok_or_else(|| "no group and no kind of events; --list-kinds shows all".to_owned())
    }
}

/// What is shown: everything of which nothing is said.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    /// Connections, or all.
    pub connections: Vec<Which>,
    /// Kinds, or all.
    pub kinds: Vec<Kinds>,
}

impl Filter {
    /// Whether the kind of an event is shown.
    #[must_use]
    pub fn has_kind(&self, kind: Kind) -> bool {
        let fits = |kinds: &Kinds| match kinds {
            Kinds::Group(group) => kind.group() == *group,
            Kinds::One(one) => kind == *one,
        };
        self.kinds.is_empty() || self.kinds.iter().any(fits)
    }

    /// Whether an event is shown of an object with these ends, as far as it is a connection.
    #[must_use]
    pub fn shows(&self, entry: &Entry, ends: Option<(SocketAddr, SocketAddr)>) -> bool {
        let of = |which: &Which| {
            matches!(entry.subject, Subject::Conn(_)) && which.fits(entry.subject, ends)
        };
        let fits = self.connections.is_empty() || self.connections.iter().any(of);
        fits && self.has_kind(entry.event.kind())
    }
}
