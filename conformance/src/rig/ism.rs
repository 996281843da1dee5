//! An ISM device of a host.
//!
//! [`check`](Ism::check) holds a command of the engine to the contract in
//! `smc_proto::command`, [`done`](Ism::done) executes it and says what to report. Moves,
//! signals and events are carried by the rig that owns the device.

use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;
use smc_proto::id::BufferId;
use smc_proto::wire::types::DmbToken;

use super::memory::Memory;

#[cfg(test)]
mod tests;

/// A DMB.
#[derive(Clone, Debug)]
pub struct Dmb<M> {
    /// Handle of the DMB.
    pub buffer: BufferId,
    /// Token of the DMB.
    pub token: DmbToken,
    /// Bytes of the DMB.
    pub memory: M,
}

/// Memory to move from: one of its own, or a mapping of the peer's DMB.
#[derive(Clone, Debug)]
pub struct Source<M> {
    /// Handle of the memory.
    pub buffer: BufferId,
    /// Bytes of the memory.
    pub memory: M,
}

/// What a send buffer is attached to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attached {
    /// The send buffer.
    pub buffer: BufferId,
    /// The peer's DMB.
    pub token: DmbToken,
    /// Whether the send buffer is that DMB itself.
    pub map: bool,
}

/// An ISM device.
#[derive(Clone, Debug, Default)]
pub struct Ism<M = ()> {
    /// DMBs in the order of their registration.
    pub dmbs: Vec<Dmb<M>>,
    /// Memory to move from.
    pub sources: Vec<Source<M>>,
    /// Bindings in the order in which they came about.
    pub attached: Vec<Attached>,
    last: u64,
}

impl<M: Memory> Ism<M> {
    /// A device whose first DMB has the token after this one.
    #[must_use]
    pub const fn new(before: u64) -> Self {
        Self {
            dmbs: Vec::new(),
            sources: Vec::new(),
            attached: Vec::new(),
            last: before,
        }
    }

    /// A DMB.
    #[must_use]
    pub fn dmb(&self, buffer: BufferId) -> Option<&Dmb<M>> {
        self.dmbs.iter().find(|dmb| dmb.buffer == buffer)
    }

    /// The DMB that a token names.
    pub fn named(&mut self, token: DmbToken) -> Option<&mut Dmb<M>> {
        self.dmbs.iter_mut().find(|dmb| dmb.token == token)
    }

    /// Memory of a DMB, or memory to move from.
    pub fn memory_of(&mut self, buffer: BufferId) -> Option<&mut M> {
        let dmbs = self.dmbs.iter_mut().map(|at| (at.buffer, &mut at.memory));
        let sources = self.sources.iter_mut();
        let sources = sources.map(|at| (at.buffer, &mut at.memory));
        let mut all = dmbs.chain(sources).filter(|(of, _)| *of == buffer);
        all.next().map(|(_, memory)| memory)
    }

    /// What a send buffer is attached to.
    #[must_use]
    pub fn attached(&self, buffer: BufferId) -> Option<Attached> {
        let mut attached = self.attached.iter();
        attached.find(|at| at.buffer == buffer).copied()
    }

    /// Whether everything was given back.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.dmbs.is_empty() && self.sources.is_empty() && self.attached.is_empty()
    }

    /// Checks that a command is one that the device can execute now.
    ///
    /// # Errors
    /// What of the contract the engine breaks.
    pub fn check(&self, command: &IsmCommand) -> Result<(), &'static str> {
        let is_dmb = |buffer| self.dmb(buffer).is_some();
        let is_source = |buffer| self.sources.iter().any(|at| at.buffer == buffer);
        let is_attached = |buffer| self.attached(buffer).is_some();
        let wrong = match *command {
            IsmCommand::RegisterDmb { buffer, .. } => {
                is_dmb(buffer).then_some("a DMB is registered twice")
            }
            IsmCommand::UnregisterDmb { buffer } | IsmCommand::ClearDmb { buffer } => {
                (!is_dmb(buffer)).then_some("the device has no such DMB")
            }
            IsmCommand::AllocBuffer { buffer, .. } => {
                is_source(buffer).then_some("memory is provided twice")
            }
            IsmCommand::FreeBuffer { buffer } => match is_source(buffer) {
                true => is_attached(buffer).then_some("memory is freed while it is attached"),
                false => Some("the device has no such memory"),
            },
            IsmCommand::AttachDmb { buffer, map, .. } => {
                let free = !is_attached(buffer) && is_source(buffer) != map;
                (!free).then_some("a binding of what is attached, or not there")
            }
            IsmCommand::DetachDmb { buffer, .. }
            | IsmCommand::Move { buffer, .. }
            | IsmCommand::Signal { buffer, .. } => {
                (!is_attached(buffer)).then_some("the buffer is attached to nothing")
            }
            IsmCommand::SignalEvent { .. } => None,
        };
        wrong.map_or(Ok(()), Err)
    }

    /// Executes a command: what to report, if there is anything.
    pub fn done(&mut self, command: &IsmCommand) -> Option<IsmCompletion> {
        Some(match *command {
            IsmCommand::RegisterDmb { buffer, length, .. } => {
                self.last += 1;
                let token = DmbToken(self.last);
                self.dmbs.push(Dmb {
                    buffer,
                    token,
                    memory: M::zeros(length as usize),
                });
                IsmCompletion::DmbRegistered { buffer, token }
            }
            IsmCommand::UnregisterDmb { buffer } => {
                self.dmbs.retain(|dmb| dmb.buffer != buffer);
                IsmCompletion::DmbUnregistered { buffer }
            }
            IsmCommand::ClearDmb { buffer } => {
                for dmb in self.dmbs.iter_mut().filter(|dmb| dmb.buffer == buffer) {
                    dmb.memory.clear_all();
                }
                IsmCompletion::DmbCleared { buffer }
            }
            IsmCommand::AllocBuffer { buffer, length } => {
                self.provide(buffer, length);
                IsmCompletion::BufferAllocated { buffer }
            }
            IsmCommand::FreeBuffer { buffer } => {
                self.sources.retain(|at| at.buffer != buffer);
                IsmCompletion::BufferFreed { buffer }
            }
            IsmCommand::AttachDmb {
                buffer,
                token,
                length,
                map,
                ..
            } => {
                if map {
                    self.provide(buffer, length);
                }
                self.attached.push(Attached { buffer, token, map });
                IsmCompletion::DmbAttached { buffer }
            }
            IsmCommand::DetachDmb { buffer, .. } => {
                if self.attached(buffer).is_some_and(|at| at.map) {
                    self.sources.retain(|at| at.buffer != buffer);
                }
                self.attached.retain(|at| at.buffer != buffer);
                IsmCompletion::DmbDetached { buffer }
            }
            IsmCommand::Move { .. }
            | IsmCommand::Signal { .. }
            | IsmCommand::SignalEvent { .. } => return None,
        })
    }

    fn provide(&mut self, buffer: BufferId, length: u32) {
        let memory = M::zeros(length as usize);
        self.sources.push(Source { buffer, memory });
    }
}

/// The refusal of a command, if it is one that provides something: it may be refused, or take
/// its time, and the engine goes on without.
#[must_use]
pub const fn refusal(command: &IsmCommand) -> Option<IsmCompletion> {
    match *command {
        IsmCommand::RegisterDmb { buffer, .. }
        | IsmCommand::ClearDmb { buffer }
        | IsmCommand::AllocBuffer { buffer, .. }
        | IsmCommand::AttachDmb { buffer, .. } => Some(IsmCompletion::Refused { buffer }),
        _ => None,
    }
}
