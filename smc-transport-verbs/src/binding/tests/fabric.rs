//! RNICs of one program: what is posted is carried out at once.

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rustix::event::{EventfdFlags, eventfd};
use smc_proto::command::Segment;
use smc_proto::completion::LinkFailure;
use smc_proto::wire::types::{Psn, Qpn, RKey, RToken};

use crate::memory::Memory;
use crate::rnic::*;

/// What joins RNICs.
#[derive(Clone, Default)]
pub(super) struct Fabric(Arc<Mutex<World>>);

#[derive(Default)]
struct World {
    queue_pairs: HashMap<u32, Pair>,
    regions: HashMap<u32, (u32, Arc<Memory>, Access)>,
    rnics: Vec<State>,
    last: u32,
    /// Octets that may be registered from now on.
    lockable: Option<usize>,
    /// Binding waits for the end of this.
    held: bool,
    /// How many wait.
    waiting: u32,
    doorbells: u32,
}

struct State {
    ready: VecDeque<u32>,
    events: VecDeque<DeviceEvent>,
    completions: OwnedFd,
    told: OwnedFd,
}

struct Pair {
    rnic: usize,
    token: u32,
    peer: Option<u32>,
    broken: bool,
    receives: VecDeque<(u64, Arc<Memory>, [Segment; 2])>,
    /// SENDs that found no receive.
    waiting: VecDeque<Vec<u8>>,
    completions: VecDeque<WorkCompletion>,
}

pub(super) struct SoftRnic {
    fabric: Fabric,
    place: usize,
    inline: u32,
    bells: [OwnedFd; 2],
}

pub(super) struct SoftPair(Fabric, u32);

pub(super) struct SoftRegion {
    fabric: Fabric,
    memory: Arc<Memory>,
    rkey: u32,
}

impl Drop for SoftPair {
    fn drop(&mut self) {
        let mut world = self.0.world();
        world.queue_pairs.remove(&self.1);
        assert!(
            world.regions.values().all(|(of, ..)| *of != self.1),
            "memory is registered at what is destroyed"
        );
    }
}

impl Drop for SoftRegion {
    fn drop(&mut self) {
        self.fabric.world().regions.remove(&self.rkey);
    }
}

impl Fabric {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub(super) fn rnic(&self, inline: u32) -> SoftRnic {
        let bell = || eventfd(0, EventfdFlags::NONBLOCK).unwrap();
        let (completions, told) = (bell(), bell());
        let bells = [&completions, &told].map(|fd| fd.try_clone().unwrap());
        let mut world = self.world();
        world.rnics.push(State {
            ready: VecDeque::new(),
            events: VecDeque::new(),
            completions,
            told,
        });
        let place = world.rnics.len() - 1;
        SoftRnic {
            fabric: self.clone(),
            place,
            inline,
            bells,
        }
    }

    pub(super) fn lock_at_most(&self, octets: usize) {
        self.world().lockable = Some(octets);
    }

    /// Binding a queue pair takes its time, or no longer.
    pub(super) fn hold_connecting(&self, held: bool) {
        self.world().held = held;
    }

    /// How many queue pairs wait to be bound.
    pub(super) fn connecting(&self) -> u32 {
        self.world().waiting
    }

    pub(super) fn doorbells(&self) -> u32 {
        self.world().doorbells
    }

    pub(super) fn tell(&self, rnic: usize, event: DeviceEvent) {
        let mut world = self.world();
        let state = &mut world.rnics[rnic];
        state.events.push_back(event);
        rustix::io::write(&state.told, &1u64.to_ne_bytes()).unwrap();
    }

    /// The queue pairs of an RNIC break.
    pub(super) fn cut(&self, rnic: usize) {
        let mut world = self.world();
        let all = world.queue_pairs.iter();
        let mine: Vec<_> = all.filter(|(_, p)| p.rnic == rnic).map(|p| *p.0).collect();
        for qpn in mine {
            let retries = Status::Failed(LinkFailure::RetriesExhausted);
            world.complete(qpn, 0, retries, 0);
            world.break_pair(qpn);
        }
    }

    /// Registrations, queue pairs.
    pub(super) fn usage(&self) -> (usize, usize) {
        let world = self.world();
        (world.regions.len(), world.queue_pairs.len())
    }
}

