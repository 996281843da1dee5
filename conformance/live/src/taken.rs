//! Urgent bytes that applications took before they read up to them.

use std::collections::BTreeMap;
use std::io::{self, Read};

/// By connection: how many bytes are before the urgent one, and which it is.
#[derive(Clone, Debug, Default)]
pub struct Taken(BTreeMap<u8, (usize, u8)>);

impl Taken {
    /// An application took the urgent byte behind so many others.
    pub fn note(&mut self, conn: u8, before: usize, byte: u8) {
        self.0.insert(conn, (before, byte));
    }

    /// Reads so many bytes, of a stream with so many that can be read, with the urgent one in
    /// its place: sockets do not read it twice, and stop before its place.
    ///
    /// # Errors
    /// There are fewer, or the stream's.
    pub fn read(
        &mut self,
        conn: u8,
        count: usize,
        readable: usize,
        mut stream: impl Read,
    ) -> io::Result<Vec<u8>> {
        let taken = self.0.get(&conn).copied();
        let taken = taken.filter(|(before, _)| *before < count);
        let asked = count - usize::from(taken.is_some());
        if readable < asked {
            let what = format!("{readable} octets can be read");
            return Err(io::Error::other(what));
        }
        let mut bytes = vec![0; asked];
        let before = taken.map_or(asked, |(before, _)| before);
        let (front, behind) = bytes.split_at_mut(before);
        stream.read_exact(front)?;
        stream.read_exact(behind)?;
        if let Some((before, byte)) = taken {
            bytes.insert(before, byte);
            self.0.remove(&conn);
        }
        Ok(bytes)
    }
}

/// All of it has been written, or it is an error.
///
/// # Errors
/// Less has.
pub fn all_taken(written: usize, bytes: &[u8]) -> io::Result<()> {
    if written == bytes.len() {
        return Ok(());
    }
    let what = format!("{written} of {} octets were taken", bytes.len());
    Err(io::Error::other(what))
}
