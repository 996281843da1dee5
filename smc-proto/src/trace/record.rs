//! An event in 32 octets.
//!
//! ```text
//!    0       8       12          16    17       18                    32
//!   +-------+-------+-----------+-----+--------+---------------------+
//!   | time  | index | generation| kind| subject| fields, in order    |
//!   +-------+-------+-----------+-----+--------+---------------------+
//! ```
//!
//! All numbers are little-endian, time in nanoseconds. A field that may be absent has an octet
//! before it, 0 or 1. Octets behind the last field are 0.

use core::fmt;

use super::field::{FIELD_OCTETS, Reader, Writer};
use super::{Entry, Kind, Subject, TraceEvent};
use crate::time::Instant;

/// An event with its time and its subject, in 32 octets. Any octets are a record, but not each
/// record is an event: [`Record::decode`] says.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
#[repr(C, align(8))]
pub struct Record {
    octets: [u8; Self::OCTETS],
}

impl Record {
    /// Octets of a record.
    pub const OCTETS: usize = 32;

    /// A record that is no event: all octets are 0.
    pub const EMPTY: Self = Self {
        octets: [0; Self::OCTETS],
    };

    /// The record of an event.
    #[inline]
    #[must_use]
    pub fn new(at: Instant, subject: Subject, event: &TraceEvent) -> Self {
        let (of, index, generation) = subject.parts();
        let mut fields = Writer::new();
        event.put(&mut fields);
        let [t0, t1, t2, t3, t4, t5, t6, t7] = at.as_nanos().to_le_bytes();
        let [i0, i1, i2, i3] = index.to_le_bytes();
        let [g0, g1, g2, g3] = generation.to_le_bytes();
        let [a, b, c, d, e, f, g, h, i, j, k, l, m, n] = fields.finish();
        let octets = [
            t0,
            t1,
            t2,
            t3,
            t4,
            t5,
            t6,
            t7,
            i0,
            i1,
            i2,
            i3,
            g0,
            g1,
            g2,
            g3,
            event.kind() as u8,
            of,
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            i,
            j,
            k,
            l,
            m,
            n,
        ];
        Self { octets }
    }

    /// A record of these octets.
    #[must_use]
    pub const fn from_octets(octets: [u8; Self::OCTETS]) -> Self {
        Self { octets }
    }

    /// The octets.
    #[must_use]
    pub const fn octets(&self) -> &[u8; Self::OCTETS] {
        &self.octets
    }

    /// The event, or `None` if the octets are none: of a newer version, or of no engine at all.
    #[must_use]
    pub fn decode(&self) -> Option<Entry> {
        let [
            t0,
            t1,
            t2,
            t3,
            t4,
            t5,
            t6,
            t7,
            i0,
            i1,
            i2,
            i3,
            g0,
            g1,
            g2,
            g3,
            kind,
            of,
            ref fields @ ..,
        ] = self.octets;
        let fields: [u8; FIELD_OCTETS] = *fields;
        let at = Instant::from_nanos(u64::from_le_bytes([t0, t1, t2, t3, t4, t5, t6, t7]));
        let index = u32::from_le_bytes([i0, i1, i2, i3]);
        let generation = u32::from_le_bytes([g0, g1, g2, g3]);
        let subject = Subject::from_parts(of, index, generation)?;
        let event = TraceEvent::get(Kind::from_number(kind)?, &mut Reader::new(fields))?;
        Some(Entry { at, subject, event })
    }
}

impl Default for Record {
    fn default() -> Self {
        Self::EMPTY
    }
}

/// Prints the event, or that there is none.
impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.decode() {
            Some(entry) => entry.fmt(f),
            None => f.write_str("no event"),
        }
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
