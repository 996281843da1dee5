//! The list of ISM devices: one entry for a real one, two for an emulated one.

use core::{fmt, slice};

use super::MAX_ENTRIES;
use crate::wire::list::{List, UpTo};
use crate::wire::types::{Chid, IsmGid};

/// One entry as sent.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct IsmGidEntry {
    /// A GID, or half of one.
    pub gid: u64,
    /// Channel ID of the device.
    pub chid: Chid,
}

/// Up to eight entries. Read as sent, also if they make no sense;
/// [`iter`](Self::iter) lists the devices.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct IsmGidList(UpTo<IsmGidEntry, MAX_ENTRIES>);

impl IsmGidList {
    /// No devices.
    #[must_use]
    pub const fn new() -> Self {
        Self(UpTo::new())
    }

    pub(super) const fn from_entries(entries: UpTo<IsmGidEntry, MAX_ENTRIES>) -> Self {
        Self(entries)
    }

    /// Adds a device.
    ///
    /// # Errors
    /// The device, if there is no room for its entry, or its two.
    //= D-013
    pub fn push(&mut self, device: IsmGid) -> Result<(), IsmGid> {
        let chid = device.chid;
        let halves = [device.gid, device.gid_ext];
        let entries = if chid.is_emulated() { 2usize } else { 1 };
        if MAX_ENTRIES.saturating_sub(self.0.len()) < entries {
            return Err(device);
        }
        for gid in halves.into_iter().take(entries) {
            // There is room.
            let _ = self.0.push(IsmGidEntry { gid, chid });
        }
        Ok(())
    }

    /// Adds an entry as it is to be sent.
    ///
    /// # Errors
    /// The entry, if there are eight.
    pub fn push_entry(&mut self, entry: IsmGidEntry) -> Result<(), IsmGidEntry> {
        self.0.push(entry)
    }

    /// The entries as sent.
    #[must_use]
    pub fn entries(&self) -> &[IsmGidEntry] {
        &self.0
    }

    /// The devices in the order of the list.
    #[must_use]
    pub fn iter(&self) -> IsmGids<'_> {
        IsmGids(self.0.iter())
    }
}

impl<'a> IntoIterator for &'a IsmGidList {
    type Item = IsmGid;
    type IntoIter = IsmGids<'a>;
    fn into_iter(self) -> IsmGids<'a> {
        self.iter()
    }
}

/// The devices of an [`IsmGidList`]. An entry of an emulated device that lacks
/// its other half is passed over.
#[derive(Clone, Debug)]
pub struct IsmGids<'a>(slice::Iter<'a, IsmGidEntry>);

impl Iterator for IsmGids<'_> {
    type Item = IsmGid;

    //= D-013
    //= D-014
    fn next(&mut self) -> Option<IsmGid> {
        loop {
            let IsmGidEntry { gid, chid } = *self.0.next()?;
            let gid_ext = if chid.is_emulated() {
                match self.0.as_slice().first() {
                    Some(other) if other.chid == chid => {
                        self.0.next();
                        other.gid
                    }
                    _ => continue,
                }
            } else {
                0
            };
            return Some(IsmGid { gid, gid_ext, chid });
        }
    }
}

impl fmt::Display for IsmGidEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "0x{:016x}/{}", self.gid, self.chid)
    }
}

impl fmt::Display for IsmGidList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        List(&self.0).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn entry(gid: u64, chid: u16) -> IsmGidEntry {
        IsmGidEntry {
            gid,
            chid: Chid(chid),
        }
    }

    fn devices(entries: &[IsmGidEntry]) -> std::vec::Vec<(u64, u64, u16)> {
        let mut list = IsmGidList::new();
        for entry in entries {
            list.push_entry(*entry).unwrap();
        }
        assert_eq!(list.entries(), entries);
        list.iter()
            .map(|device| (device.gid, device.gid_ext, device.chid.0))
            .collect()
    }

    #[test]
    fn emulated_devices_take_two_entries_of_one_chid() {
        //= D-001 test
        //= D-013 test
        //= D-002 test
        let mut list = IsmGidList::new();
        for (gid, gid_ext, chid) in [
            (1, 0, 0xc001),
            (2, 3, 0xffff),
            (4, 0, 0xfeff),
            (5, 6, 0xff00),
        ] {
            let chid = Chid(chid);
            list.push(IsmGid { gid, gid_ext, chid }).unwrap();
        }
        assert_eq!(list.entries().len(), 6);
        let back: IsmGidList = {
            let mut again = IsmGidList::new();
            list.iter().for_each(|device| again.push(device).unwrap());
            again
        };
        assert_eq!(back, list);
        let pair = IsmGid {
            gid: 7,
            gid_ext: 8,
            chid: Chid::LOOPBACK,
        };
        assert_eq!(list.push(pair), Ok(()));
        assert_eq!(list.push(pair), Err(pair));
        // Of two entries none is written if one finds room only.
        let mut list = IsmGidList::new();
        (0..7).for_each(|gid| list.push_entry(entry(gid, 1)).unwrap());
        assert_eq!(list.push(pair), Err(pair));
        assert_eq!(list.entries().len(), 7);
    }

    #[test]
    fn a_half_of_an_emulated_device_is_passed_over() {
        //= D-014 test
        assert_eq!(devices(&[entry(1, 0xffff)]), []);
        assert_eq!(devices(&[entry(1, 0xffff), entry(2, 0xff00)]), []);
        assert_eq!(
            devices(&[entry(1, 0xffff), entry(2, 0xff00), entry(3, 0xff00)]),
            [(2, 3, 0xff00)]
        );
        assert_eq!(
            devices(&[
                entry(1, 0xffff),
                entry(2, 7),
                entry(3, 0xffff),
                entry(4, 0xffff)
            ]),
            [(2, 0, 7), (3, 4, 0xffff)]
        );
        assert_eq!(
            devices(&[entry(1, 0xffff), entry(2, 0xffff), entry(3, 0xffff)]),
            [(1, 2, 0xffff)]
        );
    }
}
