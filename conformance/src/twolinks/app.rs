//! What the applications do, and what they must see.

use smc_proto::command::Segment;
use smc_proto::connection::{CloseState, Shutdown};
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::ConnId;

use super::World;
use super::world::name;

/// Byte `n` of the stream that a side sends on a connection; no two places
/// within a few rings have equal surroundings.
pub(super) fn byte(side: usize, app: usize, n: u64) -> u8 {
    let salt = (side as u64) << 40 | (app as u64) << 44;
    ((n | salt)
        .wrapping_add(1)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        >> 56) as u8
}

/// One thing an application does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Action {
    /// Commits so many bytes, as soon as there is room for all of them.
    Write(u32),
    /// Write so many bytes; the last one is urgent.
    Urgent(u32),
    /// Shuts down sending.
    ShutdownWrite,
    /// Closes.
    Close,
    /// Aborts.
    Abort,
}

/// When an application reads.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Reading {
    /// Whatever is there, at any time.
    #[default]
    Eager,
    /// Only once nothing else moves.
    Late,
    /// Takes an urgent byte out of line as soon as it is there.
    TakeUrgent,
}

/// An application at one end of a connection.
#[derive(Clone, Debug)]
pub struct App {
    /// Connection of the application.
    pub conn: ConnId,
    /// Bytes committed.
    pub committed: u64,
    /// Bytes read, in stream order.
    pub read: u64,
    /// Where urgent bytes were committed.
    pub urgent: Vec<u64>,
    /// Urgent marks of the peer that were seen.
    pub seen: Vec<u64>,
    /// The urgent byte taken out of line last.
    pub taken: Option<u64>,
    /// What is still to be done.
    pub script: Vec<Action>,
    /// How much of it is done.
    pub done: usize,
    /// When it reads.
    pub reading: Reading,
    /// How the application closed, shut down sending or aborted.
    pub closing: Option<Action>,
    /// How the connection ended.
    pub end: Option<Event>,
    /// Data can flow.
    pub established: bool,
}

impl App {
    pub(super) fn new(conn: ConnId) -> Self {
        Self {
            conn,
            committed: 0,
            read: 0,
            urgent: Vec::new(),
            seen: Vec::new(),
            taken: None,
            script: Vec::new(),
            done: 0,
            reading: Reading::Eager,
            closing: None,
            end: None,
            established: false,
        }
    }

    /// The reason for the end, if the connection was closed.
    #[must_use]
    pub fn reason(&self) -> Option<CloseReason> {
        match self.end {
            Some(Event::Closed { reason, .. }) => Some(reason),
            _ => None,
        }
    }

    /// Takes note of an event; returns what is wrong with it.
    pub(super) fn on_event(&mut self, event: &Event) -> Option<String> {
        let (conn, last) = match *event {
            Event::Established { conn, .. } => (conn, false),
            Event::Readable { conn } | Event::Writable { conn } | Event::Urgent { conn } => {
                (conn, false)
            }
            Event::Closed { conn, .. } | Event::FellBack { conn, .. } => (conn, true),
            _ => return None,
        };
        if conn != self.conn {
            return None;
        }
        let wrong = self
            .end
            .map(|end| format!("{event:?} after the last event {end:?}"));
        self.established |= matches!(event, Event::Established { .. });
        if last {
            self.end = Some(*event);
        }
        wrong
    }
}

impl World {
    /// Does the next thing of an application's script, if it can be done now.
    pub fn act(&mut self, side: usize, app: usize) -> bool {
        let now = self.now;
        let a = &self.hosts[side].apps[app];
        let Some(action) = a.script.get(a.done).copied() else {
            return false;
        };
        if a.end.is_some() {
            return false;
        }
        let conn = a.conn;
        match action {
            Action::Write(len) | Action::Urgent(len) => {
                let room = self.hosts[side]
                    .endpoint
                    .conn(conn)
                    .and_then(|c| c.send_space())
                    .map_or(0, |space| space.len());
                if room < len {
                    return false;
                }
                let urgent = matches!(action, Action::Urgent(_));
                self.commit(side, app, len, urgent);
            }
            Action::ShutdownWrite | Action::Close => {
                let how = if action == Action::Close {
                    Shutdown::Both
                } else {
                    Shutdown::Write
                };
                self.note(|| format!("{} shuts down {how:?}", name(side)));
                if let Some(mut c) = self.hosts[side].endpoint.conn(conn) {
                    c.shutdown(now, how);
                }
                self.hosts[side].apps[app].closing = Some(action);
            }
            Action::Abort => {
                self.note(|| format!("{} aborts", name(side)));
                if let Some(mut c) = self.hosts[side].endpoint.conn(conn) {
                    c.abort(now);
                }
                self.hosts[side].apps[app].closing = Some(action);
            }
        }
        self.hosts[side].apps[app].done += 1;
        true
    }

