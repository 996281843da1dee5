//! The device over a PCI function.

use std::collections::VecDeque;

use super::access::{DeviceMemory, MOVES, PciAccess};
use super::command::{Command, gid, refusal};
use super::summary::{Events, PAGE, PLACES, QUEUE, Summary};
use crate::device::{
    Cdc, DeviceFacts, Dmb, DmbToken, EventKind, Gid128, IsmDevice, IsmError, IsmReport,
    MAX_DMB_LEN, RemoteDmb, VlanId, check_bounds, check_cdc_bounds, check_len, element_bit,
};
use crate::memory::system;
use crate::slots::{Key, Slots};

/// Octets a block store carries at most, and must not cross a multiple of.
const BLOCK: u32 = 4096;
const SIGNAL: u64 = 1 << 23;
const ELEMENT_SHIFT: u32 = 24;

/// An ISM device that is an s390 PCI function.
pub struct Device<A: PciAccess> {
    function: A,
    facts: DeviceFacts,
    summary: Summary,
    events: Events,
    /// Where the function finds the summary page and the events.
    at: [u64; 2],
    dmbs: Slots<OwnDmb>,
    attached: Slots<Attached>,
    reports: VecDeque<IsmReport>,
    vlans: Vec<VlanId>,
}

struct OwnDmb {
    memory: DeviceMemory,
    at: u64,
    token: DmbToken,
}

struct Attached {
    peer: u64,
    token: u64,
    /// As the peer says. What the function answers to a store beyond a DMB is not
    /// known: none is made.
    len: u32,
    gone: bool,
}

impl<A: PciAccess> Device<A> {
    /// Takes the function into use. `chid` is its PCHID, which the operating system
    /// knows (`/sys/bus/pci/devices/…/pchid` in Linux).
    ///
    /// # Errors
    /// The function's, or the operating system's.
    pub fn open(mut function: A, chid: u16) -> Result<Self, IsmError> {
        let (summary, events) = (Summary::new()?, Events::new()?);
        let at = [summary.memory(), events.memory()];
        let at = [map(&mut function, at[0])?, map(&mut function, at[1])?];
        Command::RegisterSummary { at: at[0] }.run(&mut function)?;
        Command::RegisterEvents {
            at: at[1],
            len: QUEUE.into(),
        }
        .run(&mut function)?;
        let own = Command::ReadGid.run(&mut function)?;
        // Only a function that serves version 2 knows this number.
        let version_2 = Command::AddVlan(VlanId::V2).run(&mut function).is_ok();
        let max_dmbs = PLACES.end - PLACES.start;
        let facts = DeviceFacts {
            gid: Gid128 { gid: own, ext: 0 },
            chid,
            max_dmb_len: MAX_DMB_LEN,
            max_dmbs,
            elements: 16,
            version_2,
        };
        Ok(Self {
            function,
            facts,
            summary,
            events,
            at,
            dmbs: Slots::new(max_dmbs),
            attached: Slots::new(2 * max_dmbs),
            reports: VecDeque::new(),
            vlans: Vec::new(),
        })
    }

    /// The access, for what is not ISM: waiting for the function's interrupt.
    pub fn access(&mut self) -> &mut A {
        &mut self.function
    }

    fn own(&self, dmb: Dmb) -> Result<&OwnDmb, IsmError> {
        self.dmbs
            .at((dmb.index, dmb.generation))
            .ok_or(IsmError::Stale)
    }

    /// Stores octets into a peer's DMB: in blocks that cross no page, the signal with
    /// the last of them.
    fn store(
        &mut self,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        source: &[u8],
        signal: bool,
    ) -> Result<(), IsmError> {
        element_bit(element, &self.facts)?;
        let key = (remote.index, remote.generation);
        let to = self.attached.at(key).ok_or(IsmError::Stale)?;
        if to.gone {
            return Err(IsmError::Unreachable);
        }
        check_bounds(offset, source.len(), to.len as usize)?;
        let token = to.token;
        let (mut offset, mut rest) = (offset, source);
        while !rest.is_empty() {
            let room = (BLOCK - offset % BLOCK) as usize;
            let (piece, more) = rest.split_at(rest.len().min(room));
            let last = if signal && more.is_empty() { SIGNAL } else { 0 };
            let address = token | u64::from(element) << ELEMENT_SHIFT | last | u64::from(offset);
            self.function
                .store(MOVES, address, piece)
                .map_err(|_| self.lost(key))?;
            offset += piece.len() as u32;
            rest = more;
        }
        Ok(())
    }

    /// Why the function refused a store: the peer has gone, or taken the DMB away.
    fn lost(&mut self, key: Key) -> IsmError {
        let Some(to) = self.attached.at(key) else {
            return IsmError::Stale;
        };
        let peer = Gid128 {
            gid: to.peer,
            ext: 0,
        };
        if self.query_reach(peer, None) {
            IsmError::Stale
        } else {
            IsmError::Unreachable
        }
    }

