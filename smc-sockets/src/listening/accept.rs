//! Accepting in the threads of the program, and finding out how an accepted connection goes on.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::net::SocketFlags;
use smc_view::Role;

use super::{Accepted, Destination, HandedOver, Listening};
use crate::carrier::{Carrier, Cause, Limit};
use crate::driver::{self, Stage};
use crate::shard::Shard;
use crate::socket::Socket;
use crate::undecided::{Admission, Source};
use crate::viewing;

/// Longest time that a thread which accepts polls for a client's last message.
const MAX_SPIN: Duration = Duration::from_micros(50);

/// How a connection that was accepted goes on.
enum Next {
    /// Over TCP.
    Plain(Cause),
    /// In the driver: its client may be one of those that have called.
    Driver,
    /// At this stage, in the driver: its client pairs, or speaks CLC over TCP.
    Undecided(Stage),
}

impl Listening {
    /// Accepts the next connection in a thread of the program. `None` if none is decided: others may
    /// be on their way.
    pub(crate) fn accept(self: &Arc<Self>, shard: &Arc<Shard>) -> Option<io::Result<Accepted>> {
        loop {
            if let Some(next) = self.next(shard) {
                return Some(next);
            }
            if self.only_driver_accepts || self.is_held() || shard.has_many_handed_over() {
                return None;
            }
            let (tcp, address) = match self.accept_tcp() {
                Ok(Some(accepted)) => accepted,
                Ok(None) => continue,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return None,
                Err(error) => return Some(Err(error)),
            };
            self.begin_accepting();
            let Some(tcp) = self.accept_announced(shard, tcp, address) else {
                shard.spin_for_handshake(MAX_SPIN, |_| self.is_ready());
                if let Some(next) = self.pop(shard, true) {
                    return Some(next);
                }
                continue;
            };
            self.end_accepting();
            match self.begin(shard, &tcp, address) {
                Next::Plain(cause) => {
                    let carrier = Some(Carrier::tcp(cause));
                    let socket = Arc::new(Socket::new(tcp, carrier, shard.spin));
                    return Some(Ok((socket, address)));
                }
                Next::Driver => {
                    let from = Arc::downgrade(self);
                    shard.hand_over(HandedOver::New(from, tcp, address));
                }
                Next::Undecided(stage) => {
                    let to: Weak<dyn Destination> = Arc::downgrade(self) as _;
                    shard.hand_over(HandedOver::Undecided(to, tcp.into(), address, stage));
                }
            }
        }
    }

    /// Accepts the next TCP connection. `None` if the call is to be repeated: the connection has gone
    /// meanwhile, or a descriptor was freed for it.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if there is none; others of the operating system.
    pub(crate) fn accept_tcp(&self) -> io::Result<Option<(TcpStream, SocketAddr)>> {
        match rustix::net::acceptfrom_with(&self.tcp, SocketFlags::CLOEXEC) {
            Ok((tcp, address)) => {
                let address = address.and_then(|at| SocketAddr::try_from(at).ok());
                Ok(address.map(|address| (tcp.into(), address)))
            }
            Err(Errno::INTR | Errno::CONNABORTED | Errno::PROTO) => Ok(None),
            // The program's connections come before its view.
            Err(Errno::MFILE) if viewing::make_room() => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Finds out how to go on with a connection that was not announced.
    fn begin(&self, shard: &Arc<Shard>, tcp: &TcpStream, address: SocketAddr) -> Next {
        let has_calls = match &mut *self.rendezvous() {
            // Calls that cannot be received are left to the driver.
            Some(rendezvous) => !rendezvous
                .take_calls()
                .is_ok_and(|()| !rendezvous.has_calls()),
            None => false,
        };
        if has_calls {
            return Next::Driver;
        }
        let listener = (self.port, self.option_sent);
        match driver::first_stage(shard, tcp, address, listener, self.gids.as_ref()) {
            Ok(stage) => Next::Undecided(stage),
            Err(cause) => Next::Plain(cause),
        }
    }

    /// Answers the announcement of a connection that was accepted, or declines it. Returns the
    /// connection if there is no announcement.
    //= SHM-067
    pub(crate) fn accept_announced(
        self: &Arc<Self>,
        shard: &Arc<Shard>,
        tcp: TcpStream,
        address: SocketAddr,
    ) -> Option<TcpStream> {
        if self.is_inherited() {
            return Some(tcp);
        }
        let mut state = shard.lock();
        let Some(announced) = state.take_announcement(&tcp) else {
            return Some(tcp);
        };
        let socket = Socket::new(tcp, None, shard.spin);
        let policy = &shard.opt_in.policy;
        let source = Source::User(announced.peer.uid);
        let refused = match (
            policy.accepting(self.port, address.ip()),
            shard.memory_limit(),
        ) {
            (Err(rule), _) => Some(Cause::Policy(rule)),
            (Ok(()), limit) => limit.map(Cause::Limit),
        };
        let place = shard.place();
        let admission = || shard.undecided().admit(source, Instant::now());
        let cause = match (refused, place) {
            (None, Some(place)) => match admission() {
                Admission::Admitted(number) => {
                    let arrival = self.arrival(address, Some(shard.ticket(number)));
                    state.accept_announced(shard, &Arc::new(socket), announced, (arrival, place));
                    return None;
                }
                Admission::Evict(_) | Admission::Wait(_) => {
                    Cause::Limit(Limit::Undecided(shard.undecided().most()))
                }
            },
            (cause, _) => cause.unwrap_or(Cause::Limit(shard.limit)),
        };
        state.decline_announcement(shard, &announced, &socket.tcp);
        drop(state);
        socket.decided(Carrier::tcp(cause), Role::Server);
        self.push(Ok((Arc::new(socket), address)));
        None
    }
}
