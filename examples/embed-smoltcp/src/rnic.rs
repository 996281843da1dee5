//! Two RNICs in memory, and nothing between them.
//!
//! An adapter has libibverbs here, or a driver its hardware. The model
//! implements [`adapter::Rnic`], whose `drive` carries out the engine's commands in order
//! and reports their completions. What it refuses is what hardware refuses: memory that
//! is not registered on the link, keys that were never given out, bytes outside of a
//! region, work on a queue pair that is not connected.

use std::collections::{BTreeMap, VecDeque};

use smc_proto::adapter::{self, Answer, Refused};
use smc_proto::command::{BufferKind, EYE_CATCHER, QpAddress, Segment};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::{BufferId, DeviceId, LinkId, WrId};
use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc::CDC_TYPE;
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{Gid, Mtu, Psn, Qpn, RKey, RToken};

/// The only RNIC of a host.
pub(crate) const DEVICE: DeviceId = DeviceId(0);

#[derive(Debug)]
struct Memory {
    kind: BufferKind,
    bytes: Vec<u8>,
}

/// A registration: memory as one queue pair may reach it.
#[derive(Clone, Copy, Debug)]
struct Region {
    buffer: BufferId,
    link: LinkId,
    address: u64,
}

#[derive(Debug)]
struct QueuePair {
    qpn: Qpn,
    /// Set in state RTR.
    peer: Option<QpAddress>,
    /// In state RTS.
    active: bool,
}

/// One RNIC and the memory it works on.
#[derive(Debug)]
pub(crate) struct Rnic {
    gid: Gid,
    memory: BTreeMap<BufferId, Memory>,
    /// By key. A key names a region on one link only.
    regions: BTreeMap<u32, Region>,
    queue_pairs: BTreeMap<LinkId, QueuePair>,
    /// Messages that arrived, in order.
    received: VecDeque<(LinkId, [u8; 44])>,
    /// The one reported last, whose bytes the engine reads.
    reported: Option<(LinkId, [u8; 44])>,
    /// Next queue pair number and next key.
    next: u32,
    /// RDMA WRITEs and bytes carried out so far.
    pub(crate) writes: u64,
    pub(crate) bytes_written: u64,
}

impl Rnic {
    fn new(gid: Gid, first: u32) -> Self {
        Self {
            gid,
            memory: BTreeMap::new(),
            regions: BTreeMap::new(),
            queue_pairs: BTreeMap::new(),
            received: VecDeque::new(),
            reported: None,
            next: first,
            writes: 0,
            bytes_written: 0,
        }
    }

    /// Memory of a buffer, for the application's bytes.
    ///
    /// With real hardware the peer may write into an RMB at any time: an adapter
    /// then hands out raw pointers and copies, never a reference.
    pub(crate) fn memory(&mut self, buffer: BufferId) -> &mut [u8] {
        match self.memory.get_mut(&buffer) {
            Some(memory) => &mut memory.bytes,
            None => &mut [],
        }
    }

    fn draw(&mut self) -> u32 {
        self.next += 1;
        self.next
    }

    /// The pieces of a send buffer, if it is registered on the link.
    fn source(&self, link: LinkId, buffer: BufferId, pieces: [Segment; 2]) -> Option<[&[u8]; 2]> {
        let mut regions = self.regions.values();
        regions.find(|region| (region.buffer, region.link) == (buffer, link))?;
        let bytes = &self.memory.get(&buffer)?.bytes;
        let piece = |Segment { offset, length }: Segment| {
            bytes.get(offset as usize..)?.get(..length as usize)
        };
        Some([piece(pieces[0])?, piece(pieces[1])?])
    }

    /// Memory that a peer's WRITE on this link may touch.
    fn target(
        &mut self,
        link: LinkId,
        key: RKey,
        address: u64,
        length: usize,
    ) -> Option<&mut [u8]> {
        let region = self.regions.get(&key.0).filter(|r| r.link == link)?;
        let offset = address.checked_sub(region.address)?;
        let memory = self.memory.get_mut(&region.buffer)?;
        if memory.kind != BufferKind::Rmb {
            return None;
        }
        slice_mut(&mut memory.bytes, offset, length)
    }
}

