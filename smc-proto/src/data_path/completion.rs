//! CDC messages that the RNIC has sent, and their writes with them.

use super::{DataPath, Deferred};
use crate::connection::NotifyRecord;
use crate::connection_record::Phase;
use crate::id::{ConnIdx, LinkId, WrId};
use crate::link_group::SendKind;

impl DataPath<'_> {
    /// A SEND completed, and with it all before it on its link: most often none,
    /// and it was a CDC message.
    #[inline(always)]
    pub(crate) fn on_sent(&mut self, link: LinkId, wr_id: WrId) -> Deferred {
        let Some(l) = self.links.live_mut(link.index, link.generation) else {
            return Deferred::Nothing;
        };
        // A link that leaves may have become quiet.
        let Some(SendKind::Notify {
            index,
            generation,
            record,
        }) = l.in_flight.front(wr_id.0).filter(|_| l.is_active())
        else {
            return Deferred::Sends(link.index);
        };
        // A link with a free slot is on its device's list already if it wants to.
        let was_full = !l.has_free_slot();
        l.in_flight.pop();
        self.core.step();
        let deferred = self.on_notify_sent(index, generation, record);
        if was_full {
            self.schedule_link(link.index);
        }
        deferred
    }

    /// The CDC message of a connection completed.
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
        let seen = self.tap.look(connection);
        connection.on_notify_completed(now, &self.core.config.connection, record);
        let settled = active && connection.is_settled();
        self.compare(index, seen);
        if settled {
            return Deferred::Nothing;
        }
        match self.after_connection(index) {
            Deferred::Nothing if !active => Deferred::Idle(index),
            deferred => deferred,
        }
    }
}
