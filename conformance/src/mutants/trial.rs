//! Tests of a changed tree.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use super::choices::Choices;
use super::errors::Errors;
use super::programs::{Programs, TestOutcome};
use super::{Decision, Problem, Program, Test, Tree};

/// How long a test may take without a change.
const TIMEOUT: Duration = Duration::from_secs(900);
/// With a change, it may take so much longer, and so many times as long.
const MORE: (Duration, u32) = (Duration::from_secs(20), 10);
/// How many tests run at the same time.
const ABREAST: usize = 2;
/// What chooses a change, in the copy of a package.
const CHOSEN: &str = include_str!("chosen.rs");

/// Outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// A test that cites the requirement failed.
    Caught(Test),
    /// Tests did not end, or took all memory.
    Endless,
    /// No test that cites it failed.
    Missed,
    /// The change cannot be compiled.
    Unviable,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Caught(test) => write!(f, "caught by {}", test.name),
            Self::Endless => f.write_str("without end"),
            Self::Missed => f.write_str("MISSED"),
            Self::Unviable => f.write_str("cannot be compiled"),
        }
    }
}

/// Changes of a copy of the sources, each of which has a number, and their tests.
#[derive(Debug)]
pub struct Trial<'a> {
    tree: &'a Tree,
    /// The first one has number 1.
    decisions: &'a [&'a Decision],
    /// Decisions that the programs can choose.
    together: BTreeSet<usize>,
    programs: Programs,
    /// How long each test takes without a change.
    times: BTreeMap<&'a Test, Duration>,
}

impl<'a> Trial<'a> {
    /// Builds the programs that have all changes which a function can choose. The others,
    /// and those which cannot be compiled, are left for [`alone`](Self::alone).
    ///
    /// # Errors
    /// Nothing can be built.
    pub fn build(tree: &'a Tree, decisions: &'a [&'a Decision]) -> Result<Self, Problem> {
        let wanted = decisions.iter().flat_map(|each| &each.tests);
        let wanted = wanted.map(|test| &test.program).collect();
        let mut left: BTreeSet<usize> = (1..=decisions.len()).collect();
        let originals = originals(tree, decisions)?;
        let programs = loop {
            let choices = choose(tree, decisions, &originals, &left)?;
            left = choices.values().flat_map(Choices::changes).collect();
            let errors = match Programs::build(tree, &wanted)? {
                Ok(programs) => break programs,
                Err(errors) => errors,
            };
            let blamed = blamed(&choices, &errors);
            if blamed.is_empty() {
                return Err(Problem::new(errors.text));
            }
            left.retain(|number| !blamed.contains(number));
        };
        for (file, text) in &originals {
            tree.write(file, text)?;
        }
        Ok(Self {
            tree,
            decisions,
            together: left,
            programs,
            times: BTreeMap::new(),
        })
    }

    /// How many of them the programs can choose.
    #[must_use]
    pub fn choices(&self) -> usize {
        self.together.len()
    }

    /// Whether the tests hold as long as nothing is changed; those that do not.
    ///
    /// # Errors
    /// A test that is not there.
    pub fn baseline(&mut self) -> Result<Vec<&'a Test>, Problem> {
        let tests: BTreeSet<&Test> = self.decisions.iter().flat_map(|each| &each.tests).collect();
        let tests: Vec<&Test> = tests.into_iter().collect();
        let mut failed = Vec::new();
        let run = |test: &&Test| {
            let begun = Instant::now();
            let outcome = self.programs.run(test, 0, TIMEOUT);
            (outcome, begun.elapsed())
        };
        let mut times = BTreeMap::new();
        abreast(ABREAST, &tests, &|| true, &run, |test, (outcome, time)| {
            if outcome? != TestOutcome::Held {
                failed.push(*test);
            }
            times.insert(*test, time);
            Ok(())
        })?;
        self.times = times;
        Ok(failed)
    }