/// Makes an element ready for its next use.
fn prepare(element: &mut [u8], eye_catcher: bool) {
    element.fill(0);
    if eye_catcher && let Some(start) = element.first_chunk_mut() {
        *start = EYE_CATCHER;
    }
}

fn slice_mut(bytes: &mut [u8], offset: u64, length: usize) -> Option<&mut [u8]> {
    let start = usize::try_from(offset).ok()?;
    bytes.get_mut(start..)?.get_mut(..length)
}

/// Both RNICs.
#[derive(Debug)]
pub(crate) struct Network {
    rnics: [Rnic; 2],
}

impl Network {
    pub(crate) fn new(gids: [Gid; 2]) -> Self {
        let [a, b] = gids;
        Self {
            rnics: [Rnic::new(a, 0x100), Rnic::new(b, 0x200)],
        }
    }

    pub(crate) fn rnic(&mut self, host: usize) -> &mut Rnic {
        &mut self.rnics[host]
    }

    /// The RNIC of one host and its cable to the other, which prints LLC messages.
    pub(crate) fn cable<'a>(
        &'a mut self,
        host: usize,
        print: &'a dyn Fn(&LlcMessage<'_>),
    ) -> Cable<'a> {
        let [a, b] = &mut self.rnics;
        let (near, far) = if host == 0 { (a, b) } else { (b, a) };
        Cable { near, far, print }
    }
}

/// An RNIC and the one at the other end.
pub(crate) struct Cable<'a> {
    near: &'a mut Rnic,
    far: &'a mut Rnic,
    print: &'a dyn Fn(&LlcMessage<'_>),
}

impl Cable<'_> {
    /// The other end of a link.
    fn other_end(&self, link: LinkId) -> Result<LinkId, LinkFailure> {
        let (near, far) = (&self.near, &self.far);
        let queue_pair = near.queue_pairs.get(&link).filter(|q| q.active);
        let queue_pair = queue_pair.ok_or(LinkFailure::Other)?;
        let is_other_end = |q: &QueuePair| {
            queue_pair
                .peer
                .is_some_and(|p| p.gid == far.gid && p.qpn == q.qpn)
                && q.peer
                    .is_some_and(|p| p.gid == near.gid && p.qpn == queue_pair.qpn)
        };
        let other_end = far.queue_pairs.iter().find(|(_, q)| is_other_end(q));
        let (to, _) = other_end.ok_or(LinkFailure::RetriesExhausted)?;
        Ok(*to)
    }

    fn write(
        &mut self,
        link: LinkId,
        buffer: BufferId,
        source: [Segment; 2],
        target: RToken,
    ) -> Result<(), LinkFailure> {
        let to = self.other_end(link)?;
        let pieces = self.near.source(link, buffer, source);
        let [first, second] = pieces.ok_or(LinkFailure::Other)?;
        let length = first.len() + second.len();
        let target = self.far.target(to, target.rkey, target.address, length);
        let target = target.ok_or(LinkFailure::RemoteAccess)?;
        let (head, tail) = target.split_at_mut(first.len());
        head.copy_from_slice(first);
        tail.copy_from_slice(second);
        self.near.writes += 1;
        self.near.bytes_written += length as u64;
        Ok(())
    }

    /// A queue pair whose work failed does no more.
    fn fail(&mut self, link: LinkId) {
        if let Some(queue_pair) = self.near.queue_pairs.get_mut(&link) {
            queue_pair.active = false;
        }
    }
}

