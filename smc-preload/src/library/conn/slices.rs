//! Bytes between a stream and the pieces of memory of a call.

use std::io::{self, IoSliceMut, Read};

use rustix::io::Errno;
use smc_sockets::{CallFlags, PollState, SmcStream};

use crate::library::errno;

/// Reads the urgent byte into the first memory there is. `state`: that of the stream as TCP would have
/// it.
pub(super) fn read_urgent(
    stream: &SmcStream,
    state: Option<PollState>,
    into: &mut [IoSliceMut<'_>],
    flags: i32,
) -> Result<usize, Errno> {
    let is_reset = |state: PollState| state.closed && !state.peer_ended;
    if stream.peek_urgent().is_ok() && state.is_some_and(is_reset) {
        return Err(Errno::NOTCONN);
    }
    let byte = match flags & libc::MSG_PEEK {
        0 => stream.receive_urgent(),
        _ => stream.peek_urgent(),
    };
    let byte = byte.map_err(|error| errno::of(&error))?;
    let first = into.iter_mut().find_map(|slice| slice.first_mut());
    Ok(first.map_or(0, |first| {
        if flags & libc::MSG_TRUNC == 0 {
            *first = byte;
        }
        1
    }))
}

/// Reads into the slices in turn, and waits until there are so many bytes.
pub(super) fn read(
    stream: &SmcStream,
    into: &mut [IoSliceMut<'_>],
    call: CallFlags,
    least: usize,
) -> io::Result<usize> {
    let mut total = 0;
    for slice in into.iter_mut().filter(|slice| !slice.is_empty()) {
        let mut filled = 0;
        while let Some(rest) = slice.get_mut(filled..).filter(|rest| !rest.is_empty()) {
            let call = match total >= least {
                true => call.nonblocking(),
                false => call,
            };
            match stream.read_with(rest, call) {
                Ok(0) => return Ok(total),
                Ok(len) => {
                    filled += len;
                    total += len;
                }
                Err(error) if total == 0 => return Err(error),
                Err(error) => {
                    stream.leave_to_next(&error);
                    return Ok(total);
                }
            }
            if total >= least || stream.has_mark_next() {
                break;
            }
        }
        if filled < slice.len() || stream.has_mark_next() {
            break;
        }
    }
    Ok(total)
}

/// Reads into no memory: fails as a read would, and takes no byte.
pub(super) fn read_nothing(stream: &SmcStream, call: CallFlags) -> io::Result<usize> {
    if stream.at_mark()? {
        // The urgent byte is there, although it is not read.
        return Ok(0);
    }
    stream.read_with(&mut [0], call.peek()).map(|_| 0)
}

/// Copies what comes next into the slices in turn: a peek begins at the same byte each time.
pub(super) fn peek(
    stream: &SmcStream,
    into: &mut [IoSliceMut<'_>],
    call: CallFlags,
) -> io::Result<usize> {
    let lengths = into.iter().map(|slice| slice.len());
    let room = lengths.fold(0, usize::saturating_add);
    let most = stream.unread()?.unwrap_or(0).max(AT_ONCE);
    let mut bytes = vec![0; room.min(most)];
    let len = stream.read_with(&mut bytes, call)?;
    let mut left = bytes.get(..len).unwrap_or_default();
    left.read_vectored(into)
}

/// Bytes that are dropped at a time, and the least memory of a peek that needs some of its own.
pub(super) const AT_ONCE: usize = 64 << 10;

/// Drops so many bytes, or what there is of them, and waits until there are `least`.
pub(super) fn discard(
    stream: &SmcStream,
    len: usize,
    call: CallFlags,
    least: usize,
) -> io::Result<usize> {
    let mut bytes = vec![0; len.min(AT_ONCE)];
    let mut total = 0;
    while total < len {
        let room = bytes.len().min(len - total);
        let part = IoSliceMut::new(bytes.get_mut(..room).unwrap_or_default());
        let call = if total < least {
            call
        } else {
            call.nonblocking()
        };
        let least = least.saturating_sub(total).max(1);
        match read(stream, &mut [part], call, least) {
            Err(error) if total == 0 => return Err(error),
            Err(error) => {
                stream.leave_to_next(&error);
                break;
            }
            Ok(read) => {
                total += read;
                if read < room || stream.has_mark_next() {
                    break;
                }
            }
        }
    }
    Ok(total)
}
