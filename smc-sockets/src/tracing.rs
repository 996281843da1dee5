//! Events that this process writes while others read them, see [`smc_view::trace`].
//!
//! A thread that locks the endpoint compares one number with the last one seen. It has changed if
//! there is a reader: from then on the engine has an observer, data paths are not lent, and each
//! event is written, until the number has stayed the same for a while.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};

use smc_proto::endpoint::Endpoint;
use smc_proto::id::ConnId;
use smc_proto::storage::Owned;
use smc_proto::time::Instant;
use smc_proto::trace::{Observed, Observer, Record, Subject, TraceEvent};
use smc_view::trace::{LEASE, Note, NotedConnection, NotedEvent, TraceWriter};

use crate::{subscribed, viewing};

/// An engine whose events are written for readers.
pub(crate) type Engine = Endpoint<Observed<Owned, Tracing>>;

/// The number of a process without a ring, which is never raised.
static NEVER: AtomicU32 = AtomicU32::new(0);

/// Writes the events of an engine while there is a reader.
pub(crate) struct Tracing {
    /// Changes as long as there is a reader.
    requests: &'static AtomicU32,
    /// Value of `requests` at the last check.
    seen: u32,
    is_on: bool,
    writer: Option<&'static TraceWriter>,
    /// Events are written until then.
    until: Instant,
    /// The number of the stack.
    stack: u16,
}

impl Tracing {
    /// One of this process, which writes nothing yet.
    pub(crate) fn new() -> Self {
        let writer = viewing::tracer();
        Self {
            requests: writer.map_or(&NEVER, TraceWriter::requests_word),
            seen: 0,
            is_on: false,
            writer,
            until: Instant::ZERO,
            stack: 0,
        }
    }

    /// Writes to another ring than that of the process, which has other readers.
    #[cfg(test)]
    pub(crate) fn set_writer(&mut self, writer: &'static TraceWriter) {
        self.requests = writer.requests_word();
        self.writer = Some(writer);
    }

    /// Sets the number of the stack in the process.
    pub(crate) fn set_stack(&mut self, number: u32) {
        self.stack = u16::try_from(number).unwrap_or(0);
    }

    /// Whether a reader was there since this was last asked.
    #[inline(always)]
    pub(crate) fn is_requested(&self) -> bool {
        self.requests.load(Ordering::Relaxed) != self.seen
    }

    /// Begins to write events, or goes on.
    pub(crate) fn renew(&mut self, now: Instant) {
        self.seen = self.requests.load(Ordering::Relaxed);
        self.until = now.after(LEASE);
        self.is_on = self.writer.is_some();
    }

    /// Writes the addresses of a connection.
    pub(crate) fn entered(&self, conn: ConnId, (local, peer): (SocketAddr, SocketAddr)) {
        if let Some(writer) = self.writer.filter(|_| self.is_on) {
            writer.write(&Note::Connection(NotedConnection {
                at: viewing::wall_clock(),
                stack: self.stack,
                conn: viewing::number_of_conn(conn),
                local,
                peer,
            }));
        }
    }
}

impl Observer for Tracing {
    #[inline(always)]
    fn is_on(&self) -> bool {
        self.is_on || subscribed::is_on()
    }

    fn observe(&mut self, at: Instant, subject: Subject, event: &TraceEvent) {
        subscribed::observe(self.stack, subject, event);
        let Some(writer) = self.writer.filter(|_| at <= self.until) else {
            // No reader has come back.
            self.is_on = false;
            return;
        };
        writer.write(&Note::Event(NotedEvent {
            at: viewing::wall_clock(),
            stack: self.stack,
            record: *Record::new(at, subject, event).octets(),
        }));
    }
}

#[cfg(test)]
mod tests;
