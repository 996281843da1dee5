//! What an RNIC does for the engine, as a trait: an embedder writes its methods, and
//! [`drive`](Rnic::drive) executes commands by them and reports what they answer.

use crate::command::{BufferKind, QpAddress, RdmaCommand, Segment};
use crate::completion::{LinkFailure, RdmaCompletion};
use crate::endpoint::Endpoint;
use crate::id::{BufferId, DeviceId, LinkId, WrId};
use crate::storage::Storage;
use crate::time::Instant;
use crate::wire::BufferTooSmall;
use crate::wire::cdc::CDC_LENGTH;
use crate::wire::types::{Mtu, Psn, Qpn, RToken};

/// Most completions and commands together that one call of [`Rnic::drive`] handles, so that
/// neither a peer nor a fast connection keeps the caller from its other work.
pub const MOST_AT_ONCE: usize = 256;

/// What an RNIC answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer<T = (), E = Refused> {
    /// Done, with this result.
    Done(T),
    /// In progress: [`Rnic::poll_completion`] returns the completion, or the embedder reports it
    /// by [`Endpoint::handle_rdma`].
    Later,
    /// Not done, and it will not be.
    Failed(E),
}

/// The RNIC has no more of what was asked for, or does not do such a thing. The engine goes on
/// without: by a Decline, or with fewer links. What cannot be undone counts as gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused;

/// An RNIC. Each method is one [`RdmaCommand`], which says in detail what is to be done; an index
/// of [`LinkId`] and [`BufferId`] is smaller than the engine's table, so that what belongs to a
/// handle may be kept in an array of that size.
pub trait Rnic {
    /// Handle of this RNIC in the engine, as in its [`LocalPath`](crate::path::LocalPath)s.
    fn device(&self) -> DeviceId;

    /// Creates a queue pair in state INIT for a link, with receives of `receive_size` bytes
    /// posted: [`RdmaCommand::CreateQp`].
    fn create_qp(
        &mut self,
        link: LinkId,
        port: u8,
        gid_index: u16,
        receive_size: u32,
    ) -> Answer<Qpn>;

    /// Moves a queue pair to RTR: [`RdmaCommand::ConnectQp`].
    fn connect_qp(&mut self, link: LinkId, peer: QpAddress, mtu: Mtu, hop_limit: u8) -> Answer;

    /// Moves a queue pair to RTS: [`RdmaCommand::ActivateQp`].
    fn activate_qp(&mut self, link: LinkId, psn: Psn) -> Answer;

    /// Moves a queue pair to the error state and flushes it: [`RdmaCommand::QpToError`].
    fn drain_qp(&mut self, link: LinkId) -> Answer;

    /// Destroys a queue pair: [`RdmaCommand::DestroyQp`].
    fn destroy_qp(&mut self, link: LinkId) -> Answer;

    /// Provides zeroed memory, `elements` times `element_size` bytes:
    /// [`RdmaCommand::AllocBuffer`].
    fn alloc_buffer(
        &mut self,
        buffer: BufferId,
        kind: BufferKind,
        elements: u8,
        element_size: u32,
        eye_catcher: bool,
    ) -> Answer;

    /// Registers a buffer for a link: [`RdmaCommand::RegisterBuffer`].
    fn register_buffer(&mut self, buffer: BufferId, link: LinkId) -> Answer<RToken>;

    /// Undoes a registration: [`RdmaCommand::DeregisterBuffer`].
    fn deregister_buffer(&mut self, buffer: BufferId, link: LinkId) -> Answer;

    /// Gives memory back: [`RdmaCommand::FreeBuffer`].
    fn free_buffer(&mut self, buffer: BufferId) -> Answer;

    /// Zeroes an element of an RMB: [`RdmaCommand::ClearElement`].
    fn clear_element(
        &mut self,
        buffer: BufferId,
        offset: u32,
        length: u32,
        eye_catcher: bool,
    ) -> Answer;

