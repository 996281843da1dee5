//! Reading from a connection that fell back to TCP.

use std::io::{self, IoSliceMut, Read};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use rustix::fs::OFlags;
use rustix::io::Errno;
use smc_proto::endpoint::{ClcProgress, TcpEvent};
use smc_proto::wire::clc::MAX_LENGTH;

use super::SmcStream;
use crate::shard::{discard, end_in, peek, timespec};

/// What waiting for bytes came to.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waited {
    /// There may be some.
    Octets,
    /// There may be some, and no more will come.
    End(TcpEvent),
    TimeOut,
}

impl SmcStream {
    pub(super) fn read_tcp(&self, into: &mut [u8]) -> io::Result<usize> {
        self.pass_decline(into.len())?;
        (&*self.socket().tcp).read(into)
    }

    pub(super) fn read_tcp_vectored(&self, into: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.pass_decline(into.iter().map(|slice| slice.len()).sum())?;
        (&*self.socket().tcp).read_vectored(into)
    }

    /// A Decline that crossed ours may be before the application's bytes, of which it
    /// wants so many: the engine knows it when it sees it.
    pub(super) fn pass_decline(&self, wanted: usize) -> io::Result<()> {
        self.pass_decline_by(wanted, false)
    }

    /// Passes over the peer's Decline as [`Self::pass_decline`] does, in a call that does not wait if
    /// it is `nonblocking`, or the stream or its TCP socket is.
    pub(super) fn pass_decline_by(&self, wanted: usize, nonblocking: bool) -> io::Result<()> {
        let socket = self.socket();
        if wanted == 0 || (socket.opening.is_over() && !socket.is_watching()) {
            return Ok(());
        }
        let nonblocking = nonblocking || self.is_nonblocking_over_tcp();
        if !socket.opening.is_over() {
            self.pass_opening(nonblocking)?;
        }
        let watched = |_: &&_| socket.is_watching();
        let Some(stack) = self.held.stack.as_ref().filter(watched) else {
            return Ok(());
        };
        // The parent has the engine that knows a Decline.
        self.held.process.check()?;
        let shard = stack.shard();
        let time = socket.status().read_timeout;
        // A time without end has none.
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let mut ended = None;
        let mut octets = [0; MAX_LENGTH];
        loop {
            let shown = peek(socket, &mut octets);
            let mut state = shard.lock();
            let (Some(conn), true) = (socket.conn(), socket.is_watching()) else {
                return Ok(());
            };
            let now = shard.now();
            let outcome = match shown {
                Err(Errno::INTR | Errno::AGAIN) => None,
                Err(error) => {
                    state.engine.handle_tcp(now, conn, TcpEvent::PeerReset);
                    Some(Err(error.into()))
                }
                Ok(0) => {
                    state.engine.handle_tcp(now, conn, TcpEvent::PeerFin);
                    Some(Ok(()))
                }
                Ok(len) => {
                    let shown = octets.get(..len).unwrap_or_default();
                    match (state.engine.handle_clc(now, conn, shown), ended) {
                        // Its rest does not come any more.
                        (Ok(ClcProgress::NeedMore { .. }), Some(end)) => {
                            state.engine.handle_tcp(now, conn, end);
                            // Behind a reset they will not be read: it may be a Decline.
                            if end != TcpEvent::PeerFin {
                                discard(socket, len);
                            }
                            Some(Ok(()))
                        }
                        (Ok(ClcProgress::NeedMore { total }), None) => {
                            socket.set_low_water(total);
                            None
                        }
                        (Ok(ClcProgress::Consumed { len, .. }), _) => {
                            discard(socket, len);
                            Some(Ok(()))
                        }
                        (Ok(ClcProgress::NotClc) | Err(_), _) => Some(Ok(())),
                    }
                }
            };
            if let Some(outcome) = outcome {
                state.watched(conn);
                state.drain_and_park(shard, now);
                return outcome;
            }
            drop(state);
            let left = match until {
                _ if nonblocking => Some(Duration::ZERO),
                Some(until) => Some(until.saturating_duration_since(Instant::now())),
                None => None,
            };
            match self.wait_for_octets(left)? {
                Waited::Octets => {}
                Waited::End(end) => ended = Some(end),
                Waited::TimeOut => return Err(io::ErrorKind::WouldBlock.into()),
            }
        }
    }

    /// Whether calls on a stream that TCP carries return at once. The program may have set that for a
    /// TCP socket that it has accepted or made by itself.
    fn is_nonblocking_over_tcp(&self) -> bool {
        let socket = self.socket();
        let mode = || rustix::fs::fcntl_getfl(&socket.tcp);
        socket.is_nonblocking() || mode().is_ok_and(|mode| mode.contains(OFlags::NONBLOCK))
    }

    /// Waits until what comes next is the application's.
    fn pass_opening(&self, nonblocking: bool) -> io::Result<()> {
        let socket = self.socket();
        let time = socket.tcp.read_timeout()?;
        // A time without end has none.
        let until = time.and_then(|time| Instant::now().checked_add(time));
        let mut ended = None;
        while !socket.pass_opening(ended)? {
            let left = match until {
                _ if nonblocking => Some(Duration::ZERO),
                Some(until) => Some(until.saturating_duration_since(Instant::now())),
                None => None,
            };
            match self.wait_for_octets(left)? {
                Waited::Octets => {}
                Waited::End(end) => ended = Some(end),
                Waited::TimeOut => return Err(io::ErrorKind::WouldBlock.into()),
            }
        }
        Ok(())
    }

    fn wait_for_octets(&self, left: Option<Duration>) -> io::Result<Waited> {
        let left = left.map(timespec);
        let flags = PollFlags::IN | PollFlags::RDHUP;
        let mut polled = [PollFd::new(&self.socket().tcp, flags)];
        match rustix::event::poll(&mut polled, left.as_ref()) {
            Ok(0) => Ok(Waited::TimeOut),
            Err(Errno::INTR) => Ok(Waited::Octets),
            Err(error) => Err(error.into()),
            Ok(_) => {
                let [polled] = polled;
                Ok(end_in(polled.revents()).map_or(Waited::Octets, Waited::End))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};

    use smc_proto::wire::types::{DiagnosisCode, PeerId};

    use crate::carrier::Cause;
    use crate::opening::{Opening, decline};
    use crate::{SmcStream, Stack};

    /// A client that was declined sends what it had promised before the application's bytes,
    /// which may be read one by one.
    #[test]
    fn not_one_byte_of_what_a_declined_client_promised_is_the_applications() {
        let stack = Stack::open().unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (tcp, _) = listener.accept().unwrap();
        let shard = stack.shard();
        let socket = shard.decline(tcp, Cause::NotOffered, Opening::Promised);
        let mut stream = SmcStream::new(stack.clone(), socket);
        let promised = decline(PeerId::default(), DiagnosisCode::MEMORY).unwrap();
        client.write_all(&promised).unwrap();
        client.write_all(b"ab").unwrap();
        for expected in *b"ab" {
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte).unwrap(), 1);
            assert_eq!(byte, [expected]);
        }
    }
}
