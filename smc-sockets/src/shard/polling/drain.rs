//! Draining the devices: each completion goes to the engine, and the commands that it has then are
//! executed.

use std::sync::Arc;

use smc_proto::completion::IsmCompletion;
use smc_proto::id::ConnId;
use smc_proto::time::Instant;

use super::super::{Shard, State, Via};
use super::ATTEMPTS;
use crate::socket::Socket;

/// Most completions of shared memory that are handled at one go, so that no peer keeps the lock
/// busy.
const COMPLETIONS: usize = 1024;

/// Most times that handshakes are received at one go: some peers ring while others are answered.
pub(in crate::shard) const RECEPTIONS: usize = 4;

impl State {
    /// Drains the completions of shared memory, and executes the commands that follow from them.
    /// Returns whether that was all: it ends after [`COMPLETIONS`], and after [`RECEPTIONS`] if peers ring
    /// for handshakes again.
    pub(crate) fn drain_completions(&mut self, shard: &Arc<Shard>, now: Instant) -> bool {
        // Peers that were asked not to ring leave messages only at the heads of DMBs.
        //= SHM-075
        if self.transports.ism.device().suppresses_rings() {
            self.transports.ism.device_mut().poll_heads();
        }
        let mut receptions = 0;
        for _ in 0..COMPLETIONS {
            self.execute_commands(shard, now);
            match self.transports.poll() {
                Some(completion) => self.complete(shard, completion, now),
                None if !self.handshakes_rung => return true,
                None if receptions == RECEPTIONS => return false,
                None => {
                    receptions += 1;
                    self.receive_handshakes(now);
                }
            }
        }
        if receptions == 0 && self.handshakes_rung {
            self.receive_handshakes(now);
        }
        self.execute_commands(shard, now);
        false
    }

    /// Drains the completions of the device that a connection uses.
    #[inline]
    pub(crate) fn drain_device(&mut self, shard: &Arc<Shard>, via: Via, now: Instant) {
        match via {
            Via::Ism => {
                self.drain_completions(shard, now);
            }
            Via::Verbs => {
                self.poll_rnics(shard, now);
            }
        }
    }

    /// Drains the completions of RNICs; whether there were any.
    pub(crate) fn poll_rnics(&mut self, shard: &Arc<Shard>, now: Instant) -> bool {
        let mut ever = false;
        for _ in 0..ATTEMPTS {
            let any = self.transports.poll_rnics(&mut self.engine, now);
            self.execute_commands(shard, now);
            ever |= any;
            if !any && !self.transports.is_due() {
                return ever;
            }
        }
        // The driver does the rest.
        shard.ring();
        ever
    }

    /// Handles one completion of shared memory: of a data path that is lent, or of the engine. A ring
    /// for handshakes is only noted: [`Self::drain_completions`] receives them.
    #[inline]
    pub(in crate::shard) fn complete(
        &mut self,
        shard: &Arc<Shard>,
        completion: IsmCompletion,
        now: Instant,
    ) {
        if !self.recall_for(shard, &completion, now) {
            return;
        }
        if let IsmCompletion::MoveFailed { conn } = completion {
            self.receive_last_of(conn, now);
        } else if let IsmCompletion::DmbWithdrawn { buffer } = completion {
            if let Some(conn) = self.engine.sender(buffer) {
                self.receive_last_of(conn, now);
            }
        } else if Self::is_handshake(&completion) {
            self.handshakes_rung = true;
            return;
        }
        self.engine.handle_ism(now, completion);
    }

    /// Receives the last message of a peer over shared memory before the engine learns that the peer
    /// took its memory back, or reset TCP: what comes later counts no more. A peer does both when it
    /// aborts, and either may be noticed before its last message is.
    #[cold]
    pub(in crate::shard) fn receive_last(&mut self, socket: &Socket, now: Instant) {
        let Some(conn) = socket.conn() else {
            return;
        };
        if socket.via() == Via::Ism && !socket.lane.is_lent() {
            // The device may be parked, so that it reports nothing. To receive a message twice does
            // no harm.
            let _ = self.transports.receive_head(&mut self.engine, conn, now);
        }
    }

    /// Does for a connection what [`Self::receive_last`] does.
    #[cold]
    fn receive_last_of(&mut self, conn: ConnId, now: Instant) {
        if let Some(socket) = self.entry(conn).map(|entry| entry.socket.clone()) {
            self.receive_last(&socket, now);
        }
    }
}
