//! Reading the file of a policy: a regular file of bounded size, and never a wait.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Most bytes of a policy file.
pub(super) const MOST: u64 = 1 << 20;

/// Why there is no text.
#[derive(Debug)]
pub(super) enum ReadError {
    /// There is no file that this process could read.
    None(io::Error),
    /// There is one, and its content cannot be a policy.
    Wrong(io::Error),
}

impl ReadError {
    pub(super) fn into_io(self) -> io::Error {
        match self {
            Self::None(error) | Self::Wrong(error) => error,
        }
    }
}

/// Reads a policy file. Whatever lies at the path, reading ends: a FIFO without a writer, a
/// device or a directory is refused, and so is a file larger than [`MOST`].
pub(super) fn read(path: &Path) -> Result<String, ReadError> {
    // Opening a device may do something to it, so what is there is checked before, too.
    regular(&fs::metadata(path).map_err(ReadError::None)?)?;
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(ReadError::None)?;
    contents(file)
}

/// The text of a file that is open: another one may be at its path by now.
fn contents(file: File) -> Result<String, ReadError> {
    regular(&file.metadata().map_err(ReadError::None)?)?;
    text(file)
}

/// The text of at most [`MOST`] bytes that there is.
fn text(from: impl Read) -> Result<String, ReadError> {
    let mut bytes = Vec::new();
    from.take(MOST + 1)
        .read_to_end(&mut bytes)
        .map_err(ReadError::None)?;
    // Files of pseudo file systems have no size before they are read.
    if bytes.len() as u64 > MOST {
        return Err(too_large());
    }
    String::from_utf8(bytes).map_err(|_| {
        let what = "the file is not UTF-8";
        ReadError::Wrong(io::Error::new(io::ErrorKind::InvalidData, what))
    })
}

fn regular(metadata: &Metadata) -> Result<(), ReadError> {
    if !metadata.is_file() {
        let what = "not a regular file";
        let error = io::Error::new(io::ErrorKind::InvalidInput, what);
        return Err(ReadError::None(error));
    }
    match metadata.len() > MOST {
        true => Err(too_large()),
        false => Ok(()),
    }
}

fn too_large() -> ReadError {
    let what = "the file is larger than 1 MiB";
    ReadError::Wrong(io::Error::new(io::ErrorKind::InvalidData, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(outcome: Result<String, ReadError>) -> io::ErrorKind {
        outcome.unwrap_err().into_io().kind()
    }

    #[test]
    fn what_was_opened_is_checked_and_not_only_what_was_there_before() {
        for other in ["/dev/zero", "/"] {
            let file = File::open(other).unwrap();
            assert_eq!(kind(contents(file)), io::ErrorKind::InvalidInput, "{other}");
        }
    }

    #[test]
    fn a_text_is_bounded_wherever_it_comes_from() {
        let letters = |count| io::repeat(b'a').take(count);
        assert_eq!(text(letters(MOST)).unwrap().len() as u64, MOST);
        assert_eq!(kind(text(letters(MOST + 1))), io::ErrorKind::InvalidData);
        assert_eq!(kind(text(io::repeat(b'a'))), io::ErrorKind::InvalidData);
        assert_eq!(kind(text(&[0xff][..])), io::ErrorKind::InvalidData);
    }
}
