//! Polling for one connection: the head of its DMB, where its peer puts the next message.

use std::sync::Arc;

use smc_proto::endpoint::PollOutcome;
use smc_proto::time::Instant;

use super::super::{Shard, State, Via};
use crate::socket::Socket;

impl State {
    /// Polls the device that a connection uses, `polls` times over shared memory and once over
    /// RNICs. Returns at once, with true, when something arrived.
    #[inline]
    pub(crate) fn spin_for(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        now: Instant,
        polls: usize,
    ) -> bool {
        match socket.via() {
            Via::Ism => self.spin_at_head(shard, socket, now, polls),
            // A poll is a few system calls.
            Via::Verbs => self.poll_rnics(shard, now),
        }
    }

    /// Polls the head of a connection's DMB, `polls` times, and the device once: each time if a
    /// waiter has to be woken. Returns at once, with true, when something arrived.
    #[inline]
    fn spin_at_head(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        now: Instant,
        polls: usize,
    ) -> bool {
        for poll in 0..polls {
            if self.poll_head_of(shard, socket, now) {
                return true;
            }
            if poll == 0 || self.polling.is_urgent() {
                let completion = self.transports.poll();
                let progress = completion.is_some() || self.handshakes_rung;
                if let Some(completion) = completion {
                    self.complete(shard, completion, now);
                }
                if progress {
                    if self.handshakes_rung {
                        self.drain_completions(shard, now);
                    }
                    self.execute_commands(shard, now);
                    return true;
                }
            }
            std::hint::spin_loop();
        }
        false
    }

    /// Polls the head of a connection's DMB, which costs less than to poll the device, and hands
    /// the message there to the engine; whether there was one. What peers ring for meanwhile waits
    /// until the idle timer, so nothing is polled while a waiter has to be woken.
    //= SHM-034
    #[inline]
    pub(in crate::shard) fn poll_head_of(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Socket,
        now: Instant,
    ) -> bool {
        let Some(conn) = socket.conn().filter(|_| self.may_poll_head(socket)) else {
            return false;
        };
        let outcome = self.transports.poll_head(&mut self.engine, conn, now);
        if outcome == PollOutcome::More {
            self.execute_commands(shard, now);
        }
        // Event loops that sleep are woken for what arrived for them.
        if self.polling.parked_loops > 0 && !self.transports.ism.device().is_parked() {
            self.drain_completions(shard, now);
        }
        outcome.is_anything()
    }

    /// Whether the connection has a DMB in shared memory, and no waiter depends on the device.
    #[inline]
    pub(in crate::shard) fn may_poll_head(&self, socket: &Socket) -> bool {
        !self.polling.must_park() && socket.via() == Via::Ism
    }
}
