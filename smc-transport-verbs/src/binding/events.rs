//! Events of queues and devices.

use rustix::event::epoll;
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::{DeviceId, LinkId};
use smc_proto::path::{LocalPath, PathEvent};
use smc_proto::wire::cdc::{Cdc, ProducerFlags};

use super::link::{BATCH, State};
use super::receives::RECEIVE;
use super::sends::Posted;
use super::{Binding, Found, Held, Progress};
use crate::rnic::{DeviceEvent, Rnic, Status, WorkCompletion};

/// A change of a port or a device, for
/// [`handle_path`](smc_proto::endpoint::Endpoint::handle_path).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathChange {
    /// Something is gone: the event is to be passed to the engine unchanged.
    Lost(PathEvent),
    /// A port has its carrier, or other GIDs: it is to be listed anew. The engine is notified
    /// of each path that it makes now by [`PathEvent::PortUp`]; if there is none any more,
    /// by [`PathEvent::PortDown`] that its links fail. [`Self::events`] does so.
    Changed {
        /// The RNIC.
        device: DeviceId,
        /// Port of the RNIC.
        port: u8,
    },
}

impl PathChange {
    /// Returns the events for the engine. `list` gives the paths that a port makes, as
    /// [`Surroundings::port`](crate::paths::Surroundings::port) does.
    pub fn events(
        self,
        list: impl FnOnce(DeviceId, u8) -> Vec<LocalPath>,
    ) -> impl Iterator<Item = PathEvent> {
        let (first, paths) = match self {
            Self::Lost(event) => (Some(event), Vec::new()),
            Self::Changed { device, port } => {
                let paths = list(device, port);
                let down = PathEvent::PortDown { device, port };
                (paths.is_empty().then_some(down), paths)
            }
        };
        first
            .into_iter()
            .chain(paths.into_iter().map(PathEvent::PortUp))
    }
}

impl<R: Rnic> Binding<R> {
    /// Takes the next change of a port or a device that [`Self::poll`] found.
    pub fn poll_path(&mut self) -> Option<PathChange> {
        self.path_changes.pop_front()
    }

    /// Handles a completion, or takes some from a queue.
    pub(super) fn work(&mut self) -> Progress {
        let Some(place) = self.ready.front().copied() else {
            return match self.held.pop_front() {
                Some(held) => self.release(held),
                None => Progress::None,
            };
        };
        let holding = !self.held.is_empty();
        let Some((id, link)) = self.links.at_mut(place) else {
            self.ready.pop_front();
            return Progress::Some;
        };
        if let Some(completion) = link.polled.pop_front() {
            return match self.on_completion(id, completion) {
                Some(found) => Progress::Found(found),
                None => Progress::Some,
            };
        }
        self.ready.pop_front();
        if let Some((_, link)) = self.links.at_mut(place) {
            link.queued = false;
        }
        // What comes now comes after what is held.
        if !holding {
            self.take_batch(id);
        }
        Progress::Some
    }

    /// Takes completions of a link; without any, it may be over.
    fn take_batch(&mut self, id: LinkId) {
        let Some(rnic) = self.rnic_of(id) else {
            return;
        };
        let Some(link) = self.links.get_mut(id) else {
            return;
        };
        if link.take_batch(&rnic) {
            self.batches += 1;
            self.wake(id.index());
            return;
        }
        if !link.is_flushed() {
            return;
        }
        let answer = match std::mem::replace(&mut link.state, State::Over) {
            State::Failing { cause, conn } => RdmaCompletion::LinkFailed {
                link: id,
                cause,
                conn,
            },
            State::Draining => RdmaCompletion::QpDrained { link: id },
            State::Up => {
                link.state = State::Up;
                return;
            }
            State::Over => return,
        };
        self.answers.push_back(answer);
    }

    fn on_completion(&mut self, id: LinkId, completion: WorkCompletion) -> Option<Found> {
        let rnic = self.rnic_of(id)?;
        let link = self.links.get_mut(id)?;
        let number = completion.number;
        if number & RECEIVE == 0 {
            let posted = link.sends.complete(number)?;
            return match (completion.status, posted) {
                (Status::Success, Posted::Send { wr_id, .. }) => {
                    Some(Found::Answer(RdmaCompletion::Sent { link: id, wr_id }))
                }
                (Status::Success, Posted::Write { .. }) => None,
                (Status::Failed(cause), Posted::Write { conn }) => {
                    link.fail(&rnic, cause, Some(conn));
                    None
                }
                (status, _) => {
                    link.fail(&rnic, cause_of(status), None);
                    None
                }
            };
        }
        link.receives.completed();
        if completion.status != Status::Success {
            link.fail(&rnic, cause_of(completion.status), None);
            return None;
        }
        // A slot is one of a few.
        let slot = (number & !RECEIVE) as u32;
        let mut length = 0;
        for piece in link.receives.pieces(slot, completion.length) {
            let end = length + piece.length as usize;
            let into = self.payload.get_mut(length..end)?;
            link.memory.copy_out(piece.offset.into(), into).ok()?;
            length = end;
        }
        if link.state == State::Up && link.post_receive(&rnic, slot).is_err() {
            link.fail(&rnic, LinkFailure::Other, None);
        }
        let bytes = self.payload.get(..length)?;
        if is_validation(bytes) {
            let bytes = bytes.into();
            self.hold(Held { link: id, bytes });
            return None;
        }
        Some(Found::Message { link: id, length })
    }

