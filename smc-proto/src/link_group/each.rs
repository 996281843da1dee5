//! Walks over what belongs to a group.

use crate::id::{BufferIdx, ConnIdx, GroupIdx};
use crate::link_group::Groups;

impl Groups<'_> {
    /// Does something with every connection of a group; it may take that one out.
    pub(crate) fn each_member(&mut self, group: GroupIdx, mut act: impl FnMut(&mut Self, ConnIdx)) {
        self.find_member(group, |groups, conn| {
            act(groups, conn);
            false
        });
    }

    /// The first connection of a group of which this holds; asking may take that one out.
    pub(crate) fn find_member(
        &mut self,
        group: GroupIdx,
        mut holds: impl FnMut(&mut Self, ConnIdx) -> bool,
    ) -> Option<ConnIdx> {
        let members = self.data.groups.at(group)?.members;
        let mut next = members.first();
        while let Some(conn) = next {
            self.step();
            next = members.next(&mut self.data.connections, conn);
            if holds(self, conn) {
                return Some(conn);
            }
        }
        None
    }

    /// Does something with every buffer of a group; it may take that one away.
    pub(crate) fn each_buffer(
        &mut self,
        group: GroupIdx,
        mut act: impl FnMut(&mut Self, BufferIdx),
    ) {
        let Some(list) = self.data.groups.at(group).map(|g| g.buffers) else {
            return;
        };
        let mut next = list.first();
        while let Some(index) = next {
            self.step();
            next = list.next(&mut self.buffers, index);
            act(self, index);
        }
    }
}
