//! What an ISM device does for SMC-D: the seam between the engine and a backend.
//!
//! | engine's command | call | reported |
//! |---|---|---|
//! | `RegisterDmb` | [`IsmDevice::register_dmb`] | [`IsmReport::DmbRegistered`] or [`IsmReport::Failed`], perhaps late |
//! | `UnregisterDmb` | [`IsmDevice::unregister_dmb`] | done on return |
//! | `ClearDmb` | [`IsmDevice::clear_dmb`] | done on return, if the device can at all |
//! | `AttachDmb` | [`IsmDevice::attach_dmb`] | done on return, see 6 |
//! | `DetachDmb` | [`IsmDevice::detach_dmb`] | done on return |
//! | `QueryReach` | [`IsmDevice::query_reach`] | done on return |
//! | `AddVlan`, `DelVlan` | [`IsmDevice::add_vlan`], [`IsmDevice::del_vlan`] | done on return |
//! | `Move` | [`IsmDevice::move_data`] | done on return |
//! | `MoveCdc` | [`IsmDevice::move_cdc`] | done on return; at the other end [`IsmReport::Signalled`] |
//! | `SignalEvent` | [`IsmDevice::signal_event`] | at the other end [`IsmReport::Event`] |
//!
//! Every backend keeps the same contract, and one suite (`tests/contract`) holds all
//! of them to it:
//!
//! 1. Nothing blocks. What cannot be done now is [`IsmError::Busy`].
//! 2. A move writes inside one DMB or not at all; `offset + length` is added in 64
//!    bits.
//! 3. Moves to one DMB take effect in the order of the calls. A thread that was notified
//!    of a signal sees every byte moved before it.
//! 4. A signal is never lost; several before a [`IsmDevice::poll`] may be reported once.
//! 5. A DMB is zero when its token is reported, and no earlier attachment writes it.
//! 6. Only the peer a DMB was registered for can move to it. Others, and unknown
//!    tokens, are refused when attached or, by a device that knows no attaching, when
//!    moved to.
//! 7. A handle names one object for good: after the object is gone, it is
//!    [`IsmError::Stale`].
//! 8. A peer that goes away is reported once, after everything it sent before.
//!
//! Every number a peer chose has been checked before it is reported; the bytes in a
//! DMB have not, and may change while they are read.

mod error;

use core::fmt;

use crate::slots::Key;

pub use error::IsmError;
pub(crate) use error::{check_bounds, check_cdc_bounds, check_len, element_bit};

/// Bytes of a CDC message at the head of a DMB.
pub const CDC_LEN: usize = 32;

/// A DMB's length is a multiple of this, in bytes.
pub const DMB_GRANULE: u32 = 4096;

/// Longest DMB SMC-D can name, in bytes.
pub const MAX_DMB_LEN: u32 = 1 << 20;

/// A CDC message as it lies in memory: host byte order, two cursors of eight bytes.
pub type Cdc = [u8; CDC_LEN];

/// The address of an ISM device: 64 bits, and 64 more where the device emulates ISM.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct Gid128 {
    /// What the CLC messages carry as the GID.
    pub gid: u64,
    /// The extension; 0 on a real ISM device.
    pub ext: u64,
}

impl fmt::Display for Gid128 {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}:{:016x}", self.gid, self.ext)
    }
}

/// What a peer needs, beside being the right peer, to attach a DMB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct DmbToken(pub u64);

/// A VLAN identifier, 1 to 4094, or [`VlanId::V2`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VlanId(u16);

impl VlanId {
    /// Not a VLAN: what SMC-D version 2 registers, and by which it probes for it.
    pub const V2: Self = Self(0x1fff);

    /// The VLAN `id`, if there can be one.
    #[must_use]
    pub const fn new(id: u16) -> Option<Self> {
        if (id >= 1 && id <= 4094) || id == 0x1fff {
            Some(Self(id))
        } else {
            None
        }
    }

    /// The number.
    #[must_use]
    pub const fn number(self) -> u16 {
        self.0
    }
}

/// A DMB of this device, from registration to unregistration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Dmb(pub(crate) Key);

impl Dmb {
    /// Place of the DMB at the device.
    pub(crate) fn index(self) -> u32 {
        self.0.0
    }
}

/// A peer's DMB, from attaching to detaching.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RemoteDmb(pub(crate) Key);

impl RemoteDmb {
    /// Place of the peer's DMB at the device.
    pub(crate) fn index(self) -> u32 {
        self.0.0
    }
}

