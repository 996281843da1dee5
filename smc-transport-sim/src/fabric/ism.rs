//! ISM devices: memory of one host that another writes to.
//!
//! ```text
//!   engine ── IsmCommand ──► door ──► Binding ──► Struck ──► in-process device
//!          ◄─ IsmCompletion ─ reports ◄── Binding ◄── Struck ◄── (its machine)
//! ```
//!
//! The devices are those that programs embed, [`smc_transport_ism::in_process`]: a machine
//! for each channel. Around each is [`Struck`], which refuses what a fault strikes and
//! lets reports take their time. What a command asks for takes effect when it is given;
//! control commands are answered, and signals reported, later. A signal is reported once
//! however many there were since the last report, with the head of the DMB as it is then.

mod door;
mod faults;
mod memory;
mod struck;

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};

use smc_proto::completion::IsmCompletion;
use smc_proto::id::{BufferId, ConnId, DeviceId};
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::cdc_ism::{CdcIsm, Endianness};
use smc_proto::wire::types::{Chid, IsmGid};
use smc_transport_ism::binding::Binding;
use smc_transport_ism::device::{Cdc, Gid128, IsmDevice};
use smc_transport_ism::in_process::{Device, Machine};

use super::event::Event;
use super::watch::RECENT;
use super::{Fabric, HostEvent, HostHarm, HostId};
use crate::fault::Phase;
use struck::{PendingReport, Struck};

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

/// All ISM devices, by their hosts, and the machines that join them.
#[derive(Debug, Default)]
pub(super) struct Ism {
    /// One for each channel.
    machines: BTreeMap<Chid, Machine>,
    hosts: BTreeMap<HostId, IsmHost>,
    harms: Vec<HostHarm>,
}

/// What a host has of ISM.
#[derive(Debug, Default)]
struct IsmHost {
    /// ISM devices in the host.
    ports: Vec<IsmConfig>,
    /// ISM devices in the host, and what the engine has yet to give back of others.
    bindings: BTreeMap<DeviceId, Binding<Struck>>,
    reports: VecDeque<IsmCompletion>,
    /// Until when bytes, or the end of a connection, count as being in flight.
    data: Instant,
    closing: Instant,
}

const fn gid_of(name: IsmGid) -> Gid128 {
    Gid128 {
        gid: name.gid,
        ext: name.gid_ext,
    }
}

impl Clone for Ism {
    /// Another world in the same state: the machines are copied, and every device is
    /// bound to its copy.
    fn clone(&self) -> Self {
        let mut copies: BTreeMap<(Chid, Gid128), Device> = BTreeMap::new();
        let mut machines = BTreeMap::new();
        for (chid, machine) in &self.machines {
            let (machine, devices) = machine.fork();
            machines.insert(*chid, machine);
            let named = devices
                .into_iter()
                .map(|one| ((*chid, one.facts().gid), one));
            copies.extend(named);
        }
        let mut copy = |of: &Struck| of.fork(|name| copies.remove(&(name.chid, gid_of(name))));
        let hosts = self.hosts.iter().map(|(id, host)| {
            let bindings = host.bindings.iter();
            let host = IsmHost {
                ports: host.ports.clone(),
                bindings: bindings
                    .map(|(id, binding)| (*id, binding.fork(&mut copy)))
                    .collect(),
                reports: host.reports.clone(),
                ..*host
            };
            (*id, host)
        });
        let hosts = hosts.collect();
        Self {
            machines,
            hosts,
            harms: self.harms.clone(),
        }
    }
}

impl Ism {
    /// Whether there is something to report.
    pub(super) fn wants_attention(&self) -> bool {
        self.hosts.values().any(|host| !host.reports.is_empty())
    }

    pub(super) fn fingerprint<H: Hasher>(&self, hasher: &mut H, now: Instant) {
        for machine in self.machines.values() {
            machine.fingerprint(hasher);
        }
        for (id, host) in &self.hosts {
            (id, &host.ports, &host.reports).hash(hasher);
            for binding in host.bindings.values() {
                binding.fingerprint(hasher);
                binding.device().fingerprint(now, hasher);
            }
        }
    }

