//! Citations in the sources: `//= ID` above the line that decides, `//= ID test`
//! in or above a test. Scripts cite in comments of IDs alone, and are tests: one test
//! plays them all.

use std::fmt;
use std::path::{Path, PathBuf};

use super::statement::is_id;
use super::{Unreadable, text};
use crate::scripts;

/// What a citation is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Purpose {
    /// The line decides it.
    Code,
    /// The test proves it.
    Test,
}

impl Purpose {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Code => "code",
            Self::Test => "test",
        }
    }
}

/// A place in the sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// From the root of the repository.
    pub file: String,
    /// Of the first line behind the citation that is no comment, or of the test.
    pub line: usize,
    /// The test, by name.
    pub test: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.file, self.line)
    }
}

pub(super) struct Citation {
    pub(super) id: String,
    pub(super) purpose: Purpose,
    pub(super) place: Place,
}

#[derive(Default)]
pub(super) struct Found {
    pub(super) citations: Vec<Citation>,
    pub(super) faults: Vec<String>,
}

/// Where nothing is decided: what is found there are tests and their tools.
const TOOLS: [&str; 6] = [
    "conformance",
    "smc-capture",
    "smc-checker",
    "smc-transport-sim",
    "examples",
    "fuzz",
];

pub(super) fn read(root: &Path) -> Result<Found, Unreadable> {
    let mut found = Found::default();
    let mut files = Vec::new();
    sources(root, &mut files)?;
    files.sort();
    for path in files {
        let name = path.strip_prefix(root).unwrap_or(&path);
        let name = name.to_string_lossy().replace('\\', "/");
        let suite = path.parent().map(|folder| folder.join("main.rs"));
        let suite = suite.filter(|main| name.contains("/tests/") && main.is_file());
        let suite = suite.map(|main| text(&main)).transpose()?;
        of_file(
            &name,
            &text(&path)?,
            suite.as_deref().unwrap_or(""),
            &mut found,
        );
    }
    of_scripts(root, &mut found)?;
    Ok(found)
}

/// What the scripts cite; a repository may have none.
fn of_scripts(root: &Path, found: &mut Found) -> Result<(), Unreadable> {
    let folder = root.join("conformance/scripts");
    if !folder.is_dir() {
        return Ok(());
    }
    let all = scripts::all(&folder).map_err(|error| Unreadable::new(&folder, error))?;
    for (script, path) in all {
        let file = path.strip_prefix(root).unwrap_or(&path);
        let file = file.to_string_lossy().replace('\\', "/");
        let text = text(&path)?;
        let comments = text.lines().map_while(|line| line.strip_prefix('#'));
        for (line, comment) in (1..).zip(comments) {
            let ids = scripts::citations(comment.trim());
            for id in ids.into_iter().flatten() {
                if !is_id(id) {
                    let fault = format!("{file}:{line}: \"{id}\" is no citation");
                    found.faults.push(fault);
                    continue;
                }
                found.citations.push(Citation {
                    id: id.to_owned(),
                    purpose: Purpose::Test,
                    place: Place {
                        file: file.clone(),
                        line,
                        test: Some(script.clone()),
                    },
                });
            }
        }
    }
    Ok(())
}

/// All Rust files below a folder, without what a build left there.
fn sources(folder: &Path, into: &mut Vec<PathBuf>) -> Result<(), Unreadable> {
    let unreadable = |error| Unreadable::new(folder, error);
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            if !name.starts_with('.') && name != "target" {
                sources(&path, into)?;
            }
        } else if name.ends_with(".rs") {
            into.push(path);
        }
    }
    Ok(())
}

/// Whether citations of code make no sense in a file.
fn is_no_code(name: &str) -> bool {
    TOOLS
        .iter()
        .any(|tool| name.starts_with(&format!("{tool}/")))
        || name.contains("/tests/")
        || name.ends_with("tests.rs")
}

fn of_file(name: &str, text: &str, suite: &str, found: &mut Found) {
    let lines: Vec<&str> = text.lines().collect();
    for (index, line) in lines.iter().enumerate() {
        let Some(citation) = line.trim_start().strip_prefix("//= ") else {
            continue;
        };
        let (id, purpose) = match citation.strip_suffix(" test") {
            Some(id) => (id, Purpose::Test),
            None => (citation, Purpose::Code),
        };
        let at = index + 1;
        if !is_id(id) {
            found
                .faults
                .push(format!("{name}:{at}: \"{citation}\" is no citation"));
            continue;
        }
        let place = match purpose {
            Purpose::Code if is_no_code(name) => Err("cites code where there are tests only"),
            Purpose::Code => deciding(&lines, index).ok_or("is above no line"),
            Purpose::Test => proving(&lines, index, suite).ok_or("is not in a test"),
        };
        match place {
            Ok((line, test)) => found.citations.push(Citation {
                id: id.to_owned(),
                purpose,
                place: Place {
                    file: name.to_owned(),
                    line,
                    test,
                },
            }),
            Err(why) => found.faults.push(format!("{name}:{at}: {id} {why}")),
        }
    }
}

fn is_comment(line: &str) -> bool {
    line.trim_start().starts_with("//")
}

fn is_attribute(line: &str) -> bool {
    line.trim_start().starts_with("#[")
}

