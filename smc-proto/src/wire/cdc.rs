//! The CDC message (RFC 7609 A.4): cursors, flags and sequence number of one
//! connection, 44 octets in a SEND.

use core::fmt;

use zerocopy::network_endian::{U16, U32};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use super::types::{AlertToken, Cursor};

/// Type octet of a CDC message.
pub const CDC_TYPE: u8 = 0xfe;
/// Length of a CDC message and of every version-1 LLC message, in octets.
pub const CDC_LENGTH: usize = 44;

bitflags::bitflags! {
    /// Flags of the sender as a producer (octet 24).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct ProducerFlags: u8 {
        /// B: the window is full, any space has to be advertised.
        const WRITER_BLOCKED = 0x80;
        /// P: urgent data is pending.
        const URGENT_PENDING = 0x40;
        /// U: urgent data ends at the producer cursor.
        const URGENT_PRESENT = 0x20;
        /// R: send the consumer cursor.
        const CURSOR_UPDATE_REQUESTED = 0x10;
        /// F: validation after a change of link.
        const FAILOVER_VALIDATION = 0x08;
    }
}

bitflags::bitflags! {
    /// State of the sender's connection (octet 25).
    #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
    pub struct ConnectionFlags: u8 {
        /// D: the sender writes no more data.
        const SENDING_DONE = 0x80;
        /// C: the sender closed the connection.
        const PEER_CONNECTION_CLOSED = 0x40;
        /// A: the sender aborted the connection.
        const ABNORMAL_CLOSE = 0x20;
    }
}

/// A CDC message (RFC 7609 A.4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Cdc {
    /// Number of this message in its direction; the first is 1 (CDC-006).
    pub sequence: u16,
    /// The receiver's own token for the connection.
    pub alert_token: AlertToken,
    /// Next octet the sender will write in the receiver's RMB element.
    pub producer: Cursor,
    /// Next octet the sender will read in its own RMB element.
    pub consumer: Cursor,
    /// State of the sender as producer.
    pub producer_flags: ProducerFlags,
    /// State of the sender's end of the connection.
    pub connection_flags: ConnectionFlags,
}

/// Why octets are not a CDC message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum CdcError {
    /// Fewer octets than 44.
    TooShort {
        /// Octets there were.
        have: usize,
    },
    /// The type octet is not FE.
    NotCdc {
        /// The type octet.
        kind: u8,
    },
    /// The length octet is not 44.
    BadLength {
        /// The length octet.
        length: u8,
    },
}

impl fmt::Display for CdcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooShort { have } => write!(f, "CDC message of {have} octets, needs 44"),
            Self::NotCdc { kind } => write!(f, "type 0x{kind:02x} is not CDC"),
            Self::BadLength { length } => write!(f, "CDC length octet {length}, must be 44"),
        }
    }
}

impl core::error::Error for CdcError {}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawCursor {
    reserved: U16,
    wrap: U16,
    count: U32,
}

#[derive(FromBytes, IntoBytes, KnownLayout, Immutable, Unaligned, Clone, Copy)]
#[repr(C)]
struct RawCdc {
    kind: u8,
    length: u8,
    sequence: U16,
    alert_token: U32,
    producer: RawCursor,
    consumer: RawCursor,
    producer_flags: u8,
    connection_flags: u8,
    reserved: [u8; 18],
}

const _: () = assert!(size_of::<RawCdc>() == CDC_LENGTH);

impl From<RawCursor> for Cursor {
    fn from(raw: RawCursor) -> Self {
        Self {
            wrap: raw.wrap.get(),
            count: raw.count.get(),
        }
    }
}

impl From<Cursor> for RawCursor {
    fn from(cursor: Cursor) -> Self {
        Self {
            reserved: U16::ZERO,
            wrap: U16::new(cursor.wrap),
            count: U32::new(cursor.count),
        }
    }
}

impl Cdc {
    /// Reads a CDC message from a received SEND of at least 44 octets.
    ///
    /// Reserved bits and octets are ignored (AMB-38).
    ///
    /// # Errors
    /// [`CdcError`] names what was wrong; nothing past octet 43 is read.
    #[inline]
    pub fn parse(octets: &[u8]) -> Result<Self, CdcError> {
        Ok(CdcOctets::of(octets)?.read())
    }

    /// Whether it has no flag.
    #[inline]
    #[must_use]
    pub const fn is_plain(&self) -> bool {
        self.producer_flags.is_empty() && self.connection_flags.is_empty()
    }

    /// Whether it has no flag but that the window is closed.
    #[inline(always)]
    pub(crate) const fn is_about_octets(&self) -> bool {
        self.producer_flags
            .difference(ProducerFlags::WRITER_BLOCKED)
            .is_empty()
            && self.connection_flags.is_empty()
    }

    /// The message as 44 octets, reserved octets zero.
    //= CDC-001
    #[inline]
    #[must_use]
    pub fn emit(&self) -> [u8; CDC_LENGTH] {
        zerocopy::transmute!(RawCdc {
            kind: CDC_TYPE,
            length: CDC_LENGTH as u8,
            sequence: U16::new(self.sequence),
            alert_token: U32::new(self.alert_token.0),
            producer: self.producer.into(),
            consumer: self.consumer.into(),
            producer_flags: self.producer_flags.bits(),
            connection_flags: self.connection_flags.bits(),
            reserved: [0; 18],
        })
    }
}

