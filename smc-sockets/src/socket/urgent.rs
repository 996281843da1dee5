//! The urgent octet of a connection, and the mark where it was.
//!
//! The engine gives the octet out as soon as it has come, and steps over it: only then
//! does the peer go on behind it. So it is kept here, with the number of bytes that are
//! to be read before the mark.
//!
//! ```text
//!   read so far │ ahead ... │ mark (the octet) │ what the peer writes after it
//!               └─ a read ends at the mark ────┘
//! ```

use std::sync::atomic::Ordering;

use super::{Socket, Status};

/// Urgent data of a connection.
#[derive(Default)]
pub(crate) struct Urgent {
    /// Urgent bytes are read in their place.
    pub(crate) inline: bool,
    mark: Option<Mark>,
}

/// Where the last urgent octet was, until what is behind it is read.
#[derive(Clone, Copy)]
struct Mark {
    /// Bytes to be read before it.
    ahead: usize,
    /// The octet, unless it was taken.
    octet: Option<u8>,
}

/// What the next read may take.
pub(crate) enum NextRead {
    /// The next read may take this many bytes at most: the mark is behind them.
    Bytes(usize),
    /// The urgent octet in its place.
    Urgent(u8),
}

impl Socket {
    /// Whether there is an urgent mark that was not passed.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.marked.load(Ordering::Relaxed)
    }

    /// An urgent octet has come; so many are before it. An earlier one is lost, as with
    /// TCP. Callers hold the endpoint's lock.
    pub(crate) fn mark_urgent(&self, ahead: u32, octet: u8) {
        let mark = Mark {
            ahead: ahead as usize,
            octet: Some(octet),
        };
        self.status().urgent.mark = Some(mark);
        self.marked.store(true, Ordering::Relaxed);
    }

    /// Takes the urgent octet out of its place.
    pub(crate) fn take_urgent(&self) -> Option<u8> {
        let mut status = self.status();
        let urgent = &mut status.urgent;
        if urgent.inline {
            return None;
        }
        urgent.mark.as_mut()?.octet.take()
    }

    /// Whether all before the mark is read, and nothing behind it.
    pub(crate) fn is_at_mark(&self) -> bool {
        let mark = self.status().urgent.mark;
        mark.is_some_and(|mark| mark.ahead == 0)
    }

    /// Whether an urgent byte has come that was not taken.
    pub(crate) fn has_urgent(&self) -> bool {
        let mark = self.status().urgent.mark;
        mark.is_some_and(|mark| mark.octet.is_some())
    }

    /// Whether the urgent octet is the next to be read.
    pub(crate) fn has_urgent_next(&self) -> bool {
        matches!(self.status().urgent.next(), NextRead::Urgent(_))
    }

    /// What the next read may take. Callers hold the endpoint's lock.
    pub(crate) fn next_read(&self) -> NextRead {
        self.status().urgent.next()
    }

    /// Notes that `len` bytes were read: the mark comes nearer, or is passed. Callers hold the
    /// endpoint's lock.
    pub(crate) fn pass(&self, len: usize) {
        let mut status = self.status();
        let Status { urgent, .. } = &mut *status;
        match &mut urgent.mark {
            Some(mark) if mark.ahead > 0 => mark.ahead = mark.ahead.saturating_sub(len),
            Some(_) if len > 0 => {
                urgent.mark = None;
                self.marked.store(false, Ordering::Relaxed);
            }
            _ => {}
        }
    }
}

impl Urgent {
    fn next(&self) -> NextRead {
        match self.mark {
            Some(Mark { ahead: 1.., .. }) => {
                NextRead::Bytes(self.mark.map_or(0, |mark| mark.ahead))
            }
            Some(Mark {
                octet: Some(octet), ..
            }) if self.inline => NextRead::Urgent(octet),
            _ => NextRead::Bytes(usize::MAX),
        }
    }
}
