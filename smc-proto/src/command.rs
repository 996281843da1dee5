//! What the engine asks of the world. These enums are exhaustive on purpose: a
//! new obligation must break every adapter.

#[cfg(feature = "smc-d")]
mod ism;

#[cfg(feature = "smc-d")]
pub use ism::{ISM_VLAN_V2, IsmCommand, Signal};

#[allow(deprecated)]
pub use crate::renamed::DataTurn;

use crate::connection::{Spans, segments};
use crate::id::{BufferId, ConnId, DeviceId, Idx, LinkId, WrId};
use crate::wire::cdc::{CDC_LENGTH, Cdc, ConnectionFlags, ProducerFlags};
use crate::wire::types::{AlertToken, Cursor, Gid, Mac, Mtu, Psn, Qpn, RKey};

/// Work for an RNIC, in the order it must be executed.
///
/// The adapter polls only when it can execute, keeps the order per link, and has
/// at most one control command in flight per object, so that the object's
/// handle in the [`RdmaCompletion`](crate::completion::RdmaCompletion) names the command that ended.
///
/// Every command but `Write` has an answer, and the engine waits for it: links and
/// buffers keep their place until their last command was answered.
///
/// # Several RNICs
///
/// A command is polled from the RNIC that is to execute it. For a link that is the one
/// it was created on. A buffer is memory that several RNICs use: registrations are
/// made and undone by the RNIC of the link they name; memory is provided, cleared and
/// freed by the RNIC that the group had when it needed the buffer, and stays that one's
/// although its links may be gone.
///
/// An RNIC of which [`DeviceRemoved`](crate::path::PathEvent::DeviceRemoved) was reported
/// has commands nevertheless: what existed on it is taken down in order. The adapter
/// goes on polling for it and answers as if it had executed them, because a queue pair
/// of an RNIC that is gone is drained and destroyed, and memory does not depend on it.
/// What cannot be done any more, such as a new queue pair, it refuses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RdmaCommand {
    /// Create a protection domain and an RC queue pair in state INIT for a link,
    /// and keep receives of `receive_size` bytes posted from then on.
    /// Answer: `QpCreated`.
    CreateQp {
        /// The link that will own the queue pair.
        link: LinkId,
        /// RNIC to use.
        device: DeviceId,
        /// Port of the RNIC.
        port: u8,
        /// Index of the GID in the port's table.
        gid_index: u16,
        /// Bytes of each receive: 44 in version 1, 8192 in version 2. Few messages
        /// of a link have more than 44, and never two at a time: what is longer may
        /// go to one buffer that all receives share.
        receive_size: u32,
    },
    /// Bind the queue pair to the peer's and move it to RTR. Answer: `QpConnected`.
    ConnectQp {
        /// The link.
        link: LinkId,
        /// The other end.
        peer: QpAddress,
        /// Path MTU, the smaller of both peers'.
        mtu: Mtu,
        /// Hop limit of the packets: 1 if both ends are in one subnet; 64 over an IP
        /// gateway, whose MAC is to be used instead of the peer's.
        hop_limit: u8,
    },
    /// Move the queue pair to RTS. Answer: `QpActive`.
    ActivateQp {
        /// The link.
        link: LinkId,
        /// First packet sequence number of this side.
        psn: Psn,
    },
    /// Move the queue pair to the error state and flush it. Answer: `QpDrained`,
    /// after which the NIC touches no memory on behalf of this link.
    QpToError {
        /// The link.
        link: LinkId,
    },
    /// Destroy queue pair and protection domain. Answer: `QpDestroyed`.
    DestroyQp {
        /// The link.
        link: LinkId,
    },
    /// Provide zeroed memory for a buffer. Answer: `BufferAllocated`.
    AllocBuffer {
        /// The buffer.
        buffer: BufferId,
        /// What it is for.
        kind: BufferKind,
        /// Number of elements, 1 to 255 for an RMB, 1 for a send buffer.
        elements: u8,
        /// Bytes of each element.
        element_size: u32,
        /// Whether to write [`EYE_CATCHER`] to the first four bytes of each
        /// element.
        eye_catcher: bool,
    },
    /// Register a buffer in the protection domain of a link. RMBs allow remote
    /// writes. Answer: `BufferRegistered`.
    RegisterBuffer {
        /// The buffer.
        buffer: BufferId,
        /// The link.
        link: LinkId,
    },
    /// Undo a registration. Answer: `BufferDeregistered`.
    DeregisterBuffer {
        /// The buffer.
        buffer: BufferId,
        /// The link.
        link: LinkId,
    },
    /// Give the memory of a buffer back. Answer: `BufferFreed`.
    FreeBuffer {
        /// The buffer.
        buffer: BufferId,
    },
    /// Zero one element of an RMB before its next use, then write the eye
    /// catcher if asked to. Answer: `ElementCleared`.
    ClearElement {
        /// The RMB.
        buffer: BufferId,
        /// First byte of the element in the RMB.
        offset: u32,
        /// Bytes of the element.
        length: u32,
        /// Whether to write [`EYE_CATCHER`] to the first four bytes.
        eye_catcher: bool,
    },
    /// RDMA WRITE from a send buffer into the peer's RMB; unsignalled. A SEND follows
    /// on the same link whatever becomes of the connection, unless the queue pair
    /// goes: until that completes, or `QpDrained`, the buffer is kept.
    Write {
        /// The link that carries it.
        link: LinkId,
        /// The connection it belongs to, for access errors.
        conn: ConnId,
        /// The send buffer.
        buffer: BufferId,
        /// What to write, one or two pieces of the buffer in this order; an
        /// unused second piece has length 0.
        source: [Segment; 2],
        /// Key of the peer's RMB on this link.
        rkey: RKey,
        /// Address in the peer's RMB of the first byte.
        address: u64,
    },
    /// SEND of 44 bytes, signalled and solicited, behind all writes before it.
    /// Answer: `Sent`.
    Send {
        /// The link that carries it.
        link: LinkId,
        /// Number of the SEND on the link.
        wr_id: WrId,
        /// The message.
        payload: [u8; 44],
    },
    /// A SEND of more than 44 bytes, signalled and solicited, behind all writes before
    /// it; only on links with receives of 8192 bytes. Its bytes are those that
    /// [`Endpoint::emit_llc`](crate::endpoint::Endpoint::emit_llc) writes, to be called
    /// before anything else. Answer: `Sent`.
    SendLarge {
        /// The link that carries it.
        link: LinkId,
        /// Number of the SEND on the link.
        wr_id: WrId,
        /// Bytes of the message, 45 to 8192.
        length: u32,
    },
}

