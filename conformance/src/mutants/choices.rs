//! Many changes in one file, of which a run chooses one: each function that is changed has
//! its body once for each change, and once as it was.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use syn::visit::Visit;

use super::{Change, Problem};

/// A file with changes.
#[derive(Debug)]
pub(super) struct Choices {
    /// The file.
    pub(super) text: String,
    /// The changes of functions that were constant: code that needs a constant cannot call
    /// them any more.
    pub(super) constant: Vec<usize>,
    /// Where each change is, and what is shared by several.
    places: Vec<Place>,
}

/// The number of a change, the change, and the bytes that something else stands for.
type Changed<'a> = (usize, &'a Change, Range<usize>);

/// Lines of the file, from 1, and the changes that are to blame if they cannot be compiled:
/// what is further in comes first.
#[derive(Debug)]
struct Place {
    lines: RangeInclusive<usize>,
    changes: Vec<usize>,
}

impl Choices {
    /// A text with those of these changes, each with its number, that can be chosen: what
    /// is outside of functions cannot.
    pub(super) fn of(text: &str, changes: &[(usize, &Change)]) -> Result<Self, Problem> {
        let mut functions = Functions::default();
        functions.visit_file(&syn::parse_file(text).map_err(Problem::new)?);
        let mut changed: BTreeMap<usize, Vec<Changed>> = BTreeMap::new();
        for (number, change) in changes {
            let gone = change
                .range(text)
                .ok_or_else(|| Problem::new(format_args!("{}: is not in the file", change.name)))?;
            if let Some(at) = functions.around(&gone) {
                changed
                    .entry(at)
                    .or_default()
                    .push((*number, *change, gone));
            }
        }
        let mut choices = Self {
            text: String::with_capacity(2 * text.len()),
            constant: Vec::new(),
            places: Vec::new(),
        };
        let mut copied = 0;
        for (at, changes) in changed {
            let Function { constant, body } = &functions.0[at];
            let numbers = changes.iter().map(|(number, ..)| *number);
            choices
                .constant
                .extend(numbers.filter(|_| constant.is_some()));
            let head = constant.clone().unwrap_or(body.start..body.start);
            choices.text += &text[copied..head.start];
            choices.text += &text[head.end..body.start];
            choices.choice(text, body, &changes);
            copied = body.end;
        }
        choices.text += &text[copied..];
        Ok(choices)
    }

    /// A body, and its form with each change.
    fn choice(&mut self, text: &str, body: &Range<usize>, changes: &[Changed]) {
        let first = self.line();
        self.text += " match crate::chosen::change() {\n";
        for (number, change, gone) in changes {
            let first = self.line();
            let (before, after) = (&text[body.start..gone.start], &text[gone.end..body.end]);
            self.text += &format!("{number} => {{{before}{}{after}\n}}\n", change.with);
            self.places.push(Place {
                lines: first..=self.line() - 1,
                changes: vec![*number],
            });
        }
        self.text += &format!("_ => {{{}\n}}\n}} ", &text[body.clone()]);
        self.places.push(Place {
            lines: first..=self.line(),
            changes: changes.iter().map(|(number, ..)| *number).collect(),
        });
    }

    /// The line that is being written.
    fn line(&self) -> usize {
        self.text.matches('\n').count() + 1
    }

    /// The changes of the file.
    pub(super) fn changes(&self) -> BTreeSet<usize> {
        let each = self.places.iter().flat_map(|place| &place.changes);
        each.copied().collect()
    }

    /// The changes to blame if a line cannot be compiled: the one it belongs to, or all of
    /// a function that cannot choose. None, if it is as it always was.
    pub(super) fn blame(&self, line: usize) -> &[usize] {
        let place = self.places.iter().find(|each| each.lines.contains(&line));
        place.map_or(&[], |place| &place.changes)
    }
}

/// A function.
#[derive(Debug)]
struct Function {
    /// The `const` of the function, which goes: what is chosen at run time is no constant.
    constant: Option<Range<usize>>,
    /// What is between its braces.
    body: Range<usize>,
}

/// The functions of a file that are not within others.
#[derive(Debug, Default)]
struct Functions(Vec<Function>);

