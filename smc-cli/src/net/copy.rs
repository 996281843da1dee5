//! From one end to the other.

use std::io::{self, ErrorKind, Read, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// Where copying failed.
pub(super) enum Broken {
    /// Nothing more can be read.
    From(io::Error),
    /// Nothing more can be written.
    To(io::Error),
}

/// Copies until the end, each piece at once, and counts.
pub(super) fn copy(
    from: &mut dyn Read,
    to: &mut dyn Write,
    count: &AtomicU64,
) -> Result<(), Broken> {
    let mut bytes = vec![0; 256 << 10];
    loop {
        let len = match from.read(&mut bytes) {
            Ok(0) => return Ok(()),
            Ok(len) => len,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(Broken::From(error)),
        };
        // Before they are sent: the peer may answer, and end all, at once.
        count.fetch_add(len as u64, Ordering::Relaxed);
        let written = to.write_all(bytes.get(..len).unwrap_or_default());
        if let Err(error) = written.and_then(|()| to.flush()) {
            count.fetch_sub(len as u64, Ordering::Relaxed);
            return Err(Broken::To(error));
        }
    }
}
