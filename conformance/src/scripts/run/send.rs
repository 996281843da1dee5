//! Sending for the peer.

use super::{Run, Wrong, wrong};
use crate::scripts::capture::Recorded;
use crate::scripts::describe::describe;
use crate::scripts::direct::bytes as bytes_of;
use crate::scripts::layout;
use crate::scripts::parsed::{Data, Kind, Message, Setting, Transmission, Value, Where};
use crate::scripts::peer::put_text;
use crate::scripts::wire::{Host, Wire};

impl<B: Wire + Host> Run<'_, B> {
    pub(super) fn send(&mut self, of: Where, transmission: &Transmission) -> Result<(), Wrong> {
        match transmission {
            Transmission::Message(message) => self.send_message(of, message),
            Transmission::Raw { tcp: true, bytes } => {
                self.over_tcp(of.conn, bytes);
                Ok(())
            }
            Transmission::Raw { tcp: false, bytes } => self.over_link(of, bytes),
            Transmission::Fin => {
                self.note(format_args!("peer.{} > TCP fin", of.conn));
                self.put_down(Recorded::Fin {
                    conn: of.conn,
                    by_engine: false,
                });
                self.bench.fin(of.conn);
                Ok(())
            }
            Transmission::Reset => {
                self.note(format_args!("peer.{} > TCP rst", of.conn));
                self.put_down(Recorded::Reset {
                    conn: of.conn,
                    by_engine: false,
                });
                self.bench.reset(of.conn);
                Ok(())
            }
            Transmission::Breaks => {
                self.note(format_args!("peer@{} breaks", of.link));
                let target = self.target(of)?;
                Ok(self.bench.breaks(target)?)
            }
            Transmission::Write { settings, data } => self.write(of, settings, data),
        }
    }

    fn over_tcp(&mut self, conn: u8, bytes: &[u8]) {
        self.note(format_args!("peer.{conn} > {}", describe(bytes)));
        self.put_down(Recorded::Tcp {
            conn,
            by_engine: false,
            bytes: bytes.to_vec(),
        });
        self.bench.tcp(conn, bytes);
    }

    fn over_link(&mut self, of: Where, bytes: &[u8]) -> Result<(), Wrong> {
        self.note(format_args!("peer@{} > {}", of.link, describe(bytes)));
        self.put_down(Recorded::Send {
            link: of.link,
            by_engine: false,
            bytes: bytes.to_vec(),
        });
        let target = self.target(of)?;
        Ok(self.bench.send(target, bytes)?)
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
        let bytes = bytes_of(data);
        let length = bytes.len();
        self.note(format_args!(
            "peer@{} > WRITE {length} octets to {key:#x}@{address:#x}",
            of.link
        ));
        let target = self.target(of)?;
        self.bench.write(target, key, address, &bytes)?;
        self.put_down(Recorded::Write {
            link: of.link,
            by_engine: false,
            key,
            address,
            bytes,
        });
        Ok(())
    }

    fn send_message(&mut self, of: Where, message: &Message) -> Result<(), Wrong> {
        let kind = message.kind;
        let template = self.peer.default_of(kind, of.conn, of.link, message.reply);
        let mut named = template.bytes;
        let mut split = None;
        self.put_fields(kind, &mut named, &message.fields)?;
        let mut bytes = named.clone();
        // The script remembers the names it knows.
        let whole = self.edit(kind, &mut named, &message.fields, &mut split)?;
        self.peer.note_sent(kind, of.conn, of.link, &whole);
        self.bench.name_for_wire(of.conn, kind, &mut bytes)?;
        self.edit(kind, &mut bytes, &message.fields, &mut split)?;
        match kind {
            Kind::Clc(..) => match split {
                Some(at) if at < bytes.len() => {
                    let rest = bytes.split_off(at);
                    self.over_tcp(of.conn, &bytes);
                    self.over_tcp(of.conn, &rest);
                }
                _ => self.over_tcp(of.conn, &bytes),
            },
            Kind::Llc(_) | Kind::Cdc(_) => self.over_link(of, &bytes)?,
        }
        Ok(())
    }

    fn put_fields(&self, kind: Kind, bytes: &mut [u8], settings: &[Setting]) -> Result<(), Wrong> {
        for setting in settings {
            let Some(field) = layout::field(kind, &setting.name) else {
                continue;
            };
            match &setting.value {
                Value::Text(text) => put_text(bytes, field, text),
                Value::Number(_, long) if long.len() > 16 => {
                    if let Some(place) = bytes.get_mut(field.range()) {
                        place.fill(0);
                        for (byte, each) in place.iter_mut().zip(long) {
                            *byte = *each;
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
                    field.put(bytes, value);
                }
            }
        }
        Ok(())
    }

    /// Changes the bytes of a message beyond its fields: the message before it was cut.
    fn edit(
        &self,
        kind: Kind,
        bytes: &mut Vec<u8>,
        settings: &[Setting],
        split: &mut Option<usize>,
    ) -> Result<Vec<u8>, Wrong> {
        let before = bytes.len();
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
                "insert" if at <= bytes.len() => {
                    bytes.splice(at..at, long);
                }
                "remove" => {
                    let count = self.number(setting)? as usize;
                    if at + count > bytes.len() {
                        return wrong("octets to take out", bytes.len());
                    }
                    bytes.drain(at..at + count);
                }
                "append" => behind = long,
                "cut" => cut = Some(self.number(setting)? as usize),
                "split" => *split = Some(self.number(setting)? as usize),
                "insert" => return wrong("a place in the message", at),
                _ => {}
            }
        }
        if bytes.len() != before
            && let Some(field) = layout::field(kind, "length")
        {
            let length = bytes.len() as u128;
            field.put(bytes, length);
        }
        // Fields that are behind what was put in, and lengths that lie.
        let last: Vec<Setting> = settings
            .iter()
            .filter(|each| each.name == "length" || each.name.starts_with("octet"))
            .cloned()
            .collect();
        self.put_fields(kind, bytes, &last)?;
        let whole = bytes.clone();
        bytes.extend(behind);
        if let Some(cut) = cut {
            bytes.truncate(cut);
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
