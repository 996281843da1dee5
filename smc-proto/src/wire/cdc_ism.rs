//! The CDC message of SMC-D: the first 32 octets of a DMB element, which the
//! peer writes there.
//!
//! Numbers are in the order of the machine that both sides run on. Each cursor
//! is in eight octets that are to be read and written as one unit
//! ([`PRODUCER`], [`CONSUMER`]); the code that copies the head out of shared memory
//! sees to that, and then nothing here depends on concurrent writes.

use core::fmt;
use core::ops::Range;

use super::cdc::{CDC_TYPE, Cdc, ConnectionFlags, ProducerFlags, show_flags};
use super::types::Cursor;

/// Octets of the message, and of a DMB element that data never uses.
//= D-040
//= D-044
pub const CDC_ISM_LENGTH: usize = 32;
/// Where the producer cursor is, one unit of eight octets.
//= D-042
pub const PRODUCER: Range<usize> = 8..16;
/// Where the consumer cursor and the flags are, one unit of eight octets.
//= D-042
pub const CONSUMER: Range<usize> = 16..24;

/// Order of the octets of a number.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Endianness {
    /// Least significant octet first.
    Little,
    /// Most significant octet first.
    Big,
}

impl Endianness {
    /// Order of the octets of a number on this machine.
    pub const NATIVE: Self = if cfg!(target_endian = "big") {
        Self::Big
    } else {
        Self::Little
    };

    pub(super) const fn wrap(self, octets: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(octets),
            Self::Big => u16::from_be_bytes(octets),
        }
    }
    const fn count(self, octets: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(octets),
            Self::Big => u32::from_be_bytes(octets),
        }
    }
    pub(super) const fn wrap_octets(self, wrap: u16) -> [u8; 2] {
        match self {
            Self::Little => wrap.to_le_bytes(),
            Self::Big => wrap.to_be_bytes(),
        }
    }
    /// A unit of eight octets that begins with a cursor.
    const fn cursor_bits(self, cursor: Cursor) -> u64 {
        let (wrap, count) = (cursor.wrap as u64, cursor.count as u64);
        match self {
            Self::Little => wrap | count << 16,
            Self::Big => wrap << 48 | count << 16,
        }
    }
    /// One that ends with flags.
    const fn flag_bits(self, producer: u8, connection: u8) -> u64 {
        let (producer, connection) = (producer as u64, connection as u64);
        match self {
            Self::Little => producer << 48 | connection << 56,
            Self::Big => producer << 8 | connection,
        }
    }
    /// One that begins with an octet.
    const fn first_octet(self, octet: u8) -> u64 {
        match self {
            Self::Little => octet as u64,
            Self::Big => (octet as u64) << 56,
        }
    }
    pub(super) const fn octets(self, bits: u64) -> [u8; 8] {
        match self {
            Self::Little => bits.to_le_bytes(),
            Self::Big => bits.to_be_bytes(),
        }
    }
    pub(super) const fn bits(self, octets: [u8; 8]) -> u64 {
        match self {
            Self::Little => u64::from_le_bytes(octets),
            Self::Big => u64::from_be_bytes(octets),
        }
    }
}

/// A CDC message of SMC-D.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct CdcIsm {
    /// Next octet the sender will write in the receiver's DMB element, counted
    /// from the end of the head.
    pub producer: Cursor,
    /// Next octet the sender will read in its own.
    pub consumer: Cursor,
    /// State of the sender as producer.
    pub producer_flags: ProducerFlags,
    /// State of the sender's end of the connection.
    pub connection_flags: ConnectionFlags,
}

/// Why 32 octets are not a CDC message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CdcIsmError {
    /// The peer has not written yet: the type octet is 0.
    NotWritten,
    /// The type octet is neither FE nor 0.
    NotCdc {
        /// The type octet.
        kind: u8,
    },
}

impl CdcIsm {
    /// Reads the head of a DMB element.
    ///
    /// Reserved bits and octets are ignored.
    ///
    /// # Errors
    /// [`CdcIsmError`], by the type octet alone.
    //= D-041
    #[inline]
    pub const fn parse(
        octets: &[u8; CDC_ISM_LENGTH],
        order: Endianness,
    ) -> Result<Self, CdcIsmError> {
        #[rustfmt::skip]
        let [
            kind, _, _, _, _, _, _, _,
            p0, p1, p2, p3, p4, p5, _, _,
            c0, c1, c2, c3, c4, c5, producer_flags, connection_flags,
            ..,
        ] = *octets;
        //= D-043
        match kind {
            CDC_TYPE => {}
            0 => return Err(CdcIsmError::NotWritten),
            kind => return Err(CdcIsmError::NotCdc { kind }),
        }
        Ok(Self {
            producer: Cursor {
                wrap: order.wrap([p0, p1]),
                count: order.count([p2, p3, p4, p5]),
            },
            consumer: Cursor {
                wrap: order.wrap([c0, c1]),
                count: order.count([c2, c3, c4, c5]),
            },
            producer_flags: ProducerFlags::from_bits_truncate(producer_flags),
            connection_flags: ConnectionFlags::from_bits_truncate(connection_flags),
        })
    }