impl adapter::Rnic for Cable<'_> {
    fn device(&self) -> DeviceId {
        DEVICE
    }

    fn create_qp(&mut self, link: LinkId, _: u8, _: u16, _: u32) -> Answer<Qpn> {
        let qpn = Qpn::new(self.near.draw());
        let queue_pair = QueuePair {
            qpn,
            peer: None,
            active: false,
        };
        self.near.queue_pairs.insert(link, queue_pair);
        Answer::Done(qpn)
    }

    fn connect_qp(&mut self, link: LinkId, peer: QpAddress, _: Mtu, _: u8) -> Answer {
        let queue_pair = self.near.queue_pairs.get_mut(&link);
        queue_pair.map(|q| q.peer = Some(peer)).into()
    }

    fn activate_qp(&mut self, link: LinkId, _: Psn) -> Answer {
        let queue_pair = self.near.queue_pairs.get_mut(&link);
        let queue_pair = queue_pair.filter(|q| q.peer.is_some());
        queue_pair.map(|q| q.active = true).into()
    }

    fn drain_qp(&mut self, link: LinkId) -> Answer {
        if let Some(queue_pair) = self.near.queue_pairs.get_mut(&link) {
            (queue_pair.peer, queue_pair.active) = (None, false);
        }
        Answer::Done(())
    }

    fn destroy_qp(&mut self, link: LinkId) -> Answer {
        self.near.queue_pairs.remove(&link);
        self.near.regions.retain(|_, region| region.link != link);
        Answer::Done(())
    }

    fn alloc_buffer(
        &mut self,
        buffer: BufferId,
        kind: BufferKind,
        elements: u8,
        element_size: u32,
        eye_catcher: bool,
    ) -> Answer {
        let mut bytes = vec![0; usize::from(elements) * element_size as usize];
        for element in bytes.chunks_exact_mut(element_size as usize) {
            prepare(element, eye_catcher);
        }
        self.near.memory.insert(buffer, Memory { kind, bytes });
        Answer::Done(())
    }

    fn register_buffer(&mut self, buffer: BufferId, link: LinkId) -> Answer<RToken> {
        let near = &mut *self.near;
        if !near.memory.contains_key(&buffer) || !near.queue_pairs.contains_key(&link) {
            return Answer::Failed(Refused);
        }
        let rkey = near.draw();
        let region = Region {
            buffer,
            link,
            address: u64::from(rkey) << 32,
        };
        near.regions.insert(rkey, region);
        Answer::Done(RToken {
            rkey: RKey(rkey),
            address: region.address,
        })
    }

    fn deregister_buffer(&mut self, buffer: BufferId, link: LinkId) -> Answer {
        let regions = &mut self.near.regions;
        regions.retain(|_, region| (region.buffer, region.link) != (buffer, link));
        Answer::Done(())
    }

    fn free_buffer(&mut self, buffer: BufferId) -> Answer {
        self.near
            .regions
            .retain(|_, region| region.buffer != buffer);
        self.near.memory.remove(&buffer);
        Answer::Done(())
    }

    fn clear_element(
        &mut self,
        buffer: BufferId,
        offset: u32,
        length: u32,
        eye_catcher: bool,
    ) -> Answer {
        let memory = self.near.memory(buffer);
        let element = slice_mut(memory, u64::from(offset), length as usize);
        element.map(|element| prepare(element, eye_catcher)).into()
    }

    fn write(
        &mut self,
        link: LinkId,
        buffer: BufferId,
        source: [Segment; 2],
        target: RToken,
    ) -> Result<(), LinkFailure> {
        let written = Cable::write(self, link, buffer, source, target);
        written.inspect_err(|_| self.fail(link))
    }

    fn send(&mut self, link: LinkId, _: WrId, payload: &[u8; 44]) -> Answer<(), LinkFailure> {
        if payload[0] != CDC_TYPE
            && let Ok(message) = LlcMessage::parse(payload, SmcVersion::V1)
        {
            (self.print)(&message);
        }
        let to = self.other_end(link).inspect_err(|_| self.fail(link));
        to.map(|to| self.far.received.push_back((to, *payload)))
            .into()
    }

    fn poll_completion(&mut self) -> Option<RdmaCompletion<'_>> {
        self.near.reported = self.near.received.pop_front();
        let (link, payload) = self.near.reported.as_ref()?;
        Some(RdmaCompletion::Received {
            link: *link,
            payload,
        })
    }
}
