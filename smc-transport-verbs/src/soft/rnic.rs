//! An RNIC in software as [`Rnic`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

use smc_proto::wire::types::{Psn, Qpn, RKey, RToken};

use super::Fabric;
use super::world::{Pair, base};
use crate::memory::Memory;
use crate::ports::Port;
use crate::rnic::{
    Access, Connect, DeviceEvent, Piece, PostError, QueuePairFacts, QueuePairSpec, Rnic, RnicError,
    SendRequest, Source, WorkCompletion,
};

/// For which a queue pair is kept from going.
const LONGEST: Duration = Duration::from_secs(10);

/// An RNIC in software: [`Fabric::rnic`].
pub struct SoftRnic {
    pub(super) fabric: Fabric,
    pub(super) place: usize,
    pub(super) inline: u32,
    pub(super) eventfds: [OwnedFd; 2],
}

/// A queue pair in software.
pub struct QueuePair(Fabric, u32);

/// Memory registered at a queue pair in software.
pub struct Region {
    fabric: Fabric,
    memory: Arc<Memory>,
    rkey: u32,
}

impl Drop for QueuePair {
    fn drop(&mut self) {
        self.0.world().going += 1;
        let end = Instant::now() + LONGEST;
        while self.0.world().kept && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut world = self.0.world();
        world.going -= 1;
        world.remove(self.1);
        let forgotten = world.regions.values().any(|(of, ..)| *of == self.1);
        drop(world);
        // A device would refuse to destroy it.
        assert!(!forgotten, "memory is registered at what is destroyed");
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.fabric.world().regions.remove(&self.rkey);
    }
}

fn failed(what: &'static str, errno: i32) -> RnicError {
    RnicError::new(what, io::Error::from_raw_os_error(errno))
}

fn bytes(piece: &Piece<'_, Region>) -> Option<Vec<u8>> {
    let mut all = Vec::new();
    for segment in piece.segments {
        let mut bytes = vec![0; segment.length as usize];
        let memory = &piece.region.memory;
        memory.copy_out(segment.offset.into(), &mut bytes).ok()?;
        all.extend(bytes);
    }
    Some(all)
}

impl SoftRnic {
    /// The bytes of a request, unless the device would refuse it.
    fn fetch(&self, source: &Source<'_, Region>) -> Option<Vec<u8>> {
        let inline = |bytes: &Vec<u8>| bytes.len() <= self.inline as usize;
        match source {
            Source::Fetched(piece) => bytes(piece),
            Source::Inline(piece) => bytes(piece).filter(inline),
            Source::Octets(bytes) => Some(bytes.to_vec()).filter(inline),
        }
    }
}

impl Rnic for SoftRnic {
    type QueuePair = QueuePair;
    type Region = Region;

    fn ports(&self) -> Result<Vec<Port>, RnicError> {
        let world = self.fabric.world();
        let rings = world.rnics.get(self.place);
        Ok(rings.map(|rings| rings.ports.clone()).unwrap_or_default())
    }

    fn create_queue_pair(
        &self,
        spec: &QueuePairSpec,
    ) -> Result<(QueuePair, QueuePairFacts), RnicError> {
        let mut world = self.fabric.world();
        world.last += 1;
        let qpn = world.last;
        world
            .queue_pairs
            .insert(qpn, Pair::new(self.place, spec.token));
        let inline = self.inline.min(spec.inline);
        let facts = QueuePairFacts {
            qpn: Qpn::new(qpn),
            inline,
        };
        Ok((QueuePair(self.fabric.clone(), qpn), facts))
    }

    fn connect(&self, pair: &QueuePair, to: &Connect) -> Result<(), RnicError> {
        self.fabric.world().waiting += 1;
        while self.fabric.world().held {
            std::thread::sleep(Duration::from_millis(1));
        }
        let mut world = self.fabric.world();
        world.waiting -= 1;
        let pair = world.queue_pairs.get_mut(&pair.1);
        let pair = pair.ok_or_else(|| failed("bind", libc::ENOENT))?;
        pair.peer = Some(to.peer.qpn.value());
        Ok(())
    }

    fn activate(&self, _: &QueuePair, _: Psn) -> Result<(), RnicError> {
        Ok(())
    }

    fn to_error(&self, pair: &QueuePair) -> Result<(), RnicError> {
        self.fabric.world().break_pair(pair.1);
        Ok(())
    }

    fn register(
        &self,
        pair: &QueuePair,
        memory: &Arc<Memory>,
        access: Access,
    ) -> Result<Region, RnicError> {
        let mut world = self.fabric.world();
        if let Some(left) = &mut world.lockable {
            let after = left.checked_sub(memory.len());
            *left = after.ok_or_else(|| failed("register memory", libc::ENOMEM))?;
        }
        world.last += 1;
        let rkey = world.last;
        world.regions.insert(rkey, (pair.1, memory.clone(), access));
        Ok(Region {
            fabric: self.fabric.clone(),
            memory: memory.clone(),
            rkey,
        })
    }

    fn lockable(&self) -> Option<u64> {
        self.fabric.world().lockable.map(|bytes| bytes as u64)
    }

    fn lock_limit(&self) -> Option<u64> {
        self.fabric.world().limit.map(|bytes| bytes as u64)
    }

    fn token(&self, region: &Region) -> RToken {
        RToken {
            rkey: RKey(region.rkey),
            address: base(region.rkey),
        }
    }

    fn post_receive(
        &self,
        pair: &QueuePair,
        number: u64,
        into: Piece<'_, Region>,
    ) -> Result<(), RnicError> {
        let memory = into.region.memory.clone();
        let mut world = self.fabric.world();
        world.receive(pair.1, number, memory, into.segments);
        Ok(())
    }

    fn post_send(
        &self,
        pair: &QueuePair,
        requests: &[SendRequest<'_, Region>],
    ) -> Result<(), PostError> {
        let mut world = self.fabric.world();
        world.doorbells += 1;
        for (posted, request) in requests.iter().enumerate() {
            let Some(bytes) = self.fetch(&request.source) else {
                let error = failed("post work", libc::EINVAL);
                return Err(PostError { posted, error });
            };
            world.carry(pair.1, request.number, request.work, bytes);
        }
        Ok(())
    }

    fn poll(&self, pair: &QueuePair, into: &mut [WorkCompletion]) -> usize {
        let mut world = self.fabric.world();
        let Some(of) = world.queue_pairs.get_mut(&pair.1) else {
            return 0;
        };
        let count = into.len().min(of.completions.len());
        for (into, completion) in into.iter_mut().zip(of.completions.drain(..count)) {
            *into = completion;
        }
        count
    }

    fn next_ready(&self) -> Option<u32> {
        let _ = rustix::io::read(&self.eventfds[0], &mut [0; 8]);
        let mut world = self.fabric.world();
        world.rnics.get_mut(self.place)?.ready.pop_front()
    }

    fn next_event(&self) -> Option<DeviceEvent> {
        let _ = rustix::io::read(&self.eventfds[1], &mut [0; 8]);
        let mut world = self.fabric.world();
        world.rnics.get_mut(self.place)?.events.pop_front()
    }

    fn completions_fd(&self) -> BorrowedFd<'_> {
        self.eventfds[0].as_fd()
    }

    fn events_fd(&self) -> BorrowedFd<'_> {
        self.eventfds[1].as_fd()
    }
}
