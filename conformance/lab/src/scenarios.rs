//! What is tried: data.

mod fallbacks;
mod faults;
mod sweeps;
mod table;
mod usual;

use serde::{Deserialize, Serialize};

use crate::conversation::Step;
use crate::orders::{HandMessage, Role};

pub use usual::{ANSWER, GREETING};

/// All that is tried, in this order. What leaves guests in doubt comes last.
pub fn all() -> impl Iterator<Item = &'static Scenario> {
    let tables = [table::CONVERSATIONS, fallbacks::FALLBACKS, faults::FAULTS];
    tables.into_iter().flatten()
}

/// Reasons of a fallback, as Linux numbers them.
pub mod reason {
    /// No memory for another connection.
    pub const MEMORY: u32 = 0x0101_0000;
    /// The link was not confirmed in time.
    pub const TIMEOUT_CONFIRM_LINK: u32 = 0x0201_0000;
    /// ADD LINK did not come in time.
    pub const TIMEOUT_ADD_LINK: u32 = 0x0202_0000;
    /// The ends are not in one subnet, as version 1 demands.
    pub const OTHER_SUBNET: u32 = 0x0307_0000;
    /// The peer's SYN or SYN-ACK had no SMC option.
    pub const PEER_WITHOUT_SMC: u32 = 0x0301_0000;
    /// No RDMA device for this connection; of Linux also no UEID in common.
    pub const NO_DEVICE: u32 = 0x0303_0000;
    /// No SMC-R device for what the peer offers.
    pub const NO_SMC_R_DEVICE: u32 = 0x0303_0002;
    /// No EID is offered.
    pub const NO_UEID: u32 = 0x0303_0008;
    /// One end speaks SMC-R and the other one SMC-D.
    pub const OTHER_MODE: u32 = 0x0304_0000;
    /// A socket option that SMC cannot carry.
    pub const UNSUPPORTED_OPTION: u32 = 0x0306_0000;
    /// The peer declined.
    pub const PEER_DECLINED: u32 = 0x0500_0000;
}

/// How many connections a scenario has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Connections {
    /// Number of connections, each after the end of the one before.
    InTurn(u32),
    /// Number of connections, all open at the same time.
    AtOnce(u32),
}

impl Connections {
    /// How many.
    #[must_use]
    pub fn count(self) -> u32 {
        match self {
            Self::InTurn(count) | Self::AtOnce(count) => count,
        }
    }
}

/// What differs from two hosts with SMC-R version 2 and a UEID in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Setting {
    /// Nothing.
    Usual,
    /// The client is a TCP socket.
    TcpClient,
    /// The server is a TCP socket.
    TcpServer,
    /// The client has no RDMA device.
    ClientWithoutDevice,
    /// The server has no RDMA device.
    ServerWithoutDevice,
    /// The client has no UEID.
    ClientWithoutUeid,
    /// The server has no UEID.
    ServerWithoutUeid,
    /// The server has another UEID than the client.
    OtherUeids,
    /// Buffers of the client and the server, in bytes.
    Buffers(u32, u32),
    /// The client drops RoCE that arrives.
    RoceBlocked,
    /// Kernels test links that are idle for so many seconds.
    TestLink(u32),
    /// Kernels have room for so many SENDs and receives of a link (`smcr_max_send_wr`,
    /// `smcr_max_recv_wr`).
    WorkRequests(u32, u32),
    /// The addresses are in subnets of different lengths.
    OtherSubnet,
    /// Of this end, which is ours, the policy permits no memory.
    NoMemory(Role),
    /// An end of ours without rights, which may lock the usual 8 MiB.
    Unprivileged(Role),
    /// Both ends have a second RDMA device.
    TwoDevices,
    /// An end, which is ours, sends this in place of a rendezvous.
    ByHand(HandMessage),
}

/// Something that happens to an end while it holds its part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Disturbance {
    /// When so many bytes were captured since the client began: all connections are
    /// there when the first bytes are on the wire.
    pub after: u64,
    /// The end with the fault.
    pub role: Role,
    /// The number of a network interface.
    pub interface: u8,
    /// Whether it goes up, or down.
    pub up: bool,
}

impl Setting {
    /// Whether it is about something that version 2 does not have.
    #[must_use]
    pub fn is_of_version_1(self) -> bool {
        self == Self::OtherSubnet
    }

