//! Connections of which it is not decided yet what carries them: their number is bounded, and
//! one source of them shuts no other out.

use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Weak};
use std::time::Instant;

use rustix::event::epoll;
use smc_transport_ism::shared::pairing::Answer;

use super::promises::Promise;
use super::{Driver, Pairing};
use crate::carrier::{Cause, Limit};
use crate::listening::{Arrival, Delivery, Destination};
use crate::opening::Opening;
use crate::undecided::{Admission, Source};

/// How far an undecided connection has come.
pub(crate) enum Stage {
    /// The client of the connection called, and was asked to go on.
    Pairing(Answer),
    /// The client of the connection has promised CLC. The connection is to be declined, if there
    /// is a cause.
    Promised(Option<Cause>),
}

/// A connection that is not counted yet.
pub(super) struct Newcomer {
    /// The port is free as soon as the program drops the listener.
    to: Weak<dyn Destination>,
    tcp: Arc<TcpStream>,
    address: SocketAddr,
    stage: Stage,
    source: Source,
    until: Instant,
}

impl Driver {
    /// Counts a connection that was accepted, and goes on with it.
    pub(super) fn arrive(
        &mut self,
        to: &Weak<dyn Destination>,
        tcp: Arc<TcpStream>,
        address: SocketAddr,
        stage: Stage,
    ) {
        let source = match &stage {
            Stage::Pairing(answer) => Source::User(answer.peer().uid),
            Stage::Promised(_) => self.source(&tcp, address),
        };
        let now = Instant::now();
        let newcomer = Newcomer {
            to: to.clone(),
            tcp,
            address,
            stage,
            source,
            until: now,
        };
        if let Some(held) = self.admit(newcomer, now) {
            if let Some(to) = to.upgrade() {
                to.hold(true, &self.shard);
            }
            self.held.push_back(held);
        }
    }

    /// The source of a connection whose client has not called.
    pub(super) fn source(&self, tcp: &TcpStream, client: SocketAddr) -> Source {
        let owner = self.shard.lock().other_end(tcp);
        owner.map_or(Source::remote(client.ip()), Source::User)
    }

    /// Admits a newcomer, for which others may have to go; or gives it back, if it has to
    /// wait.
    fn admit(&mut self, mut newcomer: Newcomer, now: Instant) -> Option<Newcomer> {
        loop {
            let admission = self.shard.undecided().admit(newcomer.source, now);
            match admission {
                Admission::Admitted(number) => {
                    self.start(newcomer, number);
                    return None;
                }
                Admission::Evict(number) => self.evict(number),
                Admission::Wait(until) => {
                    newcomer.until = until;
                    return Some(newcomer);
                }
            }
        }
    }

    /// Goes on with newcomers that have waited: when the next one has waited enough.
    pub(super) fn admit_held(&mut self, now: Instant) -> Option<Instant> {
        for _ in 0..self.held.len() {
            let Some(newcomer) = self.held.pop_front() else {
                break;
            };
            // Like the kernel, without a listener it resets what the program has not accepted.
            let Some(to) = newcomer.to.upgrade() else {
                continue;
            };
            match self.admit(newcomer, now) {
                Some(held) => self.held.push_back(held),
                None => to.hold(false, &self.shard),
            }
        }
        self.held.iter().map(|newcomer| newcomer.until).min()
    }

    fn start(&mut self, newcomer: Newcomer, number: u64) {
        let Newcomer {
            to,
            tcp,
            address,
            stage,
            ..
        } = newcomer;
        let ticket = self.shard.ticket(number);
        let Some(destination) = to.upgrade() else {
            return;
        };
        let arrival = Arrival::new(to, address, Some(ticket));
        match stage {
            Stage::Pairing(answer) => {
                let pairing = Pairing {
                    answer,
                    tcp,
                    arrival,
                    option_sent: destination.option_sent(),
                    port: destination.port(),
                    until: Instant::now(),
                };
                self.ask(number as u32, pairing);
            }
            Stage::Promised(declines) => {
                let promise = Promise::new(tcp, arrival, declines, None);
                self.promise(number as u32, promise);
            }
        }
    }

    /// Decides for TCP, or ends what only the client could decide any more.
    pub(super) fn evict(&mut self, number: u64) {
        let shard = self.shard.clone();
        let key = number as u32;
        let cause = Cause::Limit(Limit::Undecided(shard.undecided().most()));
        let promise = match self.answers.remove(&key) {
            Some(mut pairing) => {
                let outcome = pairing.give_up();
                self.paired(pairing.into_parts(), outcome, Some(cause))
            }
            None => self.promises.remove(key),
        };
        if let Some(mut promise) = promise {
            // The socket begins with that of a new one.
            promise.set_low_water(1);
            // It fails only for what was never added.
            let _ = epoll::delete(&shard.poller, &promise.tcp);
            let socket = shard.decline(promise.tcp, cause, Opening::Promised);
            if promise.arrival.deliver(socket.clone()) == Delivery::Closed {
                // Its stream was dropped already.
                shard.drain(&socket);
            }
        } else {
            let conn = shard.undecided().conn(number);
            let mut state = shard.lock();
            if let Some(mut conn) = conn.and_then(|conn| state.engine.conn(conn)) {
                conn.abort(shard.now());
                state.drain_and_park(&shard, shard.now());
            }
        }
        // Whatever it still has, it is not counted any more.
        drop(shard.ticket(number));
    }
}
