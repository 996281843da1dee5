//! An RNIC of a host, and the memory of that host.
//!
//! [`issue`](Nic::issue) holds a command of the engine to the contract in
//! `smc_proto::command`; [`done`](Nic::done) executes it and says what to report,
//! [`refused`](Nic::refused) refuses it. When that is, and what becomes of WRITEs and SENDs
//! on their way, is the schedule of the rig that owns the RNIC.

mod contract;
mod numbers;
#[cfg(test)]
mod tests;

use smc_proto::command::{BufferKind, QpAddress, RdmaCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::id::{BufferId, DeviceId, LinkId, WrId};
use smc_proto::wire::types::{Mtu, Psn, Qpn, RKey, RToken};

pub use numbers::Numbers;

use super::memory::{Memory, mark};

/// State of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum QpState {
    /// The queue pair is being created.
    Requested,
    /// INIT.
    Init,
    /// RTR: bound to the peer's.
    Rtr,
    /// RTS.
    Rts,
    /// Drained.
    Error,
}

/// What a queue pair is bound to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bound {
    /// The peer's queue pair.
    pub peer: QpAddress,
    /// Path MTU.
    pub mtu: Mtu,
    /// Hop limit of the packets.
    pub hop_limit: u8,
}

/// A queue pair. `W` is what a rig keeps of the work on it.
#[derive(Clone, Debug)]
pub struct QueuePair<W> {
    /// The link that owns it.
    pub link: LinkId,
    /// RNIC of the queue pair.
    pub device: DeviceId,
    /// Number of the queue pair, once it is made.
    pub qpn: Qpn,
    /// How many queue pairs its host had made when it was made, itself included; 0 before.
    pub serial: u32,
    /// State of the queue pair.
    pub state: QpState,
    /// What it is bound to.
    pub bound: Option<Bound>,
    /// First packet sequence number, once it is in RTS.
    pub psn: Option<Psn>,
    /// Bytes of its receives.
    pub receive_size: u32,
    /// What the rig keeps of its work.
    pub work: W,
    /// A control command is in progress.
    busy: bool,
    /// Number of the next SEND, and of the first one that was not reported.
    next: u32,
    unreported: u32,
}

/// A buffer, without its memory.
#[derive(Clone, Debug)]
pub struct Buffer {
    /// Handle of the buffer.
    pub id: BufferId,
    /// What it is for.
    pub kind: BufferKind,
    /// How many buffers its host had made when it was made, itself included.
    pub serial: u32,
    /// Number of its elements.
    pub elements: u8,
    /// Bytes of each element.
    pub element_size: u32,
    /// Whether it was asked for with eye catchers.
    pub eye_catcher: bool,
    /// Links on whose protection domains it is registered, and what the peer writes to it by.
    pub registrations: Vec<(LinkId, RToken)>,
    /// The memory of the buffer was provided.
    present: bool,
    /// A control command is in progress.
    busy: bool,
}

impl Buffer {
    /// Links on whose protection domains it is registered.
    pub fn links(&self) -> impl Iterator<Item = LinkId> + '_ {
        self.registrations.iter().map(|(link, _)| *link)
    }

    /// Whether it is registered on the protection domain of a link.
    #[must_use]
    pub fn is_registered_on(&self, link: LinkId) -> bool {
        self.links().any(|on| on == link)
    }
}

/// Queue pairs and buffers of a host, in tables as long as the engine's.
#[derive(Clone, Debug, Default)]
pub struct Nic<M = (), W = ()> {
    numbers: Numbers,
    qps: Vec<Option<QueuePair<W>>>,
    buffers: Vec<Option<Buffer>>,
    /// Memory of each buffer, by its index.
    pub memory: Vec<M>,
    /// Whether new buffers have no memory.
    pub bare: bool,
    /// Queue pairs, buffers and registrations made so far.
    made: [u32; 3],
}

