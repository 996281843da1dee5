//! A source in which every change has a switch: an expression, a statement or an arm asks at
//! run time whether its change is on. One change is on at most, so a changed text needs no
//! switches of its own.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Range, RangeInclusive};

use super::Problem;
use super::sites::{Form, Site};

/// A source with switches.
#[derive(Debug)]
pub(super) struct Switches {
    /// The source.
    pub(super) text: String,
    /// Changes of functions that were constant: code that needs a constant cannot call them.
    pub(super) constant: BTreeSet<usize>,
    /// Lines, from 1, and the changes that can keep them from compiling, inner ones first.
    places: Vec<(RangeInclusive<usize>, Vec<usize>)>,
    /// Lines of functions, and all changes in them.
    functions: Vec<(RangeInclusive<usize>, Vec<usize>)>,
}

/// Changes of one place, with their numbers.
type Node<'a> = Vec<(usize, &'a Site)>;

/// What asks whether a change is on.
fn is(number: usize) -> String {
    format!("crate::chosen::is({number})")
}

/// What encloses an expression: one that begins with a block would end behind it as a statement.
fn parentheses(expression: &str) -> (&'static str, &'static str) {
    let blocks = ["{", "unsafe ", "match ", "if "];
    match blocks.iter().any(|block| expression.starts_with(block)) {
        true => ("(", ")"),
        false => ("", ""),
    }
}

impl Switches {
    /// Puts a switch for each of these changes into a source; they have numbers.
    pub(super) fn of(text: &str, changes: &[(usize, &Site)]) -> Result<Self, Problem> {
        let mut nodes: BTreeMap<(usize, usize, bool), Node> = BTreeMap::new();
        let mut constants = BTreeSet::new();
        let mut switches = Self {
            text: String::with_capacity(2 * text.len()),
            constant: BTreeSet::new(),
            places: Vec::new(),
            functions: Vec::new(),
        };
        for (number, site) in changes {
            let Range { start, end } = site.range;
            if text.get(start..end).is_none() {
                return Err(Problem::new(format_args!(
                    "{}: not in the source",
                    site.what
                )));
            }
            let of_statement = site.form == Form::Statement;
            let node = nodes.entry((start, usize::MAX - end, !of_statement));
            node.or_default().push((*number, *site));
            if !site.constants.is_empty() {
                switches.constant.insert(*number);
            }
            constants.extend(site.constants.iter().map(|each| (each.start, each.end)));
        }
        let nodes: Vec<Node> = nodes.into_values().collect();
        let mut source = Source { text, constants };
        switches.write(&mut source, 0..text.len(), &nodes);
        switches.find_functions(changes)?;
        Ok(switches)
    }