impl World {
    fn complete(&mut self, qpn: u32, number: u64, status: Status, length: u32) {
        let Some(pair) = self.queue_pairs.get_mut(&qpn) else {
            return;
        };
        pair.completions.push_back(WorkCompletion {
            number,
            status,
            length,
        });
        let state = &mut self.rnics[pair.rnic];
        state.ready.push_back(pair.token);
        rustix::io::write(&state.completions, &1u64.to_ne_bytes()).unwrap();
    }

    fn break_pair(&mut self, qpn: u32) {
        let Some(pair) = self.queue_pairs.get_mut(&qpn) else {
            return;
        };
        pair.broken = true;
        for (number, ..) in std::mem::take(&mut pair.receives) {
            self.complete(qpn, number, Status::Flushed, 0);
        }
    }

    fn deliver(&mut self, to: u32) {
        while let Some(pair) = self.queue_pairs.get_mut(&to) {
            if pair.waiting.is_empty() || pair.broken {
                return;
            }
            let Some((number, memory, pieces)) = pair.receives.pop_front() else {
                return;
            };
            let octets = pair.waiting.pop_front().unwrap();
            let mut rest = &octets[..];
            for piece in pieces {
                let (now, later) = rest.split_at(rest.len().min(piece.length as usize));
                memory.copy_in(piece.offset.into(), now).unwrap();
                rest = later;
            }
            if !rest.is_empty() {
                self.complete(to, number, Status::Failed(LinkFailure::Other), 0);
                return self.break_pair(to);
            }
            self.complete(to, number, Status::Success, octets.len() as u32);
        }
    }

    fn carry(&mut self, from: u32, number: u64, work: Work, octets: Vec<u8>) {
        let pair = &self.queue_pairs[&from];
        if pair.broken {
            return self.complete(from, number, Status::Flushed, 0);
        }
        let peer = pair.peer.expect("posted before it was bound");
        match work {
            Work::Send => {
                if let Some(to) = self.queue_pairs.get_mut(&peer) {
                    to.waiting.push_back(octets);
                    self.deliver(peer);
                }
                if self.queue_pairs.get(&peer).is_some_and(|to| to.broken) {
                    let invalid = Status::Failed(LinkFailure::Other);
                    self.complete(from, number, invalid, 0);
                    return self.break_pair(from);
                }
                self.complete(from, number, Status::Success, 0);
            }
            Work::Write { rkey, address } => {
                let region = self
                    .regions
                    .get(&rkey)
                    .filter(|(of, _, access)| *of == peer && *access == Access::RemoteWrite);
                let offset = address.checked_sub(base(rkey));
                let written = region.zip(offset).map(|((_, memory, _), at)| {
                    // As the peer's RNIC would.
                    memory.copy_in(at, &octets)
                });
                if written != Some(Ok(())) {
                    let refused = Status::Failed(LinkFailure::RemoteAccess);
                    self.complete(from, number, refused, 0);
                    self.break_pair(from);
                    self.break_pair(peer);
                }
            }
        }
    }
}

/// Where a peer finds the first octet of a region.
fn base(rkey: u32) -> u64 {
    u64::from(rkey) << 32
}

fn error(what: &'static str, errno: i32) -> RnicError {
    RnicError::new(what, io::Error::from_raw_os_error(errno))
}

fn octets(piece: &Piece<'_, SoftRegion>) -> Vec<u8> {
    let mut all = Vec::new();
    for segment in piece.segments {
        let mut octets = vec![0; segment.length as usize];
        let memory = &piece.region.memory;
        memory.copy_out(segment.offset.into(), &mut octets).unwrap();
        all.extend(octets);
    }
    all
}

impl Rnic for SoftRnic {
    type QueuePair = SoftPair;
    type Region = SoftRegion;

