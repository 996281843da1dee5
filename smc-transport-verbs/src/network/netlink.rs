//! Messages of rtnetlink, whose numbers are in the host's order.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use smc_proto::wire::types::Mac;

use super::{Hop, Interface};

pub(super) const NEW_LINK: u16 = 16;
pub(super) const GET_LINK: u16 = 18;
pub(super) const NEW_ADDRESS: u16 = 20;
pub(super) const GET_ADDRESS: u16 = 22;
pub(super) const NEW_ROUTE: u16 = 24;
pub(super) const GET_ROUTE: u16 = 26;
pub(super) const NEW_NEIGHBOUR: u16 = 28;
pub(super) const GET_NEIGHBOUR: u16 = 30;

const ERROR: u16 = 2;
const DONE: u16 = 3;
const REQUEST: u16 = 1;
const DUMP: u16 = 0x300;

const INET: u8 = 2;
const INET6: u8 = 10;

/// A request.
pub(super) struct Request(Vec<u8>);

impl Request {
    /// One for everything of a kind; `header` is what all messages of it begin with.
    pub(super) fn dump(kind: u16, header: &[u8]) -> Self {
        Self::new(kind, REQUEST | DUMP, header)
    }

    /// One for a single thing.
    pub(super) fn single(kind: u16, header: &[u8]) -> Self {
        Self::new(kind, REQUEST, header)
    }

    fn new(kind: u16, flags: u16, header: &[u8]) -> Self {
        let mut bytes = vec![0; 16];
        bytes[4..6].copy_from_slice(&kind.to_ne_bytes());
        bytes[6..8].copy_from_slice(&flags.to_ne_bytes());
        bytes.extend_from_slice(header);
        Self(bytes)
    }

    /// Adds an attribute.
    pub(super) fn with(mut self, kind: u16, value: &[u8]) -> Self {
        self.0.extend(Self::attribute(kind, value));
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// An attribute by itself.
    pub(super) fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
        // None of ours is longer than an address.
        let len = 4 + value.len() as u16;
        [&len.to_ne_bytes(), &kind.to_ne_bytes(), value].concat()
    }

    pub(super) fn octets(mut self) -> Vec<u8> {
        let len = self.0.len() as u32;
        self.0[..4].copy_from_slice(&len.to_ne_bytes());
        self.0
    }
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(*bytes.get(at..)?.first_chunk()?))
}

/// What an answer consists of.
#[derive(PartialEq, Eq, Debug)]
pub(super) enum Part<'a> {
    Message { kind: u16, body: &'a [u8] },
    Error(i32),
    Done,
}

/// The parts of a datagram.
pub(super) fn parts(mut bytes: &[u8]) -> impl Iterator<Item = Part<'_>> {
    std::iter::from_fn(move || {
        let len = usize::try_from(u32_at(bytes, 0)?).ok()?;
        let kind = u16_at(bytes, 4)?;
        let body = bytes.get(16..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(match kind {
            DONE => Part::Done,
            ERROR => Part::Error(u32_at(body, 0)?.cast_signed()),
            _ => Part::Message { kind, body },
        })
    })
}

/// Attributes, by their kinds.
pub(super) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        const NESTED: u16 = 0x8000;
        let len = usize::from(u16_at(bytes, 0)?);
        let kind = u16_at(bytes, 2)? & !NESTED;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn address(value: &[u8]) -> Option<IpAddr> {
    if let Ok(bytes) = <[u8; 4]>::try_from(value) {
        return Some(Ipv4Addr::from(bytes).into());
    }
    let bytes = <[u8; 16]>::try_from(value).ok()?;
    Some(Ipv6Addr::from(bytes).into())
}

/// The bytes of an address, and its family.
pub(super) fn bytes_of(address: IpAddr) -> (u8, Vec<u8>) {
    match address {
        IpAddr::V4(address) => (INET, address.octets().into()),
        IpAddr::V6(address) => (INET6, address.octets().into()),
    }
}

