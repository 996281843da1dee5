//! The input of a command: a file, or the standard input.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The name of a file that means the standard input.
const STANDARD_INPUT: &str = "-";

/// An input that is open.
pub(crate) struct Input {
    pub(crate) bytes: Box<dyn Read>,
    /// The length of a regular file, in bytes.
    pub(crate) length: Option<u64>,
}

/// Whether a path means the standard input.
pub(crate) fn is_standard(path: &Path) -> bool {
    path.as_os_str() == STANDARD_INPUT
}

/// Opens a file, or the standard input for "-".
///
/// # Errors
/// The operating system's; [`io::ErrorKind::IsADirectory`] for a directory.
pub(crate) fn open(path: &Path) -> io::Result<Input> {
    if is_standard(path) {
        return Ok(Input {
            bytes: Box::new(io::stdin()),
            length: None,
        });
    }
    let file = File::open(path)?;
    let about = file.metadata()?;
    if about.is_dir() {
        return Err(io::ErrorKind::IsADirectory.into());
    }
    Ok(Input {
        bytes: Box::new(file),
        length: about.is_file().then_some(about.len()),
    })
}
