//! Fields of events as octets of a record, little-endian, and as values.

use super::{Subject, Value};
use crate::id::{BufferId, ConnId, DeviceId, GroupId, Idx, LinkId};
use crate::time::Instant;
use crate::wire::types::{AlertToken, DeleteLinkReason, DiagnosisCode, DmbToken, LinkNumber};

/// Octets that the fields of an event have in a record.
pub(super) const FIELD_OCTETS: usize = 14;

/// A type of fields.
pub(super) trait Field: Copy {
    /// Octets in a record.
    const OCTETS: usize;
    /// Appends the octets.
    fn put(self, out: &mut Writer);
    /// Takes the octets; `None` if they are no such value.
    fn get(from: &mut Reader) -> Option<Self>;
    /// The value for output.
    fn value(self) -> Value;
}

/// Octets of fields being written.
pub(super) struct Writer {
    octets: [u8; FIELD_OCTETS],
    at: usize,
}

impl Writer {
    pub(super) const fn new() -> Self {
        Self {
            octets: [0; FIELD_OCTETS],
            at: 0,
        }
    }

    pub(super) const fn finish(self) -> [u8; FIELD_OCTETS] {
        self.octets
    }

    /// Appends octets. Whether all of a kind fit is checked at compile time.
    #[inline(always)]
    fn put<const N: usize>(&mut self, octets: [u8; N]) {
        let room = self.octets.get_mut(self.at..);
        if let Some(room) = room.and_then(|room| room.first_chunk_mut::<N>()) {
            *room = octets;
        }
        self.at = self.at.saturating_add(N);
    }
}

/// Octets of fields being read.
pub(super) struct Reader {
    octets: [u8; FIELD_OCTETS],
    at: usize,
}

impl Reader {
    pub(super) const fn new(octets: [u8; FIELD_OCTETS]) -> Self {
        Self { octets, at: 0 }
    }

    #[inline(always)]
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let octets = self.octets.get(self.at..)?.first_chunk::<N>()?;
        self.at = self.at.saturating_add(N);
        Some(*octets)
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl Field for $number {
            const OCTETS: usize = size_of::<$number>();
            #[inline(always)]
            fn put(self, out: &mut Writer) {
                out.put(self.to_le_bytes());
            }
            fn get(from: &mut Reader) -> Option<Self> {
                from.take().map(Self::from_le_bytes)
            }
            fn value(self) -> Value {
                Value::Number(u64::from(self))
            }
        }
    )*};
}
numbers!(u8, u16, u32, u64);

impl Field for bool {
    const OCTETS: usize = 1;
    #[inline(always)]
    fn put(self, out: &mut Writer) {
        u8::from(self).put(out);
    }
    fn get(from: &mut Reader) -> Option<Self> {
        match u8::get(from)? {
            0 => Some(false),
            1 => Some(true),
            _ => None,
        }
    }
    fn value(self) -> Value {
        Value::Flag(self)
    }
}

impl<T: Field> Field for Option<T> {
    const OCTETS: usize = T::OCTETS.saturating_add(1);
    #[inline(always)]
    fn put(self, out: &mut Writer) {
        self.is_some().put(out);
        match self {
            Some(value) => value.put(out),
            None => out.at = out.at.saturating_add(T::OCTETS),
        }
    }
    fn get(from: &mut Reader) -> Option<Self> {
        if bool::get(from)? {
            return T::get(from).map(Some);
        }
        from.at = from.at.saturating_add(T::OCTETS);
        Some(None)
    }
    fn value(self) -> Value {
        self.map_or(Value::Absent, T::value)
    }
}

/// Numbers with a name of their own.
macro_rules! wrapped {
    ($($wrapper:ident($number:ty) => $value:expr;)*) => {$(
        impl Field for $wrapper {
            const OCTETS: usize = size_of::<$number>();
            #[inline(always)]
            fn put(self, out: &mut Writer) {
                self.0.put(out);
            }
            fn get(from: &mut Reader) -> Option<Self> {
                <$number>::get(from).map(Self)
            }
            fn value(self) -> Value {
                let value: fn($number) -> Value = $value;
                value(self.0)
            }
        }
    )*};
}
wrapped! {
    DiagnosisCode(u32) => |code| Value::Code(code, 8);
    DeleteLinkReason(u32) => |code| Value::Code(code, 8);
    AlertToken(u32) => |token| Value::Code(token, 8);
    LinkNumber(u8) => |number| Value::Number(u64::from(number));
    DmbToken(u64) => Value::Number;
    DeviceId(u8) => |number| Value::Object(Subject::Device(DeviceId(number)));
    Flags(u8) => |flags| Value::Code(u32::from(flags), 2);
}

/// Flags of a message, as its octet.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Flags(pub u8);

macro_rules! handles {
    ($($handle:ident)*) => {$(
        impl Field for $handle {
            const OCTETS: usize = 8;
            #[inline(always)]
            fn put(self, out: &mut Writer) {
                self.index.get().put(out);
                self.generation.put(out);
            }
            fn get(from: &mut Reader) -> Option<Self> {
                Some(Self {
                    index: Idx::new(u32::get(from)?),
                    generation: u32::get(from)?,
                })
            }
            fn value(self) -> Value {
                Value::Object(self.into())
            }
        }
    )*};
}
handles!(ConnId GroupId LinkId BufferId);

impl Field for Instant {
    const OCTETS: usize = 8;
    #[inline(always)]
    fn put(self, out: &mut Writer) {
        self.as_nanos().put(out);
    }
    fn get(from: &mut Reader) -> Option<Self> {
        u64::get(from).map(Self::from_nanos)
    }
    fn value(self) -> Value {
        Value::Number(self.as_nanos())
    }
}
