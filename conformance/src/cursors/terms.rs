//! Terms of SMT-LIB over booleans and integers, each written once.
//!
//! An integer of Rust is a mathematical integer in the range of its type; what leaves the
//! range comes back into it by adding or taking the size of the range. Solvers decide such
//! sums and differences at once, where the same terms over bit vectors take minutes.

use std::collections::HashMap;
use std::fmt::Write;

/// What a term stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sort {
    /// True or false.
    Bool,
    /// An integer.
    Int,
}

/// The values of an integer type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Range {
    /// Bits of the type.
    pub(super) width: u32,
    /// Whether negative values are among them.
    pub(super) signed: bool,
}

impl Range {
    /// The smallest value.
    pub(super) fn least(self) -> i128 {
        match self.signed {
            true => -(self.size() / 2),
            false => 0,
        }
    }

    /// The largest value.
    pub(super) fn most(self) -> i128 {
        self.least() + self.size() - 1
    }

    /// How many values there are.
    pub(super) fn size(self) -> i128 {
        1 << self.width
    }
}

/// A term of a [`Terms`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Term(usize);

#[derive(Debug)]
struct Entry {
    text: String,
    sort: Sort,
    /// What an operator is applied to.
    of: Vec<Term>,
    /// The least and the largest value it can have, as far as known; of a truth value nothing.
    bounds: (i128, i128),
    /// Constants and parameters are written where they are used, others have a name.
    atom: bool,
}

/// All terms of a formula, each behind those that it uses.
#[derive(Debug, Default)]
pub(super) struct Terms {
    entries: Vec<Entry>,
    known: HashMap<String, Term>,
    parameters: Vec<(Term, Range)>,
}

impl Terms {
    fn add(&mut self, text: String, sort: Sort, of: &[Term], atom: bool) -> Term {
        if let Some(term) = self.known.get(&text) {
            return *term;
        }
        let term = Term(self.entries.len());
        self.known.insert(text.clone(), term);
        self.entries.push(Entry {
            text,
            sort,
            of: of.to_vec(),
            bounds: (i128::MIN, i128::MAX),
            atom,
        });
        term
    }

    /// An argument of the formula.
    pub(super) fn parameter(&mut self, name: &str, range: Range) -> Term {
        let term = self.add(format!("|{name}|"), Sort::Int, &[], true);
        self.parameters.push((term, range));
        self.bound(term, (range.least(), range.most()));
        term
    }

    /// A constant.
    pub(super) fn number(&mut self, value: i128) -> Term {
        let text = match value {
            0.. => value.to_string(),
            _ => format!("(- {})", value.unsigned_abs()),
        };
        let term = self.add(text, Sort::Int, &[], true);
        self.bound(term, (value, value));
        term
    }

    /// True or false.
    pub(super) fn truth(&mut self, value: bool) -> Term {
        self.add(value.to_string(), Sort::Bool, &[], true)
    }

    /// The sort of a term.
    pub(super) fn sort(&self, term: Term) -> Sort {
        self.entries[term.0].sort
    }

    fn name(&self, term: Term) -> String {
        match &self.entries[term.0] {
            entry if entry.atom => entry.text.clone(),
            _ => format!("t{}", term.0),
        }
    }

    /// An operator applied to terms.
    pub(super) fn apply(&mut self, operator: &str, of: &[Term], sort: Sort) -> Term {
        let mut text = format!("({operator}");
        for term in of {
            let _ = write!(text, " {}", self.name(*term));
        }
        text.push(')');
        let term = self.add(text, sort, of, false);
        if let Some(bounds) = self.bounds(operator, of) {
            self.bound(term, bounds);
        }
        term
    }

    /// Notes that a term has no values but these.
    fn bound(&mut self, term: Term, (least, most): (i128, i128)) {
        let bounds = &mut self.entries[term.0].bounds;
        *bounds = (bounds.0.max(least), bounds.1.min(most));
    }

