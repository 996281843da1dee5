//! A network of a thread's own, and what passes its only wire.

use std::io;
use std::num::NonZeroU32;
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recv, socket_with};
use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use smc_attacks::Network;
use smc_sockets::tcp_option::{OptionError, TcpOption};

/// SMC's option, from its kind to its number.
const OPTION: [u8; 6] = [254, 6, 0xe2, 0xd4, 0xc3, 0xd9];
const SYN: u8 = 0x02;
const ACK: u8 = 0x10;

/// Runs a test in a network of its own, on a thread of its own, with the program
/// attached, where there are the rights. A check (`CI=true`) has to have them.
pub(crate) fn with_option(test: impl FnOnce(&TcpOption) + Send) {
    let network = match Network::new() {
        Ok(network) => network,
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            return skipped(format_args!("no network of one's own: {error}"));
        }
        Err(error) => panic!("a network of one's own: {error}"),
    };
    let run = || {
        match TcpOption::attach() {
            Ok(option) => test(&option),
            Err(error @ (OptionError::MissingCapabilities(_) | OptionError::NoCgroup)) => {
                skipped(format_args!("{error}"));
            }
            Err(error) => panic!("{error}"),
        }
        Ok(())
    };
    network.enter(run).expect("a thread inside");
}

/// The rights are missing: no test is run, which a check must not take for success.
fn skipped(why: std::fmt::Arguments<'_>) {
    let check = std::env::var_os("CI").is_some_and(|ci| ci == "true");
    assert!(
        !check,
        "a check needs root, and the option's program: {why}"
    );
    eprintln!("SKIPPED: {why}");
}

/// Gives up all capabilities of this thread.
pub(crate) fn give_up_rights() {
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    set_capabilities(None, none).unwrap();
}

/// Which segments had the option.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    pub(crate) syn: bool,
    pub(crate) syn_ack: bool,
    pub(crate) later: bool,
}

/// All frames of this network.
pub(crate) struct Wire(OwnedFd);

impl Wire {
    pub(crate) fn tap() -> Self {
        // ETH_P_ALL in network order.
        let all = Protocol::from_raw(NonZeroU32::new(u32::from(3_u16.to_be())).unwrap());
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        Self(socket_with(AddressFamily::PACKET, SocketType::RAW, flags, Some(all)).unwrap())
    }

    /// What passed from or to a port.
    pub(crate) fn seen(&self, port: u16) -> Seen {
        let mut seen = Seen::default();
        let mut segments = 0;
        let mut frame = [0; 65_536];
        while let Ok((count, _)) = recv(&self.0, &mut frame[..], RecvFlags::empty()) {
            let Some(segment) = segment(&frame[..count]) else {
                continue;
            };
            let ports = [0, 2].map(|at| u16::from_be_bytes([segment[at], segment[at + 1]]));
            if !ports.contains(&port) {
                continue;
            }
            segments += 1;
            let header = usize::from(segment[12] >> 4) * 4;
            let found = segment[20..header]
                .windows(OPTION.len())
                .any(|octets| octets == OPTION);
            match segment[13] & (SYN | ACK) {
                SYN => seen.syn |= found,
                flags if flags == SYN | ACK => seen.syn_ack |= found,
                _ => seen.later |= found,
            }
        }
        assert!(segments > 4, "the wire was watched");
        seen
    }
}

/// The TCP segment of an Ethernet frame.
fn segment(frame: &[u8]) -> Option<&[u8]> {
    const TCP: u8 = 6;
    let packet = frame.get(14..)?;
    match u16::from_be_bytes([frame[12], frame[13]]) {
        0x0800 if packet.get(9) == Some(&TCP) => packet.get(usize::from(packet[0] & 15) * 4..),
        0x86dd if packet.get(6) == Some(&TCP) => packet.get(40..),
        _ => None,
    }
}
