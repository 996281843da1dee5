//! [`IsmDevice`] for [`Device`], the driver of an ISM PCI function. The protocol engine's adapter
//! calls the device by that trait alone.

use super::access::{DeviceMemory, PciAccess};
use super::command::{Command, gid, refusal};
use super::function::{Attached, Device, Move, OwnDmb, map};
use super::summary::PLACES;
use crate::device::{
    Cdc, DeviceFacts, Dmb, DmbToken, EventKind, Gid128, IsmDevice, IsmError, IsmReport,
    MAX_DMB_LEN, RemoteDmb, VlanId, check_cdc_bounds, check_len,
};

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
        // A DMB has to be zeroed when the function gets it, so each one is new memory.
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
        let dmb = Dmb(key);
        self.reports
            .push_back(IsmReport::DmbRegistered { dmb, token });
        Ok(dmb)
    }

    fn unregister_dmb(&mut self, dmb: Dmb) -> Result<(), IsmError> {
        let key = dmb.0;
        let own = self.dmbs.remove(key).ok_or(IsmError::Stale)?;
        // After this command the function no longer writes to the memory. The memory is unmapped
        // even if the command fails.
        let withdrawn = Command::UnregisterDmb { token: own.token.0 }.run(&mut self.function);
        let unmapped = self.function.unmap(&own.memory, own.at);
        if withdrawn.is_err() && unmapped.is_err() {
            // The function may still write to the memory, so it is never freed.
            core::mem::forget(own);
        }
        self.summary.clear(PLACES.start + dmb.index())?;
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
        // The low 32 bits of a move's address are the element, the signal and the offset, so the
        // token has none of them set.
        if token.0 & u64::from(u32::MAX) != 0 || token.0 == 0 {
            return Err(IsmError::Token);
        }
        // The function has no command for attaching. A wrong token makes the first move fail.
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
        Ok(RemoteDmb(key))
    }

    fn detach_dmb(&mut self, remote: RemoteDmb) -> Result<(), IsmError> {
        let key = remote.0;
        self.attached.remove(key).map(|_| ()).ok_or(IsmError::Stale)
    }

    fn query_reach(&mut self, peer: Gid128, vlan: Option<VlanId>) -> bool {
        let is_reachable = |peer| {
            Command::QueryReach { peer, vlan }
                .run(&mut self.function)
                .is_ok()
        };
        gid(peer).is_ok_and(is_reachable)
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
        self.write(remote, element, offset, Move::Data(source))
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
        self.write(remote, element, offset, Move::Message { cdc, signal })
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
        // `next_signal` and `queue_events` fail only for words outside the summary page, and read
        // none of these.
        let mut signal = self.next_signal().unwrap_or_default();
        if signal.is_none() && self.reports.is_empty() {
            let _ = self.queue_events();
            signal = self.next_signal().unwrap_or_default();
        }
        let report = signal.or_else(|| self.reports.pop_front())?;
        if let IsmReport::Event(event) = report
            && event.kind == EventKind::Gid
        {
            // The event says that the peer's GID has gone. Its signals were reported before the
            // event; from now on moves to its DMBs fail.
            let mark_gone = |remote: &mut Attached| remote.gone |= remote.peer == event.token;
            self.attached.for_each(mark_gone);
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
