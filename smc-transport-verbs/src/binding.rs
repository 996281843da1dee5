//! RNICs as the engine's: commands in, completions out, and bytes to and from the
//! buffers that the engine names.
//!
//! One [`Binding`] has all RNICs of an endpoint, because its buffers are memory that
//! several of them use, and because failover asks for an order between their queues.
//!
//! ```text
//!   carry_out: until the engine wants nothing more            poll: until there is nothing
//!
//!   poll_data ── DataTransmit ───┐                     ┌─ answers that are due already
//!   poll_rdma ── RdmaCommand ────┤                     ├─ queue pairs with completions
//!                                ▼                     ├─ errands: what took its time
//!         links, buffers, chained work requests        └─ changes of ports and devices
//! ```
//!
//! To wait for something to poll, wait until the binding's descriptor is readable. It
//! need not be parked: a completion queue is armed again before it is polled.
//!
//! ```
//! use smc_proto::endpoint::Endpoint;
//! use smc_proto::id::DeviceId;
//! use smc_proto::path::LocalPath;
//! use smc_proto::storage::Storage;
//! use smc_proto::time::Instant;
//! use smc_transport_verbs::binding::Binding;
//! use smc_transport_verbs::rnic::Rnic;
//!
//! /// To be called whenever the descriptor is readable, and after each command to the
//! /// engine. `paths` are those that a port makes.
//! fn drive<S: Storage, R: Rnic>(
//!     engine: &mut Endpoint<S>,
//!     rnics: &mut Binding<R>,
//!     now: Instant,
//!     paths: impl Fn(DeviceId, u8) -> Vec<LocalPath>,
//! ) {
//!     loop {
//!         let mut any = rnics.carry_out(engine, now);
//!         while let Some(completion) = rnics.poll() {
//!             engine.handle_rdma(now, completion);
//!             any = true;
//!         }
//!         while let Some(change) = rnics.poll_path() {
//!             for event in change.events(&paths) {
//!                 engine.handle_path(now, event);
//!             }
//!             any = true;
//!         }
//!         if !any {
//!             return;
//!         }
//!     }
//! }
//! ```

