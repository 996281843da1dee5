//! A queue pair, with what is posted to it.
//!
//! ```text
//!   Up ── an error, an event ──► Failing ── all flushed ──► Over, LinkFailed
//!   │                              │                           │
//!   └───────── QpToError ──────────┴─► Draining ─ all flushed ─┴─► Over, QpDrained
//! ```

use std::collections::VecDeque;
use std::sync::Arc;

use smc_proto::completion::LinkFailure;
use smc_proto::id::{ConnId, DeviceId};

use super::receives::{RECEIVE, Receives};
use super::sends::Sends;
use crate::memory::Memory;
use crate::rnic::{Piece, RECEIVE_DEPTH, Rnic, RnicError, WorkCompletion};

/// Completions taken from a queue at once.
pub(super) const BATCH: usize = 32;

pub(super) struct Link<R: Rnic> {
    pub(super) device: DeviceId,
    /// Most bytes that can be posted inline.
    pub(super) inline: u32,
    /// Messages before they are sent and after they have come.
    pub(super) memory: Arc<Memory>,
    pub(super) region: R::Region,
    /// Behind what is registered with it, which is dropped first.
    pub(super) queue_pair: Arc<R::QueuePair>,
    pub(super) receives: Receives,
    pub(super) sends: Sends,
    /// Completions that were taken and not handled yet.
    pub(super) polled: VecDeque<WorkCompletion>,
    pub(super) state: State,
    /// The device is gone, or will not flush: nothing comes back any more.
    pub(super) lost: bool,
    /// The link is among those whose queues may have something.
    pub(super) queued: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum State {
    Up,
    Failing {
        cause: LinkFailure,
        conn: Option<ConnId>,
    },
    Draining,
    Over,
}

impl<R: Rnic> Link<R> {
    /// Takes a batch of completions: whether there were any.
    pub(super) fn take_batch(&mut self, rnic: &R) -> bool {
        let mut batch = [WorkCompletion::default(); BATCH];
        let count = rnic.poll(&self.queue_pair, &mut batch);
        self.polled.extend(batch.into_iter().take(count));
        count > 0
    }

    /// Posts a receive.
    pub(super) fn post_receive(&mut self, rnic: &R, slot: u32) -> Result<(), RnicError> {
        let into = Piece {
            region: &self.region,
            segments: self.receives.slot(slot),
        };
        let number = RECEIVE | u64::from(slot);
        rnic.post_receive(&self.queue_pair, number, into)?;
        self.receives.posted();
        Ok(())
    }

    pub(super) fn post_receives(&mut self, rnic: &R) -> Result<(), RnicError> {
        (0..RECEIVE_DEPTH).try_for_each(|slot| self.post_receive(rnic, slot))
    }

    /// Whether the device is through with everything.
    pub(super) fn is_flushed(&self) -> bool {
        let empty = self.receives.is_empty() && self.sends.is_empty();
        self.polled.is_empty() && (self.lost || empty)
    }

    /// Something broke the queue pair; it is moved to the error state, so that all that
    /// is posted comes back.
    pub(super) fn fail(&mut self, rnic: &R, cause: LinkFailure, conn: Option<ConnId>) {
        if self.state == State::Up {
            self.state = State::Failing { cause, conn };
            self.lost |= rnic.to_error(&self.queue_pair).is_err();
        }
    }
}
