//! What must hold after every step, as far as it can be seen from outside an
//! engine: in the commands it gives, the completions it gets, the CLC messages it
//! exchanges and the events it reports.
//!
//! The numbers are those of the reliability goals. I2 (bytes arrive as they
//! left) is checked where applications read; I7, I8 and I11 need whole hosts and
//! are checked by the [simulation](crate::sim). Of I12 it is checked here that
//! no side falls back without reporting it; the two ends are put together by the
//! [oracle](crate::oracle). I6 and I10 cannot be seen from outside.
//!
//! ```text
//!   Simulation ── command, completion, CLC, event, steps ──▶ Invariants
//!                                      links · buffers · connections
//!                                                   │
//!                                                breaches
//! ```

mod connection;
mod host;
mod ism;
mod memory;
mod reading;
mod rule;
mod work;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use smc_proto::command::RdmaCommand;
use smc_proto::endpoint::BufferSpans;
use smc_proto::event::Event;
use smc_proto::id::ConnId;
use smc_proto::time::Instant;

use crate::completion::OwnedCompletion;
use crate::fabric::HostId;
use crate::tcp::{Side, TcpId};
use host::HostLedger;

pub use rule::{Breach, Rule};
pub use work::Target;

/// Most steps one call into an engine may take (I13): several times what the
/// largest tables of a simulation explain.
pub const MOST_STEPS: u32 = 4_096;

/// Most steps for one CDC message: it is for one connection, however many there
/// are, and may end it.
pub const MOST_STEPS_OF_CDC: u32 = 16;

/// What all engines of a simulation did, and what of it was wrong.
#[derive(Clone, Debug, Default)]
pub struct Invariants {
    hosts: BTreeMap<HostId, HostLedger>,
    breaches: Vec<Breach>,
    now: Instant,
    most_steps: u32,
    /// Rings do not start at the first byte of their element, so that cursors
    /// do not reveal positions.
    eye_catchers: bool,
}

impl Invariants {
    /// Checks engines; with `eye_catchers` without checking windows.
    #[must_use]
    pub fn new(eye_catchers: bool) -> Self {
        Self {
            eye_catchers,
            ..Self::default()
        }
    }

    /// What was wrong so far.
    #[must_use]
    pub fn breaches(&self) -> &[Breach] {
        &self.breaches
    }

    /// The most steps a call took.
    #[must_use]
    pub const fn most_steps(&self) -> u32 {
        self.most_steps
    }

    /// Time passed.
    pub fn on_time(&mut self, now: Instant) {
        self.now = now;
    }

    /// An engine was asked to handle a connection.
    pub fn on_opened(&mut self, host: HostId, conn: ConnId, tcp: TcpId, side: Side) {
        self.host(host).open(conn, tcp, side);
    }

    /// A call into an engine took so many steps.
    pub fn on_steps(&mut self, host: HostId, steps: u32) {
        self.most_steps = self.most_steps.max(steps);
        if steps > MOST_STEPS {
            self.breach(host, Rule::Steps, format!("a call took {steps} steps"));
        }
    }

    /// An engine took a CDC message, in so many steps.
    pub fn on_cdc_steps(&mut self, host: HostId, steps: u32) {
        if steps > MOST_STEPS_OF_CDC {
            let what = format!("a CDC message took {steps} steps");
            self.breach(host, Rule::Steps, what);
        }
    }

    /// An engine gave a command. `target` is what a WRITE would hit, if its key
    /// is good.
    pub fn on_command(&mut self, host: HostId, command: &RdmaCommand, target: Option<Target>) {
        self.check_control(host, command);
        self.check_memory(host, command);
        self.check_reading(host, command);
        self.check_work(host, command, target);
    }

    /// An engine is about to get a completion.
    pub fn on_completion(&mut self, host: HostId, completion: &OwnedCompletion) {
        self.complete(host, completion);
    }

    /// An engine sends a CLC message.
    pub fn on_clc_sent(&mut self, host: HostId, conn: ConnId, bytes: &[u8]) {
        let now = self.now;
        self.host(host).note_clc(conn, bytes);
        if let Some(what) = self.host(host).clc_sent(now, conn, bytes) {
            self.breach(host, Rule::Reuse, what);
        }
    }

    /// An engine took a CLC message.
    pub fn on_clc_received(&mut self, host: HostId, conn: ConnId, bytes: &[u8]) {
        let given = self.host(host).conns.get(&conn).map(|c| (c.tcp, c.side));
        let given = given.and_then(|(tcp, side)| self.element_of_peer(tcp, side));
        self.host(host).note_clc(conn, bytes);
        self.host(host).clc_received(conn, bytes, given);
    }

    /// An engine reported an event.
    pub fn on_event(&mut self, host: HostId, event: &Event) {
        if let Event::FellBack { conn, .. } = *event
            && self.host(host).falls_back_silently(conn)
        {
            let what = format!("{conn} falls back to TCP without a Decline");
            self.breach(host, Rule::Agree, what);
        }
        if let Err(what) = self.host(host).event(event) {
            self.breach(host, Rule::Terminal, what);
        }
    }

    /// An application was offered bytes to read.
    pub fn on_readable(&mut self, host: HostId, conn: ConnId, spans: &BufferSpans) {
        self.check_ism_readable(host, conn, spans);
        let size = self.host(host).ring(conn);
        if size.is_some_and(|size| spans.len() > size) {
            let what = format!("{conn} offers {} octets of a smaller ring", spans.len());
            self.breach(host, Rule::Window, what);
        }
    }

    /// The clock of a host goes wrong: from here on how long it waits is not judged.
    pub fn on_wrong_clock(&mut self, host: HostId) {
        self.host(host).wrong_clock = true;
    }

    /// A host crashed: its engine is another one from here on.
    pub fn on_restart(&mut self, host: HostId) {
        self.hosts.remove(&host);
    }

    /// Connections of a host that were established or in rendezvous and had no
    /// last event yet.
    #[must_use]
    pub fn unfinished(&self, host: HostId) -> Vec<ConnId> {
        self.hosts
            .get(&host)
            .map_or_else(Vec::new, HostLedger::unfinished)
    }

    fn host(&mut self, host: HostId) -> &mut HostLedger {
        self.hosts.entry(host).or_default()
    }

    fn breach(&mut self, host: HostId, rule: Rule, what: impl Into<String>) {
        let what = what.into();
        self.breaches.push(Breach::new(self.now, host, rule, &what));
    }
}
