//! Replays a captured conversation of two kernels with one of them replaced by
//! the engine.
//!
//! ```text
//!   capture:   Linux client ───────── Linux server
//!                    │                      │ compared
//!   replay:    its bytes ───────────► our endpoint       (and the other way round)
//! ```
//!
//! * What the other end sent is fed in, byte for byte; only what refers to an
//!   object of the replaced end is rewritten, by a map learnt from our output.
//! * What the replaced end sent is what our output is compared with. CLC and LLC
//!   messages must be equal but for their identities. Data, cursors and flags
//!   must have reached the same places at every CDC message that moves data or
//!   sets a flag; how many messages announce consumed bytes is each end's choice.
//! * The application behind our endpoint does what the captured one did: it
//!   writes, reads, shuts down and closes when the captured CDC messages show so.
//!
//! Our end has the ports of the replaced one, and each message must take the link
//! that it took in the capture. A Linux server puts connections on the two links of
//! a group in turn, by how many there are; ours takes the link with the fewest. In
//! the capture with two links these are the same choices.
//!
//! The clock is the capture's. Where our end acts differently for a reason, the
//! replay notes a [`Deviation`]; everything else that differs is a [`Failure`].

mod connection;
mod data;
mod finish;
mod host;
mod identity;
mod llc;
mod message;
mod rendezvous;
mod script;
mod session;

use core::fmt;
use std::collections::BTreeMap;
use std::path::Path;

use smc_proto::config::Config;
use smc_proto::event::CloseReason;
use smc_proto::stats::Statistics;

pub use script::End;

/// A replay: which end is ours, and what it is like.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The end that our endpoint replaces.
    pub ours: End,
    /// How many ports it has.
    pub ports: Ports,
    /// What becomes of its RMBs.
    pub rmbs: Rmbs,
    /// How its application reads.
    pub reader: Reader,
    /// When its SENDs complete.
    pub completions: Completions,
    /// Changes the settings of our endpoint.
    pub configure: fn(&mut Config),
}

impl Setup {
    /// The defaults of the engine in the place of this end.
    #[must_use]
    pub const fn new(ours: End) -> Self {
        Self {
            ours,
            ports: Ports::AsCaptured,
            rmbs: Rmbs::Kept,
            reader: Reader::AsCaptured,
            completions: Completions::AtOnce,
            configure: |_| {},
        }
    }
}

/// The ports of our end, each on an RNIC of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ports {
    /// All that the captured end had.
    AsCaptured,
    /// Only the one that its Proposal or first Accept named.
    One,
}

/// When our application reads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// When a captured CDC message announces that the captured one had read.
    AsCaptured,
    /// At once, always before that.
    Prompt,
}

/// When the SENDs of our end complete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Completions {
    /// When they are posted.
    AtOnce,
    /// After the other end's next message, so that an answer is there before the
    /// completion of its request; at the latest when our end acts again.
    Late,
}

/// What becomes of an RMB when its connection ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rmbs {
    /// The default: an RMB stays announced when its connection ends, and the
    /// next connection has it.
    Kept,
    /// The way of Linux: an RMB is withdrawn with DELETE RKEY when its connection
    /// ends, and announced with CONFIRM RKEY for the next.
    Withdrawn,
}

/// Why our end does not do what the captured one did.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Deviation {
    /// The RMB stays announced: no DELETE RKEY and no CONFIRM RKEY, and no
    /// answers to them ([`Rmbs::Kept`]).
    RmbKept,
    /// DELETE LINK of all links: ours is orderly and names the program as the
    /// reason, Linux's module removal is neither.
    GroupDeletion,
    /// A Linux client that is notified of the end of its group sends the same; RFC
    /// 7609 3.5.5.3 has no answer.
    DeletionNotEchoed,
    /// Linux ends a group with an abort, also on connections whose close is out
    /// already; for us that was the last message (RFC 7609 4.8.2).
    AbortAfterClose,
    /// Our end answers an abort with its own (RFC 7609 4.8.2); the captured one
    /// had lost its link by then.
    AbortAnswered,
    /// The message comes after the end of our link group.
    AfterEnd,
    /// The captured end announces that its writer is blocked when it has more to send
    /// than there is room for, and until it writes again; ours when there is no
    /// room.
    BlockedWithRoom,
}

/// What happened to one connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Replayed {
    /// The first byte the client sent, which names the application.
    pub application: char,
    /// Whether it created the link group.
    pub first_contact: bool,
    /// How it ended.
    pub reason: CloseReason,
    /// Bytes our application sent.
    pub sent: u64,
    /// Bytes our application read.
    pub received: u64,
}

/// How much was fed in and compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// CLC messages fed in.
    pub clc_fed: u32,
    /// CLC messages of ours, equal to the captured ones.
    pub clc_equal: u32,
    /// LLC messages fed in.
    pub llc_fed: u32,
    /// LLC messages of ours, equal to the captured ones.
    pub llc_equal: u32,
    /// CDC messages fed in.
    pub cdc_fed: u32,
    /// CDC messages of the captured end that one of ours matches in cursors and flags.
    pub cdc_equal: u32,
    /// CDC messages of the captured end that only announced consumed bytes, where
    /// ours sent nothing: it had announced them before, or did later.
    pub cdc_without: u32,
    /// CDC messages that our end sent where the captured one sent none.
    pub cdc_more: u32,
    /// RDMA WRITEs carried out in our memory.
    pub writes_fed: u32,
    /// RDMA WRITEs of ours; all of them went where, and held what, the captured ones did.
    pub writes: u32,
    /// FINs of the other end.
    pub fins_fed: u32,
}

/// Report of a replay that ran to its end.
#[derive(Clone, Debug)]
pub struct Report {
    /// The connections, in the order in which they were opened.
    pub connections: Vec<Replayed>,
    /// How much was replayed.
    pub counts: Counts,
    /// Frames at which our end deviates, by reason.
    pub deviations: BTreeMap<Deviation, Vec<u64>>,
    /// Counters of our endpoint.
    pub statistics: Statistics,
    /// Input and output, line by line.
    pub transcript: Vec<String>,
}

/// Our end did what no deviation explains.
#[derive(Clone, Debug)]
pub struct Failure {
    /// What was wrong.
    pub what: String,
    /// Input and output until then, line by line.
    pub transcript: Vec<String>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for line in &self.transcript {
            writeln!(f, "{line}")?;
        }
        f.write_str(&self.what)
    }
}

/// Replays a capture with our endpoint in the place of one end.
///
/// # Errors
/// [`Failure`], with everything that happened before it.
pub fn replay(capture: &Path, setup: Setup) -> Result<Report, Failure> {
    let script = script::Script::read(capture).map_err(|what| Failure {
        what: format!("{}: {what}", capture.display()),
        transcript: Vec::new(),
    })?;
    session::Session::new(&script, setup).run()
}
