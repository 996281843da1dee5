//! The device over a PCI function.

use std::collections::VecDeque;

use super::access::{DeviceMemory, MOVES, PciAccess};
use super::command::Command;
use super::summary::{Events, PAGE, PLACES, QUEUE, Summary};
use crate::device::{
    DeviceFacts, Dmb, DmbToken, Gid128, IsmDevice, IsmError, IsmReport, MAX_DMB_LEN, RemoteDmb,
    VlanId, check_bounds, element_bit,
};
use crate::memory::system;
use crate::slots::{Key, Slots};

/// Bytes a block store carries at most, and must not cross a multiple of.
const BLOCK: u32 = 4096;
const SIGNAL: u64 = 1 << 23;
const ELEMENT_SHIFT: u32 = 24;

/// An ISM device that is an s390 PCI function.
pub struct Device<A: PciAccess> {
    pub(super) function: A,
    pub(super) facts: DeviceFacts,
    pub(super) summary: Summary,
    pub(super) events: Events,
    /// Where the function finds the summary page and the events.
    pub(super) at: [u64; 2],
    pub(super) dmbs: Slots<OwnDmb>,
    pub(super) attached: Slots<Attached>,
    pub(super) reports: VecDeque<IsmReport>,
    pub(super) vlans: Vec<VlanId>,
}

pub(super) struct OwnDmb {
    pub(super) memory: DeviceMemory,
    pub(super) at: u64,
    pub(super) token: DmbToken,
}

pub(super) struct Attached {
    pub(super) peer: u64,
    pub(super) token: u64,
    /// The length that the peer stated. What the function answers to a store beyond a DMB is not
    /// known: none is made.
    pub(super) len: u32,
    pub(super) gone: bool,
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

    pub(super) fn own(&self, dmb: Dmb) -> Result<&OwnDmb, IsmError> {
        self.dmbs.at(dmb.0).ok_or(IsmError::Stale)
    }

    /// Stores bytes into a peer's DMB: in blocks that cross no page, the signal with
    /// the last of them.
    pub(super) fn store(
        &mut self,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        source: &[u8],
        signal: bool,
    ) -> Result<(), IsmError> {
        element_bit(element, &self.facts)?;
        let key = remote.0;
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
    pub(super) fn lost(&mut self, key: Key) -> IsmError {
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
    pub(super) fn take_news(&mut self) -> Result<(), IsmError> {
        if self.summary.take_any()? && self.summary.take_event()? {
            // All at once: the function knows by the bit alone what has been taken.
            while let Some(event) = self.events.next()? {
                self.reports.push_back(IsmReport::Event(event));
            }
        }
        Ok(())
    }

    pub(super) fn take_signal(&mut self) -> Result<Option<IsmReport>, IsmError> {
        while let Some((place, mask)) = self.summary.take_place()? {
            let index = place.wrapping_sub(PLACES.start);
            // No mask: a signal that came after the bit was taken is reported by the mask then.
            if mask != 0
                && let Some((key, own)) = self.dmbs.at_index(index)
            {
                let cdc = own.memory.0.read_cdc(0)?;
                let dmb = Dmb(key);
                return Ok(Some(IsmReport::Signalled { dmb, mask, cdc }));
            }
        }
        Ok(None)
    }

    pub(super) fn check_vlan(&self, vlan: Option<VlanId>) -> Result<(), IsmError> {
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
        let dmbs: Vec<_> = self.dmbs.iter().map(|(key, _)| Dmb(key)).collect();
        for dmb in dmbs {
            let _ = self.unregister_dmb(dmb);
        }
        // Nothing more can be done about a function that refuses even this.
        let _ = Command::UnregisterEvents.run(&mut self.function);
        let _ = Command::UnregisterSummary.run(&mut self.function);
        let _ = self.function.unmap(self.events.memory(), self.at[1]);
        let _ = self.function.unmap(self.summary.memory(), self.at[0]);
    }
}

pub(super) fn map(function: &mut impl PciAccess, memory: &DeviceMemory) -> Result<u64, IsmError> {
    let at = function.map(memory).map_err(|error| system(&error))?;
    // The function takes whole pages.
    if at % u64::from(PAGE) == 0 {
        Ok(at)
    } else {
        Err(IsmError::Bounds)
    }
}
