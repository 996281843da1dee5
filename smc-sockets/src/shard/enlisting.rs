//! Listeners, as the driver finds them.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use rustix::event::epoll::{self, EventFlags};

use super::Shard;
use crate::driver::Token;
use crate::listening::Listening;

/// How the driver waits for calls: once, until they were taken in.
const CALLS: EventFlags = EventFlags::IN.union(EventFlags::ONESHOT);

/// What the driver accepts from, by number.
#[derive(Default)]
pub(crate) struct Listeners {
    last: u32,
    all: HashMap<u32, Weak<Listening>>,
}

impl Shard {
    /// Accepts from a listener from now on.
    pub(crate) fn enlist(&self, listening: &Arc<Listening>) -> io::Result<()> {
        let mut listeners = self.listeners();
        listeners.all.retain(|_, at| at.strong_count() > 0);
        listeners.last = listeners.last.wrapping_add(1);
        let key = listeners.last;
        let data = Token::Listener(key).data();
        epoll::add(&self.poller, listening, data, EventFlags::ET)?;
        listening.entered(key);
        listeners.all.insert(key, Arc::downgrade(listening));
        listening.entered_driver(self);
        listening.publish();
        if let Some(rendezvous) = &*listening.rendezvous() {
            // Without it, calls are taken in when the next connection is accepted.
            let data = Token::Rendezvous(key).data();
            let _ = epoll::add(&self.poller, rendezvous, data, CALLS);
        }
        Ok(())
    }

    /// Wakes the driver when the next client calls.
    pub(crate) fn await_calls(&self, listening: &Listening) {
        if let Some(rendezvous) = &*listening.rendezvous() {
            // It fails only for what was never added, or is no more.
            let data = Token::Rendezvous(listening.key()).data();
            let _ = epoll::modify(&self.poller, rendezvous, data, CALLS);
        }
    }

    /// The numbers of all listeners.
    pub(crate) fn listener_keys(&self) -> Vec<u32> {
        self.listeners().all.keys().copied().collect()
    }

    pub(crate) fn listener(&self, key: u32) -> Option<Arc<Listening>> {
        self.listeners().all.get(&key).and_then(Weak::upgrade)
    }

    /// Whether a listener accepts connections to this address.
    pub(crate) fn listens_at(&self, to: SocketAddr) -> bool {
        let listeners = self.listeners();
        let mut all = listeners.all.values().filter_map(Weak::upgrade);
        all.any(|at| at.is_at(to))
    }

    /// Accepts from a listener no more. The kernel would go on reporting it as long as
    /// any process has it, for instance a forked child.
    pub(crate) fn delist(&self, listening: &Listening) {
        self.listeners().all.remove(&listening.key());
        // Both fail only for what was never added.
        let _ = epoll::delete(&self.poller, listening);
        if let Some(rendezvous) = &*listening.rendezvous() {
            let _ = epoll::delete(&self.poller, rendezvous);
        }
    }

    /// Accepts from a listener, or not for the time being.
    pub(crate) fn pause(&self, listening: &Listening, paused: bool) {
        let flags = if paused {
            // The kernel reports in any case that a listener is broken, but edges once.
            EventFlags::ET
        } else {
            EventFlags::IN
        };
        // It fails only for what was never added, or is no more.
        let data = Token::Listener(listening.key()).data();
        let _ = epoll::modify(&self.poller, listening, data, flags);
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
