//! Servers that this process has paired with: where they listen, and which peer accepts there.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use smc_transport_ism::shared::pairing::Peer;

/// Most addresses that are remembered; beyond that any is forgotten.
const MOST: usize = 1024;

/// Peers by the addresses at which they have accepted.
#[derive(Debug, Default)]
pub(crate) struct Met(Mutex<BTreeMap<SocketAddr, Peer>>);

impl Met {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<SocketAddr, Peer>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The peer that has accepted at an address.
    pub(crate) fn at(&self, address: SocketAddr) -> Option<Peer> {
        self.lock().get(&address).copied()
    }

    /// A peer has accepted at an address, at which one socket alone listens.
    pub(super) fn remember(&self, address: SocketAddr, peer: Peer) {
        let mut all = self.lock();
        if all.len() >= MOST && !all.contains_key(&address) {
            all.pop_first();
        }
        all.insert(address, peer);
    }

    /// The peer does not answer at this address any more.
    pub(super) fn forget(&self, address: SocketAddr) {
        self.lock().remove(&address);
    }
}