    /// Posts an RDMA WRITE out of a send buffer to `target`, the key and the address in memory of
    /// the peer: [`RdmaCommand::Write`]. No completion follows.
    ///
    /// # Errors
    /// Why the queue pair broke.
    fn write(
        &mut self,
        link: LinkId,
        buffer: BufferId,
        source: [Segment; 2],
        target: RToken,
    ) -> Result<(), LinkFailure>;

    /// Posts a SEND behind all WRITEs before it: [`RdmaCommand::Send`].
    fn send(
        &mut self,
        link: LinkId,
        wr_id: WrId,
        payload: &[u8; CDC_LENGTH],
    ) -> Answer<(), LinkFailure>;

    /// Posts a SEND of `length` bytes, which `emit` writes into a buffer and which it must be
    /// called for before this returns: [`RdmaCommand::SendLarge`]. Links of version 2 alone need
    /// it; an RNIC that offers none has nothing to add.
    fn send_large(
        &mut self,
        link: LinkId,
        wr_id: WrId,
        length: u32,
        emit: &mut dyn FnMut(&mut [u8]) -> Result<usize, BufferTooSmall>,
    ) -> Answer<(), LinkFailure> {
        let _ = (link, wr_id, length, emit);
        Answer::Failed(LinkFailure::Other)
    }

    /// The next completion or received message, if there is one.
    fn poll_completion(&mut self) -> Option<RdmaCompletion<'_>>;

    /// Whether another command can be taken. While it cannot, commands stay in the engine, and
    /// none is lost.
    fn has_room(&self) -> bool {
        true
    }

    /// Called once after the last command of a [`drive`](Self::drive) that had any, for an RNIC that
    /// is notified of posted work.
    fn ring_doorbell(&mut self) {}

    /// Reports completions to the engine and executes its commands, until there are none or
    /// [`MOST_AT_ONCE`] were handled. Returns whether there was any: then the engine's other
    /// outputs are to be drained, and this is to be called again.
    fn drive<S: Storage>(&mut self, engine: &mut Endpoint<S>, now: Instant) -> bool {
        let (mut moved, mut posted) = (false, false);
        for _ in 0..MOST_AT_ONCE {
            if let Some(completion) = self.poll_completion() {
                engine.handle_rdma(now, completion);
            } else if self.has_room()
                && let Some(command) = engine.poll_rdma(now, self.device())
            {
                self.execute(engine, now, command);
                posted = true;
            } else {
                break;
            }
            moved = true;
        }
        if posted {
            self.ring_doorbell();
        }
        moved
    }

