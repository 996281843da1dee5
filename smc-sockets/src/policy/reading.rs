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
    regular(&file.metadata().map_err(ReadError::None)?)?;
    let mut bytes = Vec::new();
    file.take(MOST + 1)
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
