//! Names of physical networks.

use core::fmt;

/// Most characters of a name.
const LENGTH: usize = 16;

/// The name that an administrator gave a physical network: ports of one name are on
/// one LAN ([`LanId`](crate::id::LanId)), and an ISM device of that name serves it
/// ([`IsmPath::pnet_match`](super::IsmPath::pnet_match)).
///
/// One to sixteen letters and digits. Two names are the same however they were typed:
/// upper-case or not, with blanks around or without.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PnetId {
    /// Upper-case, with blanks behind.
    octets: [u8; LENGTH],
}

impl PnetId {
    /// A name as somebody typed it; `None` if it is none.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        //= V2-254
        let text = text.as_bytes().trim_ascii();
        if text.is_empty() || text.len() > LENGTH || !text.iter().all(u8::is_ascii_alphanumeric) {
            return None;
        }
        let mut octets = [b' '; LENGTH];
        for (octet, from) in octets.iter_mut().zip(text) {
            *octet = from.to_ascii_uppercase();
        }
        Some(Self { octets })
    }
}

impl fmt::Display for PnetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for octet in self.octets.iter().take_while(|octet| **octet != b' ') {
            write!(f, "{}", *octet as char)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::format;

    #[test]
    fn a_name_is_the_same_however_it_was_typed() {
        //= V2-254 test
        let name = PnetId::new("PNET1").unwrap();
        for text in ["pnet1", " PNET1", "Pnet1  ", "\tpNeT1 \n"] {
            assert_eq!(PnetId::new(text), Some(name), "{text:?}");
        }
        assert_eq!(format!("{name}"), "PNET1");
        assert_eq!(
            format!("{}", PnetId::new("abcdefgh12345678").unwrap()),
            "ABCDEFGH12345678"
        );
        for other in ["PNET2", "PNET", "PNET11"] {
            assert_ne!(PnetId::new(other), Some(name), "{other}");
        }
        for none in ["", "   ", "A B", "PNET-1", "ABCDEFGH123456789", "Ä"] {
            assert_eq!(PnetId::new(none), None, "{none:?}");
        }
    }
}
