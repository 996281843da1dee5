//! Small changes to the lines that decide requirements. A test that cites the requirement
//! must notice; whether another one does is not asked.
//!
//! What may be changed: everything cargo-mutants knows, if it begins on a cited line, and
//! what it does not know: a cited statement left out, a cited condition turned round
//! (`own`). The list has an order, so that "every seventh" means the same everywhere.
//!
//! Almost all of them are compiled at once, and chosen when a test runs (`choices`).
//!
//! Mistakes that a list has (`bugs`) must be found by the simulations.
//!
//! Beside these, changes are drawn from whole areas (`draw`), found in the syntax (`sites`)
//! and compiled with a switch each (`switches`); any test may notice them (`drawn`).

mod bugs;
mod choices;
mod draw;
mod drawn;
mod errors;
mod own;
mod programs;
mod sites;
mod suites;
mod survey;
mod switches;
mod tree;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::ledger::Ledger;
pub use bugs::{Bug, Search, Searches, bugs};
pub use draw::{AREAS, Area, Drawn, OF_AREA, ranked};
pub use drawn::{Campaign, Outcome};
pub use tree::{Tree, files};
pub use trial::{Trial, Verdict};

/// Why there is no answer.
#[derive(Debug)]
pub struct Problem(String);

impl Problem {
    /// In words.
    #[must_use]
    pub fn new(what: impl fmt::Display) -> Self {
        Self(what.to_string())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Where a change begins or ends: line and column, both from 1, in characters.
pub type Position = (usize, usize);

/// A change of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Change {
    /// From the root of the repository.
    pub file: String,
    /// Position of the first character that changes.
    pub from: Position,
    /// Position behind the last character that changes.
    pub to: Position,
    /// What is there instead.
    pub with: String,
    /// In words, and with its place.
    pub name: String,
    /// The line it is a change of: that of its first character, or the one that declares
    /// the function of which nothing is left.
    pub line: usize,
}

/// A test, where it is, and what it is called there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Test {
    /// The program it is in.
    pub program: Program,
    /// Function of the test, or the name of the script.
    pub name: String,
}

/// A program of tests, those that take longer behind the others.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Program {
    /// The unit tests of a package.
    Units(String),
    /// A suite of a package.
    Suite(String, String),
    /// The scripts.
    Scripts,
}

impl fmt::Display for Test {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.program {
            Program::Units(package) => write!(f, "{package} {}", self.name),
            Program::Suite(package, suite) => write!(f, "{package} {suite} {}", self.name),
            Program::Scripts => write!(f, "script {}", self.name),
        }
    }
}

impl Program {
    fn is_long(&self) -> bool {
        matches!(self, Self::Suite(_, suite) if LONG.contains(&suite.as_str()))
    }
}

/// A change of a line that decides something.
#[derive(Clone, Debug)]
pub struct Decision {
    /// The change.
    pub change: Change,
    /// What the line decides.
    pub ids: BTreeSet<String>,
    /// The tests that cite one of these.
    pub tests: BTreeSet<Test>,
}

/// What a line decides, and the tests that cite it.
type Cited = (BTreeSet<String>, BTreeSet<Test>);

/// Suites that explore for minutes: they are asked only if there is no other test. So they
/// can only have more changes noticed than are counted.
const LONG: [&str; 4] = [
    "close_machine",
    "exhaustion",
    "failover_every_cut",
    "handshake_machine",
];

/// All changes of cited lines of a package, in the order of files and lines.
///
/// # Errors
/// Sources that cannot be read, or no cargo-mutants.
pub fn decisions(root: &Path, package: &str) -> Result<Vec<Decision>, Problem> {
    let ledger = Ledger::read(root).map_err(Problem::new)?;
    let mut cited: BTreeMap<(&str, usize), Cited> = BTreeMap::new();
    for row in &ledger.rows {
        let tests = row.tests.iter().filter_map(test);
        let tests: Vec<Test> = tests.collect();
        for place in &row.code {
            if place.file.starts_with(&format!("{package}/")) {
                let of_line = cited.entry((&place.file, place.line)).or_default();
                of_line.0.insert(row.statement.id.clone());
                of_line.1.extend(tests.iter().cloned());
            }
        }
    }
    for (_, tests) in cited.values_mut() {
        let quick = |test: &Test| !test.program.is_long();
        if tests.iter().any(quick) {
            tests.retain(quick);
        }
    }
    let mut changes = known(root, package, |file, line| {
        cited.contains_key(&(file, line))
    })?;
    for file in cited.keys().map(|(file, _)| *file).collect::<BTreeSet<_>>() {
        let text = std::fs::read_to_string(root.join(file)).map_err(Problem::new)?;
        let lines = cited.keys().filter(|(of, _)| *of == file);
        changes.extend(own::changes(file, &text, lines.map(|(_, line)| *line)));
    }
    changes.sort();
    changes.dedup();
    let decided = changes.into_iter().filter_map(|change| {
        let (ids, tests) = cited
            .get(&(change.file.as_str(), change.line))
            // A statement without a test is an exception with a reason.
            .filter(|(_, tests)| !tests.is_empty())
            .cloned()?;
        Some(Decision { change, ids, tests })
    });
    Ok(decided.collect())
}

