//! State of an ISM device over a PCI function, and the steps that its
//! [`IsmDevice`] methods (in `ism.rs`) share: moving bytes to a peer's
//! DMB, and taking signals and events from the memory that the function writes.
//!
//! ```text
//!  write                                       ─► BAR 0 ─► peer's DMB, its signal
//!  queue_events ◄─ event bit, event queue      ◄─ function
//!  next_signal  ◄─ bit and mask of a place     ◄─ function ◄─ a peer's move with a signal
//! ```

use std::collections::VecDeque;

use super::access::{DeviceMemory, MOVES, PciAccess};
use super::command::Command;
use super::summary::{Events, PAGE, PLACES, QUEUE, Summary};
use crate::device::{
    Cdc, DeviceFacts, Dmb, DmbToken, Gid128, IsmDevice, IsmError, IsmReport, MAX_DMB_LEN,
    RemoteDmb, VlanId, check_bounds, element_bit,
};
use crate::memory::system;
use crate::slots::{Key, Slots};

/// Most bytes of a store in the BAR of moves. No store crosses a multiple of it.
const BLOCK: u32 = 4096;
/// Bit of a move's address that requests a signal.
const SIGNAL: u64 = 1 << 23;
/// Place of the element in a move's address; the token is above, the offset below.
const ELEMENT_SHIFT: u32 = 24;

/// ISM device of an s390 machine: a PCI function.
pub struct Device<A: PciAccess> {
    pub(super) function: A,
    pub(super) facts: DeviceFacts,
    pub(super) summary: Summary,
    pub(super) events: Events,
    /// Addresses that the function uses for the summary page and the event queue.
    pub(super) at: [u64; 2],
    pub(super) dmbs: Slots<OwnDmb>,
    pub(super) attached: Slots<Attached>,
    pub(super) reports: VecDeque<IsmReport>,
    pub(super) vlans: Vec<VlanId>,
}

/// A DMB of this device, which a peer writes to.
pub(super) struct OwnDmb {
    pub(super) memory: DeviceMemory,
    /// Address that the function uses for the memory.
    pub(super) at: u64,
    pub(super) token: DmbToken,
}

/// A DMB of a peer, which this device writes to.
pub(super) struct Attached {
    /// GID of the peer's device.
    pub(super) peer: u64,
    pub(super) token: u64,
    /// Length that the peer has announced. No move reaches beyond it, as the function's answer to
    /// one is not known.
    pub(super) len: u32,
    /// Whether the function has reported the end of the peer's device.
    pub(super) gone: bool,
}

