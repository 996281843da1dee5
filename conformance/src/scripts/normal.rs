//! What makes two scripts the same: the messages on the wire, whatever surrounds them.

use std::collections::HashMap;
use std::fmt::Write;

use super::parsed::{Act, ParsedScript, Setting, Step, Transmission, Value};

/// The messages of a script in order: kinds, fields and values. Times, comments, what
/// applications and RNICs do and the names of variables do not count.
#[must_use]
pub fn messages(script: &ParsedScript) -> String {
    of(script, true)
}

/// Returns the script without values and addressees: the shape of the conversation.
#[must_use]
pub fn shape(script: &ParsedScript) -> String {
    of(script, false)
}

/// How many messages a script has; what happens several times counts once.
#[must_use]
pub fn count(script: &ParsedScript) -> usize {
    messages(script).lines().count()
}

fn of(script: &ParsedScript, values: bool) -> String {
    let mut normal = Normal {
        text: String::new(),
        values,
        names: HashMap::new(),
    };
    normal.steps(&script.steps);
    normal.text
}

struct Normal {
    text: String,
    values: bool,
    names: HashMap<String, usize>,
}

impl Normal {
    fn steps(&mut self, steps: &[Step]) {
        for step in steps {
            match &step.act {
                Act::Peer(of, sent) => {
                    self.transmission(&format!("peer {}@{}", of.conn, of.link), sent)
                }
                Act::Engine(of, sent) => {
                    self.transmission(&format!("engine {}@{}", of.conn, of.link), sent);
                }
                Act::Repeat(count, steps) => {
                    self.line(&format!("repeat {count}"));
                    self.steps(steps);
                    self.line("end");
                }
                _ => {}
            }
        }
    }

    fn line(&mut self, line: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }

    fn transmission(&mut self, who: &str, sent: &Transmission) {
        let who = if self.values {
            who
        } else {
            who.split(' ').next().unwrap_or(who)
        };
        let what = match sent {
            Transmission::Message(message) => {
                let mut fields: Vec<String> = message
                    .fields
                    .iter()
                    .map(|setting| self.setting(setting))
                    .collect();
                fields.sort();
                let reply = if message.reply { " reply" } else { "" };
                format!("{:?}{reply} {}", message.kind, fields.join(" "))
            }
            Transmission::Raw { tcp, bytes } if self.values => format!("raw {tcp} {bytes:?}"),
            Transmission::Raw { tcp, .. } => format!("raw {tcp}"),
            Transmission::Fin => "fin".to_owned(),
            Transmission::Reset => "rst".to_owned(),
            Transmission::Write { settings, data } => {
                let fields: Vec<String> = settings
                    .iter()
                    .map(|setting| self.setting(setting))
                    .collect();
                let data = if self.values {
                    format!("{data:?}")
                } else {
                    String::new()
                };
                format!("WRITE {} {data}", fields.join(" "))
            }
            Transmission::Breaks => "breaks".to_owned(),
        };
        self.line(&format!("{who} {what}"));
    }

    fn setting(&mut self, setting: &Setting) -> String {
        let name = &setting.name;
        if !self.values {
            return name.clone();
        }
        match &setting.value {
            Value::Number(0, bytes) => format!("{name}={bytes:x?}"),
            Value::Number(number, _) => format!("{name}={number:#x}"),
            Value::Variable(variable, added) => {
                let next = self.names.len();
                let number = *self.names.entry(variable.clone()).or_insert(next);
                format!("{name}=${number}+{added}")
            }
            value => format!("{name}={value:?}"),
        }
    }
}
