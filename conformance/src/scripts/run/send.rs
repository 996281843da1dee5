//! What the peer says.

use super::{Run, Wrong, wrong};
use crate::scripts::capture::Recorded;
use crate::scripts::describe::describe;
use crate::scripts::direct::octets as octets_of;
use crate::scripts::layout;
use crate::scripts::peer::put_text;
use crate::scripts::story::{Data, Kind, Message, Said, Setting, Value, Where};
use crate::scripts::wire::{Host, Wire};

impl<B: Wire + Host> Run<'_, B> {
    pub(super) fn say(&mut self, of: Where, said: &Said) -> Result<(), Wrong> {
        match said {
            Said::Message(message) => self.say_message(of, message),
            Said::Raw { tcp: true, octets } => {
                self.over_tcp(of.conn, octets);
                Ok(())
            }
            Said::Raw { tcp: false, octets } => self.over_link(of, octets),
            Said::Fin => {
                self.note(format_args!("peer.{} > TCP fin", of.conn));
                self.put_down(Recorded::Fin {
                    conn: of.conn,
                    by_engine: false,
                });
                self.bench.fin(of.conn);
                Ok(())
            }
            Said::Reset => {
                self.note(format_args!("peer.{} > TCP rst", of.conn));
                self.put_down(Recorded::Reset {
                    conn: of.conn,
                    by_engine: false,
                });
                self.bench.reset(of.conn);
                Ok(())
            }
            Said::Breaks => {
                self.note(format_args!("peer@{} breaks", of.link));
                let target = self.target(of)?;
                Ok(self.bench.breaks(target)?)
            }
            Said::Write { settings, data } => self.write(of, settings, data),
        }
    }

    fn over_tcp(&mut self, conn: u8, octets: &[u8]) {
        self.note(format_args!("peer.{conn} > {}", describe(octets)));
        self.put_down(Recorded::Tcp {
            conn,
            by_engine: false,
            octets: octets.to_vec(),
        });
        self.bench.tcp(conn, octets);
    }

    fn over_link(&mut self, of: Where, octets: &[u8]) -> Result<(), Wrong> {
        self.note(format_args!("peer@{} > {}", of.link, describe(octets)));
        self.put_down(Recorded::Send {
            link: of.link,
            by_engine: false,
            octets: octets.to_vec(),
        });
        let target = self.target(of)?;
        Ok(self.bench.send(target, octets)?)
    }

    fn write(&mut self, of: Where, settings: &[Setting], data: &Data) -> Result<(), Wrong> {
        let value = |run: &Self, name: &str| {
            let setting = settings.iter().find(|setting| setting.name == name);
            setting.map(|setting| run.number(setting)).transpose()
        };
        let at = value(self, "at")?.unwrap_or(0);
        let (key, address) = self.peer.memory(of.conn, of.link, at as u64)?;
        let key = value(self, "key")?.map_or(key, |key| key as u64);
        let address = value(self, "address")?.map_or(address, |address| address as u64);
        let octets = octets_of(data);
        let length = octets.len();
        self.note(format_args!(
            "peer@{} > WRITE {length} octets to {key:#x}@{address:#x}",
            of.link
        ));
        let target = self.target(of)?;
        self.bench.write(target, key, address, &octets)?;
        self.put_down(Recorded::Write {
            link: of.link,
            by_engine: false,
            key,
            address,
            octets,
        });
        Ok(())
    }

    fn say_message(&mut self, of: Where, message: &Message) -> Result<(), Wrong> {
        let kind = message.kind;
        let template = self.peer.says(kind, of.conn, of.link, message.reply);
        let mut said = template.octets;
        let mut split = None;
        self.put_fields(kind, &mut said, &message.fields)?;
        let mut octets = said.clone();
        // The script remembers the names it knows.
        let whole = self.edit(kind, &mut said, &message.fields, &mut split)?;
        self.peer.said(kind, of.conn, of.link, &whole);
        self.bench.says(of.conn, kind, &mut octets)?;
        self.edit(kind, &mut octets, &message.fields, &mut split)?;
        match kind {
            Kind::Clc(..) => match split {
                Some(at) if at < octets.len() => {
                    let rest = octets.split_off(at);
                    self.over_tcp(of.conn, &octets);
                    self.over_tcp(of.conn, &rest);
                }
                _ => self.over_tcp(of.conn, &octets),
            },
            Kind::Llc(_) | Kind::Cdc(_) => self.over_link(of, &octets)?,
        }
        Ok(())
    }

    fn put_fields(&self, kind: Kind, octets: &mut [u8], settings: &[Setting]) -> Result<(), Wrong> {
        for setting in settings {
            let Some(field) = layout::field(kind, &setting.name) else {
                continue;
            };
            match &setting.value {
                Value::Text(text) => put_text(octets, field, text),
                Value::Number(_, long) if long.len() > 16 => {
                    if let Some(place) = octets.get_mut(field.range()) {
                        place.fill(0);
                        for (octet, each) in place.iter_mut().zip(long) {
                            *octet = *each;
                        }
                    }
                }
                _ => {
                    let value = self.number(setting)?;
                    let value = match field.bits {
                        64.. => value,
                        // What is added may step over the end.
                        bits if matches!(setting.value, Value::Variable(..)) => {
                            value & ((1 << bits) - 1)
                        }
                        _ => value,
                    };
                    if field.overflows(value) {
                        let name = &setting.name;
                        return wrong(format_args!("{} bits for {name}", field.bits), value);
                    }
                    field.put(octets, value);
                }
            }
        }
        Ok(())
    }

    /// Changes the octets of a message beyond its fields: the message before it was cut.
    fn edit(
        &self,
        kind: Kind,
        octets: &mut Vec<u8>,
        settings: &[Setting],
        split: &mut Option<usize>,
    ) -> Result<Vec<u8>, Wrong> {
        let before = octets.len();
        let mut behind = Vec::new();
        let mut cut = None;
        for setting in settings {
            let name = setting.name.as_str();
            let edit = name.trim_end_matches(|each: char| each.is_ascii_digit());
            let at: usize = name[edit.len()..].parse().unwrap_or(0);
            let long = match &setting.value {
                Value::Number(_, long) => long.clone(),
                Value::Text(text) => text.as_bytes().to_vec(),
                _ => Vec::new(),
            };
            match edit {
                "insert" if at <= octets.len() => {
                    octets.splice(at..at, long);
                }
                "remove" => {
                    let count = self.number(setting)? as usize;
                    if at + count > octets.len() {
                        return wrong("octets to take out", octets.len());
                    }
                    octets.drain(at..at + count);
                }
                "append" => behind = long,
                "cut" => cut = Some(self.number(setting)? as usize),
                "split" => *split = Some(self.number(setting)? as usize),
                "insert" => return wrong("a place in the message", at),
                _ => {}
            }
        }
        if octets.len() != before
            && let Some(field) = layout::field(kind, "length")
        {
            let length = octets.len() as u128;
            field.put(octets, length);
        }
        // Fields that stand behind what was put in, and lengths that lie.
        let last: Vec<Setting> = settings
            .iter()
            .filter(|each| each.name == "length" || each.name.starts_with("octet"))
            .cloned()
            .collect();
        self.put_fields(kind, octets, &last)?;
        let whole = octets.clone();
        octets.extend(behind);
        if let Some(cut) = cut {
            octets.truncate(cut);
        }
        Ok(whole)
    }

    /// The number that a setting stands for.
    pub(super) fn number(&self, setting: &Setting) -> Result<u128, Wrong> {
        match &setting.value {
            Value::Number(number, _) => Ok(*number),
            Value::Variable(name, added) => match self.variables.get(name) {
                Some(value) => Ok(value.wrapping_add_signed(i128::from(*added))),
                None => wrong(format_args!("${name}, bound by a line above"), "nothing"),
            },
            value => wrong(
                format_args!("a number for {}", setting.name),
                format_args!("{value:?}"),
            ),
        }
    }
}