    /// Executes one command and reports its completion, unless that comes later. For embedders
    /// that poll commands themselves; [`drive`](Self::drive) calls it.
    fn execute<S: Storage>(
        &mut self,
        engine: &mut Endpoint<S>,
        now: Instant,
        command: RdmaCommand,
    ) {
        use RdmaCompletion as Completion;
        let of_link = |link| Completion::LinkRefused { link };
        let of_buffer = |buffer| Completion::BufferRefused { buffer };
        let done = match command {
            RdmaCommand::CreateQp {
                link,
                port,
                gid_index,
                receive_size,
                ..
            } => {
                let answer = self.create_qp(link, port, gid_index, receive_size);
                answer.reported(|qpn| Completion::QpCreated { link, qpn }, of_link(link))
            }
            RdmaCommand::ConnectQp {
                link,
                peer,
                mtu,
                hop_limit,
            } => {
                let answer = self.connect_qp(link, peer, mtu, hop_limit);
                answer.reported(|()| Completion::QpConnected { link }, of_link(link))
            }
            RdmaCommand::ActivateQp { link, psn } => {
                let answer = self.activate_qp(link, psn);
                answer.reported(|()| Completion::QpActive { link }, of_link(link))
            }
            RdmaCommand::QpToError { link } => {
                let answer = self.drain_qp(link);
                answer.reported(|()| Completion::QpDrained { link }, of_link(link))
            }
            RdmaCommand::DestroyQp { link } => {
                let answer = self.destroy_qp(link);
                answer.reported(|()| Completion::QpDestroyed { link }, of_link(link))
            }
            RdmaCommand::AllocBuffer {
                buffer,
                kind,
                elements,
                element_size,
                eye_catcher,
            } => {
                let answer = self.alloc_buffer(buffer, kind, elements, element_size, eye_catcher);
                answer.reported(
                    |()| Completion::BufferAllocated { buffer },
                    of_buffer(buffer),
                )
            }
            RdmaCommand::RegisterBuffer { buffer, link } => {
                let answer = self.register_buffer(buffer, link);
                let registered = |rtoken| Completion::BufferRegistered {
                    buffer,
                    link,
                    rtoken,
                };
                answer.reported(registered, of_buffer(buffer))
            }
            RdmaCommand::DeregisterBuffer { buffer, link } => {
                let answer = self.deregister_buffer(buffer, link);
                let deregistered = |()| Completion::BufferDeregistered { buffer, link };
                answer.reported(deregistered, of_buffer(buffer))
            }
            RdmaCommand::FreeBuffer { buffer } => {
                let answer = self.free_buffer(buffer);
                answer.reported(|()| Completion::BufferFreed { buffer }, of_buffer(buffer))
            }
            RdmaCommand::ClearElement {
                buffer,
                offset,
                length,
                eye_catcher,
            } => {
                let answer = self.clear_element(buffer, offset, length, eye_catcher);
                let cleared = |()| Completion::ElementCleared { buffer, offset };
                answer.reported(cleared, of_buffer(buffer))
            }
            RdmaCommand::Write {
                link,
                conn,
                buffer,
                source,
                rkey,
                address,
            } => {
                let failed = self.write(link, buffer, source, RToken { rkey, address });
                failed.err().map(|cause| Completion::LinkFailed {
                    link,
                    cause,
                    conn: Some(conn),
                })
            }
            RdmaCommand::Send {
                link,
                wr_id,
                payload,
            } => sent(link, wr_id, self.send(link, wr_id, &payload)),
            RdmaCommand::SendLarge {
                link,
                wr_id,
                length,
            } => {
                let mut emit = |buffer: &mut [u8]| engine.emit_llc(link, wr_id, buffer);
                sent(link, wr_id, self.send_large(link, wr_id, length, &mut emit))
            }
        };
        if let Some(done) = done {
            engine.handle_rdma(now, done);
        }
    }
}

/// The completion of a SEND.
fn sent(
    link: LinkId,
    wr_id: WrId,
    answer: Answer<(), LinkFailure>,
) -> Option<RdmaCompletion<'static>> {
    match answer {
        Answer::Done(()) => Some(RdmaCompletion::Sent { link, wr_id }),
        Answer::Later => None,
        Answer::Failed(cause) => Some(RdmaCompletion::LinkFailed {
            link,
            cause,
            conn: None,
        }),
    }
}

impl<T> Answer<T> {
    /// The completion of a control command, unless it comes later.
    fn reported(
        self,
        done: impl FnOnce(T) -> RdmaCompletion<'static>,
        refused: RdmaCompletion<'static>,
    ) -> Option<RdmaCompletion<'static>> {
        match self {
            Self::Done(result) => Some(done(result)),
            Self::Later => None,
            Self::Failed(Refused) => Some(refused),
        }
    }
}

impl<T> From<Option<T>> for Answer<T> {
    /// Done if there is a result, refused if there is none.
    fn from(result: Option<T>) -> Self {
        match result {
            Some(result) => Self::Done(result),
            None => Self::Failed(Refused),
        }
    }
}

impl<T, E> From<Result<T, E>> for Answer<T, E> {
    fn from(result: Result<T, E>) -> Self {
        match result {
            Ok(result) => Self::Done(result),
            Err(error) => Self::Failed(error),
        }
    }
}

#[cfg(test)]
mod tests;
