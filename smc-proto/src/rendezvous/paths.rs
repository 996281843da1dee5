//! Ports that go while a rendezvous counts on them.

use super::{Handshake, Side, State};
use crate::config::Offers;
use crate::engine::Engine;
use crate::id::DeviceId;
use crate::link_group::Role;
use crate::path::{IsmPath, PathEvent};
use crate::trace::TraceEvent;
use crate::version::SmcVersion;
use crate::wire::types::DiagnosisCode;

impl Engine<'_> {
    /// A change of a port or a device.
    pub(crate) fn on_path(&mut self, event: PathEvent) {
        let (device, port) = match event {
            PathEvent::PortUp(path) => return self.groups.on_port_up(path),
            PathEvent::PortDown { device, port } => (device, Some(port)),
            PathEvent::DeviceRemoved { device } => (device, None),
        };
        self.groups.data.trace(|| {
            let event = match port {
                Some(port) => TraceEvent::PortDown { port },
                None => TraceEvent::DeviceRemoved,
            };
            (device.into(), event)
        });
        if port.is_none() {
            self.groups.forget_ism_device(device);
        }
        self.groups.data.core.ports.forget(device, port);
        self.forget_paths(device, port);
        self.groups.fail_links_at(device, port);
    }

    /// Takes ports and devices that are gone off the candidates of every rendezvous.
    /// A side that has to send and has nothing left to offer declines; a client that waits for
    /// the Accept goes on waiting (CLC-049).
    //= CLC-049
    //= RENDEZVOUS-015
    fn forget_paths(&mut self, device: DeviceId, port: Option<u8>) {
        for index in self.handshakes.indices() {
            let Some(h) = self.handshakes.at_mut(index) else {
                continue;
            };
            let (conn, before) = (h.conn, h.paths.len());
            // The Proposal named a port, which the server counts on.
            let proposed = (h.role == Role::Client && h.state != State::Proposing)
                .then(|| h.paths.first().copied())
                .flatten();
            // Not `retain`: it counts in a way that could overflow, as far as the
            // compiler knows.
            let mut left = heapless::Vec::new();
            for path in &h.paths {
                if path.device != device || port.is_some_and(|p| path.port != p) {
                    let _ = left.push(*path);
                }
            }
            h.paths = left;
            if proposed.is_some() && h.paths.first().copied() != proposed {
                h.paths.clear();
            }
            //= CLC-048
            let lost_all = match h.state {
                State::Proposing => {
                    h.withdraw_offers(port.is_none().then_some(device));
                    h.offers.is_empty()
                }
                State::Queued => h.paths.is_empty() && before > 0,
                _ => false,
            };
            self.step();
            if lost_all {
                let code = match before {
                    0 => DiagnosisCode::NO_SMCD_DEVICE,
                    _ => DiagnosisCode::NO_SMCR_DEVICE,
                };
                self.groups.unqueue(conn);
                self.decline(index, code, false);
            }
        }
    }
}

impl Handshake {
    /// Client, before its Proposal: offers only what the ports and devices that are
    /// left serve.
    //= V2-136
    fn withdraw_offers(&mut self, removed: Option<DeviceId>) {
        if let Side::Client { ism, .. } = &mut self.side {
            let mut left = heapless::Vec::new();
            for path in ism.iter().filter(|path| removed != Some(path.device)) {
                let _ = left.push(*path);
            }
            *ism = left;
        }
        let has_ism = |fits: fn(&IsmPath) -> bool| self.ism().iter().any(fits);
        let mut served = Offers::empty();
        served.set(Offers::SMCR_V1, self.path_for(SmcVersion::V1).is_some());
        served.set(Offers::SMCR_V2, self.path_for(SmcVersion::V2).is_some());
        served.set(Offers::SMCD_V1, has_ism(|path| path.pnet_match));
        served.set(Offers::SMCD_V2, has_ism(|path| path.v2));
        self.offers &= served;
    }
}
