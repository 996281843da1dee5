//! The state of a connection as TCP would have it: events, ends, and what a peer that is gone answers.

use std::sync::atomic::Ordering;

use libc::{EPOLLERR, EPOLLHUP, EPOLLIN, EPOLLOUT, EPOLLPRI, EPOLLRDHUP, EPOLLRDNORM, EPOLLWRNORM};
use smc_sockets::{PollState, SmcStream};

use super::{Conn, Phase};
use crate::library::set::{EVENTS as EVERY, READ};

/// Events of a connection that can be read: TCP reports both names.
const READABLE: i32 = EPOLLIN | EPOLLRDNORM;
/// Events of a connection that can be written.
const WRITABLE: i32 = EPOLLOUT | EPOLLWRNORM;
/// The peer has ended its direction: no event of its own, but an edge.
const PEER_ENDED: i32 = 1 << 16;
/// The connection is over: no event of its own, but an edge.
pub(crate) const CLOSED: u32 = 1 << 17;
/// What a connection may come to that is an edge for each registration, whatever that asks for.
pub(crate) const ENDS: u32 =
    (EPOLLRDHUP | EPOLLHUP | EPOLLERR | PEER_ENDED).cast_unsigned() | CLOSED;
/// All events of a connection that nothing comes of.
const OVER: i32 = READABLE | WRITABLE | EPOLLRDHUP | EPOLLHUP;

impl Conn {
    /// The events of the connection, as epoll_wait(2) returns them, and its [`ENDS`]; `None` if the
    /// kernel knows them.
    pub(crate) fn events(&self) -> Option<u32> {
        let bits = match self.phase() {
            Phase::Pending if self.is_connected_late() => WRITABLE,
            Phase::Pending => 0,
            Phase::Failed => OVER | EPOLLERR,
            Phase::Plain | Phase::Opening => return None,
            Phase::Smc if self.is_inherited() => OVER | EPOLLERR,
            Phase::Smc => {
                let stream = self.stream.get()?;
                let state = self.state_of(stream)?;
                let has_error = self.error.load(Ordering::Relaxed) != 0;
                let is_shut = self.is_shut.load(Ordering::Relaxed);
                let any = self.low_water.load(Ordering::Relaxed) <= 1 || state.read_ended;
                let readable = state.readable && (any || self.has_low_water());
                let bit = |is_set: bool, bit: i32| bit * i32::from(is_set);
                bit(readable || state.read_ended, READABLE)
                    | bit(state.writable, WRITABLE)
                    | bit(state.urgent, EPOLLPRI)
                    | bit(state.read_ended, EPOLLRDHUP)
                    | bit(state.peer_ended, PEER_ENDED)
                    | bit(state.closed, CLOSED.cast_signed())
                    | bit(state.ended || state.read_ended && is_shut, EPOLLHUP)
                    | bit(has_error || state.error, EPOLLERR)
            }
        };
        Some(bits.cast_unsigned())
    }

    /// The state of the stream as TCP would have it: the kernel ends the connections of a process that
    /// was killed in order, and answers what is written to one that is gone by a reset.
    pub(super) fn state_of(&self, stream: &SmcStream) -> Option<PollState> {
        let mut state = stream.poll_state().ok().flatten()?;
        if self.is_reset_by_answer() {
            (state.writable, state.read_ended) = (true, true);
            (state.ended, state.closed) = (true, true);
        } else if state.closed && stream.has_lost_peer() {
            let is_shut = self.is_shut.load(Ordering::Relaxed);
            (state.peer_ended, state.error) = (true, false);
            (state.ended, state.closed) = (is_shut, is_shut);
        }
        Some(state)
    }

    /// The state of the connection as TCP would have it, of this moment; `None` if it is not over SMC,
    /// or another process's.
    fn state_now(&self) -> Option<PollState> {
        let stream = self.smc().filter(|_| !self.is_inherited())?;
        let _ = stream.poll_device();
        self.state_of(stream)
    }

    /// Whether what arrives now is an event: there is as much as the low-water mark asks for, or an
    /// urgent byte.
    #[inline]
    pub(crate) fn has_arrived(&self) -> bool {
        let is_urgent = || {
            let state = self.stream.get().map(SmcStream::poll_state);
            matches!(state, Some(Ok(Some(state))) if state.urgent)
        };
        self.low_water.load(Ordering::Relaxed) <= 1 || self.has_low_water() || is_urgent()
    }

    pub(super) fn has_low_water(&self) -> bool {
        let unread = self
            .stream
            .get()
            .and_then(|stream| stream.available().ok().flatten());
        unread.is_some_and(|unread| unread >= self.low_water.load(Ordering::Relaxed))
    }

    /// Notes how many bytes make it readable.
    pub(super) fn note_low_water(&self, bytes: usize) {
        self.low_water.store(bytes.max(1), Ordering::Relaxed);
    }

    /// Sets how many bytes make it readable, which is an edge if there are as many.
    pub(crate) fn set_low_water(&self, bytes: usize) {
        self.note_low_water(bytes);
        let events = self.events().unwrap_or(0);
        let has_ended = events & PEER_ENDED.cast_unsigned() != 0;
        if has_ended || self.has_low_water() {
            self.mark_sets(READ);
        }
    }

    /// Notes that the program has written to a peer that is gone: over TCP, the answer is a reset,
    /// which is an error behind the end of the peer's stream.
    pub(super) fn note_reset_by_answer(&self) {
        self.error.store(libc::EPIPE, Ordering::Relaxed);
        self.wrote_to_gone.store(true, Ordering::Relaxed);
        self.mark_sets(EVERY);
    }

    /// The state that TCP would have (`tcpi_state`), if it differs from that of the TCP socket: it is
    /// connected, or has sent FIN.
    pub(crate) fn tcp_state(&self) -> Option<u8> {
        // As the kernel numbers them.
        const FIN_WAIT2: u8 = 5;
        const CLOSE: u8 = 7;
        const CLOSE_WAIT: u8 = 8;
        let state = self.state_now()?;
        match (self.is_shut.load(Ordering::Relaxed), state.peer_ended) {
            _ if state.closed => Some(CLOSE),
            (true, true) => Some(CLOSE),
            (true, false) => Some(FIN_WAIT2),
            (false, true) => Some(CLOSE_WAIT),
            (false, false) => None,
        }
    }

    /// Whether the connection is over: it was reset, or both sides have ended.
    pub(crate) fn has_ended(&self) -> bool {
        self.state_now().is_some_and(|state| state.closed)
    }

    /// Whether the program has written to a peer that was gone: TCP would have been reset.
    pub(super) fn is_reset_by_answer(&self) -> bool {
        self.wrote_to_gone.load(Ordering::Relaxed)
    }

    /// Whether a write may be the first one behind the end of a peer that has closed, or whose
    /// process was killed: TCP takes it, and is reset by the answer.
    pub(super) fn may_write_to_gone(&self, stream: &SmcStream) -> bool {
        let has_closed = || {
            let state = self.state_of(stream);
            state.is_some_and(|state| state.read_ended && !state.ended)
        };
        !self.is_shut.load(Ordering::Relaxed) && !self.is_reset_by_answer() && has_closed()
    }

    /// Bytes that can be read (`FIONREAD`).
    pub(crate) fn unread(&self) -> Option<usize> {
        self.smc()?.unread().ok().flatten()
    }
}
