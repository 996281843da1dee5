//! One line.

mod app;
mod message;

use std::sync::Arc;

use super::value::{bytes, duration, value};
use crate::scripts::parsed::{
    Act, Data, Form, Place, RnicAct, Setting, Setup, Transmission, Value, When, Where,
};
use crate::scripts::text::{Token, Unclear};

/// What a line is.
pub(super) enum Read {
    /// Part of the setup.
    Setup,
    /// A step.
    Step(Option<When>, Act),
    /// Another file, to be read here.
    Include(String),
    /// The start of a block.
    Repeat(u64),
    /// The end of a block.
    Close,
}

/// The words of a line and how far they are read.
pub(super) struct Line<'w> {
    words: &'w [Token],
    next: usize,
    file: &'w Arc<str>,
    line: u32,
}

const ACTORS: &str = "one of peer, engine, app, rnic, link, wait, nothing, ignore, repeat, include, \
     speaks, rnics, config, } was expected";

impl<'w> Line<'w> {
    pub(super) const fn new(words: &'w [Token], file: &'w Arc<str>, line: u32) -> Self {
        Self {
            words,
            next: 0,
            file,
            line,
        }
    }

    fn unclear(&self, column: u32, what: impl Into<String>) -> Unclear {
        Unclear {
            file: self.file.to_string(),
            line: self.line,
            column,
            what: what.into(),
        }
    }

    /// Where the next token is, or would.
    fn column(&self) -> u32 {
        match self.words.get(self.next) {
            Some(token) => token.column,
            None => self.words.last().map_or(1, |token| {
                let quoted = token.quoted.as_ref().map_or(0, |text| text.len() + 2);
                token.column + (token.plain.len() + quoted) as u32
            }),
        }
    }

    fn expected<T>(&self, what: impl Into<String>) -> Result<T, Unclear> {
        Err(self.unclear(self.column(), what))
    }

    /// The column of the token that was just taken.
    fn taken(&self) -> u32 {
        let token = self.next.checked_sub(1).and_then(|at| self.words.get(at));
        token.map_or(1, |token| token.column)
    }