    fn create_queue_pair(
        &self,
        spec: &QueuePairSpec,
    ) -> Result<(SoftPair, QueuePairFacts), RnicError> {
        let mut world = self.fabric.world();
        world.last += 1;
        let qpn = world.last;
        let pair = Pair {
            rnic: self.place,
            token: spec.token,
            peer: None,
            broken: false,
            receives: VecDeque::new(),
            waiting: VecDeque::new(),
            completions: VecDeque::new(),
        };
        world.queue_pairs.insert(qpn, pair);
        let inline = self.inline.min(spec.inline);
        let facts = QueuePairFacts {
            qpn: Qpn::new(qpn),
            inline,
        };
        Ok((SoftPair(self.fabric.clone(), qpn), facts))
    }

    fn connect(&self, pair: &SoftPair, to: &Connect) -> Result<(), RnicError> {
        self.fabric.world().waiting += 1;
        while self.fabric.world().held {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut world = self.fabric.world();
        world.waiting -= 1;
        world.queue_pairs.get_mut(&pair.1).unwrap().peer = Some(to.peer.qpn.value());
        Ok(())
    }

    fn activate(&self, _: &SoftPair, _: Psn) -> Result<(), RnicError> {
        Ok(())
    }

    fn to_error(&self, pair: &SoftPair) -> Result<(), RnicError> {
        self.fabric.world().break_pair(pair.1);
        Ok(())
    }

    fn register(
        &self,
        pair: &SoftPair,
        memory: &Arc<Memory>,
        access: Access,
    ) -> Result<SoftRegion, RnicError> {
        let mut world = self.fabric.world();
        if let Some(left) = &mut world.lockable {
            let after = left.checked_sub(memory.len());
            *left = after.ok_or_else(|| error("register memory", libc::ENOMEM))?;
        }
        world.last += 1;
        let rkey = world.last;
        world.regions.insert(rkey, (pair.1, memory.clone(), access));
        Ok(SoftRegion {
            fabric: self.fabric.clone(),
            memory: memory.clone(),
            rkey,
        })
    }

    fn lockable(&self) -> Option<u64> {
        self.fabric.world().lockable.map(|octets| octets as u64)
    }

    fn token(&self, region: &SoftRegion) -> RToken {
        RToken {
            rkey: RKey(region.rkey),
            address: base(region.rkey),
        }
    }

    fn post_receive(
        &self,
        pair: &SoftPair,
        number: u64,
        into: Piece<'_, SoftRegion>,
    ) -> Result<(), RnicError> {
        let mut world = self.fabric.world();
        let of = world.queue_pairs.get_mut(&pair.1).unwrap();
        let memory = into.region.memory.clone();
        of.receives.push_back((number, memory, into.segments));
        world.deliver(pair.1);
        Ok(())
    }

    fn post_send(
        &self,
        pair: &SoftPair,
        requests: &[SendRequest<'_, SoftRegion>],
    ) -> Result<(), PostError> {
        let mut world = self.fabric.world();
        world.doorbells += 1;
        for request in requests {
            let octets = match &request.source {
                Source::Fetched(piece) => octets(piece),
                Source::Inline(piece) => {
                    let octets = octets(piece);
                    assert!(octets.len() <= self.inline as usize);
                    octets
                }
                Source::Octets(octets) => {
                    assert!(octets.len() <= self.inline as usize);
                    octets.to_vec()
                }
            };
            world.carry(pair.1, request.number, request.work, octets);
        }
        Ok(())
    }

    fn poll(&self, pair: &SoftPair, into: &mut [WorkCompletion]) -> usize {
        let mut world = self.fabric.world();
        let of = world.queue_pairs.get_mut(&pair.1).unwrap();
        let count = into.len().min(of.completions.len());
        for (into, completion) in into.iter_mut().zip(of.completions.drain(..count)) {
            *into = completion;
        }
        count
    }

    fn next_ready(&self) -> Option<u32> {
        let _ = rustix::io::read(&self.bells[0], &mut [0; 8]);
        self.fabric.world().rnics[self.place].ready.pop_front()
    }

    fn next_event(&self) -> Option<DeviceEvent> {
        let _ = rustix::io::read(&self.bells[1], &mut [0; 8]);
        self.fabric.world().rnics[self.place].events.pop_front()
    }

    fn completions_fd(&self) -> BorrowedFd<'_> {
        self.bells[0].as_fd()
    }

    fn events_fd(&self) -> BorrowedFd<'_> {
        self.bells[1].as_fd()
    }
}
