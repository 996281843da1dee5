//! What the application does with a connection.

use super::close::{Act, CloseState, Pending};
use super::work::Wants;
use super::{ApiMisuse, CloseCause, Connection, Shutdown, Spans, Urgent};
use crate::config::ConnectionConfig;
use crate::time::Instant;

impl Connection {
    /// Free space of the send ring, none if the state forbids sending.
    #[inline]
    #[must_use]
    pub fn send_space(&self) -> Spans {
        match self.may_send() {
            Ok(()) => self.tx.spans_of(self.tx.space()),
            Err(_) => Spans::EMPTY,
        }
    }

    /// Whether there is free space to put bytes to send into.
    #[inline]
    pub(crate) fn has_send_space(&self) -> bool {
        self.may_send().is_ok() && self.tx.space() > 0
    }

    /// Whether this side has closed the connection, or it was reset.
    #[inline]
    pub(crate) fn is_over(&self) -> bool {
        matches!(self.may_send(), Err(ApiMisuse::Closed | ApiMisuse::Reset))
    }

    /// Sends the next `len` bytes, which the caller has put into
    /// [`Connection::send_space`].
    #[inline]
    pub fn commit(
        &mut self,
        now: Instant,
        cfg: &ConnectionConfig,
        len: u32,
    ) -> Result<(), ApiMisuse> {
        self.write(now, cfg, |_| len).map(|_| ())
    }

    /// [`Connection::send_space`] and [`Connection::commit`] in one, for as many
    /// bytes as `fill` says.
    #[inline(always)]
    pub(crate) fn write(
        &mut self,
        now: Instant,
        cfg: &ConnectionConfig,
        fill: impl FnOnce(Spans) -> u32,
    ) -> Result<u32, ApiMisuse> {
        self.may_send()?;
        let space = self.tx.space();
        let len = fill(self.tx.spans_of(space));
        if len > space {
            return Err(ApiMisuse::BeyondSpace { space });
        }
        //= API-005
        //= SEC-004
        self.tx.commit(len, space);
        self.arm_coalesce(now, cfg);
        Ok(len)
    }

    /// Commits bytes of which the last one is urgent.
    pub fn commit_urgent(
        &mut self,
        now: Instant,
        cfg: &ConnectionConfig,
        len: u32,
    ) -> Result<(), ApiMisuse> {
        self.commit(now, cfg, len)?;
        if len > 0 {
            self.tx.mark_urgent();
            //= URG-003
            if self.tx.window() == 0 && self.tx.announces_urgent() {
                self.wants.insert(Wants::NOTIFY);
            }
            self.stop_coalesce();
        }
        Ok(())
    }

    /// Holds small writes back until more follow, or no longer.
    pub fn set_cork(&mut self, cork: bool) {
        if core::mem::replace(&mut self.tx.corked, cork) && !cork {
            self.flush();
        }
    }

    /// Sends what is held back.
    pub fn flush(&mut self) {
        if !self.tx.is_published() {
            self.wants.insert(Wants::FLUSH);
            self.stop_coalesce();
        }
    }

    /// Bytes that fit into the ring that the peer writes to, and into the send buffer.
    #[must_use]
    pub fn buffer_sizes(&self) -> (u32, u32) {
        (self.rx.ring.usable(), self.tx.buffer.usable())
    }

    /// Bytes to be read next, in the local RMB element.
    #[inline]
    #[must_use]
    pub fn readable(&self) -> Spans {
        self.rx.spans_of(self.rx.readable())
    }

    /// How many these are.
    #[inline(always)]
    pub(crate) fn readable_bytes(&self) -> u32 {
        self.rx.readable()
    }

    /// Frees the first `len` readable bytes, which the caller has copied out.
    #[inline]
    pub fn consume(&mut self, len: u32) -> Result<(), ApiMisuse> {
        self.read(|_| len).map(|_| ())
    }

    /// [`Connection::readable`] and [`Connection::consume`] in one, for as many
    /// bytes as `take` says.
    #[inline(always)]
    pub(crate) fn read(&mut self, take: impl FnOnce(Spans) -> u32) -> Result<u32, ApiMisuse> {
        let readable = self.rx.readable();
        let len = take(self.rx.spans_of(readable));
        if len > readable {
            return Err(self
                .may_receive()
                .err()
                .unwrap_or(ApiMisuse::BeyondReadable { readable }));
        }
        let urgent = self.rx.consume(len);
        //= URG-006
        //= FLOW-013
        if urgent || (len > 0 && self.rx.is_update_requested()) {
            self.want_update();
        }
        Ok(len)
    }

