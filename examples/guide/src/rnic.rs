//! An RNIC that is nothing but memory: what hardware does, in arrays.
//!
//! The engine asks for queue pairs, memory and registrations by [`RdmaCommand`], and this
//! RNIC refuses what hardware refuses: memory that is not registered, keys that were not given
//! out, bytes outside of a region, work on a queue pair that is not connected.

use smc_proto::command::{BufferKind, BufferSpans, QpAddress, RdmaCommand, Segment};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::{BufferId, LinkId};
use smc_proto::wire::types::{Qpn, RKey, RToken};

/// Most buffers, as the engine's tables have room for.
pub const BUFFERS: usize = 4;
/// Most links, likewise.
pub const LINKS: usize = 2;
/// Bytes of each buffer.
pub const SIZE: usize = 16 << 10;

/// One RNIC, and the memory that it reads and writes.
pub struct Rnic {
    memory: [[u8; SIZE]; BUFFERS],
    kinds: [Option<BufferKind>; BUFFERS],
    queue_pairs: [Option<QueuePair>; LINKS],
    regions: [[Option<RKey>; LINKS]; BUFFERS],
    /// Numbers of queue pairs, and keys: no number is given out twice.
    next: u32,
}

#[derive(Clone, Copy)]
struct QueuePair {
    link: LinkId,
    qpn: Qpn,
    /// From state RTR on.
    peer: Option<QpAddress>,
    /// In state RTS.
    active: bool,
}

impl Rnic {
    /// An RNIC whose numbers begin behind this one.
    #[must_use]
    pub const fn new(first: u32) -> Self {
        Self {
            memory: [[0; SIZE]; BUFFERS],
            kinds: [None; BUFFERS],
            queue_pairs: [None; LINKS],
            regions: [[None; LINKS]; BUFFERS],
            next: first,
        }
    }

