//! An accepted connection between the thread that begins with it and the driver that decides.

use std::io;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Instant;

use super::Accepting;
use crate::carrier::{Carrier, Cause, Limit};
use crate::descriptors;
use crate::discovery::OptionNotSent;
use crate::driver;
use crate::listening::{Accepted, Arrival, Delivery, Destination, HandedOver};
use crate::socket::Socket;
use crate::stack::Stack;
use crate::stream::SmcStream;
use crate::undecided::{Admission, Source};
use crate::waiters::Waiters;
use crate::waiting::Direction;

/// An accepted connection that this process has begun with, as the driver sees it.
pub(super) struct Single {
    pub(super) stack: Stack,
    port: u16,
    option_sent: Result<(), OptionNotSent>,
    outcome: Mutex<Outcome>,
    /// Readable once it is decided; made when it is first asked for.
    decided: OnceLock<OwnedFd>,
    /// Event loops that list it once it is decided.
    pub(super) waiters: Waiters,
}

/// What carries the connection, once it is decided.
pub(super) enum Outcome {
    NotYet,
    Decided(io::Result<Arc<Socket>>),
    /// The program has it, or wants it no more.
    Over,
    /// The program has closed it before it was decided. The client is answered all the same: over
    /// TCP it is connected, and then reads the end. This value is kept until that is done.
    Closed(#[allow(dead_code, reason = "kept by being there")] Arc<Single>),
}

impl Single {
    /// For a connection to this port, of a client that speaks CLC over TCP or does not.
    pub(super) fn new(stack: Stack, port: u16, speaks: bool) -> Self {
        let option_sent = match speaks {
            true => Ok(()),
            false => {
                let marks = stack.shard().opt_in.marks();
                marks.and(Err(OptionNotSent::TooLate))
            }
        };
        Self {
            stack,
            port,
            option_sent,
            outcome: Mutex::new(Outcome::NotYet),
            decided: OnceLock::new(),
            waiters: Waiters::default(),
        }
    }

    /// Answers the client's announcement, or hands the connection to the driver.
    pub(super) fn begin(self: &Arc<Self>, accepting: &Accepting) {
        let (tcp, ends) = (accepting.tcp.clone(), accepting.ends);
        let tcp = match accepting.of {
            Some(of) => self.answer(tcp, ends, of),
            None => Some(tcp),
        };
        let Some(tcp) = tcp else {
            return;
        };
        let client = ends.1;
        let shard = self.stack.shard();
        let gids = self.stack.gids();
        let listener = (self.port, self.option_sent);
        match driver::first_stage(shard, &tcp, client, listener, gids.as_ref()) {
            Ok(stage) => {
                let to: Weak<dyn Destination> = Arc::downgrade(self) as _;
                shard.hand_over(HandedOver::Undecided(to, tcp, client, stage));
            }
            Err(cause) => {
                let carrier = Some(Carrier::tcp(cause));
                let socket = Arc::new(Socket::new(tcp, carrier, shard.spin));
                self.set(Ok(socket));
            }
        }
    }

    /// Answers the announcement of the connection; gives it back if there is none.
    //= SHM-080
    fn answer(
        self: &Arc<Self>,
        tcp: Arc<TcpStream>,
        (near, client): (SocketAddr, SocketAddr),
        of: (u64, u32),
    ) -> Option<Arc<TcpStream>> {
        let shard = self.stack.shard();
        let mut state = shard.lock();
        let permitted = shard
            .opt_in
            .policy
            .accepting(self.port, client.ip())
            .is_ok();
        if !permitted || shard.memory_limit().is_some() {
            return Some(tcp);
        }
        let Some(announced) = state.take_announcement_of(of) else {
            return Some(tcp);
        };
        let source = Source::User(announced.peer.uid);
        let place = shard.place();
        let admission = || shard.undecided().admit(source, Instant::now());
        match (place.as_ref().map(|_| admission()), place) {
            (Some(Admission::Admitted(number)), Some(place)) => {
                let to: Weak<dyn Destination> = Arc::downgrade(self) as _;
                let arrival = Arrival::new(to, client, Some(shard.ticket(number)));
                let socket = Arc::new(Socket::new(tcp, None, shard.spin));
                socket.has_ends(near, client);
                state.accept_announced(shard, &socket, announced, (arrival, place));
                None
            }
            (admission, _) => {
                state.decline_announcement(shard, &announced, &tcp);
                drop(state);
                let most = shard.undecided().most();
                let limit = admission.map_or(shard.limit, |_| Limit::Undecided(most));
                let carrier = Some(Carrier::tcp(Cause::Limit(limit)));
                self.set(Ok(Arc::new(Socket::new(tcp, carrier, shard.spin))));
                None
            }
        }
    }

    /// The outcome, which other threads may set meanwhile.
    pub(super) fn outcome(&self) -> MutexGuard<'_, Outcome> {
        self.outcome.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The outcome, once.
    pub(super) fn take(&self) -> Outcome {
        let mut outcome = self.outcome();
        match *outcome {
            Outcome::NotYet => Outcome::NotYet,
            _ => {
                self.waiters.clear();
                std::mem::replace(&mut *outcome, Outcome::Over)
            }
        }
    }

    /// Sets the outcome.
    pub(super) fn set(&self, decided: io::Result<Arc<Socket>>) -> Delivery {
        let mut outcome = self.outcome();
        match *outcome {
            Outcome::NotYet => {
                *outcome = Outcome::Decided(decided);
                if let Some(decided) = self.decided.get() {
                    descriptors::raise(decided);
                }
                // No task waits for it.
                self.waiters.notify(Direction::Read, &mut Vec::new());
                Delivery::Taken
            }
            Outcome::Closed(_) => {
                *outcome = Outcome::Over;
                Delivery::Closed
            }
            Outcome::Decided(_) | Outcome::Over => Delivery::Refused,
        }
    }

    /// Readable once it is decided.
    ///
    /// # Errors
    /// No descriptor is left.
    pub(super) fn descriptor(&self) -> io::Result<BorrowedFd<'_>> {
        let outcome = self.outcome();
        if let Some(decided) = self.decided.get() {
            return Ok(decided.as_fd());
        }
        let new = descriptors::eventfd(0)?;
        let decided = self.decided.get_or_init(|| new);
        if !matches!(*outcome, Outcome::NotYet) {
            descriptors::raise(decided);
        }
        Ok(decided.as_fd())
    }

    /// The program wants it no more.
    pub(super) fn give_up(self: &Arc<Self>) {
        let before = {
            let mut outcome = self.outcome();
            let after = match *outcome {
                Outcome::NotYet => Outcome::Closed(self.clone()),
                _ => Outcome::Over,
            };
            std::mem::replace(&mut *outcome, after)
        };
        self.waiters.clear();
        if let Outcome::Decided(Ok(socket)) = before {
            drop(SmcStream::new(self.stack.clone(), socket));
        }
    }
}

impl Destination for Single {
    fn port(&self) -> u16 {
        self.port
    }

    fn option_sent(&self) -> Result<(), OptionNotSent> {
        self.option_sent
    }

    fn deliver(&self, (socket, _): Accepted) -> Delivery {
        self.set(Ok(socket))
    }

    fn lost(&self) {
        let _ = self.set(Err(io::ErrorKind::ConnectionReset.into()));
    }
}