    /// The urgent byte, until it is taken or passed.
    #[must_use]
    pub fn urgent(&self) -> Option<Urgent> {
        let ahead = self.rx.urgent.untaken(self.rx.consumed.total)?;
        let offset = self
            .rx
            .ring
            .count_after(self.rx.consumed.cursor.count, ahead);
        Some(Urgent { offset, ahead })
    }

    /// Notes that the caller has copied the urgent byte out. Unless it is read
    /// inline, reading then steps over it (URG-007).
    pub fn take_urgent(&mut self) -> Result<Urgent, ApiMisuse> {
        let urgent = self.urgent().ok_or(ApiMisuse::NoUrgent)?;
        self.rx.urgent.take();
        //= URG-007
        if self.rx.consume(0) {
            self.want_update();
        }
        Ok(urgent)
    }

    /// Publishes the consumer cursor at once, unless C or A is out: nothing follows these.
    #[cold]
    fn want_update(&mut self) {
        //= CLOSE-029
        //= ABORT-019
        if !self.close.final_emitted() {
            self.wants.insert(Wants::NOTIFY);
        }
    }

    /// Changes how urgent bytes that are not taken yet are read; see
    /// [`super::ConnectionParams::urgent_inline`].
    pub fn set_urgent_inline(&mut self, inline: bool) {
        self.rx.urgent.set_inline(inline);
    }

    /// Whether the peer sends no more and all was read, or the application shut
    /// down receiving. The stream of a peer that aborted, or that closed before it had
    /// everything, does not end: the connection was reset.
    #[must_use]
    pub fn is_end_of_stream(&self) -> bool {
        self.read_shut || (self.rx.unread() == 0 && self.is_done_in_order())
    }

    /// Ends one direction or both.
    pub fn shutdown(&mut self, now: Instant, cfg: &ConnectionConfig, how: Shutdown) {
        let drained = self.tx.is_drained();
        if how != Shutdown::Read {
            // No writer waits for room any more.
            self.tx.exhausted = false;
        }
        let act = match how {
            //= CLOSE-002
            Shutdown::Read => {
                self.read_shut = true;
                Act::END_OF_STREAM
            }
            Shutdown::Write => self.close.shutdown_write(drained),
            Shutdown::Both => self.close.close(self.rx.unread() > 0, drained),
        };
        self.perform(now, cfg, act);
        if how == Shutdown::Both {
            self.give_up_kept(now, cfg);
        }
    }

    /// Ends the connection at once; data in both directions is lost.
    pub fn abort(&mut self, now: Instant, cfg: &ConnectionConfig) {
        self.tx.exhausted = false;
        let act = self.close.abort(CloseCause::Aborted);
        self.perform(now, cfg, act);
        self.give_up_kept(now, cfg);
    }

    #[inline(always)]
    pub(super) fn may_send(&self) -> Result<(), ApiMisuse> {
        debug_assert_eq!(self.steady, self.close.is_steady());
        if self.steady {
            return Ok(());
        }
        self.may_send_at_end()
    }

    #[cold]
    fn may_send_at_end(&self) -> Result<(), ApiMisuse> {
        self.may_receive()?;
        match self.close.state {
            _ if self.close.pending != Pending::Nothing => Err(ApiMisuse::SendClosed),
            CloseState::Active => Ok(()),
            //= CLOSE-016
            CloseState::AppCloseWait1 if !self.close.peer_closed => Ok(()),
            _ => Err(ApiMisuse::SendClosed),
        }
    }

    /// Whether the application closed or aborted the connection.
    pub(crate) fn is_given_up(&self) -> bool {
        let cause = self.close.cause;
        self.close.full || matches!(cause, Some(CloseCause::Aborted | CloseCause::UnreadData))
    }

    fn may_receive(&self) -> Result<(), ApiMisuse> {
        //= ABORT-004
        match self.close.cause {
            None if self.close.full => Err(ApiMisuse::Closed),
            None => Ok(()),
            Some(CloseCause::Orderly) => Err(ApiMisuse::Closed),
            Some(_) => Err(ApiMisuse::Reset),
        }
    }
}
