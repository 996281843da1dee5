//! The address that a connection reaches whose program connects to the unspecified address.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::AsFd;

use crate::sys::is_bound_to_interface;

/// The address to which the kernel connects a TCP socket that is to connect to `to`: for the
/// unspecified address it is one of this host, as Linux has it.
///
/// | `to` | socket bound to | the connection goes to |
/// |---|---|---|
/// | `0.0.0.0`, `::ffff:0.0.0.0` | an IPv4 address | that address |
/// | `0.0.0.0`, `::ffff:0.0.0.0` | none | `127.0.0.1` |
/// | `::` | an IPv4-mapped address | `::ffff:127.0.0.1` |
/// | `::` | an IPv6 address, or none | `::1` |
///
/// Any other address is returned as it is, and so is the unspecified one of a socket that is bound
/// to an interface, whose address the kernel would take.
//= SHM-005
#[must_use]
pub fn destination(tcp: impl AsFd, to: SocketAddr) -> SocketAddr {
    // A kernel that does not know the option is not to be guessed for.
    if !is_unspecified(to.ip()) || is_bound_to_interface(&tcp).unwrap_or(true) {
        return to;
    }
    let bound = rustix::net::getsockname(tcp);
    let bound = bound.ok().and_then(|at| SocketAddr::try_from(at).ok());
    SocketAddr::new(reached(to.ip(), bound.map(|at| at.ip())), to.port())
}

/// The address to which the kernel connects a new TCP socket that is to connect to `to`, as
/// [`destination`] has it for one that is not bound.
//= SHM-005
#[must_use]
pub fn unbound_destination(to: SocketAddr) -> SocketAddr {
    match is_unspecified(to.ip()) {
        true => SocketAddr::new(reached(to.ip(), None), to.port()),
        false => to,
    }
}

fn is_unspecified(ip: IpAddr) -> bool {
    ip.to_canonical().is_unspecified()
}

/// The address that is reached by the unspecified one from a socket bound to `bound`.
fn reached(unspecified: IpAddr, bound: Option<IpAddr>) -> IpAddr {
    let bound = bound.map(|ip| (ip, ip.to_canonical()));
    match (unspecified, unspecified.to_canonical(), bound) {
        (_, IpAddr::V4(_), Some((own, IpAddr::V4(ip)))) if !ip.is_unspecified() => own,
        (IpAddr::V4(_), ..) => Ipv4Addr::LOCALHOST.into(),
        (_, IpAddr::V4(_), _) | (_, _, Some((IpAddr::V6(_), IpAddr::V4(_)))) => {
            Ipv4Addr::LOCALHOST.to_ipv6_mapped().into()
        }
        _ => Ipv6Addr::LOCALHOST.into(),
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};

    use super::*;

    /// Connects a socket that is bound to `bound`, if to any, to the port of a listener of all
    /// addresses. Returns what was predicted, and the address that the kernel has connected to.
    fn predicted(to: &str, bound: Option<&str>) -> (SocketAddr, SocketAddr) {
        let to: IpAddr = to.parse().unwrap();
        let (family, any) = match to {
            IpAddr::V4(_) => (AddressFamily::INET, "0.0.0.0:0"),
            IpAddr::V6(_) => (AddressFamily::INET6, "[::]:0"),
        };
        let listener = TcpListener::bind(any).unwrap();
        let to = SocketAddr::new(to, listener.local_addr().unwrap().port());
        let tcp = socket(family, SocketType::STREAM, None).unwrap();
        if let Some(bound) = bound {
            bind(&tcp, &SocketAddr::new(bound.parse().unwrap(), 0)).unwrap();
        }
        let predicted = destination(&tcp, to);
        if bound.is_none() {
            assert_eq!(unbound_destination(to), predicted);
        }
        connect(&tcp, &to).unwrap();
        (predicted, TcpStream::from(tcp).peer_addr().unwrap())
    }

    //= SHM-005 test
    #[test]
    fn the_kernel_connects_to_the_address_that_is_predicted() {
        for (to, bound) in [
            ("0.0.0.0", None),
            ("0.0.0.0", Some("0.0.0.0")),
            ("0.0.0.0", Some("127.0.0.5")),
            ("127.0.0.3", Some("127.0.0.5")),
            ("::", None),
            ("::", Some("::1")),
            ("::", Some("::ffff:0.0.0.0")),
            ("::", Some("::ffff:127.0.0.5")),
            ("::ffff:0.0.0.0", None),
            ("::ffff:0.0.0.0", Some("::ffff:0.0.0.0")),
            ("::ffff:0.0.0.0", Some("::ffff:127.0.0.5")),
            ("::ffff:127.0.0.3", None),
        ] {
            let (predicted, reached) = predicted(to, bound);
            assert_eq!(predicted, reached, "{to} from {bound:?}");
        }
    }
}
