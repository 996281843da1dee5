//! Two RNICs in memory, and nothing between them.
//!
//! An adapter has libibverbs here, or a driver its hardware. The model
//! carries out [`RdmaCommand`]s in order and answers each control command with
//! one [`RdmaCompletion`]. What it refuses is what hardware refuses: memory that
//! is not registered on the link, keys that were never given out, bytes outside of a
//! region, work on a queue pair that is not connected.

use std::collections::{BTreeMap, VecDeque};

use smc_proto::command::{BufferKind, EYE_CATCHER, QpAddress, RdmaCommand, Segment};
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::{BufferId, ConnId, LinkId};
use smc_proto::wire::types::{Gid, Qpn, RKey, RToken};

/// An event of an RNIC. A received message must outlive the call that
/// sent it, so it is kept by value.
#[derive(Debug)]
pub(crate) enum Completion {
    Done(RdmaCompletion<'static>),
    Received { link: LinkId, payload: [u8; 44] },
}

impl Completion {
    pub(crate) fn as_input(&self) -> RdmaCompletion<'_> {
        match self {
            Self::Done(completion) => *completion,
            Self::Received { link, payload } => RdmaCompletion::Received {
                link: *link,
                payload,
            },
        }
    }
}

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
    completions: VecDeque<Completion>,
    /// Next queue pair number and next key.
    next: u32,
    /// RDMA WRITEs and bytes carried out so far.
    pub(crate) writes: u64,
    pub(crate) bytes_written: u64,
}

/// Why a WRITE or SEND failed: the queue pair breaks.
type Broken = LinkFailure;

impl Rnic {
    fn new(gid: Gid, first: u32) -> Self {
        Self {
            gid,
            memory: BTreeMap::new(),
            regions: BTreeMap::new(),
            queue_pairs: BTreeMap::new(),
            completions: VecDeque::new(),
            next: first,
            writes: 0,
            bytes_written: 0,
        }
    }

    pub(crate) fn next_completion(&mut self) -> Option<Completion> {
        self.completions.pop_front()
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

    /// Carries out a command that concerns this RNIC alone.
    fn control(&mut self, command: RdmaCommand) -> Option<RdmaCompletion<'static>> {
        Some(match command {
            RdmaCommand::CreateQp { link, .. } => {
                let qpn = Qpn::new(self.draw());
                let queue_pair = QueuePair {
                    qpn,
                    peer: None,
                    active: false,
                };
                self.queue_pairs.insert(link, queue_pair);
                RdmaCompletion::QpCreated { link, qpn }
            }
            RdmaCommand::ConnectQp { link, peer, .. } => match self.queue_pairs.get_mut(&link) {
                Some(queue_pair) => {
                    queue_pair.peer = Some(peer);
                    RdmaCompletion::QpConnected { link }
                }
                None => RdmaCompletion::LinkRefused { link },
            },
            RdmaCommand::ActivateQp { link, .. } => match self.queue_pairs.get_mut(&link) {
                Some(queue_pair) if queue_pair.peer.is_some() => {
                    queue_pair.active = true;
                    RdmaCompletion::QpActive { link }
                }
                _ => RdmaCompletion::LinkRefused { link },
            },
            RdmaCommand::QpToError { link } => {
                if let Some(queue_pair) = self.queue_pairs.get_mut(&link) {
                    (queue_pair.peer, queue_pair.active) = (None, false);
                }
                RdmaCompletion::QpDrained { link }
            }
            RdmaCommand::DestroyQp { link } => {
                self.queue_pairs.remove(&link);
                self.regions.retain(|_, region| region.link != link);
                RdmaCompletion::QpDestroyed { link }
            }
            RdmaCommand::AllocBuffer {
                buffer,
                kind,
                elements,
                element_size,
                eye_catcher,
            } => {
                let mut bytes = vec![0; usize::from(elements) * element_size as usize];
                for element in bytes.chunks_exact_mut(element_size as usize) {
                    prepare(element, eye_catcher);
                }
                self.memory.insert(buffer, Memory { kind, bytes });
                RdmaCompletion::BufferAllocated { buffer }
            }
            RdmaCommand::RegisterBuffer { buffer, link } => {
                if !self.memory.contains_key(&buffer) || !self.queue_pairs.contains_key(&link) {
                    return Some(RdmaCompletion::BufferRefused { buffer });
                }
                let rkey = self.draw();
                let region = Region {
                    buffer,
                    link,
                    address: u64::from(rkey) << 32,
                };
                self.regions.insert(rkey, region);
                let rtoken = RToken {
                    rkey: RKey(rkey),
                    address: region.address,
                };
                RdmaCompletion::BufferRegistered {
                    buffer,
                    link,
                    rtoken,
                }
            }
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                self.regions
                    .retain(|_, region| (region.buffer, region.link) != (buffer, link));
                RdmaCompletion::BufferDeregistered { buffer, link }
            }
            RdmaCommand::FreeBuffer { buffer } => {
                self.regions.retain(|_, region| region.buffer != buffer);
                self.memory.remove(&buffer);
                RdmaCompletion::BufferFreed { buffer }
            }
            RdmaCommand::ClearElement {
                buffer,
                offset,
                length,
                eye_catcher,
            } => match slice_mut(self.memory(buffer), u64::from(offset), length as usize) {
                Some(element) => {
                    prepare(element, eye_catcher);
                    RdmaCompletion::ElementCleared { buffer, offset }
                }
                None => RdmaCompletion::BufferRefused { buffer },
            },
            RdmaCommand::Write { .. }
            | RdmaCommand::Send { .. }
            | RdmaCommand::SendLarge { .. } => return None,
        })
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