fn indentation(line: &str) -> usize {
    line.len() - line.trim_start().len()
}

/// The function that a line declares.
fn function(line: &str) -> Option<&str> {
    let (before, after) = line.split_once("fn ")?;
    if before
        .split_whitespace()
        .any(|word| !(word.starts_with("pub") || ["const", "unsafe"].contains(&word)))
    {
        return None;
    }
    let end = after.find(|each: char| !(each.is_alphanumeric() || each == '_'))?;
    after.get(..end).filter(|name| !name.is_empty())
}

/// The first line behind comments; it must be there.
fn deciding(lines: &[&str], index: usize) -> Option<(usize, Option<String>)> {
    let mut rest = lines.iter().enumerate().skip(index);
    let (at, line) = rest.find(|(_, line)| !is_comment(line))?;
    (!line.trim().is_empty()).then_some((at + 1, None))
}

/// The test that a citation is above, or in.
fn proving(lines: &[&str], index: usize, suite: &str) -> Option<(usize, Option<String>)> {
    let mut below = lines.iter().enumerate().skip(index);
    let (next, line) = below.find(|(_, line)| !is_comment(line) && !is_attribute(line))?;
    let at = if function(line).is_some() {
        next
    } else {
        let own = indentation(lines.get(index)?);
        let above = lines.iter().enumerate().take(index).rev();
        let mut outside = above.filter(|(_, line)| indentation(line) < own);
        outside.find(|(_, line)| function(line).is_some())?.0
    };
    let name = function(lines.get(at)?)?;
    let mut head = lines.iter().take(at).rev();
    let marked = head
        .by_ref()
        .take_while(|line| is_comment(line) || is_attribute(line))
        .any(|line| line.trim() == "#[test]");
    // A rule of a suite that every backend runs is named in the suite's list.
    let listed = || {
        let mut words = suite.split(|each: char| !(each.is_alphanumeric() || each == '_'));
        words.any(|word| word == name)
    };
    (marked || listed()).then(|| (at + 1, Some(name.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(name: &str, text: &str) -> (Vec<String>, Vec<String>) {
        let mut found = Found::default();
        // A citation at the margin of this file would be taken for one of this file.
        of_file(name, &text.replace("//~", "//="), "", &mut found);
        let all = found.citations.iter().map(|each| {
            let test = each.place.test.as_deref().unwrap_or("-");
            format!("{} {} {test}", each.id, each.place)
        });
        (all.collect(), found.faults)
    }

    #[test]
    fn a_citation_of_code_means_the_line_below_the_comments() {
        let text = "fn f() {\n    //~ CLC-014\n    // Why.\n    decide();\n}\n";
        let (cited, faults) = of("smc-proto/src/a.rs", text);
        assert_eq!(cited, ["CLC-014 smc-proto/src/a.rs:4 -"]);
        assert!(faults.is_empty());
    }

    #[test]
    fn a_citation_of_a_test_stands_above_it_or_in_it() {
        let text = "\
//~ CLC-001 test
#[test]
fn above() {}
#[test]
//~ CLC-002 test
fn between() {
    let a = 1;
    //~ CLC-003 test
    assert_eq!(a, 1);
}
fn no_test() {
    //~ CLC-004 test
    todo();
}
";
        let (cited, faults) = of("conformance/tests/a.rs", text);
        assert_eq!(
            cited,
            [
                "CLC-001 conformance/tests/a.rs:3 above",
                "CLC-002 conformance/tests/a.rs:6 between",
                "CLC-003 conformance/tests/a.rs:6 between",
            ]
        );
        assert_eq!(
            faults,
            ["conformance/tests/a.rs:12: CLC-004 is not in a test"]
        );
    }

    #[test]
    fn a_citation_that_is_none_or_in_the_wrong_place_is_reported() {
        let (_, faults) = of("smc-proto/src/a.rs", "//~ CLC 14\nf();\n");
        assert_eq!(faults, ["smc-proto/src/a.rs:1: \"CLC 14\" is no citation"]);
        for name in ["conformance/src/a.rs", "smc-proto/src/a/tests.rs"] {
            let (cited, faults) = of(name, "//~ CLC-014\nf();\n");
            assert!(cited.is_empty());
            assert_eq!(faults.len(), 1, "{name}");
        }
    }

    #[test]
    fn what_a_script_cites_is_a_test_of_its_name() {
        let root = crate::ledger::repository();
        let mut found = Found::default();
        of_scripts(&root, &mut found).unwrap();
        assert!(found.faults.is_empty(), "{:?}", found.faults);
        let all = found.citations.iter().map(|each| {
            let test = each.place.test.as_deref().unwrap_or("-");
            format!("{} {} {test}", each.id, each.place.file)
        });
        let wanted = "CLC-050 conformance/scripts/clc/decline_gets_no_answer.smc \
                      clc/decline_gets_no_answer";
        assert!(all.into_iter().any(|each| each == wanted));
    }

    #[test]
    fn a_rule_of_a_suite_is_a_test_if_the_suite_names_it() {
        let lines = ["//= X", "pub(crate) fn rule<L: Lab>() {"];
        assert!(proving(&lines, 0, "memory: rule, other;").is_some());
        assert!(proving(&lines, 0, "memory: ruler, other;").is_none());
    }
}
