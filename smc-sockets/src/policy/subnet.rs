//! Addresses and ports as a policy names them.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use smc_transport_verbs::network::network;

/// Addresses with the same first bits; IPv4 is IPv4, however it is written.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Subnet {
    /// The first of them.
    network: IpAddr,
    bits: u8,
}

impl Subnet {
    /// All addresses of a family.
    #[must_use]
    pub(super) const fn all(of: IpAddr) -> Self {
        Self {
            network: of,
            bits: 0,
        }
    }

    /// Whether an address is one of them.
    #[must_use]
    pub fn holds(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        address.is_ipv4() == self.network.is_ipv4() && network(address, self.bits) == self.network
    }
}

/// `10.0.0.0/8`, `fd00::/8`, or an address.
impl FromStr for Subnet {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let address: IpAddr = address
            .parse()
            .map_err(|_| format!("\"{text}\" is neither an address nor a subnet"))?;
        let most = if address.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) => bits
                .parse()
                .ok()
                .filter(|bits| *bits <= most)
                .ok_or_else(|| format!("\"{text}\": a prefix has 0 to {most} bits"))?,
        };
        let all = network(address, bits);
        if all != address {
            return Err(format!(
                "\"{text}\" has bits behind its prefix; the subnet is {all}/{bits}"
            ));
        }
        // What is written as a mapped address means the one in it.
        match address.to_canonical() {
            canonical if canonical.is_ipv4() && !address.is_ipv4() && bits >= 96 => Ok(Self {
                network: canonical,
                bits: bits - 96,
            }),
            _ => Ok(Self {
                network: address,
                bits,
            }),
        }
    }
}

impl fmt::Display for Subnet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.network, self.bits) {
            (IpAddr::V4(address), 32) => write!(f, "{address}"),
            (IpAddr::V6(address), 128) => write!(f, "{address}"),
            (address, bits) => write!(f, "{address}/{bits}"),
        }
    }
}

/// Ports from one to another.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Every port.
    pub const ALL: Self = Self {
        first: 0,
        last: u16::MAX,
    };

    /// One port.
    #[must_use]
    pub const fn one(port: u16) -> Self {
        Self {
            first: port,
            last: port,
        }
    }

    /// Whether a port is one of them.
    #[must_use]
    pub const fn holds(&self, port: u16) -> bool {
        self.first <= port && port <= self.last
    }
}

/// `5000`, or `5000-5099`.
impl FromStr for PortRange {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let port = |text: &str| text.trim().parse::<u16>().ok();
        match (port(first), port(last)) {
            (Some(first), Some(last)) if first <= last => Ok(Self { first, last }),
            _ => Err(format!("\"{text}\" is neither a port nor a range of ports")),
        }
    }
}