    fn peek(&self) -> Option<&'w Token> {
        self.words.get(self.next)
    }

    /// The next token if it is plain.
    fn plain(&self) -> Option<&'w str> {
        let token = self.peek().filter(|token| token.quoted.is_none())?;
        Some(token.plain.as_str())
    }

    fn take(&mut self, what: &str) -> Result<&'w str, Unclear> {
        match self.plain() {
            Some(token) => {
                self.next += 1;
                Ok(token)
            }
            None => self.expected(what),
        }
    }

    fn took(&mut self, token: &str) -> bool {
        let is = self.plain() == Some(token);
        self.next += usize::from(is);
        is
    }

    fn end(&self) -> Result<(), Unclear> {
        match self.peek() {
            None => Ok(()),
            Some(_) => self.expected("nothing more was expected"),
        }
    }

    fn number<T: TryFrom<u128>>(&mut self, what: &str) -> Result<T, Unclear> {
        let token = self.take(what)?;
        match value(token, None) {
            Some(Value::Number(number, _)) => {
                T::try_from(number).map_err(|_| self.unclear(self.taken(), what))
            }
            _ => Err(self.unclear(self.taken(), what)),
        }
    }

    fn time(&mut self) -> Result<core::time::Duration, Unclear> {
        let what = "a time such as 10ms was expected";
        let token = self.take(what)?;
        duration(token).ok_or_else(|| self.unclear(self.taken(), what))
    }

    fn place(&self, token: &Token) -> Place {
        Place {
            file: Arc::clone(self.file),
            line: self.line,
            column: token.column,
        }
    }

    /// A `name=value`, if that is next.
    fn setting(&mut self) -> Result<Option<Setting>, Unclear> {
        let Some((token, (name, text))) = self
            .peek()
            .and_then(|token| Some((token, token.plain.split_once('=')?)))
        else {
            return Ok(None);
        };
        let Some(value) = value(text, token.quoted.as_deref()) else {
            return self.expected("a value behind = was expected");
        };
        self.next += 1;
        Ok(Some(Setting {
            name: name.to_owned(),
            value,
            at: self.place(token),
        }))
    }

    fn settings(&mut self) -> Result<Vec<Setting>, Unclear> {
        let mut settings = Vec::new();
        while let Some(setting) = self.setting()? {
            settings.push(setting);
        }
        Ok(settings)
    }

    /// `"text"` or `N bytes`.
    fn data(&mut self) -> Result<Data, Unclear> {
        if let Some(token) = self.peek()
            && token.plain.is_empty()
            && let Some(text) = &token.quoted
        {
            self.next += 1;
            return Ok(Data::Text(text.as_bytes().to_vec()));
        }
        let count = self.number("a \"text\" or a number of octets was expected")?;
        if !self.took("octets") && !self.took("octet") {
            return self.expected("\"octets\" was expected");
        }
        Ok(Data::Count(count))
    }

    /// Reads the line.
    pub(super) fn read(&mut self, setup: &mut Setup) -> Result<Read, Unclear> {
        let when = self.when()?;
        let timed = when.is_some();
        let start = self.next;
        let actor = self.take(ACTORS)?;
        let read = match actor {
            "speaks" => {
                setup.form = match Form::named(self.take("a technology was expected")?) {
                    Some(form) => form,
                    None => {
                        let what = "smcr, smcr-v2, smcd or smcd-v2 was expected";
                        return Err(self.unclear(self.taken(), what));
                    }
                };
                Read::Setup
            }
            "rnics" => {
                setup.rnics = self.number("a number of RNICs was expected")?;
                Read::Setup
            }
            "config" => {
                setup.settings.extend(self.settings()?);
                Read::Setup
            }
            "include" => Read::Include(self.take("the name of a file was expected")?.to_owned()),
            "repeat" => {
                let count = self.number("how often was expected")?;
                if !self.took("{") {
                    return self.expected("{ was expected");
                }
                Read::Repeat(count)
            }
            "}" => Read::Close,
            "wait" => Read::Step(when, Act::Wait(self.time()?)),
            "nothing" => {
                if !self.took("for") {
                    return self.expected("\"for\" was expected");
                }
                Read::Step(when, Act::Nothing(self.time()?))
            }
            "ignore" => Read::Step(when, Act::Ignore(self.pattern(setup.form)?)),
            "rnic" => Read::Step(when, Act::Rnic(self.rnic()?)),
            "link" => Read::Step(when, Act::Rnic(self.link()?)),
            _ => {
                self.next = start;
                Read::Step(when, self.actor(setup.form)?)
            }
        };
        self.end()?;
        if timed && !matches!(read, Read::Step(..)) {
            return Err(self.unclear(1, "this line has no time"));
        }
        Ok(read)
    }

    fn when(&mut self) -> Result<Option<When>, Unclear> {
        let Some(text) = self.plain().and_then(|token| token.strip_prefix('+')) else {
            return Ok(None);
        };
        let (from, to) = text.split_once("..").unwrap_or((text, text));
        let when = duration(from).zip(duration(to));
        let Some((from, to)) = when.filter(|(from, to)| from <= to) else {
            return self.expected("a time such as +0, +10ms or +1s..3s was expected");
        };
        self.next += 1;
        Ok(Some(When { from, to }))
    }

    /// `peer`, `engine` or `app`, a connection and a link, a direction, and the rest.
    fn actor(&mut self, form: Form) -> Result<Act, Unclear> {
        let token = self.take(ACTORS)?;
        let column = self.taken();
        let (token, link) = token.split_once('@').unwrap_or((token, "1"));
        let (actor, conn) = token.split_once('.').unwrap_or((token, "1"));
        let (Ok(conn), Ok(link)) = (conn.parse(), link.parse()) else {
            let what = "a connection and a link such as peer.2@1 were expected";
            return Err(self.unclear(column, what));
        };
        let of = Where { conn, link };
        if !["peer", "engine", "app"].contains(&actor) {
            return Err(self.unclear(column, ACTORS));
        }
        let sees = match self.plain() {
            Some(">") => false,
            Some("<") if actor == "app" => true,
            _ if actor == "app" => return self.expected("> or < was expected"),
            _ => return self.expected("> was expected"),
        };
        self.next += 1;
        Ok(match (actor, sees) {
            ("peer", _) => Act::Peer(of, self.transmission(form, true)?),
            ("engine", _) => Act::Engine(of, self.transmission(form, false)?),
            (_, false) => Act::App(of, self.app_act()?),
            (_, true) => Act::Seen(of, self.app_sees()?),
        })
    }

    fn rnic(&mut self) -> Result<RnicAct, Unclear> {
        let what = "refuse, hold, release, or the number of an RNIC was expected";
        let token = self.take(what)?;
        Ok(match token {
            "refuse" if self.took("held") => RnicAct::RefuseHeld,
            "refuse" => {
                let kind = self.take("a kind of command was expected")?.to_owned();
                let number = if self.peek().is_some() {
                    self.number("which one was expected")?
                } else {
                    1
                };
                RnicAct::Refuse(kind, number)
            }
            "hold" => RnicAct::Hold(self.take("a kind of command was expected")?.to_owned()),
            "release" => RnicAct::Release,
            number => {
                let Ok(number) = number.parse() else {
                    return Err(self.unclear(self.taken(), what));
                };
                let what = "up, down or removed was expected";
                match self.take(what)? {
                    "up" => RnicAct::Up(number),
                    "down" => RnicAct::Down(number),
                    "removed" => RnicAct::Removed(number),
                    _ => return Err(self.unclear(self.taken(), what)),
                }
            }
        })
    }

    fn link(&mut self) -> Result<RnicAct, Unclear> {
        let number = self.number("the number of a link was expected")?;
        let what = "\"breaks\" was expected";
        if self.take(what)? != "breaks" {
            return Err(self.unclear(self.taken(), what));
        }
        let cause = self.plain().unwrap_or("retries").to_owned();
        self.next += usize::from(self.peek().is_some());
        Ok(RnicAct::Breaks(number, cause))
    }

    fn transmission(&mut self, form: Form, by_peer: bool) -> Result<Transmission, Unclear> {
        let what = "one of CLC, LLC, CDC, WRITE, TCP, breaks was expected";
        let token = self.take(what)?;
        let column = self.taken();
        Ok(match token {
            "TCP" => match self.plain() {
                Some("fin") => {
                    self.next += 1;
                    Transmission::Fin
                }
                Some("rst") => {
                    self.next += 1;
                    Transmission::Reset
                }
                _ => Transmission::Raw {
                    tcp: true,
                    bytes: self.raw_or_text()?,
                },
            },
            "WRITE" => {
                let settings = self.settings()?;
                let data = self.data()?;
                Transmission::Write { settings, data }
            }
            "breaks" if by_peer => Transmission::Breaks,
            "CLC" | "LLC" if self.took("raw") => Transmission::Raw {
                tcp: token == "CLC",
                bytes: self.raw()?,
            },
            "CDC" if self.took("raw") => Transmission::Raw {
                tcp: false,
                bytes: self.raw()?,
            },
            "CLC" | "LLC" | "CDC" => Transmission::Message(self.message(token, form)?),
            _ => return Err(self.unclear(column, what)),
        })
    }

    fn raw(&mut self) -> Result<Vec<u8>, Unclear> {
        let words = self.words.get(self.next..).unwrap_or(&[]);
        let what = "octets of two hexadecimal digits, or such as 16*00, were expected";
        if words.is_empty() {
            return self.expected(what);
        }
        self.next = self.words.len();
        bytes(words).map_err(|column| self.unclear(column, what))
    }

    fn raw_or_text(&mut self) -> Result<Vec<u8>, Unclear> {
        if self.took("raw") {
            return self.raw();
        }
        match self.data()? {
            Data::Text(text) => Ok(text),
            Data::Count(_) => Err(self.unclear(self.taken(), "a \"text\" was expected")),
        }
    }
}
