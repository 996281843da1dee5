//! The last of a link: it leaves its group, and its slot becomes free.

use super::QpGoal;
use super::standing::LinkTold;
use crate::engine::Engine;
use crate::id::NONE;

impl Engine<'_> {
    /// Notes the end of a link for the application and frees its slot when
    /// nothing needs it any more.
    pub(crate) fn drop_absent_link(&mut self, link: u32) {
        let Some(l) = self.links.at(link) else {
            return;
        };
        let gone = l.state == super::QpState::Absent
            && l.goal == QpGoal::Gone
            && l.under_way.is_none()
            && !l.is_unsettled();
        if !gone {
            return;
        }
        self.leave_links(link);
        match self.links.at(link).map(|l| l.told) {
            Some(LinkTold::Up) => self.core.link_events.push_back(&mut self.links, link),
            Some(LinkTold::Nothing) => {
                self.links.remove(link);
            }
            // `LinkUp` first; then `LinkDown` follows.
            _ => {}
        }
    }

    /// Takes a link out of its group, and its RTokens with it.
    fn leave_links(&mut self, link: u32) {
        self.unhash_link(link);
        let Some(l) = self.links.at(link) else { return };
        let (group, position, device) = (l.group, l.position, usize::from(l.path.device.0));
        if let Some(device) = self.core.devices.get_mut(device) {
            device.links.remove(&mut self.links, link);
        }
        self.links.set_deadline(link, None);
        let member = self
            .groups
            .at_mut(group)
            .and_then(|g| g.links.get_mut(usize::from(position)))
            .filter(|slot| **slot == link);
        if let Some(slot) = member {
            *slot = NONE;
            self.forget_link_of_rmbs(group, position);
        }
        self.try_free_group(group);
    }

    fn forget_link_of_rmbs(&mut self, group: u32, position: u8) {
        let Some(remote) = self.groups.at(group).map(|g| g.remote_rmbs) else {
            return;
        };
        self.each_buffer(group, |engine, index| {
            if let Some(buffer) = engine.buffers.at_mut(index) {
                buffer.forget_registration(position);
            }
        });
        let mut next = remote.first();
        while let Some(index) = next {
            self.step();
            next = remote.next(&mut self.remote_rmbs, index);
            let Some(rmb) = self.remote_rmbs.at_mut(index) else {
                continue;
            };
            rmb.forget_link(position);
            // Nobody can write to it, and nobody could name it to delete it.
            if rmb.links().is_empty() && rmb.elements().is_empty() {
                self.remove_remote_rmb(group, index);
            }
        }
    }
}
