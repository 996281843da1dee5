//! Soft-RoCE devices.

use std::io;

use super::message::{ACK, Attributes, DUMP, Request};
use super::socket::Socket;

/// The client `RDMA_NL_NLDEV` in the upper bits of a type.
const DEVICES: u16 = 5 << 10;
const GET: u16 = DEVICES | 1;
const NEW_LINK: u16 = DEVICES | 3;
const DELETE_LINK: u16 = DEVICES | 4;
const RESOURCES: u16 = DEVICES | 9;
const DEVICE_INDEX: u16 = 1;
const DEVICE_NAME: u16 = 2;
/// A nest of entries, each with a name and a count u64.
const SUMMARY: u16 = 15;
const ENTRY_NAME: u16 = 17;
const ENTRY_COUNT: u16 = 18;
const INTERFACE: u16 = 51;
const LINK_TYPE: u16 = 65;

/// Makes a soft-RoCE device on an interface.
///
/// # Errors
/// Of the kernel; without its module crc32_generic, that there is no such file.
pub fn add(device: &str, interface: &str) -> io::Result<()> {
    let request = Request::new(NEW_LINK, ACK, &[])
        .text(DEVICE_NAME, device)
        .text(INTERFACE, interface)
        .text(LINK_TYPE, "rxe");
    Socket::rdma()?.ask(request).map(drop)
}

/// What all devices hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// Queue pairs.
    pub queue_pairs: u64,
    /// Memory regions.
    pub regions: u64,
}

/// Counts what all devices hold.
///
/// # Errors
/// Of the kernel.
pub fn resources() -> io::Result<Resources> {
    let mut all = Resources::default();
    for message in Socket::rdma()?.ask(Request::new(RESOURCES, DUMP, &[]))? {
        let entries = message.attributes(0).nest(SUMMARY);
        for (_, entry) in entries.into_iter().flatten() {
            let entry = Attributes(entry);
            let count = entry.u64(ENTRY_COUNT).unwrap_or_default();
            match entry.get(ENTRY_NAME) {
                Some(b"qp\0") => all.queue_pairs += count,
                Some(b"mr\0") => all.regions += count,
                _ => {}
            }
        }
    }
    Ok(all)
}

/// Removes it.
///
/// # Errors
/// Of the kernel, or that there is no such device.
pub fn remove(device: &str) -> io::Result<()> {
    let socket = Socket::rdma()?;
    let named = format!("{device}\0");
    let devices = socket.ask(Request::new(GET, DUMP, &[]))?;
    let found = devices.iter().map(|message| message.attributes(0));
    let index = found
        .filter(|attributes| attributes.get(DEVICE_NAME) == Some(named.as_bytes()))
        .find_map(|attributes| attributes.u32(DEVICE_INDEX));
    let index = index.ok_or(io::ErrorKind::NotFound)?;
    let request = Request::new(DELETE_LINK, ACK, &[]).attribute(DEVICE_INDEX, &index.to_ne_bytes());
    socket.ask(request).map(drop)
}