    /// Takes what the function has written since the last time.
    fn take_news(&mut self) -> Result<(), IsmError> {
        if self.summary.take_any()? && self.summary.take_event()? {
            // All at once: the function knows by the bit alone what has been taken.
            while let Some(event) = self.events.next()? {
                self.reports.push_back(IsmReport::Event(event));
            }
        }
        Ok(())
    }

    fn take_signal(&mut self) -> Result<Option<IsmReport>, IsmError> {
        while let Some((place, mask)) = self.summary.take_place()? {
            let index = place.wrapping_sub(PLACES.start);
            // No mask: a signal that came after the bit was taken, told by the mask then.
            if mask != 0
                && let Some(((index, generation), own)) = self.dmbs.at_index(index)
            {
                let cdc = own.memory.0.read_cdc(0)?;
                let dmb = Dmb { index, generation };
                return Ok(Some(IsmReport::Signalled { dmb, mask, cdc }));
            }
        }
        Ok(None)
    }

    fn check_vlan(&self, vlan: Option<VlanId>) -> Result<(), IsmError> {
        match vlan {
            Some(vlan) if vlan == VlanId::V2 => {
                self.facts.version_2.then_some(()).ok_or(IsmError::Vlan)
            }
            Some(vlan) => self
                .vlans
                .contains(&vlan)
                .then_some(())
                .ok_or(IsmError::Vlan),
            None => Ok(()),
        }
    }
}

impl<A: PciAccess> Drop for Device<A> {
    fn drop(&mut self) {
        let dmbs: Vec<_> = self
            .dmbs
            .iter()
            .map(|((index, generation), _)| (index, generation))
            .collect();
        for (index, generation) in dmbs {
            let _ = self.unregister_dmb(Dmb { index, generation });
        }
        // Nothing more can be done about a function that refuses even this.
        let _ = Command::UnregisterEvents.run(&mut self.function);
        let _ = Command::UnregisterSummary.run(&mut self.function);
        let _ = self.function.unmap(self.events.memory(), self.at[1]);
        let _ = self.function.unmap(self.summary.memory(), self.at[0]);
    }
}

impl<A: PciAccess> IsmDevice for Device<A> {
    fn facts(&self) -> DeviceFacts {
        self.facts
    }

    fn register_dmb(
        &mut self,
        len: u32,
        peer: Gid128,
        vlan: Option<VlanId>,
    ) -> Result<Dmb, IsmError> {
        check_len(len, &self.facts)?;
        let peer = gid(peer)?;
        self.check_vlan(vlan)?;
        Command::QueryReach { peer, vlan }
            .run(&mut self.function)
            .map_err(|error| refusal(error, IsmError::Unreachable))?;
        // New memory each time: it is zero before the function knows of it.
        let memory = DeviceMemory::new(len)?;
        let at = map(&mut self.function, &memory)?;
        let own = OwnDmb {
            memory,
            at,
            token: DmbToken(0),
        };
        let key = self.dmbs.insert_with(|_| own).ok_or(IsmError::Exhausted);
        let registered = key.and_then(|key| {
            let place = PLACES.start + key.0;
            let command = Command::RegisterDmb {
                at,
                len,
                place,
                vlan,
                peer,
            };
            let token = command.run(&mut self.function);
            token.map(|token| (key, DmbToken(token))).map_err(|error| {
                self.dmbs
                    .remove(key)
                    .map(|own| self.function.unmap(&own.memory, at));
                refusal(error, IsmError::Exhausted)
            })
        });
        let (key, token) = registered?;
        if let Some(own) = self.dmbs.at_mut(key) {
            own.token = token;
        }
        let dmb = Dmb {
            index: key.0,
            generation: key.1,
        };
        self.reports
            .push_back(IsmReport::DmbRegistered { dmb, token });
        Ok(dmb)
    }

    fn unregister_dmb(&mut self, dmb: Dmb) -> Result<(), IsmError> {
        let key = (dmb.index, dmb.generation);
        let own = self.dmbs.remove(key).ok_or(IsmError::Stale)?;
        // After this the function writes there no more; a failing one is taken from
        // the memory all the same.
        let told = Command::UnregisterDmb { token: own.token.0 }.run(&mut self.function);
        let unmapped = self.function.unmap(&own.memory, own.at);
        if told.is_err() && unmapped.is_err() {
            // The function may still write there: the memory must outlive it.
            core::mem::forget(own);
        }
        self.summary.clear(PLACES.start + dmb.index)?;
        self.reports.retain(|report| match report {
            IsmReport::DmbRegistered { dmb: of, .. } => *of != dmb,
            _ => true,
        });
        Ok(())
    }

