//! Systems other than Linux: every connection is TCP.

pub(crate) mod listener;
pub(crate) mod stream;
#[cfg(all(feature = "tokio", not(target_os = "linux")))]
pub mod tokio;

use std::fmt;
use std::io;
use std::time::Duration;

/// What carries a connection: TCP.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Carrier {
    /// TCP, for this reason.
    Tcp(WhyTcp),
}

/// Why TCP carries a connection: the system is not Linux.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct WhyTcp;

impl Carrier {
    /// Whether SMC carries the connection.
    #[must_use]
    pub const fn is_smc(&self) -> bool {
        false
    }

    /// Why it is TCP.
    #[must_use]
    pub const fn why_tcp(&self) -> Option<&WhyTcp> {
        let Self::Tcp(why) = self;
        Some(why)
    }
}

impl WhyTcp {
    /// One sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        "SMC is implemented for Linux only".to_owned()
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(&self) -> String {
        "run both programs on Linux".to_owned()
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self::Tcp(why) = self;
        write!(f, "TCP: {why}")
    }
}

impl fmt::Display for WhyTcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence())
    }
}

/// A stack, of which there is nothing on this system: its connections are TCP.
#[derive(Clone, Debug, Default)]
pub struct Stack(());

impl Stack {
    /// A stack.
    ///
    /// # Errors
    /// None on this system.
    pub fn open() -> io::Result<Self> {
        Ok(Self(()))
    }

    /// The stack of this process.
    ///
    /// # Errors
    /// None on this system.
    pub fn of_process() -> io::Result<Self> {
        Self::open()
    }

    /// Gives this handle of the stack up; nothing is left to do for its connections.
    #[must_use]
    pub fn end(self, _: Duration) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};

    use super::Stack;
    use super::listener::SmcListener;
    use super::stream::SmcStream;

    #[test]
    fn connections_are_tcp() {
        let stack = Stack::of_process().unwrap();
        let listener = SmcListener::bind_on(&stack, "127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = SmcStream::connect_on(&stack, address).unwrap();
        let (mut server, from) = listener.accept().unwrap();
        assert_eq!(from, client.local_addr().unwrap());
        assert!(!client.carrier().is_smc());
        let carrier = server.carrier().to_string();
        assert_eq!(carrier, "TCP: SMC is implemented for Linux only");
        client.write_all(b"there").unwrap();
        client.shutdown(std::net::Shutdown::Write).unwrap();
        let mut text = String::new();
        server.read_to_string(&mut text).unwrap();
        assert_eq!(text, "there");
    }
}
