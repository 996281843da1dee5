//! A device that faults strike: one in-process device, which refuses when a fault demands it
//! and whose reports take their time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::hash::{Hash, Hasher};

use smc_proto::time::{Duration, Instant};
use smc_proto::wire::types::IsmGid;
use smc_transport_ism::device::{
    Cdc, DeviceFacts, Dmb, DmbToken, EventKind, Gid128, IsmDevice, IsmError, IsmReport, RemoteDmb,
    VlanId,
};
use smc_transport_ism::in_process::Device;

use super::{IsmConfig, gid_of};

/// What a device of this host did to that of another.
#[derive(Clone, Debug)]
pub(super) struct Moved {
    pub(super) peer: Gid128,
    pub(super) offset: u32,
    pub(super) bytes: Vec<u8>,
    /// Whether it was a CDC message.
    pub(super) is_cdc: bool,
}

/// A report that was taken in.
pub(super) struct PendingReport {
    /// When it is reported.
    pub(super) due: Instant,
    /// The fault that made it late.
    pub(super) fault: Option<usize>,
    /// Whether connections end when it is reported: a DMB or a peer is gone.
    pub(super) ends: bool,
}

/// How late signals are reported, and until when they are.
#[derive(Clone, Copy, Debug, Hash)]
struct Lag {
    fault: usize,
    by: Duration,
    until: Instant,
}

/// A device, and what is between it and its engine.
#[derive(Debug)]
pub(super) struct Struck {
    /// `None` once it was taken out: what was undone then counts as undone.
    device: Option<Device>,
    config: IsmConfig,
    /// Whether a fault strikes the command that is being executed.
    refuses: bool,
    lag: Lag,
    /// Whether there is an observer.
    watched: bool,
    moved: Vec<Moved>,
    peers: BTreeMap<RemoteDmb, Gid128>,
    /// DMBs, and their tokens once they were announced.
    dmbs: BTreeMap<Dmb, Option<DmbToken>>,
    /// Events that a fault made.
    own: VecDeque<IsmReport>,
    /// Answers.
    ready: VecDeque<IsmReport>,
    /// What peers did, in that order, and when it is reported.
    late: VecDeque<(Instant, IsmReport)>,
    /// DMBs of which a signal is yet to be reported.
    signalled: BTreeSet<Dmb>,
    delivers_until: Option<Instant>,
}

impl Struck {
    pub(super) fn new(config: IsmConfig, device: Option<Device>) -> Self {
        Self {
            device,
            config,
            refuses: false,
            lag: Lag {
                fault: 0,
                by: Duration::ZERO,
                until: Instant::ZERO,
            },
            watched: false,
            moved: Vec::new(),
            peers: BTreeMap::new(),
            dmbs: BTreeMap::new(),
            own: VecDeque::new(),
            ready: VecDeque::new(),
            late: VecDeque::new(),
            signalled: BTreeSet::new(),
            delivers_until: None,
        }
    }

    /// Copies the device into another world, around the device of this name there.
    pub(super) fn fork(&self, copy: impl FnOnce(IsmGid) -> Option<Device>) -> Self {
        Self {
            device: self.device.as_ref().and_then(|_| copy(self.config.gid)),
            config: self.config,
            refuses: self.refuses,
            lag: self.lag,
            watched: false,
            moved: Vec::new(),
            peers: self.peers.clone(),
            dmbs: self.dmbs.clone(),
            own: self.own.clone(),
            ready: self.ready.clone(),
            late: self.late.clone(),
            signalled: self.signalled.clone(),
            delivers_until: self.delivers_until,
        }
    }