    /// Writes a part of the source with the changes in it: outer ones come first.
    fn write(&mut self, source: &mut Source<'_>, part: Range<usize>, nodes: &[Node<'_>]) {
        let mut at = part.start;
        let mut nodes = nodes;
        while let Some((node, rest)) = nodes.split_first() {
            let range = node[0].1.range.clone();
            let inner = rest.partition_point(|other| other[0].1.range.start < range.end);
            let (inner, behind) = rest.split_at(inner);
            source.copy(at..range.start, &mut self.text);
            self.switch(source, node, inner);
            at = range.end;
            nodes = behind;
        }
        source.copy(at..part.end, &mut self.text);
    }

    /// Writes the switches of a place.
    fn switch(&mut self, source: &mut Source<'_>, node: &[(usize, &Site)], inner: &[Node<'_>]) {
        let numbers: Vec<usize> = node.iter().map(|(number, _)| *number).collect();
        let first = self.line();
        let range = node[0].1.range.clone();
        match &node[0].1.form {
            Form::Expression(_) => {
                self.text += "(";
                for (number, site) in node {
                    let Form::Expression(with) = &site.form else {
                        continue;
                    };
                    self.text += &format!("if {} {{\n", is(*number));
                    let begin = self.line();
                    let (open, close) = parentheses(with);
                    self.text += &format!("{open}{with}{close}\n}}\nelse ");
                    self.places.push((begin..=self.line() - 1, vec![*number]));
                }
                let (open, close) = parentheses(&source.text[range.start..]);
                self.text += &format!("{{\n{open}");
                self.write(source, range, inner);
                self.text += &format!("{close}\n}})");
            }
            Form::Statement => {
                self.text += &format!("if !{} {{\n", is(numbers[0]));
                self.write(source, range, inner);
                self.text += "\n}";
            }
            Form::Inserted(_) | Form::Arm => {
                for (number, site) in node {
                    self.text += &match &site.form {
                        Form::Inserted(statement) => {
                            format!("\nif {} {{ {statement} }}\n", is(*number))
                        }
                        _ => format!(" if !{}\n", is(*number)),
                    };
                    let line = self.line() - 1;
                    self.places.push((line..=line, vec![*number]));
                }
                return;
            }
        }
        self.places.push((first..=self.line(), numbers));
    }

    /// The line that is being written.
    fn line(&self) -> usize {
        self.text.matches('\n').count() + 1
    }

    /// Finds the lines of the functions with changes.
    fn find_functions(&mut self, changes: &[(usize, &Site)]) -> Result<(), Problem> {
        use syn::spanned::Spanned;
        use syn::visit::Visit;
        struct Lines(Vec<(String, RangeInclusive<usize>)>);
        impl Lines {
            fn add(&mut self, signature: &syn::Signature, block: &syn::Block) {
                let lines = signature.span().start().line..=block.span().end().line;
                self.0.push((signature.ident.to_string(), lines));
            }
        }
        impl Visit<'_> for Lines {
            fn visit_item_fn(&mut self, item: &syn::ItemFn) {
                self.add(&item.sig, &item.block);
            }
            fn visit_impl_item_fn(&mut self, item: &syn::ImplItemFn) {
                self.add(&item.sig, &item.block);
            }
            fn visit_trait_item_fn(&mut self, item: &syn::TraitItemFn) {
                if let Some(block) = &item.default {
                    self.add(&item.sig, block);
                }
            }
        }
        let mut lines = Lines(Vec::new());
        lines.visit_file(&syn::parse_file(&self.text).map_err(Problem::new)?);
        for (_, lines) in lines.0 {
            let places = self.places.iter();
            let within = places
                .filter(|(place, _)| lines.contains(place.start()) && lines.contains(place.end()));
            let numbers: BTreeSet<usize> = within
                .flat_map(|(_, numbers)| numbers.iter().copied())
                .collect();
            if !numbers.is_empty() {
                self.functions.push((lines, numbers.into_iter().collect()));
            }
        }
        debug_assert!(changes.iter().all(|(number, _)| {
            self.functions
                .iter()
                .any(|(_, numbers)| numbers.contains(number))
        }));
        Ok(())
    }

    /// The changes to blame if a line cannot be compiled: those at its place, or all of its
    /// function. None if the line is as it was.
    pub(super) fn blame(&self, line: usize) -> &[usize] {
        let mut all = self.places.iter().chain(&self.functions);
        let found = all.find(|(lines, _)| lines.contains(&line));
        found.map_or(&[], |(_, numbers)| numbers)
    }
}

/// The source as it was.
struct Source<'a> {
    text: &'a str,
    /// What is not copied: the `const` of functions that choose.
    constants: BTreeSet<(usize, usize)>,
}

