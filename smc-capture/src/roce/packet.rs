//! BTH, RETH, AETH and payload.

use core::fmt;

use smc_proto::wire::types::{Psn, Qpn, RKey};

use super::opcode::Opcode;

const BTH_LENGTH: usize = 12;
const ICRC_LENGTH: usize = 4;

/// Base transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bth {
    /// The operation.
    pub opcode: Opcode,
    /// Whether the receiver is to be woken (all SMC SENDs).
    pub solicited: bool,
    /// Partition key.
    pub partition_key: u16,
    /// The queue pair the packet goes to.
    pub destination_qpn: Qpn,
    /// Whether an acknowledgement is asked for.
    pub acknowledge_requested: bool,
    /// Number of the packet in its direction.
    pub psn: Psn,
}

/// RDMA extended transport header: where an RDMA WRITE goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reth {
    /// Virtual address at the receiver.
    pub address: u64,
    /// Key of the receiver's memory region.
    pub rkey: RKey,
    /// Bytes of the whole message, all packets together.
    pub length: u32,
}

/// ACK extended transport header.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Aeth {
    /// Acknowledge with credits, or the kind of refusal.
    pub syndrome: u8,
    /// Number of messages the responder has completed, 24 bits.
    pub message_sequence: u32,
}

impl Aeth {
    /// Syndrome: acknowledged, without a limit of credits.
    pub const ACKNOWLEDGED: u8 = 0x1f;
    /// Syndrome: no receive is posted, try again after the shortest wait.
    pub const RECEIVER_NOT_READY: u8 = 0x21;
    /// Syndrome: another packet number is due.
    pub const SEQUENCE_ERROR: u8 = 0x60;
    /// Syndrome: the request cannot be executed.
    pub const INVALID_REQUEST: u8 = 0x61;
    /// Syndrome: the key or the address does not allow the access.
    pub const ACCESS_ERROR: u8 = 0x62;
}

/// A RoCE packet from the BTH to the payload, without padding and CRC.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RocePacket<'a> {
    /// Base transport header.
    pub bth: Bth,
    /// In the first packet of an RDMA WRITE and in RDMA READ requests.
    pub reth: Option<Reth>,
    /// In acknowledgements.
    pub aeth: Option<Aeth>,
    /// Immediate data, or the key to invalidate.
    pub immediate: Option<u32>,
    /// The payload bytes that there are.
    pub payload: &'a [u8],
    /// Payload bytes on the wire that the capture does not hold.
    pub missing: usize,
}

/// Why bytes are not a RoCE packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum RoceError {
    /// The headers or the CRC do not fit the bytes.
    TooShort {
        /// Bytes on the wire.
        have: usize,
        /// Bytes the headers and the CRC take.
        need: usize,
    },
    /// The transport header has another version than 0.
    Version {
        /// The version.
        version: u8,
    },
}

impl fmt::Display for RoceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { have, need } => {
                write!(f, "RoCE packet of {have} octets, needs {need}")
            }
            Self::Version { version } => write!(f, "transport header version {version}, must be 0"),
        }
    }
}

impl core::error::Error for RoceError {}

/// Takes `N` bytes off the front.
fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (head, rest) = bytes.split_first_chunk::<N>()?;
    *bytes = rest;
    Some(*head)
}

impl<'a> RocePacket<'a> {
    /// Reads the packet that starts at the BTH.
    ///
    /// `bytes` are those that the capture holds, `missing` the number that
    /// followed them on the wire, CRC included.
    ///
    /// # Errors
    /// [`RoceError`] when the headers do not fit or have another version.
    pub fn parse(bytes: &'a [u8], missing: usize) -> Result<Self, RoceError> {
        let wire_length = bytes.len() + missing;
        let mut rest = bytes;
        let short = |need| RoceError::TooShort {
            have: wire_length,
            need,
        };
        let Some([opcode, flags, p0, p1, _, q0, q1, q2, a, s0, s1, s2]) = take(&mut rest) else {
            return Err(short(BTH_LENGTH + ICRC_LENGTH));
        };
        if flags & 0x0f != 0 {
            return Err(RoceError::Version {
                version: flags & 0x0f,
            });
        }
        let padding = usize::from(flags >> 4 & 3);
        let opcode = Opcode(opcode);
        let mut need = BTH_LENGTH + ICRC_LENGTH + padding;
        let mut reth = None;
        if opcode.has_reth() {
            need += 16;
            reth = Some(parse_reth(&mut rest).ok_or(short(need))?);
        }
        let mut aeth = None;
        if opcode.has_aeth() {
            need += 4;
            let [syndrome, m0, m1, m2] = take(&mut rest).ok_or(short(need))?;
            aeth = Some(Aeth {
                syndrome,
                message_sequence: u32::from_be_bytes([0, m0, m1, m2]),
            });
        }
        let mut immediate = None;
        if opcode.has_immediate() {
            need += 4;
            immediate = Some(u32::from_be_bytes(take(&mut rest).ok_or(short(need))?));
        }
        let payload_length = wire_length.checked_sub(need).ok_or(short(need))?;
        let present = payload_length.min(rest.len());
        Ok(Self {
            bth: Bth {
                opcode,
                solicited: flags & 0x80 != 0,
                partition_key: u16::from_be_bytes([p0, p1]),
                destination_qpn: Qpn::from_octets([q0, q1, q2]),
                acknowledge_requested: a & 0x80 != 0,
                psn: Psn::from_octets([s0, s1, s2]),
            },
            reth,
            aeth,
            immediate,
            payload: rest.get(..present).unwrap_or_default(),
            missing: payload_length - present,
        })
    }

    /// Appends the packet and its padding, not the CRC.
    pub fn emit(&self, out: &mut Vec<u8>) {
        let padding = self.payload.len().wrapping_neg() & 3;
        out.push(self.bth.opcode.0);
        out.push(u8::from(self.bth.solicited) << 7 | (padding as u8) << 4);
        out.extend(self.bth.partition_key.to_be_bytes());
        out.push(0);
        out.extend(self.bth.destination_qpn.octets());
        out.push(u8::from(self.bth.acknowledge_requested) << 7);
        out.extend(self.bth.psn.octets());
        if let Some(reth) = self.reth {
            out.extend(reth.address.to_be_bytes());
            out.extend(reth.rkey.0.to_be_bytes());
            out.extend(reth.length.to_be_bytes());
        }
        if let Some(aeth) = self.aeth {
            let [_, m0, m1, m2] = aeth.message_sequence.to_be_bytes();
            out.extend([aeth.syndrome, m0, m1, m2]);
        }
        if let Some(immediate) = self.immediate {
            out.extend(immediate.to_be_bytes());
        }
        out.extend(self.payload);
        out.extend(core::iter::repeat_n(0, padding));
    }

    /// Bytes that [`emit`](Self::emit) appends.
    #[must_use]
    pub fn emitted_length(&self) -> usize {
        BTH_LENGTH
            + self.reth.map_or(0, |_| 16)
            + self.aeth.map_or(0, |_| 4)
            + self.immediate.map_or(0, |_| 4)
            + self.payload.len().next_multiple_of(4)
    }
}

fn parse_reth(rest: &mut &[u8]) -> Option<Reth> {
    Some(Reth {
        address: u64::from_be_bytes(take(rest)?),
        rkey: RKey(u32::from_be_bytes(take(rest)?)),
        length: u32::from_be_bytes(take(rest)?),
    })
}
