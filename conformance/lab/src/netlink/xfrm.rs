//! Policies of IPsec, of which one drops what soft-RoCE receives: TCP goes on as it was.

use std::io;

use super::message::{ACK, CREATE, Request};
use super::socket::Socket;

const NEW_POLICY: u16 = 0x13;
const DELETE_POLICY: u16 = 0x14;
const IN: u8 = 0;
const BLOCK: u8 = 1;
const AF_INET: u16 = 2;
const UDP: u8 = 17;
/// RoCEv2's.
const PORT: u16 = 4_791;

/// Whether RoCE over IPv4 is dropped when it arrives.
///
/// # Errors
/// Of the kernel.
pub fn block_roce(block: bool) -> io::Result<()> {
    let request = match block {
        true => Request::new(NEW_POLICY, ACK | CREATE, &policy()),
        false => Request::new(DELETE_POLICY, ACK, &identity()),
    };
    Socket::xfrm()?.ask(request).map(drop)
}

/// `xfrm_selector`: all UDP to that port. Destination and source address of 16 bytes,
/// ports with masks be16, family u16, prefix lengths u8, protocol u8, pad, interface i32,
/// user u32.
fn selector() -> Vec<u8> {
    let mut bytes = vec![0; 32];
    for number in [PORT, u16::MAX, 0, 0] {
        bytes.extend_from_slice(&number.to_be_bytes());
    }
    bytes.extend_from_slice(&AF_INET.to_ne_bytes());
    bytes.extend_from_slice(&[0, 0, UDP]);
    bytes.resize(56, 0);
    bytes
}

/// `xfrm_userpolicy_info`: the selector, eight limits u64, four counts u64, priority u32,
/// index u32, direction u8, action u8, flags u8, share u8, pad.
fn policy() -> Vec<u8> {
    let mut bytes = selector();
    // Without limits.
    bytes.extend_from_slice(&[0xff; 4 * 8]);
    bytes.resize(56 + 64 + 32 + 8, 0);
    bytes.extend_from_slice(&[IN, BLOCK, 0, 0]);
    bytes.resize(168, 0);
    bytes
}

/// `xfrm_userpolicy_id`: the selector, index u32, direction u8, pad.
fn identity() -> Vec<u8> {
    let mut bytes = selector();
    bytes.resize(60, 0);
    bytes.push(IN);
    bytes.resize(64, 0);
    bytes
}
