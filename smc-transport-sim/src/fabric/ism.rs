//! ISM devices: memory of one host that another writes to.
//!
//! What an [`IsmCommand`](smc_proto::command::IsmCommand) asks for takes effect when it
//! is given; control commands are answered, and signals reported, later. A signal is
//! reported once however many there were since the last report, with the head of the
//! DMB as it is then. Octets cross by bounds that are checked in 64 bits.

mod door;
mod memory;

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

use smc_proto::completion::IsmCompletion;
use smc_proto::id::{BufferId, DeviceId};
use smc_proto::time::Duration;
use smc_proto::wire::types::{DmbToken, IsmGid};

use super::event::Event;
use super::{BufferKey, Fabric, HostId, HostNews};

/// An ISM device of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct IsmConfig {
    /// The device.
    pub device: DeviceId,
    /// How peers name it; devices of one channel reach each other.
    pub gid: IsmGid,
    /// Whether DMBs of peers can be mapped, so that data is written in place.
    pub attaches: bool,
    /// Most DMBs it registers at a time.
    pub most_dmbs: usize,
    /// From a signal to its report.
    pub signal_latency: Duration,
}

impl IsmConfig {
    /// A device that maps, with room for 1888 DMBs, as a real one has.
    #[must_use]
    pub const fn new(device: DeviceId, gid: IsmGid) -> Self {
        Self {
            device,
            gid,
            attaches: true,
            most_dmbs: 1888,
            signal_latency: Duration::from_micros(2),
        }
    }
}

/// What a host has of ISM.
#[derive(Clone, Debug, Default)]
pub(super) struct IsmHost {
    ports: Vec<IsmConfig>,
    dmbs: BTreeMap<BufferKey, Dmb>,
    attached: BTreeMap<BufferKey, Attachment>,
    reports: VecDeque<IsmCompletion>,
}

#[derive(Clone, Copy, Debug, Hash)]
struct Dmb {
    device: DeviceId,
    buffer: BufferId,
    /// Who may write to it.
    peer: IsmGid,
    token: DmbToken,
    length: u32,
    /// A report of a signal is on its way.
    signalled: bool,
}

#[derive(Clone, Copy, Debug, Hash)]
struct Attachment {
    device: DeviceId,
    owner: HostId,
    dmb: BufferKey,
    mapped: bool,
}

impl IsmHost {
    /// Whether there is something to report.
    pub(super) fn wants_attention(&self) -> bool {
        !self.reports.is_empty()
    }

    /// Forgets everything but the devices themselves.
    pub(super) fn restart(&mut self) {
        *self = Self {
            ports: std::mem::take(&mut self.ports),
            ..Self::default()
        };
    }

    pub(super) fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        (&self.ports, &self.dmbs, &self.attached).hash(hasher);
        self.reports.hash(hasher);
    }
}

/// Whether two names are those of one device; version 1 does not tell the channel.
fn same_gid(a: IsmGid, b: IsmGid) -> bool {
    (a.gid, a.gid_ext) == (b.gid, b.gid_ext)
}

impl Fabric {
    /// Gives a host an ISM device.
    pub fn add_ism(&mut self, host: HostId, config: IsmConfig) {
        if let Some(host) = self.hosts.get_mut(usize::from(host.0)) {
            host.ism.ports.push(config);
        }
    }

    /// ISM devices of a host.
    #[must_use]
    pub fn ism_devices(&self, host: HostId) -> &[IsmConfig] {
        self.hosts
            .get(usize::from(host.0))
            .map_or(&[], |host| &host.ism.ports)
    }

    /// Changes the properties of a device.
    pub fn set_ism(&mut self, host: HostId, config: IsmConfig) {
        let host = self.hosts.get_mut(usize::from(host.0));
        let known = host.and_then(|host| {
            host.ism
                .ports
                .iter_mut()
                .find(|port| port.device == config.device)
        });
        if let Some(known) = known {
            *known = config;
        }
    }

    /// Takes an ISM device out of its host: its DMBs are gone, its host is told, and so
    /// is everybody who could reach it.
    pub fn remove_ism(&mut self, host: HostId, device: DeviceId) {
        let Some(owner) = self.hosts.get_mut(usize::from(host.0)) else {
            return;
        };
        let Some(index) = owner.ism.ports.iter().position(|p| p.device == device) else {
            return;
        };
        let gone = owner.ism.ports.remove(index).gid;
        owner.ism.dmbs.retain(|_, dmb| dmb.device != device);
        owner.ism.attached.retain(|_, at| at.device != device);
        self.tell(host, HostNews::DeviceRemoved { device });
        self.ism_vanished(gone);
    }

    /// A host crashed, and all it had of ISM is gone: the others are told.
    pub(super) fn ism_crashed(&mut self, host: HostId) {
        for port in self.ism_devices(host).to_vec() {
            self.ism_vanished(port.gid);
        }
    }

    fn ism_vanished(&mut self, gone: IsmGid) {
        let peers: Vec<_> = self.reached_from(gone).collect();
        for (peer, config) in peers {
            let report = IsmCompletion::PeerVanished {
                device: config.device,
                peer: gone,
            };
            self.ism_report_at(config.signal_latency, peer, report);
        }
    }

    /// The device that a host's device reaches under this GID.
    #[must_use]
    pub fn ism_reach(&self, from: IsmGid, to: IsmGid) -> Option<(HostId, IsmConfig)> {
        self.reached_from(from)
            .find(|(_, port)| same_gid(port.gid, to))
    }

    fn reached_from(&self, gid: IsmGid) -> impl Iterator<Item = (HostId, IsmConfig)> + '_ {
        self.hosts().flat_map(move |host| {
            let ports = self.ism_devices(host).iter();
            ports
                .filter(move |port| port.gid.chid == gid.chid)
                .map(move |port| (host, *port))
        })
    }

    /// What a host's ISM devices report next.
    pub fn next_ism_completion(&mut self, host: HostId) -> Option<IsmCompletion> {
        let owner = self.hosts.get_mut(usize::from(host.0))?;
        owner.ism.reports.pop_front()
    }

    /// DMBs and attachments of a host: all 0 after it gave everything back.
    #[must_use]
    pub fn ism_in_use(&self, host: HostId) -> [usize; 2] {
        self.hosts
            .get(usize::from(host.0))
            .map_or([0; 2], |h| [h.ism.dmbs.len(), h.ism.attached.len()])
    }

    /// Schedules a report, for the present instance of the host only.
    fn ism_report_at(&mut self, after: Duration, host: HostId, report: IsmCompletion) {
        let life = self.hosts.get(usize::from(host.0)).map_or(0, |h| h.life);
        let event = Event::IsmReport { host, life, report };
        self.queue.schedule_after(after, event);
    }

    /// A report becomes visible; that of a signal shows the head as it is now.
    pub(super) fn ism_reported(&mut self, host: HostId, life: u32, mut report: IsmCompletion) {
        let Some(owner) = self.hosts.get_mut(usize::from(host.0)) else {
            return;
        };
        if owner.life != life {
            return;
        }
        if let IsmCompletion::Signalled { buffer, cdc } = &mut report {
            let Some(dmb) = owner.ism.dmbs.get_mut(&(*buffer).into()) else {
                return;
            };
            dmb.signalled = false;
            *cdc = owner.memory.head((*buffer).into());
        }
        owner.ism.reports.push_back(report);
    }
}
