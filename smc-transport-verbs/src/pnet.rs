//! Physical networks and their IDs: which RNIC ports and interfaces are attached to the
//! same one.
//!
//! IDs and entries are those of the tool `smc_pnet`. Where the hardware has an ID, as on
//! s390, that one counts and the table does not.

use std::fmt;
use std::path::Path;

/// ID of a physical network: 1 to 16 letters and digits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PnetId([u8; 16]);

impl PnetId {
    /// Takes 1 to 16 letters and digits; blanks around them do not matter, nor does
    /// case.
    ///
    /// # Errors
    /// [`PnetError::Id`].
    pub fn new(text: &str) -> Result<Self, PnetError> {
        let text = text.trim_matches(' ').as_bytes();
        let mut id = [b' '; 16];
        let fits = (1..=id.len()).contains(&text.len());
        if !fits || !text.iter().all(u8::is_ascii_alphanumeric) {
            return Err(PnetError::Id);
        }
        for (to, from) in id.iter_mut().zip(text) {
            //= V2-254
            *to = from.to_ascii_uppercase();
        }
        Ok(Self(id))
    }

    /// Parses the PNET ID of the hardware, in EBCDIC; `None` if that is blank.
    #[must_use]
    pub fn from_hardware(bytes: &[u8; 16]) -> Option<Self> {
        let letter = |byte: &u8| match *byte {
            0x40 | 0 => Some(' '),
            0xc1..=0xc9 => Some(char::from(byte - 0xc1 + b'A')),
            0xd1..=0xd9 => Some(char::from(byte - 0xd1 + b'J')),
            0xe2..=0xe9 => Some(char::from(byte - 0xe2 + b'S')),
            0xf0..=0xf9 => Some(char::from(byte - 0xf0 + b'0')),
            _ => None,
        };
        let text: Option<String> = bytes.iter().map(letter).collect();
        Self::new(&text?).ok()
    }

    /// The ID of a port of a PCI device, by its utility string in a file system like
    /// `/sys/class/infiniband/NAME`; ports are counted from 0. Not tested with
    /// hardware.
    #[must_use]
    pub fn of_hardware(device: &Path, port: usize) -> Option<Self> {
        let bytes = std::fs::read(device.join("device/util_string")).ok()?;
        let at = port.checked_mul(16)?;
        Self::from_hardware(bytes.get(at..)?.first_chunk()?)
    }
}

impl fmt::Display for PnetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = self.0.iter().filter(|letter| **letter != b' ');
        letters
            .copied()
            .map(char::from)
            .try_for_each(|letter| write!(f, "{letter}"))
    }
}

impl fmt::Debug for PnetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What is attached to a physical network.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Attached {
    /// An interface, by its name.
    Interface(String),
    /// A port of an RNIC, by its name and number.
    Port(String, u8),
}

/// Which devices are attached to which physical network, where the hardware does not report it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct PnetTable {
    entries: Vec<(PnetId, Attached)>,
}

/// Why a table was not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PnetError {
    /// An ID has 1 to 16 letters and digits.
    Id,
    /// An interface has 1 to 15 bytes.
    Interface,
    /// An RNIC has 1 to 63 bytes, and ports 1 and 2.
    Port,
    /// The device is attached to another network already.
    Taken,
    /// There is no such entry.
    Missing,
}

impl fmt::Display for PnetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Id => "a PNET ID has 1 to 16 letters and digits",
            Self::Interface => "the name of an interface has 1 to 15 octets",
            Self::Port => "the name of an RNIC has 1 to 63 octets, and its ports are 1 and 2",
            Self::Taken => "it has a PNET ID already",
            Self::Missing => "there is no such entry",
        })
    }
}

impl std::error::Error for PnetError {}

impl PnetTable {
    /// Attaches something to a network.
    ///
    /// # Errors
    /// [`PnetError`]; nothing was changed.
    pub fn add(&mut self, id: PnetId, what: Attached) -> Result<(), PnetError> {
        match &what {
            Attached::Interface(name) if !(1..=15).contains(&name.len()) => {
                return Err(PnetError::Interface);
            }
            Attached::Port(name, port) => {
                let fits = (1..=63).contains(&name.len()) && (1..=2).contains(port);
                if !fits {
                    return Err(PnetError::Port);
                }
            }
            Attached::Interface(_) => {}
        }
        if self.entries.iter().any(|(_, other)| *other == what) {
            return Err(PnetError::Taken);
        }
        self.entries.push((id, what));
        Ok(())
    }

