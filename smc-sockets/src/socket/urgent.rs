//! The urgent byte of a connection, and the mark where it was.
//!
//! Unless urgent bytes are read in their place, the byte is taken out of the stream as soon as it has
//! come, and the engine steps over it: only then does the peer go on behind it. So it is kept here,
//! with the number of bytes that are to be read before the mark.
//!
//! ```text
//!   read so far │ ahead ... │ mark (the byte) │ what the peer writes after it
//!               └─ a read ends at the mark ───┘
//! ```

use std::collections::VecDeque;
use std::sync::atomic::Ordering;

use super::Socket;

/// Urgent data of a connection.
#[derive(Default)]
pub(crate) struct Urgent {
    /// Urgent bytes are read in their place.
    pub(crate) inline: bool,
    /// Bytes that were urgent and kept here, and are read as others before the rest of the stream:
    /// another urgent byte has come. One for each time that the program changed how it reads them.
    front: VecDeque<u8>,
    mark: Option<Mark>,
}

/// Where the last urgent byte was, until it is passed.
#[derive(Clone, Copy)]
struct Mark {
    /// Bytes to be read before it.
    ahead: usize,
    octet: u8,
    /// The byte is kept here, and not in the stream any more.
    is_kept: bool,
    /// The program has received it out of its place.
    is_taken: bool,
}

/// What the next read may take.
pub(crate) struct NextRead {
    /// Bytes that are kept here.
    pub(crate) kept: Vec<u8>,
    /// How many bytes of the stream may follow: then comes the mark.
    pub(crate) most: usize,
}

impl Socket {
    /// Whether the next read has to look at what is kept here.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.marked.load(Ordering::Relaxed)
    }

    /// Changes the urgent data. Callers hold the endpoint's lock.
    fn with_urgent<T>(&self, change: impl FnOnce(&mut Urgent) -> T) -> T {
        let mut status = self.status();
        let urgent = &mut status.urgent;
        let changed = change(urgent);
        let is_marked = urgent.mark.is_some() || !urgent.front.is_empty();
        self.marked.store(is_marked, Ordering::Relaxed);
        changed
    }

    /// An urgent byte has come; so many bytes of the stream are before it. An earlier one is lost, as
    /// with TCP, or is read as any other if urgent bytes are read in their place. Callers hold the
    /// endpoint's lock.
    pub(crate) fn mark_urgent(&self, ahead: u32, octet: u8) {
        self.with_urgent(|urgent| {
            if let Some(before) = urgent.mark.filter(|at| urgent.inline && at.is_kept) {
                urgent.front.push_back(before.octet);
            }
            urgent.mark = Some(Mark {
                ahead: ahead as usize + urgent.front.len(),
                octet,
                is_kept: !urgent.inline,
                is_taken: false,
            });
        });
    }

    /// Whether urgent bytes are read in their place.
    pub(crate) fn is_urgent_inline(&self) -> bool {
        self.status().urgent.inline
    }

    /// Sets [`Self::is_urgent_inline`]. Returns whether the urgent byte is to be taken out of the
    /// stream: it is kept here from now on. Callers hold the endpoint's lock.
    pub(crate) fn set_urgent_inline(&self, inline: bool) -> bool {
        self.with_urgent(|urgent| {
            urgent.inline = inline;
            let front = urgent.front.len();
            let Some(mark) = &mut urgent.mark else {
                return false;
            };
            if inline {
                // The engine has stepped over it only if it is next.
                mark.is_kept &= mark.ahead == front;
            }
            !inline && !std::mem::replace(&mut mark.is_kept, true)
        })
    }

    /// The urgent byte, which is received out of its place, or stays for another call to do so.
    pub(crate) fn take_urgent(&self, stays: bool) -> Option<u8> {
        self.with_urgent(|urgent| {
            let mark = urgent.mark.as_mut().filter(|mark| !mark.is_taken);
            let mark = mark.filter(|_| !urgent.inline)?;
            mark.is_taken = !stays;
            Some(mark.octet)
        })
    }

    /// Whether all before the mark is read, and nothing behind it.
    pub(crate) fn is_at_mark(&self) -> bool {
        let mark = self.status().urgent.mark;
        mark.is_some_and(|mark| mark.ahead == 0)
    }

    /// Whether an urgent byte has come that was not taken.
    pub(crate) fn has_urgent(&self) -> bool {
        let mark = self.status().urgent.mark;
        mark.is_some_and(|mark| !mark.is_taken)
    }

    /// Whether the next byte to be read is kept here.
    pub(crate) fn has_kept_next(&self) -> bool {
        !self.next_read().kept.is_empty()
    }

    /// What the next read may take. Callers hold the endpoint's lock.
    pub(crate) fn next_read(&self) -> NextRead {
        self.status().urgent.next()
    }

    /// Passes the mark if it is next, and the urgent byte is not read in its place: whether it was.
    /// Callers hold the endpoint's lock.
    pub(crate) fn pass_mark(&self) -> bool {
        self.with_urgent(|urgent| {
            let inline = urgent.inline;
            urgent.mark.take_if(|at| at.ahead == 0 && !inline).is_some()
        })
    }

    /// Notes that `len` bytes were read: the mark comes nearer, or is passed. Callers hold the
    /// endpoint's lock.
    pub(crate) fn pass(&self, len: usize) {
        self.with_urgent(|urgent| {
            urgent.front.drain(..len.min(urgent.front.len()));
            match &mut urgent.mark {
                Some(mark) if mark.ahead > 0 => mark.ahead = mark.ahead.saturating_sub(len),
                Some(_) if len > 0 => urgent.mark = None,
                _ => {}
            }
        });
    }

    /// Bytes that can be read, as `FIONREAD` counts them, of so many of the stream: up to the mark,
    /// unless the urgent byte is read in its place.
    pub(crate) fn count_unread(&self, stream: usize) -> usize {
        let status = self.status();
        let urgent = &status.urgent;
        match urgent.mark {
            Some(mark) if !urgent.inline => mark.ahead,
            mark => {
                let is_kept = mark.is_some_and(|mark| mark.is_kept);
                urgent.front.len() + usize::from(is_kept) + stream
            }
        }
    }

    /// Bytes that count for the low-water mark, of so many of the stream: the urgent byte does so,
    /// unless it is next.
    pub(crate) fn count_available(&self, stream: usize) -> usize {
        let status = self.status();
        let urgent = &status.urgent;
        let is_kept = urgent.mark.is_some_and(|mark| mark.is_kept);
        let is_next = urgent
            .mark
            .is_some_and(|mark| mark.ahead == 0 && !urgent.inline);
        urgent.front.len() + usize::from(is_kept && !is_next) + stream
    }
}

impl Urgent {
    fn next(&self) -> NextRead {
        let kept: Vec<u8> = self.front.iter().copied().collect();
        match self.mark {
            Some(mark) if mark.ahead > 0 => {
                let most = mark.ahead.saturating_sub(kept.len());
                NextRead { kept, most }
            }
            Some(mark) if self.inline && mark.is_kept => NextRead {
                kept: vec![mark.octet],
                most: usize::MAX,
            },
            _ => NextRead {
                kept,
                most: usize::MAX,
            },
        }
    }
}
