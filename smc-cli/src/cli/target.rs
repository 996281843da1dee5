//! Hosts and ports, as netcat takes them.

use std::io;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use clap::Args;

/// A host and a port.
#[derive(Args, Debug)]
pub struct Target {
    /// Host, or host and port with a colon in between; a port alone to listen on all
    /// addresses, of IPv4 and IPv6.
    #[arg(value_name = "HOST[:PORT]")]
    pub host: String,
    /// Port.
    pub port: Option<u16>,
}

/// Where to connect to or to listen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum HostPort {
    /// A port of all addresses of this host.
    All(u16),
    /// A port of a host, whose name or address has no brackets.
    At(String, u16),
}

impl Target {
    /// Where to listen.
    ///
    /// # Errors
    /// A sentence that names what is missing or wrong.
    pub fn to_listen(&self) -> Result<HostPort, String> {
        let host = self.host.as_str();
        if let Some(port) = self.port {
            return Ok(HostPort::At(bare(host)?, port));
        }
        if let Some(port) = host.strip_prefix(':') {
            return Ok(HostPort::All(number(port)?));
        }
        if host.starts_with(|first: char| first.is_ascii_digit()) && !host.contains([':', '.']) {
            return Ok(HostPort::All(number(host)?));
        }
        split(host)
    }

    /// Where to connect to: a host, and a port other than 0.
    ///
    /// # Errors
    /// A sentence that names what is missing or wrong.
    pub fn to_connect(&self) -> Result<HostPort, String> {
        let place = match self.port {
            Some(port) => HostPort::At(bare(&self.host)?, port),
            None => split(&self.host)?,
        };
        match place {
            HostPort::At(_, 0) => Err("nothing can listen on port 0".to_owned()),
            place => Ok(place),
        }
    }
}

/// Takes "host:port" apart.
fn split(text: &str) -> Result<HostPort, String> {
    let missing = || format!("to which port of \"{text}\"?");
    let (host, port) = text.rsplit_once(':').ok_or_else(missing)?;
    if text.parse::<Ipv6Addr>().is_ok() {
        return Err(format!(
            "{}: write [{text}]:PORT, or {text} PORT",
            missing()
        ));
    }
    if text.ends_with(']') {
        return Err(missing());
    }
    Ok(HostPort::At(bare(host)?, number(port)?))
}

/// A host without its brackets.
fn bare(host: &str) -> Result<String, String> {
    let inner = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let address = inner.unwrap_or(host);
    // A scope follows an address of IPv6 behind a percent sign.
    let unscoped = address
        .split_once('%')
        .map_or(address, |(address, _)| address);
    let v6 = unscoped.parse::<Ipv6Addr>().is_ok();
    if address.is_empty() {
        return Err("which host?".to_owned());
    }
    if (inner.is_some() || address.contains(':')) && !v6 {
        return Err(format!(
            "\"{host}\" is neither a host nor an address of IPv6"
        ));
    }
    Ok(address.to_owned())
}

/// A port in digits.
pub(super) fn number(text: &str) -> Result<u16, String> {
    let digits = !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    let number = text.parse().ok().filter(|_| digits);
    number.ok_or_else(|| format!("\"{text}\" is no port: a number from 0 to 65535 is"))
}

impl HostPort {
    /// All addresses of it.
    ///
    /// # Errors
    /// The addresses of the resolver.
    pub fn resolve(&self) -> io::Result<Vec<SocketAddr>> {
        let (host, port) = match self {
            Self::All(port) => return Ok(vec![(Ipv6Addr::UNSPECIFIED, *port).into()]),
            Self::At(host, port) => (host.as_str(), *port),
        };
        let mut all: Vec<SocketAddr> = Vec::new();
        for address in (host, port).to_socket_addrs()? {
            if !all.contains(&address) {
                all.push(address);
            }
        }
        Ok(all)
    }
}

/// The target as a user writes it.
impl std::fmt::Display for HostPort {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::All(port) => write!(f, "port {port}"),
            Self::At(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::At(host, port) => write!(f, "{host}:{port}"),
        }
    }
}

/// An address of IPv4 in its own form, however the socket has it.
#[must_use]
pub fn canonical(address: SocketAddr) -> SocketAddr {
    match address.ip().to_canonical() {
        ip @ IpAddr::V4(_) => SocketAddr::new(ip, address.port()),
        // With its scope.
        IpAddr::V6(_) => address,
    }
}

#[cfg(test)]
mod tests {
    use super::{HostPort, Target};

    fn target(host: &str, port: Option<u16>) -> Target {
        Target {
            host: host.to_owned(),
            port,
        }
    }

    #[test]
    fn a_host_and_a_port_are_written_in_several_ways() {
        for (host, port, shown) in [
            ("db.example", Some(80), "db.example:80"),
            ("db.example:80", None, "db.example:80"),
            ("127.0.0.1:80", None, "127.0.0.1:80"),
            ("::1", Some(80), "[::1]:80"),
            ("[::1]", Some(80), "[::1]:80"),
            ("[::1]:80", None, "[::1]:80"),
            ("[fe80::1%eth0]:80", None, "[fe80::1%eth0]:80"),
            ("fe80::1%eth0", Some(80), "[fe80::1%eth0]:80"),
        ] {
            for place in [
                target(host, port).to_connect(),
                target(host, port).to_listen(),
            ] {
                assert_eq!(place.unwrap().to_string(), shown, "{host} {port:?}");
            }
        }
        for host in ["5000", ":5000"] {
            assert_eq!(target(host, None).to_listen(), Ok(HostPort::All(5000)));
        }
        let any = HostPort::At("127.0.0.1".to_owned(), 0);
        assert_eq!(target("127.0.0.1:0", None).to_listen(), Ok(any));
    }

    #[test]
    fn what_is_neither_is_named() {
        for (host, port) in [
            ("localhost:99999", None),
            ("localhost:65536", None),
            ("localhost:", None),
            ("localhost:+5", None),
            ("localhost:-1", None),
            ("localhost:http", None),
            ("localhost:80", Some(80)),
            ("localhost", None),
            ("::1", None),
            ("[::1]", None),
            ("[localhost]:80", None),
            ("[::1", Some(80)),
            ("a:b:80", None),
            ("", Some(80)),
            ("", None),
        ] {
            let target = target(host, port);
            assert!(target.to_connect().is_err(), "{host} {port:?}");
            assert!(target.to_listen().is_err(), "{host} {port:?}");
        }
        for (host, port) in [("5000", None), (":5000", None), ("localhost", Some(0))] {
            assert!(target(host, port).to_connect().is_err(), "{host} {port:?}");
        }
        assert!(target("99999", None).to_listen().is_err());
    }
}
