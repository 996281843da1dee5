//! Netlink: how Linux is configured and asked, without any tool.

pub mod message;
pub mod rdma;
pub mod route;
pub mod smc;
pub mod socket;
pub mod xfrm;

use std::io;

pub(crate) fn malformed(what: &str) -> io::Error {
    io::Error::new(
        io::ErrorKind::InvalidData,
        format!("malformed netlink message: {what}"),
    )
}
