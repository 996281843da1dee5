//! Where the bytes of a capture come from, decompressed if need be.

use std::io::{self, Cursor, Read};

use flate2::read::MultiGzDecoder;

const MAGIC_LENGTH: u64 = 4;

/// The bytes of a capture file.
pub(super) struct Source<'a>(Box<dyn Read + 'a>);

impl<'a> Source<'a> {
    /// Reads the first bytes, undoes gzip, and returns the (up to) four
    /// bytes that identify the format, which are still to be read.
    pub(super) fn open(bytes: impl Read + 'a) -> io::Result<(Vec<u8>, Self)> {
        let (magic, source) = Self(Box::new(bytes)).peek()?;
        if magic.starts_with(&[0x1f, 0x8b]) {
            Self(Box::new(MultiGzDecoder::new(source))).peek()
        } else {
            Ok((magic, source))
        }
    }

    fn peek(mut self) -> io::Result<(Vec<u8>, Self)> {
        let mut head = Vec::new();
        (&mut self).take(MAGIC_LENGTH).read_to_end(&mut head)?;
        let rest = Cursor::new(head.clone()).chain(self);
        Ok((head, Self(Box::new(rest))))
    }
}

impl Read for Source<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        // The capture library takes an interrupted call for a failure.
        loop {
            match self.0.read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                outcome => return outcome,
            }
        }
    }
}
