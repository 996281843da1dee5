//! Text that is formatted and discarded.

use core::fmt::{self, Display, Write as _};

/// Takes text and keeps nothing of it.
pub(super) struct Nowhere;

impl fmt::Write for Nowhere {
    fn write_str(&mut self, _: &str) -> fmt::Result {
        Ok(())
    }
}

/// Takes some pieces of text, and no more.
struct Narrow {
    room: usize,
    refused: bool,
}

impl fmt::Write for Narrow {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        assert!(!self.refused, "{text:?} follows what was refused");
        match self.room.checked_sub(1) {
            Some(room) => {
                self.room = room;
                Ok(())
            }
            None => {
                self.refused = true;
                Err(fmt::Error)
            }
        }
    }
}

pub(super) fn print(value: &impl Display) {
    write!(Nowhere, "{value}").expect("printing cannot fail");
}

/// Prints for a writer that takes all of the text, or no more than its beginning: the formatter
/// stops there with an error.
pub(super) fn print_in_part(value: &impl Display) {
    let mut room = 0;
    loop {
        let mut narrow = Narrow {
            room,
            refused: false,
        };
        let printed = write!(narrow, "{value}");
        assert_eq!(printed.is_err(), narrow.refused);
        if printed.is_ok() {
            return;
        }
        // Of a long text not every piece: a list may have hundreds.
        room = match room {
            0..500 => room + 1 + room / 8,
            _ => usize::MAX,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Three pieces of text; may ignore the error that ends it.
    struct Pieces {
        goes_on: bool,
    }

    impl Display for Pieces {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            for _ in 0..3 {
                let written = f.write_str("piece");
                if !self.goes_on {
                    written?;
                }
            }
            Ok(())
        }
    }

    #[test]
    fn printing_stops_at_an_error() {
        print_in_part(&Pieces { goes_on: false });
    }

    #[test]
    #[should_panic(expected = "follows what was refused")]
    fn who_goes_on_is_found() {
        print_in_part(&Pieces { goes_on: true });
    }
}
