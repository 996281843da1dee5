//! Which connections may use SMC, and what it may use: policy as data.
//!
//! A [`Policy`] decides nothing but what it is asked, and asks no one: given the two ends
//! of a connection it permits SMC, or names the [`Rule`] that keeps the connection on TCP.
//! [`Policy::parse`] reads one from TOML, [`Policy::find`] from where files of this kind
//! lie. Every key is described in `docs/policy.md`.

mod error;
mod file;
mod place;
mod reading;
mod rule;
mod size;
mod subnet;
mod value;

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use smc_proto::wire::types::Eid;
use smc_transport_verbs::pnet::PnetTable;

pub use error::PolicyError;
pub use place::{ENVIRONMENT, places};
pub use rule::Rule;
pub use subnet::{PortRange, Subnet};

/// Which connections may use SMC, and what it may use.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// Whether any connection may; all by default.
    pub enabled: bool,
    /// Ports of listeners whose connections may; all by default.
    pub listen_ports: Vec<PortRange>,
    /// Ports of servers that this side connects to; all by default.
    pub connect_ports: Vec<PortRange>,
    /// Peers that may be spoken SMC with; all by default.
    pub permit: Vec<Subnet>,
    /// Peers that may not, whatever [`Self::permit`] says; none by default.
    pub exclude: Vec<Subnet>,
    /// Most octets of memory for the buffers of connections; no limit by default but that
    /// of their number.
    pub max_memory: Option<u64>,
    /// How long a client waits for the process that accepted its connection on this host, where
    /// the kernel does not show whether that will answer; what the program has set by default.
    pub pairing_grace: Option<Duration>,
    /// User EIDs, by preference, at most [`MAX_UEIDS`].
    pub ueids: Vec<Eid>,
    /// System EID.
    pub system_eid: Option<Eid>,
    /// What may carry connections, by preference.
    pub transports: Vec<Transport>,
    /// When to use SMC's TCP option.
    pub tcp_option: UseOption,
    /// Peers that are known to speak SMC although no TCP option says so: other ends of
    /// this project, with the same policy.
    pub assume_smc: Vec<Assumption>,
    /// Interfaces and RNICs of each physical network.
    pub pnet: PnetTable,
    /// How long servers that misunderstood a Proposal are not asked.
    pub shun: Shun,
    /// What is wrong with the file it was to be read from.
    unusable: Option<String>,
}

/// Longest [`Policy::pairing_grace`].
pub const MAX_PAIRING_GRACE: Duration = Duration::from_secs(10);

/// Most user EIDs of a policy: the engine has room for four, and processes of one host
/// know each other by one.
pub const MAX_UEIDS: usize = smc_proto::config::MAX_UEIDS - 1;

/// User EID that every process with this crate has besides those of its policy: by it processes of one
/// host share memory.
pub const OWN_EID: &str = "SMC-SOCKETS.SHARED-MEMORY";

/// What may carry a connection, besides TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Transport {
    /// Shared memory, with processes of this host.
    Ism,
    /// RDMA.
    Verbs,
}

/// When to use SMC's TCP option.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum UseOption {
    /// If there is something to offer to a peer that has it, and the rights to set it.
    #[default]
    Auto,
    /// Whenever there are the rights: a peer that has it learns by a Decline why there is
    /// nothing, as kernels do.
    Always,
    /// Never.
    Never,
}

/// Ends of servers that are known to speak SMC, and whose clients are.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Assumption {
    /// The other end's address.
    pub peers: Vec<Subnet>,
    /// The server's port.
    pub ports: Vec<PortRange>,
}

impl Assumption {
    /// Peers with these addresses speak SMC where the server has one of these ports.
    #[must_use]
    pub const fn new(peers: Vec<Subnet>, ports: Vec<PortRange>) -> Self {
        Self { peers, ports }
    }
}

/// Servers that misunderstood a Proposal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Shun {
    /// Most that are remembered.
    pub servers: usize,
    /// How long.
    pub time: Duration,
}

impl Default for Shun {
    fn default() -> Self {
        Self {
            servers: 1024,
            time: Duration::from_secs(600),
        }
    }
}