    /// Carries out a command of one host.
    pub(crate) fn execute(&mut self, host: usize, command: RdmaCommand) {
        let done = match command {
            RdmaCommand::Write {
                link,
                conn,
                buffer,
                source,
                rkey,
                address,
            } => match self.write(host, link, buffer, source, rkey, address) {
                // A WRITE is unsignalled: the completion of the SEND behind it covers both.
                Ok(()) => return,
                Err(cause) => self.fail(host, link, cause, Some(conn)),
            },
            RdmaCommand::Send {
                link,
                wr_id,
                payload,
            } => match self.send(host, link, payload) {
                Ok(()) => RdmaCompletion::Sent { link, wr_id },
                Err(cause) => self.fail(host, link, cause, None),
            },
            control => match self.rnics[host].control(control) {
                Some(completion) => completion,
                None => return,
            },
        };
        let completions = &mut self.rnics[host].completions;
        completions.push_back(Completion::Done(done));
    }

    /// Returns this host's RNIC, the other one, and this host's end of the link.
    fn ends(
        &mut self,
        host: usize,
        link: LinkId,
    ) -> Result<(&mut Rnic, &mut Rnic, LinkId), Broken> {
        let [a, b] = &mut self.rnics;
        let (near, far) = if host == 0 { (a, b) } else { (b, a) };
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
        let to = *to;
        Ok((near, far, to))
    }

    fn write(
        &mut self,
        host: usize,
        link: LinkId,
        buffer: BufferId,
        source: [Segment; 2],
        rkey: RKey,
        address: u64,
    ) -> Result<(), Broken> {
        let (near, far, to) = self.ends(host, link)?;
        let pieces = near.source(link, buffer, source);
        let [first, second] = pieces.ok_or(LinkFailure::Other)?;
        let length = first.len() + second.len();
        let target = far.target(to, rkey, address, length);
        let target = target.ok_or(LinkFailure::RemoteAccess)?;
        let (head, tail) = target.split_at_mut(first.len());
        head.copy_from_slice(first);
        tail.copy_from_slice(second);
        near.writes += 1;
        near.bytes_written += length as u64;
        Ok(())
    }

    fn send(&mut self, host: usize, link: LinkId, payload: [u8; 44]) -> Result<(), Broken> {
        let (_, far, to) = self.ends(host, link)?;
        let received = Completion::Received { link: to, payload };
        far.completions.push_back(received);
        Ok(())
    }

    fn fail(
        &mut self,
        host: usize,
        link: LinkId,
        cause: LinkFailure,
        conn: Option<ConnId>,
    ) -> RdmaCompletion<'static> {
        if let Some(queue_pair) = self.rnics[host].queue_pairs.get_mut(&link) {
            queue_pair.active = false;
        }
        RdmaCompletion::LinkFailed { link, cause, conn }
    }
}
