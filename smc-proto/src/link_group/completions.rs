//! What devices answer, and what peers send.

mod buffers;
mod messages;
mod queue_pairs;

use super::{Buffer, QpState};
use crate::completion::RdmaCompletion;
use crate::connection::FatalCause;
use crate::data_path::Deferred;
use crate::id::{BufferId, BufferIdx, GroupIdx, LinkId, LinkIdx};
use crate::link_group::Groups;
use crate::trace::TraceEvent;

/// A buffer that could not be had. The connection that waits for it was woken, and leaves
/// first, so that its element comes back; then the buffer goes.
#[derive(Clone, Copy, Debug)]
#[must_use]
pub(crate) struct UselessBuffer {
    pub(super) group: GroupIdx,
    pub(super) buffer: BufferIdx,
}

impl Groups<'_> {
    /// Any completion that is about links and buffers; for those of SENDs, `deferred` is what
    /// the data path left. A buffer that is of no use is left to the caller.
    pub(crate) fn on_completion(
        &mut self,
        completion: &RdmaCompletion<'_>,
        deferred: Deferred,
    ) -> Option<UselessBuffer> {
        match *completion {
            RdmaCompletion::Received { payload, .. } => self.finish_received(deferred, payload),
            RdmaCompletion::Sent { wr_id, .. } => self.finish_sent(deferred, wr_id),
            RdmaCompletion::QpCreated { link, qpn } => {
                if let Some(index) = self.expecting_link(link, QpState::Init)
                    && let Some(l) = self.data.links.at_mut(index)
                {
                    l.qpn = qpn;
                }
                self.on_qp_state(link, QpState::Init);
            }
            RdmaCompletion::QpConnected { link } => self.on_qp_state(link, QpState::Rtr),
            RdmaCompletion::QpActive { link } => self.on_qp_state(link, QpState::Rts),
            RdmaCompletion::QpDrained { link } => {
                if let Some(index) = self.expecting_link(link, QpState::Drained) {
                    self.set_qp_state(index, QpState::Drained);
                    self.on_drained(index);
                }
            }
            RdmaCompletion::QpDestroyed { link } => {
                if let Some(index) = self.expecting_link(link, QpState::Absent) {
                    self.on_destroyed(index);
                }
            }
            RdmaCompletion::LinkRefused { link } => self.on_link_refused(link),
            RdmaCompletion::LinkFailed { link, cause, conn } => {
                self.on_link_failed(link, cause, conn);
            }
            RdmaCompletion::BufferAllocated { buffer } => {
                if let Some(index) = self.live_buffer(buffer) {
                    if let Some(b) = self.buffers.at_mut(index) {
                        b.on_allocated();
                    }
                    self.trace_buffer(index, || TraceEvent::BufferAllocated);
                    self.schedule_buffer(index);
                }
            }
            RdmaCompletion::BufferRegistered {
                buffer,
                link,
                rtoken,
            } => {
                self.on_registered(buffer, link, rtoken);
            }
            RdmaCompletion::BufferDeregistered { buffer, link } => {
                self.on_deregistered(buffer, link);
            }
            RdmaCompletion::BufferFreed { buffer } => {
                if let Some(index) = self.live_buffer(buffer)
                    && self.buffers.at(index).is_some_and(Buffer::is_being_freed)
                {
                    self.remove_buffer(index);
                }
            }
            RdmaCompletion::ElementCleared { buffer, offset } => {
                if let Some(index) = self.live_buffer(buffer) {
                    if let Some(b) = self.buffers.at_mut(index) {
                        b.on_cleared(offset);
                    }
                    self.trace_buffer(index, || TraceEvent::ElementCleared);
                    self.schedule_buffer(index);
                    self.list_spare(index);
                }
            }
            RdmaCompletion::BufferRefused { buffer } => return self.on_buffer_refused(buffer),
            //= RMB-018
            //= RMB-019
            RdmaCompletion::EyeCatcherDamaged { conn } => {
                if let Some(index) = self.data.live_conn(conn) {
                    self.with_connection(index, |connection, now, config| {
                        connection.on_fatal(now, &config.connection, FatalCause::EyeCatcherDamaged);
                    });
                }
            }
        }
        None
    }

    #[inline]
    pub(super) fn live_link(&self, id: LinkId) -> Option<LinkIdx> {
        self.data
            .links
            .is_live(id.index, id.generation)
            .then_some(id.index)
    }

    pub(crate) fn live_buffer(&self, id: BufferId) -> Option<BufferIdx> {
        self.buffers
            .is_live(id.index, id.generation)
            .then_some(id.index)
    }

    /// The link of a control completion, if the command that leads to this state
    /// is in flight.
    pub(super) fn expecting_link(&self, id: LinkId, state: QpState) -> Option<LinkIdx> {
        let index = self.live_link(id)?;
        (self.link(index)?.pending == Some(state)).then_some(index)
    }
}
