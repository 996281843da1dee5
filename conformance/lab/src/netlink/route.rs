//! Interfaces and their addresses.

use std::fs;
use std::io;
use std::net::Ipv4Addr;

use super::malformed;
use super::message::{ACK, CREATE, Request};
use super::socket::Socket;

const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const DELETE_ADDRESS: u16 = 21;
/// `IFA_ADDRESS` and `IFA_LOCAL`.
const ADDRESS: u16 = 1;
const LOCAL: u16 = 2;
/// `IFA_FLAGS`, and `IFA_F_NOPREFIXROUTE`.
const FLAGS: u16 = 8;
const NO_ROUTE: u32 = 0x200;
const AF_INET: u8 = 2;
/// `IFF_UP`.
const UP: u32 = 1;

/// The number of an interface.
///
/// # Errors
/// If there is no such interface.
pub fn index(interface: &str) -> io::Result<u32> {
    let text = fs::read_to_string(format!("/sys/class/net/{interface}/ifindex"))?;
    text.trim()
        .parse()
        .map_err(|_| malformed("an interface's number"))
}

/// Brings an interface up or down.
///
/// # Errors
/// Of the kernel.
pub fn set_up(interface: &str, up: bool) -> io::Result<()> {
    // ifinfomsg: family u8, pad u8, type u16, index i32, flags u32, change u32
    let mut header = vec![0; 4];
    header.extend_from_slice(&index(interface)?.to_ne_bytes());
    header.extend_from_slice(&(if up { UP } else { 0 }).to_ne_bytes());
    header.extend_from_slice(&UP.to_ne_bytes());
    Socket::route()?
        .ask(Request::new(NEW_LINK, ACK, &header))
        .map(drop)
}

/// Gives an interface an address in a subnet of this prefix length.
///
/// # Errors
/// Of the kernel.
pub fn add_address(interface: &str, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
    let request = request(NEW_ADDRESS, ACK | CREATE, interface, address, prefix)?;
    Socket::route()?.ask(request).map(drop)
}

/// Adds an address without a route to the subnet: another interface has that.
///
/// # Errors
/// Of the kernel.
pub fn add_second_address(interface: &str, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
    let request = request(NEW_ADDRESS, ACK | CREATE, interface, address, prefix)?
        .attribute(FLAGS, &NO_ROUTE.to_ne_bytes());
    Socket::route()?.ask(request).map(drop)
}

/// Takes an address away.
///
/// # Errors
/// Of the kernel.
pub fn remove_address(interface: &str, address: Ipv4Addr, prefix: u8) -> io::Result<()> {
    let request = request(DELETE_ADDRESS, ACK, interface, address, prefix)?;
    Socket::route()?.ask(request).map(drop)
}

fn request(
    kind: u16,
    flags: u16,
    interface: &str,
    address: Ipv4Addr,
    prefix: u8,
) -> io::Result<Request> {
    // ifaddrmsg: family u8, prefix length u8, flags u8, scope u8, index u32
    let mut header = vec![AF_INET, prefix, 0, 0];
    header.extend_from_slice(&index(interface)?.to_ne_bytes());
    Ok(Request::new(kind, flags, &header)
        .attribute(LOCAL, &address.octets())
        .attribute(ADDRESS, &address.octets()))
}
