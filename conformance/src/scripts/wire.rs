//! What a script needs of the world: the peer's end of the wire, and the host of the
//! engine under test.
//!
//! Nothing here knows the simulator: a peer made of an RNIC and a TCP socket serves as
//! well. [`Direct`](super::Direct) is the one that needs neither.

use core::fmt;
use core::time::Duration;

use super::parsed::{AppAct, AppSees, Kind, RnicAct};

/// Something of the engine that arrived at the peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes over TCP.
    Tcp {
        /// The connection.
        conn: u8,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// TCP FIN.
    Fin {
        /// The connection.
        conn: u8,
    },
    /// TCP RST.
    Reset {
        /// The connection.
        conn: u8,
    },
    /// A SEND; of SMC-D the head of a DMB when it was signalled, numbers in network order.
    Sent {
        /// The queue pair; of SMC-D the connection.
        end: End,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// Bytes in the peer's memory.
    Wrote {
        /// The queue pair; of SMC-D the connection.
        end: End,
        /// Key of the memory; of SMC-D the token of the DMB.
        key: u64,
        /// Where: address, or offset in the DMB.
        address: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// Over what something came or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum End {
    /// The queue pair of the engine with this number.
    Qp(u32),
    /// The connection, of SMC-D.
    Conn(u8),
}

/// Something the application of the engine's host saw.
#[derive(Clone, PartialEq, Eq)]
pub enum Seen {
    /// A Proposal it has to answer.
    Proposed,
    /// SMC carries the connection.
    Established,
    /// TCP carries it: the engine's code, and the peer's.
    FellBack(u32, Option<u32>),
    /// The end, by the name of the engine's reason.
    Closed(String),
    /// A link came up, by the number of the engine's queue pair.
    LinkUp(u32),
    /// A link is gone.
    LinkDown(u32),
    /// The group is gone.
    GroupDown,
}

impl fmt::Debug for Seen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proposed => f.write_str("proposed"),
            Self::Established => f.write_str("established"),
            Self::FellBack(code, None) => write!(f, "fallback {code:#010x}"),
            Self::FellBack(code, Some(peer)) => {
                write!(f, "fallback {code:#010x} peer {peer:#010x}")
            }
            Self::Closed(reason) => write!(f, "closed {reason}"),
            Self::LinkUp(qpn) => write!(f, "link up (queue pair {qpn:#x})"),
            Self::LinkDown(qpn) => write!(f, "link down (queue pair {qpn:#x})"),
            Self::GroupDown => f.write_str("group down"),
        }
    }
}

/// Why something cannot be done.
pub type Failed = String;

/// The peer's end of the wire.
pub trait Wire {
    /// Time since the script began.
    fn now(&self) -> Duration;

    /// How late something may be that is due at once. Zero where time is virtual.
    fn grace(&self) -> Duration;

    /// How much earlier than it is due something may come: what the engine counts from,
    /// it knows before this end does. Zero where time is virtual.
    fn haste(&self) -> Duration {
        Duration::ZERO
    }

    /// Lets time pass, to `until` at most, and returns early if something was received or
    /// seen.
    fn pass(&mut self, until: Duration);

    /// Returns what was received next.
    fn receive(&mut self) -> Option<Received>;

    /// Sends bytes over TCP.
    fn tcp(&mut self, conn: u8, bytes: &[u8]);

    /// Ends the peer's direction of TCP.
    fn fin(&mut self, conn: u8);

    /// Resets TCP.
    fn reset(&mut self, conn: u8);

    /// Connects the peer's queue pair of a link to the engine's, before anything goes over
    /// it. The message has announced where that is: Accept, Confirm or ADD LINK.
    ///
    /// # Errors
    /// There is no such queue pair.
    fn join(&mut self, link: u8, kind: Kind, message: &[u8]) -> Result<(), Failed>;

    /// A message of the peer, in the names that scripts have for GIDs, queue pairs, keys and
    /// so on: gives them the names they have on this wire.
    ///
    /// # Errors
    /// The peer has no more of them.
    fn name_for_wire(&mut self, conn: u8, kind: Kind, message: &mut [u8]) -> Result<(), Failed> {
        let _ = (conn, kind, message);
        Ok(())
    }