    /// What the connections of a host are doing, if anything is on its way.
    pub(super) fn phase(&self, host: HostId, now: Instant) -> Option<Phase> {
        let of = self.hosts.get(&host)?;
        let closing = (of.closing > now).then_some(Phase::Closing);
        closing.or((of.data > now).then_some(Phase::Data))
    }

    /// Bytes, or an end, are on their way at a host.
    fn note_phase(&mut self, host: HostId, now: Instant, cdc: Option<&Cdc>) {
        let Some(of) = self.hosts.get_mut(&host) else {
            return;
        };
        of.data = now.after(RECENT);
        let sent = cdc.and_then(|cdc| CdcIsm::parse(cdc, Endianness::NATIVE).ok());
        if sent.is_some_and(|cdc| !cdc.connection_flags.is_empty()) {
            of.closing = of.data;
        }
    }

    fn binding(&self, host: HostId, device: DeviceId) -> Option<&Binding<Struck>> {
        self.hosts.get(&host)?.bindings.get(&device)
    }

    fn binding_mut(&mut self, host: HostId, device: DeviceId) -> Option<&mut Binding<Struck>> {
        self.hosts.get_mut(&host)?.bindings.get_mut(&device)
    }

    /// Whether the failure of a move of a connection is still to be reported to an engine: nothing
    /// that it asked for behind that is carried out.
    fn owes_failure(&self, host: HostId, conn: ConnId) -> bool {
        let failure = IsmCompletion::MoveFailed { conn };
        let owner = self.hosts.get(&host);
        owner.is_some_and(|owner| owner.reports.contains(&failure))
    }

    /// The binding of a host that has a buffer.
    fn holder(&self, host: HostId, buffer: BufferId) -> Option<&Binding<Struck>> {
        let mut bindings = self.hosts.get(&host)?.bindings.values();
        bindings.find(|binding| binding.holds(buffer))
    }

    fn holder_mut(&mut self, host: HostId, buffer: BufferId) -> Option<&mut Binding<Struck>> {
        let mut bindings = self.hosts.get_mut(&host)?.bindings.values_mut();
        bindings.find(|binding| binding.holds(buffer))
    }

    /// Buffers of a host that were not given back.
    pub(super) fn buffers_in_use(&self, host: HostId) -> usize {
        let bindings = self.hosts.get(&host).map(|host| host.bindings.values());
        bindings.map_or(0, |all| all.map(Binding::buffers_in_use).sum())
    }

    /// Puts a device into its machine, with nothing in it, instead of what was there.
    fn plug(&mut self, host: HostId, config: IsmConfig) {
        let owner = self.hosts.entry(host).or_default();
        // The one that was there goes first: there is one device of a name.
        owner.bindings.remove(&config.device);
        let machine = self.machines.get(&config.gid.chid);
        let device = machine.and_then(|machine| machine.add(gid_of(config.gid)));
        let binding = Binding::new(Struck::new(config, device), config.device);
        owner.bindings.insert(config.device, binding);
    }
}

impl Fabric {
    /// Gives a host an ISM device.
    pub fn add_ism(&mut self, host: HostId, config: IsmConfig) {
        let chid = config.gid.chid;
        if !self.ism.machines.contains_key(&chid) {
            let machine = Machine::new(self.draw());
            self.ism.machines.insert(chid, machine);
        }
        self.ism.plug(host, config);
        self.ism.hosts.entry(host).or_default().ports.push(config);
    }

    /// ISM devices of a host.
    #[must_use]
    pub fn ism_devices(&self, host: HostId) -> &[IsmConfig] {
        self.ism.hosts.get(&host).map_or(&[], |host| &host.ports)
    }

    /// Takes an ISM device out of its host: its DMBs are gone, its host is notified, and so
    /// is every host that could reach it.
    pub fn remove_ism(&mut self, host: HostId, device: DeviceId) {
        let Some(owner) = self.ism.hosts.get_mut(&host) else {
            return;
        };
        let before = owner.ports.len();
        owner.ports.retain(|port| port.device != device);
        if owner.ports.len() == before {
            return;
        }
        if let Some(binding) = owner.bindings.get_mut(&device) {
            binding.device_mut().remove();
        }
        self.report(host, HostEvent::DeviceRemoved { device });
        self.harm_until_reported();
    }