    pub(super) fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        (self.device.is_some(), self.config, self.refuses).hash(hasher);
        (self.lag.by, self.lag.until.since(now)).hash(hasher);
        (&self.peers, &self.ready, &self.signalled).hash(hasher);
        for (due, report) in &self.late {
            (due.since(now), report).hash(hasher);
        }
    }

    /// The device is taken out of its host.
    pub(super) fn remove(&mut self) {
        self.device = None;
        self.ready.clear();
        self.own.clear();
        self.late.clear();
        self.signalled.clear();
    }

    /// Whether it was not taken out.
    pub(super) fn is_there(&self) -> bool {
        self.device.is_some()
    }

    pub(super) fn config(&self) -> IsmConfig {
        self.config
    }

    /// Whether calls from now on are refused.
    pub(super) fn refuse(&mut self, refuses: bool) {
        self.refuses = refuses;
    }

    /// Signals take so much longer until then.
    pub(super) fn lag(&mut self, fault: usize, by: Duration, until: Instant) {
        self.lag = Lag { fault, by, until };
    }

    /// The device reports this by itself.
    pub(super) fn add(&mut self, report: IsmReport) {
        self.own.push_back(report);
    }

    /// The token of some DMB that was reported.
    pub(super) fn token_of_any(&self) -> Option<DmbToken> {
        self.dmbs.values().copied().find_map(|token| token)
    }

    /// Some device whose DMB this one writes to.
    pub(super) fn any_peer(&self) -> Option<Gid128> {
        self.peers.values().next().copied()
    }

    /// From now on what is moved is noted, or not.
    pub(super) fn watch(&mut self, watched: bool) {
        self.watched = watched;
    }

    pub(super) fn take_moved(&mut self) -> Vec<Moved> {
        std::mem::take(&mut self.moved)
    }

    /// Takes in what the device has to report, and when that will be.
    pub(super) fn listen(&mut self, now: Instant) -> Vec<PendingReport> {
        let mut taken = Vec::new();
        while let Some(report) = self.next_of_device() {
            let mut latency = self.config.signal_latency;
            let mut fault = None;
            match report {
                IsmReport::DmbRegistered { dmb, token } => {
                    self.dmbs.insert(dmb, Some(token));
                    self.ready.push_back(report);
                    continue;
                }
                IsmReport::Failed { .. } => {
                    self.ready.push_back(report);
                    continue;
                }
                IsmReport::Signalled { dmb, .. } if !self.signalled.insert(dmb) => continue,
                IsmReport::Signalled { .. } if self.lag.until > now => {
                    latency = latency.saturating_add(self.lag.by);
                    fault = Some(self.lag.fault);
                }
                _ => {}
            }
            // In the order in which peers did it.
            let last = self.late.back().map_or(now, |(due, _)| *due);
            let due = now.after(latency).max(last);
            self.late.push_back((due, report));
            let ends = match report {
                IsmReport::Event(event) => matches!(event.kind, EventKind::Dmb | EventKind::Gid),
                _ => false,
            };
            taken.push(PendingReport { due, fault, ends });
        }
        taken
    }

    fn next_of_device(&mut self) -> Option<IsmReport> {
        let of_device = self.device.as_mut().and_then(IsmDevice::poll);
        of_device.or_else(|| self.own.pop_front())
    }

    /// From now on `poll` gives what was due then, or answers only.
    pub(super) fn deliver_until(&mut self, now: Option<Instant>) {
        self.delivers_until = now;
    }

    fn device(&mut self) -> Result<&mut Device, IsmError> {
        if self.refuses {
            return Err(IsmError::Device { code: 0xffff });
        }
        self.device.as_mut().ok_or(IsmError::Unreachable)
    }

    /// The device for what gives something back: nothing is left of one that is gone.
    fn device_if_there(&mut self) -> Result<Option<&mut Device>, IsmError> {
        match self.device() {
            Ok(device) => Ok(Some(device)),
            Err(IsmError::Unreachable) => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn note(&mut self, remote: RemoteDmb, offset: u32, bytes: &[u8], is_cdc: bool) {
        if !self.watched || bytes.is_empty() {
            return;
        }
        let Some(peer) = self.peers.get(&remote).copied() else {
            return;
        };
        // What the engine moves in one go may come from two places; a CDC message is
        // between that and what it moves next.
        if let Some(last) = self.moved.last_mut()
            && !(is_cdc || last.is_cdc)
            && last.peer == peer
            && last.offset as usize + last.bytes.len() == offset as usize
        {
            last.bytes.extend(bytes);
            return;
        }
        self.moved.push(Moved {
            peer,
            offset,
            bytes: bytes.to_vec(),
            is_cdc,
        });
    }
}

impl IsmDevice for Struck {
    fn facts(&self) -> DeviceFacts {
        DeviceFacts {
            gid: gid_of(self.config.gid),
            chid: self.config.gid.chid.0,
            max_dmb_len: smc_transport_ism::device::MAX_DMB_LEN,
            max_dmbs: u32::try_from(self.config.most_dmbs).unwrap_or(u32::MAX),
            elements: 1,
            version_2: true,
        }
    }

    /// There is one network here: every VLAN reaches all hosts.
    fn register_dmb(&mut self, len: u32, peer: Gid128, _: Option<VlanId>) -> Result<Dmb, IsmError> {
        if self.dmbs.len() >= self.config.most_dmbs {
            return Err(IsmError::Exhausted);
        }
        let dmb = self.device()?.register_dmb(len, peer, None)?;
        self.dmbs.insert(dmb, None);
        Ok(dmb)
    }

    fn unregister_dmb(&mut self, dmb: Dmb) -> Result<(), IsmError> {
        if let Some(device) = self.device_if_there()? {
            device.unregister_dmb(dmb)?;
        }
        self.dmbs.remove(&dmb);
        self.signalled.remove(&dmb);
        let is_of = |report: &IsmReport| match report {
            IsmReport::Signalled { dmb: of, .. } => *of == dmb,
            _ => false,
        };
        self.late.retain(|(_, report)| !is_of(report));
        Ok(())
    }

    fn clear_dmb(&mut self, dmb: Dmb) -> Result<(), IsmError> {
        self.device()?.clear_dmb(dmb)
    }

    fn attach_dmb(
        &mut self,
        peer: Gid128,
        token: DmbToken,
        len: u32,
    ) -> Result<RemoteDmb, IsmError> {
        let remote = self.device()?.attach_dmb(peer, token, len)?;
        self.peers.insert(remote, peer);
        Ok(remote)
    }

    fn detach_dmb(&mut self, remote: RemoteDmb) -> Result<(), IsmError> {
        if let Some(device) = self.device_if_there()? {
            device.detach_dmb(remote)?;
        }
        self.peers.remove(&remote);
        let report = IsmReport::Withdrawn { remote };
        self.late.retain(|(_, late)| *late != report);
        Ok(())
    }

    fn query_reach(&mut self, peer: Gid128, _: Option<VlanId>) -> bool {
        self.device()
            .is_ok_and(|device| device.query_reach(peer, None))
    }

    fn add_vlan(&mut self, vlan: VlanId) -> Result<(), IsmError> {
        self.device()?.add_vlan(vlan)
    }

    fn del_vlan(&mut self, vlan: VlanId) -> Result<(), IsmError> {
        self.device()?.del_vlan(vlan)
    }

    fn move_data(
        &mut self,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        source: &[u8],
    ) -> Result<(), IsmError> {
        self.device()?.move_data(remote, element, offset, source)?;
        self.note(remote, offset, source, false);
        Ok(())
    }

    fn move_cdc(
        &mut self,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        cdc: &Cdc,
        signal: bool,
    ) -> Result<(), IsmError> {
        self.device()?
            .move_cdc(remote, element, offset, cdc, signal)?;
        self.note(remote, offset, cdc, true);
        Ok(())
    }

    fn signal_event(
        &mut self,
        peer: Gid128,
        _: Option<VlanId>,
        code: u32,
        info: u64,
    ) -> Result<(), IsmError> {
        self.device()?.signal_event(peer, None, code, info)
    }

    fn poll(&mut self) -> Option<IsmReport> {
        if let Some(report) = self.ready.pop_front() {
            return Some(report);
        }
        let now = self.delivers_until?;
        while self.late.front().is_some_and(|(due, _)| *due <= now) {
            let (_, report) = self.late.pop_front()?;
            let IsmReport::Signalled { dmb, mask, .. } = report else {
                return Some(report);
            };
            self.signalled.remove(&dmb);
            if let Ok(cdc) = self.read_cdc(dmb, 0) {
                return Some(IsmReport::Signalled { dmb, mask, cdc });
            }
        }
        None
    }

    fn read(&self, dmb: Dmb, offset: u32, into: &mut [u8]) -> Result<(), IsmError> {
        let device = self.device.as_ref().ok_or(IsmError::Unreachable)?;
        device.read(dmb, offset, into)
    }

    fn read_cdc(&self, dmb: Dmb, offset: u32) -> Result<Cdc, IsmError> {
        let device = self.device.as_ref().ok_or(IsmError::Unreachable)?;
        device.read_cdc(dmb, offset)
    }
}
