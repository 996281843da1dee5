//! CONFIRM RKEY and DELETE RKEY: which RMBs the other side may write to.

use super::super::{Agreement, IncomingRkey, Link, LinkSet, Role};
use super::Flow;
use crate::command::BufferKind;
use crate::engine::Engine;
use crate::id::NONE;
use crate::wire::llc::{
    ConfirmRkey, ConfirmRkeyContinuation, DeleteRkey, LinkRToken, LlcMessage, RkeyFlags,
};
use crate::wire::types::RToken;

impl Engine<'_> {
    /// An RMB got its registration: announce it, unless Accept or Confirm does.
    //= LLC-058
    pub(crate) fn announce_rmb(&mut self, group: u32, buffer: u32) {
        let active = self.active_links(group);
        let Some(b) = self.buffers.at_mut(buffer) else {
            return;
        };
        if b.kind != BufferKind::Rmb || b.retired || !b.is_registered_on(active) {
            return;
        }
        if b.agreement == Agreement::Confirmed && !active.without(b.announced).is_empty() {
            //= RMB-010
            // It waited to be registered on a new link.
            self.queue_agreement(group, buffer);
            return;
        }
        if b.agreement != Agreement::None {
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
    pub(super) fn queue_agreement(&mut self, group: u32, buffer: u32) {
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

    /// The first link is confirmed: the founder's RMB was announced by Accept or
    /// Confirm.
    pub(super) fn confirm_founders_rmb(&mut self, group: u32) {
        let Some(g) = self.groups.at(group) else {
            return;
        };
        let (founder, first) = (g.founder, g.first_link());
        let index = self
            .connections
            .at(founder)
            .map_or(NONE, |record| record.rmb.buffer);
        let position = self.links.at(first).map_or(0, |l| l.position);
        if let Some(buffer) = self.buffers.at_mut(index) {
            buffer.waiter = NONE;
            buffer.agreement = Agreement::Confirmed;
            buffer.announced.insert(position);
        }
        self.list_spare(index);
    }

    /// The group is formed: RMBs of connections that joined meanwhile are
    /// announced now.
    pub(super) fn announce_first_rmbs(&mut self, group: u32) {
        let Some(list) = self.groups.at(group).map(|g| g.buffers) else {
            return;
        };
        let mut next = list.first();
        while let Some(index) = next {
            self.step();
            next = list.next(&mut self.buffers, index);
            self.announce_rmb(group, index);
        }
    }

    /// RMBs that were agreed on while a link was being added may lack it.
    //= RMB-010
    pub(super) fn announce_missing_links(&mut self, group: u32) {
        let active = self.active_links(group);
        let Some(list) = self.groups.at(group).map(|g| g.buffers) else {
            return;
        };
        let mut next = list.first();
        while let Some(index) = next {
            self.step();
            next = list.next(&mut self.buffers, index);
            let missing = self.buffers.at(index).is_some_and(|b| {
                b.agreement == Agreement::Confirmed && !active.without(b.announced).is_empty()
            });
            if missing && let Some(g) = self.groups.at_mut(group) {
                g.agreements.push_back(&mut self.buffers, index);
            }
        }
    }

    /// Starts what is to be agreed on about an RMB; nothing, if there is nothing to
    /// say or no link to say it on.
    pub(super) fn start_rkey_flow(&mut self, group: u32, buffer: u32) {
        match self.buffers.at(buffer).map(|b| b.agreement) {
            Some(Agreement::Confirming | Agreement::Confirmed) => {
                self.send_confirm_rkey(group, buffer, 0);
            }
            Some(Agreement::Deleting) => self.send_delete_rkey(group, buffer),
            _ => {}
        }
    }

    /// An own RMB as known on a link.
    fn own_rtoken(&self, buffer: u32, link: u32) -> Option<RToken> {
        let position = self.links.at(link)?.position;
        self.buffers.at(buffer)?.rtoken(position)
    }

    /// The link of the connection that will use an RMB first, or any other. Of an
    /// RMB that the peer knows it is told by the key it knows, or it would be taken
    /// for another one.
    //= LLC-059
    fn rkey_carrier(&self, group: u32, buffer: u32) -> u32 {
        let Some(b) = self.buffers.at(buffer) else {
            return NONE;
        };
        let link = self.connections.at(b.waiter).map_or(NONE, |r| r.link);
        let fits = |l: &Link| {
            l.is_active()
                && l.is_usable()
                && (!b.is_announced() || b.announced.contains(l.position))
        };
        if self.links.at(link).is_some_and(fits) {
            return link;
        }
        self.select_links(group, fits)
            .next()
            .map_or(NONE, |(index, _)| index)
    }

    /// Entries for up to `N` links of a set, which they are taken from.
    fn rtokens_for<const N: usize>(
        &self,
        group: u32,
        buffer: u32,
        left: &mut LinkSet,
    ) -> heapless::Vec<LinkRToken, N> {
        let mut entries = heapless::Vec::new();
        let Some(b) = self.buffers.at(buffer) else {
            return entries;
        };
        for (_, link) in self.select_links(group, |_| true) {
            if left.contains(link.position)
                && !entries.is_full()
                && let Some(rtoken) = b.rtoken(link.position)
            {
                left.remove(link.position);
                let link = link.number;
                let _ = entries.push(LinkRToken { link, rtoken });
            }
        }
        entries
    }

    /// A refused CONFIRM RKEY is tried again, but not while links change.
    //= LLC-067
    pub(super) fn retry_confirm_rkey(&mut self, group: u32, buffer: u32, attempts: u8) {
        if self.addition(group).is_idle() {
            if let Some(g) = self.groups.at_mut(group) {
                g.flow = Flow::Idle;
            }
            self.send_confirm_rkey(group, buffer, attempts);
            self.start_flow(group);
            return;
        }
        let until = self.now().after(self.core.config.timeouts.rkey_retry);
        if let Some(g) = self.groups.at_mut(group) {
            g.flow_deadline = Some(until);
        }
        self.arm_group(group);
    }

    //= LLC-059
    //= LLC-060
    pub(super) fn send_confirm_rkey(&mut self, group: u32, buffer: u32, attempts: u8) {
        let links = self.active_links(group);
        let Some(b) = self.buffers.at_mut(buffer) else {
            return;
        };
        if !b.is_registered_on(links) {
            // A link that is left out counts as lost (LLC-069). Once the RMB is
            // registered on all, it is announced.
            if b.agreement == Agreement::Confirming {
                b.agreement = Agreement::None;
            }
            return;
        }
        let carrier = self.rkey_carrier(group, buffer);
        let Some(rtoken) = self.own_rtoken(buffer, carrier) else {
            // No link to say it on: the group ends.
            return;
        };
        //= LLC-066
        let mut left = links;
        if let Some(l) = self.links.at(carrier) {
            left.remove(l.position);
        }
        let other_links = left.len();
        let others = self.rtokens_for(group, buffer, &mut left);
        if let Some(g) = self.groups.at_mut(group) {
            g.flow = Flow::ConfirmRkey {
                buffer,
                attempts,
                carrier,
                links,
                left,
            };
            g.flow_deadline = None;
        }
        let message = LlcMessage::ConfirmRkey(ConfirmRkey {
            reply: false,
            flags: RkeyFlags::empty(),
            rtoken,
            other_links,
            others,
        });
        self.request(carrier, &message);
    }

    pub(super) fn on_confirm_rkey_reply(&mut self, link: u32, group: u32, reply: &ConfirmRkey) {
        let Some(Flow::ConfirmRkey {
            buffer, carrier, ..
        }) = self.groups.at(group).map(|g| g.flow)
        else {
            return;
        };
        if link == carrier && self.own_rtoken(buffer, carrier) == Some(reply.rtoken) {
            self.on_rkey_answer(group, reply.flags);
        }
    }

    //= LLC-065
    pub(super) fn on_confirm_rkey_continuation_reply(
        &mut self,
        link: u32,
        group: u32,
        reply: &ConfirmRkeyContinuation,
    ) {
        if self
            .groups
            .at(group)
            .is_some_and(|g| g.flow.carrier() == link)
        {
            self.on_rkey_answer(group, reply.flags);
        }
    }

    /// The peer took what was told so far, or refuses all of it.
    fn on_rkey_answer(&mut self, group: u32, flags: RkeyFlags) {
        let Some(Flow::ConfirmRkey {
            buffer,
            attempts,
            carrier,
            links,
            mut left,
        }) = self.groups.at(group).map(|g| g.flow)
        else {
            return;
        };
        if !flags.contains(RkeyFlags::NEGATIVE) && !left.is_empty() {
            //= LLC-061
            //= LLC-062
            let remaining = left.len();
            let others = self.rtokens_for(group, buffer, &mut left);
            if let Some(g) = self.groups.at_mut(group) {
                g.flow = Flow::ConfirmRkey {
                    buffer,
                    attempts,
                    carrier,
                    links,
                    left,
                };
            }
            let message = LlcMessage::ConfirmRkeyContinuation(ConfirmRkeyContinuation {
                reply: false,
                flags: RkeyFlags::empty(),
                remaining,
                others,
            });
            self.request(carrier, &message);
        } else if !flags.contains(RkeyFlags::NEGATIVE) {
            let present = self.active_links(group);
            if let Some(b) = self.buffers.at_mut(buffer) {
                b.announced = b.announced.or(links).and(present);
            }
            self.settle_agreement(buffer, Agreement::Confirmed);
            self.announce_missing_links(group);
            self.end_flow(group);
        } else if flags.contains(RkeyFlags::RETRY) && attempts < self.core.config.rkey_retries {
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
            self.give_up_announcing(buffer);
            self.end_flow(group);
        }
    }

    /// The peer does not want an RMB. One that it knows on some links stays on
    /// these.
    fn give_up_announcing(&mut self, buffer: u32) {
        let Some(b) = self.buffers.at_mut(buffer) else {
            return;
        };
        if b.is_announced() {
            self.settle_agreement(buffer, Agreement::Confirmed);
            return;
        }
        b.retired = true;
        self.settle_agreement(buffer, Agreement::None);
        self.poke_buffer(buffer);
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
        message.reply = true;
        if self.links_change(group) {
            //= LLCSER-012
            //= LLCSER-015
            //= LLCSER-023
            message.flags |= RkeyFlags::NEGATIVE | RkeyFlags::RETRY;
            self.reply(link, &LlcMessage::ConfirmRkey(message));
            return;
        }
        let position = self.links.at(link).map_or(0, |l| l.position);
        let rmb = self.learn_rtoken(group, position, message.rtoken);
        let left = message
            .other_links
            .saturating_sub(u8::try_from(message.others.len()).unwrap_or(0));
        if let Some(rmb) = rmb {
            self.learn_entries(group, link, rmb, &message.others);
            let incoming = IncomingRkey {
                rmb,
                carrier: link,
                left,
            };
            if let Some(g) = self.groups.at_mut(group) {
                g.incoming_rkey = (left > 0).then_some(incoming);
            }
        } else {
            message.flags |= RkeyFlags::NEGATIVE;
        }
        self.reply(link, &LlcMessage::ConfirmRkey(message));
        if let Some(rmb) = rmb
            && left == 0
        {
            self.on_rmb_announced(group, rmb);
        }
    }

    //= LLC-063
    pub(super) fn on_confirm_rkey_continuation(
        &mut self,
        link: u32,
        group: u32,
        mut message: ConfirmRkeyContinuation,
    ) {
        message.reply = true;
        let incoming = self.groups.at(group).and_then(|g| g.incoming_rkey);
        let Some(incoming) = incoming.filter(|i| i.carrier == link && i.left >= message.remaining)
        else {
            message.flags |= RkeyFlags::NEGATIVE;
            self.reply(link, &LlcMessage::ConfirmRkeyContinuation(message));
            return;
        };
        self.learn_entries(group, link, incoming.rmb, &message.others);
        let left = message
            .remaining
            .saturating_sub(u8::try_from(message.others.len()).unwrap_or(0));
        if let Some(g) = self.groups.at_mut(group) {
            g.incoming_rkey = (left > 0).then_some(IncomingRkey { left, ..incoming });
        }
        self.reply(link, &LlcMessage::ConfirmRkeyContinuation(message));
        if left == 0 {
            self.on_rmb_announced(group, incoming.rmb);
        }
    }

    /// Whether the links of a group are being changed as its server sees it.
    fn links_change(&self, group: u32) -> bool {
        self.groups.at(group).is_some_and(|g| {
            g.role == Role::Server
                && (g.addition.is_shared() || matches!(g.flow, Flow::DeleteLink { .. }))
        })
    }

    /// Stores what CONFIRM RKEY says of other links than the one that carries it; of
    /// unknown ones nothing can be kept.
    fn learn_entries(&mut self, group: u32, carrier: u32, rmb: u32, entries: &[LinkRToken]) {
        for entry in entries {
            let position = self
                .select_links(group, |l| l.number == entry.link && l.is_known())
                .find(|(index, _)| *index != carrier)
                .map(|(_, l)| l.position);
            if let Some(position) = position
                && let Some(rmb) = self.remote_rmbs.at_mut(rmb)
            {
                rmb.set_rtoken(position, entry.rtoken);
            }
        }
    }

    /// An announcement is complete: a link the peer did not name is one it does
    /// not have any more.
    //= LLC-069
    fn on_rmb_announced(&mut self, group: u32, rmb: u32) {
        let told = self
            .remote_rmbs
            .at(rmb)
            .map_or(LinkSet::EMPTY, |rmb| rmb.links());
        for index in self.links_of(group) {
            let omitted = self
                .links
                .at(index)
                .is_some_and(|l| l.is_active() && !told.contains(l.position));
            if omitted {
                self.lose_link(index);
            }
        }
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
        let carrier = self.rkey_carrier(group, buffer);
        let Some(rtoken) = self.own_rtoken(buffer, carrier) else {
            return;
        };
        let mut rkeys = heapless::Vec::new();
        if rkeys.push(rtoken.rkey).is_err() {
            return;
        }
        if let Some(g) = self.groups.at_mut(group) {
            g.flow = Flow::DeleteRkey { buffer, carrier };
        }
        let message = LlcMessage::DeleteRkey(DeleteRkey {
            reply: false,
            flags: RkeyFlags::empty(),
            error_mask: 0,
            rkeys,
        });
        self.request(carrier, &message);
    }

    //= RMB-030
    //= LLC-072
    pub(super) fn on_delete_rkey_reply(&mut self, group: u32, reply: &DeleteRkey) {
        let Some(Flow::DeleteRkey { buffer, carrier }) = self.groups.at(group).map(|g| g.flow)
        else {
            return;
        };
        let own = self.own_rtoken(buffer, carrier).map(|rtoken| rtoken.rkey);
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
