//! Asking the kernel.

use std::io;
use std::net::IpAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use smc_proto::wire::types::Mac;

use super::netlink::{self, Part, Request};
use super::{Hop, Network};
use crate::pnet::PnetId;

/// More than the kernel puts in a datagram.
const DATAGRAM: usize = 64 << 10;

pub(super) struct Netlink(OwnedFd);

impl Netlink {
    fn open() -> io::Result<Self> {
        // Of the protocols of netlink the first one is that of routes.
        Self::of(None)
    }

    /// One for families that are asked for by name.
    pub(super) fn generic() -> io::Result<Self> {
        Self::of(Some(rustix::net::netlink::GENERIC))
    }

    fn of(protocol: Option<Protocol>) -> io::Result<Self> {
        let family = AddressFamily::NETLINK;
        let flags = SocketFlags::CLOEXEC;
        let socket = rustix::net::socket_with(family, SocketType::RAW, flags, protocol)?;
        Ok(Self(socket))
    }

    /// Sends a request and passes each message of the answer to `receive`. Without `dump`
    /// the answer is one message.
    pub(super) fn ask(
        &self,
        request: Request,
        dump: bool,
        mut receive: impl FnMut(u16, &[u8]),
    ) -> io::Result<()> {
        rustix::net::send(&self.0, &request.octets(), SendFlags::empty())?;
        let mut bytes = vec![0; DATAGRAM];
        loop {
            let received = rustix::net::recv(&self.0, &mut bytes, RecvFlags::empty());
            let len = match received {
                Ok((len, _)) => len,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            };
            for part in netlink::parts(bytes.get(..len).unwrap_or_default()) {
                match part {
                    Part::Message { kind, body } => receive(kind, body),
                    Part::Error(0) | Part::Done => return Ok(()),
                    Part::Error(errno) => {
                        return Err(io::Error::from_raw_os_error(errno.saturating_abs()));
                    }
                }
            }
            if !dump {
                return Ok(());
            }
        }
    }
}

impl Network {
    /// The interfaces as they are now.
    ///
    /// # Errors
    /// The system's.
    pub fn read() -> io::Result<Self> {
        let kernel = Netlink::open()?;
        let mut network = Self::default();
        let request = Request::dump(netlink::GET_LINK, &[0; 16]);
        kernel.ask(request, true, |kind, body| {
            if let (netlink::NEW_LINK, Some(mut of)) = (kind, netlink::interface(body)) {
                of.pnet = hardware_pnet(&of.name);
                network.interfaces.push(of);
            }
        })?;
        let request = Request::dump(netlink::GET_ADDRESS, &[0; 8]);
        kernel.ask(request, true, |kind, body| {
            let found = netlink::interface_address(body);
            if let (netlink::NEW_ADDRESS, Some((index, address, bits))) = (kind, found) {
                let mut all = network.interfaces.iter_mut();
                if let Some(of) = all.find(|of| of.index == index) {
                    of.addresses.push((address, bits));
                }
            }
        })?;
        Ok(network)
    }
}

/// The PNET ID of the hardware behind an interface.
fn hardware_pnet(name: &str) -> Option<PnetId> {
    let device = Path::new("/sys/class/net").join(name);
    let port = std::fs::read_to_string(device.join("dev_port")).unwrap_or_default();
    PnetId::of_hardware(&device, port.trim().parse().unwrap_or(0))
}

/// The way to an address, for packets from another one; `None` if there is none.
///
/// # Errors
/// The system's.
pub fn route(from: Option<IpAddr>, to: IpAddr) -> io::Result<Option<Hop>> {
    let (family, bytes) = netlink::bytes_of(to);
    let bits = (bytes.len() * 8) as u8;
    let from = from.map(netlink::bytes_of);
    let from = from.filter(|(of, _)| *of == family);
    let from_bits = if from.is_some() { bits } else { 0 };
    let header = [family, bits, from_bits, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let mut request = Request::single(netlink::GET_ROUTE, &header).with(1, &bytes);
    if let Some((_, bytes)) = from {
        request = request.with(2, &bytes);
    }
    let mut found = None;
    let answer = Netlink::open()?.ask(request, false, |kind, body| {
        if kind == netlink::NEW_ROUTE {
            found = netlink::hop(body);
        }
    });
    match answer {
        Ok(()) => Ok(found),
        // Unreachable, prohibited, or a source that is not of this host.
        Err(error) => match error.raw_os_error() {
            Some(libc::ENETUNREACH | libc::EHOSTUNREACH | libc::EACCES | libc::EINVAL) => Ok(None),
            _ => Err(error),
        },
    }
}

/// The MAC of a neighbour, if it is known.
///
/// # Errors
/// The system's.
pub fn neighbour(interface: u32, address: IpAddr) -> io::Result<Option<Mac>> {
    let mut found = None;
    let (family, _) = netlink::bytes_of(address);
    let header = [family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let request = Request::dump(netlink::GET_NEIGHBOUR, &header);
    Netlink::open()?.ask(request, true, |kind, body| {
        if let (netlink::NEW_NEIGHBOUR, Some((of, own, mac))) = (kind, netlink::neighbour(body))
            && (of, own) == (interface, address)
        {
            found = Some(mac);
        }
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_host_has_a_loopback_and_a_way_to_it() {
        let network = Network::read().unwrap();
        let address = "127.0.0.1".parse().unwrap();
        let Some(lo) = network.holder(address) else {
            // In a network namespace where it is down.
            assert!(network.interfaces.iter().any(|of| of.name == "lo"));
            return;
        };
        assert_eq!((lo.name.as_str(), lo.vlan), ("lo", None));
        assert_eq!(
            lo.network_of(address),
            Some(("127.0.0.0".parse().unwrap(), 8))
        );
        let hop = route(Some(address), address).unwrap().unwrap();
        assert_eq!((hop.interface, hop.gateway), (lo.index, None));
        assert_eq!(
            neighbour(lo.index, "127.9.9.9".parse().unwrap()).unwrap(),
            None
        );
        // No interface has this address.
        assert!(network.holder("192.0.2.77".parse().unwrap()).is_none());
        assert_eq!(
            route(Some("192.0.2.77".parse().unwrap()), address).unwrap(),
            None
        );
    }
}
