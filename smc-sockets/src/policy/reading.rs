//! Reading the policy file: a regular file of bounded size. Reading never waits, whatever lies at the
//! path.

use std::fs::{self, File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Most bytes of a policy file.
pub(super) const MAX_LENGTH: u64 = 1 << 20;

/// Why a policy file was not read.
#[derive(Debug)]
pub(super) enum ReadError {
    /// This process can read no file at the path.
    Unreadable(io::Error),
    /// The file's content cannot be a policy.
    Invalid(io::Error),
}

impl ReadError {
    /// The error, of whatever kind.
    pub(super) fn into_io(self) -> io::Error {
        match self {
            Self::Unreadable(error) | Self::Invalid(error) => error,
        }
    }
}

/// Reads a policy file. Refuses FIFOs, devices and directories, and files larger than [`MAX_LENGTH`].
pub(super) fn read(path: &Path) -> Result<String, ReadError> {
    // Opening a device may have an effect on it, so the kind of file is checked before, too.
    regular(&fs::metadata(path).map_err(ReadError::Unreadable)?)?;
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY)
        .open(path)
        .map_err(ReadError::Unreadable)?;
    contents(file)
}

/// The text of an open file. Its kind is checked again: it may not be the file that was checked.
fn contents(file: File) -> Result<String, ReadError> {
    regular(&file.metadata().map_err(ReadError::Unreadable)?)?;
    text(file)
}

/// Reads a text of at most [`MAX_LENGTH`] bytes.
fn text(from: impl Read) -> Result<String, ReadError> {
    let mut bytes = Vec::new();
    from.take(MAX_LENGTH + 1)
        .read_to_end(&mut bytes)
        .map_err(ReadError::Unreadable)?;
    // The size that the kernel reports is 0 for files of pseudo file systems.
    if bytes.len() as u64 > MAX_LENGTH {
        return Err(too_large());
    }
    String::from_utf8(bytes).map_err(|_| {
        let what = "the file is not UTF-8";
        ReadError::Invalid(io::Error::new(io::ErrorKind::InvalidData, what))
    })
}

/// Refuses what is no regular file, or is too large by its metadata.
fn regular(metadata: &Metadata) -> Result<(), ReadError> {
    if !metadata.is_file() {
        let what = "not a regular file";
        let error = io::Error::new(io::ErrorKind::InvalidInput, what);
        return Err(ReadError::Unreadable(error));
    }
    match metadata.len() > MAX_LENGTH {
        true => Err(too_large()),
        false => Ok(()),
    }
}

fn too_large() -> ReadError {
    let what = "the file is larger than 1 MiB";
    ReadError::Invalid(io::Error::new(io::ErrorKind::InvalidData, what))
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
        assert_eq!(text(letters(MAX_LENGTH)).unwrap().len() as u64, MAX_LENGTH);
        assert_eq!(
            kind(text(letters(MAX_LENGTH + 1))),
            io::ErrorKind::InvalidData
        );
        assert_eq!(kind(text(io::repeat(b'a'))), io::ErrorKind::InvalidData);
        assert_eq!(kind(text(&[0xff][..])), io::ErrorKind::InvalidData);
    }
}
