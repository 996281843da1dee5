//! Descriptors of the library itself, which the program does not see.

use std::sync::OnceLock;

use super::{HIDDEN, KIND, MOST, PAGES, PER_PAGE, change, kind_of, set_kind, slot_or_new};

/// Hides a descriptor of the library from the program; false if its number is too large.
pub(crate) fn hide(fd: i32) -> bool {
    if slot_or_new(fd).is_none() {
        return false;
    }
    set_kind(fd, HIDDEN);
    true
}

/// Whether a descriptor is one of the library, hidden from the program.
#[inline]
pub(crate) fn is_hidden(fd: i32) -> bool {
    kind_of(fd) == HIDDEN
}

/// Ends hiding a descriptor, which is about to be closed.
pub(crate) fn reveal(fd: i32) {
    change(fd, (KIND, 0), |bits| bits & KIND == HIDDEN);
}

/// The first hidden descriptor in `from..=to`.
pub(crate) fn next_hidden(from: u32, to: u32) -> Option<u32> {
    let mut at = from as usize;
    let end = (to as usize).min(MOST - 1);
    while at <= end {
        match PAGES.get(at / PER_PAGE).and_then(OnceLock::get) {
            None => at = (at / PER_PAGE + 1) * PER_PAGE,
            Some(_) => {
                let fd = i32::try_from(at).ok()?;
                if kind_of(fd) == HIDDEN {
                    return u32::try_from(at).ok();
                }
                at += 1;
            }
        }
    }
    None
}
