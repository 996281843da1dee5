//! What makes two scripts the same: the messages on the wire, whatever surrounds them.

use std::collections::HashMap;
use std::fmt::Write;

use super::story::{Act, Said, Setting, Step, Story, Value};

/// The messages of a script in order: kinds, fields and values. Times, comments, what
/// applications and RNICs do and the names of variables do not count.
#[must_use]
pub fn messages(story: &Story) -> String {
    of(story, true)
}

/// The same without values and addressees: the shape of the conversation.
#[must_use]
pub fn shape(story: &Story) -> String {
    of(story, false)
}

/// How many messages a script has; what happens several times counts once.
#[must_use]
pub fn count(story: &Story) -> usize {
    messages(story).lines().count()
}

fn of(story: &Story, values: bool) -> String {
    let mut normal = Normal {
        text: String::new(),
        values,
        names: HashMap::new(),
    };
    normal.steps(&story.steps);
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
                Act::Peer(of, said) => self.said(&format!("peer {}@{}", of.conn, of.link), said),
                Act::Engine(of, said) => {
                    self.said(&format!("engine {}@{}", of.conn, of.link), said);
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

    fn said(&mut self, who: &str, said: &Said) {
        let who = if self.values {
            who
        } else {
            who.split(' ').next().unwrap_or(who)
        };
        let what = match said {
            Said::Message(message) => {
                let mut fields: Vec<String> = message
                    .fields
                    .iter()
                    .map(|setting| self.setting(setting))
                    .collect();
                fields.sort();
                let reply = if message.reply { " reply" } else { "" };
                format!("{:?}{reply} {}", message.kind, fields.join(" "))
            }
            Said::Raw { tcp, octets } if self.values => format!("raw {tcp} {octets:?}"),
            Said::Raw { tcp, .. } => format!("raw {tcp}"),
            Said::Fin => "fin".to_owned(),
            Said::Reset => "rst".to_owned(),
            Said::Write { settings, data } => {
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
            Said::Breaks => "breaks".to_owned(),
        };
        self.line(&format!("{who} {what}"));
    }

    fn setting(&mut self, setting: &Setting) -> String {
        let name = &setting.name;
        if !self.values {
            return name.clone();
        }
        match &setting.value {
            Value::Number(0, octets) => format!("{name}={octets:x?}"),
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
