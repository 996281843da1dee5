//! Whether a port can carry SMC-R, and why not.

use std::fmt;
use std::net::Ipv6Addr;

use super::{Listed, ListedPort};
use crate::network::Network;
use crate::ports::GidKind;

/// The versions of SMC-R that a port's GIDs serve.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Versions {
    /// A GID of RoCEv1, for version 1.
    pub v1: bool,
    /// A GID of RoCEv2 that is an IPv4 address, for version 2.
    pub v2: bool,
}

/// Why a port cannot carry SMC-R.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Obstacle {
    /// The device is none that serves.
    Node(String),
    /// Processes cannot use the device: the module for that is not loaded.
    NoVerbs,
    /// The port is not active; its state.
    State(String),
    /// The port is one of InfiniBand.
    NotEthernet,
    /// The port has no GID with an interface of this network namespace.
    NoInterface,
    /// The interface of the port is down, or has no carrier.
    Interface(String),
    /// None of its GIDs serves either version.
    NoGid,
}

impl Listed {
    /// The versions that a port of this device serves.
    ///
    /// # Errors
    /// What is in the way, all of it.
    pub fn usable(&self, of: &ListedPort, network: &Network) -> Result<Versions, Vec<Obstacle>> {
        let mut obstacles = Vec::new();
        if self.node != "CA" && self.node != "RNIC" {
            obstacles.push(Obstacle::Node(self.node.clone()));
        }
        if self.verbs.is_none() {
            obstacles.push(Obstacle::NoVerbs);
        }
        if !of.port.active {
            obstacles.push(Obstacle::State(of.state.clone()));
        }
        if !of.port.ethernet {
            obstacles.push(Obstacle::NotEthernet);
        }
        let here = |index| network.interface(index);
        let mut interfaces = of.port.gids.iter().filter_map(|gid| here(gid.interface));
        match interfaces.next() {
            None => obstacles.push(Obstacle::NoInterface),
            Some(first) if !first.running => {
                obstacles.push(Obstacle::Interface(first.name.clone()));
            }
            Some(_) => {}
        }
        let versions = of.versions();
        if versions == Versions::default() {
            obstacles.push(Obstacle::NoGid);
        }
        match obstacles.is_empty() {
            true => Ok(versions),
            false => Err(obstacles),
        }
    }
}

impl ListedPort {
    /// The versions that the port's GIDs serve.
    #[must_use]
    pub fn versions(&self) -> Versions {
        let mut versions = Versions::default();
        for entry in &self.port.gids {
            match entry.kind {
                GidKind::RoceV1 => versions.v1 = true,
                //= V2-028
                GidKind::RoceV2 => {
                    let gid = Ipv6Addr::from(entry.gid.0);
                    versions.v2 |= gid.to_ipv4_mapped().is_some();
                }
                GidKind::InfiniBand | GidKind::Other(_) => {}
            }
        }
        versions
    }
}

/// Writes the obstacle as part of a sentence.
impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(kind) => write!(f, "the device is a {kind}"),
            Self::NoVerbs => {
                f.write_str("processes cannot use the device: the module ib_uverbs is not loaded")
            }
            Self::State(state) => write!(f, "the port is {state}"),
            Self::NotEthernet => f.write_str("the port is not one of Ethernet"),
            Self::NoInterface => f.write_str("the port has no interface in this network namespace"),
            Self::Interface(name) => write!(f, "{name} is down, or has no carrier"),
            Self::NoGid => f.write_str(
                "the port has neither a GID of RoCE v1 nor one of RoCE v2 that is an IPv4 address",
            ),
        }
    }
}