    /// Tries those changes that the programs can choose, as long as another one may begin,
    /// and reports the verdict on each.
    ///
    /// # Errors
    /// A program that cannot be run, or the error of `report`.
    pub fn together(
        &self,
        more: impl Fn() -> bool + Sync,
        mut report: impl FnMut(&Decision, Verdict) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let numbers: Vec<usize> = self.together.iter().copied().collect();
        let run = |number: &usize| {
            let decision = self.decisions[number - 1];
            self.verdict(&self.programs, decision, *number)
        };
        abreast(ABREAST, &numbers, &more, &run, |number, verdict| {
            report(self.decisions[number - 1], verdict?)
        })
    }

    /// Tries the others one at a time, each with programs of its own.
    ///
    /// # Errors
    /// A program that cannot be run, or the error of `report`.
    pub fn alone(
        &self,
        more: impl Fn() -> bool,
        mut report: impl FnMut(&Decision, Verdict) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        for (at, decision) in self.decisions.iter().enumerate() {
            if self.together.contains(&(at + 1)) {
                continue;
            }
            if !more() {
                break;
            }
            let wanted: BTreeSet<&Program> =
                decision.tests.iter().map(|test| &test.program).collect();
            let verdict = self.tree.with(&decision.change, || {
                match Programs::build(self.tree, &wanted)? {
                    Ok(programs) => self.verdict(&programs, decision, 0),
                    Err(_) => Ok(Verdict::Unviable),
                }
            })?;
            report(decision, verdict)?;
        }
        Ok(())
    }

    /// The verdict of the tests of a change, beginning with those that take least time.
    fn verdict(
        &self,
        programs: &Programs,
        decision: &Decision,
        number: usize,
    ) -> Result<Verdict, Problem> {
        let time = |test: &Test| self.times.get(test).copied().unwrap_or(TIMEOUT);
        let mut tests: Vec<&Test> = decision.tests.iter().collect();
        tests.sort_by_key(|test| time(test));
        for test in tests {
            let (more, times) = MORE;
            match programs.run(test, number, more + time(test) * times)? {
                TestOutcome::Held => {}
                TestOutcome::Failed => return Ok(Verdict::Caught(test.clone())),
                TestOutcome::Nothing => return Ok(Verdict::Endless),
            }
        }
        Ok(Verdict::Missed)
    }
}

/// The files that are changed, as they are, and the roots of their packages.
fn originals(tree: &Tree, decisions: &[&Decision]) -> Result<BTreeMap<String, String>, Problem> {
    let mut files = BTreeMap::new();
    for decision in decisions {
        let file = decision.change.file.clone();
        for file in [package_root(&file), file] {
            if let Entry::Vacant(entry) = files.entry(file) {
                let text = tree.read(entry.key())?;
                entry.insert(text);
            }
        }
    }
    Ok(files)
}

fn package_root(file: &str) -> String {
    let (package, _) = file.split_once('/').unwrap_or_default();
    format!("{package}/src/lib.rs")
}

/// Writes the root of a package, which gets the module that knows the chosen change.
pub(super) fn write_choosing(tree: &Tree, root: &str, text: &str) -> Result<(), Problem> {
    tree.write(root, &format!("{text}\nmod chosen;\n"))?;
    tree.write(&root.replace("lib.rs", "chosen.rs"), CHOSEN)
}

/// Has the files choose among those of their changes which are left.
fn choose(
    tree: &Tree,
    decisions: &[&Decision],
    originals: &BTreeMap<String, String>,
    left: &BTreeSet<usize>,
) -> Result<BTreeMap<String, Choices>, Problem> {
    let mut all = BTreeMap::new();
    for (file, text) in originals {
        let changes = left
            .iter()
            .map(|number| (*number, &decisions[number - 1].change));
        let changes: Vec<_> = changes.filter(|(_, change)| change.file == *file).collect();
        let choices = Choices::of(text, &changes)?;
        match *file == package_root(file) {
            true => write_choosing(tree, file, &choices.text)?,
            false => tree.write(file, &choices.text)?,
        }
        all.insert(file.clone(), choices);
    }
    Ok(all)
}

