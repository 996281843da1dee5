//! Whether a message is the one that was expected.

use super::{Run, Wrong, wrong};
use crate::scripts::describe::describe;
use crate::scripts::layout::{self, Field};
use crate::scripts::parsed::{Kind, Message, Value, Where};
use crate::scripts::peer::put_text;
use crate::scripts::wire::{Host, Wire};

impl<B: Wire + Host> Run<'_, B> {
    pub(super) fn compare(
        &mut self,
        of: Where,
        message: &Message,
        kind: Kind,
        bytes: &[u8],
    ) -> Result<(), Wrong> {
        let expected = self
            .peer
            .expects(message.kind, of.conn, of.link, message.reply);
        let mut template = expected.bytes;
        let mut free: Vec<Field> = Vec::new();
        let mut named: Vec<Field> = Vec::new();
        let mut bound = Vec::new();
        if same_type(message.kind) != same_type(kind) {
            return wrong(name(message), describe(bytes));
        }
        for name in expected.free {
            if message.fields.iter().all(|setting| setting.name != name)
                && let Some(field) = layout::field(message.kind, name)
            {
                free.push(field);
            }
        }
        for setting in &message.fields {
            let Some(field) = layout::field(message.kind, &setting.name) else {
                return wrong("a field of this message", &setting.name);
            };
            match &setting.value {
                Value::Any => free.push(field),
                Value::Variable(name, 0) if !self.variables.contains_key(name) => {
                    bound.push((name.clone(), field.get(bytes)));
                    free.push(field);
                }
                Value::Text(text) => {
                    grow(&mut template, field);
                    put_text(&mut template, field, text);
                    named.push(field);
                }
                _ => {
                    grow(&mut template, field);
                    field.put(&mut template, self.number(setting)?);
                    named.push(field);
                }
            }
        }
        let mut differences = Vec::new();
        let differs = |field: &Field| {
            let (wanted, found) = (template.get(field.range()), bytes.get(field.range()));
            if field.is_bytes() {
                wanted != found
            } else {
                field.get(&template) != field.get(bytes)
            }
        };
        for field in &named {
            if differs(field) {
                differences.push(difference(field, &template, bytes));
            }
        }
        if !message.open && !self.bench.leaves_open(message.kind) {
            let mut masked = bytes.to_vec();
            let mut wanted = template.clone();
            if masked.len() != wanted.len() {
                let (wanted, found) = (wanted.len(), masked.len());
                differences.push(format!("{wanted} octets, not {found}"));
            }
            for field in &free {
                field.clear(&mut masked);
                field.clear(&mut wanted);
            }
            for field in layout::fields(message.kind) {
                if field.get(&masked) != field.get(&wanted)
                    && named.iter().all(|known| known.bit != field.bit)
                {
                    differences.push(difference(&field, &wanted, &masked));
                    field.put(&mut masked, 0);
                    field.put(&mut wanted, 0);
                }
            }
            for field in &named {
                field.clear(&mut masked);
                field.clear(&mut wanted);
            }
            for (at, (wanted, found)) in wanted.iter().zip(&masked).enumerate() {
                if wanted != found {
                    differences.push(format!("octet {at}: {wanted:02x}, not {found:02x}"));
                }
            }
        }
        if !differences.is_empty() {
            return wrong(differences.join("; "), describe(bytes));
        }
        self.variables.extend(bound);
        Ok(())
    }
}

/// Fields may be named that the expected message would not have: it is as long then.
fn grow(template: &mut Vec<u8>, field: Field) {
    let end = field.range().end;
    if template.len() < end {
        template.resize(end, 0);
    }
}

fn difference(field: &Field, wanted: &[u8], found: &[u8]) -> String {
    let shown = |message: &[u8]| {
        if field.bits > 128 {
            let bytes = message.get(field.range()).unwrap_or(&[]);
            return String::from_utf8_lossy(bytes).into_owned();
        }
        match field.get(message) {
            value @ ..10 => value.to_string(),
            value => format!("{value} ({value:#x})"),
        }
    };
    format!("{field}={}, not {}", shown(wanted), shown(found))
}

/// A kind without what a field of the message contains as well.
const fn same_type(kind: Kind) -> (u8, u8) {
    match kind {
        Kind::Clc(_, kind) => (0, kind),
        Kind::Llc(kind) => (1, kind),
        Kind::Cdc(_) => (2, 0),
    }
}

pub(super) fn name(message: &Message) -> String {
    let reply = if message.reply { " reply" } else { "" };
    match message.kind {
        Kind::Clc(form, kind) => {
            let known = layout::CLC_TYPES.iter().find(|(_, known)| *known == kind);
            let name = known.map_or("?", |(name, _)| *name);
            format!("CLC {name} ({form:?})")
        }
        Kind::Llc(kind) => {
            let known = layout::LLC_TYPES.iter();
            let version = if kind & 0xe0 == 0x20 { "v2 " } else { "" };
            let plain = if kind < 0x80 { kind & 0x1f } else { kind };
            let name = known
                .filter(|(_, known)| *known == plain)
                .map(|(name, _)| *name)
                .next();
            format!("LLC {version}{}{reply}", name.unwrap_or("?"))
        }
        Kind::Cdc(_) => "CDC".to_owned(),
    }
}
