//! The IP networks in a Proposal: one IPv4 network, or IPv6 prefixes.

use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::{ClcParseError, MAX_ENTRIES, Parts, put};
use crate::wire::address::{Ipv4, Ipv6};
use crate::wire::types::BoundedList;

/// The IP networks of a client.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct Subnets {
    /// The four octets RFC 7609 calls mask and describes as subnet number;
    /// Linux puts the network address (AMB-09). Unspecified on IPv6.
    pub network: Ipv4Addr,
    /// Significant bits of the IPv4 mask, as sent; 0 on IPv6.
    pub prefix_length: u8,
    /// IPv6 prefixes; none on IPv4.
    pub ipv6: BoundedList<Ipv6Prefix, MAX_ENTRIES>,
}

impl Default for Subnets {
    fn default() -> Self {
        Self {
            network: Ipv4Addr::UNSPECIFIED,
            prefix_length: 0,
            ipv6: BoundedList::new(),
        }
    }
}

/// One IPv6 network of a client.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ipv6Prefix {
    /// The network.
    pub address: Ipv6Addr,
    /// Significant bits, as sent.
    pub length: u8,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawSubnets {
    network: [u8; 4],
    prefix_length: u8,
    reserved: [u8; 2],
    prefix_count: u8,
}
const _: () = assert!(size_of::<RawSubnets>() == 8);

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawPrefix {
    address: [u8; 16],
    length: u8,
}
//= CLC-025
const _: () = assert!(size_of::<RawPrefix>() == 17);

impl Subnets {
    /// One IPv4 network, with this many bits in its mask.
    #[must_use]
    pub const fn ipv4(network: Ipv4Addr, prefix_length: u8) -> Self {
        Self {
            network,
            prefix_length,
            ipv6: BoundedList::new(),
        }
    }

    /// IPv6 networks, of which the first 8 fit into a Proposal.
    #[must_use]
    pub fn ipv6(prefixes: impl IntoIterator<Item = Ipv6Prefix>) -> Self {
        Self {
            ipv6: prefixes.into_iter().collect(),
            ..Self::default()
        }
    }

    /// Whether an address of this host is in one of the client's networks: the LAN
    /// check of RFC 7609 3.5.1.2, whose outcome is [`LocalPath::subnet_match`].
    ///
    /// A length of 0, or one that no address has, is no network.
    ///
    /// [`LocalPath::subnet_match`]: crate::path::LocalPath::subnet_match
    #[must_use]
    pub fn contain(&self, address: IpAddr) -> bool {
        match address {
            //= RENDEZVOUS-004
            IpAddr::V4(address) => {
                let (own, network) = (address.to_bits(), self.network.to_bits());
                let differs = u128::from(own ^ network) << 96;
                matches!(self.prefix_length, 1..=32) && agrees(differs, self.prefix_length)
            }
            //= RENDEZVOUS-005
            IpAddr::V6(address) => self.ipv6.iter().any(|prefix| {
                let differs = address.to_bits() ^ prefix.address.to_bits();
                matches!(prefix.length, 1..=128) && agrees(differs, prefix.length)
            }),
        }
    }

    pub(super) fn parse(parts: &mut Parts<'_>) -> Result<Self, ClcParseError> {
        let raw: RawSubnets = parts.read()?;
        let count = raw.prefix_count;
        //= CLC-024
        if usize::from(count) > MAX_ENTRIES {
            return Err(ClcParseError::TooManyPrefixes { count });
        }
        let ipv6 = parts.list(count, |raw: RawPrefix| Ipv6Prefix {
            address: Ipv6Addr::from(raw.address),
            length: raw.length,
        })?;
        Ok(Self {
            network: Ipv4Addr::from(raw.network),
            prefix_length: raw.prefix_length,
            ipv6,
        })
    }

    pub(super) fn encoded_len(&self) -> usize {
        self.ipv6.len().saturating_mul(17).saturating_add(8)
    }

    /// Writes the networks and returns what is left of `buffer`.
    pub(super) fn write<'a>(&self, buffer: &'a mut [u8]) -> Option<&'a mut [u8]> {
        //= CLC-022
        //= CLC-023
        let raw = RawSubnets {
            network: self.network.octets(),
            prefix_length: self.prefix_length,
            reserved: [0; 2],
            prefix_count: self.ipv6.len() as u8,
        };
        let mut rest = put(buffer, &raw)?;
        for prefix in &self.ipv6 {
            let raw = RawPrefix {
                address: prefix.address.octets(),
                length: prefix.length,
            };
            rest = put(rest, &raw)?;
        }
        Some(rest)
    }
}

/// Whether the first `length` bits are the same, 1 to 128 of them.
fn agrees(differs: u128, length: u8) -> bool {
    differs.leading_zeros() >= u32::from(length)
}

impl fmt::Display for Subnets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let network = self.network.octets();
        write!(f, "{}/{}", Ipv4(&network), self.prefix_length)?;
        for prefix in &self.ipv6 {
            let address = prefix.address.octets();
            write!(f, ",{}/{}", Ipv6(&address), prefix.length)?;
        }
        Ok(())
    }
}