    fn draw(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    fn queue_pair(&mut self, link: LinkId) -> Option<&mut QueuePair> {
        self.queue_pairs.get_mut(link.index() as usize)?.as_mut()
    }

    /// Executes a control command: its answer. `None`: not a control command.
    pub fn control(&mut self, command: RdmaCommand) -> Option<RdmaCompletion<'static>> {
        Some(match command {
            RdmaCommand::CreateQp { link, .. } => {
                let qpn = Qpn::new(self.draw());
                let (peer, active) = (None, false);
                let Some(place) = self.queue_pairs.get_mut(link.index() as usize) else {
                    return Some(RdmaCompletion::LinkRefused { link });
                };
                *place = Some(QueuePair {
                    link,
                    qpn,
                    peer,
                    active,
                });
                RdmaCompletion::QpCreated { link, qpn }
            }
            RdmaCommand::ConnectQp { link, peer, .. } => match self.queue_pair(link) {
                Some(queue_pair) => {
                    queue_pair.peer = Some(peer);
                    RdmaCompletion::QpConnected { link }
                }
                None => RdmaCompletion::LinkRefused { link },
            },
            RdmaCommand::ActivateQp { link, .. } => match self.queue_pair(link) {
                Some(queue_pair) if queue_pair.peer.is_some() => {
                    queue_pair.active = true;
                    RdmaCompletion::QpActive { link }
                }
                _ => RdmaCompletion::LinkRefused { link },
            },
            RdmaCommand::QpToError { link } => {
                if let Some(queue_pair) = self.queue_pair(link) {
                    queue_pair.active = false;
                }
                RdmaCompletion::QpDrained { link }
            }
            RdmaCommand::DestroyQp { link } => {
                if let Some(place) = self.queue_pairs.get_mut(link.index() as usize) {
                    *place = None;
                }
                RdmaCompletion::QpDestroyed { link }
            }
            RdmaCommand::AllocBuffer {
                buffer,
                kind,
                elements,
                element_size,
                ..
            } => {
                let index = buffer.index() as usize;
                if index >= BUFFERS || usize::from(elements) * element_size as usize != SIZE {
                    return Some(RdmaCompletion::BufferRefused { buffer });
                }
                self.memory[index].fill(0);
                self.kinds[index] = Some(kind);
                RdmaCompletion::BufferAllocated { buffer }
            }
            RdmaCommand::RegisterBuffer { buffer, link } => {
                let rkey = RKey(self.draw());
                let (row, column) = (buffer.index() as usize, link.index() as usize);
                match self
                    .regions
                    .get_mut(row)
                    .and_then(|row| row.get_mut(column))
                {
                    Some(region) => *region = Some(rkey),
                    None => return Some(RdmaCompletion::BufferRefused { buffer }),
                }
                // Addresses of a region count from 0 here; with hardware they are pointers.
                let rtoken = RToken { rkey, address: 0 };
                RdmaCompletion::BufferRegistered {
                    buffer,
                    link,
                    rtoken,
                }
            }
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                self.regions[buffer.index() as usize][link.index() as usize] = None;
                RdmaCompletion::BufferDeregistered { buffer, link }
            }
            RdmaCommand::FreeBuffer { buffer } => {
                self.kinds[buffer.index() as usize] = None;
                self.regions[buffer.index() as usize] = [None; LINKS];
                RdmaCompletion::BufferFreed { buffer }
            }
            RdmaCommand::ClearElement {
                buffer,
                offset,
                length,
                ..
            } => {
                let memory = &mut self.memory[buffer.index() as usize];
                memory[offset as usize..][..length as usize].fill(0);
                RdmaCompletion::ElementCleared { buffer, offset }
            }
            RdmaCommand::Write { .. }
            | RdmaCommand::Send { .. }
            | RdmaCommand::SendLarge { .. } => return None,
        })
    }

    /// The link of `far` that this link is connected to, both ways.
    fn other_end(&mut self, far: &Self, link: LinkId) -> Result<LinkId, LinkFailure> {
        let near = self.queue_pair(link).filter(|queue_pair| queue_pair.active);
        let near = *near.ok_or(LinkFailure::Other)?;
        let mut others = far.queue_pairs.iter().flatten();
        let other = others.find(|other| {
            near.peer.is_some_and(|peer| peer.qpn == other.qpn)
                && other.peer.is_some_and(|peer| peer.qpn == near.qpn)
        });
        other
            .map(|other| other.link)
            .ok_or(LinkFailure::RetriesExhausted)
    }

    /// An RDMA WRITE out of a send buffer into memory that `far` has registered.
    ///
    /// # Errors
    /// What breaks the queue pair.
    pub fn write(
        &mut self,
        far: &mut Self,
        (link, key, address): (LinkId, RKey, u64),
        buffer: BufferId,
        pieces: [Segment; 2],
    ) -> Result<(), LinkFailure> {
        let there = self.other_end(far, link)?;
        let is_named = |row: &[Option<RKey>; LINKS]| row[there.index() as usize] == Some(key);
        let target = far.regions.iter().position(is_named);
        let target = target.filter(|row| far.kinds[*row] == Some(BufferKind::Rmb));
        let memory = &mut far.memory[target.ok_or(LinkFailure::RemoteAccess)?];
        let mut at = address as usize;
        for piece in pieces {
            let source = self.memory[buffer.index() as usize]
                .get(piece.offset as usize..)
                .and_then(|rest| rest.get(..piece.length as usize));
            let source = source.ok_or(LinkFailure::Other)?;
            let place = memory
                .get_mut(at..)
                .and_then(|rest| rest.get_mut(..source.len()));
            place
                .ok_or(LinkFailure::RemoteAccess)?
                .copy_from_slice(source);
            at += source.len();
        }
        Ok(())
    }

    /// A SEND: the link at which it arrives at `far`.
    ///
    /// # Errors
    /// What breaks the queue pair.
    pub fn send(&mut self, far: &Self, link: LinkId) -> Result<LinkId, LinkFailure> {
        self.other_end(far, link)
    }

    /// Copies bytes into free pieces of a send buffer: how many.
    pub fn fill(&mut self, space: &BufferSpans, bytes: &[u8]) -> u32 {
        let memory = &mut self.memory[space.buffer.index() as usize];
        let mut rest = bytes;
        for piece in space.segments {
            let (head, tail) = rest.split_at(rest.len().min(piece.length as usize));
            memory[piece.offset as usize..][..head.len()].copy_from_slice(head);
            rest = tail;
        }
        (bytes.len() - rest.len()) as u32
    }

    /// Copies bytes out of readable pieces of an RMB: how many.
    pub fn take(&self, readable: &BufferSpans, into: &mut [u8]) -> u32 {
        let memory = &self.memory[readable.buffer.index() as usize];
        let mut taken = 0;
        for piece in readable.segments {
            let len = (into.len() - taken).min(piece.length as usize);
            into[taken..][..len].copy_from_slice(&memory[piece.offset as usize..][..len]);
            taken += len;
        }
        taken as u32
    }
}
