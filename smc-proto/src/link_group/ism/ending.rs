//! The end of groups of SMC-D.
//!
//! ```text
//!   end_ism_groups_gracefully ─► farewell due ─┐
//!   end_ism_groups ────────────────────────────┴─► end_group: connections aborted, buffers retired
//!       the device polls the farewell, if one is due
//!           all buffers freed ─► group slot freed
//! ```

use super::super::{Fallback, LinkGroup};
use super::events::vlan_of;
use super::{IsmPeer, SmcdGroup, same_device};
use crate::command::IsmCommand;
use crate::connection::Connection;
use crate::event::CloseReason;
use crate::id::GroupIdx;
use crate::link_group::Groups;
use crate::wire::cdc_ism::Endianness;
use crate::wire::ism_event::{EventInfo, SHUTDOWN};

impl Groups<'_> {
    /// Ends a group of SMC-D gracefully: the peer is notified, unless that would end another
    /// group with it, too.
    //= D-051
    //= D-055
    pub(crate) fn end_ism_groups_gracefully(&mut self, group: GroupIdx, ism_peer: IsmPeer) {
        let active = self.data.groups.at(group).is_some_and(LinkGroup::is_active);
        let alone = !self.data.groups.indices().any(|other| {
            self.step();
            other != group
                && self.ism_peer_of(other).is_some_and(|o| {
                    o.device == ism_peer.device && same_device(o.peer, ism_peer.peer)
                })
                && self.data.groups.at(other).is_some_and(|g| !g.is_ending())
        });
        let open = self
            .data
            .groups
            .at_mut(group)
            .and_then(LinkGroup::open_smcd);
        if let Some(smcd) = open {
            smcd.set_farewell(active && alone);
        }
        self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
    }

    /// Closes the path of a group that has just ended, if it is one of SMC-D: the device polls
    /// nothing more of it but the farewell, if one is due.
    pub(crate) fn close_smcd(&mut self, group: GroupIdx) {
        let smcd = self.data.groups.at(group).and_then(LinkGroup::smcd);
        if smcd.is_some_and(SmcdGroup::is_farewell_due) {
            self.data.list_group(group);
        } else {
            self.data.unlist_group(group);
        }
    }

    /// Completes the transmit of a group that ends, if it is one of SMC-D and a device has begun to
    /// poll one. The rest of it is not sent, and nothing of it is in flight.
    pub(crate) fn complete_last_transmit(&mut self, group: GroupIdx) {
        let Some(smcd) = self.data.groups.at_mut(group).and_then(LinkGroup::smcd_mut) else {
            return;
        };
        if let Some(transmit) = smcd.transmit.take() {
            self.step();
            self.complete_transmit(&transmit, Connection::on_notify_completed);
        }
        self.schedule_group_buffers(group);
    }

    /// The message to the peer at the end of a group, if it is still to be sent.
    pub(super) fn next_farewell(&mut self, group: GroupIdx) -> Option<IsmCommand> {
        let smcd = self.data.groups.at_mut(group)?.smcd_mut()?;
        if !smcd.take_farewell() {
            return None;
        }
        let ism_peer = smcd.peer();
        self.data.unlist_group(group);
        self.try_free_group(group);
        let info = EventInfo {
            group: [0; 4],
            vlan: vlan_of(&ism_peer),
            kind: EventInfo::REQUEST,
        };
        Some(IsmCommand::SignalEvent {
            peer: ism_peer.peer,
            vlan: ism_peer.vlan,
            code: SHUTDOWN,
            info: info.bits(Endianness::NATIVE),
        })
    }
}
