//! Control commands.

use std::io;
use std::sync::Arc;

use smc_proto::command::{BufferKind, EYE_CATCHER, RdmaCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::id::{BufferId, DeviceId, LinkId};
use smc_proto::wire::types::Qpn;

use super::Binding;
use super::buffers::Buffer;
use super::errands::Done;
use super::link::{Link, State};
use super::receives::Receives;
use super::sends::Sends;
use crate::memory::Memory;
use crate::rnic::{Access, Connect, QueuePairSpec, Rnic, RnicError};

/// Memory of up to so many bytes is registered at once: its pages are fetched in less
/// time than a thread needs to wake.
const AT_ONCE: usize = 1 << 20;

impl<R: Rnic> Binding<R> {
    /// Executes a command. Its answer is given by [`Self::poll`].
    /// [`SendLarge`](RdmaCommand::SendLarge) comes with bytes: [`Self::send_large`].
    pub fn execute(&mut self, device: DeviceId, command: RdmaCommand) {
        match command {
            RdmaCommand::Write { .. } | RdmaCommand::Send { .. } => self.execute_data(command),
            RdmaCommand::CreateQp {
                link,
                device,
                port,
                gid_index,
                receive_size,
            } => {
                let spec = QueuePairSpec {
                    token: link.index(),
                    port,
                    gid_index,
                    inline: self.inline,
                };
                match self.create(device, &spec, receive_size) {
                    Ok((made, qpn)) => {
                        self.links.put(link, made);
                        self.answers
                            .push_back(RdmaCompletion::QpCreated { link, qpn });
                    }
                    Err(error) => self.refuse_link(link, error),
                }
            }
            RdmaCommand::ConnectQp {
                link,
                peer,
                mtu,
                hop_limit,
            } => {
                let to = Connect {
                    peer,
                    mtu,
                    hop_limit,
                };
                self.connect(link, to);
            }
            RdmaCommand::ActivateQp { link, psn } => {
                let result = self.on_link(link, |rnic, link| rnic.activate(&link.queue_pair, psn));
                match result {
                    Ok(()) => self.answers.push_back(RdmaCompletion::QpActive { link }),
                    Err(error) => self.refuse_link(link, error),
                }
            }
            RdmaCommand::QpToError { link } => self.drain(link),
            RdmaCommand::DestroyQp { link } => self.destroy(link),
            RdmaCommand::RegisterBuffer { buffer, link } => self.register(buffer, link),
            _ => self.execute_memory(device, command),
        }
    }

    /// Commands about memory.
    fn execute_memory(&mut self, device: DeviceId, command: RdmaCommand) {
        let answer = match command {
            RdmaCommand::AllocBuffer {
                buffer,
                kind,
                elements,
                element_size,
                eye_catcher,
            } => match self.allocate(device, kind, elements, element_size, eye_catcher) {
                Ok(made) => {
                    self.buffers.put(buffer, made);
                    RdmaCompletion::BufferAllocated { buffer }
                }
                Err(error) => return self.refuse_buffer(buffer, error),
            },
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                if let Some(of) = self.buffers.get_mut(buffer) {
                    of.deregister(link);
                }
                RdmaCompletion::BufferDeregistered { buffer, link }
            }
            RdmaCommand::FreeBuffer { buffer } => {
                self.buffers.remove(buffer);
                RdmaCompletion::BufferFreed { buffer }
            }
            RdmaCommand::ClearElement {
                buffer,
                offset,
                length,
                eye_catcher,
            } => {
                let clear = |of: &Buffer<R>| {
                    of.memory.clear(offset.into(), length as usize)?;
                    match eye_catcher {
                        true => of.memory.copy_in(offset.into(), &EYE_CATCHER),
                        false => Ok(()),
                    }
                };
                match self.buffers.get(buffer).map(clear) {
                    Some(Ok(())) => RdmaCompletion::ElementCleared { buffer, offset },
                    _ => return self.refuse_buffer(buffer, gone("clear memory")),
                }
            }
            // The others are not about memory.
            _ => return,
        };
        self.answers.push_back(answer);
    }

    fn create(
        &mut self,
        device: DeviceId,
        spec: &QueuePairSpec,
        receive_size: u32,
    ) -> Result<(Link<R>, Qpn), RnicError> {
        let rnic = self.present(device)?;
        let what = "receive messages of this size";
        let receives = Receives::new(receive_size)
            .ok_or_else(|| RnicError::new(what, io::ErrorKind::InvalidInput.into()))?;
        let memory = Memory::new(receives.memory());
        let memory = memory.map_err(|error| RnicError::new("allocate memory", error))?;
        let memory = Arc::new(memory);
        let (queue_pair, facts) = rnic.create_queue_pair(spec)?;
        let region = rnic.register(&queue_pair, &memory, Access::Local)?;
        let mut link = Link {
            device,
            queue_pair: Arc::new(queue_pair),
            inline: facts.inline.min(spec.inline),
            memory,
            region,
            receives,
            sends: Sends::default(),
            polled: Default::default(),
            state: State::Up,
            lost: false,
            queued: false,
        };
        link.post_receives(&*rnic)?;
        Ok((link, facts.qpn))
    }

    /// Memory for a buffer. What the process may not lock later is refused now, so that
    /// a connection for which there is no memory gets that error.
    fn allocate(
        &self,
        device: DeviceId,
        kind: BufferKind,
        elements: u8,
        element_size: u32,
        eye_catcher: bool,
    ) -> Result<Buffer<R>, RnicError> {
        let refused = |cause| RnicError::new("provide memory", cause);
        let size = element_size as usize * usize::from(elements);
        let rnic = self.rnic(device);
        if let Some(left) = rnic.and_then(Rnic::lockable)
            && left < self.buffers.unregistered().saturating_add(size as u64)
        {
            return Err(refused(io::Error::from_raw_os_error(libc::ENOMEM)));
        }
        let memory = Memory::new(size).map_err(refused)?;
        if eye_catcher {
            for element in 0..u64::from(elements) {
                memory
                    .copy_in(element * u64::from(element_size), &EYE_CATCHER)
                    .map_err(|error| refused(io::Error::other(error)))?;
            }
        }
        Ok(Buffer::new(memory, kind))
    }

    fn connect(&mut self, link: LinkId, to: Connect) {
        let queue_pair = self.on_link(link, |_, link| Ok(link.queue_pair.clone()));
        let device = self.links.get(link).map(|link| link.device);
        let rnic = device.map_or_else(|| Err(gone("bind")), |device| self.present(device));
        match (queue_pair, rnic) {
            (Ok(queue_pair), Ok(rnic)) => self.errands.run(move || Done::Connected {
                link,
                result: rnic.connect(&queue_pair, &to),
            }),
            (Err(error), _) | (_, Err(error)) => self.refuse_link(link, error),
        }
    }

    /// Moves a queue pair to the error state; the answer comes once all is flushed.
    fn drain(&mut self, link: LinkId) {
        let rnic = self.rnic_of(link);
        match (self.links.get_mut(link), rnic) {
            (Some(of), Some(rnic)) if of.state != State::Over => {
                of.lost |= rnic.to_error(&of.queue_pair).is_err();
                of.state = State::Draining;
                self.wake(link.index());
            }
            // What never was, or is over, has nothing left to flush.
            _ => self.answers.push_back(RdmaCompletion::QpDrained { link }),
        }
    }

    /// A queue pair is gone when its last packet is: soft-RoCE waits up to 50 s for those that
    /// an interface still has that went down. Nothing finds the link any more.
    fn destroy(&mut self, link: LinkId) {
        self.buffers.forget(link);
        match self.links.remove(link) {
            Some(gone) => self.farewells.run(move || {
                drop(gone);
                Done::Destroyed { link }
            }),
            None => self.answers.push_back(RdmaCompletion::QpDestroyed { link }),
        }
    }

    fn register(&mut self, buffer: BufferId, link: LinkId) {
        let Some(of) = self.buffers.get(buffer) else {
            return self.refuse_buffer(buffer, gone("register memory"));
        };
        let (memory, access) = (of.memory.clone(), of.access());
        let queue_pair = self.on_link(link, |_, link| Ok(link.queue_pair.clone()));
        let (rnic, queue_pair) = match (self.rnic_of(link), queue_pair) {
            (Some(rnic), Ok(queue_pair)) => (rnic, queue_pair),
            (_, Err(error)) => return self.refuse_buffer(buffer, error),
            _ => return self.refuse_buffer(buffer, gone("register memory")),
        };
        let at_once = memory.len() <= AT_ONCE;
        let errand = move || Done::Registered {
            buffer,
            link,
            result: rnic.register(&queue_pair, &memory, access),
        };
        match at_once {
            true => self.on_done(errand()),
            false => self.errands.run(errand),
        }
    }

    /// Collects the results of errands: whether there were any.
    pub(super) fn take_errands(&mut self) -> bool {
        let mut done = self.errands.take();
        done.extend(self.farewells.take());
        let any = !done.is_empty();
        done.into_iter().for_each(|done| self.on_done(done));
        any
    }

    fn on_done(&mut self, done: Done<R>) {
        match done {
            Done::Connected { link, result } => match result {
                Ok(()) => self.answers.push_back(RdmaCompletion::QpConnected { link }),
                Err(error) => self.refuse_link(link, error),
            },
            Done::Destroyed { link } => {
                self.answers.push_back(RdmaCompletion::QpDestroyed { link })
            }
            Done::Registered {
                buffer,
                link,
                result,
            } => {
                let region = match result {
                    Ok(region) if self.links.get(link).is_some() => region,
                    Ok(_) => return self.refuse_buffer(buffer, gone("register memory")),
                    Err(error) => return self.refuse_buffer(buffer, error),
                };
                let rnic = self.rnic_of(link);
                let (Some(rnic), Some(of)) = (rnic, self.buffers.get_mut(buffer)) else {
                    return self.refuse_buffer(buffer, gone("register memory"));
                };
                let rtoken = rnic.token(&region);
                of.registered(link, region);
                self.answers.push_back(RdmaCompletion::BufferRegistered {
                    buffer,
                    link,
                    rtoken,
                });
            }
        }
    }

    /// An RNIC that can still be used.
    fn present(&self, device: DeviceId) -> Result<Arc<R>, RnicError> {
        let bound = self.rnics.get(usize::from(device.0));
        match bound.and_then(Option::as_ref) {
            Some(bound) if !bound.removed => Ok(bound.rnic.clone()),
            _ => Err(gone("use the device")),
        }
    }

    /// The RNIC of a link, also if it was removed.
    pub(super) fn rnic_of(&self, link: LinkId) -> Option<Arc<R>> {
        let device = self.links.get(link)?.device;
        let bound = self.rnics.get(usize::from(device.0))?.as_ref()?;
        Some(bound.rnic.clone())
    }

    fn on_link<T>(
        &mut self,
        link: LinkId,
        act: impl FnOnce(&R, &mut Link<R>) -> Result<T, RnicError>,
    ) -> Result<T, RnicError> {
        let rnic = self.rnic_of(link);
        match (rnic, self.links.get_mut(link)) {
            (Some(rnic), Some(of)) if of.state == State::Up => act(&rnic, of),
            _ => Err(gone("use the queue pair")),
        }
    }

    fn refuse_link(&mut self, link: LinkId, error: RnicError) {
        self.refusal = Some(error);
        self.answers.push_back(RdmaCompletion::LinkRefused { link });
    }

    fn refuse_buffer(&mut self, buffer: BufferId, error: RnicError) {
        self.refusal = Some(error);
        self.answers
            .push_back(RdmaCompletion::BufferRefused { buffer });
    }
}

fn gone(what: &'static str) -> RnicError {
    RnicError::new(what, io::ErrorKind::NotFound.into())
}
