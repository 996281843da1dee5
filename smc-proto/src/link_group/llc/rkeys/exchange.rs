//! The exchange that announces an own RMB: CONFIRM RKEY and its CONTINUATIONs.

use super::super::super::{Agreement, Link, LinkSet};
use super::super::Flow;
use crate::id::{BufferIdx, GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;
use crate::wire::llc::{ConfirmRkey, ConfirmRkeyContinuation, LinkRToken, LlcMessage, RkeyFlags};
use crate::wire::types::{BoundedList, RToken};

impl Groups<'_> {
    /// Starts what is to be agreed on about an RMB; nothing, if there is nothing to
    /// say or no link to say it on.
    pub(in super::super) fn start_rkey_flow(&mut self, group: GroupIdx, buffer: BufferIdx) {
        match self.buffers.at(buffer).map(|b| b.agreement) {
            Some(Agreement::Confirming | Agreement::Confirmed) => {
                self.send_confirm_rkey(group, buffer, 0);
            }
            Some(Agreement::Deleting) => self.send_delete_rkey(group, buffer),
            _ => {}
        }
    }

    /// An own RMB as known on a link.
    pub(super) fn own_rtoken(&self, buffer: BufferIdx, link: LinkIdx) -> Option<RToken> {
        let position = self.link(link)?.position;
        self.buffers.at(buffer)?.rtoken(position)
    }

    /// The link of the connection that will use an RMB first, or any other. Of an
    /// RMB that the peer knows is announced by the key it knows, or it would be taken
    /// for another one.
    //= LLC-059
    pub(super) fn link_for_rkey(&self, group: GroupIdx, buffer: BufferIdx) -> LinkIdx {
        let Some(b) = self.buffers.at(buffer) else {
            return Idx::NONE;
        };
        let link = self.conn(b.waiter).map_or(Idx::NONE, |r| r.link);
        let fits = |l: &Link| {
            l.is_active()
                && l.is_usable()
                && (!b.is_announced() || b.announced.contains(l.position))
        };
        if self.link(link).is_some_and(fits) {
            return link;
        }
        self.select_links(group, fits)
            .next()
            .map_or(Idx::NONE, |(index, _)| index)
    }

    /// Entries for up to `N` links of a set, which they are taken from.
    fn rtokens_for<const N: usize>(
        &self,
        group: GroupIdx,
        buffer: BufferIdx,
        left: &mut LinkSet,
    ) -> BoundedList<LinkRToken, N> {
        let mut entries = BoundedList::new();
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
    pub(in super::super) fn retry_confirm_rkey(
        &mut self,
        group: GroupIdx,
        buffer: BufferIdx,
        attempts: u8,
    ) {
        //= LLCSER-017
        if self.addition(group).is_idle() {
            if let Some(g) = self.data.groups.at_mut(group) {
                g.flow = Flow::Idle;
            }
            self.send_confirm_rkey(group, buffer, attempts);
            self.start_flow(group);
            return;
        }
        let until = self.now().after(self.data.core.config.timeouts.rkey_retry);
        if let Some(g) = self.data.groups.at_mut(group) {
            g.flow_deadline = Some(until);
        }
        self.arm_group(group);
    }

    /// Writes CONFIRM RKEY anew, from the beginning, if the message that is to be posted next
    /// may name a link that leaves: the deletion may be agreed on before it is posted.
    //= LLC-066
    pub(in super::super::super) fn rewrite_announcement(
        &mut self,
        group: GroupIdx,
        leaves: LinkIdx,
    ) {
        let Some(Flow::ConfirmRkey {
            buffer,
            attempts,
            via_link,
            links,
            ..
        }) = self.data.groups.at(group).map(|g| g.flow)
        else {
            return;
        };
        let active = self.active_links(group);
        let named = self
            .link(leaves)
            .is_some_and(|l| links.contains(l.position));
        let waits = self.link(via_link).is_some_and(|l| l.request.is_some());
        let sendable = self
            .buffers
            .at(buffer)
            .is_some_and(|b| b.is_registered_on(active))
            && self.link_for_rkey(group, buffer).is_some();
        if via_link == leaves || !named || !waits || !sendable {
            return;
        }
        if let Some(l) = self.data.links.at_mut(via_link) {
            l.request = None;
        }
        self.send_confirm_rkey(group, buffer, attempts);
    }

    //= LLC-059
    //= LLC-060
    pub(in super::super) fn send_confirm_rkey(
        &mut self,
        group: GroupIdx,
        buffer: BufferIdx,
        attempts: u8,
    ) {
        let links = self.active_links(group);
        let Some(b) = self.buffers.at_mut(buffer) else {
            return;
        };
        if !b.is_registered_on(links) {
            // A link that is left out counts as lost (LLC-069). Once the RMB is
            // registered on all, it is announced.
            if b.agreement == Agreement::Confirming {
                b.agreement = Agreement::None;
                self.schedule_buffer(buffer);
            }
            return;
        }
        let via_link = self.link_for_rkey(group, buffer);
        let Some(rtoken) = self.own_rtoken(buffer, via_link) else {
            // Every link that it is known on has failed. Once nothing is in flight on
            // these it is announced as a new one.
            return;
        };
        //= LLC-066
        let mut left = links;
        if let Some(l) = self.link(via_link) {
            left.remove(l.position);
        }
        //= V2-189
        let other_links = left.len();
        let others = self.rtokens_for(group, buffer, &mut left);
        if let Some(g) = self.data.groups.at_mut(group) {
            g.flow = Flow::ConfirmRkey {
                buffer,
                attempts,
                via_link,
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
        self.request(via_link, &message);
    }

    pub(in super::super) fn on_confirm_rkey_reply(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        reply: &ConfirmRkey,
    ) {
        let Some(Flow::ConfirmRkey {
            buffer, via_link, ..
        }) = self.data.groups.at(group).map(|g| g.flow)
        else {
            return;
        };
        //= V2-190
        if link == via_link && self.own_rtoken(buffer, via_link) == Some(reply.rtoken) {
            self.on_rkey_answer(group, reply.flags);
        }
    }

    //= LLC-065
    pub(in super::super) fn on_confirm_rkey_continuation_reply(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        reply: &ConfirmRkeyContinuation,
    ) {
        if self
            .data
            .groups
            .at(group)
            .is_some_and(|g| g.flow.via_link() == link)
        {
            self.on_rkey_answer(group, reply.flags);
        }
    }

    /// The peer took what was announced so far, or refuses all of it.
    fn on_rkey_answer(&mut self, group: GroupIdx, flags: RkeyFlags) {
        let Some(Flow::ConfirmRkey {
            buffer,
            attempts,
            via_link,
            links,
            mut left,
        }) = self.data.groups.at(group).map(|g| g.flow)
        else {
            return;
        };
        if !flags.contains(RkeyFlags::NEGATIVE) && !left.is_empty() {
            //= LLC-061
            //= LLC-062
            let remaining = left.len();
            let others = self.rtokens_for(group, buffer, &mut left);
            if let Some(g) = self.data.groups.at_mut(group) {
                g.flow = Flow::ConfirmRkey {
                    buffer,
                    attempts,
                    via_link,
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
            self.request(via_link, &message);
        } else if !flags.contains(RkeyFlags::NEGATIVE) {
            if let Some(b) = self.buffers.at_mut(buffer) {
                b.announced = b.announced.or(links);
            }
            self.conclude_agreement(buffer, Agreement::Confirmed);
            self.announce_missing_links(group);
            self.end_flow(group);
        } else if flags.contains(RkeyFlags::RETRY) && attempts < self.data.core.config.rkey_retries
        {
            //= LLC-064
            //= LLC-067
            let until = self.now().after(self.data.core.config.timeouts.rkey_retry);
            if let Some(g) = self.data.groups.at_mut(group) {
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
    fn give_up_announcing(&mut self, buffer: BufferIdx) {
        let Some(b) = self.buffers.at_mut(buffer) else {
            return;
        };
        if b.is_announced() {
            let group = b.group;
            self.conclude_agreement(buffer, Agreement::Confirmed);
            //= RENDEZVOUS-056
            self.each_member(group, |groups, conn| {
                groups.mark_unwanted(conn, buffer);
            });
            return;
        }
        b.retired = true;
        self.conclude_agreement(buffer, Agreement::None);
        self.schedule_buffer(buffer);
    }

    fn conclude_agreement(&mut self, buffer: BufferIdx, agreement: Agreement) {
        let Some(b) = self.buffers.at_mut(buffer) else {
            return;
        };
        let group = b.group;
        b.agreement = agreement;
        let waiter = core::mem::replace(&mut b.waiter, Idx::NONE);
        if waiter.is_some() {
            self.data.wake(waiter);
        } else {
            // It was given out before, and became incomplete: any number may wait.
            self.wake_rendezvous(group);
        }
        self.list_spare(buffer);
    }
}
