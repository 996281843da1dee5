//! Changes of `cursor.rs`, each of which some law must notice: every operator, method,
//! number and verdict by itself, and plausible mistakes.

use std::ops::Range;

use syn::spanned::Spanned;
use syn::visit::{self, Visit};

use super::Problem;

/// A change of a text.
#[derive(Debug)]
pub(super) struct Change {
    /// The function that is changed; empty for a constant of all of them.
    pub(super) function: String,
    /// The change, with its line.
    pub(super) name: String,
    /// Why it alters nothing, for the few that do not.
    pub(super) equivalent: Option<&'static str>,
    range: Range<usize>,
    with: String,
}

impl Change {
    /// The text with the change.
    pub(super) fn applied(&self, text: &str) -> String {
        let (before, after) = (&text[..self.range.start], &text[self.range.end..]);
        format!("{before}{}{after}", self.with)
    }
}

/// Mistakes by hand: the function, what it has once, and what it has instead.
const PLANTED: [(&str, &str, &str); 15] = [
    // The wrap counter never moves.
    ("Ring::advance", ".wrapping_add(wrapped as u16)", ""),
    // The wrap counter moves with every advance.
    ("Ring::advance", "wrapped as u16", "1"),
    // The total stays.
    (
        "Ring::advance",
        "from.total.wrapping_add(bytes as u64)",
        "from.total",
    ),
    // The total is one of 32 bits.
    (
        "Position::moved",
        "self.total.wrapping_add(bytes as u64)",
        "(self.total as u32).wrapping_add(bytes) as u64",
    ),
    // Wrap counters are of 8 bits.
    (
        "Ring::distance",
        "to.wrap.wrapping_sub(from.wrap)",
        "(to.wrap & 255).wrapping_sub(from.wrap & 255)",
    ),
    // However many laps are one.
    (
        "Ring::distance",
        "to.wrap.wrapping_sub(from.wrap).cast_signed()",
        "to.wrap != from.wrap",
    ),
    // Wraps are ignored.
    (
        "Ring::distance",
        "to.wrap.wrapping_sub(from.wrap)",
        "from.wrap.wrapping_sub(from.wrap)",
    ),
    // A lap is as long as the element, eye catcher and all.
    ("Ring::distance", "self.usable()", "self.end"),
    // The eye catcher is part of the ring.
    (
        "Ring::usable",
        "self.end.wrapping_sub(self.base)",
        "self.end",
    ),
    ("Ring::start", "count: self.base", "count: 0"),
    ("Ring::spans", "offset: self.base", "offset: 0"),
    // A span goes over the end.
    ("Ring::spans", "len.min(self.to_end(count))", "len"),
    // A count of the eye catcher is taken.
    ("Ring::step", "to.count < self.base || ", ""),
    // The next lap is this one.
    ("Ring::ahead", ".wrapping_add(lap)", ""),
    // Sequence numbers never wrap.
    ("newer", "a.wrapping_sub(b).cast_signed() > 0", "a > b"),
];

/// Changes that alter nothing: the function, the beginning of the change, and the reason.
const EQUIVALENT: [(&str, &str, &str); 1] = [(
    "Ring::local",
    "`>` becomes `>=`",
    "the limit is the limit either way",
)];

/// All changes of a text.
pub(super) fn all(text: &str) -> Result<Vec<Change>, Problem> {
    let file = syn::parse_file(text).map_err(|error| Problem::new(error.to_string()))?;
    let mut found = Found {
        text,
        function: String::new(),
        of: None,
        bodies: Vec::new(),
        changes: Vec::new(),
    };
    found.visit_file(&file);
    let Found {
        bodies,
        mut changes,
        ..
    } = found;
    for (function, from, to) in PLANTED {
        let body = bodies.iter().find(|(name, _)| name == function);
        let mut places = body.into_iter().flat_map(|(_, body)| {
            let places = text[body.clone()].match_indices(from);
            places.map(|(at, _)| body.start + at)
        });
        let (Some(at), None) = (places.next(), places.next()) else {
            return Err(Problem::new(format!("{function} has not once: {from}")));
        };
        changes.push(change(text, function, at..at + from.len(), to));
    }
    for (function, name, reason) in EQUIVALENT {
        let mut named = changes
            .iter_mut()
            .filter(|change| change.function == function && change.name.contains(name));
        let (Some(change), None) = (named.next(), named.next()) else {
            return Err(Problem::new(format!("{function}: no single change {name}")));
        };
        change.equivalent = Some(reason);
    }
    Ok(changes)
}

