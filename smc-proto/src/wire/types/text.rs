//! Names of 32 octets, padded with blanks and without an end mark.

use core::fmt;

/// Octets of an EID and of a host name.
const LENGTH: usize = 32;

/// Enterprise ID: hosts that have one in common belong together and may use
/// version 2 with each other.
///
/// 32 octets as on the wire, whatever they are (V2-252): only
/// [`Eid::user`] judges them. Two are equal if all octets are.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Eid(pub [u8; LENGTH]);

/// Name of a host, 32 octets as on the wire; by custom ASCII padded with
/// blanks.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Hostname(pub [u8; LENGTH]);

/// Why a text is not a user EID.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum EidError {
    /// Nothing but blanks.
    Empty,
    /// More than 32 octets.
    TooLong {
        /// Octets there were.
        length: usize,
    },
    /// An octet that may not be where it is: not an upper-case letter,
    /// digit, dot or hyphen, or the first one is neither letter nor digit.
    Character {
        /// Where it is.
        offset: usize,
        /// The octet.
        octet: u8,
    },
}

impl Eid {
    /// A user EID from its text of 1 to 32 octets; blanks at the end do not
    /// count.
    ///
    /// # Errors
    /// [`EidError`]: it may have upper-case letters, digits, dots and hyphens,
    /// and begins with a letter or a digit.
    //= V2-250
    pub fn user(text: &str) -> Result<Self, EidError> {
        let mut text = text.as_bytes();
        while let [rest @ .., b' '] = text {
            text = rest;
        }
        if text.is_empty() {
            return Err(EidError::Empty);
        }
        if text.len() > LENGTH {
            return Err(EidError::TooLong { length: text.len() });
        }
        for (offset, &octet) in text.iter().enumerate() {
            let alphanumeric = octet.is_ascii_uppercase() || octet.is_ascii_digit();
            if !alphanumeric && (offset == 0 || !matches!(octet, b'.' | b'-')) {
                return Err(EidError::Character { offset, octet });
            }
        }
        Ok(Self(padded(text)))
    }

    /// The system EID of a mainframe: the low 16 bits of its CPU
    /// identification, and its machine type.
    //= V2-253
    #[must_use]
    pub fn system(cpu: u16, machine: u16) -> Self {
        let mut octets = *b"IBM-SYSZ-ISMSEID0000000000000000";
        let digits = (u32::from(cpu) << 16) | u32::from(machine);
        for (place, octet) in octets.iter_mut().rev().take(8).enumerate() {
            let digit = (digits >> (place << 2)) as u8 & 0x0f;
            *octet = match digit {
                0..=9 => b'0' | digit,
                _ => b'A'.wrapping_add(digit.wrapping_sub(10)),
            };
        }
        Self(octets)
    }

    /// Whether the EID has the form of a user EID.
    #[must_use]
    pub fn is_user(&self) -> bool {
        core::str::from_utf8(&self.0).is_ok_and(|text| Self::user(text).is_ok())
    }

    /// Whether the EID begins as system EIDs do.
    #[must_use]
    pub fn is_system(&self) -> bool {
        self.0.starts_with(b"IBM-SYSZ-ISMSEID")
    }
}

impl Hostname {
    /// The first 32 octets of `name`, padded with blanks.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self(padded(name.as_bytes()))
    }
}

impl Default for Hostname {
    /// 32 blanks.
    fn default() -> Self {
        Self([b' '; LENGTH])
    }
}

fn padded(text: &[u8]) -> [u8; LENGTH] {
    let mut octets = [b' '; LENGTH];
    for (octet, from) in octets.iter_mut().zip(text) {
        *octet = *from;
    }
    octets
}

/// Prints 32 octets: without the blanks at the end, what is not printable
/// ASCII as `\xnn`.
//= V2-054
fn show(octets: &[u8; LENGTH], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    if octets.iter().all(|octet| *octet == 0) {
        return f.write_str("-");
    }
    let blanks = octets
        .iter()
        .rev()
        .take_while(|octet| **octet == b' ')
        .count();
    for octet in octets.iter().take(LENGTH.saturating_sub(blanks)) {
        match *octet {
            b'\\' => f.write_str("\\\\")?,
            b'!'..=b'~' => write!(f, "{}", *octet as char)?,
            _ => write!(f, "\\x{octet:02x}")?,
        }
    }
    Ok(())
}

impl fmt::Display for Eid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(&self.0, f)
    }
}

impl fmt::Display for Hostname {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(&self.0, f)
    }
}

super::debug_as_display!(Eid, Hostname);

impl fmt::Display for EidError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("an EID has at least one character"),
            Self::TooLong { length } => write!(f, "an EID of {length} octets, at most 32"),
            Self::Character { offset, octet } => {
                write!(f, "octet 0x{octet:02x} at offset {offset} of an EID")
            }
        }
    }
}

impl core::error::Error for EidError {}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn user_eids_are_judged() {
        //= V2-250 test
        let eid = Eid::user("MY.TEST-EID.1").unwrap();
        assert_eq!(eid.0, *b"MY.TEST-EID.1                   ");
        assert_eq!(format!("{eid}"), "MY.TEST-EID.1");
        assert!(eid.is_user() && !eid.is_system());
        assert_eq!(Eid::user("MY.TEST-EID.1   "), Ok(eid));
        assert_eq!(Eid::user(&format!("{eid:?}")), Ok(eid));
        assert!(Eid::user(&"A".repeat(32)).is_ok());
        assert_eq!(
            Eid::user(&"A".repeat(33)),
            Err(EidError::TooLong { length: 33 })
        );
        assert_eq!(Eid::user(""), Err(EidError::Empty));
        assert_eq!(Eid::user("    "), Err(EidError::Empty));
        for (text, offset) in [
            (".A", 0),
            ("-A", 0),
            ("A a", 1),
            ("Aa", 1),
            ("A\0", 1),
            (" A", 0),
        ] {
            let octet = text.as_bytes()[offset];
            assert_eq!(Eid::user(text), Err(EidError::Character { offset, octet }));
        }
        // The judgement is the same octet by octet.
        for octet in 0..=u8::MAX {
            let mut octets = eid.0;
            octets[1] = octet;
            let allowed = octet.is_ascii_uppercase()
                || octet.is_ascii_digit()
                || matches!(octet, b'.' | b'-');
            assert_eq!(Eid(octets).is_user(), allowed);
        }
    }

    #[test]
    fn the_system_eid_names_the_machine() {
        //= V2-253 test
        let eid = Eid::system(0x09af, 0x3931);
        assert_eq!(eid.0, *b"IBM-SYSZ-ISMSEID0000000009AF3931");
        assert!(eid.is_system() && eid.is_user());
    }

    #[test]
    fn a13_names_without_an_end_or_with_zeros_are_32_octets() {
        //= CASE-A13 test
        //= V2-054 test
        let full = Hostname::new("a-host-name-of-more-than-thirty-two-octets");
        assert_eq!(format!("{full}"), "a-host-name-of-more-than-thirty-");
        let mut octets = *b"host\0name                       ";
        assert_eq!(format!("{}", Hostname(octets)), "host\\x00name");
        octets[0] = 0xff;
        octets[1] = b'\\';
        assert_eq!(format!("{}", Hostname(octets)), "\\xff\\\\st\\x00name");
        assert_eq!(format!("[{}]", Hostname::default()), "[]");
        assert_eq!(format!("{}", Eid::default()), "-");
    }
}
