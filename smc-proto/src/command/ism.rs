//! Commands of the engine to an ISM device.

use super::Segment;
use crate::id::{BufferId, ConnId};
use crate::wire::cdc_ism::{CDC_ISM_LENGTH, CdcIsm, Endianness};
use crate::wire::types::{DmbToken, IsmGid};

/// Work for an ISM device, in the order in which it must be executed.
///
/// The adapter polls only when it can execute, and has executed a command before it
/// calls the endpoint again: what [`Move`](Self::Move) and [`Signal`](Self::Signal) name
/// may be used for something else from then on. Control commands have an answer, which
/// may come late; one per buffer is in flight at a time. Moves, signals and events have
/// none: they count as done unless [`MoveFailed`](crate::completion::IsmCompletion::MoveFailed)
/// follows.
///
/// A connection has two buffers:
///
/// - its DMB, which the peer writes to: `RegisterDmb`, perhaps `ClearDmb` and another
///   connection, `UnregisterDmb`;
/// - its send buffer, attached to the peer's DMB by `AttachDmb` and detached by
///   `DetachDmb`. If the device can map the peer's DMB
///   ([`IsmPath::attaches`](crate::path::IsmPath::attaches)), the send buffer *is* that DMB:
///   bytes that are put there are written to the peer, and no `Move` follows.
///   Otherwise it is memory of its own (`AllocBuffer`, `FreeBuffer`) from which `Move`
///   copies.
///
/// Like an RNIC, a device of which
/// [`DeviceRemoved`](crate::path::PathEvent::DeviceRemoved) was reported is still polled and
/// answered for: what is undone counts as undone, what is asked for is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IsmCommand {
    /// Provide a DMB, all zero, that only this peer may write to.
    /// Answer: `DmbRegistered`.
    RegisterDmb {
        /// The buffer.
        buffer: BufferId,
        /// Bytes, the [head](CDC_ISM_LENGTH) included: 16 KiB shifted by a code.
        length: u32,
        /// The peer's device.
        peer: IsmGid,
        /// VLAN to register it for, [`ISM_VLAN_V2`] in version 2.
        vlan: Option<u16>,
    },
    /// Take a DMB away from the peer, even if that still writes, and give its memory
    /// back. Nothing is reported of it afterwards. Answer: `DmbUnregistered`.
    UnregisterDmb {
        /// The DMB.
        buffer: BufferId,
    },
    /// Zero a whole DMB before its next use: the peer does not write to it then. A device that
    /// cannot do that refuses, and is asked for another DMB. Answer: `DmbCleared`.
    ClearDmb {
        /// The DMB.
        buffer: BufferId,
    },
    /// Provide memory to move from. Answer: `BufferAllocated`.
    AllocBuffer {
        /// The send buffer.
        buffer: BufferId,
        /// Bytes.
        length: u32,
    },
    /// Give the memory of a send buffer back. Answer: `BufferFreed`.
    FreeBuffer {
        /// The send buffer.
        buffer: BufferId,
    },
    /// Bind a send buffer to the peer's DMB; if `map`, make it that DMB. One that is
    /// shorter than `length` must be refused, as far as the device can know: every
    /// offset below it will be used. Answer: `DmbAttached`.
    AttachDmb {
        /// The send buffer.
        buffer: BufferId,
        /// The peer's device.
        peer: IsmGid,
        /// The DMB, as the peer named it.
        token: DmbToken,
        /// Bytes it has according to the peer.
        length: u32,
        /// Whether the send buffer becomes the DMB itself.
        map: bool,
    },
    /// Undo `AttachDmb`. A mapping is gone then. Answer: `DmbDetached`.
    DetachDmb {
        /// The send buffer.
        buffer: BufferId,
        /// Whether the peer reads nothing more of the DMB, so that what was written to it
        /// may be thrown away. Otherwise it must stay readable for the peer.
        discard: bool,
    },
    /// Write bytes of the send buffer to the DMB it is attached to, without a signal.
    Move {
        /// The connection it belongs to, for failures.
        conn: ConnId,
        /// The send buffer.
        buffer: BufferId,
        /// What to write, one or two pieces of the send buffer in this order; an
        /// unused second piece has length 0.
        source: [Segment; 2],
        /// Offset in the peer's DMB of the first byte.
        offset: u32,
    },
    /// Write a CDC message to the head of the DMB that a send buffer is attached to, behind
    /// everything that was written there before, and signal it. Each cursor
    /// ([`PRODUCER`](crate::wire::cdc_ism::PRODUCER),
    /// [`CONSUMER`](crate::wire::cdc_ism::CONSUMER)) is written in one piece, the
    /// producer's first.
    Signal {
        /// The connection it belongs to, for failures.
        conn: ConnId,
        /// The send buffer.
        buffer: BufferId,
        /// The message.
        cdc: [u8; CDC_ISM_LENGTH],
    },
    /// Send the peer's device a software event. It may be lost.
    SignalEvent {
        /// The peer's device.
        peer: IsmGid,
        /// VLAN to reach it on, as in `RegisterDmb`.
        vlan: Option<u16>,
        /// What it is about.
        code: u32,
        /// What goes with it, in the order of this machine.
        info: u64,
    },
}

/// [`IsmCommand::Signal`] with the message as it is meant: for a transport that encodes it where
/// it is stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Signal {
    /// The connection it belongs to, for failures.
    pub conn: ConnId,
    /// The send buffer.
    pub buffer: BufferId,
    /// The message.
    pub cdc: CdcIsm,
}

impl From<Signal> for IsmCommand {
    #[inline]
    fn from(Signal { conn, buffer, cdc }: Signal) -> Self {
        let cdc = cdc.emit(Endianness::NATIVE);
        Self::Signal { conn, buffer, cdc }
    }
}

/// What stands for the VLAN of SMC-D version 2, which has none.
pub const ISM_VLAN_V2: u16 = 0x1fff;
