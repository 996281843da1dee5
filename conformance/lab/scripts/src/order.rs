//! The order for this program, and what one end of it sends to the other one.

use std::io;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::AsFd;

use smc_sockets::tcp_option::{Marks, TcpOption};

/// Whose sockets are under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    Kernel,
    Ours,
}

/// What to do.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// This end has the sockets under test, and not the peer.
    pub(crate) serves: bool,
    pub(crate) whose: Whose,
    pub(crate) v2: bool,
    /// Where the calls of applications are served.
    pub(crate) at: SocketAddrV4,
    /// Beginnings of names of scripts; all without one.
    pub(crate) names: Vec<String>,
    /// Scripts that are not played, `!` before their names.
    pub(crate) without: Vec<String>,
}

impl Order {
    pub(crate) fn parse(arguments: &[String]) -> Option<Self> {
        let [task, whose, version, address, port, names @ ..] = arguments else {
            return None;
        };
        let one_of = |word: &str, yes: &str, no: &str| match word {
            word if word == yes => Some(true),
            word if word == no => Some(false),
            _ => None,
        };
        let address: Ipv4Addr = address.parse().ok()?;
        Some(Self {
            serves: one_of(task, "serve", "play")?,
            whose: match one_of(whose, "kernel", "ours")? {
                true => Whose::Kernel,
                false => Whose::Ours,
            },
            v2: one_of(version, "v2", "v1")?,
            at: SocketAddrV4::new(address, port.parse().ok()?),
            names: names
                .iter()
                .filter(|name| !name.starts_with('!'))
                .cloned()
                .collect(),
            without: names
                .iter()
                .filter_map(|name| name.strip_prefix('!'))
                .map(str::to_owned)
                .collect(),
        })
    }
}

/// SMC's TCP option, attached for good, and a map of it for each caller.
pub(crate) struct SmcOption(TcpOption);

impl SmcOption {
    pub(crate) fn attach() -> io::Result<Self> {
        TcpOption::attach().map(Self).map_err(io_error)
    }

    pub(crate) fn marks(&self) -> io::Result<Marks> {
        Marks::try_from(self.0.marks().as_fd().try_clone_to_owned()?)
    }
}

pub(crate) fn io_error(error: impl ToString) -> io::Error {
    io::Error::other(error.to_string())
}
