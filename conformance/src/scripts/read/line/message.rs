//! Messages by their fields.

use super::Line;
use crate::scripts::layout::{self, CLC_TYPES, LLC_TYPES};
use crate::scripts::parsed::{Form, Kind, Message, Pattern, Setting, Value};
use crate::scripts::text::Unclear;

/// Edits of any message that is sent, beside its fields: `cut` keeps its first
/// bytes, `append` puts bytes behind it, `insertN` and `removeN` put bytes before
/// byte N or take some out, `split` sends it in two pieces.
pub(crate) const EDITS: [&str; 5] = ["cut", "append", "insert", "remove", "split"];

impl Line<'_> {
    /// The kind of a message and whether it is an answer.
    pub(super) fn kind(&mut self, family: &str, form: Form) -> Result<(Kind, bool), Unclear> {
        Ok(match family {
            "CLC" => {
                let form = match self.plain() {
                    Some("r1") => Some(Form::R1),
                    Some("r2") => Some(Form::R2),
                    Some("d1") => Some(Form::D1),
                    Some("d2") => Some(Form::D2),
                    _ => None,
                }
                .inspect(|_| self.next += 1)
                .unwrap_or(form);
                let what = "Proposal, Accept, Confirm or Decline was expected";
                let name = self.take(what)?;
                match CLC_TYPES.iter().find(|(known, _)| *known == name) {
                    Some((_, kind)) => (Kind::Clc(form, *kind), false),
                    None => return Err(self.unclear(self.taken(), what)),
                }
            }
            "LLC" => {
                let v2 = match self.plain() {
                    Some("v1") => Some(0),
                    Some("v2") => Some(0x20),
                    _ => None,
                }
                .inspect(|_| self.next += 1)
                .unwrap_or(if form.is_v2() { 0x20 } else { 0 });
                let known: Vec<&str> = LLC_TYPES.iter().map(|(name, _)| *name).collect();
                let what = format!("one of {} was expected", known.join(", "));
                let name = self.take(&what)?;
                let Some((_, kind)) = LLC_TYPES.iter().find(|(known, _)| *known == name) else {
                    return Err(self.unclear(self.taken(), what));
                };
                let v2 = if *kind < 0x80 { v2 } else { 0 };
                (Kind::Llc(kind | v2), self.took("reply"))
            }
            _ => (Kind::Cdc(form.is_ism()), false),
        })
    }

    pub(super) fn message(&mut self, family: &str, form: Form) -> Result<Message, Unclear> {
        let (kind, reply) = self.kind(family, form)?;
        let mut fields = Vec::new();
        let mut open = false;
        while self.peek().is_some() {
            if self.took("...") {
                open = true;
            } else if let Some(setting) = self.setting()? {
                if !is_known(kind, &setting.name) {
                    let names = layout::names(kind);
                    let what = format!("a field of this message was expected: {names}");
                    return Err(self.unclear(setting.at.column, what));
                }
                fields.push(setting);
            } else if let Some(token) = self.peek()
                && let Some(field) = layout::field(kind, &token.plain)
                && field.bits <= 2
            {
                // A flag by its name alone is set.
                self.next += 1;
                let ones = (1 << field.bits) - 1;
                fields.push(Setting {
                    name: token.plain.clone(),
                    value: Value::Number(ones, vec![ones as u8]),
                    at: self.place(token),
                });
            } else {
                let names = layout::names(kind);
                return self.expected(format!("field=value, a flag or ... was expected: {names}"));
            }
        }
        Ok(Message {
            kind,
            reply,
            fields,
            open,
        })
    }

    pub(super) fn pattern(&mut self, form: Form) -> Result<Pattern, Unclear> {
        let what = "CLC, LLC or CDC was expected";
        let family = self.take(what)?;
        if !["CLC", "LLC", "CDC"].contains(&family) {
            return Err(self.unclear(self.taken(), what));
        }
        let (kind, reply) = self.kind(family, form)?;
        Ok(Pattern { kind, reply })
    }
}

/// Whether a message has such a field, or it is an edit.
fn is_known(kind: Kind, name: &str) -> bool {
    let edit = name.trim_end_matches(|each: char| each.is_ascii_digit());
    EDITS.contains(&edit) || layout::field(kind, name).is_some()
}
