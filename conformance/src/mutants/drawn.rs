//! A campaign over drawn changes: all that can be compiled are built into the programs of
//! tests once, a survey finds which tests reach which change, and each change is tried with
//! those tests until one of them notices it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use super::draw::{Area, Drawn, OF_AREA, ranked};
use super::programs::{Programs, TestOutcome};
use super::suites::{programs, some};
use super::survey::{Surveyed, survey};
use super::switches::Switches;
use super::trial::{abreast, write_choosing};
use super::{Problem, Test, Tree};

/// With a change, a test may take so much longer, and so many times as long: by the clock, on
/// a machine that does other work, and by the processor.
const CLOCK: (Duration, u32) = (Duration::from_secs(15), 15);
const PROCESSOR: (Duration, u32) = (Duration::from_secs(6), 10);
/// What starting a test takes.
const LEAST: Duration = Duration::from_millis(10);
/// Changes beyond those wanted that are compiled at first: about as many do not compile.
const SPARE: usize = 40;

/// Outcome of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A test failed.
    Noticed(Test),
    /// A test did not end, or ended by a signal.
    Endless(Test),
    /// All tests that reach it passed: so many.
    Missed(usize),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Noticed(test) => write!(f, "noticed by {test}"),
            Self::Endless(test) => write!(f, "without end in {test}"),
            Self::Missed(0) => f.write_str("MISSED, no test reaches it"),
            Self::Missed(tests) => write!(f, "MISSED by {tests} tests"),
        }
    }
}

/// Drawn changes, the programs that have them, and what tests reach.
#[derive(Debug)]
pub struct Campaign {
    drawn: Vec<Drawn>,
    /// Changes of lower ranks that cannot be compiled, by area.
    unviable: BTreeMap<&'static str, usize>,
    programs: Programs,
    surveyed: Vec<Surveyed>,
}

impl Campaign {
    /// Draws from areas, and builds the programs that test them, unless they were built of the
    /// same sources before: all of them, or some suites.
    ///
    /// # Errors
    /// Sources that cannot be read, or not be compiled without a change.
    pub fn build(
        tree: &Tree,
        areas: &[Area],
        only: &[String],
        built: bool,
    ) -> Result<Self, Problem> {
        let mut all = Vec::new();
        for area in areas {
            all.extend(ranked(tree.root(), tree.files(), *area)?.0);
        }
        let (drawn, unviable) = viable(tree, areas, all)?;
        let programs = match only {
            [] => programs(tree, areas)?,
            _ => some(tree, areas, only)?,
        };
        let programs = if built {
            Programs::built(tree, &programs)?
        } else {
            let originals = switch(tree, &drawn)?.0;
            let built = Programs::build(tree, &programs.iter().collect())?;
            restore(tree, &originals)?;
            built.map_err(|errors| Problem::new(errors.text))?
        };
        Ok(Self {
            drawn,
            unviable,
            programs,
            surveyed: Vec::new(),
        })
    }

    /// The changes that were drawn and compile.
    #[must_use]
    pub fn drawn(&self) -> &[Drawn] {
        &self.drawn
    }

    /// How many changes of an area were drawn in vain, as they cannot be compiled.
    #[must_use]
    pub fn unviable(&self, area: Area) -> usize {
        self.unviable.get(area.name).copied().unwrap_or(0)
    }

    /// Runs every test without a change. Returns those that fail already then, or take longer
    /// than this of the processor: they are not run with changes. What is known is kept in the
    /// folder.
    ///
    /// # Errors
    /// Programs that cannot be run, or a folder that cannot be written.
    pub fn survey(
        &mut self,
        folder: &Path,
        longest: Duration,
        step: impl FnMut(),
    ) -> Result<Vec<Test>, Problem> {
        self.surveyed = survey(&self.programs, folder, longest, step)?;
        let failed = self.surveyed.iter().filter(|each| each.reached.is_none());
        Ok(failed.map(|each| each.test.clone()).collect())
    }

    /// How many tests the programs have.
    #[must_use]
    pub fn tests(&self) -> usize {
        self.programs.tests().len()
    }

    /// Tries changes until there is no more time, so many at the same time, and reports the
    /// outcome of each.
    ///
    /// # Errors
    /// A program that cannot be run, or an error of the receiver.
    pub fn run(
        &self,
        chosen: &[&Drawn],
        most: usize,
        more: impl Fn() -> bool + Sync,
        mut report: impl FnMut(&Drawn, Outcome) -> Result<(), Problem>,
    ) -> Result<(), Problem> {
        let success = Mutex::new(Success::default());
        let success = || success.lock().unwrap_or_else(PoisonError::into_inner);
        let try_one = |each: &&Drawn| {
            let tests = self.tests_of(each, &success());
            let outcome = self.outcome(each, &tests)?;
            if let Outcome::Noticed(test) | Outcome::Endless(test) = &outcome {
                success().add(&each.file, test);
            }
            Ok(outcome)
        };
        abreast(most, chosen, &more, &try_one, |each, outcome| {
            report(each, outcome?)
        })
    }

    /// The tests that reach a change, those first that take least for their chance.
    fn tests_of(&self, drawn: &Drawn, success: &Success) -> Vec<&Surveyed> {
        let reach = |each: &&Surveyed| {
            let reached = each.reached.as_ref();
            reached.is_some_and(|numbers| numbers.contains(&drawn.number))
        };
        let mut tests: Vec<&Surveyed> = self.surveyed.iter().filter(reach).collect();
        tests.sort_by_key(|each| {
            let time = each.processor + each.clock / 10 + LEAST;
            time.as_micros() / u128::from(success.of(&drawn.file, &each.test))
        });
        tests
    }

