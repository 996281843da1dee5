//! Ports that come and go, and the links on them.

use crate::event::CloseReason;
use crate::id::{DeviceId, GroupIdx, Idx};
use crate::link_group::{Fallback, Groups, LinkGroup};
use crate::path::LocalPath;
use crate::trace::TraceEvent;
use crate::wire::types::{DeleteLinkReason, DiagnosisCode};

impl Groups<'_> {
    /// A port, or a device with all of its ports, is gone: its links fail.
    pub(crate) fn fail_links_at(&mut self, device: DeviceId, port: Option<u8>) {
        for index in self.data.links.indices() {
            let hit = self
                .link(index)
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
    pub(crate) fn on_port_up(&mut self, path: LocalPath) {
        if !path.is_usable() {
            return;
        }
        let (device, port) = (path.device, path.port);
        self.data
            .trace(|| (device.into(), TraceEvent::PortUp { port }));
        self.data.core.ports.learn(path);
        for group in self.data.groups.indices() {
            let concerned = self
                .data
                .groups
                .at(group)
                .filter(|g| g.is_active())
                .and_then(LinkGroup::smcr)
                .is_some_and(|smcr| smcr.lan == path.lan);
            if concerned {
                self.step();
                if let Some(g) = self.data.groups.at_mut(group) {
                    g.add_schedule.failures = 0;
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
        let wanted = self.data.groups.at(group).is_some_and(|g| g.is_active())
            && self.has_room_for_link(group)
            && self.spare_port(group, None).is_some();
        let via_link = self.link_for_llc(group, Idx::NONE);
        if wanted && let Some(link) = self.data.links.at_mut(via_link) {
            link.free_flowing |= super::link::FreeFlowing::ADD_LINK;
            self.data.schedule_link(via_link);
        }
    }
}