/// What does not change while a device lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The device's address.
    pub gid: Gid128,
    /// The channel identifier: devices reach each other only if theirs are equal.
    pub chid: u16,
    /// Longest DMB, in bytes.
    pub max_dmb_len: u32,
    /// Most DMBs registered at a time.
    pub max_dmbs: u32,
    /// Elements a DMB can be divided into, which signals distinguish; 1 to 16.
    pub elements: u16,
    /// Whether the device serves SMC-D version 2.
    pub version_2: bool,
}

/// Subject of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventKind {
    /// A DMB of this device failed; `token` is its token.
    Dmb,
    /// A device has gone; `token` is its GID. Its link groups end.
    Gid,
    /// What a peer sent by [`IsmDevice::signal_event`]; `token` is its GID.
    Software,
}

/// An event of the device, as SMC-D takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DeviceEvent {
    /// What it is about.
    pub kind: EventKind,
    /// GID of the peer, or token of the DMB, that the event is about; see [`EventKind`].
    pub token: u64,
    /// The peer in full, if a peer is what it is about.
    pub peer: Option<Gid128>,
    /// A code: 0x80 link group shutdown and 0x83 test link from SMC-D peers.
    pub code: u32,
    /// What goes with the code; not checked.
    pub info: u64,
}

impl DeviceEvent {
    /// `peer` has gone.
    pub(crate) fn vanished(peer: Gid128) -> Self {
        Self {
            kind: EventKind::Gid,
            token: peer.gid,
            peer: Some(peer),
            code: 0,
            info: 0,
        }
    }

    /// `peer` sent `code` and `info`.
    pub(crate) fn software(peer: Gid128, code: u32, info: u64) -> Self {
        Self {
            kind: EventKind::Software,
            token: peer.gid,
            peer: Some(peer),
            code,
            info,
        }
    }
}

/// What a device reports by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IsmReport {
    /// The peer can attach the DMB from now on. It is zero.
    DmbRegistered {
        /// The DMB.
        dmb: Dmb,
        /// Data for the peer.
        token: DmbToken,
    },
    /// The peer has moved to the DMB, with signal.
    Signalled {
        /// The DMB.
        dmb: Dmb,
        /// The elements signalled, element 0 the highest bit.
        mask: u16,
        /// The first bytes of the DMB, read once, each cursor in one piece, the
        /// consumer cursor with the flags before the producer cursor.
        cdc: Cdc,
    },
    /// The peer took back a DMB that this device attached, after everything it did
    /// before. Devices that learn of it report it; with others, moves begin to fail.
    Withdrawn {
        /// The attachment, which is still to be given up.
        remote: RemoteDmb,
    },
    /// An event of the device.
    Event(DeviceEvent),
    /// A DMB could not be registered; it is gone.
    Failed {
        /// The DMB.
        dmb: Dmb,
        /// Why.
        error: IsmError,
    },
}

/// An ISM device. See the [module](self) for the contract.
///
/// One caller at a time: a device is not shared, it belongs to the thread that drives the
/// engine.
pub trait IsmDevice {
    /// Properties of the device that do not change.
    fn facts(&self) -> DeviceFacts;

    /// Makes `len` bytes, all zero, which only `peer` may write.
    ///
    /// # Errors
    /// [`IsmError::Length`], [`IsmError::Unreachable`], [`IsmError::Vlan`],
    /// [`IsmError::Exhausted`], [`IsmError::Busy`], or the system's.
    fn register_dmb(
        &mut self,
        len: u32,
        peer: Gid128,
        vlan: Option<VlanId>,
    ) -> Result<Dmb, IsmError>;

    /// Takes the DMB away from the peer and from this side, whether or not the peer
    /// still moves to it. No later report names it.
    ///
    /// # Errors
    /// [`IsmError::Stale`].
    fn unregister_dmb(&mut self, dmb: Dmb) -> Result<(), IsmError>;

    /// Zeroes a DMB under the same token, for its next use: the peer does not move to it
    /// until that is reported to it. Signals that were not reported yet are forgotten.
    ///
    /// # Errors
    /// [`IsmError::Stale`]; [`IsmError::Unsupported`] unless the device can do that:
    /// then another DMB is to be registered.
    fn clear_dmb(&mut self, dmb: Dmb) -> Result<(), IsmError> {
        let _ = dmb;
        Err(IsmError::Unsupported)
    }

