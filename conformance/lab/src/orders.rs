//! Orders of the laboratory to a guest, and the guest's answers: one JSON value a line
//! over a virtio serial port.

use std::io;
use std::net::Ipv4Addr;
use std::time::Instant;

use serde::{Deserialize, Serialize};

use crate::conversation::{Outcome, Step};
use crate::netlink::smc::SocketView;
use crate::scenarios::Connections;

/// Where our own SMC is in a guest.
pub const PEER: &str = "/bin/smc-lab-peer";
/// Program that plays scripts of the conformance suite, and serves another one that does.
pub const SCRIPTS: &str = "/bin/smc-lab-scripts";
/// Line of the serving end when the playing end may connect.
pub const LISTENING: &str = "listening";
/// Where these scripts are.
pub const SCRIPTS_FOLDER: &str = "/scripts";
/// The command line, beside it.
pub const SMCX: &str = "/bin/smcx";
/// The library of `smcx run`, where the command searches for it.
pub const PRELOAD: &str = "/lib/smcx/libsmc-preload.so";
/// Library that makes stream sockets those of the kernel's AF_SMC.
pub const AF_SMC: &str = "/lib/smc-lab/af-smc.so";
/// Program that sends bytes and ends at once, or receives them.
pub const EXITS: &str = "/bin/smc-lab-exits";
/// Policy of programs under `smcx run`.
pub const POLICY: &str = "/etc/smc-lab.toml";
/// The limit of locked memory by name, as a connection that meets it reports it.
pub const LOCKED_MEMORY: &str = "RLIMIT_MEMLOCK";
/// Prefix of each line of a transcript that `smcx why` printed.
pub const SMCX_WHY: &str = "smcx why: ";
/// The name of the serial port that carries both.
pub const PORT_NAME: &str = "smc-lab";

/// An order to a guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Order {
    /// Change the guest's network or its SMC; answered by [`Answer::Adjusted`].
    Adjust(Adjustment),
    /// Hold conversations; answered by [`Answer::Listening`] by a server, and by
    /// [`Answer::Held`] at the end.
    Hold(Session),
    /// Hold a session by our own SMC, a process that is started for it.
    HoldOurs(Session),
    /// Run a program of the share; answered by [`Answer::Printed`] for each line, and
    /// [`Answer::Ended`].
    Run {
        /// The path in the guest, and the arguments.
        command: Vec<String>,
        /// File of the guest that the program reads as its standard input; empty without one.
        input: Option<String>,
        /// File of the guest that the program's standard output replaces; without one, each line is
        /// answered.
        output: Option<String>,
        /// Milliseconds after which it is killed.
        limit: u64,
    },
    /// Kill our own SMC, if it runs; its conversations are over then.
    KillOurs,
    /// Return what SMC counted; answered by [`Answer::Counted`].
    Count,
    /// Return the records of all SMC sockets; answered by [`Answer::Sockets`].
    Sockets,
    /// Switch the machine off.
    PowerOff,
}

/// A change of a guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Adjustment {
    /// An address, with the length of the subnet's prefix, and the interface up.
    Address(String, Ipv4Addr, u8),
    /// An address in a subnet to which another interface has the route.
    SecondAddress(String, Ipv4Addr, u8),
    /// An address goes, of either kind.
    RemoveAddress(String, Ipv4Addr, u8),
    /// RoCE is dropped when it arrives, or no longer.
    BlockRoce(bool),
    /// An interface up or down.
    Link(String, bool),
    /// A soft-RoCE device of this name on this interface.
    AddRdma(String, String),
    /// An RDMA device goes.
    RemoveRdma(String),
    /// A user-defined EID for SMC version 2.
    AddUeid(String),
    /// None is left.
    FlushUeids,
    /// A file below `/proc/sys`, and its value.
    Sysctl(String, String),
}

/// Which end of the connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// The one that connects.
    Client,
    /// The one that accepts.
    Server,
}

