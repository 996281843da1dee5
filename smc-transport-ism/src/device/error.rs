//! Why calls are refused, and the checks that every backend makes.

use core::fmt;

#[cfg(doc)]
use super::IsmDevice;
use super::{CDC_LEN, DMB_GRANULE, DeviceFacts};

/// Why a call was refused. Nothing was changed by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum IsmError {
    /// A length that is 0, not a multiple of [`DMB_GRANULE`], or too long.
    Length,
    /// A write or read that would leave the DMB, or a cursor off its alignment.
    Bounds,
    /// An element the device does not have.
    Element,
    /// A handle of an object that is gone.
    Stale,
    /// No such token, or not for this device to attach.
    Token,
    /// No such device, or not on that VLAN.
    Unreachable,
    /// A VLAN the device was not given, or one more than it takes.
    Vlan,
    /// No DMB, attachment or memory is left.
    Exhausted,
    /// Nothing this device can do.
    Unsupported,
    /// Not now; try again after the next [`IsmDevice::poll`].
    Busy,
    /// The device itself failed, with its own code.
    Device {
        /// What the device answered; 0xFFFF from a real one means an error of its own.
        code: u16,
    },
    /// The operating system refused, with its error number.
    System {
        /// The operating system's error number.
        errno: i32,
    },
}

impl fmt::Display for IsmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Length => f.write_str("no DMB can have this length"),
            Self::Bounds => f.write_str("outside the DMB"),
            Self::Element => f.write_str("no such element in a DMB of this device"),
            Self::Stale => f.write_str("this DMB is gone"),
            Self::Token => f.write_str("no DMB with this token is for this device"),
            Self::Unreachable => f.write_str("this device cannot be reached"),
            Self::Vlan => f.write_str("the device is not on this VLAN"),
            Self::Exhausted => f.write_str("no room for a further DMB"),
            Self::Unsupported => f.write_str("this device cannot do that"),
            Self::Busy => f.write_str("the device is busy"),
            Self::Device { code } => write!(f, "the device answered 0x{code:04x}"),
            Self::System { errno } => write!(f, "operating system error {errno}"),
        }
    }
}

impl core::error::Error for IsmError {}

/// Whether a DMB of a device with these facts can have this length.
pub(crate) fn check_len(len: u32, facts: &DeviceFacts) -> Result<(), IsmError> {
    let fits = len != 0 && len.is_multiple_of(DMB_GRANULE) && len <= facts.max_dmb_len;
    fits.then_some(()).ok_or(IsmError::Length)
}

/// Where `len` bytes from `offset` end, if that is within `whole`.
///
/// Everything that touches a DMB goes through here, in 64 bits: a software ISM that
/// forgot this check let a peer write anywhere.
pub(crate) fn check_bounds(offset: u32, len: usize, whole: usize) -> Result<usize, IsmError> {
    let end = u64::from(offset) + u64::try_from(len).map_err(|_| IsmError::Bounds)?;
    let end = usize::try_from(end).map_err(|_| IsmError::Bounds)?;
    if end <= whole {
        Ok(end)
    } else {
        Err(IsmError::Bounds)
    }
}

/// Does what [`check_bounds`] does for a CDC message, whose cursors must not straddle a unit.
pub(crate) fn check_cdc_bounds(offset: u32, whole: usize) -> Result<usize, IsmError> {
    if !offset.is_multiple_of(8) {
        return Err(IsmError::Bounds);
    }
    check_bounds(offset, CDC_LEN, whole)
}

/// The bit of an element in a signal's mask.
pub(crate) fn element_bit(element: u16, facts: &DeviceFacts) -> Result<u16, IsmError> {
    if element < facts.elements {
        Ok(0x8000 >> element)
    } else {
        Err(IsmError::Element)
    }
}