mod buffers;
mod control;
mod data;
mod errands;
mod events;
mod link;
mod receives;
mod sends;
mod slots;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use rustix::event::epoll;
use smc_proto::command::{DataTransmit, RdmaCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::MAX_DEVICES;
use smc_proto::endpoint::Endpoint;
use smc_proto::id::{DeviceId, LinkId};
use smc_proto::storage::Storage;
use smc_proto::time::Instant;

use crate::rnic::{Rnic, RnicError};
use buffers::Buffers;
use errands::Errands;
use link::Link;
use receives::LARGEST;
use slots::Slots;

pub use events::PathChange;

/// Old name of [`PathChange`].
#[deprecated(note = "renamed to `PathChange`")]
pub type PathNews = PathChange;

/// The RNICs of an endpoint.
pub struct Binding<R: Rnic> {
    rnics: [Option<Bound<R>>; MAX_DEVICES],
    buffers: Buffers<R>,
    /// Behind what is registered with them, which is dropped first.
    links: Slots<LinkId, Link<R>>,
    /// Answers that are due already.
    answers: VecDeque<RdmaCompletion<'static>>,
    /// Links whose completion queues may have something, by their places.
    ready: VecDeque<u32>,
    /// Batches taken since the RNICs were last asked which queues have something.
    batches: u32,
    /// Messages that wait for those before them on other links.
    held: VecDeque<Held>,
    path_changes: VecDeque<PathChange>,
    errands: Errands<R>,
    /// Queue pairs being destroyed. New ones do not wait for them.
    farewells: Errands<R>,
    /// The last message that was reported.
    payload: Box<[u8]>,
    /// The last command that an RNIC refused, and why.
    refusal: Option<RnicError>,
    inline: u32,
    poller: OwnedFd,
}

/// An RNIC with its number.
struct Bound<R> {
    rnic: Arc<R>,
    removed: bool,
}

/// What was found in a completion queue and is not reported yet.
struct Held {
    link: LinkId,
    bytes: Box<[u8]>,
}

/// Bytes that are sent inline if the RNIC can.
const INLINE: u32 = 128;

/// Batches of completions after which the RNICs are asked again, however much there is
/// to do for the queues that are known.
const TIMEOUT: u32 = 4;

/// What [`Binding::poll`] has found.
enum Found {
    Answer(RdmaCompletion<'static>),
    /// A message, in `payload`.
    Message {
        link: LinkId,
        length: usize,
    },
}

/// Outcome of a step.
enum Progress {
    Found(Found),
    /// Something, but nothing to report.
    Some,
    /// There is nothing to do.
    None,
}

impl<R: Rnic> Binding<R> {
    /// Without any RNIC yet.
    ///
    /// # Errors
    /// The system's, if it has no descriptors left.
    pub fn new() -> io::Result<Self> {
        let poller = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let (errands, farewells) = (Errands::new()?, Errands::new()?);
        for eventfd in [errands.as_fd(), farewells.as_fd()] {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&poller, eventfd, data, epoll::EventFlags::IN)?;
        }
        Ok(Self {
            rnics: [const { None }; MAX_DEVICES],
            links: Slots::default(),
            buffers: Buffers::default(),
            answers: VecDeque::new(),
            ready: VecDeque::new(),
            batches: 0,
            held: VecDeque::new(),
            path_changes: VecDeque::new(),
            errands,
            farewells,
            payload: vec![0; LARGEST].into(),
            refusal: None,
            inline: INLINE,
            poller,
        })
    }

    /// Sends nothing inline, as RNICs that cannot do it.
    #[must_use]
    pub fn without_inline(mut self) -> Self {
        self.inline = 0;
        self
    }

    /// Binds an RNIC to its number at the endpoint. One that was removed may come back
    /// under its old number once nothing of it is left.
    ///
    /// # Errors
    /// If there is no such number, if it is taken, or if the system has no descriptors
    /// left.
    pub fn add(&mut self, device: DeviceId, rnic: R) -> io::Result<()> {
        let in_use = self.links.iter().any(|(_, link)| link.device == device);
        let Some(place) = self.rnics.get_mut(usize::from(device.0)) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        if in_use || place.as_ref().is_some_and(|bound| !bound.removed) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        for fd in [rnic.completions_fd(), rnic.events_fd()] {
            let data = epoll::EventData::new_u64(0);
            epoll::add(&self.poller, fd, data, epoll::EventFlags::IN)?;
        }
        let rnic = Arc::new(rnic);
        let removed = false;
        *place = Some(Bound { rnic, removed });
        Ok(())
    }

    /// An RNIC.
    #[must_use]
    pub fn rnic(&self, device: DeviceId) -> Option<&R> {
        let bound = self.rnics.get(usize::from(device.0))?.as_ref()?;
        Some(&bound.rnic)
    }

    /// The numbers of the RNICs.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> + use<R> {
        let mut taken = [false; MAX_DEVICES];
        for (taken, rnic) in taken.iter_mut().zip(&self.rnics) {
            *taken = rnic.is_some();
        }
        // There are at most 16.
        (0..MAX_DEVICES as u8)
            .zip(taken)
            .filter_map(|(number, taken)| taken.then_some(DeviceId(number)))
    }

    /// Returns why an RNIC last refused a command; the engine was notified of the refusal.
    #[must_use]
    pub fn last_refusal(&self) -> Option<&RnicError> {
        self.refusal.as_ref()
    }

    /// How many queue pairs and buffers there are.
    #[must_use]
    pub fn usage(&self) -> (usize, usize) {
        (self.links.iter().count(), self.buffers.count())
    }

    /// Executes everything that the engine wants of the RNICs: whether there was
    /// anything.
    pub fn carry_out<S: Storage>(&mut self, engine: &mut Endpoint<S>, now: Instant) -> bool {
        let mut any = false;
        for device in self.devices() {
            let mut transmit = DataTransmit::EMPTY;
            loop {
                if engine.poll_data(now, device, &mut transmit) {
                    self.execute_transmit(&transmit);
                } else if let Some(command) = engine.poll_rdma(now, device) {
                    self.execute_from(engine, device, command);
                } else {
                    break;
                }
                any = true;
            }
        }
        any
    }

    fn execute_from<S: Storage>(
        &mut self,
        engine: &mut Endpoint<S>,
        device: DeviceId,
        command: RdmaCommand,
    ) {
        let RdmaCommand::SendLarge { link, wr_id, .. } = command else {
            return self.execute(device, command);
        };
        let mut bytes = [0; LARGEST];
        // There is always room for one.
        let length = engine.emit_llc(link, wr_id, &mut bytes).unwrap_or(0);
        let message = bytes.get(..length).unwrap_or_default();
        self.send_large(link, wr_id, message);
    }

    /// Returns the next completion or event of the RNICs for the engine.
    pub fn poll(&mut self) -> Option<RdmaCompletion<'_>> {
        Some(match self.find()? {
            Found::Answer(answer) => answer,
            Found::Message { link, length } => RdmaCompletion::Received {
                link,
                payload: self.payload.get(..length).unwrap_or_default(),
            },
        })
    }

    /// Returns the next completion for the engine that needs no query of an RNIC.
    pub fn answered(&mut self) -> Option<RdmaCompletion<'static>> {
        self.answers.pop_front()
    }

    /// Whether [`Self::poll`] is to be called although the descriptor may not be readable:
    /// after [`Self::carry_out`], or once it is not called until it gives nothing.
    #[must_use]
    pub fn is_due(&self) -> bool {
        !(self.answers.is_empty() && self.ready.is_empty() && self.held.is_empty())
    }

    fn find(&mut self) -> Option<Found> {
        loop {
            if let Some(answer) = self.answers.pop_front() {
                return Some(Found::Answer(answer));
            }
            if self.batches >= TIMEOUT {
                self.refresh();
            }
            match self.work() {
                Progress::Found(found) => return Some(found),
                Progress::Some => {}
                Progress::None => {
                    if !self.refresh() {
                        return None;
                    }
                }
            }
        }
    }

    /// Polls every RNIC for new events.
    fn refresh(&mut self) -> bool {
        self.batches = 0;
        let mut any = self.take_errands();
        for place in 0..MAX_DEVICES {
            let Some(bound) = self.rnics.get(place).and_then(Option::as_ref) else {
                continue;
            };
            let rnic = bound.rnic.clone();
            while let Some(token) = rnic.next_ready() {
                self.wake(token);
                any = true;
            }
            while let Some(event) = rnic.next_event() {
                // There are at most 16.
                self.on_event(DeviceId(place as u8), event);
                any = true;
            }
        }
        any
    }

    /// The completion queue of a link may have something.
    fn wake(&mut self, place: u32) {
        if let Some((_, link)) = self.links.at_mut(place)
            && !std::mem::replace(&mut link.queued, true)
        {
            self.ready.push_back(place);
        }
    }
}

impl<R: Rnic> AsFd for Binding<R> {
    /// Readable when there may be something to poll.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.poller.as_fd()
    }
}
