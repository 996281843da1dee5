//! One line.

mod app;
mod message;

use std::sync::Arc;

use super::value::{duration, octets, value};
use crate::scripts::story::{
    Act, Data, Form, Place, RnicAct, Said, Setting, Setup, Value, When, Where,
};
use crate::scripts::text::{Unclear, Word};

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
    words: &'w [Word],
    next: usize,
    file: &'w Arc<str>,
    line: u32,
}

const ACTORS: &str = "one of peer, engine, app, rnic, link, wait, nothing, ignore, repeat, include, \
     speaks, rnics, config, } was expected";

impl<'w> Line<'w> {
    pub(super) const fn new(words: &'w [Word], file: &'w Arc<str>, line: u32) -> Self {
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

    /// Where the next word stands, or would.
    fn column(&self) -> u32 {
        match self.words.get(self.next) {
            Some(word) => word.column,
            None => self.words.last().map_or(1, |word| {
                let quoted = word.quoted.as_ref().map_or(0, |text| text.len() + 2);
                word.column + (word.plain.len() + quoted) as u32
            }),
        }
    }

    fn expected<T>(&self, what: impl Into<String>) -> Result<T, Unclear> {
        Err(self.unclear(self.column(), what))
    }

    /// The column of the word that was just taken.
    fn taken(&self) -> u32 {
        let word = self.next.checked_sub(1).and_then(|at| self.words.get(at));
        word.map_or(1, |word| word.column)
    }

    fn peek(&self) -> Option<&'w Word> {
        self.words.get(self.next)
    }

    /// The next word if it is plain.
    fn plain(&self) -> Option<&'w str> {
        let word = self.peek().filter(|word| word.quoted.is_none())?;
        Some(word.plain.as_str())
    }

    fn take(&mut self, what: &str) -> Result<&'w str, Unclear> {
        match self.plain() {
            Some(word) => {
                self.next += 1;
                Ok(word)
            }
            None => self.expected(what),
        }
    }

    fn took(&mut self, word: &str) -> bool {
        let is = self.plain() == Some(word);
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
        let word = self.take(what)?;
        match value(word, None) {
            Some(Value::Number(number, _)) => {
                T::try_from(number).map_err(|_| self.unclear(self.taken(), what))
            }
            _ => Err(self.unclear(self.taken(), what)),
        }
    }

    fn time(&mut self) -> Result<core::time::Duration, Unclear> {
        let what = "a time such as 10ms was expected";
        let word = self.take(what)?;
        duration(word).ok_or_else(|| self.unclear(self.taken(), what))
    }

    fn place(&self, word: &Word) -> Place {
        Place {
            file: Arc::clone(self.file),
            line: self.line,
            column: word.column,
        }
    }

    /// A `name=value`, if that is next.
    fn setting(&mut self) -> Result<Option<Setting>, Unclear> {
        let Some((word, (name, text))) = self
            .peek()
            .and_then(|word| Some((word, word.plain.split_once('=')?)))
        else {
            return Ok(None);
        };
        let Some(value) = value(text, word.quoted.as_deref()) else {
            return self.expected("a value behind = was expected");
        };
        self.next += 1;
        Ok(Some(Setting {
            name: name.to_owned(),
            value,
            at: self.place(word),
        }))
    }

    fn settings(&mut self) -> Result<Vec<Setting>, Unclear> {
        let mut settings = Vec::new();
        while let Some(setting) = self.setting()? {
            settings.push(setting);
        }
        Ok(settings)
    }

    /// `"text"` or `N octets`.
    fn data(&mut self) -> Result<Data, Unclear> {
        if let Some(word) = self.peek()
            && word.plain.is_empty()
            && let Some(text) = &word.quoted
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
        let Some(text) = self.plain().and_then(|word| word.strip_prefix('+')) else {
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
        let word = self.take(ACTORS)?;
        let column = self.taken();
        let (word, link) = word.split_once('@').unwrap_or((word, "1"));
        let (actor, conn) = word.split_once('.').unwrap_or((word, "1"));
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
            ("peer", _) => Act::Peer(of, self.said(form, true)?),
            ("engine", _) => Act::Engine(of, self.said(form, false)?),
            (_, false) => Act::App(of, self.app_act()?),
            (_, true) => Act::Seen(of, self.app_sees()?),
        })
    }

    fn rnic(&mut self) -> Result<RnicAct, Unclear> {
        let what = "refuse, hold, release, or the number of an RNIC was expected";
        let word = self.take(what)?;
        Ok(match word {
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

    fn said(&mut self, form: Form, by_peer: bool) -> Result<Said, Unclear> {
        let what = "one of CLC, LLC, CDC, WRITE, TCP, breaks was expected";
        let word = self.take(what)?;
        let column = self.taken();
        Ok(match word {
            "TCP" => match self.plain() {
                Some("fin") => {
                    self.next += 1;
                    Said::Fin
                }
                Some("rst") => {
                    self.next += 1;
                    Said::Reset
                }
                _ => Said::Raw {
                    tcp: true,
                    octets: self.raw_or_text()?,
                },
            },
            "WRITE" => {
                let settings = self.settings()?;
                let data = self.data()?;
                Said::Write { settings, data }
            }
            "breaks" if by_peer => Said::Breaks,
            "CLC" | "LLC" if self.took("raw") => Said::Raw {
                tcp: word == "CLC",
                octets: self.raw()?,
            },
            "CDC" if self.took("raw") => Said::Raw {
                tcp: false,
                octets: self.raw()?,
            },
            "CLC" | "LLC" | "CDC" => Said::Message(self.message(word, form)?),
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
        octets(words).map_err(|column| self.unclear(column, what))
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
