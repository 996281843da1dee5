//! Connections whose clients have promised CLC, until they have sent a message of it: they cost
//! a descriptor, and no place at the engine.

use std::collections::{BTreeSet, HashMap};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventFlags};
use rustix::io::Errno;
use smc_proto::config::Timeouts;
use smc_transport_ism::shared::pairing::Peer;

use super::{Driver, Token, serve};
use crate::carrier::Cause;
use crate::listening::Arrival;
use crate::opening::{Opening, Step};
use crate::shard::{has_ended, peek};
use crate::system;

/// How long a client has for its first message, as for each that the engine waits for.
pub(super) fn clc_timeout() -> Duration {
    Timeouts::DEFAULT.clc_message
}

/// A connection whose client has promised CLC.
pub(super) struct Promise {
    pub(super) tcp: Arc<TcpStream>,
    pub(super) arrival: Arrival,
    /// Why this side declines it.
    declines: Option<Cause>,
    /// Paired with this side: the device at the other end.
    peer: Option<Peer>,
    /// Bytes that wake the driver.
    low_water: usize,
    /// When its time is up.
    until: Instant,
}

impl Promise {
    pub(super) fn new(
        tcp: Arc<TcpStream>,
        arrival: Arrival,
        declines: Option<Cause>,
        peer: Option<Peer>,
    ) -> Self {
        Self {
            tcp,
            arrival,
            declines,
            peer,
            low_water: 1,
            until: Instant::now() + clc_timeout(),
        }
    }

    pub(super) fn set_low_water(&mut self, bytes: usize) {
        if std::mem::replace(&mut self.low_water, bytes) != bytes {
            // If it fails, the driver is woken in vain.
            let _ = system::set_low_water(&self.tcp, bytes);
        }
    }
}

/// All of them, by the low half of the number of their tickets.
#[derive(Default)]
pub(super) struct Promises {
    all: HashMap<u32, Promise>,
    /// When their time is up.
    deadlines: BTreeSet<(Instant, u32)>,
}

impl Promises {
    /// When the next one's time is up.
    pub(super) fn next(&self) -> Option<Instant> {
        self.deadlines.first().map(|(until, _)| *until)
    }

    fn insert(&mut self, key: u32, promise: Promise) {
        self.deadlines.insert((promise.until, key));
        self.all.insert(key, promise);
    }

    pub(super) fn remove(&mut self, key: u32) -> Option<Promise> {
        let promise = self.all.remove(&key)?;
        self.deadlines.remove(&(promise.until, key));
        Some(promise)
    }
}

/// What has come of a promise.
enum Kept {
    /// A whole message.
    Message,
    /// Something else, or the end.
    Broken,
    /// Number of bytes that are waited for.
    NotYet(usize),
}

impl Driver {
    /// Waits for the first CLC message of a client.
    pub(super) fn promise(&mut self, key: u32, promise: Promise) {
        let Some(promise) = self.check_promise(promise) else {
            return;
        };
        let flags = EventFlags::IN | EventFlags::RDHUP | EventFlags::ET;
        let data = Token::Promise(key).data();
        // Without it, the connection is reset when its time is up.
        let _ = epoll::add(&self.shard.poller, &promise.tcp, data, flags);
        self.promises.insert(key, promise);
    }

    /// Something has come.
    pub(super) fn on_promise_readable(&mut self, key: u32) {
        let Some(promise) = self.promises.remove(key) else {
            return;
        };
        if let Some(promise) = self.check_promise(promise) {
            self.promises.insert(key, promise);
        }
    }

    /// Resets connections whose clients have let their time pass. A message that has come and
    /// was not noticed yet, as the driver had other work, counts.
    pub(super) fn promises_due(&mut self, now: Instant) {
        while let Some((until, key)) = self.promises.deadlines.pop_first() {
            if until > now {
                self.promises.deadlines.insert((until, key));
                return;
            }
            let promise = self.promises.all.remove(&key);
            if let Some(promise) = promise.and_then(|promise| self.check_promise(promise)) {
                let _ = rustix::net::connect_unspec(&promise.tcp);
            }
        }
    }

    /// Goes on with a promise that is kept or broken, or gives it back.
    //= SHM-063
    fn check_promise(&mut self, mut promise: Promise) -> Option<Promise> {
        let kept = check(&promise);
        if let Kept::NotYet(total) = kept {
            promise.set_low_water(total);
            // What ended before it was asked for more bytes wakes nothing.
            if has_ended(&promise.tcp).is_none() {
                return Some(promise);
            }
        }
        promise.set_low_water(1);
        let shard = &self.shard;
        // It fails only for what was never added.
        let _ = epoll::delete(&shard.poller, &promise.tcp);
        let place = match promise.declines {
            Some(_) => None,
            None => shard.place(),
        };
        match (place, kept) {
            (Some(place), _) => serve(shard, promise.tcp, promise.arrival, place, promise.peer),
            (None, Kept::Message) => {
                let cause = promise.declines.unwrap_or(Cause::Limit(shard.limit));
                let socket = shard.decline(promise.tcp, cause, Opening::Promised);
                promise.arrival.deliver(socket);
            }
            // As the engine does: it is not the application's.
            (None, _) => {
                let _ = rustix::net::connect_unspec(&promise.tcp);
            }
        }
        None
    }
}

fn check(promise: &Promise) -> Kept {
    let mut bytes = [0; smc_proto::wire::clc::MAX_LENGTH];
    loop {
        return match peek(&promise.tcp, &mut bytes) {
            Err(Errno::INTR) => continue,
            Err(Errno::AGAIN) => Kept::NotYet(1),
            Ok(0) | Err(_) => Kept::Broken,
            Ok(len) => match Opening::Promised.classify(bytes.get(..len).unwrap_or_default()) {
                Step::Drop(_) => Kept::Message,
                Step::Wait(total) => Kept::NotYet(total),
                Step::Over | Step::Malformed => Kept::Broken,
            },
        };
    }
}