impl<M: Memory, W: Clone + Default> Nic<M, W> {
    /// An RNIC that numbers its queue pairs and registrations so.
    #[must_use]
    pub fn new(numbers: Numbers) -> Self {
        Self {
            numbers,
            qps: Vec::new(),
            buffers: Vec::new(),
            memory: Vec::new(),
            bare: false,
            made: [0; 3],
        }
    }

    /// Queue pairs made so far.
    #[must_use]
    pub const fn queue_pairs_made(&self) -> u32 {
        self.made[0]
    }

    /// The queue pair of a link.
    #[must_use]
    pub fn qp(&self, link: LinkId) -> Option<&QueuePair<W>> {
        let qp = self.qps.get(link.index() as usize)?.as_ref()?;
        (qp.link == link).then_some(qp)
    }

    /// The queue pair of a link, to be changed.
    pub fn qp_mut(&mut self, link: LinkId) -> Option<&mut QueuePair<W>> {
        let qp = self.qps.get_mut(link.index() as usize)?.as_mut()?;
        (qp.link == link).then_some(qp)
    }

    /// The queue pair of this number.
    #[must_use]
    pub fn numbered(&self, qpn: Qpn) -> Option<&QueuePair<W>> {
        let made = |qp: &&QueuePair<W>| qp.state != QpState::Requested;
        self.qps().filter(made).find(|qp| qp.qpn == qpn)
    }

    /// All queue pairs, by the index of their links.
    pub fn qps(&self) -> impl Iterator<Item = &QueuePair<W>> + Clone {
        self.qps.iter().flatten()
    }

    /// All queue pairs, to be changed.
    pub fn qps_mut(&mut self) -> impl Iterator<Item = &mut QueuePair<W>> {
        self.qps.iter_mut().flatten()
    }

    /// A buffer.
    #[must_use]
    pub fn buffer(&self, buffer: BufferId) -> Option<&Buffer> {
        let found = self.buffers.get(buffer.index() as usize)?.as_ref()?;
        (found.id == buffer).then_some(found)
    }

    fn buffer_mut(&mut self, buffer: BufferId) -> Option<&mut Buffer> {
        let found = self.buffers.get_mut(buffer.index() as usize)?.as_mut()?;
        (found.id == buffer).then_some(found)
    }

    /// All buffers, by their index.
    pub fn buffers(&self) -> impl Iterator<Item = &Buffer> + Clone {
        self.buffers.iter().flatten()
    }

    /// The buffer that a key names on a link, and the address of its first byte.
    #[must_use]
    pub fn registered(&self, link: LinkId, rkey: RKey) -> Option<(&Buffer, u64)> {
        let all = self
            .buffers()
            .flat_map(|b| b.registrations.iter().map(move |at| (b, at)));
        let mut named = all.filter(|(_, (on, rtoken))| (*on, rtoken.rkey) == (link, rkey));
        named
            .next()
            .map(|(buffer, (_, rtoken))| (buffer, rtoken.address))
    }

    /// Memory of a buffer that is there.
    #[must_use]
    pub fn memory_of(&mut self, buffer: BufferId) -> Option<&mut M> {
        self.buffer(buffer)?;
        self.memory.get_mut(buffer.index() as usize)
    }

    /// Whether everything was given back.
    ///
    /// # Errors
    /// What was not.
    pub fn is_empty(&self) -> Result<(), String> {
        let links: Vec<_> = self.qps().map(|qp| (qp.link, qp.state)).collect();
        let buffers: Vec<_> = self.buffers().map(|b| (b.id, &b.registrations)).collect();
        match links.is_empty() && buffers.is_empty() {
            true => Ok(()),
            false => Err(format!("{links:?} {buffers:?}")),
        }
    }