    /// A message of the engine, in the names of this wire: gives them those of scripts.
    fn name_for_script(&mut self, kind: Kind, message: &mut [u8]) {
        let _ = (kind, message);
    }

    /// Whether the engine has a choice of its own in messages of this kind, on this wire: only
    /// fields that a script names have to be as it names them.
    fn leaves_open(&self, kind: Kind) -> bool {
        let _ = kind;
        false
    }

    /// What the engine wrote to the peer's memory, on a wire that does not report when it does:
    /// a message has announced bytes at these places.
    fn announced(&mut self, over: End, places: &[Announced]) -> Vec<Received> {
        let _ = (over, places);
        Vec::new()
    }

    /// A SEND; of SMC-D, bytes for the head of the engine's DMB, which is signalled.
    ///
    /// # Errors
    /// There is no such queue pair or DMB any more.
    fn send(&mut self, over: Target, bytes: &[u8]) -> Result<(), Failed>;

    /// Bytes into the engine's memory.
    ///
    /// # Errors
    /// The engine's RNIC refuses them.
    fn write(&mut self, over: Target, key: u64, address: u64, bytes: &[u8]) -> Result<(), Failed>;

    /// The peer's queue pair breaks: nothing is acknowledged any more. Of SMC-D, the
    /// peer's device vanishes.
    ///
    /// # Errors
    /// There is no such queue pair.
    fn breaks(&mut self, over: Target) -> Result<(), Failed>;
}

/// Bytes that a cursor announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Announced {
    /// Key of the memory, as scripts name it.
    pub key: u64,
    /// Address of the first one, as scripts name it.
    pub address: u64,
    /// How many.
    pub length: u32,
}

/// Where something goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To the queue pair of the engine with this number.
    Qp(u32),
    /// To the engine's DMB with this token.
    Dmb(u64),
}

/// The host of the engine under test.
pub trait Host {
    /// An application acts.
    ///
    /// # Errors
    /// The engine refuses, or this host cannot do it.
    fn app(&mut self, conn: u8, act: &AppAct, qpn: Option<u32>) -> Result<(), Failed>;

    /// What an application saw next.
    fn seen(&mut self) -> Option<(u8, Seen)>;

    /// Whether applications of this host can see such a thing at all. Lines about others
    /// are left out, and counted.
    fn shows(&self, what: &AppSees) -> bool {
        let _ = what;
        true
    }

    /// Whether a connection has ended as applications see it that ended for this reason, on a
    /// host without an event that reports it.
    fn has_ended(&mut self, conn: u8, reason: &str) -> Option<bool> {
        let _ = (conn, reason);
        None
    }

    /// Bytes that can be read; they stay.
    fn readable(&mut self, conn: u8) -> u32;

    /// Bytes that can be written.
    fn room(&mut self, conn: u8) -> u32;

    /// Reads so many bytes.
    ///
    /// # Errors
    /// There are fewer.
    fn read(&mut self, conn: u8, count: u32) -> Result<Vec<u8>, Failed>;

    /// Whether the stream ended.
    fn ended(&mut self, conn: u8) -> bool;

    /// The urgent byte, and how many are before it; it is taken.
    fn urgent(&mut self, conn: u8) -> Option<(u32, u8)>;

    /// What the application got over plain TCP since it was last asked.
    fn plain(&mut self, conn: u8) -> Vec<u8>;

    /// The RNICs do something.
    ///
    /// # Errors
    /// This host cannot make them.
    fn rnic(&mut self, act: &RnicAct, qpn: Option<u32>) -> Result<(), Failed>;

    /// The script is over and the peer silent: everything runs out, and nothing may be
    /// left.
    ///
    /// # Errors
    /// What is left.
    fn run_out(&mut self) -> Result<(), Failed>;

    /// What the engine did wrong towards its host, if it did.
    fn fault(&self) -> Option<&str>;

    /// Internal events of the host, as text, oldest first; as far as they are known.
    fn inside(&self) -> &[String] {
        &[]
    }
}
