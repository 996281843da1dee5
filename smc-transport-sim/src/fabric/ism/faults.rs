//! What goes wrong with ISM devices.

use smc_proto::time::Duration;
use smc_transport_ism::device::{DeviceEvent, EventKind, IsmReport};

use super::Fabric;
use crate::fabric::{HostHarm, HostId};

impl Fabric {
    /// When faults ended what ISM devices of hosts carried, and until when its engines
    /// were notified.
    #[must_use]
    pub fn harmed_ism(&self) -> &[HostHarm] {
        &self.ism.harms
    }

    /// Notes that a fault took effect which ends connections of SMC-D of a host.
    pub(super) fn note_ism_harm(&mut self, fault: usize, host: HostId) {
        let now = self.queue.now();
        self.ism.harms.push(HostHarm {
            host,
            from: now,
            until: now,
        });
        self.note_fault(fault, host);
    }

    /// Devices take in what a fault did to them. Until its engine is notified, connections
    /// are still given to what is gone already, and end with it (D-052): an event names a
    /// device, and is behind the signals that came before it.
    pub(super) fn harm_until_reported(&mut self) {
        let from = self.queue.now();
        for (host, until) in self.take_ism_reports() {
            self.ism.harms.push(HostHarm { host, from, until });
        }
    }

    /// A DMB of each device of a host stops working, as its device reports.
    pub(in crate::fabric) fn fail_dmb(&mut self, fault: usize, host: HostId) {
        self.report_events(fault, host, |device| {
            let token = device.token_of_any()?;
            Some(DeviceEvent {
                kind: EventKind::Dmb,
                token: token.0,
                peer: None,
                code: 0,
                info: 0,
            })
        });
    }

    /// The devices of a host take a peer for gone.
    pub(in crate::fabric) fn peer_vanishes(&mut self, fault: usize, host: HostId) {
        self.report_events(fault, host, |device| {
            let peer = device.any_peer()?;
            Some(DeviceEvent {
                kind: EventKind::Gid,
                token: peer.gid,
                peer: Some(peer),
                code: 0,
                info: 0,
            })
        });
    }

    fn report_events(
        &mut self,
        fault: usize,
        host: HostId,
        event: impl Fn(&super::Struck) -> Option<DeviceEvent>,
    ) {
        let Some(owner) = self.ism.hosts.get_mut(&host) else {
            return;
        };
        let mut hit = false;
        for binding in owner.bindings.values_mut() {
            if let Some(event) = event(binding.device()) {
                binding.device_mut().add(IsmReport::Event(event));
                hit = true;
            }
        }
        if hit {
            self.note_fault(fault, host);
            self.harm_until_reported();
        }
    }

    /// Signals to a host are reported late for a while.
    pub(in crate::fabric) fn late_signals(
        &mut self,
        fault: usize,
        host: HostId,
        by: Duration,
        time: Duration,
    ) {
        let until = self.queue.now().after(time);
        if let Some(owner) = self.ism.hosts.get_mut(&host) {
            for binding in owner.bindings.values_mut() {
                binding.device_mut().lag(fault, by, until);
            }
        }
    }

    /// From now on signals are reported in time.
    pub(in crate::fabric) fn signal_in_time(&mut self) {
        let now = self.queue.now();
        for owner in self.ism.hosts.values_mut() {
            for binding in owner.bindings.values_mut() {
                binding.device_mut().lag(0, Duration::ZERO, now);
            }
        }
    }

    /// All ISM devices of a host leave it.
    pub(in crate::fabric) fn remove_all_ism(&mut self, fault: usize, host: HostId) {
        for port in self.ism_devices(host).to_vec() {
            // Its peers are harmed with it.
            for peer in self.hosts() {
                if self
                    .ism_devices(peer)
                    .iter()
                    .any(|p| p.gid.chid == port.gid.chid)
                {
                    self.note_peer_harm(peer);
                }
            }
            self.note_fault(fault, host);
            self.remove_ism(host, port.device);
        }
    }

    fn note_peer_harm(&mut self, host: HostId) {
        let now = self.queue.now();
        self.ism.harms.push(HostHarm {
            host,
            from: now,
            until: now,
        });
    }
}