    /// The values an operator has, by those of what it is applied to.
    fn bounds(&self, operator: &str, of: &[Term]) -> Option<(i128, i128)> {
        let of: Vec<_> = of.iter().map(|term| self.entries[term.0].bounds).collect();
        match (operator, &of[..]) {
            ("+", [a, b]) => Some((a.0.checked_add(b.0)?, a.1.checked_add(b.1)?)),
            ("-", [a, b]) => Some((a.0.checked_sub(b.1)?, a.1.checked_sub(b.0)?)),
            ("-", [a]) => Some((a.1.checked_neg()?, a.0.checked_neg()?)),
            ("*", [a, b]) => {
                let corners = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)];
                let corners = corners.map(|(a, b)| a.checked_mul(b));
                let corners = corners.into_iter().collect::<Option<Vec<_>>>()?;
                Some((*corners.iter().min()?, *corners.iter().max()?))
            }
            ("mod", [_, by]) if by.0 == by.1 && by.0 > 0 => Some((0, by.0 - 1)),
            ("ite", [_, a, b]) => Some((a.0.min(b.0), a.1.max(b.1))),
            _ => None,
        }
    }

    /// Both are true.
    pub(super) fn and(&mut self, a: Term, b: Term) -> Term {
        let (yes, no) = (self.truth(true), self.truth(false));
        match (a, b) {
            (a, b) if a == no || b == no => no,
            (a, b) if a == yes || a == b => b,
            (a, b) if b == yes => a,
            (a, b) => self.apply("and", &[a, b], Sort::Bool),
        }
    }

    /// One of them is true.
    pub(super) fn or(&mut self, a: Term, b: Term) -> Term {
        let (a, b) = (self.not(a), self.not(b));
        let neither = self.and(a, b);
        self.not(neither)
    }

    /// The opposite.
    pub(super) fn not(&mut self, a: Term) -> Term {
        let (yes, no) = (self.truth(true), self.truth(false));
        match a {
            a if a == yes => no,
            a if a == no => yes,
            a => self.apply("not", &[a], Sort::Bool),
        }
    }

    /// One term or the other.
    pub(super) fn ite(&mut self, condition: Term, then: Term, otherwise: Term) -> Term {
        let (yes, no) = (self.truth(true), self.truth(false));
        match condition {
            _ if then == otherwise => then,
            c if c == yes => then,
            c if c == no => otherwise,
            c => {
                let sort = self.sort(then);
                self.apply("ite", &[c, then, otherwise], sort)
            }
        }
    }

    /// The value of a constant.
    pub(super) fn constant(&self, term: Term) -> Option<i128> {
        self.entries[term.0].text.parse().ok()
    }

    /// Bits that a value which is not negative can have.
    pub(super) fn bits(&self, term: Term) -> u32 {
        let most = self.entries[term.0].bounds.1;
        i128::BITS - most.leading_zeros()
    }

    /// Whether a value is one of a type.
    pub(super) fn within(&mut self, value: Term, range: Range) -> Term {
        let bounds = self.entries[value.0].bounds;
        if range.least() <= bounds.0 && bounds.1 <= range.most() {
            return self.truth(true);
        }
        let (least, most) = (self.number(range.least()), self.number(range.most()));
        let not_below = self.apply("<=", &[least, value], Sort::Bool);
        let not_above = self.apply("<=", &[value, most], Sort::Bool);
        self.and(not_below, not_above)
    }

    /// The value of a type that differs from `value` by a multiple of the type's size.
    pub(super) fn wrapped(&mut self, value: Term, range: Range) -> Term {
        let size = self.number(range.size());
        let least = self.number(range.least());
        let raised = self.apply("-", &[value, least], Sort::Int);
        let rest = self.apply("mod", &[raised, size], Sort::Int);
        let rest = self.apply("+", &[rest, least], Sort::Int);
        let within = self.within(value, range);
        self.ite(within, value, rest)
    }

    /// [`Terms::wrapped`] of a value that is less than one size outside of the range.
    pub(super) fn wrapped_once(&mut self, value: Term, range: Range) -> Term {
        let size = self.number(range.size());
        let (least, most) = (self.number(range.least()), self.number(range.most()));
        let below = self.apply("<", &[value, least], Sort::Bool);
        let above = self.apply("<", &[most, value], Sort::Bool);
        let more = self.apply("+", &[value, size], Sort::Int);
        let less = self.apply("-", &[value, size], Sort::Int);
        let bounds = self.entries[value.0].bounds;
        let no = self.truth(false);
        let below = if bounds.0 >= range.least() { no } else { below };
        let above = if bounds.1 <= range.most() { no } else { above };
        let otherwise = self.ite(above, less, value);
        let wrapped = self.ite(below, more, otherwise);
        self.bound(wrapped, (range.least(), range.most()));
        wrapped
    }

    /// Parameters as a solver declares them.
    pub(super) fn declarations(&self) -> String {
        let mut text = String::new();
        for (parameter, range) in &self.parameters {
            let name = self.name(*parameter);
            let (least, most) = (range.least(), range.most());
            let _ = writeln!(text, "(declare-fun {name} () Int)");
            let _ = match least {
                0 => writeln!(text, "(assert (<= 0 {name} {most}))"),
                _ => writeln!(text, "(assert (<= (- {}) {name} {most}))", -least),
            };
        }
        text
    }

    /// Parameters, each with its sort, as the head of a function has them.
    pub(super) fn head(&self) -> String {
        let each = self
            .parameters()
            .into_iter()
            .map(|name| format!("({name} Int)"));
        each.collect::<Vec<_>>().join(" ")
    }

    /// Names of the parameters.
    pub(super) fn parameters(&self) -> Vec<String> {
        self.parameters
            .iter()
            .map(|(term, _)| self.name(*term))
            .collect()
    }

    /// A term with everything it is made of.
    pub(super) fn whole(&self, term: Term) -> String {
        let mut used = vec![false; term.0 + 1];
        used[term.0] = true;
        for at in (0..=term.0).rev().filter(|at| !self.entries[*at].atom) {
            if used[at] {
                for of in &self.entries[at].of {
                    used[of.0] = true;
                }
            }
        }
        let (mut text, mut open) = (String::new(), String::new());
        for (at, entry) in self.entries.iter().enumerate().take(term.0 + 1) {
            if used[at] && !entry.atom {
                let _ = writeln!(text, "(let ((t{at} {}))", entry.text);
                open.push(')');
            }
        }
        text + &self.name(term) + &open
    }
}
