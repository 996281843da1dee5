//! What an RNIC may rely on, checked at every command.

use core::fmt::Debug;

use smc_proto::command::{BufferKind, RdmaCommand};
use smc_proto::id::{BufferId, LinkId, WrId};

use super::{Buffer, Nic, QpState, QueuePair};
use crate::rig::memory::Memory;

/// Most SENDs that an RNIC must hold for one link.
const SENDS: u32 = 16;

/// Whether the contract allows it.
fn want(allowed: bool, what: &str, of: impl Debug) -> Result<(), String> {
    match allowed {
        true => Ok(()),
        false => Err(format!("contract broken, {what}: {of:?}")),
    }
}

impl<M: Memory, W: Clone + Default> Nic<M, W> {
    /// Checks that a command is one that the RNIC can execute now, and that its object has
    /// none in progress. From here on it has, until the command is [`done`](Self::done) or
    /// [`refused`](Self::refused).
    ///
    /// # Errors
    /// What of the contract the engine breaks.
    pub fn issue(&mut self, command: &RdmaCommand) -> Result<(), String> {
        match *command {
            RdmaCommand::CreateQp { link, .. } => {
                let slot = self.qps.get(link.index() as usize);
                want(slot.is_none_or(Option::is_none), "it exists", command)?;
                self.add_qp(command);
            }
            RdmaCommand::ConnectQp { link, .. } => {
                self.control(link, QpState::Init, "not INIT", command)?;
            }
            RdmaCommand::ActivateQp { link, .. } => {
                self.control(link, QpState::Rtr, "not RTR", command)?;
            }
            RdmaCommand::QpToError { link } => {
                let state = self.existing(link, command)?.state;
                let up = (QpState::Init..=QpState::Rts).contains(&state);
                want(up, "nothing to drain", command)?;
                self.control(link, state, "", command)?;
            }
            RdmaCommand::DestroyQp { link } => {
                let registered = self.buffers().any(|b| b.is_registered_on(link));
                want(!registered, "buffers are registered", command)?;
                self.control(link, QpState::Error, "not drained", command)?;
            }
            RdmaCommand::AllocBuffer {
                buffer,
                kind,
                elements,
                ..
            } => {
                let slot = self.buffers.get(buffer.index() as usize);
                want(slot.is_none_or(Option::is_none), "it exists", command)?;
                let right = elements >= 1 && (kind == BufferKind::Rmb || elements == 1);
                want(right, "so many elements", command)?;
                self.add_buffer(command);
            }
            RdmaCommand::RegisterBuffer { buffer, link } => {
                let state = self.existing(link, command)?.state;
                let up = (QpState::Init..QpState::Error).contains(&state);
                want(up, "no queue pair", command)?;
                let b = self.idle(buffer, command)?;
                want(!b.is_registered_on(link), "registered", command)?;
                b.busy = true;
            }
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                self.existing(link, command)?;
                let b = self.idle(buffer, command)?;
                want(b.is_registered_on(link), "not registered", command)?;
                b.busy = true;
            }
            RdmaCommand::FreeBuffer { buffer } => {
                let b = self.idle(buffer, command)?;
                want(b.registrations.is_empty(), "still registered", command)?;
                b.busy = true;
            }
            RdmaCommand::ClearElement {
                buffer,
                offset,
                length,
                ..
            } => {
                let b = self.idle(buffer, command)?;
                let one = length == b.element_size
                    && offset.is_multiple_of(length)
                    && offset / length < u32::from(b.elements);
                want(one, "not one element", command)?;
                b.busy = true;
            }
            RdmaCommand::Write {
                link,
                buffer,
                source,
                ..
            } => {
                self.ready(link, command)?;
                let found = self.buffer(buffer).filter(|b| b.present);
                let found = found.filter(|b| b.kind == BufferKind::Send);
                want(found.is_some(), "no such memory", command)?;
                let on_link = found.is_some_and(|b| b.is_registered_on(link));
                want(on_link, "not registered", command)?;
                want(source[0].length > 0, "of nothing", command)?;
                let size = found.map_or(0, |b| b.element_size);
                let mut ends = source.iter().map(|at| at.offset.checked_add(at.length));
                let inside = ends.all(|end| end.is_some_and(|end| end <= size));
                want(inside, "not in the buffer", command)?;
            }
            RdmaCommand::Send { link, wr_id, .. } | RdmaCommand::SendLarge { link, wr_id, .. } => {
                let qp = self.ready(link, command)?;
                want(wr_id == WrId(qp.next), "out of order", command)?;
                qp.next += 1;
                want(qp.next - qp.unreported <= SENDS, "too many", command)?;
            }
        }
        Ok(())
    }

    fn existing(
        &mut self,
        link: LinkId,
        command: &RdmaCommand,
    ) -> Result<&mut QueuePair<W>, String> {
        let broken = || format!("contract broken, no queue pair: {command:?}");
        self.qp_mut(link).ok_or_else(broken)
    }

    /// A control command for a queue pair in this state, with none in progress.
    fn control(
        &mut self,
        link: LinkId,
        state: QpState,
        what: &str,
        command: &RdmaCommand,
    ) -> Result<(), String> {
        let qp = self.existing(link, command)?;
        want(qp.state == state, what, command)?;
        want(!qp.busy, "another command is in progress", command)?;
        qp.busy = true;
        Ok(())
    }

    /// A queue pair that takes work.
    fn ready(&mut self, link: LinkId, command: &RdmaCommand) -> Result<&mut QueuePair<W>, String> {
        let qp = self.existing(link, command)?;
        want(qp.state == QpState::Rts, "not RTS", command)?;
        want(!qp.busy, "it is being drained", command)?;
        Ok(qp)
    }

    /// A buffer whose memory is there, with no command in progress.
    fn idle(&mut self, buffer: BufferId, command: &RdmaCommand) -> Result<&mut Buffer, String> {
        let broken = || format!("contract broken, no such memory: {command:?}");
        let b = self.buffer_mut(buffer).ok_or_else(broken)?;
        want(b.present, "no memory yet", command)?;
        want(!b.busy, "another command is in progress", command)?;
        Ok(b)
    }
}
