//! Frames of a network interface, as they pass.
//!
//! A packet socket is given copies of all frames; nothing on the interface changes. It takes
//! CAP_NET_RAW, as tcpdump does.

mod socket;

use std::io;
use std::os::fd::AsFd;
use std::time::{SystemTime, UNIX_EPOCH};

use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use rustix::event::{PollFd, PollFlags, poll};
use smc_capture::CaptureError;
use smc_capture::frame::LinkType;
use smc_capture::reader::CapturedFrame;

use super::Output;
use crate::output::reason;
use socket::{Packet, Socket};

/// Types of hardware: an Ethernet, and the loopback, which has its header.
const ETHERNET: u16 = libc::ARPHRD_ETHER;
const LOOPBACK: u16 = libc::ARPHRD_LOOPBACK;

/// Bytes of an Ethernet header before its type: a VLAN tag is there.
const ADDRESSES: usize = 12;

/// A capture of an interface, until a signal or a number of frames ends it.
pub(super) struct Capture {
    socket: Socket,
    link: LinkType,
    /// Frames that are taken.
    most: u64,
    signals: SignalFd,
    /// The signals that were blocked before.
    before: SigSet,
}

/// Begins to capture. SIGINT and SIGTERM end it instead of this process.
pub(super) fn open(interface: &str, most: u64) -> io::Result<Capture> {
    let (socket, link) = match interface {
        "any" => (Socket::open(None, false)?, LinkType::LinuxCooked),
        name => {
            let socket = Socket::open(Some(name), true)?;
            match socket.hardware()? {
                ETHERNET | LOOPBACK => (socket, LinkType::Ethernet),
                // A header that nothing here knows is left away by the kernel.
                _ => (Socket::open(Some(name), false)?, LinkType::LinuxCooked),
            }
        }
    };
    let mut ending = SigSet::empty();
    ending.add(Signal::SIGINT);
    ending.add(Signal::SIGTERM);
    let before = ending.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let signals = SignalFd::with_flags(&ending, SfdFlags::SFD_CLOEXEC)?;
    Ok(Capture {
        socket,
        link,
        most,
        signals,
        before,
    })
}

/// Why there is no capture.
pub(super) fn sentence(interface: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => format!(
            "{interface}: {}: capturing takes CAP_NET_RAW, as of tcpdump: run it by sudo, or \
             give it that with `setcap cap_net_raw=ep`",
            reason(error)
        ),
        _ => format!("{interface}: {}", reason(error)),
    }
}

impl Capture {
    /// Frames that came, and frames for which the kernel had no room.
    pub(super) fn counts(&self) -> io::Result<(u64, u64)> {
        self.socket.counts()
    }

    /// The next frame; `None` at the end.
    fn next(&self) -> io::Result<Option<Packet>> {
        loop {
            let mut waited = [
                PollFd::from_borrowed_fd(self.socket.as_fd(), PollFlags::IN),
                PollFd::from_borrowed_fd(self.signals.as_fd(), PollFlags::IN),
            ];
            match poll(&mut waited, None) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            let [packets, signals] = waited;
            if !signals.revents().is_empty() {
                return Ok(None);
            }
            if packets.revents().is_empty() {
                continue;
            }
            match self.socket.receive() {
                Ok(packet) => {
                    // The loopback shows each frame as it leaves, and as it comes.
                    let twice = packet.hardware == LOOPBACK && packet.is_outgoing;
                    if !twice {
                        return Ok(Some(packet));
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        // Signals that came meanwhile are taken, so that they do not end the process before
        // it has shown its counts.
        let _ = rustix::io::ioctl_fionbio(&self.signals, true);
        while let Ok(Some(_)) = self.signals.read_signal() {}
        let _ = self.before.thread_set_mask();
    }
}

/// The frames of a capture. What is shown is written out before they are waited for.
pub(super) struct Frames<'a, 'b> {
    capture: &'a Capture,
    output: &'a Output<'b>,
    count: u64,
}

impl<'a, 'b> Frames<'a, 'b> {
    pub(super) const fn new(capture: &'a Capture, output: &'a Output<'b>) -> Self {
        Self {
            capture,
            output,
            count: 0,
        }
    }

    fn frame(&mut self, packet: Packet) -> CapturedFrame {
        self.count += 1;
        let now = || SystemTime::now().duration_since(UNIX_EPOCH).ok();
        let time = packet.time.or_else(now).unwrap_or_default();
        let bytes = match self.capture.link {
            LinkType::Ethernet => tagged(packet.bytes, packet.vlan),
            _ => cooked(&packet.address, packet.bytes),
        };
        CapturedFrame {
            number: self.count,
            time: u64::try_from(time.as_nanos()).unwrap_or(u64::MAX),
            link: self.capture.link,
            original_length: packet.length,
            bytes,
        }
    }
}

impl Iterator for Frames<'_, '_> {
    type Item = Result<CapturedFrame, CaptureError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.count >= self.capture.most {
            return None;
        }
        if let Err(error) = self.output.flush() {
            return Some(Err(error.into()));
        }
        match self.capture.next() {
            Ok(packet) => Some(Ok(self.frame(packet?))),
            Err(error) => Some(Err(error.into())),
        }
    }
}

/// A frame with the VLAN tag that the kernel took from it.
fn tagged(mut bytes: Vec<u8>, tag: Option<[u8; 4]>) -> Vec<u8> {
    if let Some(tag) = tag.filter(|_| bytes.len() >= ADDRESSES) {
        bytes.splice(ADDRESSES..ADDRESSES, tag);
    }
    bytes
}

/// A packet behind the header of Linux cooked captures.
fn cooked(address: &libc::sockaddr_ll, payload: Vec<u8>) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(16 + payload.len());
    bytes.extend(u16::from(address.sll_pkttype).to_be_bytes());
    bytes.extend(address.sll_hatype.to_be_bytes());
    bytes.extend(u16::from(address.sll_halen).to_be_bytes());
    bytes.extend(address.sll_addr);
    // It is in the order of the network already.
    bytes.extend(address.sll_protocol.to_ne_bytes());
    bytes.extend(payload);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tag_stands_between_the_addresses_and_the_type() {
        let frame: Vec<u8> = (0..20).collect();
        assert_eq!(tagged(frame.clone(), None), frame);
        let with = tagged(frame.clone(), Some([0x81, 0, 0, 5]));
        assert_eq!(with[..12], frame[..12]);
        assert_eq!(with[12..16], [0x81, 0, 0, 5]);
        assert_eq!(with[16..], frame[12..]);
        assert_eq!(tagged(vec![1; 11], Some([0x81, 0, 0, 5])), vec![1; 11]);
    }
}
