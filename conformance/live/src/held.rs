//! RNICs of the peer, and what it has of them: queue pairs and memory.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use conformance::scripts::{Failed, Target};
use smc_transport_verbs::rnic::Rnic;

use crate::link::Link;
use crate::names::Possessions;
use crate::rmb::Rmb;
use crate::wire::Nic;

/// RNICs and what the peer has of them.
pub(crate) struct Held<R: Rnic> {
    /// By link; before the RNICs, which go last.
    pub(crate) links: BTreeMap<u8, Link<R>>,
    pub(crate) rmbs: BTreeMap<u8, Rmb>,
    /// The first link of the group of a connection.
    pub(crate) groups: BTreeMap<u8, u8>,
    pub(crate) nics: Vec<Nic<R>>,
}

impl<R: Rnic> Held<R> {
    pub(crate) fn link_to(&mut self, over: Target) -> Result<(&mut Link<R>, &R), Failed> {
        let Target::Qp(qpn) = over else {
            return Err("no RNIC carries SMC-D".to_owned());
        };
        let mut links = self.links.values_mut();
        let link = links.find(|link| link.peer == Some(qpn));
        let link = link.ok_or_else(|| format!("no link goes to queue pair {qpn:#x}"))?;
        let nic = self.nics.get(link.rnic).ok_or("the RNIC is gone")?;
        Ok((link, &nic.rnic))
    }

    pub(crate) fn link(&mut self, number: u8) -> Result<&mut Link<R>, String> {
        match self.links.entry(number) {
            Entry::Occupied(link) => Ok(link.into_mut()),
            Entry::Vacant(place) => {
                let rnic = usize::from(number % 10).saturating_sub(1) % self.nics.len().max(1);
                Ok(place.insert(Link::new(&self.nics, rnic, number)?))
            }
        }
    }
}

impl<R: Rnic> Possessions for Held<R> {
    fn queue_pair(&mut self, link: u8) -> Result<(u32, u32), String> {
        let link = self.link(link)?;
        Ok((link.qpn, link.psn.value()))
    }

    fn memory(&mut self, number: u8, conn: u8) -> Result<(u32, u64), String> {
        let group = self.groups.get(&conn).map_or(0, |first| first / 10 * 10);
        let memory = match self.rmbs.entry(conn) {
            Entry::Occupied(rmb) => rmb.get().memory.clone(),
            Entry::Vacant(place) => {
                let rmb = Rmb::new().map_err(|error| error.to_string())?;
                place.insert(rmb).memory.clone()
            }
        };
        let rnic = self.link(group + number)?.rnic;
        let parts = self.links.get_mut(&(group + number));
        let (link, nic) = parts.zip(self.nics.get(rnic)).ok_or("the RNIC is gone")?;
        let rnic = &nic.rnic;
        link.register(rnic, conn, &memory)?;
        let region = link.rmbs.get(&conn).ok_or_else(String::new)?;
        let token = rnic.token(region);
        Ok((token.rkey.0, token.address))
    }

    fn memory_with(&self, rkey: u32) -> Option<(u8, u8, u64)> {
        self.links.iter().find_map(|(number, link)| {
            let rnic = &self.nics.get(link.rnic)?.rnic;
            let mut rmbs = link.rmbs.iter();
            rmbs.find_map(|(conn, region)| {
                let token = rnic.token(region);
                (token.rkey.0 == rkey).then_some((number % 10, *conn, token.address))
            })
        })
    }
}
