//! Octets of TCP before it is decided what carries a connection, and events of TCP
//! after that.

use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::RecvFlags;
use smc_proto::endpoint::{ClcProgress, Next, TcpEvent};
use smc_proto::id::ConnId;
use smc_proto::time::Instant;
use smc_proto::wire::clc::MAX_LENGTH;

use super::State;
use crate::socket::Socket;

impl State {
    /// Shows the engine what has come over a connection's TCP.
    ///
    /// Octets are only looked at until the engine says how many are CLC: the next one
    /// is the application's if the connection falls back.
    pub(crate) fn look_at_tcp(&mut self, conn: ConnId, now: Instant) {
        let mut ended = false;
        while let Some(entry) = self.entry(conn) {
            let socket = entry.socket.clone();
            let mut octets = [0; MAX_LENGTH];
            let shown = match peek(&socket, &mut octets) {
                Ok(0) => return self.engine.handle_tcp(now, conn, TcpEvent::PeerFin),
                Ok(len) => octets.get(..len).unwrap_or_default(),
                Err(Errno::INTR) => continue,
                Err(Errno::AGAIN) => return,
                Err(_) => return self.engine.handle_tcp(now, conn, TcpEvent::PeerReset),
            };
            match self.engine.handle_clc(now, conn, shown) {
                Ok(ClcProgress::NeedMore { .. }) if ended => {
                    return self.engine.handle_tcp(now, conn, TcpEvent::PeerFin);
                }
                Ok(ClcProgress::NeedMore { total }) => {
                    // Nobody is woken by each octet of a peer that takes its time.
                    socket.set_low_water(total);
                    ended = has_ended(&socket);
                    if !ended {
                        return;
                    }
                }
                Ok(ClcProgress::Consumed { len, next }) => {
                    socket.set_low_water(1);
                    socket.hears_clc();
                    discard(&socket, len);
                    if next == Next::Stop {
                        return;
                    }
                }
                Ok(ClcProgress::NotClc) | Err(_) => return,
            }
        }
    }
}

/// Octets that have come over TCP; they stay there.
pub(crate) fn peek(socket: &Socket, into: &mut [u8]) -> Result<usize, Errno> {
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT;
    rustix::net::recv(socket, into, flags).map(|(len, _)| len)
}

/// Whether nothing more will come over TCP than what has.
fn has_ended(socket: &Socket) -> bool {
    let mut polled = [PollFd::new(socket, PollFlags::RDHUP)];
    let now = rustix::time::Timespec::default();
    rustix::event::poll(&mut polled, Some(&now)).is_ok_and(|ready| ready > 0)
}

/// Takes octets away that were looked at.
pub(crate) fn discard(socket: &Socket, mut len: usize) {
    let mut octets = [0; MAX_LENGTH];
    while len > 0 {
        let most = octets.len().min(len);
        let into = octets.get_mut(..most).unwrap_or_default();
        match rustix::net::recv(socket, into, RecvFlags::DONTWAIT) {
            Ok((taken @ 1.., _)) => len -= taken,
            Err(Errno::INTR) => {}
            _ => return,
        }
    }
}
