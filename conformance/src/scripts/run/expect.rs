//! What the engine is to send, and its applications to see.

use core::time::Duration;

use super::compare::name;
use super::{Came, Channel, Item, Run, Wrong, span, wrong};
use crate::scripts::parsed::{AppSees, Data, Setting, Transmission, When, Where};
use crate::scripts::wire::{Host, Seen, Wire};

impl<B: Wire + Host> Run<'_, B> {
    pub(super) fn expect(
        &mut self,
        of: Where,
        when: Option<When>,
        transmission: &Transmission,
    ) -> Result<(), Wrong> {
        let channel = self.channel(of, transmission);
        let expected = match transmission {
            Transmission::Message(message) => name(message),
            Transmission::Raw { .. } => "these octets".to_owned(),
            Transmission::Fin => "TCP fin".to_owned(),
            Transmission::Reset => "TCP rst".to_owned(),
            Transmission::Write { .. } => "WRITE".to_owned(),
            Transmission::Breaks => "nothing".to_owned(),
        };
        let item = self.next(channel, when, &expected)?;
        match (transmission, &item.what) {
            (Transmission::Message(message), Came::Message(kind, bytes)) => {
                self.compare(of, message, *kind, bytes)?;
                self.peer.took(*kind, of.conn, of.link, bytes);
                Ok(())
            }
            (Transmission::Raw { bytes, .. }, Came::Message(_, came) | Came::Bytes(came)) => {
                if bytes == came {
                    return Ok(());
                }
                wrong(format_args!("{bytes:02x?}"), format_args!("{came:02x?}"))
            }
            (Transmission::Fin, Came::Fin) | (Transmission::Reset, Came::Reset) => Ok(()),
            (
                Transmission::Write { settings, data },
                Came::Write {
                    key,
                    address,
                    bytes,
                },
            ) => self.compare_write(of, settings, data, (*key, *address, bytes)),
            (_, came) => wrong(expected, came),
        }
    }

    fn compare_write(
        &mut self,
        of: Where,
        settings: &[Setting],
        data: &Data,
        (key, address, bytes): (u64, u64, &Vec<u8>),
    ) -> Result<(), Wrong> {
        let at = settings.iter().find(|setting| setting.name == "at");
        let at = at.map(|setting| self.number(setting)).transpose()?;
        let at = at.unwrap_or(0) as u64;
        let wanted = self.peer.own_memory(of.conn, of.link, at);
        if wanted != (key, address) {
            let (wanted_key, wanted_address) = wanted;
            return wrong(
                format_args!("a WRITE to {wanted_key:#x}@{wanted_address:#x}"),
                format_args!("{} octets to {key:#x}@{address:#x}", bytes.len()),
            );
        }
        let same = match data {
            Data::Text(text) => text == bytes,
            Data::Count(count) => *count as usize == bytes.len(),
        };
        if same {
            return Ok(());
        }
        let shown = String::from_utf8_lossy(bytes);
        wrong(
            format_args!("{data:?}"),
            format_args!("{} octets: {}", bytes.len(), &shown[..shown.len().min(60)]),
        )
    }

    /// The next item of a channel, in time.
    fn next(
        &mut self,
        channel: Channel,
        when: Option<When>,
        expected: &str,
    ) -> Result<Item, Wrong> {
        let (from, to) = span(when);
        let deadline = self.mark + to + self.bench.grace();
        loop {
            self.absorb();
            let queue = self.queues.entry(channel).or_default();
            if let Some(item) = queue.pop_front() {
                let late = item.at > deadline && when.is_some();
                let early = self.is_early(item.at, from);
                if late || early {
                    let after = item.at.saturating_sub(self.mark);
                    return wrong(
                        format_args!("{expected} after {from:?} to {to:?}"),
                        format_args!("{} after {after:?}", item.what),
                    );
                }
                return Ok(item);
            }
            if self.bench.now() >= deadline {
                let other = self.left_over();
                let other = other.map_or("nothing".to_owned(), |other| {
                    format!("nothing there, but {other}")
                });
                return wrong(format_args!("{expected} within {to:?}"), other);
            }
            self.bench.pass(deadline);
        }
    }

    fn is_early(&self, at: Duration, from: Duration) -> bool {
        !from.is_zero() && at + self.bench.haste() < self.mark + from
    }

    pub(super) fn expect_nothing(&mut self, time: Duration) -> Result<(), Wrong> {
        let until = self.mark + time;
        loop {
            self.absorb();
            if let Some(left) = self.left_over() {
                return wrong(format_args!("nothing for {time:?}"), left);
            }
            if self.bench.now() >= until {
                return Ok(());
            }
            self.bench.pass(until);
        }
    }

    pub(super) fn expect_seen(
        &mut self,
        of: Where,
        when: Option<When>,
        sees: &AppSees,
    ) -> Result<(), Wrong> {
        self.absorb();
        let conn = of.conn;
        if !self.bench.shows(sees) {
            self.note(format_args!("app.{conn} cannot see {sees:?}"));
            self.left_out += 1;
            return Ok(());
        }
        match sees {
            AppSees::Proposed => self.event(conn, when, &Seen::Proposed),
            AppSees::Established => self.event(conn, when, &Seen::Established),
            AppSees::FellBack(code, peer) => self.event(conn, when, &Seen::FellBack(*code, *peer)),
            AppSees::Closed(reason) => match self.bench.has_ended(conn, reason) {
                None => self.event(conn, when, &Seen::Closed(reason.clone())),
                Some(_) => self.ends(conn, when, reason),
            },
            AppSees::LinkUp(link) => {
                let qpn = self.peer.qpn(*link);
                self.group_event(&qpn.map_or(Seen::GroupDown, Seen::LinkUp))
            }
            AppSees::LinkDown(link) => {
                let qpn = self.peer.qpn(*link);
                self.group_event(&qpn.map_or(Seen::GroupDown, Seen::LinkDown))
            }
            AppSees::GroupDown => self.group_event(&Seen::GroupDown),
            sees => {
                if let Some(when) = when {
                    self.wait_until(self.mark + when.from);
                }
                let deadline = self.bench.now() + self.bench.grace();
                loop {
                    let state = self.state(conn, sees);
                    if state.is_ok() || self.bench.now() >= deadline {
                        return state;
                    }
                    self.bench.pass(deadline);
                    self.absorb();
                }
            }
        }
    }

    /// The end of a connection, where no event reports it.
    fn ends(&mut self, conn: u8, when: Option<When>, reason: &str) -> Result<(), Wrong> {
        let (from, to) = span(when);
        // An application that has closed does not see when it ends.
        self.wait_until(self.mark + from);
        let deadline = self.mark + to + self.bench.grace();
        while self.bench.has_ended(conn, reason) == Some(false) {
            if self.bench.now() >= deadline {
                return wrong(format_args!("closed {reason}"), "it goes on");
            }
            self.bench.pass(deadline);
            self.absorb();
        }
        Ok(())
    }

    /// State that can be checked at any time.
    fn state(&mut self, conn: u8, sees: &AppSees) -> Result<(), Wrong> {
        match sees {
            AppSees::Read(data) => {
                let count = match data {
                    Data::Text(text) => text.len() as u32,
                    Data::Count(count) => *count,
                };
                let bytes = match self.bench.read(conn, count) {
                    Ok(bytes) => bytes,
                    Err(why) => return wrong(format_args!("{count} octets"), why),
                };
                self.absorb();
                match data {
                    Data::Text(text) if *text != bytes => wrong(
                        String::from_utf8_lossy(text),
                        String::from_utf8_lossy(&bytes),
                    ),
                    _ => Ok(()),
                }
            }
            AppSees::Readable(count) => equal(*count, self.bench.readable(conn), "octets to read"),
            AppSees::Room(count) => equal(*count, self.bench.room(conn), "octets of room"),
            AppSees::End => {
                let came = self.bench.ended(conn);
                equal(true, came, "as the stream's end")
            }
            AppSees::Urgent(before, byte) => {
                let came = self.bench.urgent(conn);
                self.absorb();
                equal(Some((*before, *byte)), came, "as urgent")
            }
            AppSees::Tcp(bytes) => {
                let came = self.bench.plain(conn);
                equal(
                    String::from_utf8_lossy(bytes),
                    String::from_utf8_lossy(&came),
                    "over TCP",
                )
            }
            _ => Ok(()),
        }
    }

    /// The next event of a connection, in time.
    fn event(&mut self, conn: u8, when: Option<When>, expected: &Seen) -> Result<(), Wrong> {
        let (from, to) = span(when);
        let deadline = self.mark + to + self.bench.grace();
        loop {
            self.absorb();
            if let Some((at, seen)) = self.seen.entry(conn).or_default().pop_front() {
                if seen != *expected {
                    return wrong(format_args!("{expected:?}"), format_args!("{seen:?}"));
                }
                let early = self.is_early(at, from);
                if early || (when.is_some() && at > deadline) {
                    let after = at.saturating_sub(self.mark);
                    return wrong(
                        format_args!("{expected:?} after {from:?} to {to:?}"),
                        format_args!("it after {after:?}"),
                    );
                }
                return Ok(());
            }
            if self.bench.now() >= deadline {
                return wrong(format_args!("{expected:?} within {to:?}"), "nothing");
            }
            self.bench.pass(deadline);
        }
    }

    /// Events of links and groups, which may come among others.
    fn group_event(&mut self, expected: &Seen) -> Result<(), Wrong> {
        match self.group_events.iter().position(|seen| seen == expected) {
            Some(at) => {
                self.group_events.drain(..=at);
                Ok(())
            }
            None => wrong(
                format_args!("{expected:?}"),
                format_args!("{:?}", self.group_events),
            ),
        }
    }
}

fn equal<T: PartialEq + std::fmt::Debug>(wanted: T, came: T, what: &str) -> Result<(), Wrong> {
    if wanted == came {
        return Ok(());
    }
    wrong(format_args!("{wanted:?} {what}"), format_args!("{came:?}"))
}
