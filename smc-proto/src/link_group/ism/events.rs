//! Events of ISM devices, and what they end.

use super::super::Fallback;
use super::{IsmPeer, same_device};
use crate::command::{ISM_VLAN_V2, IsmCommand};
use crate::config::MAX_DEVICES;
use crate::event::CloseReason;
use crate::id::{DeviceId, GroupIdx};
use crate::link_group::Groups;
use crate::wire::cdc_ism::Endianness;
use crate::wire::ism_event::{ANY_VLAN, EventInfo, SHUTDOWN, TEST};
use crate::wire::types::IsmGid;

/// An answer that a peer's device gets next.
pub(crate) type Answer = Option<(IsmGid, u64)>;

impl Groups<'_> {
    /// A peer sent a software event. Whatever it is not, is nothing to us.
    //= D-054
    pub(super) fn on_ism_event(&mut self, device: DeviceId, peer: IsmGid, code: u32, bits: u64) {
        let info = EventInfo::from_bits(bits, Endianness::NATIVE);
        match (code, info.kind) {
            //= D-051
            (SHUTDOWN, _) => self.end_ism_groups(|ism_peer| {
                let vlan = vlan_of(ism_peer);
                let concerned = vlan == ANY_VLAN || info.vlan == ANY_VLAN || vlan == info.vlan;
                ism_peer.device == device && same_device(ism_peer.peer, peer) && concerned
            }),
            (TEST, EventInfo::REQUEST) => {
                let response = EventInfo {
                    kind: EventInfo::RESPONSE,
                    ..info
                };
                // A peer that asks again before this left gets one answer for both.
                if let Some(answer) = self.data.core.ism_answers.get_mut(usize::from(device.0)) {
                    *answer = Some((peer, response.bits(Endianness::NATIVE)));
                }
            }
            _ => {}
        }
    }

    /// The answer that a device has to send.
    pub(super) fn next_answer(&mut self, device: DeviceId) -> Option<IsmCommand> {
        let answer = self.data.core.ism_answers.get_mut(usize::from(device.0))?;
        let (peer, info) = answer.take()?;
        Some(IsmCommand::SignalEvent {
            peer,
            vlan: None,
            code: TEST,
            info,
        })
    }

    /// Ends groups of SMC-D without notifying the peer.
    pub(super) fn end_ism_groups(&mut self, concerned: impl Fn(&IsmPeer) -> bool) {
        for group in self.data.groups.indices() {
            let ism_peer = self.ism_peer_of(group);
            if ism_peer.is_some_and(|ism_peer| concerned(&ism_peer)) {
                self.step();
                self.end_group(group, CloseReason::LinksLost, Fallback::Keep);
            }
        }
    }

    /// The peer of a group of SMC-D.
    pub(crate) fn ism_peer_of(&self, group: GroupIdx) -> Option<IsmPeer> {
        self.data.groups.at(group)?.ism_peer()
    }

    /// An ISM device is gone: whatever went through it ends.
    pub(crate) fn forget_ism_device(&mut self, device: DeviceId) {
        if usize::from(device.0) < MAX_DEVICES {
            self.end_ism_groups(|ism_peer| ism_peer.device == device);
        }
    }
}

/// How an event names the VLAN of a group. In version 2 a group has none, and Linux
/// names it by that of the TCP connection of its first contact: any is meant then.
//= D-054
pub(super) fn vlan_of(ism_peer: &IsmPeer) -> u16 {
    match ism_peer.vlan {
        Some(ISM_VLAN_V2) => ANY_VLAN,
        vlan => vlan.unwrap_or(0),
    }
}