    /// Whether it is about something that version 1 does not have.
    #[must_use]
    pub fn is_of_version_2(self) -> bool {
        matches!(
            self,
            Self::ClientWithoutUeid
                | Self::ServerWithoutUeid
                | Self::OtherUeids
                | Self::ByHand(HandMessage::NoEid)
        )
    }
}

/// What should carry the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expected {
    /// SMC-R, at both ends.
    SmcR,
    /// SMC-R up to a limit of this end, and beyond it TCP for this reason of its own.
    Limited(Role, u32),
    /// TCP: the reasons and those received from the peer, of the client and the server.
    /// An end whose socket is one of TCP has none.
    Tcp(Option<(u32, u32)>, Option<(u32, u32)>),
}

/// How long a campaign takes that has a scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Campaign {
    /// Minutes.
    Quick,
    /// The part lasts as long as it takes.
    Full,
}

/// Something that is tried.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// A name without blanks.
    pub name: &'static str,
    /// The shortest campaign that has it.
    pub campaign: Campaign,
    /// How many connections.
    pub connections: Connections,
    /// What is special.
    pub setting: Setting,
    /// What the client does.
    pub client: &'static [Step],
    /// What the server does.
    pub server: &'static [Step],
    /// What carries it.
    pub expected: Expected,
    /// What does if the client is ours.
    pub with_our_client: Option<Expected>,
    /// What does if both ends are ours.
    pub between_ours: Option<Expected>,
    /// Seconds that one wait may last.
    pub timeout: u64,
    /// What goes wrong at a server that is Linux's, as kernel against kernel shows: the
    /// fault is not ours then. It is expected, and its absence is a difference.
    pub linux_fails: Option<&'static str>,
    /// The end that has to be ours, if it is about something that only ours does.
    pub needs_ours: Option<Role>,
    /// The guests are new, and have no link group yet; others come behind it.
    pub own_guests: bool,
    /// What happens meanwhile.
    pub disturbances: &'static [Disturbance],
    /// How long after the client began an end dies, and which end: a process of ours or a whole
    /// guest. Then it is there again, and both ends greet each other.
    pub dies: Option<(u64, Role)>,
    /// Link groups that come about, at least and at most; not counted if it is none.
    pub groups: (usize, usize),
    /// Whether the part is a stream, whose senders use the window at once.
    pub windows: bool,
    /// A reason, and one that means the same: which of both is reported depends on version
    /// and role with Linux, and does not with ours.
    pub alike: Option<(u32, u32)>,
}

impl Scenario {
    /// Whether it can be tried with these ends, of which some are ours.
    #[must_use]
    pub fn is_for(&self, our_client: bool, our_server: bool) -> bool {
        match self.needs_ours {
            None => true,
            Some(Role::Client) => our_client,
            Some(Role::Server) => our_server,
        }
    }

    /// Whether packets are lost on purpose.
    #[must_use]
    pub fn is_lossy(&self) -> bool {
        let blocked = self.setting == Setting::RoceBlocked;
        blocked || self.dies.is_some() || !self.disturbances.is_empty()
    }

    /// Whether the ends are held to the rules: no packets are lost on purpose, and no
    /// message by hand breaks them.
    #[must_use]
    pub fn keeps_rules(&self) -> bool {
        !self.is_lossy() && !matches!(self.setting, Setting::ByHand(_))
    }

    /// What carries it between ends of which these are ours.
    #[must_use]
    pub fn expected(&self, our_client: bool, our_server: bool) -> Expected {
        let between_ours = self.between_ours.filter(|_| our_client && our_server);
        let with_our_client = self.with_our_client.filter(|_| our_client);
        between_ours.or(with_our_client).unwrap_or(self.expected)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::all;
    use super::sweeps::SIZES;
    use crate::conversation::Step;

    #[test]
    fn names_are_unique_and_fit_for_file_names() {
        let names: BTreeSet<_> = all().map(|scenario| scenario.name).collect();
        assert_eq!(names.len(), all().count());
        let fit = |name: &str| {
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
        };
        assert!(names.iter().all(|name| fit(name)));
    }

    #[test]
    fn what_one_end_sends_the_other_receives() {
        for scenario in all().filter(|scenario| scenario.server.contains(&Step::Echo)) {
            let own = |step: &Step| !matches!(step, Step::Send(_) | Step::Receive(_));
            assert!(scenario.client.iter().all(own), "{}", scenario.name);
        }
        assert_eq!(
            SIZES
                .iter()
                .filter(|step| matches!(step, Step::Echoed(_)))
                .count(),
            62
        );
    }
}