    /// The message as 32 octets, reserved octets zero.
    //= D-041
    #[inline]
    #[must_use]
    pub fn emit(&self, order: Endianness) -> [u8; CDC_ISM_LENGTH] {
        let flags = order.flag_bits(
            self.producer_flags.bits() & ProducerFlags::all().bits(),
            self.connection_flags.bits() & ConnectionFlags::all().bits(),
        );
        let units = [
            order.first_octet(CDC_TYPE),
            order.cursor_bits(self.producer),
            order.cursor_bits(self.consumer) | flags,
            0,
        ];
        // Whole units: what is stored octet by octet is slow to be loaded as a whole.
        let mut octets = [0; CDC_ISM_LENGTH];
        for (place, unit) in octets.as_chunks_mut().0.iter_mut().zip(units) {
            *place = order.octets(unit);
        }
        octets
    }
}

impl CdcIsm {
    /// The message in the form of SMC-R, with this number. SMC-D has no failover, so a
    /// flag that speaks of one says nothing.
    #[cfg(feature = "smc-d")]
    pub(crate) const fn numbered(&self, sequence: u16) -> Cdc {
        Cdc {
            sequence,
            alert_token: super::types::AlertToken(0),
            producer: self.producer,
            consumer: self.consumer,
            producer_flags: self
                .producer_flags
                .difference(ProducerFlags::FAILOVER_VALIDATION),
            connection_flags: self.connection_flags,
        }
    }
}

impl From<Cdc> for CdcIsm {
    fn from(cdc: Cdc) -> Self {
        Self {
            producer: cdc.producer,
            consumer: cdc.consumer,
            producer_flags: cdc.producer_flags,
            connection_flags: cdc.connection_flags,
        }
    }
}

impl fmt::Display for CdcIsm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CDC SMC-D prod {} cons {}", self.producer, self.consumer)?;
        show_flags(self.producer_flags, self.connection_flags, f)
    }
}

impl fmt::Display for CdcIsmError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotWritten => f.write_str("no CDC message has been written yet"),
            Self::NotCdc { kind } => write!(f, "type 0x{kind:02x} is not CDC"),
        }
    }
}

impl core::error::Error for CdcIsmError {}

#[cfg(test)]
mod tests {
    use std::format;

    use proptest::prelude::*;

    use super::*;

    const MESSAGE: CdcIsm = CdcIsm {
        producer: Cursor {
            wrap: 0x0102,
            count: 0x0304_0506,
        },
        consumer: Cursor {
            wrap: 0x0708,
            count: 0x090a_0b0c,
        },
        producer_flags: ProducerFlags::WRITER_BLOCKED,
        connection_flags: ConnectionFlags::SENDING_DONE,
    };

    #[test]
    fn numbers_stand_in_the_order_of_the_machine() {
        //= D-040 test
        //= D-041 test
        //= D-042 test
        let big = MESSAGE.emit(Endianness::Big);
        assert_eq!(big[..8], [0xfe, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(big[PRODUCER], [1, 2, 3, 4, 5, 6, 0, 0]);
        assert_eq!(big[CONSUMER], [7, 8, 9, 10, 11, 12, 0x80, 0x80]);
        assert_eq!(big[24..], [0; 8]);
        let little = MESSAGE.emit(Endianness::Little);
        assert_eq!(little[PRODUCER], [2, 1, 6, 5, 4, 3, 0, 0]);
        assert_eq!(little[CONSUMER], [8, 7, 12, 11, 10, 9, 0x80, 0x80]);
        let native = MESSAGE.emit(Endianness::NATIVE);
        assert_eq!(native[8..10], 0x0102_u16.to_ne_bytes());
        assert_eq!(native[10..14], 0x0304_0506_u32.to_ne_bytes());
        assert_eq!(
            format!("{MESSAGE}"),
            "CDC SMC-D prod 258:50595078 cons 1800:151653132 BD"
        );
    }

    #[test]
    fn an_unwritten_head_is_distinguished_from_a_foreign_one() {
        //= D-043 test
        for kind in 0..=u8::MAX {
            let mut octets = MESSAGE.emit(Endianness::Big);
            octets[0] = kind;
            let result = CdcIsm::parse(&octets, Endianness::Big);
            match kind {
                0xfe => assert_eq!(result, Ok(MESSAGE)),
                0 => assert_eq!(result, Err(CdcIsmError::NotWritten)),
                kind => assert_eq!(result, Err(CdcIsmError::NotCdc { kind })),
            }
        }
    }

    proptest! {
        #[test]
        fn any_head_is_a_message_that_round_trips(
            mut octets in any::<[u8; 32]>(),
            big in any::<bool>(),
        ) {
            octets[0] = 0xfe;
            let order = if big { Endianness::Big } else { Endianness::Little };
            let message = CdcIsm::parse(&octets, order).unwrap();
            let emitted = message.emit(order);
            prop_assert_eq!(CdcIsm::parse(&emitted, order), Ok(message));
            // What is reserved is zero, the rest as it was.
            for at in 0..32 {
                let kept = match at {
                    0 | 8..14 | 16..22 => 0xff,
                    22 => 0xf8,
                    23 => 0xe0,
                    _ => 0,
                };
                prop_assert_eq!(emitted[at], octets[at] & kept);
            }
        }
    }
}
