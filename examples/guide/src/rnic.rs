//! An RNIC that is nothing but memory: what hardware does, in arrays.
//!
//! The engine asks for queue pairs, memory and registrations by the methods of
//! [`adapter::Rnic`], and this RNIC refuses what hardware refuses: memory that is not registered,
//! keys that were not given out, bytes outside of a region, work on a queue pair that is not
//! connected.

use core::fmt;

use smc_proto::adapter::{self, Answer, Refused};
use smc_proto::command::{BufferKind, BufferSpans, QpAddress, Segment};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::{BufferId, DeviceId, LinkId, WrId};
use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{Mtu, Psn, Qpn, RKey, RToken};

/// The only RNIC of a host.
pub const DEVICE: DeviceId = DeviceId(0);

/// Most buffers, as the engine's tables have room for.
pub const BUFFERS: usize = 4;
/// Most links, likewise.
pub const LINKS: usize = 2;
/// Bytes of each buffer.
pub const SIZE: usize = 16 << 10;
/// Messages that may wait to be reported.
const RECEIVES: usize = 4;

/// One RNIC, and the memory that it reads and writes.
pub struct Rnic {
    memory: [[u8; SIZE]; BUFFERS],
    kinds: [Option<BufferKind>; BUFFERS],
    queue_pairs: [Option<QueuePair>; LINKS],
    regions: [[Option<RKey>; LINKS]; BUFFERS],
    receives: Receives,
    /// Numbers of queue pairs, and keys: no number is given out twice.
    next: u32,
}

/// Messages that arrived, in order.
struct Receives {
    ring: [Option<(LinkId, [u8; 44])>; RECEIVES],
    first: usize,
    count: usize,
}

impl Receives {
    const fn is_full(&self) -> bool {
        self.count == RECEIVES
    }

    fn put(&mut self, link: LinkId, payload: [u8; 44]) {
        self.ring[(self.first + self.count) % RECEIVES] = Some((link, payload));
        self.count += 1;
    }

    /// The oldest one, which stays where it is until the next message takes its place.
    fn take(&mut self) -> Option<&(LinkId, [u8; 44])> {
        let at = self.first;
        self.count = self.count.checked_sub(1)?;
        self.first = (at + 1) % RECEIVES;
        self.ring[at].as_ref()
    }
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
            receives: Receives {
                ring: [None; RECEIVES],
                first: 0,
                count: 0,
            },
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

/// What a [`World`](crate::host::World) reports: who did what.
pub type Report<'a> = &'a mut dyn FnMut(&str, fmt::Arguments<'_>);

/// The RNIC of a host, and the cable to another one.
pub struct Cable<'a> {
    /// Name of the host, for reports.
    pub name: &'static str,
    /// RNIC of the host.
    pub near: &'a mut Rnic,
    /// The RNIC at the other end.
    pub far: &'a mut Rnic,
    /// Called for what is reported.
    pub report: Report<'a>,
}

impl adapter::Rnic for Cable<'_> {
    fn device(&self) -> DeviceId {
        DEVICE
    }

    fn create_qp(&mut self, link: LinkId, _: u8, _: u16, _: u32) -> Answer<Qpn> {
        let qpn = Qpn::new(self.near.draw());
        let Some(place) = self.near.queue_pairs.get_mut(link.index() as usize) else {
            return Answer::Failed(Refused);
        };
        *place = Some(QueuePair {
            link,
            qpn,
            peer: None,
            active: false,
        });
        Answer::Done(qpn)
    }

    fn connect_qp(&mut self, link: LinkId, peer: QpAddress, _: Mtu, _: u8) -> Answer {
        let queue_pair = self.near.queue_pair(link);
        queue_pair.map(|qp| qp.peer = Some(peer)).into()
    }

    fn activate_qp(&mut self, link: LinkId, _: Psn) -> Answer {
        let queue_pair = self.near.queue_pair(link).filter(|qp| qp.peer.is_some());
        queue_pair.map(|qp| qp.active = true).into()
    }