    /// Makes `peer`'s DMB, which has `len` bytes by the peer's message, ready to be
    /// moved to.
    ///
    /// # Errors
    /// [`IsmError::Unreachable`] without such a peer; [`IsmError::Token`] if it has no
    /// such DMB for this device; [`IsmError::Length`] if the DMB is known to be shorter
    /// or no DMB can be that long; [`IsmError::Busy`] if it can be attached a little later;
    /// [`IsmError::Exhausted`].
    fn attach_dmb(
        &mut self,
        peer: Gid128,
        token: DmbToken,
        len: u32,
    ) -> Result<RemoteDmb, IsmError>;

    /// Ends what [`Self::attach_dmb`] began.
    ///
    /// # Errors
    /// [`IsmError::Stale`].
    fn detach_dmb(&mut self, remote: RemoteDmb) -> Result<(), IsmError>;

    /// Ends what [`Self::attach_dmb`] began, of a DMB from which its owner reads nothing
    /// any more: a device whose memory is charged to its writers gives that back.
    ///
    /// # Errors
    /// [`IsmError::Stale`].
    fn discard_dmb(&mut self, remote: RemoteDmb) -> Result<(), IsmError> {
        self.detach_dmb(remote)
    }

    /// Whether `peer` can be reached, on `vlan` if there is one.
    fn query_reach(&mut self, peer: Gid128, vlan: Option<VlanId>) -> bool;

    /// Joins a VLAN.
    ///
    /// # Errors
    /// [`IsmError::Vlan`] if the device takes no more, or has none.
    fn add_vlan(&mut self, vlan: VlanId) -> Result<(), IsmError>;

    /// Leaves a VLAN.
    ///
    /// # Errors
    /// [`IsmError::Vlan`] if the device was not on it.
    fn del_vlan(&mut self, vlan: VlanId) -> Result<(), IsmError>;

    /// Writes `source` to the peer's DMB from `offset` on, without a signal.
    ///
    /// # Errors
    /// [`IsmError::Bounds`] beyond the length attached, [`IsmError::Element`],
    /// [`IsmError::Stale`] also once the peer is known to have taken the DMB away,
    /// [`IsmError::Unreachable`] once it is reported to have gone, [`IsmError::Token`] as
    /// for [`Self::attach_dmb`].
    fn move_data(
        &mut self,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        source: &[u8],
    ) -> Result<(), IsmError>;

    /// Writes a CDC message to the peer's DMB, each cursor in one piece, and signals
    /// `element` if `signal`. `offset` is a multiple of 8.
    ///
    /// # Errors
    /// See [`Self::move_data`].
    fn move_cdc(
        &mut self,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        cdc: &Cdc,
        signal: bool,
    ) -> Result<(), IsmError>;

    /// Sends `peer` a software event. `vlan` is only what must reach it.
    ///
    /// # Errors
    /// [`IsmError::Unreachable`], [`IsmError::Busy`].
    fn signal_event(
        &mut self,
        peer: Gid128,
        vlan: Option<VlanId>,
        code: u32,
        info: u64,
    ) -> Result<(), IsmError>;

    /// The next report, if there is one.
    fn poll(&mut self) -> Option<IsmReport>;

    /// Copies bytes out of a DMB of this device. The peer may write meanwhile.
    ///
    /// # Errors
    /// [`IsmError::Bounds`], [`IsmError::Stale`].
    fn read(&self, dmb: Dmb, offset: u32, into: &mut [u8]) -> Result<(), IsmError>;

    /// Reads the CDC message at the head of a DMB of this device, as
    /// [`IsmReport::Signalled`] has it, for a thread that waits for this DMB alone. Returns
    /// whether the message may be another than the last that was polled or reported, and no
    /// report is before it. A report of it may still come. A device that can only be
    /// observed by reports always returns false.
    #[inline]
    fn poll_head(&self, dmb: Dmb, into: &mut Cdc) -> bool {
        let _ = (dmb, into);
        false
    }

    /// Old name of [`Self::poll_head`].
    #[deprecated(note = "renamed to `poll_head`")]
    fn look(&self, dmb: Dmb, into: &mut Cdc) -> bool {
        self.poll_head(dmb, into)
    }

    /// Reads the CDC message at `offset`, a multiple of 8, each cursor in one piece.
    ///
    /// # Errors
    /// See [`Self::read`].
    fn read_cdc(&self, dmb: Dmb, offset: u32) -> Result<Cdc, IsmError>;
}
