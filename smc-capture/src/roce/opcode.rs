//! BTH opcodes of the reliable connected transport.

use core::fmt;

/// A BTH opcode. Those of the reliable connected transport have names, others
/// keep their number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Opcode(pub u8);

impl Opcode {
    /// SEND, first of several packets.
    pub const SEND_FIRST: Self = Self(0x00);
    /// SEND, neither first nor last.
    pub const SEND_MIDDLE: Self = Self(0x01);
    /// SEND, last packet.
    pub const SEND_LAST: Self = Self(0x02);
    /// SEND, last packet, with immediate data.
    pub const SEND_LAST_IMMEDIATE: Self = Self(0x03);
    /// SEND in one packet.
    pub const SEND_ONLY: Self = Self(0x04);
    /// SEND in one packet, with immediate data.
    pub const SEND_ONLY_IMMEDIATE: Self = Self(0x05);
    /// RDMA WRITE, first of several packets.
    pub const WRITE_FIRST: Self = Self(0x06);
    /// RDMA WRITE, neither first nor last.
    pub const WRITE_MIDDLE: Self = Self(0x07);
    /// RDMA WRITE, last packet.
    pub const WRITE_LAST: Self = Self(0x08);
    /// RDMA WRITE, last packet, with immediate data.
    pub const WRITE_LAST_IMMEDIATE: Self = Self(0x09);
    /// RDMA WRITE in one packet.
    pub const WRITE_ONLY: Self = Self(0x0a);
    /// RDMA WRITE in one packet, with immediate data.
    pub const WRITE_ONLY_IMMEDIATE: Self = Self(0x0b);
    /// RDMA READ request.
    pub const READ_REQUEST: Self = Self(0x0c);
    /// RDMA READ response, first packet.
    pub const READ_RESPONSE_FIRST: Self = Self(0x0d);
    /// RDMA READ response, last packet.
    pub const READ_RESPONSE_LAST: Self = Self(0x0f);
    /// RDMA READ response in one packet.
    pub const READ_RESPONSE_ONLY: Self = Self(0x10);
    /// Acknowledge.
    pub const ACKNOWLEDGE: Self = Self(0x11);
    /// SEND, last packet, that invalidates a key.
    pub const SEND_LAST_INVALIDATE: Self = Self(0x16);
    /// SEND in one packet that invalidates a key.
    pub const SEND_ONLY_INVALIDATE: Self = Self(0x17);

    /// The name of the operation, or `None` for an opcode without one here.
    #[must_use]
    pub const fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::SEND_FIRST => "SEND first",
            Self::SEND_MIDDLE => "SEND middle",
            Self::SEND_LAST => "SEND last",
            Self::SEND_LAST_IMMEDIATE => "SEND last with immediate",
            Self::SEND_ONLY => "SEND only",
            Self::SEND_ONLY_IMMEDIATE => "SEND only with immediate",
            Self::WRITE_FIRST => "RDMA WRITE first",
            Self::WRITE_MIDDLE => "RDMA WRITE middle",
            Self::WRITE_LAST => "RDMA WRITE last",
            Self::WRITE_LAST_IMMEDIATE => "RDMA WRITE last with immediate",
            Self::WRITE_ONLY => "RDMA WRITE only",
            Self::WRITE_ONLY_IMMEDIATE => "RDMA WRITE only with immediate",
            Self::READ_REQUEST => "RDMA READ request",
            Self::READ_RESPONSE_FIRST => "RDMA READ response first",
            Self(0x0e) => "RDMA READ response middle",
            Self::READ_RESPONSE_LAST => "RDMA READ response last",
            Self::READ_RESPONSE_ONLY => "RDMA READ response only",
            Self::ACKNOWLEDGE => "ACK",
            Self::SEND_LAST_INVALIDATE => "SEND last with invalidate",
            Self::SEND_ONLY_INVALIDATE => "SEND only with invalidate",
            _ => return None,
        })
    }

    /// Whether this is part of a SEND.
    #[must_use]
    pub const fn is_send(self) -> bool {
        matches!(self.0, 0x00..=0x05 | 0x16 | 0x17)
    }

    /// Whether this is part of an RDMA WRITE.
    #[must_use]
    pub const fn is_write(self) -> bool {
        matches!(self.0, 0x06..=0x0b)
    }

    /// Whether the message begins with this packet.
    #[must_use]
    pub const fn begins_message(self) -> bool {
        matches!(
            self.0,
            0x00 | 0x04 | 0x05 | 0x06 | 0x0a | 0x0b | 0x0c | 0x17
        )
    }

    /// Whether the message ends with this packet.
    #[must_use]
    pub const fn ends_message(self) -> bool {
        matches!(
            self.0,
            0x02..=0x05 | 0x08..=0x0c | 0x0f..=0x11 | 0x16 | 0x17
        )
    }

    /// Whether a RETH follows the BTH.
    #[must_use]
    pub(crate) const fn has_reth(self) -> bool {
        matches!(self.0, 0x06 | 0x0a | 0x0b | 0x0c)
    }

    /// Whether an AETH follows the BTH.
    #[must_use]
    pub(crate) const fn has_aeth(self) -> bool {
        matches!(self.0, 0x0d | 0x0f | 0x10 | 0x11)
    }

    /// Whether four bytes of immediate data or of a key to invalidate follow.
    #[must_use]
    pub(crate) const fn has_immediate(self) -> bool {
        matches!(self.0, 0x03 | 0x05 | 0x09 | 0x0b | 0x16 | 0x17)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "opcode 0x{:02x}", self.0),
        }
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