    fn drain_qp(&mut self, link: LinkId) -> Answer {
        self.near
            .queue_pair(link)
            .map(|qp| qp.active = false)
            .into()
    }

    fn destroy_qp(&mut self, link: LinkId) -> Answer {
        self.near.queue_pairs[link.index() as usize] = None;
        Answer::Done(())
    }

    fn alloc_buffer(
        &mut self,
        buffer: BufferId,
        kind: BufferKind,
        elements: u8,
        element_size: u32,
        _: bool,
    ) -> Answer {
        let index = buffer.index() as usize;
        if index >= BUFFERS || usize::from(elements) * element_size as usize != SIZE {
            return Answer::Failed(Refused);
        }
        self.near.memory[index].fill(0);
        self.near.kinds[index] = Some(kind);
        Answer::Done(())
    }

    fn register_buffer(&mut self, buffer: BufferId, link: LinkId) -> Answer<RToken> {
        let rkey = RKey(self.near.draw());
        self.near.regions[buffer.index() as usize][link.index() as usize] = Some(rkey);
        // Addresses of a region count from 0 here; with hardware they are pointers.
        Answer::Done(RToken { rkey, address: 0 })
    }

    fn deregister_buffer(&mut self, buffer: BufferId, link: LinkId) -> Answer {
        self.near.regions[buffer.index() as usize][link.index() as usize] = None;
        Answer::Done(())
    }

    fn free_buffer(&mut self, buffer: BufferId) -> Answer {
        self.near.kinds[buffer.index() as usize] = None;
        Answer::Done(())
    }

    fn clear_element(&mut self, buffer: BufferId, offset: u32, length: u32, _: bool) -> Answer {
        let memory = &mut self.near.memory[buffer.index() as usize];
        memory[offset as usize..][..length as usize].fill(0);
        Answer::Done(())
    }

    fn write(
        &mut self,
        link: LinkId,
        buffer: BufferId,
        source: [Segment; 2],
        target: RToken,
    ) -> Result<(), LinkFailure> {
        let (near, far) = (&mut *self.near, &mut *self.far);
        let length = source[0].length + source[1].length;
        (self.report)(self.name, format_args!("RDMA WRITE of {length} bytes"));
        let there = near.other_end(far, link)?;
        let is_named =
            |row: &[Option<RKey>; LINKS]| row[there.index() as usize] == Some(target.rkey);
        let row = far.regions.iter().position(is_named);
        let row = row.filter(|row| far.kinds[*row] == Some(BufferKind::Rmb));
        let memory = &mut far.memory[row.ok_or(LinkFailure::RemoteAccess)?];
        let mut at = target.address as usize;
        for piece in source {
            let bytes = near.memory[buffer.index() as usize]
                .get(piece.offset as usize..)
                .and_then(|rest| rest.get(..piece.length as usize));
            let bytes = bytes.ok_or(LinkFailure::Other)?;
            let place = memory
                .get_mut(at..)
                .and_then(|rest| rest.get_mut(..bytes.len()));
            place
                .ok_or(LinkFailure::RemoteAccess)?
                .copy_from_slice(bytes);
            at += bytes.len();
        }
        Ok(())
    }

    fn send(&mut self, link: LinkId, _: WrId, payload: &[u8; 44]) -> Answer<(), LinkFailure> {
        match LlcMessage::parse(payload, SmcVersion::V1) {
            Ok(message) => (self.report)(self.name, format_args!("{message}")),
            Err(_) => (self.report)(self.name, format_args!("CDC message")),
        }
        let there = self.near.other_end(self.far, link);
        there
            .map(|there| self.far.receives.put(there, *payload))
            .into()
    }

    fn poll_completion(&mut self) -> Option<RdmaCompletion<'_>> {
        let (link, payload) = self.near.receives.take()?;
        Some(RdmaCompletion::Received {
            link: *link,
            payload,
        })
    }

    fn has_room(&self) -> bool {
        !self.far.receives.is_full()
    }
}
