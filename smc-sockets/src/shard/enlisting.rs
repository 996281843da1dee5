//! Listeners, as the driver finds them.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, MutexGuard, PoisonError, Weak};

use rustix::event::epoll::{self, EventFlags};
use smc_transport_ism::shared::pairing::Rendezvous;

use super::Shard;
use crate::driver::Token;
use crate::listening::Listening;

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
        epoll::add(&self.poller, listening, data, EventFlags::IN)?;
        listening.entered(key);
        listeners.all.insert(key, Arc::downgrade(listening));
        Ok(())
    }

    pub(crate) fn listener(&self, key: u32) -> Option<Arc<Listening>> {
        self.listeners().all.get(&key).and_then(Weak::upgrade)
    }

    /// Accepts from a listener no more. The kernel would go on telling of it as long as
    /// anybody has it, a child that was forked for one.
    pub(crate) fn delist(&self, listening: &Listening) {
        self.listeners().all.remove(&listening.key());
        // It fails only for what was never added.
        let _ = epoll::delete(&self.poller, listening);
    }

    /// Accepts from a listener, or not for the time being.
    pub(crate) fn pause(&self, listening: &Listening, paused: bool) {
        let flags = if paused {
            // The kernel tells in any case that a listener is broken, but of edges once.
            EventFlags::ET
        } else {
            EventFlags::IN
        };
        // It fails only for what was never added, or is no more.
        let data = Token::Listener(listening.key()).data();
        let _ = epoll::modify(&self.poller, listening, data, flags);
    }

    /// Forgets who called a listener and has gone; whether other callers are left.
    //= SHM-036
    pub(crate) fn sweep_calls(&self) -> bool {
        let all: Vec<_> = self.listeners().all.values().cloned().collect();
        let mut left = false;
        for listening in all.iter().filter_map(Weak::upgrade) {
            let rendezvous = listening.rendezvous.lock();
            let mut rendezvous = rendezvous.unwrap_or_else(PoisonError::into_inner);
            left |= rendezvous.as_mut().is_some_and(Rendezvous::sweep);
        }
        left
    }

    fn listeners(&self) -> MutexGuard<'_, Listeners> {
        self.listeners
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}
