//! Connecting in a task whose runtime polls the device. To a known server no descriptor is needed but
//! that of the connection.
//!
//! ```text
//!   announce, connect ── TCP has it at once ──► Answer: the task is woken in memory
//!                     └─ else, or unknown ────► Pollable: by a descriptor
//! ```

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use super::{Attempt, Connecting, Stage, Step, WaitMode};
use crate::shard::Shard;
use crate::socket::Socket;
use crate::stack::Stack;
use crate::stream::SmcStream;
use crate::waiters::WaiterId;
use crate::waiting::Direction;

/// A connection that has begun.
pub(crate) enum Begun {
    /// The server's answer comes over shared memory.
    Answer(TaskConnecting),
    /// The end is waited for by a descriptor.
    Pollable(Connecting),
}

/// A connection that was announced to its server, and that TCP has.
pub(crate) struct TaskConnecting {
    stack: Stack,
    attempt: Box<Attempt>,
    socket: Arc<Socket>,
    waiter: Option<WaiterId>,
}

impl TaskConnecting {
    /// Begins. `polls` is asked whether the runtime of the calling task polls the device, once
    /// that is needed.
    pub(crate) fn begin(
        stack: &Stack,
        socket: Option<OwnedFd>,
        to: SocketAddr,
        polls: impl FnOnce(&Arc<Shard>) -> bool,
    ) -> io::Result<Begun> {
        let to = super::destination(socket.as_ref(), to);
        let stack = stack.toward(to)?;
        let mut attempt = Attempt::begin(stack.shard(), socket, to, WaitMode::Task)?;
        if let Stage::Announced(socket, ..) = &attempt.stage {
            let socket = socket.clone();
            // On this host the kernel connects at once, unless its queue is full.
            if attempt.is_connected()? && polls(stack.shard()) {
                return Ok(Begun::Answer(Self {
                    stack,
                    attempt,
                    socket,
                    waiter: None,
                }));
            }
        }
        attempt.waits = WaitMode::Descriptor;
        Connecting::poll(stack, attempt).map(Begun::Pollable)
    }

    /// The stream, when it is known what carries it, or the same connection, if its server does
    /// not answer over shared memory. Has the task woken otherwise.
    ///
    /// # Errors
    /// Errors of [`SmcStream::connect`].
    pub(crate) fn poll(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<Option<SmcStream>>> {
        self.attempt.process.check()?;
        let shard = self.stack.shard().clone();
        let state = shard.lock();
        let waiters = &self.socket.waiters;
        // What is decided from here on wakes the task.
        let (id, replaced) = waiters.register_future(Direction::Read, self.waiter, context.waker());
        drop(state);
        drop(replaced);
        self.waiter = Some(id);
        match self.attempt.step()? {
            Step::Done(socket) => {
                self.forget();
                Poll::Ready(Ok(Some(SmcStream::new(self.stack.clone(), socket))))
            }
            Step::Wait(until) if self.attempt.announced().is_some() => {
                let mut state = shard.lock();
                let until = until.unwrap_or_else(Instant::now);
                state.wake_waiters_at(&shard, &self.socket, until);
                Poll::Pending
            }
            Step::Wait(_) => {
                self.forget();
                Poll::Ready(Ok(None))
            }
        }
    }

    /// Waits for the end by a descriptor.
    pub(crate) fn into_pollable(mut self) -> io::Result<Connecting> {
        self.forget();
        self.attempt.waits = WaitMode::Descriptor;
        Connecting::poll(self.stack.clone(), self.attempt)
    }

    fn forget(&mut self) {
        if let Some(id) = self.waiter.take() {
            self.socket.waiters.remove_future(Direction::Read, id);
        }
    }
}