/// Everything a connection sends in its transmit slot on a link: up to two RDMA WRITEs,
/// then the SEND that announces them, to be posted in this order.
///
/// Equivalent to [`RdmaCommand::Write`] for each of `writes` and [`RdmaCommand::Send`],
/// for adapters that post several work requests in one go.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DataTransmit {
    /// The link that carries it.
    pub link: LinkId,
    /// The connection it belongs to.
    pub conn: ConnId,
    /// The send buffer.
    pub buffer: BufferId,
    /// Key of the peer's RMB on this link.
    pub rkey: RKey,
    /// The WRITEs; an unused one has no bytes. Both are unused if there is only
    /// a CDC message to send.
    pub writes: [DataWrite; 2],
    /// Number of the SEND on its link.
    pub wr_id: WrId,
    /// The message to send, which [`payload`](Self::payload) has as bytes.
    pub cdc: Cdc,
}

impl DataTransmit {
    /// Nothing yet, to be filled by
    /// [`poll_data`](crate::endpoint::Endpoint::poll_data).
    pub const EMPTY: Self = Self {
        link: LinkId {
            index: Idx::NONE,
            generation: 0,
        },
        conn: ConnId {
            index: Idx::NONE,
            generation: 0,
        },
        buffer: BufferId {
            index: Idx::NONE,
            generation: 0,
        },
        rkey: RKey(0),
        writes: [DataWrite::NONE; 2],
        wr_id: WrId(0),
        cdc: Cdc {
            sequence: 0,
            alert_token: AlertToken(0),
            producer: Cursor { wrap: 0, count: 0 },
            consumer: Cursor { wrap: 0, count: 0 },
            producer_flags: ProducerFlags::empty(),
            connection_flags: ConnectionFlags::empty(),
        },
    };

    /// The bytes of the SEND.
    #[inline]
    #[must_use]
    pub fn payload(&self) -> [u8; CDC_LENGTH] {
        self.cdc.emit()
    }
}