    /// Removes all entries of a network.
    ///
    /// # Errors
    /// [`PnetError::Missing`].
    pub fn remove(&mut self, id: PnetId) -> Result<(), PnetError> {
        let before = self.entries.len();
        self.entries.retain(|(of, _)| *of != id);
        match before == self.entries.len() {
            true => Err(PnetError::Missing),
            false => Ok(()),
        }
    }

    /// Removes all entries.
    pub fn flush(&mut self) {
        self.entries.clear();
    }

    /// The entries, in the order they were added.
    #[must_use]
    pub fn entries(&self) -> &[(PnetId, Attached)] {
        &self.entries
    }

    /// The network of an interface.
    #[must_use]
    pub fn of_interface(&self, name: &str) -> Option<PnetId> {
        self.find(|what| matches!(what, Attached::Interface(own) if own == name))
    }

    /// The network of a port.
    #[must_use]
    pub fn of_port(&self, device: &str, port: u8) -> Option<PnetId> {
        self.find(|what| matches!(what, Attached::Port(own, of) if own == device && *of == port))
    }

    fn find(&self, is: impl Fn(&Attached) -> bool) -> Option<PnetId> {
        let entry = self.entries.iter().find(|(_, what)| is(what));
        entry.map(|(id, _)| *id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> PnetId {
        PnetId::new(text).unwrap()
    }

    #[test]
    fn ids_are_letters_and_digits_in_upper_case() {
        //= V2-254 test
        assert_eq!(id(" net1 "), id("NET1"));
        assert_eq!(id("abcdefghijklmnop").to_string(), "ABCDEFGHIJKLMNOP");
        for wrong in ["", "  ", "NET-1", "A B", "ABCDEFGHIJKLMNOPQ", "É"] {
            assert_eq!(PnetId::new(wrong), Err(PnetError::Id), "{wrong:?}");
        }
    }

    #[test]
    fn the_hardware_speaks_ebcdic() {
        let mut bytes = [0x40; 16];
        bytes[..4].copy_from_slice(&[0xd5, 0xc5, 0xe3, 0xf1]);
        assert_eq!(PnetId::from_hardware(&bytes), Some(id("NET1")));
        assert_eq!(PnetId::from_hardware(&[0x40; 16]), None);
        assert_eq!(PnetId::from_hardware(&[0; 16]), None);
        assert_eq!(PnetId::from_hardware(&[0xff; 16]), None);
        assert_eq!(PnetId::of_hardware(Path::new("/none"), 0), None);
    }

    #[test]
    fn an_interface_or_port_is_attached_once() {
        let mut table = PnetTable::default();
        let eth = |name: &str| Attached::Interface(name.to_owned());
        let port = |name: &str, port| Attached::Port(name.to_owned(), port);
        assert_eq!(table.add(id("A"), eth("eth0")), Ok(()));
        assert_eq!(table.add(id("A"), port("mlx5_0", 1)), Ok(()));
        assert_eq!(table.add(id("B"), port("mlx5_0", 2)), Ok(()));
        assert_eq!(table.add(id("B"), eth("eth0")), Err(PnetError::Taken));
        assert_eq!(table.add(id("B"), port("x", 3)), Err(PnetError::Port));
        let long = eth("an_interface_too_long");
        assert_eq!(table.add(id("B"), long), Err(PnetError::Interface));
        assert_eq!(table.of_interface("eth0"), Some(id("A")));
        assert_eq!(table.of_port("mlx5_0", 2), Some(id("B")));
        assert_eq!(table.of_port("mlx5_0", 3), None);
        assert_eq!(table.remove(id("A")), Ok(()));
        assert_eq!(table.remove(id("A")), Err(PnetError::Missing));
        assert_eq!(table.entries().len(), 1);
        table.flush();
        assert_eq!(table.of_port("mlx5_0", 2), None);
    }
}
