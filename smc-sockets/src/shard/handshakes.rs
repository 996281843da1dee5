//! CLC handshakes over shared memory, with peers that this process has paired with before.
//!
//! ```text
//!   client                                    server
//!   announce: the Proposal, in the peer's memory
//!   connect ─────────── SYN ────────────────► accept_announced: the Accept, and a ring
//!   asks the kernel whether the peer holds
//!   the other end, then Confirm and a ring ─► established: the listener's queue
//!   not accepted for a while: asks for it ──► the driver accepts
//!   no answer: a Decline ───────────────────► TCP
//! ```
//!
//! The client alone decides between SMC and TCP, by its second message. A server that has
//! answered waits for it, as long as the engine waits for any CLC message. No byte of CLC goes
//! over TCP: a process that accepts the connection without this crate reads none.
//!
//! | module | |
//! |---|---|
//! | `announcing` | the client: announce, withdraw |
//! | `accepting` | the server: take an announcement, accept or decline it |
//! | `messages` | CLC messages of both, and the check of their sender |
//! | `workers` | announcements to several processes that share a listener |
//! | `delays` | which thread polls for a handshake, and when the driver takes over |

mod accepting;
mod announcing;
mod delays;
mod messages;
mod workers;

use std::sync::Arc;

use smc_proto::id::ConnId;
use smc_proto::time::Instant;
use smc_transport_ism::shared::HandshakeId;
use smc_transport_ism::shared::pairing::Peer;

use super::left_to_loops::LeftToLoops;
use super::{Shard, State};
pub(crate) use announcing::{Announcement, Withdrawal};
use delays::DRIVER_DELAY;

/// A connection whose CLC messages go over shared memory, until SMC or TCP is chosen.
#[derive(Clone, Debug)]
pub(super) struct PendingHandshake {
    conn: ConnId,
    /// The peers that it was announced to, if they are several and none has answered.
    candidates: Vec<(Peer, HandshakeId)>,
    /// When the driver begins to poll for it, unless an event loop has polled the device meanwhile.
    driver_polls_from: Instant,
    loops: LeftToLoops,
    /// When the task that waits for it is to be woken.
    wake_task_at: Option<Instant>,
}

/// The channel of a connection's CLC messages over shared memory.
#[derive(Clone, Copy, Debug)]
pub(super) enum Handshake {
    /// No message was sent: the first one announces the TCP socket with this cookie.
    NotAnnounced(u64),
    /// Messages go both ways.
    Open {
        id: HandshakeId,
        /// Cookie of this side's TCP socket.
        cookie: u64,
        /// Whether the peer is known to hold the other end of the TCP connection.
        is_verified: bool,
    },
}

impl State {
    /// Records a connection whose CLC messages go over shared memory. An event loop, or the thread
    /// that `is_awaited` refers to, has [`DRIVER_DELAY`] to go on with it before the driver does.
    fn begin_handshake(
        &mut self,
        shard: &Shard,
        conn: ConnId,
        handshake: Handshake,
        is_awaited: bool,
        now: Instant,
    ) {
        let mut driver_polls_from = now;
        // Rings wake event loops that sleep.
        if self.polling.loops > 0 || is_awaited {
            self.set_urgent(conn, false);
            driver_polls_from = now.after(DRIVER_DELAY);
            self.wake_about(shard, driver_polls_from, now);
        }
        if let Some(entry) = self.entry_mut(conn) {
            entry.handshake = Some(handshake);
        }
        self.handshakes.push(PendingHandshake {
            conn,
            candidates: Vec::new(),
            driver_polls_from,
            loops: LeftToLoops::new(self.polling.polls),
            wake_task_at: None,
        });
    }

    /// The handshake of a connection over shared memory, while it is not decided.
    fn pending_handshake(&mut self, conn: ConnId) -> Option<&mut PendingHandshake> {
        self.handshakes.iter_mut().find(|at| at.conn == conn)
    }

    /// Removes and returns the peers of which one was to answer.
    fn take_candidates(&mut self, conn: ConnId) -> Vec<(Peer, HandshakeId)> {
        let pending = self.pending_handshake(conn);
        pending.map_or(Vec::new(), |at| std::mem::take(&mut at.candidates))
    }

    /// Number of announcements of this side that were answered.
    pub(crate) fn answers(&self) -> u64 {
        self.answers
    }

    fn handshake(&self, conn: ConnId) -> Option<Handshake> {
        self.entry(conn)?.handshake
    }

    /// Whether the CLC messages of a connection go over shared memory.
    pub(super) fn has_handshake(&self, conn: ConnId) -> bool {
        self.handshake(conn).is_some()
    }

    /// Ends the CLC exchange of a connection, and frees its channel.
    pub(super) fn end_handshake(&mut self, conn: ConnId) {
        let handshake = self.entry_mut(conn).and_then(|at| at.handshake.take());
        let Some(handshake) = handshake else {
            return;
        };
        let candidates = self.take_candidates(conn);
        self.handshakes.retain(|at| at.conn != conn);
        if let Handshake::Open { id, .. } = handshake {
            let device = self.transports.ism.device_mut();
            device.end_handshake(id);
            let others = candidates.iter().filter(|(_, of)| *of != id);
            others.for_each(|(_, of)| device.end_handshake(*of));
        }
    }

    /// Removes a connection from the endpoint; its TCP connection goes on.
    fn remove_from_engine(&mut self, shard: &Arc<Shard>, conn: ConnId, now: Instant) {
        self.remove(conn);
        // The engine's commands to its TCP reach no socket any more.
        if let Some(mut conn) = self.engine.conn(conn) {
            conn.abort(now);
        }
        self.execute_commands(shard, now);
    }
}

#[cfg(test)]
mod tests;