/// One RDMA WRITE of a [`DataTransmit`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DataWrite {
    /// What to write, one or two pieces of the send buffer in this order; an
    /// unused piece has length 0.
    pub source: [Segment; 2],
    /// Address in the peer's RMB of the first byte.
    pub address: u64,
}

impl DataWrite {
    pub(crate) const NONE: Self = Self::new(
        [Segment {
            offset: 0,
            length: 0,
        }; 2],
        0,
    );

    /// A WRITE of these pieces to this address.
    #[inline]
    #[must_use]
    pub const fn new(source: [Segment; 2], address: u64) -> Self {
        Self { source, address }
    }

    /// Bytes to write.
    #[inline]
    #[must_use]
    pub const fn len(&self) -> u32 {
        let [first, second] = self.source;
        first.length.wrapping_add(second.length)
    }

    /// Whether there is nothing to write.
    #[inline]
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        let [first, _] = self.source;
        first.length == 0
    }
}

/// The other end of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub struct QpAddress {
    /// Number of the queue pair at the other end.
    pub qpn: Qpn,
    /// First packet sequence number it sends.
    pub psn: Psn,
    /// GID of its port.
    pub gid: Gid,
    /// MAC of its port.
    pub mac: Mac,
}

impl QpAddress {
    /// A queue pair at a port with this GID and MAC.
    #[must_use]
    pub const fn new(qpn: Qpn, psn: Psn, gid: Gid, mac: Mac) -> Self {
        Self { qpn, psn, gid, mac }
    }
}

/// A piece of a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// First byte, counted from the start of the buffer.
    pub offset: u32,
    /// Bytes, at least 1 unless unused.
    pub length: u32,
}

/// Pieces of a buffer in the embedder's memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct BufferSpans {
    /// The buffer.
    pub buffer: BufferId,
    /// One or two pieces in stream order; an unused one has length 0.
    pub segments: [Segment; 2],
    /// First byte of the connection's element in an RMB with eye catcher, to be
    /// compared with [`EYE_CATCHER`] before reading.
    pub eye_catcher_at: Option<u32>,
}

impl BufferSpans {
    /// Pieces of a buffer without eye catcher.
    #[inline(always)]
    #[must_use]
    pub const fn new(buffer: BufferId, segments: [Segment; 2]) -> Self {
        Self {
            buffer,
            segments,
            eye_catcher_at: None,
        }
    }

    /// Free space of a send buffer.
    #[inline(always)]
    pub(crate) fn of_send_buffer(buffer: BufferId, space: Spans) -> Self {
        Self::new(buffer, segments(space, 0))
    }

    /// Bytes in both pieces.
    #[must_use]
    pub const fn len(&self) -> u32 {
        let [first, second] = self.segments;
        first.length.saturating_add(second.length)
    }

    /// Whether there is nothing.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// What a buffer is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum BufferKind {
    /// The peer writes into it.
    Rmb,
    /// The own RNIC reads from it.
    Send,
}

/// What is in the first four bytes of an element with an eye catcher
/// (RFC 7609 4.2); the bytes of "SMCR" in EBCDIC.
pub const EYE_CATCHER: [u8; 4] = crate::wire::clc::EYE_CATCHER;

/// Obligations towards the TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TcpCommand {
    /// The connection is plain TCP from here on: give it to the application.
    HandOver {
        /// A Decline that crossed ours may still be before the peer's first
        /// application byte: show received bytes to `handle_clc` until it
        /// answers `Next::Stop` or `NotClc`, and give
        /// the application only what it did not consume. A second `HandOver`
        /// without this says that no Decline can come any more. Until the first
        /// byte, a FIN or a reset is reported, the handle stays in use, unless
        /// [`ConnMut::abort`](crate::endpoint::ConnMut::abort) reports that the
        /// application has given the TCP connection up.
        watch_for_decline: bool,
    },
    /// End the direction to the peer (FIN), as `shutdown(SHUT_WR)` does. Over SMC-R the connection has
    /// ended in order. Over SMC-D the side that ends first is asked for this with the end of its stream:
    /// the connection may go on in the other direction, and [`Self::Reset`] may follow.
    Close,
    /// Reset the TCP connection (RST). What it still holds is lost, not even an
    /// application to which it was handed over, if its peer has reset it while
    /// received bytes began like a Decline.
    Reset,
}
