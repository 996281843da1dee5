//! Interfaces, addresses, routes and neighbours, as the kernel reports them by rtnetlink.
//!
//! No right is needed to ask.

mod kernel;
mod netlink;
mod pause;

use std::net::IpAddr;

use smc_proto::path::Route;
use smc_proto::wire::types::Mac;

use crate::pnet::PnetId;
pub use kernel::{neighbour, route};
pub use pause::Pause;

/// The interfaces of this host at some time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Network {
    /// The interfaces.
    pub interfaces: Vec<Interface>,
}

/// An interface.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Interface {
    /// Index of the interface, from 1.
    pub index: u32,
    /// Name of the interface.
    pub name: String,
    /// MAC of the interface; zero if it has none.
    pub mac: Mac,
    /// MTU of the interface.
    pub mtu: u32,
    /// Whether it is up and has a carrier.
    pub running: bool,
    /// VLAN of this interface itself.
    pub vlan: Option<u16>,
    /// Index of the interface it is on.
    pub lower: Option<u32>,
    /// Index of the bond or bridge it is a part of.
    pub master: Option<u32>,
    /// Physical network of the interface, as the hardware reports it.
    pub pnet: Option<PnetId>,
    /// Addresses of the interface, and the bits of their networks.
    pub addresses: Vec<(IpAddr, u8)>,
}

/// How packets get somewhere.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hop {
    /// Interface they leave by.
    pub interface: u32,
    /// The gateway, if there is one.
    pub gateway: Option<IpAddr>,
}

impl Hop {
    /// Returns the hop in the form that the engine takes.
    #[must_use]
    pub const fn route(hop: Option<Self>) -> Route {
        match hop {
            Some(Self { gateway: None, .. }) => Route::Direct,
            Some(_) => Route::Gateway,
            None => Route::None,
        }
    }
}

/// Most interfaces that are on each other.
const DEPTH: usize = 8;

impl Network {
    /// An interface.
    #[must_use]
    pub fn interface(&self, index: u32) -> Option<&Interface> {
        self.interfaces.iter().find(|of| of.index == index)
    }

    /// The interface that has an address.
    #[must_use]
    pub fn holder(&self, address: IpAddr) -> Option<&Interface> {
        let has = |of: &&Interface| of.addresses.iter().any(|(own, _)| *own == address);
        self.interfaces.iter().find(has)
    }

    /// The interface that all others of a stack are on.
    #[must_use]
    pub fn base<'a>(&'a self, of: &'a Interface) -> &'a Interface {
        self.stack(of).last().unwrap_or(of)
    }

    /// VLAN of an interface, or of the first one below that has one.
    #[must_use]
    pub fn vlan(&self, of: &Interface) -> Option<u16> {
        self.stack(of).find_map(|of| of.vlan)
    }

    /// An interface and those below it.
    fn stack<'a>(&'a self, of: &'a Interface) -> impl Iterator<Item = &'a Interface> {
        std::iter::successors(Some(of), |of| {
            let part = |other: &&Interface| other.master == Some(of.index);
            match of.lower {
                Some(lower) => self.interface(lower),
                None => self.interfaces.iter().find(part),
            }
        })
        .take(DEPTH)
    }
}

impl Interface {
    /// The network of an address of this interface, and its bits.
    #[must_use]
    pub fn network_of(&self, address: IpAddr) -> Option<(IpAddr, u8)> {
        let mut all = self.addresses.iter();
        let bits = all.find(|(own, _)| *own == address)?.1;
        Some((network(address, bits), bits))
    }

    /// Whether an address lies in a network of this interface.
    #[must_use]
    pub fn is_near(&self, address: IpAddr) -> bool {
        self.addresses.iter().any(|(own, bits)| {
            own.is_ipv4() == address.is_ipv4() && network(*own, *bits) == network(address, *bits)
        })
    }
}

/// The first `bits` of an address; the others are zero.
#[must_use]
pub fn network(address: IpAddr, bits: u8) -> IpAddr {
    let bits = u32::from(bits);
    match address {
        IpAddr::V4(address) => {
            let mask = u32::MAX.checked_shl(32_u32.saturating_sub(bits));
            IpAddr::V4((address.to_bits() & mask.unwrap_or(0)).into())
        }
        IpAddr::V6(address) => {
            let mask = u128::MAX.checked_shl(128_u32.saturating_sub(bits));
            IpAddr::V6((address.to_bits() & mask.unwrap_or(0)).into())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(index: u32, name: &str) -> Interface {
        Interface {
            index,
            name: name.to_owned(),
            ..Interface::default()
        }
    }

    #[test]
    fn a_vlan_over_a_bond_stands_on_the_bonds_first_part() {
        let mut vlan = interface(9, "bond0.7");
        (vlan.vlan, vlan.lower) = (Some(7), Some(5));
        let mut part = interface(2, "eth0");
        part.master = Some(5);
        let interfaces = vec![part, interface(5, "bond0"), vlan, interface(7, "eth1")];
        let network = Network { interfaces };
        let of = |index| network.interface(index).unwrap();
        assert_eq!(network.base(of(9)).name, "eth0");
        assert_eq!(network.vlan(of(9)), Some(7));
        assert_eq!(network.base(of(7)).name, "eth1");
        assert_eq!(network.vlan(of(5)), None);
    }

    #[test]
    fn interfaces_that_stand_on_themselves_end_nowhere_else() {
        let mut of = interface(3, "odd");
        of.lower = Some(3);
        let network = Network {
            interfaces: vec![of.clone()],
        };
        assert_eq!(network.base(&of), &of);
    }

    #[test]
    fn networks_are_the_first_bits() {
        let of = |text: &str, bits| network(text.parse().unwrap(), bits).to_string();
        assert_eq!(of("10.9.8.7", 24), "10.9.8.0");
        assert_eq!(of("10.9.8.7", 0), "0.0.0.0");
        assert_eq!(of("10.9.8.7", 32), "10.9.8.7");
        assert_eq!(of("fd00:1:2:3::4", 48), "fd00:1:2::");
        let mut eth = interface(1, "eth0");
        eth.addresses.push(("10.9.8.7".parse().unwrap(), 24));
        assert!(eth.is_near("10.9.8.200".parse().unwrap()));
        assert!(!eth.is_near("10.9.9.7".parse().unwrap()));
        assert!(!eth.is_near("::".parse().unwrap()));
    }
}
