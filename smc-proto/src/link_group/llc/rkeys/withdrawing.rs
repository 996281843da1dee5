//! Withdrawal of own RMBs that are no longer needed: DELETE RKEY.

use super::super::super::Agreement;
use super::super::Flow;
use crate::command::BufferKind;
use crate::id::{BufferIdx, GroupIdx};
use crate::link_group::Groups;
use crate::version::SmcVersion;
use crate::wire::llc::{DeleteRkey, Entries, LlcMessage, RkeyFlags};

impl Groups<'_> {
    /// An RMB was unused for long enough: withdraw it (RMB-028, RMB-029).
    //= RMB-028
    pub(crate) fn on_buffer_timeout(&mut self, index: BufferIdx) {
        let now = self.now();
        let Some(buffer) = self.buffers.at_mut(index) else {
            return;
        };
        if buffer.users > 0 {
            self.set_buffer_deadline(index, None);
            return;
        }
        match (buffer.kind, buffer.agreement) {
            // The writer to a DMB is not asked.
            (BufferKind::Rmb, Agreement::Confirmed) if buffer.ism.is_none() => {
                self.withdraw_rmb(index);
            }
            (BufferKind::Rmb, Agreement::Deleting) => {}
            // Its exchange is not over: it gets another period.
            (BufferKind::Rmb, Agreement::Confirming) => {
                let deadline = now.after(self.data.core.config.timeouts.rmb_idle);
                self.set_buffer_deadline(index, Some(deadline));
                return;
            }
            _ => {
                buffer.retired = true;
                self.list_spare(index);
                self.drop_absent_buffer(index);
                self.schedule_buffer(index);
            }
        }
        self.set_buffer_deadline(index, None);
    }

    /// Withdraws an RMB that no connection uses and the peer knows.
    //= RMB-028
    pub(in super::super::super) fn withdraw_rmb(&mut self, index: BufferIdx) {
        let Some(buffer) = self.buffers.at_mut(index) else {
            return;
        };
        buffer.agreement = Agreement::Deleting;
        let group = buffer.group;
        self.set_buffer_deadline(index, None);
        self.list_spare(index);
        self.queue_agreement(group, index);
    }

    //= LLC-070
    pub(super) fn send_delete_rkey(&mut self, group: GroupIdx, buffer: BufferIdx) {
        let via_link = self.link_for_rkey(group, buffer);
        let Some(rtoken) = self.own_rtoken(buffer, via_link) else {
            // It was known on links that are gone, and the keys with them.
            self.give_back_rmb(buffer);
            return;
        };
        if let Some(g) = self.data.groups.at_mut(group) {
            g.flow = Flow::DeleteRkey { buffer, via_link };
        }
        let message = LlcMessage::DeleteRkey(DeleteRkey {
            reply: false,
            flags: RkeyFlags::empty(),
            unknown: 0,
            rkeys: Entries::inline([rtoken.rkey]),
        });
        self.request(via_link, &message);
    }

    /// The peer forgot the RMB that it was asked to. In version 2 it may answer with zeros
    /// in place of the key.
    //= RMB-030
    //= LLC-072
    //= V2-166
    pub(in super::super) fn on_delete_rkey_reply(
        &mut self,
        group: GroupIdx,
        reply: &DeleteRkey<'_>,
        form: SmcVersion,
    ) {
        let Some(Flow::DeleteRkey { buffer, via_link }) =
            self.data.groups.at(group).map(|g| g.flow)
        else {
            return;
        };
        let own = self.own_rtoken(buffer, via_link).map(|rtoken| rtoken.rkey);
        if form == SmcVersion::V2 || reply.rkeys.first() == own {
            self.give_back_rmb(buffer);
            self.end_flow(group);
        }
    }

    /// The peer does not write to an RMB any more.
    fn give_back_rmb(&mut self, buffer: BufferIdx) {
        if let Some(b) = self.buffers.at_mut(buffer) {
            b.agreement = Agreement::None;
            b.retired = true;
        }
        self.drop_absent_buffer(buffer);
        self.schedule_buffer(buffer);
    }
}
