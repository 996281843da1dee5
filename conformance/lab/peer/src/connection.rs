//! A connection as conversations have it.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr};
use std::thread;
use std::time::{Duration, Instant};

use smc_lab::conversation::Conversation;
use smc_lab::netlink::smc::Carried;
use smc_proto::version::Technology;
use smc_sockets::{Carrier, SmcStream};

/// Pause between two polls for an urgent byte, which a descriptor does not report on its own.
const PAUSE: Duration = Duration::from_millis(1);

pub(crate) struct Connection(SmcStream);

impl Connection {
    /// A stream whose waits are bounded. Dropped, it waits as long for the peer to have
    /// everything.
    pub(crate) fn new(stream: SmcStream, timeout: Duration) -> io::Result<Self> {
        stream.set_read_timeout(Some(timeout))?;
        stream.set_write_timeout(Some(timeout))?;
        stream.set_linger(Some(timeout))?;
        Ok(Self(stream))
    }

    /// Returns what carries it, as programs get it.
    pub(crate) fn carrier(&self) -> String {
        self.0.carrier().to_string()
    }

    pub(crate) fn peer(&self) -> Option<SocketAddr> {
        self.0.peer_addr().ok()
    }

    pub(crate) fn carried(&self) -> Carried {
        match self.0.carrier() {
            Carrier::Smc(terms) if terms.technology == Technology::SmcR => Carried::SmcR,
            Carrier::Tcp(why) => {
                let reason = why.reason();
                let peer = reason.peer_diagnosis.map_or(0, |code| code.0);
                Carried::Tcp(reason.code.0, peer)
            }
            _ => Carried::SmcD,
        }
    }
}

impl Conversation for Connection {
    fn send(&self, bytes: &[u8]) -> io::Result<usize> {
        (&self.0).write(bytes)
    }

    fn receive(&self, bytes: &mut [u8]) -> io::Result<usize> {
        (&self.0).read(bytes)
    }

    fn send_urgent(&self, byte: u8) -> io::Result<()> {
        self.0.send_urgent(&[byte]).map(drop)
    }

    fn receive_urgent(&self, timeout: Duration) -> io::Result<u8> {
        let end = Instant::now() + timeout;
        loop {
            match self.0.receive_urgent() {
                Ok(byte) => return Ok(byte),
                Err(error)
                    if matches!(
                        error.kind(),
                        io::ErrorKind::InvalidInput | io::ErrorKind::WouldBlock
                    ) => {}
                Err(error) => return Err(error),
            }
            if Instant::now() > end {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            thread::sleep(PAUSE);
        }
    }

    fn abort(&self) -> io::Result<()> {
        self.0.set_linger(Some(Duration::ZERO))
    }

    fn shutdown(&self) -> io::Result<()> {
        self.0.shutdown(Shutdown::Write)
    }
}
