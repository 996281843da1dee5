//! Groups of SMC-D: found, founded, and filled.

use super::super::allocation::created;
use super::super::matching::bucket_of;
use super::super::{Formation, GroupKind, GroupState, LinkGroup, Role};
use super::{IsmPeer, SmcdGroup};
use crate::id::GroupIdx;
use crate::link_group::Groups;
use crate::version::Terms;
use crate::wire::types::DiagnosisCode;

impl Groups<'_> {
    /// The group of a path, one that carries connections rather than one that is being
    /// formed. Who founded it does not matter.
    //= D-034
    //= D-035
    pub(crate) fn find_ism_group(&mut self, ism_peer: IsmPeer) -> Option<GroupIdx> {
        let list = *self.data.core.joinable.get(ism_peer.bucket())?;
        let mut forming = None;
        let mut next = list.first();
        while let Some(index) = next {
            self.step();
            if let Some(g) = self.data.groups.at(index)
                && g.ism_peer() == Some(ism_peer)
            {
                if g.is_active() {
                    return Some(index);
                }
                forming = forming.or(Some(index));
            }
            next = list.next(&mut self.data.groups, index);
        }
        forming
    }

    /// A new group of SMC-D, to be formed by a first contact.
    pub(crate) fn new_ism_group(
        &mut self,
        role: Role,
        ism_peer: IsmPeer,
        terms: Terms,
    ) -> Option<GroupIdx> {
        let kind = GroupKind::SmcD(SmcdGroup::new(ism_peer));
        let mut group = LinkGroup::new(kind, role, ism_peer.vlan, terms, Formation::Preparing);
        group.ring_base = 0;
        group.decline = Some(DiagnosisCode::LINK_READY);
        let (group, _) = self.data.groups.insert(group)?;
        self.trace_group(group, || created(role, terms));
        self.offer_group(group);
        Some(group)
    }

    /// The first contact of a group of SMC-D is over: there is nothing to be confirmed.
    //= D-035
    pub(crate) fn ism_group_formed(&mut self, group: GroupIdx) {
        let forming = self
            .data
            .groups
            .at(group)
            .is_some_and(|g| matches!(g.state, GroupState::Forming(_)));
        if forming {
            self.activate_group(group);
        }
    }
}

impl IsmPeer {
    /// The bucket of its groups.
    pub(super) fn bucket(&self) -> usize {
        bucket_of(self.peer.gid ^ self.peer.gid_ext)
    }
}