impl Source<'_> {
    fn copy(&mut self, part: Range<usize>, to: &mut String) {
        let mut at = part.start;
        for (start, end) in self.constants.range((part.start, 0)..) {
            if *end > part.end {
                break;
            }
            *to += &self.text[at..*start];
            at = *end;
        }
        *to += &self.text[at..part.end];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::sites::sites;

    const SOURCE: &str = "\
const A: u8 = 1 + 1;
struct B;
impl B {
    pub const fn small(self, of: u8) -> bool {
        of + 2 < 9
    }
    fn act(&mut self, of: Option<u8>) -> u8 {
        self.note(true);
        match of {
            Some(4) => 5,
            Some(n) if n > 6 => return 7,
            _ => {
                if self.small(n) && !other() {
                    self.note(false);
                }
                n
            }
        }
    }
}
#[cfg(test)]
fn only_tests() -> u8 { 8 + 8 }
";

    fn named() -> Vec<String> {
        sites(SOURCE)
            .unwrap()
            .iter()
            .map(|site| site.what.clone())
            .collect()
    }

    #[test]
    fn every_kind_of_change_is_found_and_nothing_outside_of_functions() {
        assert_eq!(
            named(),
            [
                "small begins with return true;",
                "small begins with return false;",
                "of + 2 => of - 2",
                "of + 2 < 9 => of + 2 <= 9",
                "of + 2 < 9 => of + 2 >= 9",
                "2 => 2 + 1",
                "2 => 2 - 1",
                "9 => 9 + 1",
                "9 => 9 - 1",
                "act begins with return 0;",
                "act begins with return 1;",
                "left out: self.note(true);",
                "true => false",
                "arm left out: Some(4)",
                "5 => 5 + 1",
                "5 => 5 - 1",
                "guard n > 6 => true",
                "guard n > 6 => false",
                "n > 6 => n >= 6",
                "n > 6 => n <= 6",
                "6 => 6 + 1",
                "6 => 6 - 1",
                "7 => 7 + 1",
                "7 => 7 - 1",
                "left out: if self.small(n) && !other() { self.note(false); }",
                "if self.small(n) && !other() => if !(self.small(n) && !other())",
                "self.small(n) && !other() => self.small(n) || !other()",
                "!other() => other()",
                "left out: self.note(false);",
                "false => true",
            ]
            .map(str::to_owned)
        );
    }

    /// The source with one switch, in one line for each line of the source.
    fn with(what: &str) -> String {
        let all = sites(SOURCE).unwrap();
        let site = all.iter().find(|site| site.what == what).unwrap();
        let switches = Switches::of(SOURCE, &[(7, site)]).unwrap();
        let text = switches
            .text
            .split_whitespace()
            .collect::<Vec<_>>()
            .join(" ");
        text.replace("crate::chosen::is(7)", "ON")
    }

    #[test]
    fn a_change_has_a_switch_where_it_is() {
        for (what, text) in [
            (
                "2 => 2 + 1",
                "pub fn small(self, of: u8) -> bool { of + (if ON { (2 + 1) } else { 2 }) < 9 }",
            ),
            (
                "of + 2 < 9 => of + 2 >= 9",
                "{ (if ON { of + 2 >= 9 } else { of + 2 < 9 }) }",
            ),
            (
                "left out: self.note(true);",
                "-> u8 { if !ON { self.note(true); } match of",
            ),
            ("arm left out: Some(4)", "{ Some(4) if !ON => 5,"),
            (
                "guard n > 6 => true",
                "Some(n) if (if ON { true } else { n > 6 }) => return 7,",
            ),
            (
                "act begins with return 1;",
                "-> u8 { if ON { return 1; } self.note(true);",
            ),
        ] {
            let changed = with(what);
            assert!(changed.contains(text), "{what}: {changed}");
            syn::parse_file(&changed).unwrap();
        }
    }

    #[test]
    fn all_switches_are_in_one_source_and_each_is_to_blame_for_its_lines() {
        let all = sites(SOURCE).unwrap();
        let numbered: Vec<(usize, &Site)> = all
            .iter()
            .enumerate()
            .map(|(at, site)| (at + 1, site))
            .collect();
        let switches = Switches::of(SOURCE, &numbered).unwrap();
        syn::parse_file(&switches.text).unwrap();
        for (number, _) in &numbered {
            let asked = switches.text.matches(&is(*number)).count();
            assert_eq!(asked, 1, "{number}: {}", switches.text);
        }
        assert_eq!(switches.constant, (1..=9).collect());
        let lines: Vec<&str> = switches.text.lines().collect();
        let line = |text: &str| lines.iter().position(|line| line.trim() == text).unwrap() + 1;
        assert_eq!(switches.blame(line("of + 2 >= 9")), [5]);
        assert_eq!(switches.blame(line("other()")), [28]);
        assert_eq!(switches.blame(line("match of {")).len(), 21);
        assert!(switches.blame(line("const A: u8 = 1 + 1;")).is_empty());
        assert!(
            switches
                .blame(line("fn only_tests() -> u8 { 8 + 8 }"))
                .is_empty()
        );
    }
}
