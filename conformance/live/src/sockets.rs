//! Sockets of the stack under test, as their applications use them.

use std::io;
use std::net::SocketAddr;

use conformance::scripts::{RnicAct, Seen};
use serde::{Deserialize, Serialize};

/// How an application ends its connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub enum Ending {
    /// The application ends sending.
    Write,
    /// The application ends reading.
    Read,
    /// The application ends the whole connection.
    Close,
    /// The application ends the whole connection, at once.
    Abort,
}

/// Sockets of a stack, by the numbers that scripts give to connections. Nothing waits.
pub trait Sockets {
    /// Where a connection is accepted.
    ///
    /// # Errors
    /// The stack's.
    fn listens(&mut self) -> io::Result<SocketAddr>;

    /// A connection comes from this address.
    fn comes(&mut self, conn: u8, from: SocketAddr);

    /// Opens a connection.
    ///
    /// # Errors
    /// The stack's.
    fn connect(&mut self, conn: u8, to: SocketAddr) -> io::Result<()>;

    /// Goes on with what is begun; what applications saw.
    fn step(&mut self) -> Option<(u8, Seen)>;

    /// Writes all of it.
    ///
    /// # Errors
    /// The stack's, or there is no room.
    fn write(&mut self, conn: u8, bytes: &[u8], urgent: bool) -> io::Result<()>;

    /// Reads so many bytes.
    ///
    /// # Errors
    /// The stack's, or there are fewer.
    fn read(&mut self, conn: u8, count: usize) -> io::Result<Vec<u8>>;

    /// Bytes that can be read; they stay.
    fn readable(&mut self, conn: u8) -> usize;

    /// Whether the stream has ended in order.
    fn ended(&mut self, conn: u8) -> bool;

    /// The urgent byte, which is taken, if there is one.
    fn urgent(&mut self, conn: u8) -> Option<u8>;

    /// Bytes of plain TCP.
    fn plain(&mut self, conn: u8) -> Vec<u8>;

    /// Ends a connection, or a direction of it.
    ///
    /// # Errors
    /// The stack's.
    fn end(&mut self, conn: u8, how: Ending) -> io::Result<()>;

    /// Whether the application, if it still has the connection, sees it reset, or in order at
    /// its end.
    fn has_ended(&mut self, conn: u8, in_order: bool) -> bool;

    /// RNICs of this host do something; of a link that breaks, its queue pair.
    ///
    /// # Errors
    /// They cannot be made to do it.
    fn rnic(&mut self, act: &RnicAct, qpn: Option<u32>) -> Result<(), String>;

    /// All applications close what they have.
    fn leave(&mut self);

    /// Everything ends: what is left.
    ///
    /// # Errors
    /// What is left, in words.
    fn run_out(&mut self) -> Result<(), String>;
}