/// An interface, without addresses.
pub(super) fn interface(body: &[u8]) -> Option<Interface> {
    const UP: u32 = 1;
    const RUNNING: u32 = 0x40;
    let flags = u32_at(body, 8)?;
    let mut of = Interface {
        index: u32_at(body, 4)?,
        running: flags & (UP | RUNNING) == UP | RUNNING,
        ..Interface::default()
    };
    let mut stands_on = None;
    let mut kind: &[u8] = &[];
    for (attribute, value) in attributes(body.get(16..)?) {
        match attribute {
            1 => of.mac = Mac(value.try_into().unwrap_or_default()),
            3 => of.name = text(value),
            4 => of.mtu = u32_at(value, 0)?,
            5 => stands_on = u32_at(value, 0),
            10 => of.master = u32_at(value, 0),
            18 => {
                for (attribute, value) in attributes(value) {
                    match attribute {
                        1 => kind = value.strip_suffix(b"\0").unwrap_or(value),
                        2 if kind == b"vlan" => {
                            let mut data = attributes(value);
                            let id = data.find(|(attribute, _)| *attribute == 1);
                            of.vlan = id.and_then(|(_, value)| u16_at(value, 0));
                        }
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    // For others, such as a veth, that is the other end.
    if matches!(kind, b"vlan" | b"macvlan" | b"macvtap" | b"ipvlan") {
        of.lower = stands_on.filter(|lower| *lower != of.index);
    }
    Some(of)
}

fn text(value: &[u8]) -> String {
    let value = value.strip_suffix(b"\0").unwrap_or(value);
    String::from_utf8_lossy(value).into_owned()
}

/// An address of an interface: the interface, the address, the bits of its network.
pub(super) fn interface_address(body: &[u8]) -> Option<(u32, IpAddr, u8)> {
    let bits = *body.get(1)?;
    let index = u32_at(body, 4)?;
    let (mut own, mut remote) = (None, None);
    for (attribute, value) in attributes(body.get(8..)?) {
        match attribute {
            1 => remote = address(value),
            2 => own = address(value),
            _ => {}
        }
    }
    // Point to point, the first one is the other end's.
    Some((index, own.or(remote)?, bits))
}

/// A route; `None` if it leads nowhere.
pub(super) fn hop(body: &[u8]) -> Option<Hop> {
    const UNICAST: u8 = 1;
    const LOCAL: u8 = 2;
    if !matches!(*body.get(7)?, UNICAST | LOCAL) {
        return None;
    }
    let (mut interface, mut gateway) = (None, None);
    for (attribute, value) in attributes(body.get(12..)?) {
        match attribute {
            4 => interface = u32_at(value, 0),
            5 => gateway = address(value),
            // A gateway of the other family.
            18 => gateway = value.get(2..).and_then(address),
            _ => {}
        }
    }
    let interface = interface?;
    Some(Hop { interface, gateway })
}

/// A neighbour: its interface, its address, its MAC.
pub(super) fn neighbour(body: &[u8]) -> Option<(u32, IpAddr, Mac)> {
    const INCOMPLETE: u16 = 1;
    const FAILED: u16 = 0x20;
    let index = u32_at(body, 4)?;
    if u16_at(body, 8)? & (INCOMPLETE | FAILED) != 0 {
        return None;
    }
    let (mut of, mut mac) = (None, None);
    for (attribute, value) in attributes(body.get(12..)?) {
        match attribute {
            1 => of = address(value),
            2 => mac = value.try_into().ok().map(Mac),
            _ => {}
        }
    }
    Some((index, of?, mac?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(request: Request) -> Vec<u8> {
        request.octets()[16..].to_vec()
    }

    #[test]
    fn a_vlan_names_its_lower_interface_and_a_veth_does_not() {
        let header = [[0; 4], 3u32.to_ne_bytes(), 0x41u32.to_ne_bytes(), [0; 4]];
        let nested = |kind: &[u8]| {
            let id = body(Request::single(0, &[]).with(1, &7u16.to_ne_bytes()));
            body(Request::single(0, &[]).with(1, kind).with(2, &id))
        };
        let link = |kind: &[u8]| {
            body(
                Request::single(NEW_LINK, header.as_flattened())
                    .with(3, b"eth0.7\0")
                    .with(1, &[2, 0, 0, 0, 0, 9])
                    .with(4, &1500u32.to_ne_bytes())
                    .with(5, &2u32.to_ne_bytes())
                    .with(18, &nested(kind)),
            )
        };
        let of = interface(&link(b"vlan\0")).unwrap();
        assert_eq!((of.index, of.name.as_str(), of.mtu), (3, "eth0.7", 1500));
        assert_eq!((of.vlan, of.lower, of.running), (Some(7), Some(2), true));
        assert_eq!(of.mac, Mac([2, 0, 0, 0, 0, 9]));
        let of = interface(&link(b"veth\0")).unwrap();
        assert_eq!((of.vlan, of.lower), (None, None));
    }

    #[test]
    fn routes_lead_directly_through_a_gateway_or_nowhere() {
        let route = |kind: u8| {
            let header = [2, 32, 0, 0, 254, 0, 0, kind, 0, 0, 0, 0];
            Request::single(NEW_ROUTE, &header).with(4, &5u32.to_ne_bytes())
        };
        let interface = 5;
        let mut gateway = None;
        assert_eq!(hop(&body(route(1))), Some(Hop { interface, gateway }));
        gateway = Some("10.0.0.1".parse().unwrap());
        let through = route(1).with(5, &[10, 0, 0, 1]);
        assert_eq!(hop(&body(through)), Some(Hop { interface, gateway }));
        assert_eq!(hop(&body(route(7))), None);
    }

    #[test]
    fn bytes_of_any_kind_are_no_harm() {
        let mut seed = 9u64;
        for len in 0..400 {
            let bytes: Vec<u8> = (0..len)
                .map(|_| {
                    seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1);
                    // Small numbers are lengths now and then.
                    (seed >> 56) as u8 & [0xff, 0x1f][(seed >> 40) as usize & 1]
                })
                .collect();
            let _ = (interface(&bytes), interface_address(&bytes));
            let _ = (hop(&bytes), neighbour(&bytes), parts(&bytes).count());
        }
    }

    #[test]
    fn errors_and_the_end_are_distinguished_from_messages() {
        let mut bytes = Request::single(NEW_LINK, &[1, 2, 3, 4]).octets();
        bytes.extend(Request::single(ERROR, &(-101i32).to_ne_bytes()).octets());
        bytes.extend(Request::single(DONE, &[0; 4]).octets());
        let parts: Vec<_> = parts(&bytes).collect();
        let kind = NEW_LINK;
        let body = &[1, 2, 3, 4][..];
        let message = Part::Message { kind, body };
        assert_eq!(parts, [message, Part::Error(-101), Part::Done]);
    }
}
