//! Cache of the servers that this process has paired with over shared memory, by address. The
//! next connection to an address is announced to the peers that accept there, without a query to
//! the kernel. [`super`] adds and reads servers, [`super::announced`] removes those that do not
//! answer, both on any thread.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use smc_transport_ism::shared::pairing::Peer;

/// Most addresses in the cache; a further one evicts the lowest address.
const MAX_SERVERS: usize = 1024;

/// Most processes in the cache for one listener; a further one evicts the one whose last pairing
/// is oldest.
const MAX_WORKERS: usize = 16;

/// Which peers accept at an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Server {
    /// One process, whose listener no other process shares.
    One(Peer),
    /// Processes that share a listener and have accepted connections, the last to pair at the
    /// end. Processes that are not listed may accept, too.
    Workers(Vec<Peer>),
}

impl Server {
    /// The peers that have accepted connections.
    pub(crate) fn peers(&self) -> &[Peer] {
        match self {
            Self::One(peer) => std::slice::from_ref(peer),
            Self::Workers(peers) => peers,
        }
    }
}

/// The cache, by the addresses of the servers.
#[derive(Debug, Default)]
pub(crate) struct KnownServers(Mutex<BTreeMap<SocketAddr, Server>>);

impl KnownServers {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Server>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The server at an address, if this process has paired with it.
    pub(crate) fn get(&self, address: SocketAddr) -> Option<Server> {
        self.lock().get(&address).cloned()
    }

    /// Remembers a peer that has accepted at an address, where its listener is the only one.
    pub(super) fn remember(&self, address: SocketAddr, peer: Peer) {
        insert(&mut self.lock(), address, Server::One(peer));
    }

    /// Remembers a peer that has accepted at an address and called the client back, as one of the
    /// processes that share the listener.
    //= SHM-080
    pub(super) fn remember_worker(&self, address: SocketAddr, peer: Peer) {
        let mut all = self.lock();
        let mut workers = match all.remove(&address) {
            Some(Server::Workers(workers)) => workers,
            Some(Server::One(_)) | None => Vec::new(),
        };
        workers.retain(|known| *known != peer);
        if workers.len() >= MAX_WORKERS {
            workers.remove(0);
        }
        workers.push(peer);
        insert(&mut all, address, Server::Workers(workers));
    }

    /// Removes the server at an address, after it did not answer or did not pair.
    pub(super) fn forget(&self, address: SocketAddr) {
        self.lock().remove(&address);
    }
}

fn insert(all: &mut BTreeMap<SocketAddr, Server>, address: SocketAddr, server: Server) {
    if all.len() >= MAX_SERVERS && !all.contains_key(&address) {
        all.pop_first();
    }
    all.insert(address, server);
}

#[cfg(test)]
mod tests {
    use smc_transport_ism::device::Gid128;
    use smc_transport_ism::shared::pairing::Peer;

    use super::{KnownServers, MAX_SERVERS, MAX_WORKERS, Server};

    fn peer(gid: usize) -> Peer {
        let gid = Gid128 {
            gid: gid as u64,
            ext: 0,
        };
        Peer { gid, uid: 1 }
    }

    //= SHM-080 test
    #[test]
    fn the_workers_of_a_listener_are_bounded_and_so_are_the_addresses() {
        let servers = KnownServers::default();
        let at = |port: usize| ([127, 0, 0, 1], port as u16).into();
        for gid in 0..=MAX_WORKERS {
            servers.remember_worker(at(1), peer(gid));
            servers.remember_worker(at(1), peer(gid));
        }
        let server = servers.get(at(1)).unwrap();
        assert_eq!(server.peers().len(), MAX_WORKERS);
        assert!(!server.peers().contains(&peer(0)));
        servers.remember(at(1), peer(7));
        assert_eq!(servers.get(at(1)), Some(Server::One(peer(7))));
        for port in 0..2 * MAX_SERVERS {
            servers.remember_worker(at(port), peer(port));
        }
        assert_eq!(servers.lock().len(), MAX_SERVERS);
    }
}
