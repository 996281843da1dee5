//! Mistakes of the engine that are listed (`conformance/mutants/bugs.toml`): made in a copy of the
//! sources, where each has a number and a run chooses one. The simulations must find each.

use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use super::errors::{Errors, messages};
use super::trial::write_choosing;
use super::{Problem, Tree};

/// The list.
const LIST: &str = "conformance/mutants/bugs.toml";
/// The engine's root, which gets the module that knows the chosen number.
const ROOT: &str = "smc-proto/src/lib.rs";
/// The program that searches, and where it is in the copy.
const SEARCH: (&str, &str) = (
    include_str!("bug_search.rs"),
    "smc-transport-sim/examples/bug_search.rs",
);

/// A technology or an invariant that may be any.
const ANY: &str = "any";
/// How long a search may take, in seconds.
const TIMEOUT: &str = "600";

/// A mistake.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Bug {
    /// Name of the mistake.
    pub name: String,
    /// The invariant of the reliability goals that it breaks.
    pub breaks: String,
    /// The mistake, in words.
    pub what: String,
    /// The technology whose code it is in; `None`: the code of both.
    technology: Option<String>,
    /// The invariant that the simulation has to report; `None`: any failure counts.
    found_as: Option<String>,
    /// What is changed.
    change: Vec<Edit>,
}

/// A change of a file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    /// From the root of the repository.
    file: String,
    /// Text that is in the file once.
    from: String,
    /// Text in its place, in which `BUG` is the question whether the mistake is chosen.
    to: String,
}

/// The list as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    bug: Vec<Bug>,
}

/// The result of the search for a mistake.
#[derive(Debug)]
pub struct Search {
    /// Whether it was found.
    pub found: bool,
    /// After how many seeds, and how; or why not.
    pub how: String,
}

impl fmt::Display for Bug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}: {})", self.name, self.breaks, self.what)
    }
}

/// All mistakes of the list.
///
/// # Errors
/// A list that cannot be read.
pub fn bugs(root: &Path) -> Result<Vec<Bug>, Problem> {
    let text = std::fs::read_to_string(root.join(LIST)).map_err(Problem::new)?;
    let list: List =
        toml::from_str(&text).map_err(|error| Problem::new(format!("{LIST}: {error}")))?;
    Ok(list.bug)
}

impl Edit {
    /// The text with the change.
    fn apply(&self, text: &str, number: usize) -> Result<String, Problem> {
        let found = text.matches(&self.from).count();
        if found != 1 {
            let what = format!("{LIST}: {} times in {}:\n{}", found, self.file, self.from);
            return Err(Problem::new(what));
        }
        let to = self
            .to
            .replace("BUG", &format!("crate::chosen::is({number})"));
        Ok(text.replacen(&self.from, &to, 1))
    }
}

/// Programs of a copy in which the mistakes are made.
#[derive(Debug)]
pub struct Searches {
    program: PathBuf,
}

impl Searches {
    /// Makes all mistakes in a copy, with numbers from 1, and builds the program that searches.
    ///
    /// # Errors
    /// A change whose place is not in the sources, and what the compiler reports.
    pub fn build(tree: &Tree, bugs: &[Bug]) -> Result<Self, Problem> {
        for (at, bug) in bugs.iter().enumerate() {
            for edit in &bug.change {
                let text = tree.read(&edit.file)?;
                tree.write(&edit.file, &edit.apply(&text, at + 1)?)?;
            }
        }
        write_choosing(tree, ROOT, &tree.read(ROOT)?)?;
        let (search, path) = SEARCH;
        let folder = tree.root().join(path);
        if let Some(folder) = folder.parent() {
            std::fs::create_dir_all(folder).map_err(Problem::new)?;
        }
        tree.write(path, search)?;
        let package = ["-p", "smc-transport-sim", "--example", "bug_search"];
        // In a folder shared with the repository, cargo would take what is built here for the
        // repository's own: it distinguishes them by their paths in the workspace, which are the same.
        let built = Command::new("cargo")
            .env("CARGO_TARGET_DIR", tree.root().join("target"))
            .args(["build", "--release", "--locked", "--message-format=json"])
            .args(package)
            .current_dir(tree.root())
            .stderr(std::process::Stdio::inherit())
            .output()
            .map_err(Problem::new)?;
        let programs = messages(&built);
        let mut programs = programs.iter().filter_map(|at| at["executable"].as_str());
        match programs.next() {
            Some(program) if built.status.success() => Ok(Self {
                program: program.into(),
            }),
            _ => Err(Problem::new(Errors::of(&built)?.text)),
        }
    }

    /// Searches for the mistake with this number, in at most so many seeds.
    ///
    /// # Errors
    /// A program that cannot be started.
    pub fn search(&self, bug: &Bug, number: usize, most: u64) -> Result<Search, Problem> {
        let technology = bug.technology.as_deref().unwrap_or(ANY);
        let found_as = bug.found_as.as_deref().unwrap_or(ANY);
        self.run(number, most, (technology, found_as))
    }

    /// Searches without any mistake: what is found then would be found with each of them.
    ///
    /// # Errors
    /// A program that cannot be started, or that finds something or ends otherwise.
    pub fn search_without(&self, most: u64) -> Result<(), Problem> {
        let search = self.run(0, most, (ANY, ANY))?;
        match search.found || !search.how.starts_with("NOT FOUND") {
            true => Err(Problem::new(format!("without a mistake: {}", search.how))),
            false => Ok(()),
        }
    }

    fn run(
        &self,
        number: usize,
        most: u64,
        (technology, found_as): (&str, &str),
    ) -> Result<Search, Problem> {
        // A mistake may keep the engine from ever returning.
        let output = Command::new("timeout")
            .args(["--kill-after=9", TIMEOUT])
            .arg(&self.program)
            .args([&most.to_string(), technology, found_as])
            .env("SMC_CHANGE", number.to_string())
            .output()
            .map_err(Problem::new)?;
        let printed = String::from_utf8_lossy(&output.stdout).trim().to_owned();
        Ok(Search {
            found: output.status.success(),
            how: match printed.is_empty() {
                true => format!("no result: {}", output.status),
                false => printed,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::repository;

    /// Every change has its place, so a change of the engine that moves one is noticed at once.
    #[test]
    fn every_listed_mistake_can_be_made() {
        let root = repository();
        let bugs = bugs(&root).unwrap();
        assert!(bugs.len() >= 19, "{} mistakes", bugs.len());
        let mut texts = std::collections::BTreeMap::new();
        for (at, bug) in bugs.iter().enumerate() {
            assert!(!bug.change.is_empty(), "{bug}");
            for edit in &bug.change {
                let text = texts
                    .entry(&edit.file)
                    .or_insert_with(|| std::fs::read_to_string(root.join(&edit.file)).unwrap());
                *text = edit
                    .apply(text, at + 1)
                    .unwrap_or_else(|problem| panic!("{problem}"));
            }
            let asks = texts
                .values()
                .any(|text| text.contains(&format!("crate::chosen::is({})", at + 1)));
            assert!(asks, "{bug} has a switch");
        }
        for text in texts.values() {
            syn::parse_file(text).unwrap();
        }
        let all: std::collections::BTreeSet<_> = bugs.iter().map(|bug| &bug.breaks).collect();
        for invariant in 1..=13 {
            assert!(all.contains(&format!("I{invariant}")), "I{invariant}");
        }
    }
}
