//! Files of one value.

use std::path::Path;

/// Entries of a directory beyond this number are ignored.
const MOST: usize = 4096;

/// A value as text; `None` if there is none.
pub(super) fn text(directory: &Path, name: &str) -> Option<String> {
    let text = std::fs::read_to_string(directory.join(name)).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The entries of a directory that are numbers, in order.
pub(super) fn numbers(directory: &Path) -> Vec<u16> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name()).take(MOST);
    let numbers = names.filter_map(|name| name.to_str()?.parse().ok());
    let mut numbers: Vec<u16> = numbers.collect();
    numbers.sort_unstable();
    numbers
}