fn change(text: &str, function: &str, range: Range<usize>, with: &str) -> Change {
    let line = text[..range.start].matches('\n').count() + 1;
    let from = text[range.clone()]
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    Change {
        function: function.to_owned(),
        name: format!("cursor.rs:{line}: {function}: `{from}` becomes `{with}`"),
        equivalent: None,
        range,
        with: with.to_owned(),
    }
}

struct Found<'a> {
    text: &'a str,
    function: String,
    of: Option<String>,
    bodies: Vec<(String, Range<usize>)>,
    changes: Vec<Change>,
}

impl Found<'_> {
    fn add(&mut self, range: Range<usize>, with: &str) {
        let change = change(self.text, &self.function, range, with);
        self.changes.push(change);
    }

    fn enter(&mut self, name: &syn::Ident, body: &syn::Block) {
        self.function = match &self.of {
            Some(of) => format!("{of}::{name}"),
            None => name.to_string(),
        };
        self.bodies
            .push((self.function.clone(), body.span().byte_range()));
    }
}

impl<'a> Visit<'a> for Found<'_> {
    fn visit_item_impl(&mut self, item: &'a syn::ItemImpl) {
        if let syn::Type::Path(path) = &*item.self_ty {
            self.of = path.path.get_ident().map(ToString::to_string);
        }
        visit::visit_item_impl(self, item);
        self.of = None;
    }

    fn visit_impl_item_fn(&mut self, function: &'a syn::ImplItemFn) {
        self.enter(&function.sig.ident, &function.block);
        visit::visit_block(self, &function.block);
        self.function.clear();
    }

    fn visit_item_fn(&mut self, function: &'a syn::ItemFn) {
        self.enter(&function.sig.ident, &function.block);
        visit::visit_block(self, &function.block);
        self.function.clear();
    }

    fn visit_expr_binary(&mut self, binary: &'a syn::ExprBinary) {
        let range = binary.op.span().byte_range();
        let others: &[&str] = match &self.text[range.clone()] {
            "<" => &["<=", ">"],
            "<=" => &["<", ">="],
            ">" => &[">=", "<"],
            ">=" => &[">", "<="],
            "==" => &["!="],
            "!=" => &["=="],
            "&&" => &["||"],
            "||" => &["&&"],
            "&" => &["|"],
            _ => &[],
        };
        for other in others {
            self.add(range.clone(), other);
        }
        visit::visit_expr_binary(self, binary);
    }

    fn visit_expr_method_call(&mut self, call: &'a syn::ExprMethodCall) {
        let name = call.method.span().byte_range();
        let other = match &self.text[name.clone()] {
            "wrapping_add" => Some("wrapping_sub"),
            "wrapping_sub" => Some("wrapping_add"),
            "wrapping_mul" => Some("wrapping_add"),
            "saturating_add" => Some("saturating_mul"),
            "saturating_mul" => Some("saturating_add"),
            "min" => Some("max"),
            _ => None,
        };
        if let Some(other) = other {
            self.add(name, other);
        } else if matches!(&self.text[name], "wrapping_neg" | "cast_signed") {
            self.add(
                call.dot_token.span().byte_range().start..call.span().byte_range().end,
                "",
            );
        }
        visit::visit_expr_method_call(self, call);
    }

    fn visit_expr_field(&mut self, field: &'a syn::ExprField) {
        let member = field.member.span().byte_range();
        match &self.text[member.clone()] {
            "base" => self.add(member, "end"),
            "end" => self.add(member, "base"),
            _ => {}
        }
        visit::visit_expr_field(self, field);
    }

    fn visit_lit_int(&mut self, number: &'a syn::LitInt) {
        if let Ok(value) = number.base10_parse::<u64>() {
            let range = number.span().byte_range();
            self.add(range.clone(), &(value + 1).to_string());
            if let Some(less) = value.checked_sub(1) {
                self.add(range, &less.to_string());
            }
        }
    }

    fn visit_expr_if(&mut self, condition: &'a syn::ExprIf) {
        let range = condition.cond.span().byte_range();
        let turned = format!("!({})", &self.text[range.clone()]);
        self.add(range, &turned);
        visit::visit_expr_if(self, condition);
    }

    fn visit_expr_path(&mut self, path: &'a syn::ExprPath) {
        let range = path.span().byte_range();
        let other = match &self.text[range.clone()] {
            "Step::Backward" => "Step::Forward(0)",
            "StepFault::Outside" => "StepFault::TooFar",
            "StepFault::TooFar" => "StepFault::FarBack",
            "StepFault::FarBack" => "StepFault::Outside",
            _ => return,
        };
        self.add(range, other);
    }
}