    /// A failover validation covers messages on another link: it is reported after
    /// everything that has come there, and nothing of its own link before it.
    fn hold(&mut self, held: Held) {
        let first = self.held.is_empty();
        let place = held.link.index();
        self.held.push_back(held);
        self.ready.retain(|ready| *ready != place);
        if let Some((_, link)) = self.links.at_mut(place) {
            link.queued = false;
        }
        if !first {
            // What came before is taken in already.
            return;
        }
        let others = self.links.iter().map(|(id, _)| id);
        let others: Vec<_> = others.filter(|id| id.index() != place).collect();
        for id in others {
            let Some(rnic) = self.rnic_of(id) else {
                continue;
            };
            if let Some(link) = self.links.get_mut(id) {
                // A queue has no more than was posted, and nothing is posted meanwhile.
                while link.take_batch(&rnic) && link.polled.len() <= 8 * BATCH {}
            }
            self.wake(id.index());
        }
    }

    /// Reports what was held.
    fn release(&mut self, held: Held) -> Progress {
        if self.held.is_empty() {
            // Queues that were left alone meanwhile may have something.
            let all: Vec<_> = self.links.iter().map(|(id, _)| id.index()).collect();
            all.into_iter().for_each(|place| self.wake(place));
        }
        let length = held.bytes.len();
        if let Some(into) = self.payload.get_mut(..length) {
            into.copy_from_slice(&held.bytes);
        }
        Progress::Found(Found::Message {
            link: held.link,
            length,
        })
    }

    pub(super) fn on_event(&mut self, device: DeviceId, event: DeviceEvent) {
        match event {
            DeviceEvent::PortDown { port } => {
                let lost = PathEvent::PortDown { device, port };
                self.path_changes.push_back(PathChange::Lost(lost));
            }
            DeviceEvent::PortUp { port } | DeviceEvent::PortChanged { port } => {
                let changed = PathChange::Changed { device, port };
                // Each address of an interface is reported by itself.
                if self.path_changes.back() != Some(&changed) {
                    self.path_changes.push_back(changed);
                }
            }
            DeviceEvent::QueuePairBroken { token } => {
                let at = self.links.at_mut(token);
                let Some(id) = at.filter(|(_, link)| link.device == device) else {
                    return;
                };
                let id = id.0;
                self.break_link(id, LinkFailure::Other, false);
            }
            DeviceEvent::Removed => {
                if let Some(Some(bound)) = self.rnics.get_mut(usize::from(device.0)) {
                    bound.removed = true;
                    // A descriptor that is gone is in error for good, and would be reported
                    // for ever.
                    for fd in [bound.rnic.completions_fd(), bound.rnic.events_fd()] {
                        let _ = epoll::delete(&self.poller, fd);
                    }
                }
                let mine = self.links.iter().filter(|(_, link)| link.device == device);
                let mine: Vec<_> = mine.map(|(id, _)| id).collect();
                for id in mine {
                    self.break_link(id, LinkFailure::DeviceRemoved, true);
                }
                let lost = PathEvent::DeviceRemoved { device };
                self.path_changes.push_back(PathChange::Lost(lost));
            }
        }
    }

    fn break_link(&mut self, id: LinkId, cause: LinkFailure, lost: bool) {
        let rnic = self.rnic_of(id);
        if let (Some(rnic), Some(link)) = (rnic, self.links.get_mut(id)) {
            link.fail(&rnic, cause, None);
            link.lost |= lost;
            self.wake(id.index());
        }
    }
}

/// Returns why a queue pair broke, as far as the status of a request shows.
fn cause_of(status: Status) -> LinkFailure {
    match status {
        Status::Failed(cause) => cause,
        Status::Success | Status::Flushed => LinkFailure::Other,
    }
}

/// Whether a message is a failover validation.
fn is_validation(bytes: &[u8]) -> bool {
    Cdc::parse(bytes).is_ok_and(|cdc| {
        let flags = cdc.producer_flags;
        flags.contains(ProducerFlags::FAILOVER_VALIDATION)
    })
}
