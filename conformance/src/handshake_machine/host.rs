//! One side: its engine, its devices, its application.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use smc_proto::connection::{CloseState, Shutdown};
use smc_proto::endpoint::Endpoint;
use smc_proto::id::ConnId;
use smc_proto::storage::Owned;
use smc_proto::time::{Duration, Instant};

use super::ism::Ism;
use super::rdma::Rdma;
use super::scenario::Scenario;
use super::tcp::Byte;

/// The owner of bytes that arrive over TCP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Clc {
    /// To the engine.
    Engine,
    /// The engine had no room for the connection: a Proposal is answered with Decline, all
    /// else belongs to the application.
    Refusing,
    /// To the engine if they are a Decline, else to the application.
    Watching,
    /// To the application, or to none if TCP does not carry it.
    Over,
}

/// The outcome that an application was given.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Outcome {
    /// Nothing.
    Undecided,
    /// SMC carries the connection.
    Smc,
    /// TCP carries it.
    Tcp,
    /// The connection is over.
    Over,
}

/// One side.
#[derive(Clone, Debug)]
pub(super) struct Host {
    pub(super) endpoint: Endpoint<Owned>,
    /// What its clock shows.
    pub(super) now: Instant,
    /// Next deadline of the side.
    pub(super) deadline: Option<Instant>,
    /// The connection under test.
    pub(super) conn: Option<ConnId>,
    pub(super) clc: Clc,
    pub(super) outcome: Outcome,
    /// Arrived over TCP, and was not taken yet.
    pub(super) unread: VecDeque<Byte>,
    /// Bytes that the application wrote to TCP, and got from it.
    pub(super) written: u16,
    pub(super) got: u16,
    pub(super) application_is_done: bool,
    /// TCP broke, and the side was not notified of that.
    pub(super) break_unreported: bool,
    pub(super) rdma: Rdma,
    pub(super) ism: Ism,
    /// Commands to come before the one that waits.
    pub(super) commands_to_go: Option<u8>,
}

impl Host {
    pub(super) fn new(scenario: &Scenario, side: u8) -> Self {
        let storage = Owned::new(scenario.limits(side));
        Self {
            endpoint: Endpoint::new(scenario.config(side), 0x5eed + u64::from(side), storage),
            now: Instant::from_nanos(1),
            deadline: None,
            conn: None,
            clc: Clc::Over,
            outcome: Outcome::Undecided,
            unread: VecDeque::new(),
            written: 0,
            got: 0,
            application_is_done: false,
            break_unreported: false,
            rdma: Rdma::default(),
            ism: Ism::new(side),
            commands_to_go: None,
        }
    }

    /// Time to its next deadline.
    pub(super) fn next_timeout(&self) -> Option<Duration> {
        Some(self.deadline?.since(self.now))
    }

    /// Time goes on to its next deadline.
    pub(super) fn pass_deadline(&mut self) {
        if let Some(deadline) = self.deadline {
            self.now = self.now.max(deadline);
            self.endpoint.handle_timeout(self.now);
        }
    }

    /// Whether something of this side is in flight to the peer's device.
    pub(super) fn has_posted(&self) -> bool {
        self.rdma.has_posted() || self.ism.has_posted()
    }

    /// Whether a device keeps a command waiting.
    pub(super) fn holds_command(&self) -> bool {
        self.rdma.holds_command() || self.ism.holds_command()
    }

    /// Whether there is a failure that is bound to be reported to it.
    pub(super) fn met_failure(&self) -> bool {
        self.rdma.has_unreported(true) || self.ism.has_unreported()
    }

    /// Whether there is anything that can fail.
    pub(super) fn has_way(&self) -> bool {
        self.rdma.has_way() || self.ism.has_way()
    }

    /// Whether the command that comes now is the one that waits.
    pub(super) fn holds_this(&mut self) -> bool {
        match self.commands_to_go {
            None => false,
            Some(0) => {
                self.commands_to_go = None;
                true
            }
            Some(more) => {
                self.commands_to_go = Some(more - 1);
                false
            }
        }
    }

    /// The application ends it: in order, or not.
    pub(super) fn end(&mut self, in_order: bool) {
        self.application_is_done = true;
        let now = self.now;
        if let Some(mut conn) = self.conn.and_then(|conn| self.endpoint.conn(conn)) {
            match in_order {
                true => conn.shutdown(now, Shutdown::Both),
                false => conn.abort(now),
            }
        }
    }

    /// An application that SMC serves closes as soon as its peer has begun to.
    pub(super) fn follow(&mut self) -> bool {
        let state = self.conn.and_then(|conn| self.endpoint.conn(conn)?.state());
        let begun = state.is_some_and(|state| state != CloseState::Active);
        let follows = self.outcome == Outcome::Smc && begun && !self.application_is_done;
        if follows {
            self.end(true);
        }
        follows
    }

    pub(super) fn hash<H: Hasher>(&mut self, hasher: &mut H) {
        self.endpoint.fingerprint(self.now, hasher);
        (self.conn.is_some(), self.clc, self.outcome, &self.unread).hash(hasher);
        (self.written, self.got, self.application_is_done).hash(hasher);
        (self.break_unreported, self.commands_to_go).hash(hasher);
        self.rdma.hash(hasher);
        self.ism.hash(hasher);
    }
}
