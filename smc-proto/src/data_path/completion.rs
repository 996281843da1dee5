//! Completions of CDC messages: the RNIC has sent them, and has executed the writes before them.

use super::{DataPath, Deferred};
use crate::connection::NotifyRecord;
use crate::connection_record::Phase;
use crate::id::{ConnIdx, LinkId, WrId};
use crate::link_group::SendKind;

impl DataPath<'_> {
    /// Handles the completion of a SEND, with which everything posted before it on its link is
    /// complete. Most often that is one CDC message; [`Deferred::Sent`] leaves everything else to
    /// the caller.
    #[inline(always)]
    pub(crate) fn on_sent(&mut self, link: LinkId, wr_id: WrId) -> Deferred {
        let Some(l) = self.links.live_mut(link.index, link.generation) else {
            return Deferred::Nothing;
        };
        // A link in removal may be drained now.
        let Some(SendKind::Notify {
            index,
            generation,
            record,
        }) = l.in_flight.front(wr_id.0).filter(|_| l.is_active())
        else {
            return Deferred::Sent(link.index);
        };
        // A link that had a free slot is on its device's list already, if it has work.
        let was_full = !l.has_free_slot();
        l.in_flight.pop();
        self.core.step();
        let deferred = self.on_notify_sent(index, generation, record);
        if was_full {
            self.schedule_link(link.index);
        }
        deferred
    }

    /// Handles the completion of a connection's CDC message.
    #[inline(always)]
    pub(crate) fn on_notify_sent(
        &mut self,
        index: ConnIdx,
        generation: u32,
        record: NotifyRecord,
    ) -> Deferred {
        let now = self.core.now;
        let Some(owner) = self.connections.live_mut(index, generation) else {
            return Deferred::Nothing;
        };
        let active = owner.phase == Phase::Active;
        let Some(connection) = owner.connection.as_mut() else {
            return Deferred::Nothing;
        };
        let before = self.tap.marks_before(connection);
        connection.on_notify_completed(now, &self.core.config.connection, record);
        let is_done = active && !connection.has_follow_up();
        self.trace_conn_changes(index, before);
        if is_done {
            return Deferred::Nothing;
        }
        match self.follow_up(index) {
            Deferred::Nothing if !active => Deferred::Release(index),
            deferred => deferred,
        }
    }
}