/// Bytes to be written to a peer's DMB.
#[derive(Clone, Copy)]
pub(super) enum Move<'a> {
    /// Data, of which the peer is not notified.
    Data(&'a [u8]),
    /// A CDC message. Its length is not 0, so that there is a store to carry the signal.
    Message { cdc: &'a Cdc, signal: bool },
}

impl<A: PciAccess> Device<A> {
    /// Opens the device: registers a summary page and an event queue at the function, and reads its
    /// GID. `chid` is the function's PCHID, which the operating system knows
    /// (`/sys/bus/pci/devices/…/pchid` in Linux).
    ///
    /// # Errors
    /// [`IsmError::Device`] if the function refuses a command, [`IsmError::System`] if the operating
    /// system refuses memory or access.
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
        // Only a function that serves version 2 accepts this VLAN.
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

    /// The access to the function, to wait for its interrupt.
    pub fn access(&mut self) -> &mut A {
        &mut self.function
    }

    /// A registered DMB of this device.
    ///
    /// # Errors
    /// [`IsmError::Stale`] if it was unregistered.
    pub(super) fn own(&self, dmb: Dmb) -> Result<&OwnDmb, IsmError> {
        self.dmbs.at(dmb.0).ok_or(IsmError::Stale)
    }

    /// Writes to an element of a peer's DMB, in blocks that cross no multiple of 4096. The signal
    /// goes with the last one.
    ///
    /// # Errors
    /// [`IsmError::Element`] or [`IsmError::Bounds`] for a place outside the DMB;
    /// [`IsmError::Stale`] if the DMB is not attached, or its owner has taken it back;
    /// [`IsmError::Unreachable`] if the owner has gone.
    pub(super) fn write(
        &mut self,
        remote: RemoteDmb,
        element: u16,
        offset: u32,
        bytes: Move<'_>,
    ) -> Result<(), IsmError> {
        element_bit(element, &self.facts)?;
        let key = remote.0;
        let to = self.attached.at(key).ok_or(IsmError::Stale)?;
        if to.gone {
            return Err(IsmError::Unreachable);
        }
        let (bytes, signal) = match bytes {
            Move::Data(bytes) => (bytes, 0),
            Move::Message { cdc, signal } => (&cdc[..], if signal { SIGNAL } else { 0 }),
        };
        check_bounds(offset, bytes.len(), to.len as usize)?;
        let base = to.token | u64::from(element) << ELEMENT_SHIFT;
        let (mut offset, mut rest) = (offset, bytes);
        while !rest.is_empty() {
            let room = (BLOCK - offset % BLOCK) as usize;
            let (block, behind) = rest.split_at(rest.len().min(room));
            let signal = if behind.is_empty() { signal } else { 0 };
            self.function
                .store(MOVES, base | signal | u64::from(offset), block)
                .map_err(|_| self.cause_of_refusal(key))?;
            offset += block.len() as u32;
            rest = behind;
        }
        Ok(())
    }

    /// Why the function has refused a move: the peer's device has gone, or the peer has taken the
    /// DMB back.
    fn cause_of_refusal(&mut self, key: Key) -> IsmError {
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

    /// Queues a report for each event that the function has written since the last call.
    pub(super) fn queue_events(&mut self) -> Result<(), IsmError> {
        if self.summary.take_any()? && self.summary.take_event()? {
            // The function takes the cleared bit as a sign that all events were read.
            while let Some(event) = self.events.next()? {
                self.reports.push_back(IsmReport::Event(event));
            }
        }
        Ok(())
    }

    /// Takes the next signal that a peer has given: for which DMB and elements, with the CDC message
    /// at the head of the first element.
    pub(super) fn next_signal(&mut self) -> Result<Option<IsmReport>, IsmError> {
        while let Some((place, mask)) = self.summary.take_place()? {
            let index = place.wrapping_sub(PLACES.start);
            // A mask of 0 was reported with an earlier signal, as it is taken after the bit.
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

    /// Checks that the device is on a VLAN.
    ///
    /// # Errors
    /// [`IsmError::Vlan`] if it is not.
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
        // A function that refuses these commands cannot be helped.
        let _ = Command::UnregisterEvents.run(&mut self.function);
        let _ = Command::UnregisterSummary.run(&mut self.function);
        let _ = self.function.unmap(self.events.memory(), self.at[1]);
        let _ = self.function.unmap(self.summary.memory(), self.at[0]);
    }
}

/// Maps memory for the function, and returns the address that the function uses for it.
///
/// # Errors
/// [`IsmError::System`]; [`IsmError::Bounds`] if the address is not that of a page, which the
/// function requires.
pub(super) fn map(function: &mut impl PciAccess, memory: &DeviceMemory) -> Result<u64, IsmError> {
    let at = function.map(memory).map_err(|error| system(&error))?;
    if at % u64::from(PAGE) == 0 {
        Ok(at)
    } else {
        Err(IsmError::Bounds)
    }
}

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;
    use crate::device::CDC_LEN;

    const PEER: Gid128 = Gid128 { gid: 2, ext: 0 };
    const TOKEN: u64 = 7 << 32;

    /// A function that executes every command, and keeps a list of the moves: address and length.
    #[derive(Default)]
    struct Recorder(Vec<(u64, usize)>);

    impl PciAccess for Recorder {
        fn store(&mut self, bar: u8, offset: u64, bytes: &[u8]) -> io::Result<()> {
            if bar == MOVES {
                self.0.push((offset, bytes.len()));
            }
            Ok(())
        }

        fn load(&mut self, _: u8, _: u64, into: &mut [u8]) -> io::Result<()> {
            into.fill(0);
            Ok(())
        }

        fn map(&mut self, _: &DeviceMemory) -> io::Result<u64> {
            Ok(u64::from(PAGE))
        }

        fn unmap(&mut self, _: &DeviceMemory, _: u64) -> io::Result<()> {
            Ok(())
        }
    }

    fn attached() -> (Device<Recorder>, RemoteDmb) {
        let mut device = Device::open(Recorder::default(), 0).unwrap();
        let remote = device.attach_dmb(PEER, DmbToken(TOKEN), 4 * PAGE).unwrap();
        (device, remote)
    }

    #[test]
    fn every_message_with_a_signal_is_a_store_with_a_signal() {
        for (offset, stores) in [
            (0, &[(TOKEN | SIGNAL, CDC_LEN)][..]),
            (
                PAGE - 16,
                &[
                    (TOKEN | u64::from(PAGE - 16), 16),
                    (TOKEN | SIGNAL | u64::from(PAGE), CDC_LEN - 16),
                ],
            ),
        ] {
            let (mut device, remote) = attached();
            let cdc = &[1; CDC_LEN];
            let message = Move::Message { cdc, signal: true };
            device.write(remote, 0, offset, message).unwrap();
            assert_eq!(device.function.0, stores);
        }
    }

    #[test]
    fn data_is_stored_without_a_signal_and_no_data_not_at_all() {
        let (mut device, remote) = attached();
        device.write(remote, 1, 0, Move::Data(&[])).unwrap();
        assert_eq!(device.function.0, []);
        let data = [1; PAGE as usize + 1];
        device.write(remote, 1, 0, Move::Data(&data)).unwrap();
        let element = TOKEN | 1 << ELEMENT_SHIFT;
        let blocks = [(element, PAGE as usize), (element | u64::from(PAGE), 1)];
        assert_eq!(device.function.0, blocks);
    }
}
