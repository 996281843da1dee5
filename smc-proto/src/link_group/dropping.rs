//! The last of a link: it leaves its group, and its slot becomes free.

use super::link_state::LinkNotified;
use super::{Flow, LinkGroup, QpGoal};
use crate::id::{GroupIdx, Idx, LinkIdx, RemoteRmbIdx};
use crate::link_group::Groups;
use crate::trace::TraceEvent;

impl Groups<'_> {
    /// Notes the end of a link for the application and frees its slot when
    /// nothing needs it any more.
    pub(crate) fn drop_absent_link(&mut self, link: LinkIdx) {
        let Some(l) = self.link(link) else {
            return;
        };
        let gone = l.state == super::QpState::Absent
            && l.goal == QpGoal::Gone
            && l.pending.is_none()
            && !l.is_unagreed();
        if !gone {
            return;
        }
        self.leave_links(link);
        match self.link(link).map(|l| l.notified) {
            Some(LinkNotified::Up) => self
                .data
                .core
                .link_events
                .push_back(&mut self.data.links, link),
            Some(LinkNotified::Nothing) => {
                self.trace_freed(link);
                self.data.links.remove(link);
            }
            // `LinkUp` first; then `LinkDown` follows.
            _ => {}
        }
    }

    /// The event of the end of a link.
    #[inline(always)]
    pub(crate) fn trace_freed(&mut self, link: LinkIdx) {
        if self.data.tap.is_on()
            && let Some(group) = self.link(link).map(|l| l.group)
        {
            let group = self.group_id(group);
            self.trace_link(link, || TraceEvent::LinkFreed { group });
        }
    }

    /// Takes a link out of its group, and its RTokens with it.
    fn leave_links(&mut self, link: LinkIdx) {
        self.unhash_link(link);
        let remembered = self.remember_link(link);
        let Some(l) = self.link(link) else {
            return;
        };
        let (group, position) = (l.group, l.position);
        let port = l.peer.map(|peer| (peer.gid, peer.mac));
        self.data.unlist_link(link);
        self.set_link_deadline(link, None);
        if let Some(smcr) = self.data.groups.at_mut(group).and_then(LinkGroup::smcr_mut) {
            smcr.other_port = port.or(smcr.other_port);
        }
        let member = self
            .data
            .groups
            .at_mut(group)
            .and_then(|g| g.links.get_mut(usize::from(position)))
            .filter(|slot| **slot == link);
        if let Some(slot) = member {
            *slot = Idx::NONE;
            self.leave_exchange(group, position);
            self.each_buffer(group, |groups, index| {
                if let Some(buffer) = groups.buffers.at_mut(index) {
                    buffer.forget_registration(position);
                }
            });
            self.forget_rtokens(group, position, remembered);
        }
        self.try_free_group(group);
    }

    /// The exchange about an RMB that is in flight is not about a link any more: another
    /// one may take its position before the answer comes.
    //= LLC-066
    fn leave_exchange(&mut self, group: GroupIdx, position: u8) {
        if let Some(g) = self.data.groups.at_mut(group)
            && let Flow::ConfirmRkey { links, left, .. } = &mut g.flow
        {
            links.remove(position);
            left.remove(position);
        }
    }

    /// Forgets what the peer announced of its RMBs on a link that is gone; with `keep`
    /// only of those that no link reaches any more. What is kept is forgotten when
    /// another link takes the position.
    pub(super) fn forget_rtokens(&mut self, group: GroupIdx, position: u8, keep: bool) {
        let Some(list) = self.data.groups.at(group).map(|g| g.remote_rmbs) else {
            return;
        };
        let mut next = list.first();
        while let Some(index) = next {
            self.step();
            next = list.next(&mut self.remote_rmbs, index);
            let reachable = self.is_reachable(group, index);
            let Some(rmb) = self.remote_rmbs.at_mut(index) else {
                continue;
            };
            if keep && reachable {
                continue;
            }
            rmb.forget_link(position);
            // No connection can write to it, and no message could name it to delete it.
            if !reachable && rmb.elements().is_empty() {
                self.remove_remote_rmb(group, index);
            }
        }
    }

    /// Whether an RMB of the peer is known on a link that the group has.
    pub(super) fn is_reachable(&self, group: GroupIdx, rmb: RemoteRmbIdx) -> bool {
        let known = self.remote_rmbs.at(rmb).map(super::RemoteRmb::links);
        self.select_links(group, |_| true)
            .any(|(_, link)| known.is_some_and(|links| links.contains(link.position)))
    }
}