/// A CDC message as it was received.
#[derive(Clone, Copy)]
pub(crate) struct CdcOctets<'a>(&'a RawCdc);

impl<'a> CdcOctets<'a> {
    //= CDC-001
    //= CDC-035
    #[inline(always)]
    pub(crate) fn of(octets: &'a [u8]) -> Result<Self, CdcError> {
        let Ok((raw, _)) = RawCdc::ref_from_prefix(octets) else {
            return Err(CdcError::TooShort { have: octets.len() });
        };
        if raw.kind != CDC_TYPE {
            return Err(CdcError::NotCdc { kind: raw.kind });
        }
        if usize::from(raw.length) != CDC_LENGTH {
            return Err(CdcError::BadLength { length: raw.length });
        }
        Ok(Self(raw))
    }

    /// Whom it is for.
    #[inline(always)]
    pub(crate) const fn alert_token(self) -> AlertToken {
        AlertToken(self.0.alert_token.get())
    }

    /// All of it.
    #[inline(always)]
    pub(crate) fn read(self) -> Cdc {
        let raw = self.0;
        Cdc {
            sequence: raw.sequence.get(),
            alert_token: self.alert_token(),
            producer: raw.producer.into(),
            consumer: raw.consumer.into(),
            producer_flags: ProducerFlags::from_bits_truncate(raw.producer_flags),
            connection_flags: ConnectionFlags::from_bits_truncate(raw.connection_flags),
        }
    }
}

impl fmt::Display for Cdc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "CDC seq {} token {} prod {} cons {}",
            self.sequence, self.alert_token, self.producer, self.consumer
        )?;
        show_flags(self.producer_flags, self.connection_flags, f)
    }
}

/// Prints the letters of RFC 7609 A.4, in the order of the octets.
pub(super) fn show_flags(
    producer: ProducerFlags,
    connection: ConnectionFlags,
    f: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let letters = [
        (producer.contains(ProducerFlags::WRITER_BLOCKED), 'B'),
        (producer.contains(ProducerFlags::URGENT_PENDING), 'P'),
        (producer.contains(ProducerFlags::URGENT_PRESENT), 'U'),
        (
            producer.contains(ProducerFlags::CURSOR_UPDATE_REQUESTED),
            'R',
        ),
        (producer.contains(ProducerFlags::FAILOVER_VALIDATION), 'F'),
        (connection.contains(ConnectionFlags::SENDING_DONE), 'D'),
        (
            connection.contains(ConnectionFlags::PEER_CONNECTION_CLOSED),
            'C',
        ),
        (connection.contains(ConnectionFlags::ABNORMAL_CLOSE), 'A'),
    ];
    let mut separator = " ";
    for (set, letter) in letters {
        if set {
            write!(f, "{separator}{letter}")?;
            separator = "";
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The wrap-only vector of a hostile peer: legal octets, judged elsewhere.
    const WRAP_ONLY: [u8; 44] = {
        let mut octets = [0u8; 44];
        octets[0] = 0xfe;
        octets[1] = 0x2c;
        octets[3] = 1;
        octets[7] = 0x11;
        octets[11] = 1;
        octets
    };

    #[test]
    fn a_cdc_message_round_trips_and_reads_as_one_line() {
        //= CDC-001 test
        //= CDC-035 test
        let cdc = Cdc {
            sequence: 65535,
            alert_token: AlertToken(0x1122_3344),
            producer: Cursor {
                wrap: 7,
                count: 0x0001_0203,
            },
            consumer: Cursor { wrap: 6, count: 9 },
            producer_flags: ProducerFlags::WRITER_BLOCKED | ProducerFlags::URGENT_PENDING,
            connection_flags: ConnectionFlags::SENDING_DONE,
        };
        let octets = cdc.emit();
        assert_eq!(
            octets[..26],
            [
                0xfe, 0x2c, 0xff, 0xff, 0x11, 0x22, 0x33, 0x44, 0, 0, 0, 7, 0, 1, 2, 3, 0, 0, 0, 6,
                0, 0, 0, 9, 0xc0, 0x80
            ]
        );
        assert_eq!(octets[26..], [0; 18]);
        assert_eq!(Cdc::parse(&octets), Ok(cdc));
        assert_eq!(
            std::format!("{cdc}"),
            "CDC seq 65535 token 0x11223344 prod 7:66051 cons 6:9 BPD"
        );
    }

    #[test]
    fn short_foreign_and_mislabelled_octets_are_distinguished() {
        assert_eq!(
            Cdc::parse(&WRAP_ONLY[..43]),
            Err(CdcError::TooShort { have: 43 })
        );
        let mut other = WRAP_ONLY;
        other[0] = 7;
        assert_eq!(Cdc::parse(&other), Err(CdcError::NotCdc { kind: 7 }));
        let mut other = WRAP_ONLY;
        other[1] = 45;
        assert_eq!(Cdc::parse(&other), Err(CdcError::BadLength { length: 45 }));
        assert_eq!(Cdc::parse(&WRAP_ONLY).unwrap().producer.wrap, 1);
    }

    #[test]
    fn reserved_bits_are_ignored_and_not_kept() {
        let mut octets = WRAP_ONLY;
        octets[24] = 0x07;
        octets[25] = 0x1f;
        octets[43] = 0xff;
        let cdc = Cdc::parse(&octets).unwrap();
        assert_eq!(cdc.emit(), WRAP_ONLY);
    }
}
