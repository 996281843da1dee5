//! Outputs: what is to be done, and what happened to connections.

use super::Endpoint;
use crate::command::{DataTransmit, RdmaCommand, TcpCommand};
use crate::data_path::Deferred;
use crate::event::Event;
use crate::id::{ConnId, DeviceId, LinkId, WrId};
use crate::storage::Storage;
use crate::time::{Instant, earliest};
use crate::wire::BufferTooSmall;

impl<S: Storage> Endpoint<S> {
    /// Writes the next CLC message into `buffer`: for which connection, and how
    /// many bytes. Send them before anything else on that TCP connection.
    ///
    /// # Errors
    /// [`BufferTooSmall`]: nothing happened; a buffer of
    /// [`MAX_LENGTH`](crate::wire::clc::MAX_LENGTH) bytes always suffices.
    #[inline]
    pub fn poll_clc(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
    ) -> Result<Option<(ConnId, usize)>, BufferTooSmall> {
        if !self.core.has_clc_work() {
            return Ok(None);
        }
        self.next_clc(now, buffer)
    }

    #[inline(never)]
    fn next_clc(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
    ) -> Result<Option<(ConnId, usize)>, BufferTooSmall> {
        let mut engine = self.engine(now);
        let result = engine.next_clc(buffer);
        engine.run_wakes();
        result
    }

    /// The next command for a TCP connection.
    #[inline]
    pub fn poll_tcp(&mut self) -> Option<(ConnId, TcpCommand)> {
        if self.core.tcp_out.is_empty() {
            return None;
        }
        self.next_tcp()
    }

    /// The command that [`Self::poll_tcp`] returns next. One that executes [`TcpCommand::Close`] before
    /// commands of ISM devices has the FIN of the side that ends first go before that of its peer.
    #[inline]
    pub fn peek_tcp(&mut self) -> Option<TcpCommand> {
        if self.core.tcp_out.is_empty() {
            return None;
        }
        self.first_tcp()
    }

    #[inline(never)]
    fn first_tcp(&mut self) -> Option<TcpCommand> {
        let data = self.unchanged_engine().groups.data;
        data.connections.at(data.core.tcp_out.first()?)?.tcp
    }

    #[inline(never)]
    fn next_tcp(&mut self) -> Option<(ConnId, TcpCommand)> {
        let mut engine = self.unchanged_engine();
        let index = engine
            .groups
            .data
            .core
            .tcp_out
            .pop_front(&mut engine.groups.data.connections)?;
        let command = engine.groups.data.connections.at_mut(index)?.tcp.take()?;
        let conn = engine.groups.data.conn_id(index);
        engine.groups.release(index);
        Some((conn, command))
    }

    /// The next command for an RNIC. Poll only while the device can take one.
    #[inline]
    pub fn poll_rdma(&mut self, now: Instant, device: DeviceId) -> Option<RdmaCommand> {
        if !self.core.has_work(device) {
            return None;
        }
        self.next_rdma(now, device)
    }

    #[inline(never)]
    fn next_rdma(&mut self, now: Instant, device: DeviceId) -> Option<RdmaCommand> {
        self.engine(now).groups.next_rdma(device)
    }

    /// Writes the message of [`RdmaCommand::SendLarge`] into `buffer` and returns its
    /// length, which is that of the command; 0 if its link is gone. To be called as soon
    /// as the command was polled.
    ///
    /// # Errors
    /// [`BufferTooSmall`]: nothing was written;
    /// [`LLC_V2_MAX_LENGTH`](crate::wire::llc::v2::LLC_V2_MAX_LENGTH) bytes always
    /// suffice.
    pub fn emit_llc(
        &mut self,
        link: LinkId,
        wr_id: WrId,
        buffer: &mut [u8],
    ) -> Result<usize, BufferTooSmall> {
        let mut engine = self.unchanged_engine();
        if !engine
            .groups
            .data
            .links
            .is_live(link.index, link.generation)
        {
            return Ok(0);
        }
        engine.groups.emit_large(link.index, wr_id.0, buffer)
    }

    /// Puts all that one connection sends in its transmit slot into `transmit`, if that is next
    /// for the device: whether it is. Otherwise [`Endpoint::poll_rdma`] returns what
    /// is; it also gives each step of a transmit by itself, so that calling this is
    /// optional. Poll only while the device can take three work requests.
    #[inline]
    pub fn poll_data(
        &mut self,
        now: Instant,
        device: DeviceId,
        transmit: &mut DataTransmit,
    ) -> bool {
        self.core.has_work(device) && self.next_transmit(now, device, transmit)
    }

    #[inline(never)]
    fn next_transmit(
        &mut self,
        now: Instant,
        device: DeviceId,
        transmit: &mut DataTransmit,
    ) -> bool {
        self.core.begin(now);
        self.fast_path()
            .is_some_and(|mut path| path.fast_transmit(device, transmit))
            || self.next_general_transmit(device, transmit)
    }

    #[inline(never)]
    fn next_general_transmit(&mut self, device: DeviceId, transmit: &mut DataTransmit) -> bool {
        loop {
            let mut deferred = Deferred::Nothing;
            let taken = self
                .data_path()
                .next_transmit(device, transmit, &mut deferred);
            if deferred == Deferred::Nothing {
                return taken;
            }
            self.execute(deferred);
            if taken {
                return true;
            }
        }
    }

    /// The next event.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.data_path().next_data_event() {
            return Some(event);
        }
        if self.core.has_events() {
            return self.next_event();
        }
        None
    }

    #[inline(never)]
    fn next_event(&mut self) -> Option<Event> {
        self.unchanged_engine().next_event()
    }

    /// When to call [`Endpoint::handle_timeout`] at the latest.
    #[inline]
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let tables = self.storage.tables();
        // Most often nothing waits.
        let waits = tables.connections.has_deadlines()
            || tables.handshakes.has_deadlines()
            || tables.groups.has_deadlines()
            || tables.links.has_deadlines()
            || tables.buffers.has_deadlines();
        if waits { self.first_timeout() } else { None }
    }

    #[inline(never)]
    fn first_timeout(&mut self) -> Option<Instant> {
        let tables = self.storage.tables();
        let deadlines = [
            tables.connections.first_deadline(),
            tables.handshakes.first_deadline(),
            tables.groups.first_deadline(),
            tables.links.first_deadline(),
            tables.buffers.first_deadline(),
        ];
        deadlines.into_iter().fold(None, earliest)
    }
}
