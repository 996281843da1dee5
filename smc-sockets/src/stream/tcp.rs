//! Reading from a connection that fell back to TCP.

use std::io::{self, Read};
use std::sync::atomic::Ordering;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use smc_proto::endpoint::{ClcProgress, TcpEvent};
use smc_proto::wire::clc::MAX_LENGTH;

use super::SmcStream;
use crate::shard::{discard, peek, timespec};

/// Pause between two looks at octets that begin like a Decline.
const PART: Duration = Duration::from_millis(1);

impl SmcStream {
    pub(super) fn read_tcp(&self, into: &mut [u8]) -> io::Result<usize> {
        if self.socket.watching.load(Ordering::Acquire) && !into.is_empty() {
            self.pass_decline()?;
        }
        (&self.socket.tcp).read(into)
    }

    /// A Decline that crossed ours may stand before the application's octets: the
    /// engine knows it when it sees it.
    fn pass_decline(&self) -> io::Result<()> {
        let (shard, socket) = (self.stack.shard(), &self.socket);
        let mut octets = [0; MAX_LENGTH];
        loop {
            let shown = match peek(socket, &mut octets) {
                Ok(len) => octets.get(..len).unwrap_or_default(),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) if socket.is_nonblocking() => {
                    return Err(io::ErrorKind::WouldBlock.into());
                }
                Err(Errno::AGAIN) => {
                    let timeout = socket.status().read_timeout.map(timespec);
                    let mut polled = [PollFd::new(&socket.tcp, PollFlags::IN)];
                    match rustix::event::poll(&mut polled, timeout.as_ref()) {
                        Ok(0) => return Err(io::ErrorKind::WouldBlock.into()),
                        Ok(_) | Err(Errno::INTR) => continue,
                        Err(error) => return Err(error.into()),
                    }
                }
                // Reading tells it to the application.
                Err(_) => return Ok(()),
            };
            let mut state = shard.lock();
            let Some(conn) = socket.conn() else {
                break;
            };
            if shown.is_empty() {
                let event = TcpEvent::PeerFin;
                state.engine.handle_tcp(shard.now(), conn, event);
                break;
            }
            match state.engine.handle_clc(shard.now(), conn, shown) {
                Ok(ClcProgress::NeedMore { .. }) => {}
                Ok(ClcProgress::Consumed { len, .. }) => {
                    discard(socket, len);
                    break;
                }
                Ok(ClcProgress::NotClc) | Err(_) => break,
            }
            drop(state);
            if socket.is_nonblocking() {
                return Err(io::ErrorKind::WouldBlock.into());
            }
            std::thread::sleep(PART);
        }
        shard.lock().settle(shard, shard.now());
        socket.watching.store(false, Ordering::Release);
        Ok(())
    }
}