/// Which kind of socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Family {
    /// The kernel's AF_SMC.
    Smc,
    /// TCP alone.
    Tcp,
}

/// A CLC message that an end of ours sends by hand, and sockets never send.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HandMessage {
    /// A client: a Proposal of SMC-R in version 2 without any EID.
    NoEid,
    /// A server: an Accept of SMC-D, which the client did not offer.
    OtherMode,
    /// A server: a Decline for this reason.
    Decline(u32),
}

impl HandMessage {
    /// Returns the end that sends it.
    #[must_use]
    pub fn role(self) -> Role {
        match self {
            Self::NoEid => Role::Client,
            Self::OtherMode | Self::Decline(_) => Role::Server,
        }
    }
}

/// One end's part of a scenario.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Session {
    /// Which end.
    pub role: Role,
    /// What socket.
    pub family: Family,
    /// Address of this end.
    pub local: Ipv4Addr,
    /// SMC-R version 1; else version 2.
    pub v1: bool,
    /// The UEIDs of this end, if it is one of ours; kernels are given theirs before.
    pub ueids: Vec<String>,
    /// The server's address.
    pub address: Ipv4Addr,
    /// The server's port.
    pub port: u16,
    /// How many connections.
    pub connections: Connections,
    /// Without any right but to its devices, and with the usual limit of locked memory,
    /// if it is one of ours.
    pub unprivileged: bool,
    /// Message sent in place of a rendezvous, if it is an end of ours.
    pub by_hand: Option<HandMessage>,
    /// Bytes that the policy permits for buffers, if it is one of ours.
    pub memory: Option<u64>,
    /// Send and receive buffers, in bytes, or as the kernel likes.
    pub buffers: Option<u32>,
    /// What is done on each.
    pub steps: Vec<Step>,
    /// Milliseconds that any one wait may last.
    pub timeout: u64,
}

/// An answer of a guest.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub enum Answer {
    /// The guest is up.
    Ready {
        /// The kernel's release.
        kernel: String,
    },
    /// The adjustment is made, or why not.
    Adjusted(Result<(), String>),
    /// A server accepts connections now.
    Listening,
    /// The conversations are over.
    Held(Vec<Held>),
    /// A program wrote a line.
    Printed(String),
    /// A program ended with this status; none if it was killed.
    Ended(Option<i32>),
    /// What SMC counted.
    Counted(Result<Counts, String>),
    /// The records of all SMC sockets, as `sock_diag` has them behind the header of netlink.
    Sockets(Result<Vec<Vec<u8>>, String>),
}

/// How a conversation went.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Held {
    /// The socket, as the kernel's SMC sees it; none of a TCP socket.
    pub view: Option<SocketView>,
    /// A line for each step.
    pub transcript: Vec<String>,
    /// The first difference from what was expected.
    pub difference: Option<String>,
    /// Bytes sent and received.
    pub moved: (u64, u64),
    /// Microseconds from the first step to the last.
    pub micros: u64,
}

impl Held {
    /// How a conversation went that began then.
    #[must_use]
    pub fn new(view: Option<SocketView>, outcome: Outcome, began: Instant) -> Self {
        Self {
            view,
            transcript: outcome.transcript,
            difference: outcome.difference,
            moved: outcome.moved,
            micros: u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX),
        }
    }

    /// One that did not come about.
    #[must_use]
    pub fn failed(error: &io::Error) -> Self {
        Self {
            view: None,
            transcript: Vec::new(),
            difference: Some(format!("no connection: {error}")),
            moved: (0, 0),
            micros: 0,
        }
    }
}

/// What the kernel's SMC counted since it was loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Handshakes that failed with an error, as client and as server.
    pub handshake_errors: (u64, u64),
    /// Connections that fell back: whether as a server, the reason, how many.
    pub fallbacks: Vec<(bool, u32, u16)>,
    /// Link groups of SMC-R: identity, type, connections.
    pub link_groups: Vec<(u32, u8, u32)>,
}
