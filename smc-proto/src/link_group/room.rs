//! Room for one more RMB in a group that has as many as it may (RMB-001).
//!
//! A group that once carried 255 connections may have 255 RMBs, most of them spare.
//! A connection that needs another size has one withdrawn, and waits for the place:
//!
//! ```text
//!   connection without RMB ── DELETE RKEY of a spare RMB ── freed ── new RMB
//! ```

use super::{Agreement, Memory};
use crate::command::BufferKind;
use crate::config::RMBS_PER_GROUP;
use crate::connection_record::Phase;
use crate::id::{GroupIdx, Idx};
use crate::link_group::Groups;
use crate::wire::types::BufferSize;

/// Whether a connection got a buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Acquired {
    /// The connection has a buffer.
    Yes,
    /// The rendezvous is woken when it should ask again.
    Later,
    /// The tables or the group are full.
    No,
}

impl Groups<'_> {
    /// Whether a group has as many RMBs as it may.
    pub(super) fn is_full_of_rmbs(&self, group: GroupIdx) -> bool {
        self.data
            .groups
            .at(group)
            .is_some_and(|g| g.ism_peer().is_none() && g.rmb_count >= RMBS_PER_GROUP)
    }

    /// Makes room for an RMB of this size in a group that is full of them: waits for
    /// one that is on its way back or out, else withdraws one that is unused.
    //= RMB-006
    //= RMB-028
    pub(super) fn make_room(&mut self, group: GroupIdx, size: BufferSize) -> Acquired {
        let mut coming = false;
        let mut victim = Idx::NONE;
        self.each_buffer(group, |groups, index| {
            let Some(b) = groups.buffers.at(index) else {
                return;
            };
            if b.kind != BufferKind::Rmb || b.users > 0 {
                return;
            }
            let leaves = b.retired || b.agreement == Agreement::Deleting;
            let announced = b.agreement == Agreement::Confirmed && b.memory == Memory::Present;
            coming |= leaves || b.size == size || !announced;
            if announced && !leaves {
                victim = index;
            }
        });
        if !coming {
            if victim.is_none() {
                return Acquired::No;
            }
            self.withdraw_rmb(victim);
        }
        if let Some(g) = self.data.groups.at_mut(group) {
            g.rmb_awaited = true;
        }
        Acquired::Later
    }

    /// An RMB of a group is spare, or gone, or who waited for one does not any more:
    /// the first one that waits may ask again. When it has its RMB, next comes
    /// the next.
    pub(crate) fn wake_for_rmb(&mut self, group: GroupIdx) {
        if !self.data.groups.at(group).is_some_and(|g| g.rmb_awaited) {
            return;
        }
        let waits = |groups: &mut Self, conn| {
            groups.conn(conn).is_some_and(|record| {
                matches!(record.phase, Phase::Rendezvous(_)) && record.rmb.buffer.is_none()
            })
        };
        if let Some(conn) = self.find_member(group, waits) {
            self.data.wake(conn);
        } else if let Some(g) = self.data.groups.at_mut(group) {
            g.rmb_awaited = false;
        }
    }
}
