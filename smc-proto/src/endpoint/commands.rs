//! Commands: what applications want.

use super::{AnswerError, ConnMut, Endpoint, OpenError};
use crate::command::BufferSpans;
use crate::connection::ApiMisuse;
use crate::data_path::ReadOutcome;
use crate::engine::Engine;
use crate::id::{ConnId, GroupId, LinkId};
use crate::link_group::Role;
use crate::path::Paths;
use crate::rendezvous::ConnOptions;
use crate::storage::{Storage, for_call};
use crate::time::Instant;
use crate::wire::types::DiagnosisCode;

impl<S: Storage> Endpoint<S> {
    /// Client: starts the rendezvous of a TCP connection that is established.
    /// `paths` are the ports and devices that may carry it, the preferred one first; without
    /// any the connection is declined.
    ///
    /// # Errors
    /// [`OpenError::Full`]; the TCP connection is untouched. If both SYNs carried
    /// the SMC option, the server expects a CLC message before anything else: send
    /// a Decline ([`ClcMessage::Decline`](crate::wire::clc::ClcMessage)) before the
    /// application's first byte (CLC-072).
    pub fn connect<'p>(
        &mut self,
        now: Instant,
        options: ConnOptions,
        paths: impl Into<Paths<'p>>,
    ) -> Result<ConnId, OpenError> {
        let mut engine = self.engine(now);
        let index = engine.open(Role::Client, options, paths.into())?;
        Ok(engine.groups.data.conn_id(index))
    }

    /// Server: starts the rendezvous of a TCP connection that was accepted.
    ///
    /// # Errors
    /// [`OpenError::Full`]; the TCP connection is untouched. If both SYNs carried
    /// the SMC option, the client may propose: answer its Proposal with a Decline
    /// ([`ClcMessage::Decline`](crate::wire::clc::ClcMessage)), or reset the TCP
    /// connection.
    pub fn listen(&mut self, now: Instant, options: ConnOptions) -> Result<ConnId, OpenError> {
        let mut engine = self.engine(now);
        let index = engine.open(Role::Server, options, Paths::default())?;
        Ok(engine.groups.data.conn_id(index))
    }

    /// Server: answers [`Event::Proposed`] with the ports that may carry the connection;
    /// the engine chooses and decides (RENDEZVOUS-002).
    ///
    /// [`Event::Proposed`]: crate::event::Event::Proposed
    ///
    /// # Errors
    /// [`AnswerError::NotProposed`].
    pub fn accept<'p>(
        &mut self,
        now: Instant,
        conn: ConnId,
        paths: impl Into<Paths<'p>>,
    ) -> Result<(), AnswerError> {
        let mut engine = self.engine(now);
        let index = engine.live_conn(conn).ok_or(AnswerError::NotProposed)?;
        engine.accept(index, paths.into())?;
        engine.run_wakes();
        Ok(())
    }

    /// Server: answers [`Event::Proposed`] with Decline.
    ///
    /// [`Event::Proposed`]: crate::event::Event::Proposed
    ///
    /// # Errors
    /// [`AnswerError::NotProposed`].
    pub fn decline(
        &mut self,
        now: Instant,
        conn: ConnId,
        why: DiagnosisCode,
    ) -> Result<(), AnswerError> {
        let mut engine = self.engine(now);
        let index = engine.live_conn(conn).ok_or(AnswerError::NotProposed)?;
        engine.refuse(index, why)
    }

    /// Ends a link group in order; its connections are reset (CLOSE-038).
    pub fn delete_group(&mut self, now: Instant, group: GroupId) {
        let mut engine = self.engine(now);
        if engine
            .groups
            .data
            .groups
            .is_live(group.index, group.generation)
        {
            engine.groups.delete_group(group.index);
        }
        engine.run_wakes();
    }

    /// Deletes a link in order; its connections move to another one. The last link
    /// of a group takes the group along. A client asks the server to do it.
    pub fn delete_link(&mut self, now: Instant, link: LinkId) {
        let mut engine = self.engine(now);
        if engine
            .groups
            .data
            .links
            .is_live(link.index, link.generation)
        {
            engine.groups.delete_link(link.index);
        }
        engine.run_wakes();
    }

    /// A connection for reading and writing, unless the handle is stale.
    #[inline]
    pub fn conn(&mut self, conn: ConnId) -> Option<ConnMut<'_>> {
        let engine = Engine::for_data(&mut self.core, for_call(&mut self.storage));
        let index = engine.live_conn(conn)?;
        Some(ConnMut { engine, index })
    }

    /// Reads from a connection as [`ConnMut::read`] does, and reports whether anything
    /// follows that has to be polled; `None` if the handle is stale.
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was freed.
    #[inline(always)]
    pub fn read(
        &mut self,
        now: Instant,
        conn: ConnId,
        take: impl FnOnce(&BufferSpans) -> u32,
    ) -> Option<Result<ReadOutcome, ApiMisuse>> {
        self.core.begin(now);
        let Some(mut path) = self.fast_path() else {
            return self.observed_read(conn, take);
        };
        let live = path.connections.is_live(conn.index, conn.generation);
        live.then(|| path.read(conn.index, take))
    }

    #[cold]
    #[inline(never)]
    fn observed_read(
        &mut self,
        conn: ConnId,
        take: impl FnOnce(&BufferSpans) -> u32,
    ) -> Option<Result<ReadOutcome, ApiMisuse>> {
        let mut path = self.data_path();
        let live = path.connections.is_live(conn.index, conn.generation);
        live.then(|| path.read(conn.index, take))
    }
}