    /// Checks a command and executes it at once: what to report, if there is anything.
    ///
    /// # Panics
    /// If the engine breaks the contract.
    #[track_caller]
    pub fn execute(&mut self, command: &RdmaCommand) -> Option<RdmaCompletion<'static>> {
        if let Err(breach) = self.issue(command) {
            panic!("{breach}");
        }
        self.done(command)
    }

    /// Executes a command: what to report, if there is anything. Of an object that is not
    /// there any command is executed, too: nothing is left of it then.
    pub fn done(&mut self, command: &RdmaCommand) -> Option<RdmaCompletion<'static>> {
        Some(match *command {
            RdmaCommand::CreateQp { link, .. } => {
                self.add_qp(command);
                self.made[0] += 1;
                let serial = self.made[0];
                let qpn = Qpn::new((self.numbers.qpn)(self.numbers.first, serial, link));
                let qp = self.finished(link, QpState::Init)?;
                (qp.serial, qp.qpn) = (serial, qpn);
                RdmaCompletion::QpCreated { link, qpn }
            }
            RdmaCommand::ConnectQp {
                link,
                peer,
                mtu,
                hop_limit,
            } => {
                if let Some(qp) = self.finished(link, QpState::Rtr) {
                    qp.bound = Some(Bound {
                        peer,
                        mtu,
                        hop_limit,
                    });
                }
                RdmaCompletion::QpConnected { link }
            }
            RdmaCommand::ActivateQp { link, psn } => {
                if let Some(qp) = self.finished(link, QpState::Rts) {
                    qp.psn = Some(psn);
                }
                RdmaCompletion::QpActive { link }
            }
            RdmaCommand::QpToError { link } => {
                self.finished(link, QpState::Error);
                RdmaCompletion::QpDrained { link }
            }
            RdmaCommand::DestroyQp { link } => {
                self.remove_qp(link);
                RdmaCompletion::QpDestroyed { link }
            }
            RdmaCommand::AllocBuffer { buffer, .. } => {
                self.add_buffer(command);
                if let Some(b) = self.buffer_mut(buffer) {
                    (b.present, b.busy) = (true, false);
                }
                RdmaCompletion::BufferAllocated { buffer }
            }
            RdmaCommand::RegisterBuffer { buffer, link } => {
                self.made[2] += 1;
                let rtoken = (self.numbers.rtoken)(self.made[2], self.buffer(buffer), buffer, link);
                if let Some(b) = self.buffer_mut(buffer) {
                    b.busy = false;
                    b.registrations.push((link, rtoken));
                }
                RdmaCompletion::BufferRegistered {
                    buffer,
                    link,
                    rtoken,
                }
            }
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                if let Some(b) = self.buffer_mut(buffer) {
                    b.busy = false;
                    b.registrations.retain(|(on, _)| *on != link);
                }
                RdmaCompletion::BufferDeregistered { buffer, link }
            }
            RdmaCommand::FreeBuffer { buffer } => {
                self.remove_buffer(buffer);
                RdmaCompletion::BufferFreed { buffer }
            }
            RdmaCommand::ClearElement {
                buffer,
                offset,
                length,
                eye_catcher,
            } => {
                if let Some(b) = self.buffer_mut(buffer) {
                    b.busy = false;
                }
                if self.buffer(buffer).is_some() && !self.bare {
                    let at = offset as usize;
                    let memory = &mut self.memory[buffer.index() as usize];
                    memory.clear(at..at + length as usize);
                    if eye_catcher {
                        mark(memory, at);
                    }
                }
                RdmaCompletion::ElementCleared { buffer, offset }
            }
            RdmaCommand::Send { link, wr_id, .. } | RdmaCommand::SendLarge { link, wr_id, .. } => {
                // What was posted before a failure is flushed with it.
                self.qp(link).filter(|qp| qp.state == QpState::Rts)?;
                self.sent(link, wr_id);
                RdmaCompletion::Sent { link, wr_id }
            }
            RdmaCommand::Write { .. } => return None,
        })
    }

    /// Refuses a command: what to report, if there is anything. What cannot be undone counts
    /// as gone.
    pub fn refused(&mut self, command: &RdmaCommand) -> Option<RdmaCompletion<'static>> {
        Some(match *command {
            RdmaCommand::CreateQp { link, .. } => {
                self.remove_qp(link);
                RdmaCompletion::LinkRefused { link }
            }
            RdmaCommand::ConnectQp { link, .. } | RdmaCommand::ActivateQp { link, .. } => {
                if let Some(qp) = self.qp_mut(link) {
                    qp.busy = false;
                }
                RdmaCompletion::LinkRefused { link }
            }
            RdmaCommand::QpToError { link } | RdmaCommand::DestroyQp { link } => {
                self.done(command);
                RdmaCompletion::LinkRefused { link }
            }
            RdmaCommand::AllocBuffer { buffer, .. } => {
                self.remove_buffer(buffer);
                RdmaCompletion::BufferRefused { buffer }
            }
            RdmaCommand::RegisterBuffer { buffer, .. }
            | RdmaCommand::ClearElement { buffer, .. } => {
                if let Some(b) = self.buffer_mut(buffer) {
                    b.busy = false;
                }
                RdmaCompletion::BufferRefused { buffer }
            }
            RdmaCommand::DeregisterBuffer { buffer, .. } | RdmaCommand::FreeBuffer { buffer } => {
                self.done(command);
                RdmaCompletion::BufferRefused { buffer }
            }
            RdmaCommand::Write { .. }
            | RdmaCommand::Send { .. }
            | RdmaCommand::SendLarge { .. } => return None,
        })
    }

    /// A SEND is reported, and with it all before it on its link.
    pub fn sent(&mut self, link: LinkId, wr_id: WrId) {
        if let Some(qp) = self.qp_mut(link)
            && (qp.unreported..qp.next).contains(&wr_id.0)
        {
            qp.unreported = wr_id.0 + 1;
        }
    }

    /// A control command of a queue pair ended, which is in this state now.
    fn finished(&mut self, link: LinkId, state: QpState) -> Option<&mut QueuePair<W>> {
        let qp = self.qp_mut(link)?;
        (qp.state, qp.busy) = (state, false);
        Some(qp)
    }

    /// Makes a queue pair, unless it is there.
    fn add_qp(&mut self, command: &RdmaCommand) {
        let RdmaCommand::CreateQp {
            link,
            device,
            receive_size,
            ..
        } = *command
        else {
            return;
        };
        if self.qp(link).is_some() {
            return;
        }
        let qp = QueuePair {
            link,
            device,
            qpn: Qpn::default(),
            serial: 0,
            state: QpState::Requested,
            bound: None,
            psn: None,
            receive_size,
            work: W::default(),
            busy: true,
            next: 0,
            unreported: 0,
        };
        let index = link.index() as usize;
        if self.qps.len() <= index {
            self.qps.resize(index + 1, None);
        }
        self.qps[index] = Some(qp);
    }

    fn remove_qp(&mut self, link: LinkId) {
        if self.qp(link).is_some() {
            self.qps[link.index() as usize] = None;
        }
    }

    /// Makes a buffer with its memory, unless it is there.
    fn add_buffer(&mut self, command: &RdmaCommand) {
        let RdmaCommand::AllocBuffer {
            buffer,
            kind,
            elements,
            element_size,
            eye_catcher,
        } = *command
        else {
            return;
        };
        if self.buffer(buffer).is_some() {
            return;
        }
        self.made[1] += 1;
        let index = buffer.index() as usize;
        if self.buffers.len() <= index {
            self.buffers.resize(index + 1, None);
            self.memory.resize(index + 1, M::default());
        }
        self.buffers[index] = Some(Buffer {
            id: buffer,
            kind,
            serial: self.made[1],
            elements,
            element_size,
            eye_catcher,
            registrations: Vec::new(),
            present: false,
            busy: true,
        });
        if self.bare {
            return;
        }
        let size = element_size as usize;
        let mut memory = M::zeros(usize::from(elements) * size);
        if eye_catcher {
            for element in 0..usize::from(elements) {
                mark(&mut memory, element * size);
            }
        }
        self.memory[index] = memory;
    }

    fn remove_buffer(&mut self, buffer: BufferId) {
        if self.buffer(buffer).is_some() {
            let index = buffer.index() as usize;
            self.buffers[index] = None;
            self.memory[index] = M::default();
        }
    }
}
