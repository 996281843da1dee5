//! RNICs in software, of one program: for tests of what drives RNICs, without any.
//!
//! ```
//! use smc_transport_verbs::soft::Fabric;
//!
//! let fabric = Fabric::default();
//! let (here, there) = (fabric.rnic(0), fabric.rnic(128));
//! assert_eq!(fabric.usage(), (0, 0)); // neither regions nor queue pairs
//! # drop((here, there));
//! ```
//!
//! A [`Fabric`] joins them. WRITEs and SENDs are carried out by the thread that posts
//! them, in order and without loss: a SEND that finds no receive waits for one, and what
//! is posted to a queue pair that is gone or broken comes back as an RNIC gives it back
//! when its retries are exhausted, at once. Completion queues and events have descriptors,
//! as those of devices.

mod rnic;
mod world;

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rustix::event::{EventfdFlags, eventfd};
use smc_proto::completion::LinkFailure;

use crate::ports::Port;
use crate::rnic::{DeviceEvent, Status};
pub use rnic::{QueuePair, Region, SoftRnic};
use world::{Rings, World};

/// What joins RNICs in software.
#[derive(Clone, Default)]
pub struct Fabric(Arc<Mutex<World>>);

impl Fabric {
    fn world(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A further RNIC, that takes so many bytes inline. The first one is number 0.
    ///
    /// # Panics
    /// If no descriptor is left.
    #[must_use]
    pub fn rnic(&self, inline: u32) -> SoftRnic {
        self.rnic_with(inline, Vec::new())
    }

    /// Creates a further RNIC, as [`Self::rnic`] does, with these ports.
    ///
    /// # Panics
    /// If no descriptor is left.
    #[must_use]
    pub fn rnic_with(&self, inline: u32, ports: Vec<Port>) -> SoftRnic {
        match self.open(inline, ports) {
            Ok(rnic) => rnic,
            Err(error) => unreachable!("no descriptor for an RNIC in software: {error}"),
        }
    }

    fn open(&self, inline: u32, ports: Vec<Port>) -> io::Result<SoftRnic> {
        let new = || eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK);
        let eventfds: [OwnedFd; 2] = [new()?, new()?];
        let mut world = self.world();
        let place = world.rnics.len();
        world.rnics.push(Rings {
            ready: VecDeque::new(),
            events: VecDeque::new(),
            completions: eventfds[0].try_clone()?,
            event: eventfds[1].try_clone()?,
            ports,
        });
        Ok(SoftRnic {
            fabric: self.clone(),
            place,
            inline,
            eventfds,
        })
    }

    /// No more than so many bytes may be registered from now on.
    pub fn lock_at_most(&self, bytes: usize) {
        let mut world = self.world();
        world.limit = Some(bytes);
        world.lockable = Some(bytes);
    }

    /// Binding a queue pair takes its time, or no longer.
    pub fn hold_connecting(&self, held: bool) {
        self.world().held = held;
    }

    /// How many queue pairs wait to be bound.
    #[must_use]
    pub fn connecting(&self) -> u32 {
        self.world().waiting
    }

    /// Destroying a queue pair takes its time, at most ten seconds, or no longer.
    pub fn hold_destroying(&self, held: bool) {
        self.world().kept = held;
    }

    /// How many queue pairs wait to be gone.
    #[must_use]
    pub fn destroying(&self) -> u32 {
        self.world().going
    }

    /// How often requests were posted.
    #[must_use]
    pub fn doorbells(&self) -> u32 {
        self.world().doorbells
    }

    /// Former name of [`Self::report`].
    #[deprecated(note = "renamed to `report`")]
    pub fn tell(&self, rnic: usize, event: DeviceEvent) {
        self.report(rnic, event);
    }

    /// An RNIC reports an event.
    pub fn report(&self, rnic: usize, event: DeviceEvent) {
        if let Some(rings) = self.world().rnics.get_mut(rnic) {
            rings.events.push_back(event);
            signal(&rings.event);
        }
    }

    /// The queue pairs of an RNIC break, as if the peer had not answered them.
    pub fn cut(&self, rnic: usize) {
        let mut world = self.world();
        let all = world.queue_pairs.iter();
        let mine: Vec<_> = all.filter(|(_, p)| p.rnic == rnic).map(|p| *p.0).collect();
        for qpn in mine {
            let retries = Status::Failed(LinkFailure::RetriesExhausted);
            world.complete(qpn, 0, retries, 0);
            world.break_pair(qpn);
        }
    }

    /// A queue pair breaks, for this reason.
    pub fn break_queue_pair(&self, qpn: u32, cause: LinkFailure) {
        let mut world = self.world();
        world.complete(qpn, 0, Status::Failed(cause), 0);
        world.break_pair(qpn);
    }

    /// The ports of an RNIC get their carrier or lose it, and the RNIC reports that.
    pub fn set_carrier(&self, rnic: usize, carrier: bool) {
        let mut world = self.world();
        let Some(rings) = world.rnics.get_mut(rnic) else {
            return;
        };
        for port in &mut rings.ports {
            port.active = carrier;
            rings.events.push_back(match carrier {
                true => DeviceEvent::PortUp { port: port.port },
                false => DeviceEvent::PortDown { port: port.port },
            });
        }
        signal(&rings.event);
    }

    /// Registrations and queue pairs that there are.
    #[must_use]
    pub fn usage(&self) -> (usize, usize) {
        let world = self.world();
        (world.regions.len(), world.queue_pairs.len())
    }
}

/// Makes a descriptor readable.
fn signal(eventfd: &OwnedFd) {
    // If it is full, it is readable as well.
    let _ = rustix::io::write(eventfd, &1u64.to_ne_bytes());
}
