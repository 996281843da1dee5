//! CONFIRM RKEY and DELETE RKEY: which RMBs the other side may write to.

mod exchange;
mod peer;
mod withdrawing;

use super::super::{Agreement, LinkSet, QpGoal};
use crate::command::BufferKind;
use crate::id::{BufferIdx, GroupIdx, Idx};
use crate::link_group::Groups;

impl Groups<'_> {
    /// An RMB got its registration: announce it, unless Accept or Confirm does.
    //= LLC-058
    pub(crate) fn announce_rmb(&mut self, group: GroupIdx, buffer: BufferIdx) {
        let active = self.active_links(group);
        let Some(b) = self.buffers.at_mut(buffer) else {
            return;
        };
        if b.kind != BufferKind::Rmb || b.retired || !b.is_registered_on(active) {
            return;
        }
        if b.agreement != Agreement::None {
            return;
        }
        let forming = self.data.groups.at(group).is_some_and(|g| !g.is_active());
        if forming {
            // The first RMB of a group is announced by the CLC messages.
            return;
        }
        b.agreement = Agreement::Confirming;
        self.queue_agreement(group, buffer);
    }

    /// A new RMB, which a connection waits for, goes before old ones.
    pub(super) fn queue_agreement(&mut self, group: GroupIdx, buffer: BufferIdx) {
        let waited_for = self
            .buffers
            .at(buffer)
            .is_some_and(|b| b.agreement == Agreement::Confirming);
        if let Some(g) = self.data.groups.at_mut(group) {
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
    pub(super) fn confirm_founders_rmb(&mut self, group: GroupIdx) {
        let Some(g) = self.data.groups.at(group) else {
            return;
        };
        let (founder, first) = (g.founder, g.first_link());
        let index = self
            .conn(founder)
            .map_or(Idx::NONE, |record| record.rmb.buffer);
        let position = self.link(first).map_or(0, |l| l.position);
        if let Some(buffer) = self.buffers.at_mut(index) {
            buffer.waiter = Idx::NONE;
            buffer.agreement = Agreement::Confirmed;
            buffer.announced.insert(position);
        }
        self.list_spare(index);
    }

    /// The group is formed: RMBs of connections that joined meanwhile are
    /// announced now.
    pub(super) fn announce_first_rmbs(&mut self, group: GroupIdx) {
        self.each_buffer(group, |groups, index| {
            groups.announce_rmb(group, index);
        });
    }

    /// RMBs that were agreed on while a link was being added may lack it.
    //= RMB-010
    pub(super) fn announce_missing_links(&mut self, group: GroupIdx) {
        let active = self.active_links(group);
        self.each_buffer(group, |groups, index| {
            let missing = groups
                .buffers
                .at(index)
                .is_some_and(|b| b.agreement == Agreement::Confirmed && !b.is_announced_on(active));
            if missing && let Some(g) = groups.data.groups.at_mut(group) {
                g.agreements.push_back(&mut groups.buffers, index);
                groups.list_spare(index);
            }
        });
    }

    /// No byte of a link is in flight any more: RMBs that the peer knows on no other link
    /// are out of its reach, as they were announced while the others were being added.
    /// Connections that it still writes to end; what is left of the RMBs is announced
    /// anew, as nothing shows the peer which ones they were.
    //= RMB-009
    //= RMB-010
    //= FAILOVER-025
    pub(in super::super) fn announce_lost_rmbs(&mut self, group: GroupIdx) {
        let mut alive = LinkSet::EMPTY;
        for (_, link) in self.select_links(group, |l| l.is_known() && l.goal != QpGoal::Gone) {
            alive.insert(link.position);
        }
        let mut any = false;
        self.each_buffer(group, |groups, index| {
            if let Some(b) = groups.buffers.at_mut(index)
                && b.ism.is_none()
                && b.kind == BufferKind::Rmb
                && b.agreement == Agreement::Confirmed
                && b.announced.and(alive).is_empty()
            {
                b.agreement = Agreement::None;
                b.announced = LinkSet::EMPTY;
                any = true;
                groups.list_spare(index);
            }
        });
        if !any {
            return;
        }
        self.each_member(group, Self::end_if_rmb_unknown);
        self.each_buffer(group, |groups, index| {
            if groups
                .buffers
                .at(index)
                .is_some_and(|b| !b.registered().is_empty())
            {
                groups.announce_rmb(group, index);
                groups.schedule_buffer(index);
            }
        });
    }
}
