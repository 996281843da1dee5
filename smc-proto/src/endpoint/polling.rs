//! Polling of one connection's DMB, for a thread that waits for its bytes.

use super::Endpoint;
use crate::completion::IsmCompletion;
use crate::data_path::{DataPath, Deferred, SignalOutcome};
use crate::id::{BufferId, ConnId};
use crate::link_group::owner_of;
use crate::storage::{Storage, for_call};
use crate::time::Instant;
use crate::trace::Tap;
use crate::wire::cdc_ism::CDC_ISM_LENGTH;

/// Outcome of [`Endpoint::poll_dmb`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum PollOutcome {
    /// There was nothing new.
    Nothing,
    /// Cursors moved, and that is all: there is no more to poll than there was before.
    Cursors,
    /// A message was received from which something may follow, which is polled as ever.
    More,
}

impl PollOutcome {
    /// Whether a message was received.
    #[inline]
    #[must_use]
    pub const fn is_anything(self) -> bool {
        !matches!(self, Self::Nothing)
    }
}

impl<S: Storage> Endpoint<S> {
    /// Polls the head of the DMB that a connection receives in, without waiting for a
    /// signal. `read_head` copies the head as [`IsmCompletion::Signalled`] has it, and
    /// returns whether there may be anything new. Nothing is received of a buffer that is
    /// no DMB.
    ///
    /// The message counts as signalled, but no event says that bytes can be read now: the
    /// caller finds out by reading. Whatever else follows is polled as ever. A signal of
    /// the same message may still come, and does no harm.
    //= D-043
    #[inline]
    pub fn poll_dmb(
        &mut self,
        now: Instant,
        conn: ConnId,
        read_head: impl FnOnce(BufferId, &mut [u8; CDC_ISM_LENGTH]) -> bool,
    ) -> PollOutcome {
        let (tables, tap) = for_call(&mut self.storage);
        let Some(record) = tables.connections.live(conn.index, conn.generation) else {
            return PollOutcome::Nothing;
        };
        let buffer = record.rmb.id();
        let mut cdc = [0; CDC_ISM_LENGTH];
        if !read_head(buffer, &mut cdc) {
            return PollOutcome::Nothing;
        }
        // A connection that sends in place receives in a DMB of its own.
        let owner = match &record.connection {
            Some(at) if at.is_attached() => Some(conn.index),
            _ => owner_of(&tables.buffers, &tables.connections, buffer),
        };
        self.core.begin(now);
        self.core.step();
        let observed = tap.is_on();
        let owner = owner.filter(|_| !observed);
        let mut path = DataPath::new(&mut self.core, (tables, Tap::OFF));
        match owner.and_then(|owner| path.on_fast_signal(owner, &cdc)) {
            Some(SignalOutcome::Readable) => return PollOutcome::Cursors,
            Some(SignalOutcome::Deferred(Deferred::Nothing)) => {}
            Some(SignalOutcome::Deferred(deferred)) => self.execute(deferred),
            None => self.on_other_ism(&IsmCompletion::Signalled { buffer, cdc }),
        }
        PollOutcome::More
    }
}