/// How many lines of a package are cited.
///
/// # Errors
/// Sources that cannot be read.
pub fn cited_lines(root: &Path, package: &str) -> Result<usize, Problem> {
    let ledger = Ledger::read(root).map_err(Problem::new)?;
    let places = ledger.rows.iter().flat_map(|row| &row.code);
    let mine = places.filter(|place| place.file.starts_with(&format!("{package}/")));
    let lines: BTreeSet<_> = mine.map(|place| (&place.file, place.line)).collect();
    Ok(lines.len())
}

/// Where a test that is cited can be run, unless it is where none of these programs
/// has it.
fn test(place: &crate::ledger::Place) -> Option<Test> {
    let name = place.test.clone()?;
    let program = match place.file.split_once('/')? {
        ("conformance", rest) if rest.starts_with("scripts/") => Program::Scripts,
        (package, rest) if rest.starts_with("src/") => Program::Units(package.to_owned()),
        (package, rest) => {
            let suite = rest.strip_prefix("tests/")?.split('/').next()?;
            let suite = suite.strip_suffix(".rs").unwrap_or(suite);
            Program::Suite(package.to_owned(), suite.to_owned())
        }
    };
    Some(Test { program, name })
}

/// The changes that cargo-mutants knows.
fn known(
    root: &Path,
    package: &str,
    declared: impl Fn(&str, usize) -> bool,
) -> Result<Vec<Change>, Problem> {
    let output = Command::new("cargo")
        .args([
            "mutants",
            "--no-config",
            "--list",
            "--json",
            "--package",
            package,
        ])
        .current_dir(root)
        .output()
        .map_err(|error| Problem::new(format_args!("cargo mutants: {error}")))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(Problem::new(format_args!("cargo mutants: {why}")));
    }
    let list: Value = serde_json::from_slice(&output.stdout).map_err(Problem::new)?;
    let list = list.as_array().map(Vec::as_slice).unwrap_or_default();
    let changes: Option<Vec<_>> = list.iter().map(|each| change(each, &declared)).collect();
    changes.ok_or_else(|| Problem::new("cargo mutants lists something else than expected"))
}

fn change(listed: &Value, declared: impl Fn(&str, usize) -> bool) -> Option<Change> {
    let position = |of: &Value| {
        let number = |name: &str| usize::try_from(of[name].as_u64()?).ok();
        Some((number("line")?, number("column")?))
    };
    let file = listed["file"].as_str()?.to_owned();
    let from = position(&listed["span"]["start"])?;
    let function = position(&listed["function"]["span"]["start"]);
    let whole = function.filter(|_| listed["genre"] == "FnValue");
    let whole = whole.filter(|at| declared(&file, at.0));
    Some(Change {
        line: whole.unwrap_or(from).0,
        file,
        from,
        to: position(&listed["span"]["end"])?,
        with: listed["replacement"].as_str()?.to_owned(),
        name: listed["name"].as_str()?.to_owned(),
    })
}

impl Change {
    /// The bytes of the file that something else stands for, if the place is in it.
    fn range(&self, text: &str) -> Option<Range<usize>> {
        let (from, to) = (offset(text, self.from)?, offset(text, self.to)?);
        (from <= to).then_some(from..to)
    }

    /// The text of the file with the change, if the place is in it.
    #[must_use]
    pub fn of(&self, text: &str) -> Option<String> {
        let gone = self.range(text)?;
        let (before, after) = (text.get(..gone.start)?, text.get(gone.end..)?);
        Some(format!("{before}{}{after}", self.with))
    }
}

/// Bytes in front of a position.
fn offset(text: &str, (line, column): Position) -> Option<usize> {
    let mut start = 0;
    let mut lines = text.split_inclusive('\n');
    for _ in 1..line {
        start += lines.next()?.len();
    }
    let rest = lines.next().unwrap_or_default();
    let mut characters = rest.char_indices().map(|(at, _)| at).chain([rest.len()]);
    Some(start + characters.nth(column.checked_sub(1)?)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(from: Position, to: Position, with: &str) -> Change {
        Change {
            file: String::new(),
            from,
            to,
            with: with.to_owned(),
            name: String::new(),
            line: from.0,
        }
    }

    #[test]
    fn a_change_replaces_what_stands_between_its_places() {
        let text = "a < b\n\u{fc} < c\nd\n";
        let less = change((2, 3), (2, 4), ">=");
        assert_eq!(less.of(text).unwrap(), "a < b\n\u{fc} >= c\nd\n");
        let lines = change((1, 3), (3, 2), "");
        assert_eq!(lines.of(text).unwrap(), "a \n");
        assert_eq!(change((5, 1), (5, 2), "").of(text), None);
        assert_eq!(change((2, 4), (2, 3), "").of(text), None);
    }

    #[test]
    fn tests_are_found_in_their_programs() {
        let of = |file: &str| {
            let place = crate::ledger::Place {
                file: file.to_owned(),
                line: 1,
                test: Some("name".to_owned()),
            };
            test(&place).map(|test| test.program)
        };
        let suite = |package: &str, name: &str| Program::Suite(package.into(), name.into());
        assert_eq!(
            of("smc-proto/src/connection/tests/close.rs"),
            Some(Program::Units("smc-proto".into()))
        );
        assert_eq!(
            of("conformance/tests/links/llc.rs"),
            Some(suite("conformance", "links"))
        );
        assert_eq!(
            of("smc-transport-ism/tests/contract/events.rs"),
            Some(suite("smc-transport-ism", "contract"))
        );
        assert_eq!(of("conformance/scripts/clc/a.smc"), Some(Program::Scripts));
    }
}
