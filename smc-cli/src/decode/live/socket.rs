//! A packet socket.

use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};

/// Bytes of the largest frame that is taken whole: more than a segment of TCP that the
/// kernel or a device has put together.
const LARGEST: usize = 256 << 10;
/// Bytes that wait to be read: some milliseconds of a fast interface.
const ROOM: usize = 32 << 20;
/// Bytes of the kernel's control data about a frame.
const CONTROL: usize = 256;
/// The type of a frame with a VLAN tag.
const VLAN: u16 = 0x8100;

/// A packet socket of one interface or of all.
pub(super) struct Socket(OwnedFd);

/// A frame, and the kernel's control data about it.
pub(super) struct Packet {
    pub(super) bytes: Vec<u8>,
    /// Length of the frame in bytes.
    pub(super) length: u32,
    /// Since 1970, if the kernel noted it.
    pub(super) time: Option<Duration>,
    /// The type of its interface.
    pub(super) hardware: u16,
    pub(super) is_outgoing: bool,
    /// The VLAN tag that was taken from it.
    pub(super) vlan: Option<[u8; 4]>,
    pub(super) address: libc::sockaddr_ll,
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// An address of packet sockets with zeros.
fn nowhere() -> libc::sockaddr_ll {
    libc::sockaddr_ll {
        sll_family: libc::AF_PACKET as u16,
        sll_protocol: 0,
        sll_ifindex: 0,
        sll_hatype: 0,
        sll_pkttype: 0,
        sll_halen: 0,
        sll_addr: [0; 8],
    }
}

const ADDRESS: libc::socklen_t = size_of::<libc::sockaddr_ll>() as libc::socklen_t;

impl Socket {
    /// Opens the socket; with or without the headers of the interface's own.
    pub(super) fn open(interface: Option<&str>, with_headers: bool) -> io::Result<Self> {
        let kind = match with_headers {
            true => SocketType::RAW,
            false => SocketType::DGRAM,
        };
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        // Without a protocol, nothing comes before it is bound.
        let socket = rustix::net::socket_with(AddressFamily::PACKET, kind, flags, None)?;
        let mut address = nowhere();
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        if let Some(name) = interface {
            let index = rustix::net::netdevice::name_to_index(&socket, name)?;
            address.sll_ifindex = index.cast_signed();
        }
        if sockopt::set_socket_recv_buffer_size_force(&socket, ROOM).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, ROOM)?;
        }
        let this = Self(socket);
        this.set(libc::SOL_SOCKET, libc::SO_TIMESTAMPNS)?;
        this.set(libc::SOL_PACKET, libc::PACKET_AUXDATA)?;
        // SAFETY: the address lives during the call, and has this size.
        let bound = unsafe { libc::bind(this.0.as_raw_fd(), (&raw const address).cast(), ADDRESS) };
        match bound {
            0 => Ok(this),
            _ => Err(io::Error::last_os_error()),
        }
    }

    fn set(&self, level: i32, option: i32) -> io::Result<()> {
        let on: libc::c_int = 1;
        let size = size_of::<libc::c_int>() as libc::socklen_t;
        // SAFETY: the value lives during the call, and has this size.
        let set = unsafe {
            let value = (&raw const on).cast();
            libc::setsockopt(self.0.as_raw_fd(), level, option, value, size)
        };
        match set {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// The type of the interface's hardware.
    pub(super) fn hardware(&self) -> io::Result<u16> {
        let (mut address, mut size) = (nowhere(), ADDRESS);
        // SAFETY: the kernel writes at most `size` bytes, which the address has.
        let named = unsafe {
            libc::getsockname(self.0.as_raw_fd(), (&raw mut address).cast(), &raw mut size)
        };
        match named {
            0 => Ok(address.sll_hatype),
            _ => Err(io::Error::last_os_error()),
        }
    }

    /// Takes a frame that is there.
    pub(super) fn receive(&self) -> io::Result<Packet> {
        let mut bytes = vec![0_u8; LARGEST];
        let mut control = Control([0; CONTROL]);
        let mut address = nowhere();
        let mut into = libc::iovec {
            iov_base: bytes.as_mut_ptr().cast(),
            iov_len: bytes.len(),
        };
        // SAFETY: a message header of zeros is a valid one: without buffers.
        let mut message: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
        message.msg_name = (&raw mut address).cast();
        message.msg_namelen = ADDRESS;
        message.msg_iov = &raw mut into;
        message.msg_iovlen = 1;
        message.msg_control = control.0.as_mut_ptr().cast();
        message.msg_controllen = CONTROL as _;
        // SAFETY: all buffers live during the call and have the sizes that the header states.
        let length =
            unsafe { libc::recvmsg(self.0.as_raw_fd(), &raw mut message, libc::MSG_TRUNC) };
        let length = usize::try_from(length).map_err(|_| io::Error::last_os_error())?;
        bytes.truncate(length);
        bytes.shrink_to_fit();
        let (time, vlan) = notes(&message);
        Ok(Packet {
            bytes,
            length: u32::try_from(length).unwrap_or(u32::MAX),
            time,
            hardware: address.sll_hatype,
            is_outgoing: address.sll_pkttype == libc::PACKET_OUTGOING,
            vlan,
            address,
        })
    }

    /// Frames that came since the last call, and frames for which there was no room.
    pub(super) fn counts(&self) -> io::Result<(u64, u64)> {
        let mut counts = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut size = size_of::<libc::tpacket_stats>() as libc::socklen_t;
        // SAFETY: the kernel writes at most `size` bytes, which the value has.
        let got = unsafe {
            libc::getsockopt(
                self.0.as_raw_fd(),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut size,
            )
        };
        match got {
            0 => Ok((counts.tp_packets.into(), counts.tp_drops.into())),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Memory for control messages, which begin at a multiple of their size.
#[repr(align(8))]
struct Control([u8; CONTROL]);

/// When a frame came, and the VLAN tag that was taken from it.
fn notes(message: &libc::msghdr) -> (Option<Duration>, Option<[u8; 4]>) {
    let (mut time, mut vlan) = (None, None);
    // SAFETY: the kernel filled the header's control buffer, which still lives.
    let mut at = unsafe { libc::CMSG_FIRSTHDR(message) };
    while !at.is_null() {
        // SAFETY: CMSG_FIRSTHDR and CMSG_NXTHDR give null or a header within the buffer.
        let header = unsafe { *at };
        // SAFETY: as above.
        let data = unsafe { libc::CMSG_DATA(at) };
        // SAFETY: the function only computes a length.
        let has =
            |size: usize| unsafe { libc::CMSG_LEN(size as _) } as usize <= header.cmsg_len as usize;
        match (header.cmsg_level, header.cmsg_type) {
            (libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS) if has(size_of::<libc::timespec>()) => {
                // SAFETY: the message has as many bytes; they may lie anywhere.
                let of: libc::timespec = unsafe { data.cast::<libc::timespec>().read_unaligned() };
                let seconds = u64::try_from(of.tv_sec).ok();
                let nanos = u32::try_from(of.tv_nsec)
                    .ok()
                    .filter(|of| *of < 1_000_000_000);
                time = seconds.zip(nanos).map(|(s, n)| Duration::new(s, n));
            }
            (libc::SOL_PACKET, libc::PACKET_AUXDATA) if has(size_of::<libc::tpacket_auxdata>()) => {
                // SAFETY: as above.
                let of = unsafe { data.cast::<libc::tpacket_auxdata>().read_unaligned() };
                vlan = tag(&of);
            }
            _ => {}
        }
        // SAFETY: as for the first.
        at = unsafe { libc::CMSG_NXTHDR(message, at) };
    }
    (time, vlan)
}

fn tag(of: &libc::tpacket_auxdata) -> Option<[u8; 4]> {
    if of.tp_status & libc::TP_STATUS_VLAN_VALID == 0 {
        return None;
    }
    let has_type = of.tp_status & libc::TP_STATUS_VLAN_TPID_VALID != 0;
    let kind = if has_type { of.tp_vlan_tpid } else { VLAN };
    let ([a, b], [c, d]) = (kind.to_be_bytes(), of.tp_vlan_tci.to_be_bytes());
    Some([a, b, c, d])
}
