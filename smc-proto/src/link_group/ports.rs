//! Ports that come and go, and the links on them.

use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::{GroupIdx, Idx};
use crate::link_group::Fallback;
use crate::path::{LocalPath, PathEvent};
use crate::wire::types::{DeleteLinkReason, DiagnosisCode};

impl Engine<'_> {
    /// A change of a port or an RNIC.
    pub(crate) fn on_path(&mut self, event: PathEvent) {
        let (device, port) = match event {
            PathEvent::PortUp(path) => {
                self.on_port_up(path);
                return;
            }
            PathEvent::PortDown { device, port } => (device, Some(port)),
            PathEvent::DeviceRemoved { device } => (device, None),
        };
        if port.is_none() {
            self.forget_ism_device(device);
        }
        self.core.ports.forget(device, port);
        self.forget_paths(device, port);
        for index in self.links.indices() {
            let hit = self
                .links
                .at(index)
                .is_some_and(|l| l.path.device == device && port.is_none_or(|p| l.path.port == p));
            if hit {
                self.step();
                self.fail_link(
                    index,
                    DeleteLinkReason::LOST_PATH,
                    CloseReason::LinksLost,
                    Fallback::Decline(DiagnosisCode::LINK_READY),
                );
            }
        }
    }

    /// A new port, or one that returned: groups on its LAN that lack a link may
    /// have it (LINK-050), or the client announces that it has one (LINK-041).
    //= LINK-050
    //= LINK-041
    fn on_port_up(&mut self, path: LocalPath) {
        if !path.is_usable() {
            return;
        }
        self.core.ports.learn(path);
        for group in self.groups.indices() {
            let concerned = self
                .groups
                .at(group)
                .is_some_and(|g| g.is_active() && g.lan == path.lan);
            if concerned {
                self.step();
                if let Some(g) = self.groups.at_mut(group) {
                    g.add_wish.failures = 0;
                }
                self.try_for_link(group);
            }
        }
    }

    /// Client: announces to the server a port it could add a link with. No answer is
    /// awaited.
    //= LINK-018
    //= LINK-041
    //= LINK-045
    //= LLC-030
    pub(crate) fn hint_spare_port(&mut self, group: GroupIdx) {
        let wanted = self.groups.at(group).is_some_and(|g| g.is_active())
            && self.has_room_for_link(group)
            && self.spare_port(group, None).is_some();
        let via_link = self.link_for_llc(group, Idx::NONE);
        if wanted && let Some(link) = self.links.at_mut(via_link) {
            link.free_flowing |= super::link::FreeFlowing::ADD_LINK;
            self.schedule_link(via_link);
        }
    }
}
