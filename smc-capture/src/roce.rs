//! RoCE packets: what follows the IP or global route header.
//!
//! One packet is BTH, then RETH, AETH or immediate data as the operation
//! demands, the payload, 0 to 3 bytes of padding and the invariant CRC.

pub mod icrc;
mod opcode;
mod packet;

pub use opcode::Opcode;
pub use packet::{Aeth, Bth, Reth, RoceError, RocePacket};

/// UDP port of RoCEv2.
pub const ROCE_V2_PORT: u16 = 4791;
/// Ethertype of RoCEv1.
pub const ROCE_V1_ETHERTYPE: u16 = 0x8915;