    fn outcome(&self, drawn: &Drawn, tests: &[&Surveyed]) -> Result<Outcome, Problem> {
        let number = drawn.number;
        for each in tests {
            let limit = |(least, times): (Duration, u32), time| least + time * times;
            let limits = (limit(CLOCK, each.clock), limit(PROCESSOR, each.processor));
            let ended = |change| self.programs.probe(&each.test, change, limits);
            let first = ended(number)?;
            if first == TestOutcome::Held {
                continue;
            }
            // A test that fails now and then, or is slow now and then, proves nothing.
            let again = first == TestOutcome::Nothing || ended(number)? != TestOutcome::Held;
            if again && ended(0)? == TestOutcome::Held {
                let test = each.test.clone();
                return Ok(match first {
                    TestOutcome::Nothing => Outcome::Endless(test),
                    _ => Outcome::Noticed(test),
                });
            }
        }
        Ok(Outcome::Missed(tests.len()))
    }
}

/// How many changes a test has noticed, by the files they are in.
#[derive(Default)]
struct Success(BTreeMap<Test, BTreeMap<String, u32>>);

impl Success {
    fn add(&mut self, file: &str, test: &Test) {
        let files = self.0.entry(test.clone()).or_default();
        *files.entry(file.to_owned()).or_default() += 1;
    }

    /// Weight of a test for a change of a file: more if it noticed others, most in that file.
    fn of(&self, file: &str, test: &Test) -> u32 {
        let files = self.0.get(test);
        let all: u32 = files.map_or(0, |files| files.values().sum());
        let here = files.and_then(|files| files.get(file)).copied();
        1 + 2 * all + 10 * here.unwrap_or(0)
    }
}

/// The changes of the first ranks that compile, as many of each area as are wanted, and how
/// many before them do not.
fn viable(
    tree: &Tree,
    areas: &[Area],
    all: Vec<Drawn>,
) -> Result<(Vec<Drawn>, BTreeMap<&'static str, usize>), Problem> {
    let packages = areas.iter().map(|area| area.package).collect();
    let mut dropped = BTreeSet::new();
    let take = |dropped: &BTreeSet<usize>, most: usize| {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        let left = all.iter().filter(|each| !dropped.contains(&each.number));
        let first = left.filter(|each| {
            let count = counts.entry(each.area.name).or_default();
            *count += 1;
            *count <= most
        });
        first.cloned().collect::<Vec<Drawn>>()
    };
    let mut most = OF_AREA + SPARE;
    loop {
        let drawn = take(&dropped, most);
        let (originals, switched) = switch(tree, &drawn)?;
        let errors = Programs::check(tree, &packages);
        restore(tree, &originals)?;
        let Some(errors) = errors? else {
            break;
        };
        let before = dropped.len();
        for (file, line) in &errors.places {
            match switched.get(file).map(|of| of.blame(*line)) {
                Some([]) | None => {
                    dropped.extend(switched.values().flat_map(|of| of.constant.iter().copied()));
                }
                Some(numbers) => dropped.extend(numbers),
            }
        }
        if dropped.len() == before {
            return Err(Problem::new(errors.text));
        }
        most = OF_AREA;
    }
    let drawn = take(&dropped, OF_AREA);
    let mut unviable = BTreeMap::new();
    for area in areas {
        let mine = drawn.iter().filter(|each| each.area == *area);
        let last = mine.map(|each| each.number).max().unwrap_or(0);
        let first = all.iter().find(|each| each.area == *area);
        let first = first.map_or(0, |each| each.number);
        unviable.insert(area.name, dropped.range(first..=last.max(first)).count());
    }
    Ok((drawn, unviable))
}

/// Texts of files as they were.
type Originals = BTreeMap<String, String>;

/// Puts switches into the files of a tree.
fn switch(
    tree: &Tree,
    drawn: &[Drawn],
) -> Result<(Originals, BTreeMap<String, Switches>), Problem> {
    let mut originals = Originals::new();
    let mut switched = BTreeMap::new();
    let files: BTreeSet<&str> = drawn.iter().map(|each| each.file.as_str()).collect();
    let roots: BTreeSet<String> = drawn
        .iter()
        .map(|each| format!("{}/src/lib.rs", each.area.package))
        .collect();
    for file in files
        .iter()
        .copied()
        .chain(roots.iter().map(String::as_str))
    {
        if originals.contains_key(file) {
            continue;
        }
        let text = tree.read(file)?;
        let changes = drawn.iter().filter(|each| each.file == file);
        let changes: Vec<_> = changes.map(|each| (each.number, &each.site)).collect();
        let switches = Switches::of(&text, &changes)?;
        match roots.contains(file) {
            true => write_choosing(tree, file, &switches.text)?,
            false => tree.write(file, &switches.text)?,
        }
        originals.insert(file.to_owned(), text);
        switched.insert(file.to_owned(), switches);
    }
    Ok((originals, switched))
}

fn restore(tree: &Tree, originals: &Originals) -> Result<(), Problem> {
    originals
        .iter()
        .try_for_each(|(file, text)| tree.write(file, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::Program;

    #[test]
    fn a_test_that_noticed_changes_of_a_file_is_asked_first_about_it() {
        let test = |name: &str| Test {
            program: Program::Units("a".into()),
            name: name.into(),
        };
        let mut success = Success::default();
        success.add("b.rs", &test("c"));
        let of = |file: &str, name: &str| success.of(file, &test(name));
        assert!(of("b.rs", "c") > of("d.rs", "c"));
        assert!(of("d.rs", "c") > of("d.rs", "e"));
        assert_eq!(of("d.rs", "e"), 1);
    }
}