    fn attach_dmb(
        &mut self,
        peer: Gid128,
        token: DmbToken,
        len: u32,
    ) -> Result<RemoteDmb, IsmError> {
        let peer = gid(peer)?;
        check_len(len, &self.facts)?;
        Command::QueryReach { peer, vlan: None }
            .run(&mut self.function)
            .map_err(|error| refusal(error, IsmError::Unreachable))?;
        // The low bits of a move's address are the element, the signal and the offset.
        if token.0 & u64::from(u32::MAX) != 0 || token.0 == 0 {
            return Err(IsmError::Token);
        }
        // The function knows no attaching: that a token is wrong shows with the first
        // move.
        let to = Attached {
            peer,
            token: token.0,
            len,
            gone: false,
        };
        let key = self
            .attached
            .insert_with(|_| to)
            .ok_or(IsmError::Exhausted)?;
        Ok(RemoteDmb {
            index: key.0,
            generation: key.1,
        })
    }

    fn detach_dmb(&mut self, remote: RemoteDmb) -> Result<(), IsmError> {
        let key = (remote.index, remote.generation);
        self.attached.remove(key).map(|_| ()).ok_or(IsmError::Stale)
    }

    fn query_reach(&mut self, peer: Gid128, vlan: Option<VlanId>) -> bool {
        let reach = |peer| {
            Command::QueryReach { peer, vlan }
                .run(&mut self.function)
                .is_ok()
        };
        gid(peer).is_ok_and(reach)
    }

    fn add_vlan(&mut self, vlan: VlanId) -> Result<(), IsmError> {
        Command::AddVlan(vlan)
            .run(&mut self.function)
            .map_err(|error| refusal(error, IsmError::Vlan))?;
        if !self.vlans.contains(&vlan) {
            self.vlans.push(vlan);
        }
        Ok(())
    }

    fn del_vlan(&mut self, vlan: VlanId) -> Result<(), IsmError> {
        let at = self
            .vlans
            .iter()
            .position(|at| *at == vlan)
            .ok_or(IsmError::Vlan)?;
        self.vlans.swap_remove(at);
        let deleted = Command::DelVlan(vlan).run(&mut self.function);
        deleted
            .map(|_| ())
            .map_err(|error| refusal(error, IsmError::Vlan))
    }

    fn move_data(
        &mut self,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        source: &[u8],
    ) -> Result<(), IsmError> {
        self.store(remote, element, offset, source, false)
    }

    fn move_cdc(
        &mut self,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        cdc: &Cdc,
        signal: bool,
    ) -> Result<(), IsmError> {
        check_cdc_bounds(offset, MAX_DMB_LEN as usize)?;
        self.store(remote, element, offset, cdc, signal)
    }

    fn signal_event(
        &mut self,
        peer: Gid128,
        vlan: Option<VlanId>,
        code: u32,
        info: u64,
    ) -> Result<(), IsmError> {
        let peer = gid(peer)?;
        Command::QueryReach { peer, vlan }
            .run(&mut self.function)
            .map_err(|error| refusal(error, IsmError::Unreachable))?;
        Command::SignalEvent {
            peer,
            interrupt: true,
            code,
            info,
        }
        .run(&mut self.function)
        .map(|_| ())
        .map_err(|error| refusal(error, IsmError::Busy))
    }

    fn poll(&mut self) -> Option<IsmReport> {
        // Only a word outside the pages could fail, and there is none.
        let mut signal = self.take_signal().unwrap_or_default();
        if signal.is_none() && self.reports.is_empty() {
            let _ = self.take_news();
            signal = self.take_signal().unwrap_or_default();
        }
        let report = signal.or_else(|| self.reports.pop_front())?;
        if let IsmReport::Event(event) = report
            && event.kind == EventKind::Gid
        {
            // Every signal it gave has been told by now, as those come first.
            let of = |at: &mut Attached| at.gone |= at.peer == event.token;
            self.attached.for_each(of);
        }
        Some(report)
    }

    fn read(&self, dmb: Dmb, offset: u32, into: &mut [u8]) -> Result<(), IsmError> {
        self.own(dmb)?.memory.0.copy_out(offset, into)
    }

    fn read_cdc(&self, dmb: Dmb, offset: u32) -> Result<Cdc, IsmError> {
        self.own(dmb)?.memory.0.read_cdc(offset)
    }
}

fn map(function: &mut impl PciAccess, memory: &DeviceMemory) -> Result<u64, IsmError> {
    let at = function.map(memory).map_err(|error| system(&error))?;
    // The function takes whole pages.
    if at % u64::from(PAGE) == 0 {
        Ok(at)
    } else {
        Err(IsmError::Bounds)
    }
}
