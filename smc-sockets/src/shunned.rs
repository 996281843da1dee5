//! Servers that send the TCP option back without knowing it.
//!
//! Some servers, and some boxes on the way, repeat options that they do not know. To such
//! a server a Proposal is the application's first bytes, and it answers with an error,
//! with silence or with a reset. It is remembered for a while, and its next connections
//! are plain TCP from the first segment.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::policy::Shun;

/// Servers that did not understand a Proposal lately.
#[derive(Debug)]
pub(crate) struct Shunned {
    limits: Shun,
    /// With the time until when, the oldest first.
    servers: Mutex<VecDeque<(SocketAddr, Instant)>>,
}

impl Shunned {
    pub(crate) fn new(limits: Shun) -> Self {
        Self {
            limits,
            servers: Mutex::default(),
        }
    }

    /// One did not; if there are too many, the oldest is forgotten.
    pub(crate) fn remember(&self, server: SocketAddr, now: Instant) {
        let Some(until) = now.checked_add(self.limits.time) else {
            return;
        };
        let mut servers = self.lock(now);
        servers.retain(|(of, _)| *of != server);
        servers.push_back((server, until));
        let beyond = servers.len().saturating_sub(self.limits.servers);
        servers.drain(..beyond);
    }

    /// Until when a server is not asked.
    pub(crate) fn until(&self, server: SocketAddr, now: Instant) -> Option<Instant> {
        let servers = self.lock(now);
        let found = servers.iter().find(|(of, _)| *of == server);
        found.map(|(_, until)| *until)
    }

    fn lock(&self, now: Instant) -> MutexGuard<'_, VecDeque<(SocketAddr, Instant)>> {
        let mut servers = self.servers.lock().unwrap_or_else(PoisonError::into_inner);
        // All stay equally long: the oldest go first.
        while servers.front().is_some_and(|(_, until)| *until <= now) {
            servers.pop_front();
        }
        servers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn server(port: u16) -> SocketAddr {
        ([192, 0, 2, 1], port).into()
    }

    #[test]
    fn a_server_is_forgotten_after_its_time_or_when_there_are_too_many() {
        let limits = Shun {
            servers: 3,
            time: Duration::from_secs(60),
        };
        let shunned = Shunned::new(limits);
        let begin = Instant::now();
        let at = |seconds| begin + Duration::from_secs(seconds);
        let known = |now| {
            let all = (1..=5).filter(|port| shunned.until(server(*port), now).is_some());
            all.collect::<Vec<_>>()
        };
        shunned.remember(server(1), at(0));
        shunned.remember(server(2), at(30));
        assert_eq!(known(at(59)), [1, 2]);
        assert_eq!(known(at(60)), [2]);
        shunned.remember(server(3), at(61));
        shunned.remember(server(4), at(62));
        // It misunderstood once more: its time begins anew.
        shunned.remember(server(2), at(63));
        assert_eq!(shunned.until(server(2), at(63)), Some(at(123)));
        shunned.remember(server(5), at(64));
        assert_eq!(known(at(64)), [2, 4, 5]);
        assert!(known(at(125)).is_empty());
    }

    #[test]
    fn no_server_is_remembered_where_there_is_no_room() {
        let limits = Shun {
            servers: 0,
            time: Duration::from_secs(60),
        };
        let shunned = Shunned::new(limits);
        shunned.remember(server(1), Instant::now());
        assert_eq!(shunned.until(server(1), Instant::now()), None);
    }
}
