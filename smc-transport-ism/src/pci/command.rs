//! The commands of the ISM function, byte by byte; all big-endian.
//!
//! A command is a block in BAR 2: a header of eight bytes, then its payload. The
//! payload is stored first and the header last, because the header starts the
//! command; then both are loaded back with the answer in place.

use super::access::{COMMANDS, PciAccess};
use crate::device::{Gid128, IsmError, VlanId};
use crate::memory::system;

/// Bytes of a command's header.
const HEADER: usize = 8;
/// The answer of a function that failed by itself.
const DEVICE_ERROR: u16 = 0xffff;

/// What a command asks for. The numbers are the function's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Command {
    RegisterSummary {
        at: u64,
    },
    RegisterEvents {
        at: u64,
        len: u64,
    },
    ReadGid,
    AddVlan(VlanId),
    DelVlan(VlanId),
    QueryReach {
        peer: u64,
        vlan: Option<VlanId>,
    },
    RegisterDmb {
        at: u64,
        len: u32,
        place: u32,
        vlan: Option<VlanId>,
        peer: u64,
    },
    UnregisterDmb {
        token: u64,
    },
    SignalEvent {
        peer: u64,
        interrupt: bool,
        code: u32,
        info: u64,
    },
    UnregisterSummary,
    UnregisterEvents,
}

impl Command {
    /// Number of the command, its payload, and how many bytes the answer has behind the header.
    fn parts(self) -> (u32, Vec<u8>, usize) {
        let mut payload = Vec::new();
        let mut put = |bytes: &[u8]| payload.extend_from_slice(bytes);
        let valid = |vlan: Option<VlanId>| u32::from(vlan.is_some()).to_be_bytes();
        let number = |vlan: Option<VlanId>| u32::from(vlan.map_or(0, VlanId::number)).to_be_bytes();
        let (code, answer) = match self {
            Self::RegisterSummary { at } => {
                put(&at.to_be_bytes());
                (0x01, 0)
            }
            Self::RegisterEvents { at, len } => {
                put(&at.to_be_bytes());
                put(&len.to_be_bytes());
                (0x02, 0)
            }
            Self::ReadGid => (0x03, 8),
            Self::AddVlan(vlan) => {
                put(&u64::from(vlan.number()).to_be_bytes());
                (0x04, 0)
            }
            Self::DelVlan(vlan) => {
                put(&u64::from(vlan.number()).to_be_bytes());
                (0x05, 0)
            }
            Self::QueryReach { peer, vlan } => {
                put(&peer.to_be_bytes());
                put(&valid(vlan));
                put(&number(vlan));
                (0x09, 0)
            }
            Self::RegisterDmb {
                at,
                len,
                place,
                vlan,
                peer,
            } => {
                put(&at.to_be_bytes());
                put(&len.to_be_bytes());
                put(&place.to_be_bytes());
                put(&valid(vlan));
                put(&number(vlan));
                put(&peer.to_be_bytes());
                (0x0a, 8)
            }
            Self::UnregisterDmb { token } => {
                put(&token.to_be_bytes());
                (0x0b, 0)
            }
            Self::SignalEvent {
                peer,
                interrupt,
                code,
                info,
            } => {
                put(&peer.to_be_bytes());
                put(&u32::from(interrupt).to_be_bytes());
                put(&code.to_be_bytes());
                put(&info.to_be_bytes());
                (0x0e, 0)
            }
            Self::UnregisterSummary => (0x11, 0),
            Self::UnregisterEvents => (0x12, 0),
        };
        (code, payload, answer)
    }

    /// Makes the function execute the command, and returns the answer's bytes as one number.
    pub(super) fn run(self, function: &mut impl PciAccess) -> Result<u64, IsmError> {
        let (code, payload, answer) = self.parts();
        let failed = |error| system(&error);
        let len = u16::try_from(HEADER + payload.len()).map_err(|_| IsmError::Length)?;
        if !payload.is_empty() {
            function
                .store(COMMANDS, HEADER as u64, &payload)
                .map_err(failed)?;
        }
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(&code.to_be_bytes());
        header[6..].copy_from_slice(&len.to_be_bytes());
        function.store(COMMANDS, 0, &header).map_err(failed)?;

        function.load(COMMANDS, 0, &mut header).map_err(failed)?;
        let [.., high, low, _, _] = header;
        match u16::from_be_bytes([high, low]) {
            0 => {}
            code => return Err(IsmError::Device { code }),
        }
        let mut number = [0; 8];
        if answer > 0 {
            function
                .load(COMMANDS, HEADER as u64, &mut number)
                .map_err(failed)?;
        }
        Ok(u64::from_be_bytes(number))
    }
}

/// What the function's refusal of a command means: its own failure stays what it is.
pub(super) fn refusal(error: IsmError, meaning: IsmError) -> IsmError {
    match error {
        IsmError::Device { code } if code != DEVICE_ERROR => meaning,
        other => other,
    }
}

/// A GID of this kind of device: 64 bits, and nothing beyond.
pub(super) fn gid(peer: Gid128) -> Result<u64, IsmError> {
    if peer.ext == 0 {
        Ok(peer.gid)
    } else {
        Err(IsmError::Unreachable)
    }
}
