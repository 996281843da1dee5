//! CONFIRM RKEY and DELETE RKEY: which RMBs the other side may write to.

use super::super::Agreement;
use super::Flow;
use crate::command::BufferKind;
use crate::engine::Engine;
use crate::id::NONE;
use crate::wire::llc::{ConfirmRkey, ConfirmRkeyContinuation, DeleteRkey, LlcMessage, RkeyFlags};
use crate::wire::types::RToken;

impl Engine<'_> {
    /// An RMB got its registration: announce it, unless Accept or Confirm does.
    //= LLC-058
    pub(crate) fn announce_rmb(&mut self, group: u32, buffer: u32) {
        let Some(b) = self.buffers.at_mut(buffer) else {
            return;
        };
        if b.kind != BufferKind::Rmb || b.agreement != Agreement::None || b.retired {
            return;
        }
        let forming = self.groups.at(group).is_some_and(|g| !g.is_active());
        if forming {
            // The first RMB of a group is announced by the CLC messages.
            return;
        }
        b.agreement = Agreement::Confirming;
        self.queue_agreement(group, buffer);
    }

    /// A new RMB, which a connection waits for, goes before old ones.
    fn queue_agreement(&mut self, group: u32, buffer: u32) {
        let waited_for = self
            .buffers
            .at(buffer)
            .is_some_and(|b| b.agreement == Agreement::Confirming);
        if let Some(g) = self.groups.at_mut(group) {
            if waited_for {
                g.agreements.push_front(&mut self.buffers, buffer);
            } else {
                g.agreements.push_back(&mut self.buffers, buffer);
            }
        }
        self.start_flow(group);
    }

    /// The group is formed: the founder's RMB was announced by Accept or Confirm,
    /// those of connections that joined meanwhile are announced now.
    pub(super) fn announce_first_rmbs(&mut self, group: u32, founder: u32) {
        let first = self
            .connections
            .at(founder)
            .map_or(NONE, |record| record.rmb.buffer);
        let Some(list) = self.groups.at(group).map(|g| g.buffers) else {
            return;
        };
        let position = self.registration_target(group).0;
        let mut next = list.first();
        while let Some(index) = next {
            next = list.next(&mut self.buffers, index);
            if index == first {
                if let Some(buffer) = self.buffers.at_mut(index) {
                    buffer.waiter = NONE;
                    buffer.agreement = Agreement::Confirmed;
                }
                self.list_spare(index);
            } else if self
                .buffers
                .at(index)
                .is_some_and(|b| b.is_registered(position))
            {
                self.announce_rmb(group, index);
            }
        }
    }

    pub(super) fn start_rkey_flow(&mut self, group: u32, buffer: u32) {
        match self.buffers.at(buffer).map(|b| b.agreement) {
            Some(Agreement::Confirming) => self.send_confirm_rkey(group, buffer, 0),
            Some(Agreement::Deleting) => self.send_delete_rkey(group, buffer),
            _ => self.start_flow(group),
        }
    }

    fn own_rtoken(&self, group: u32, buffer: u32) -> Option<(u32, RToken)> {
        let link = self.groups.at(group)?.link;
        let position = self.links.at(link)?.position;
        Some((link, self.buffers.at(buffer)?.rtoken(position)?))
    }

    //= LLC-059
    //= LLC-060
    pub(super) fn send_confirm_rkey(&mut self, group: u32, buffer: u32, attempts: u8) {
        let Some((link, rtoken)) = self.own_rtoken(group, buffer) else {
            return;
        };
        if let Some(g) = self.groups.at_mut(group) {
            g.flow = Flow::ConfirmRkey { buffer, attempts };
            g.flow_deadline = None;
        }
        let message = LlcMessage::ConfirmRkey(ConfirmRkey {
            reply: false,
            flags: RkeyFlags::empty(),
            rtoken,
            other_links: 0,
            others: heapless::Vec::new(),
        });
        self.request(link, &message);
    }

    pub(super) fn on_confirm_rkey_reply(&mut self, group: u32, reply: &ConfirmRkey) {
        let Some(Flow::ConfirmRkey { buffer, attempts }) = self.groups.at(group).map(|g| g.flow)
        else {
            return;
        };
        if self.own_rtoken(group, buffer).map(|(_, rtoken)| rtoken) != Some(reply.rtoken) {
            return;
        }
        if !reply.flags.contains(RkeyFlags::NEGATIVE) {
            self.settle_agreement(buffer, Agreement::Confirmed);
            self.end_flow(group);
        } else if reply.flags.contains(RkeyFlags::RETRY) && attempts < self.core.config.rkey_retries
        {
            //= LLC-064
            //= LLC-067
            let until = self.now().after(self.core.config.timeouts.rkey_retry);
            if let Some(g) = self.groups.at_mut(group) {
                g.flow = Flow::RetryConfirmRkey {
                    buffer,
                    attempts: attempts.saturating_add(1),
                };
                g.flow_deadline = Some(until);
            }
            self.arm_group(group);
        } else {
            //= LLC-068
            if let Some(b) = self.buffers.at_mut(buffer) {
                b.retired = true;
            }
            self.settle_agreement(buffer, Agreement::None);
            self.poke_buffer(buffer);
            self.end_flow(group);
        }
    }

    fn settle_agreement(&mut self, buffer: u32, agreement: Agreement) {
        let Some(b) = self.buffers.at_mut(buffer) else {
            return;
        };
        b.agreement = agreement;
        let waiter = core::mem::replace(&mut b.waiter, NONE);
        self.wake(waiter);
        self.list_spare(buffer);
    }

    /// The peer announces an RMB.
    //= LLC-063
    //= LLCSER-005
    pub(super) fn on_confirm_rkey(&mut self, link: u32, group: u32, mut message: ConfirmRkey) {
        let position = self.links.at(link).map_or(0, |l| l.position);
        let stored = self.learn_rtoken(group, position, message.rtoken).is_some();
        message.reply = true;
        if !stored {
            message.flags |= RkeyFlags::NEGATIVE;
        }
        self.reply(link, &LlcMessage::ConfirmRkey(message));
    }

    pub(super) fn on_confirm_rkey_continuation(
        &mut self,
        link: u32,
        mut message: ConfirmRkeyContinuation,
    ) {
        // It can only name links this group does not have.
        message.reply = true;
        self.reply(link, &LlcMessage::ConfirmRkeyContinuation(message));
    }

    /// An RMB was unused for long enough: withdraw it (RMB-028, RMB-029).
    //= RMB-028
    pub(crate) fn on_buffer_timeout(&mut self, index: u32) {
        let now = self.now();
        let Some(buffer) = self.buffers.at_mut(index) else {
            return;
        };
        if buffer.idle_deadline.is_none_or(|deadline| deadline > now) || buffer.users > 0 {
            let deadline = buffer.idle_deadline;
            self.buffers.set_deadline(index, deadline);
            return;
        }
        buffer.idle_deadline = None;
        let group = buffer.group;
        match (buffer.kind, buffer.agreement) {
            (BufferKind::Rmb, Agreement::Confirmed) => {
                buffer.agreement = Agreement::Deleting;
                self.list_spare(index);
                self.queue_agreement(group, index);
            }
            (BufferKind::Rmb, Agreement::Deleting) => {}
            // Its exchange is not over: it gets another period.
            (BufferKind::Rmb, Agreement::Confirming) => {
                let deadline = now.after(self.core.config.timeouts.rmb_idle);
                buffer.idle_deadline = Some(deadline);
                self.buffers.set_deadline(index, Some(deadline));
                return;
            }
            _ => {
                buffer.retired = true;
                self.list_spare(index);
                self.drop_absent_buffer(index);
                self.poke_buffer(index);
            }
        }
        self.buffers.set_deadline(index, None);
    }

    //= LLC-070
    fn send_delete_rkey(&mut self, group: u32, buffer: u32) {
        let Some((link, rtoken)) = self.own_rtoken(group, buffer) else {
            return;
        };
        let mut rkeys = heapless::Vec::new();
        if rkeys.push(rtoken.rkey).is_err() {
            return;
        }
        if let Some(g) = self.groups.at_mut(group) {
            g.flow = Flow::DeleteRkey { buffer };
        }
        let message = LlcMessage::DeleteRkey(DeleteRkey {
            reply: false,
            flags: RkeyFlags::empty(),
            error_mask: 0,
            rkeys,
        });
        self.request(link, &message);
    }

    //= RMB-030
    //= LLC-072
    pub(super) fn on_delete_rkey_reply(&mut self, group: u32, reply: &DeleteRkey) {
        let Some(Flow::DeleteRkey { buffer }) = self.groups.at(group).map(|g| g.flow) else {
            return;
        };
        let own = self
            .own_rtoken(group, buffer)
            .map(|(_, rtoken)| rtoken.rkey);
        if reply.rkeys.first().copied() != own {
            return;
        }
        if let Some(b) = self.buffers.at_mut(buffer) {
            b.agreement = Agreement::None;
            b.retired = true;
        }
        self.poke_buffer(buffer);
        self.end_flow(group);
    }

    /// The peer withdraws RMBs.
    //= LLC-071
    //= LLC-073
    pub(super) fn on_delete_rkey(&mut self, link: u32, group: u32, mut message: DeleteRkey) {
        let position = self.links.at(link).map_or(0, |l| l.position);
        let mut mask = 0u8;
        let mut bit = 0x80u8;
        for rkey in message.rkeys.clone() {
            if !self.forget_rkey(group, position, rkey) {
                mask |= bit;
            }
            bit >>= 1;
        }
        message.reply = true;
        message.error_mask = mask;
        if mask != 0 {
            message.flags |= RkeyFlags::NEGATIVE;
        }
        self.reply(link, &LlcMessage::DeleteRkey(message));
    }
}
