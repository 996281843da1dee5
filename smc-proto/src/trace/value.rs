//! Values of fields, for text and for other forms of output.

use core::fmt;

use super::Subject;

/// Value of a field of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Value {
    /// A number.
    Number(u64),
    /// A code of the protocol, or flags, in so many hexadecimal digits.
    Code(u32, u8),
    /// A name, of lower-case letters, digits and underscores.
    Name(&'static str),
    /// Whether something is so.
    Flag(bool),
    /// Another object.
    Object(Subject),
    /// Nothing.
    Absent,
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Code(code, digits) => {
                f.write_str("0x")?;
                let mut left = *digits;
                while left > 0 {
                    left = left.saturating_sub(1);
                    let digit = code.wrapping_shr(u32::from(left).wrapping_mul(4)) & 0xf;
                    write!(f, "{digit:x}")?;
                }
                Ok(())
            }
            Self::Name(name) => f.write_str(name),
            Self::Flag(true) => f.write_str("yes"),
            Self::Flag(false) => f.write_str("no"),
            Self::Object(subject) => subject.fmt(f),
            Self::Absent => f.write_str("none"),
        }
    }
}

/// Description of a field of an event.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct FieldInfo {
    /// Name, of lower-case letters and underscores.
    pub name: &'static str,
    /// Meaning, as a sentence.
    pub meaning: &'static str,
}
