//! The bytes of a capture file: decompressed if they are gzip, and with the magic number in front
//! that distinguishes pcap from pcapng.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;

/// Bytes that distinguish the formats.
const MAGIC_LENGTH: u64 = 4;

/// The first two bytes of gzip (RFC 1952).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// The decompressed bytes of a capture file.
pub(super) struct Source<'a>(Box<dyn Read + 'a>);

impl<'a> Source<'a> {
    /// Begins to read, decompresses gzip, and returns the magic number of the capture: its first four
    /// bytes, fewer if there are no more. The source yields them as well.
    pub(super) fn open(bytes: impl Read + 'a) -> io::Result<(Vec<u8>, Self)> {
        let (magic, source) = Self(Box::new(bytes)).peek_magic()?;
        if magic.starts_with(&GZIP_MAGIC) {
            Self(Box::new(MultiGzDecoder::new(source))).peek_magic()
        } else {
            Ok((magic, source))
        }
    }

    /// The first bytes, and a source that yields them and the others.
    fn peek_magic(mut self) -> io::Result<(Vec<u8>, Self)> {
        let mut magic = Vec::new();
        (&mut self).take(MAGIC_LENGTH).read_to_end(&mut magic)?;
        let all = Cursor::new(magic.clone()).chain(self);
        Ok((magic, Self(Box::new(all))))
    }
}

impl Read for Source<'_> {
    /// Reads, and repeats a call that a signal has interrupted: the pcap library would take that for a
    /// failure.
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }
}
