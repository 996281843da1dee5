//! What each test reaches without a change, and how long that takes. Kept in a file, a line
//! for each test, for a campaign that goes on later with the same programs.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use super::programs::{Programs, TestOutcome};
use super::{Problem, Program, Test};

/// How long a test may take by the clock, for a second that it may take of the processor: the
/// machine does other work, too.
const SLOW: u32 = 20;

/// A test without a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Surveyed {
    pub(super) test: Test,
    /// Time by the clock, and of the processor.
    pub(super) clock: Duration,
    pub(super) processor: Duration,
    /// Numbers of the changes it reaches. None if the test fails or takes too long: then it is
    /// not run with changes.
    pub(super) reached: Option<BTreeSet<usize>>,
}

/// Runs every test of the programs that the file does not name yet. One that takes longer
/// than this of the processor is stopped.
pub(super) fn survey(
    programs: &Programs,
    folder: &Path,
    longest: Duration,
    mut step: impl FnMut(),
) -> Result<Vec<Surveyed>, Problem> {
    // Tests run in folders of their own.
    let folder = folder.canonicalize().map_err(Problem::new)?;
    let kept = folder.join("survey.txt");
    let known = fs::read_to_string(&kept).unwrap_or_default();
    let known = known.lines().filter_map(Surveyed::read);
    let mut known: BTreeMap<Test, Surveyed> = known.map(|each| (each.test.clone(), each)).collect();
    let file = fs::OpenOptions::new().create(true).append(true).open(kept);
    let mut file = file.map_err(Problem::new)?;
    let mut all = Vec::new();
    for test in programs.tests() {
        let each = match known.remove(&test) {
            Some(each) => each,
            None => {
                let each = one(programs, test, &folder.join("reached"), longest)?;
                writeln!(file, "{}", each.line()).map_err(Problem::new)?;
                each
            }
        };
        all.push(each);
        step();
    }
    let reach = |each: &Surveyed| each.reached.as_ref().is_some_and(|all| !all.is_empty());
    match all.iter().any(reach) {
        true => Ok(all),
        false => Err(Problem::new("no test reaches any change")),
    }
}

fn one(
    programs: &Programs,
    test: Test,
    notes: &Path,
    longest: Duration,
) -> Result<Surveyed, Problem> {
    fs::write(notes, "").map_err(Problem::new)?;
    // Tests that run as another user note what they reach, too.
    fs::set_permissions(notes, fs::Permissions::from_mode(0o666)).map_err(Problem::new)?;
    let (begun, used) = (Instant::now(), used()?);
    let ended = programs.trace(&test, (longest * SLOW, longest), notes)?;
    let (clock, processor) = (begun.elapsed(), self::used()?.saturating_sub(used));
    let text = fs::read_to_string(notes).map_err(Problem::new)?;
    let reached = text.lines().filter_map(|line| line.parse().ok()).collect();
    Ok(Surveyed {
        test,
        clock,
        processor,
        reached: (ended == TestOutcome::Held).then_some(reached),
    })
}

/// Time of the processor that children of this process have used that have ended.
fn used() -> Result<Duration, Problem> {
    let text = fs::read_to_string("/proc/self/stat").map_err(Problem::new)?;
    // Fields behind the name, which may have spaces, from the third one on; ticks are 10 ms.
    let (_, fields) = text.rsplit_once(')').unwrap_or_default();
    let ticks = fields.split_whitespace().skip(13).take(2);
    let ticks: u64 = ticks.filter_map(|field| field.parse::<u64>().ok()).sum();
    Ok(Duration::from_millis(10 * ticks))
}

impl Surveyed {
    fn line(&self) -> String {
        let (program, suite) = match &self.test.program {
            Program::Units(package) => (package.as_str(), ""),
            Program::Suite(package, suite) => (package.as_str(), suite.as_str()),
            Program::Scripts => ("", ""),
        };
        let reached = match &self.reached {
            None => "-".to_owned(),
            Some(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
                numbers.join(" ")
            }
        };
        let (clock, processor) = (self.clock.as_millis(), self.processor.as_millis());
        let name = &self.test.name;
        format!("{program}\t{suite}\t{name}\t{clock}\t{processor}\t{reached}")
    }

    fn read(line: &str) -> Option<Self> {
        let mut fields = line.split('\t');
        let package = fields.next()?.to_owned();
        let program = match fields.next()? {
            "" => Program::Units(package),
            suite => Program::Suite(package, suite.to_owned()),
        };
        let name = fields.next()?.to_owned();
        let mut time = || Some(Duration::from_millis(fields.next()?.parse().ok()?));
        let (clock, processor) = (time()?, time()?);
        let reached = match fields.next()? {
            "-" => None,
            numbers => Some(
                numbers
                    .split_whitespace()
                    .map(str::parse)
                    .collect::<Result<_, _>>()
                    .ok()?,
            ),
        };
        Some(Self {
            test: Test { program, name },
            clock,
            processor,
            reached,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_all_of_a_test() {
        let of = |program: Program, reached: Option<&[usize]>| Surveyed {
            test: Test {
                program,
                name: "a::b".into(),
            },
            clock: Duration::from_millis(70),
            processor: Duration::from_millis(20),
            reached: reached.map(|numbers| numbers.iter().copied().collect()),
        };
        let suite = Program::Suite("c".into(), "d".into());
        for each in [
            of(Program::Units("c".into()), Some(&[])),
            of(suite.clone(), Some(&[3, 1001])),
            of(suite, None),
        ] {
            assert_eq!(Surveyed::read(&each.line()), Some(each));
        }
        assert_eq!(Surveyed::read("c\td\ta::b\t70\t20"), None, "cut off");
    }

    #[test]
    fn what_children_use_is_counted() {
        let before = used().unwrap();
        let turns = "i=0; while [ $i -lt 60000 ]; do i=$((i+1)); done";
        let child = std::process::Command::new("sh")
            .args(["-c", turns])
            .status();
        assert!(child.unwrap().success());
        assert!(used().unwrap() > before, "{before:?}");
    }
}
