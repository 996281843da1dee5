//! What one end of a connection does, step by step, over whatever carries it.

mod steps;

use std::io;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use steps::{Outcome, hold};

/// One step. Bytes are those of the end's [`Pattern`](crate::pattern::Pattern), and
/// each step goes on where the one before ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Step {
    /// Sends this many bytes.
    Send(u64),
    /// Receives this many bytes of the peer's.
    Receive(u64),
    /// Sends as many as it receives, both at once.
    Exchange(u64),
    /// Sends this many bytes and receives them again.
    Echoed(u64),
    /// Returns what comes, up to the end of the stream.
    Echo,
    /// Sends one urgent byte.
    SendUrgent,
    /// Receives the urgent byte, and then the bytes before it, as many as given.
    ReceiveUrgent(u64),
    /// Ends the own stream.
    Shutdown,
    /// Resets the connection when it is closed after the last step.
    Abort,
    /// Expects the end of the peer's stream.
    End,
    /// Expects that the connection was reset.
    Reset,
    /// Does nothing for these milliseconds.
    Pause(u64),
}

/// A connection that steps are carried out on. Waits are bounded by the implementer.
pub trait Conversation: Sync {
    /// Sends some bytes.
    ///
    /// # Errors
    /// Of the connection.
    fn send(&self, bytes: &[u8]) -> io::Result<usize>;
    /// Receives some bytes; none at the end of the stream.
    ///
    /// # Errors
    /// Of the connection.
    fn receive(&self, bytes: &mut [u8]) -> io::Result<usize>;
    /// Sends one urgent byte.
    ///
    /// # Errors
    /// Of the connection.
    fn send_urgent(&self, byte: u8) -> io::Result<()>;
    /// Waits for an urgent byte.
    ///
    /// # Errors
    /// Of the connection.
    fn receive_urgent(&self, timeout: Duration) -> io::Result<u8>;
    /// Lets the end of the conversation be a reset.
    ///
    /// # Errors
    /// Of the connection, or that it cannot.
    fn abort(&self) -> io::Result<()>;
    /// Ends the own stream.
    ///
    /// # Errors
    /// Of the connection.
    fn shutdown(&self) -> io::Result<()>;
}