impl Functions {
    fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
        let braces = block.brace_token.span;
        self.0.push(Function {
            constant: signature
                .constness
                .as_ref()
                .map(|token| token.span.byte_range()),
            body: braces.open().byte_range().end..braces.close().byte_range().start,
        });
    }

    /// Which of them has this in its body.
    fn around(&self, what: &Range<usize>) -> Option<usize> {
        let mut bodies = self.0.iter().map(|function| &function.body);
        bodies.position(|body| body.start <= what.start && what.end <= body.end)
    }
}

impl Visit<'_> for Functions {
    fn visit_item_fn(&mut self, function: &syn::ItemFn) {
        self.add(&function.sig, &function.block);
    }

    fn visit_impl_item_fn(&mut self, function: &syn::ImplItemFn) {
        self.add(&function.sig, &function.block);
    }

    fn visit_trait_item_fn(&mut self, function: &syn::TraitItemFn) {
        if let Some(block) = &function.default {
            self.add(&function.sig, block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
const A: u8 = 1;
impl B {
    // As it was.
    pub const fn c(self) -> u8 { 2 }
    fn d() -> u8 {
        fn e() -> u8 { 3 } // Why.
        e() + A // What.
    }
}
";

    fn change(line: usize, columns: Range<usize>, with: &str) -> Change {
        Change {
            file: String::new(),
            from: (line, columns.start),
            to: (line, columns.end),
            with: with.to_owned(),
            name: String::new(),
            line,
        }
    }

    /// The lines that a change by itself is to blame for.
    fn of(choices: &Choices, number: usize) -> String {
        let mut places = choices.places.iter();
        let own = places.find(|place| place.changes == [number]).unwrap();
        let lines: Vec<&str> = choices.text.lines().collect();
        lines[own.lines.start() - 1..*own.lines.end()].join("\n")
    }

    #[test]
    fn a_function_has_a_body_for_each_change_and_the_one_it_had() {
        let inner = change(6, 24..25, "4");
        let outer = change(7, 9..12, "5");
        let choices = Choices::of(FILE, &[(17, &inner), (23, &outer)]).unwrap();
        let body = "\n        fn e() -> u8 { 3 } // Why.\n        e() + A // What.\n    ";
        let with = |inner: &str, outer: &str| body.replace('3', inner).replace("e() +", outer);
        let arm = |number, body| format!("{number} => {{{body}\n}}");
        assert_eq!(of(&choices, 17), arm("17", with("4", "e() +")));
        assert_eq!(of(&choices, 23), arm("23", with("3", "5 +")));
        let all = [with("4", "e() +"), with("3", "5 +"), body.to_owned()];
        let [first, second, last] = all;
        let whole = format!(
            "{{ match crate::chosen::change() {{\n{}\n{}\n{}\n}} }}",
            arm("17", first),
            arm("23", second),
            arm("_", last)
        );
        assert_eq!(choices.text, FILE.replace(&format!("{{{body}}}"), &whole));
        let line = |text: &str| choices.text.lines().position(|each| each == text);
        assert_eq!(choices.blame(line("23 => {").unwrap() + 3), [23]);
        assert_eq!(choices.blame(line("_ => {").unwrap() + 3), [17, 23]);
        assert!(choices.blame(1).is_empty());
        syn::parse_file(&choices.text).unwrap();
    }

    #[test]
    fn a_function_that_chooses_is_no_constant() {
        let choices = Choices::of(FILE, &[(1, &change(4, 34..35, "7"))]).unwrap();
        assert!(choices.text.contains("pub  fn c(self) -> u8 { match "));
        assert_eq!(of(&choices, 1), "1 => { 7 \n}");
        assert_eq!(choices.constant, [1]);
    }

    #[test]
    fn what_is_outside_of_functions_is_not_chosen() {
        let choices = Choices::of(FILE, &[(1, &change(1, 15..16, "7"))]).unwrap();
        assert_eq!(choices.text, FILE);
        assert!(choices.changes().is_empty());
        assert!(Choices::of(FILE, &[(1, &change(99, 1..2, ""))]).is_err());
    }
}
