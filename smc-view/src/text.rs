//! Text of other processes, for a terminal.

/// Text without what a terminal acts on: control characters, and characters that turn the
/// direction of what follows or show nothing at all, are question marks.
#[must_use]
pub fn printable(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let text = text.chars().map(|c| if is_shown(c) { c } else { '?' });
    text.collect()
}

/// Whether a character has a place of its own: those of the categories Cc, Cf, Zl and Zp have none.
const fn is_shown(c: char) -> bool {
    !matches!(
        c,
        '\u{0}'..='\u{1f}'
            | '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{600}'..='\u{605}'
            | '\u{61c}'
            | '\u{6dd}'
            | '\u{70f}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{fff9}'..='\u{fffb}'
            | '\u{1d173}'..='\u{1d17a}'
            | '\u{e0000}'..='\u{e007f}'
    )
}