/// Which changes cannot be compiled, or chosen. A change that is blamed wrongly is tried
/// alone, which takes longer and has the same result.
fn blamed(choices: &BTreeMap<String, Choices>, errors: &Errors) -> BTreeSet<usize> {
    let of = |(file, line): &(String, usize)| {
        let of_line = choices.get(file).map_or(&[][..], |of| of.blame(*line));
        match of_line {
            // Code that needs a constant.
            [] => choices
                .values()
                .flat_map(|of| &of.constant)
                .copied()
                .collect(),
            _ => of_line.to_vec(),
        }
    };
    errors.places.iter().flat_map(of).collect()
}

/// Does something with each, several at the same time, as long as more may begin, and reports
/// the outcome.
pub(super) fn abreast<T: Sync, R: Send>(
    most: usize,
    jobs: &[T],
    more: &(impl Fn() -> bool + Sync),
    work: &(impl Fn(&T) -> R + Sync),
    mut report: impl FnMut(&T, R) -> Result<(), Problem>,
) -> Result<(), Problem> {
    let next = AtomicUsize::new(0);
    let next = || jobs.get(next.fetch_add(1, Ordering::Relaxed));
    let (done, results) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..most {
            let (done, next) = (done.clone(), &next);
            scope.spawn(move || {
                while let Some(job) = more().then(next).flatten() {
                    if done.send((job, work(job))).is_err() {
                        break; // The receiver is gone.
                    }
                }
            });
        }
        drop(done);
        results
            .into_iter()
            .try_for_each(|(job, result)| report(job, result))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::Change;

    #[test]
    fn who_asks_for_a_constant_blames_all_that_were_constant() {
        let change = |line: usize, name: &str| Change {
            file: "a/src/b.rs".to_owned(),
            from: (line, 20),
            to: (line, 21),
            with: "3".to_owned(),
            name: name.to_owned(),
            line,
        };
        let text = "const fn a() -> u8 {1}\nfn b(x: u8) -> u8 {x}\nconst C: u8 = a();\n";
        let mut constant = change(1, "constant");
        (constant.from, constant.to) = ((1, 21), (1, 22));
        let choices = Choices::of(text, &[(4, &constant), (5, &change(2, "other"))]).unwrap();
        let lines: Vec<&str> = choices.text.lines().collect();
        let line = |of: &str| lines.iter().position(|line| line.contains(of)).unwrap() + 1;
        let (asks, other) = (line("const C"), line("5 => {"));
        let choices = BTreeMap::from([("a/src/b.rs".to_owned(), choices)]);
        let of = |line: usize| {
            let errors = Errors {
                places: vec![("a/src/b.rs".to_owned(), line)],
                text: String::new(),
            };
            blamed(&choices, &errors).into_iter().collect::<Vec<_>>()
        };
        assert_eq!(of(asks), [4]);
        assert_eq!(of(other), [5]);
    }

    #[test]
    fn each_is_done_once_and_reported() {
        let mut done_jobs = Vec::new();
        let jobs: Vec<u32> = (0..50).collect();
        let done = abreast(ABREAST, &jobs, &|| true, &|job| job * 2, |job, twice| {
            done_jobs.push((*job, twice));
            Ok(())
        });
        done.unwrap();
        done_jobs.sort_unstable();
        assert_eq!(
            done_jobs,
            jobs.iter().map(|job| (*job, job * 2)).collect::<Vec<_>>()
        );
    }

    #[test]
    fn a_listener_that_has_enough_ends_it() {
        let done = AtomicUsize::new(0);
        let work = |_: &u32| done.fetch_add(1, Ordering::Relaxed);
        let jobs: Vec<u32> = (0..50).collect();
        let enough = |_: &u32, _| Err(Problem::new("enough"));
        assert!(abreast(ABREAST, &jobs, &|| true, &work, enough).is_err());
        let so_far = done.load(Ordering::Relaxed);
        assert!(abreast(ABREAST, &jobs, &|| false, &work, |_, _| Ok(())).is_ok());
        assert_eq!(done.load(Ordering::Relaxed), so_far);
    }
}