    /// Reads what is there, at most `most` bytes, and compares it with what was
    /// sent; takes an urgent byte if the application is of that kind.
    pub fn read(&mut self, side: usize, app: usize, most: u32) -> bool {
        let mut any = self.check_urgent(side, app);
        let (now, conn) = (self.now, self.hosts[side].apps[app].conn);
        let Some(spans) = self.hosts[side]
            .endpoint
            .conn(conn)
            .and_then(|c| c.readable())
        else {
            return any;
        };
        let len = spans.len().min(most);
        if len == 0 {
            return any;
        }
        any = true;
        let mut bytes = self.hosts[side].octets(spans.buffer, &spans.segments);
        bytes.truncate(len as usize);
        let from = self.hosts[side].apps[app].read;
        self.note(|| format!("{} reads {len}, from {from}", name(side)));
        if let Some(at) = (from..)
            .zip(&bytes)
            .position(|(n, &o)| o != byte(1 - side, app, n))
        {
            self.error(format!(
                "{} reads octet {} wrongly (of {from}..{})",
                name(side),
                from + at as u64,
                from + u64::from(len)
            ));
        }
        self.check_urgent_passed(side, app, from..from + u64::from(len));
        let result = self.hosts[side]
            .endpoint
            .conn(conn)
            .map(|mut c| c.consume(now, len));
        if !matches!(result, Some(Ok(()))) {
            self.error(format!("consume {len}: {result:?}"));
        }
        let a = &mut self.hosts[side].apps[app];
        a.read += u64::from(len);
        a.step_over();
        if a.read > self.hosts[1 - side].apps[app].committed {
            self.error(format!("{} reads more than was sent", name(side)));
        }
        any
    }

    fn check_urgent(&mut self, side: usize, app: usize) -> bool {
        let a = &self.hosts[side].apps[app];
        let (conn, from, take) = (a.conn, a.read, a.reading == Reading::TakeUrgent);
        let now = self.now;
        let Some((ahead, spans)) = self.hosts[side]
            .endpoint
            .conn(conn)
            .and_then(|c| c.urgent())
        else {
            return false;
        };
        let at = from + u64::from(ahead);
        if !self.hosts[1 - side].apps[app].urgent.contains(&at) {
            self.error(format!("{} sees a wrong urgent mark, {at}", name(side)));
        }
        let new = !self.hosts[side].apps[app].seen.contains(&at);
        if new {
            self.note(|| format!("{} sees the urgent mark {at}", name(side)));
            self.hosts[side].apps[app].seen.push(at);
        }
        if take {
            let [piece, _] = spans.segments;
            let value = self.hosts[side].octets(spans.buffer, &[piece, Segment::default()]);
            if value != [byte(1 - side, app, at)] {
                self.error(format!("{} takes a wrong urgent octet, {at}", name(side)));
            }
            self.note(|| format!("{} takes the urgent octet {at}", name(side)));
            let result = self.hosts[side]
                .endpoint
                .conn(conn)
                .map(|mut c| c.take_urgent(now));
            if !matches!(result, Some(Ok(()))) {
                self.error(format!("take_urgent: {result:?}"));
            }
            let a = &mut self.hosts[side].apps[app];
            if a.taken == Some(at) {
                self.error(format!("urgent octet {at} taken twice"));
                return true;
            }
            a.taken = Some(at);
            a.step_over();
        }
        take || new
    }

    /// An urgent byte must have been announced before it is read, unless a later
    /// one was sent.
    fn check_urgent_passed(&mut self, side: usize, app: usize, range: core::ops::Range<u64>) {
        let last = self.hosts[1 - side].apps[app].urgent.last().copied();
        if let Some(at) = last
            && range.contains(&at)
            && !self.hosts[side].apps[app].seen.contains(&at)
        {
            self.error(format!(
                "{} was not notified that {at} is urgent",
                name(side)
            ));
        }
    }

    /// State of a connection's close machine at one end.
    pub fn state(&mut self, side: usize, app: usize) -> Option<CloseState> {
        let conn = self.hosts[side].apps[app].conn;
        self.hosts[side].endpoint.conn(conn)?.state()
    }
}

impl App {
    /// The engine steps over an urgent byte that was taken out of line.
    fn step_over(&mut self) {
        if self.taken == Some(self.read) {
            self.read += 1;
        }
    }
}
