//! The machine as plain data: ports, DMBs and what is yet to be reported.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::device::{
    DeviceEvent, DeviceFacts, Dmb, DmbToken, Gid128, IsmError, IsmReport, MAX_DMB_LEN, RemoteDmb,
    VlanId, check_len,
};
use crate::slots::{Key, Slots};

/// What an ISM device has: places 32 to 1919 of its summary page.
const MAX_DMBS: u32 = 1888;
/// VLANs an ISM device reports at most.
const MAX_VLANS: usize = 64;
/// Software events a device keeps: the length of an ISM event queue.
const MAX_EVENTS: usize = 15;

#[derive(Clone, Debug, Hash)]
pub(super) struct State {
    ports: BTreeMap<Gid128, Port>,
    tokens: u64,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Port {
    pub(super) vlans: BTreeSet<VlanId>,
    pub(super) dmbs: Slots<Memory>,
    pub(super) attached: Slots<Attachment>,
    pub(super) reports: VecDeque<Queued>,
    pub(super) events: usize,
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Memory {
    pub(super) peer: Gid128,
    pub(super) token: DmbToken,
    pub(super) reported: bool,
    pub(super) mask: u16,
    pub(super) bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Attachment {
    pub(super) owner: Gid128,
    /// Nothing once the owner has gone: a later device may have its GID.
    pub(super) dmb: Option<Key>,
    pub(super) len: u32,
}

/// What a port will report. Signals are reported once however many there were, so the
/// queue holds at most two entries a DMB, and one an attachment.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) enum Queued {
    Registered(Key),
    Signalled(Key),
    Withdrawn(Key),
    Software(DeviceEvent),
    Vanished(Gid128),
}

pub(super) fn facts(gid: Gid128) -> DeviceFacts {
    DeviceFacts {
        gid,
        chid: 0xffff,
        max_dmb_len: MAX_DMB_LEN,
        max_dmbs: MAX_DMBS,
        elements: 16,
        version_2: true,
    }
}

impl State {
    pub(super) fn new(seed: u64) -> Self {
        Self {
            ports: BTreeMap::new(),
            tokens: seed,
        }
    }

    pub(super) fn gids(&self) -> impl Iterator<Item = Gid128> {
        self.ports.keys().copied()
    }

    pub(super) fn add(&mut self, gid: Gid128) -> bool {
        if self.ports.contains_key(&gid) {
            return false;
        }
        let port = Port {
            vlans: BTreeSet::new(),
            dmbs: Slots::new(MAX_DMBS),
            attached: Slots::new(MAX_DMBS),
            reports: VecDeque::new(),
            events: 0,
        };
        self.ports.insert(gid, port);
        true
    }

    pub(super) fn remove(&mut self, gid: Gid128) {
        if self.ports.remove(&gid).is_none() {
            return;
        }
        for port in self.ports.values_mut() {
            port.attached
                .for_each(|at| at.dmb = at.dmb.filter(|_| at.owner != gid));
            // A device that comes and goes must not grow the queues of peers that do not poll.
            port.reports
                .retain(|at| !matches!(at, Queued::Vanished(at) if *at == gid));
            port.reports.push_back(Queued::Vanished(gid));
        }
    }

    pub(super) fn reach(
        &self,
        from: Gid128,
        to: Gid128,
        vlan: Option<VlanId>,
    ) -> Result<(), IsmError> {
        let both = [self.port(from)?, self.port(to)?];
        match vlan {
            Some(vlan) if vlan != VlanId::V2 => {
                let on_it = both.iter().all(|port| port.vlans.contains(&vlan));
                on_it.then_some(()).ok_or(IsmError::Vlan)
            }
            _ => Ok(()),
        }
    }

    pub(super) fn register(
        &mut self,
        of: Gid128,
        len: u32,
        peer: Gid128,
        vlan: Option<VlanId>,
    ) -> Result<Dmb, IsmError> {
        check_len(len, &facts(of))?;
        self.reach(of, peer, vlan)?;
        let token = self.next_token();
        let port = self.port_mut(of)?;
        let bytes = vec![0; len as usize];
        let memory = Memory {
            peer,
            token,
            reported: false,
            mask: 0,
            bytes,
        };
        let key = port
            .dmbs
            .insert_with(|_| memory)
            .ok_or(IsmError::Exhausted)?;
        port.reports.push_back(Queued::Registered(key));
        Ok(Dmb(key))
    }

    pub(super) fn unregister(&mut self, of: Gid128, dmb: Dmb) -> Result<(), IsmError> {
        let port = self.port_mut(of)?;
        let memory = port.dmbs.remove(dmb.0).ok_or(IsmError::Stale)?;
        port.reports.retain(|report| {
            !matches!(report, Queued::Registered(at) | Queued::Signalled(at) if *at == dmb.0)
        });
        // No other peer can have attached it.
        if let Ok(peer) = self.port_mut(memory.peer) {
            let of_it = |at: &Attachment| at.owner == of && at.dmb == Some(dmb.0);
            let all = peer.attached.iter().filter(|(_, at)| of_it(at));
            let withdrawn = all.map(|(key, _)| Queued::Withdrawn(key));
            peer.reports.extend(withdrawn);
        }
        Ok(())
    }

    pub(super) fn clear(&mut self, of: Gid128, dmb: Dmb) -> Result<(), IsmError> {
        let port = self.port_mut(of)?;
        let memory = port.dmbs.at_mut(dmb.0).ok_or(IsmError::Stale)?;
        memory.bytes.fill(0);
        memory.mask = 0;
        port.reports
            .retain(|report| !matches!(report, Queued::Signalled(at) if *at == dmb.0));
        Ok(())
    }

    /// DMBs and attachments of a port.
    pub(super) fn in_use(&self, of: Gid128) -> [usize; 2] {
        self.ports
            .get(&of)
            .map_or([0; 2], |port| [port.dmbs.len(), port.attached.len()])
    }

    pub(super) fn attach(
        &mut self,
        of: Gid128,
        owner: Gid128,
        token: DmbToken,
        len: u32,
    ) -> Result<RemoteDmb, IsmError> {
        let found = self
            .port(owner)?
            .dmbs
            .iter()
            .find(|(_, memory)| memory.token == token);
        let (dmb, memory) = found.ok_or(IsmError::Token)?;
        // Before its token is announced it can only be guessed.
        if memory.peer != of || !memory.reported {
            return Err(IsmError::Token);
        }
        check_len(len, &facts(of))?;
        if len as usize > memory.bytes.len() {
            return Err(IsmError::Length);
        }
        let attached = &mut self.port_mut(of)?.attached;
        let key = attached
            .insert_with(|_| Attachment {
                owner,
                dmb: Some(dmb),
                len,
            })
            .ok_or(IsmError::Exhausted)?;
        Ok(RemoteDmb(key))
    }

    pub(super) fn detach(&mut self, of: Gid128, remote: RemoteDmb) -> Result<(), IsmError> {
        let key = remote.0;
        let port = self.port_mut(of)?;
        port.attached.remove(key).ok_or(IsmError::Stale)?;
        port.reports
            .retain(|report| !matches!(report, Queued::Withdrawn(at) if *at == key));
        Ok(())
    }

    pub(super) fn add_vlan(&mut self, of: Gid128, vlan: VlanId) -> Result<(), IsmError> {
        let vlans = &mut self.port_mut(of)?.vlans;
        if vlan != VlanId::V2 && vlans.len() >= MAX_VLANS && !vlans.contains(&vlan) {
            return Err(IsmError::Vlan);
        }
        vlans.insert(vlan);
        Ok(())
    }

    pub(super) fn del_vlan(&mut self, of: Gid128, vlan: VlanId) -> Result<(), IsmError> {
        let was = self.port_mut(of)?.vlans.remove(&vlan);
        was.then_some(()).ok_or(IsmError::Vlan)
    }

    pub(super) fn signal_event(
        &mut self,
        of: Gid128,
        peer: Gid128,
        vlan: Option<VlanId>,
        code: u32,
        info: u64,
    ) -> Result<(), IsmError> {
        self.reach(of, peer, vlan)?;
        let port = self.port_mut(peer)?;
        if port.events >= MAX_EVENTS {
            return Err(IsmError::Busy);
        }
        port.events += 1;
        port.reports
            .push_back(Queued::Software(DeviceEvent::software(of, code, info)));
        Ok(())
    }

    pub(super) fn poll(&mut self, of: Gid128) -> Option<IsmReport> {
        let port = self.ports.get_mut(&of)?;
        Some(match port.reports.pop_front()? {
            Queued::Registered(at) => {
                let memory = port.dmbs.at_mut(at)?;
                memory.reported = true;
                IsmReport::DmbRegistered {
                    dmb: Dmb(at),
                    token: memory.token,
                }
            }
            Queued::Signalled(at) => {
                let memory = port.dmbs.at_mut(at)?;
                let mask = core::mem::take(&mut memory.mask);
                let cdc = *memory.bytes.first_chunk()?;
                IsmReport::Signalled {
                    dmb: Dmb(at),
                    mask,
                    cdc,
                }
            }
            Queued::Withdrawn(at) => IsmReport::Withdrawn {
                remote: RemoteDmb(at),
            },
            Queued::Software(event) => {
                port.events -= 1;
                IsmReport::Event(event)
            }
            Queued::Vanished(gid) => IsmReport::Event(DeviceEvent::vanished(gid)),
        })
    }

    pub(super) fn port(&self, gid: Gid128) -> Result<&Port, IsmError> {
        self.ports.get(&gid).ok_or(IsmError::Unreachable)
    }

    pub(super) fn port_mut(&mut self, gid: Gid128) -> Result<&mut Port, IsmError> {
        self.ports.get_mut(&gid).ok_or(IsmError::Unreachable)
    }

    /// A number in no order, different each time: a step and a one-to-one mixture.
    fn next_token(&mut self) -> DmbToken {
        self.tokens = self.tokens.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut token = self.tokens;
        token = (token ^ (token >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        token = (token ^ (token >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        DmbToken(token ^ (token >> 31))
    }
}