/// Everything is permitted, nothing assumed.
impl Default for Policy {
    fn default() -> Self {
        let all = vec![PortRange::ALL];
        Self {
            enabled: true,
            listen_ports: all.clone(),
            connect_ports: all,
            permit: vec![
                Subnet::all(Ipv4Addr::UNSPECIFIED.into()),
                Subnet::all(Ipv6Addr::UNSPECIFIED.into()),
            ],
            exclude: Vec::new(),
            max_memory: None,
            pairing_grace: None,
            ueids: Vec::new(),
            system_eid: None,
            transports: vec![Transport::Ism, Transport::Verbs],
            tcp_option: UseOption::default(),
            assume_smc: Vec::new(),
            pnet: PnetTable::default(),
            shun: Shun::default(),
            unusable: None,
        }
    }
}

impl Policy {
    /// The policy in place of a file that is wrong: every connection is TCP.
    fn unusable(error: &PolicyError) -> Self {
        Self {
            unusable: Some(error.to_string()),
            tcp_option: UseOption::Never,
            ..Self::default()
        }
    }

    /// What is wrong with the file that [`Self::find`] found: the file, the line and the key.
    /// Every connection is TCP then, by [`Rule::Unusable`].
    #[must_use]
    pub fn warning(&self) -> Option<&str> {
        self.unusable.as_deref()
    }

    /// Whether a connection to a server may use SMC.
    ///
    /// # Errors
    /// The rule that keeps it on TCP.
    pub fn connecting(&self, server: SocketAddr) -> Result<(), Rule> {
        self.alive()?;
        let port = server.port();
        if !holds(&self.connect_ports, port) {
            return Err(Rule::ConnectPort(port));
        }
        self.peer(server.ip())
    }

    /// Whether connections that a listener at this port accepts may use SMC.
    ///
    /// # Errors
    /// The rule that keeps them on TCP.
    pub fn listening(&self, port: u16) -> Result<(), Rule> {
        self.alive()?;
        match holds(&self.listen_ports, port) {
            true => Ok(()),
            false => Err(Rule::ListenPort(port)),
        }
    }

    /// Whether an accepted connection may use SMC.
    ///
    /// # Errors
    /// The rule that keeps it on TCP.
    pub fn accepting(&self, port: u16, client: IpAddr) -> Result<(), Rule> {
        self.listening(port)?;
        self.peer(client)
    }

    /// Whether the other end of a connection is known to speak SMC; the port is the
    /// server's.
    #[must_use]
    pub fn assumes(&self, peer: IpAddr, port: u16) -> bool {
        self.assume_smc
            .iter()
            .any(|known| known.peers.iter().any(|of| of.holds(peer)) && holds(&known.ports, port))
    }

    /// Whether a transport may be used.
    ///
    /// # Errors
    /// The rule that keeps it from being used.
    pub fn transport(&self, transport: Transport) -> Result<(), Rule> {
        self.alive()?;
        match self.transports.contains(&transport) {
            true => Ok(()),
            false => Err(Rule::Transport(transport)),
        }
    }

    /// Connections whose buffers, of so many octets each, find room in the memory that is
    /// permitted.
    #[must_use]
    pub fn connections(&self, each: u64) -> usize {
        self.max_memory.map_or(usize::MAX, |most| {
            usize::try_from(most / each.max(1)).unwrap_or(usize::MAX)
        })
    }

    fn alive(&self) -> Result<(), Rule> {
        if self.unusable.is_some() {
            return Err(Rule::Unusable);
        }
        match (self.enabled, self.transports.is_empty()) {
            (false, _) => Err(Rule::Disabled),
            (true, true) => Err(Rule::NoTransport),
            (true, false) => Ok(()),
        }
    }

    fn peer(&self, peer: IpAddr) -> Result<(), Rule> {
        if let Some(of) = self.exclude.iter().find(|of| of.holds(peer)) {
            return Err(Rule::Excluded(*of));
        }
        match self.permit.iter().any(|of| of.holds(peer)) {
            true => Ok(()),
            false => Err(Rule::NotPermitted(peer.to_canonical())),
        }
    }
}

fn holds(ranges: &[PortRange], port: u16) -> bool {
    ranges.iter().any(|range| range.holds(port))
}

impl std::fmt::Display for Transport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Ism => "ism",
            Self::Verbs => "verbs",
        })
    }
}

#[cfg(test)]
mod tests;