    /// A host crashed, and all it had of ISM is gone: the others are notified.
    pub(super) fn ism_crashed(&mut self, host: HostId) {
        for config in self.ism_devices(host).to_vec() {
            self.ism.plug(host, config);
        }
        if let Some(owner) = self.ism.hosts.get_mut(&host) {
            let there = &owner.ports;
            owner
                .bindings
                .retain(|id, _| there.iter().any(|port| port.device == *id));
            owner.reports.clear();
        }
        self.harm_until_reported();
    }

    /// The device that a host's device reaches under this GID.
    #[must_use]
    pub fn ism_reach(&self, from: IsmGid, to: IsmGid) -> Option<(HostId, IsmConfig)> {
        let hosts = self.ism.hosts.iter();
        let mut ports = hosts.flat_map(|(host, of)| of.ports.iter().map(|port| (*host, *port)));
        // Version 1 does not contain the channel.
        ports.find(|(_, port)| port.gid.chid == from.chid && gid_of(port.gid) == gid_of(to))
    }

    /// What a host's ISM devices report next.
    pub fn next_ism_completion(&mut self, host: HostId) -> Option<IsmCompletion> {
        self.ism.hosts.get_mut(&host)?.reports.pop_front()
    }

    /// DMBs and attachments of a host: all 0 after it gave everything back.
    #[must_use]
    pub fn ism_in_use(&self, host: HostId) -> [usize; 2] {
        let mut sum = [0; 2];
        for port in self.ism_devices(host) {
            let machine = self.ism.machines.get(&port.gid.chid);
            let [dmbs, attached] = machine.map_or([0; 2], |m| m.in_use(gid_of(port.gid)));
            sum = [sum[0] + dmbs, sum[1] + attached];
        }
        sum
    }

    /// Schedules a report, for the present instance of the host only.
    fn ism_report_at(&mut self, after: Duration, host: HostId, report: IsmCompletion) {
        let life = self.hosts.get(usize::from(host.0)).map_or(0, |h| h.life);
        let event = Event::IsmReport { host, life, report };
        self.queue.schedule_after(after, event);
    }

    /// An answer becomes visible.
    pub(super) fn ism_reported(&mut self, host: HostId, life: u32, report: IsmCompletion) {
        let alive = self.hosts.get(usize::from(host.0)).map(|host| host.life) == Some(life);
        if alive {
            self.ism_report(host, report);
        }
    }

    /// An answer is visible at once.
    fn ism_report(&mut self, host: HostId, report: IsmCompletion) {
        if let Some(owner) = self.ism.hosts.get_mut(&host) {
            owner.reports.push_back(report);
        }
    }

    /// Devices take in what others did to them, and report it when its time has come:
    /// which of it will end connections, of which host and when.
    fn take_ism_reports(&mut self) -> Vec<(HostId, Instant)> {
        let now = self.queue.now();
        let mut lagged = Vec::new();
        let mut ending = Vec::new();
        for (host, owner) in &mut self.ism.hosts {
            for (device, binding) in &mut owner.bindings {
                for PendingReport { due, fault, ends } in binding.device_mut().listen(now) {
                    let (host, device) = (*host, *device);
                    self.queue
                        .schedule(due, Event::IsmDelivers { host, device });
                    ending.extend(ends.then_some((host, due)));
                    lagged.extend(fault.map(|fault| (fault, host)));
                }
            }
        }
        for (fault, host) in lagged {
            self.note_fault(fault, host);
        }
        ending
    }

    /// What a device took in is reported.
    pub(super) fn ism_deliver(&mut self, host: HostId, device: DeviceId) {
        let now = self.queue.now();
        let Some(owner) = self.ism.hosts.get_mut(&host) else {
            return;
        };
        let Some(binding) = owner.bindings.get_mut(&device) else {
            return;
        };
        binding.device_mut().deliver_until(Some(now));
        let delivered: Vec<_> = std::iter::from_fn(|| binding.poll()).collect();
        binding.device_mut().deliver_until(None);
        owner.reports.extend(delivered.iter().copied());
        for report in &delivered {
            if let IsmCompletion::Signalled { cdc, .. } = report {
                self.ism.note_phase(host, now, Some(cdc));
            }
        }
    }
}
