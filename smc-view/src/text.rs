//! Text of other processes, for a terminal.

/// Text whose control characters, on which a terminal would act, are question marks.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.chars().map(|c| if c.is_control() { '?' } else { c });
    text.collect()
}
