//! What is shown of notes, and until when.

use std::io::{self, Write};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use smc_proto::trace::Record;
use smc_view::trace::{Note, NotedEvent, RENEWAL, Unread};

use super::filter::Filter;
use super::names::Names;
use super::{Happened, PAUSES, qlog, text};

/// Time between two polls when nothing more is to be shown.
pub(super) const IDLE: Duration = Duration::from_secs(3600);

/// The form of the output.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// A line for each event.
    Text {
        /// With what the kind of each event says.
        verbose: bool,
    },
    /// JSON text sequences.
    Json,
}

/// A trace while it is written.
pub struct Session<'a> {
    form: Form,
    filter: Filter,
    title: String,
    out: &'a mut dyn Write,
    names: Names,
    /// Events that may still be shown.
    left: Option<u64>,
    until: Option<Instant>,
    /// Times are since then, in nanoseconds since 1970.
    origin: u64,
    renewed: Option<Instant>,
    pause: Duration,
}

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

impl<'a> Session<'a> {
    /// A trace that begins now. It ends after a number of events or a time, if it is to.
    pub fn new(
        form: Form,
        filter: Filter,
        (count, time): (Option<u64>, Option<Duration>),
        title: &str,
        out: &'a mut dyn Write,
    ) -> Self {
        Self {
            form,
            filter,
            title: title.to_owned(),
            out,
            names: Names::default(),
            left: count,
            until: time.and_then(|time| Instant::now().checked_add(time)),
            // In milliseconds, as the head of a sequence has it.
            origin: now() / 1_000_000 * 1_000_000,
            renewed: None,
            pause: PAUSES.0,
        }
    }

    /// Writes what is before the events.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn begin(&mut self) -> io::Result<()> {
        match self.form {
            Form::Text { .. } => Ok(()),
            Form::Json => qlog::head(&self.title, self.origin, self.out),
        }
    }

    /// Whether the request for events is to be renewed now.
    pub fn renews(&mut self) -> bool {
        let is_due = self.renewed.is_none_or(|at| at.elapsed() >= RENEWAL);
        if is_due {
            self.renewed = Some(Instant::now());
        }
        is_due
    }

    /// Whether nothing more is to be shown.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.left == Some(0) || self.until.is_some_and(|until| until <= Instant::now())
    }

    /// What notes are given to, of one poll of a ring.
    pub fn taker(&mut self) -> Taker<'_, 'a> {
        Taker {
            session: self,
            events: Vec::new(),
            unknown: 0,
        }
    }

    /// Writes out what was shown.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }

    /// Time until the next poll, longer if the last ones found nothing.
    pub fn pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = (pause * 2).min(PAUSES.1);
        match self.until {
            Some(until) => pause.min(until.saturating_duration_since(Instant::now())),
            None => pause,
        }
    }

    fn show(&mut self, process: u32, event: &NotedEvent) -> io::Result<bool> {
        if self.left == Some(0) {
            return Ok(true);
        }
        let Some(entry) = Record::from_octets(event.record).decode() else {
            return Ok(false);
        };
        if !self.filter.has_kind(entry.event.kind()) {
            return Ok(true);
        }
        let ends = self.names.of(process, event.stack, entry.subject);
        if !self.filter.shows(&entry, ends) {
            return Ok(true);
        }
        let happened = Happened {
            process,
            stack: event.stack,
            at: event.at,
            entry,
            ends,
        };
        match self.form {
            Form::Text { verbose } => text::event(&happened, self.origin, verbose, self.out)?,
            Form::Json => qlog::event(&happened, self.origin, self.out)?,
        }
        self.left = self.left.map(|left| left.saturating_sub(1));
        Ok(true)
    }

    fn unread(&mut self, unread: Unread) -> io::Result<()> {
        match self.form {
            _ if unread.is_empty() || self.left == Some(0) => Ok(()),
            Form::Text { .. } => text::unread(unread, self.out),
            Form::Json => qlog::unread(unread, now(), self.origin, self.out),
        }
    }
}

/// Notes of one poll of a ring.
pub struct Taker<'s, 'a> {
    session: &'s mut Session<'a>,
    /// Events that are to be shown when the addresses are known that are behind them.
    events: Vec<(u32, NotedEvent)>,
    unknown: u64,
}

impl Taker<'_, '_> {
    /// Takes a note of a process.
    pub fn note(&mut self, process: u32, note: Note) {
        match note {
            Note::Connection(of) => {
                let key = (process, of.stack, of.conn);
                self.session.names.enter(key, (of.local, of.peer));
            }
            Note::Event(event) => self.events.push((process, event)),
            _ => self.unknown += 1,
        }
    }

    /// Shows what is to be shown, behind how much was lost before it.
    ///
    /// # Errors
    /// The output cannot be written.
    pub fn finish(self, unread: Unread) -> io::Result<()> {
        let session = self.session;
        if !self.events.is_empty() {
            session.pause = PAUSES.0;
        }
        session.unread(unread)?;
        let mut unknown = self.unknown;
        for (process, event) in &self.events {
            if !session.show(*process, event)? {
                unknown += 1;
            }
        }
        let mut unread = Unread::default();
        unread.unknown = unknown;
        session.unread(unread)
    }
}
