//! A script as read.

use core::time::Duration;
use std::path::PathBuf;
use std::sync::Arc;

/// A script.
#[derive(Clone, Debug)]
pub struct ParsedScript {
    /// Chapter and name: `clc/decline_crossing`.
    pub name: String,
    /// The file.
    pub path: PathBuf,
    /// The sentence it begins with.
    pub sentence: String,
    /// IDs it cites.
    pub cites: Vec<String>,
    /// How the engine is set up.
    pub setup: Setup,
    /// What happens.
    pub steps: Vec<Step>,
}

/// Technology and version that messages have unless they name another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Form {
    /// SMC-R of RFC 7609.
    #[default]
    R1,
    /// SMC-R of version 2.
    R2,
    /// SMC-D of version 1.
    D1,
    /// SMC-D of version 2.
    D2,
}

impl Form {
    /// Whether it is SMC-D.
    #[must_use]
    pub const fn is_ism(self) -> bool {
        matches!(self, Self::D1 | Self::D2)
    }

    /// Whether it is version 2.
    #[must_use]
    pub const fn is_v2(self) -> bool {
        matches!(self, Self::R2 | Self::D2)
    }
}

/// Configuration of a host before anything happens.
#[derive(Clone, Debug, Default)]
pub struct Setup {
    /// Technology and version.
    pub form: Form,
    /// RNICs of the engine's host.
    pub rnics: u8,
    /// Settings of the engine, its tables and its ports, in order.
    pub settings: Vec<Setting>,
}

/// `name=value`.
#[derive(Clone, Debug, PartialEq)]
pub struct Setting {
    /// Name.
    pub name: String,
    /// Value.
    pub value: Value,
    /// Where it is.
    pub at: Place,
}

/// A place in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The file.
    pub file: Arc<str>,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

/// A value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number, an address or a cursor, and its bytes as they were written.
    Number(u128, Vec<u8>),
    /// A text.
    Text(String),
    /// A variable and what is added to it.
    Variable(String, i64),
    /// Whatever it is.
    Any,
    /// A name.
    Word(String),
}

/// One line.
#[derive(Clone, Debug)]
pub struct Step {
    /// Where it is.
    pub at: Place,
    /// The line.
    pub text: String,
    /// When.
    pub when: Option<When>,
    /// What.
    pub act: Act,
}

/// A time, counted from the end of the line before; of what is expected a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct When {
    /// Not before.
    pub from: Duration,
    /// Not after.
    pub to: Duration,
}

/// A connection and a link, both numbered from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Where {
    /// The connection.
    pub conn: u8,
    /// The link: in the n-th group, from 0, 10 n and its number there.
    pub link: u8,
}

/// What a line asks for.
#[derive(Clone, Debug)]
pub enum Act {
    /// The peer sends.
    Peer(Where, Transmission),
    /// The engine is to send.
    Engine(Where, Transmission),
    /// The application does.
    App(Where, AppAct),
    /// The application is to see.
    Seen(Where, AppSees),
    /// The engine's RNICs do.
    Rnic(RnicAct),
    /// Time passes.
    Wait(Duration),
    /// Time passes in which the engine sends nothing and nothing happens.
    Nothing(Duration),
    /// Such messages of the engine are ignored from here on.
    Ignore(Pattern),
    /// Lines that happen several times; a variable counts from 0.
    Repeat(u64, Vec<Step>),
}

/// What one side sends.
#[derive(Clone, Debug, PartialEq)]
pub enum Transmission {
    /// A message by its fields.
    Message(Message),
    /// Bytes as they are, over TCP or the link.
    Raw {
        /// Over TCP.
        tcp: bool,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// TCP FIN.
    Fin,
    /// TCP RST.
    Reset,
    /// Bytes into the memory of the other side.
    Write {
        /// `at`, and whatever else is named.
        settings: Vec<Setting>,
        /// The bytes.
        data: Data,
    },
    /// The peer's end of the link breaks; or the peer's device vanishes.
    Breaks,
}

/// A message by its fields.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// What it is.
    pub kind: Kind,
    /// Whether it is an answer (LLC).
    pub reply: bool,
    /// Fields that are named.
    pub fields: Vec<Setting>,
    /// The others do not matter.
    pub open: bool,
}

/// Kinds of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// CLC, by its type byte.
    Clc(Form, u8),
    /// LLC, by its type byte.
    Llc(u8),
    /// CDC of SMC-R, or of SMC-D.
    Cdc(bool),
}

/// Which messages: a kind, and perhaps whether they are answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pattern {
    /// The kind.
    pub kind: Kind,
    /// Whether they are answers.
    pub reply: bool,
}

/// Bytes of an application.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Data {
    /// The bytes themselves.
    Text(Vec<u8>),
    /// Number of bytes of the stream's pattern.
    Count(u32),
}

/// What an application does.
#[derive(Clone, Debug, PartialEq)]
pub enum AppAct {
    /// Opens a connection.
    Connect(Vec<Setting>),
    /// Accepts one.
    Listen(Vec<Setting>),
    /// Answers a Proposal with its ports.
    Accept,
    /// Answers a Proposal with a Decline.
    Decline(u32),
    /// Writes.
    Write(Data),
    /// Writes bytes of which the last one is urgent.
    Urgent(Data),
    /// Ends its sending.
    Shutdown,
    /// Ends its reading.
    ShutdownRead,
    /// Closes.
    Close,
    /// Aborts.
    Abort,
    /// Ends the link group.
    DeleteGroup,
    /// Ends a link.
    DeleteLink(u8),
}

/// What an application sees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AppSees {
    /// A Proposal it has to answer.
    Proposed,
    /// SMC carries the connection.
    Established,
    /// TCP carries it, for this reason, and the peer's.
    FellBack(u32, Option<u32>),
    /// The end, by the name of the engine's reason.
    Closed(String),
    /// Bytes.
    Read(Data),
    /// Number of bytes that can be read, and stay.
    Readable(u32),
    /// Number of bytes that can be written.
    Room(u32),
    /// The end of the stream.
    End,
    /// The urgent byte, behind so many others.
    Urgent(u32, u8),
    /// Bytes of plain TCP.
    Tcp(Vec<u8>),
    /// A link comes up.
    LinkUp(u8),
    /// A link is gone.
    LinkDown(u8),
    /// The group is gone.
    GroupDown,
}

/// What happens to the RNICs of the engine's host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RnicAct {
    /// A port comes up.
    Up(u8),
    /// A port goes down.
    Down(u8),
    /// An RNIC is gone.
    Removed(u8),
    /// The n-th command of a kind from now on is refused.
    Refuse(String, u32),
    /// Answers to commands of a kind are kept back.
    Hold(String),
    /// What was kept back is answered.
    Release,
    /// What was kept back is refused.
    RefuseHeld,
    /// A link breaks.
    Breaks(u8, String),
    /// The eye catcher of a connection's element is damaged.
    EyeCatcher(u8),
}
