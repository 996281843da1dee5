//! Tests of a changed tree.

use std::collections::BTreeSet;
use std::fmt;
use std::process::{Command, Output, Stdio};

use super::{Decision, Problem, Program, Test, Tree};

/// Seconds after which tests count as tests that do not end.
const PATIENCE: u32 = 900;
/// KiB of memory that a program may have: a loop without an end must not take it all.
const MEMORY: u32 = 12 << 20;
/// Compiling often, and running little: nothing is optimised.
const QUICK: [&str; 4] = [
    "--config=profile.test.package.smc-proto.opt-level=0",
    "--config=profile.test.package.conformance.opt-level=0",
    "--config=profile.test.debug=0",
    "--config=profile.dev.debug=0",
];

/// What became of a change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// A test that cites the requirement failed.
    Caught(Test),
    /// Tests did not end, or took all memory.
    Endless,
    /// No test that cites it failed.
    Missed,
    /// It cannot be compiled.
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

/// Tests in a copy of the sources.
#[derive(Debug)]
pub struct Trial<'a> {
    /// The copy.
    pub tree: &'a Tree,
}

impl Trial<'_> {
    /// Whether these tests hold as long as nothing is changed; those that do not.
    ///
    /// # Errors
    /// Nothing can be built.
    pub fn baseline(&self, tests: &BTreeSet<Test>) -> Result<Vec<Test>, Problem> {
        let mut failed = Vec::new();
        for (program, names) in programs(tests) {
            match self.run(program, &names)? {
                None => {
                    let what = format_args!("{program:?} cannot be built");
                    return Err(Problem::new(what));
                }
                Some(Told::Held) => {}
                Some(Told::Failed(name)) => failed.push(Test {
                    program: program.clone(),
                    name,
                }),
                Some(Told::Nothing) => {
                    let what = format_args!("{program:?} does not end");
                    return Err(Problem::new(what));
                }
            }
        }
        Ok(failed)
    }

    /// Tries one change.
    ///
    /// # Errors
    /// The change does not fit, or no command can be run.
    pub fn of(&self, decision: &Decision) -> Result<Verdict, Problem> {
        self.tree.with(&decision.change, || {
            for (program, names) in programs(&decision.tests) {
                match self.run(program, &names)? {
                    None => return Ok(Verdict::Unviable),
                    Some(Told::Held) => {}
                    Some(Told::Nothing) => return Ok(Verdict::Endless),
                    Some(Told::Failed(name)) => {
                        let program = program.clone();
                        return Ok(Verdict::Caught(Test { program, name }));
                    }
                }
            }
            Ok(Verdict::Missed)
        })
    }

    /// Runs tests of a program, unless it cannot be built.
    fn run(&self, program: &Program, names: &[&str]) -> Result<Option<Told>, Problem> {
        let which: Vec<&str> = match program {
            Program::Units(package) => vec!["-p", package, "--lib"],
            Program::Suite(package, suite) => vec!["-p", package, "--test", suite],
            Program::Scripts => vec!["-p", "conformance", "--bin", "conformance"],
        };
        let scripts = *program == Program::Scripts;
        let build: &[&str] = match scripts {
            true => &["build", "-q"],
            false => &["test", "-q", "--no-run"],
        };
        if !self.cargo(build, &which, &[])?.status.success() {
            return Ok(None);
        }
        let said = match scripts {
            true => {
                let names: Vec<&str> = ["scripts"].iter().chain(names).copied().collect();
                self.cargo(&["run", "-q"], &which, &names)?
            }
            false => self.cargo(&["test"], &which, names)?,
        };
        let text = String::from_utf8_lossy(&said.stdout);
        if let Some(failed) = text.lines().find_map(|line| failed(line, names)) {
            return Ok(Some(Told::Failed(failed)));
        }
        // One of another name that holds a name cited may have failed.
        let told = text.lines().any(|line| line.starts_with("test result:"));
        match said.status.success() || told {
            true => Ok(Some(Told::Held)),
            false => Ok(Some(Told::Nothing)),
        }
    }

    fn cargo(&self, what: &[&str], which: &[&str], then: &[&str]) -> Result<Output, Problem> {
        let script =
            format!("ulimit -v {MEMORY}; exec timeout --kill-after=9 {PATIENCE} cargo \"$@\"");
        Command::new("sh")
            .args(["-c", &script, "sh"])
            .args(what)
            .args(QUICK)
            .args(which)
            .arg("--")
            .args(then)
            .current_dir(self.tree.root())
            .stdin(Stdio::null())
            .output()
            .map_err(Problem::new)
    }
}

enum Told {
    Held,
    Failed(String),
    Nothing,
}

/// Which of these tests a line says has failed.
fn failed(line: &str, names: &[&str]) -> Option<String> {
    let failed = match line.strip_prefix("FAILED ") {
        Some(script) => script,
        None => line.strip_prefix("test ")?.strip_suffix(" ... FAILED")?,
    };
    let last = failed.rsplit("::").next()?;
    names.contains(&last).then(|| last.to_owned())
}

/// Each program with the names of its tests.
fn programs(tests: &BTreeSet<Test>) -> Vec<(&Program, Vec<&str>)> {
    let mut programs: Vec<(&Program, Vec<&str>)> = Vec::new();
    for test in tests {
        match programs.last_mut() {
            Some((program, names)) if **program == test.program => names.push(&test.name),
            _ => programs.push((&test.program, vec![&test.name])),
        }
    }
    programs.sort_by_key(|(program, _)| match program {
        Program::Units(package) => usize::from(package != "smc-proto"),
        Program::Suite(..) => 2,
        Program::Scripts => 3,
    });
    programs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_tells_which_test_failed() {
        let of = |line| failed(line, &["a_test", "clc/script"]);
        assert_eq!(of("test x::y::a_test ... FAILED"), Some("a_test".into()));
        assert_eq!(of("test x::y::not_a_test ... FAILED"), None);
        assert_eq!(of("test a_test ... ok"), None);
        assert_eq!(of("FAILED clc/script"), Some("clc/script".into()));
        assert_eq!(of("FAILED clc/script_too"), None);
    }

    #[test]
    fn own_unit_tests_come_first_and_scripts_last() {
        let of = |program, name: &str| Test {
            program,
            name: name.to_owned(),
        };
        let suite = Program::Suite("conformance".into(), "llc".into());
        let tests = BTreeSet::from([
            of(Program::Scripts, "s"),
            of(suite.clone(), "b"),
            of(suite.clone(), "a"),
            of(Program::Units("conformance".into()), "c"),
            of(Program::Units("smc-proto".into()), "d"),
        ]);
        let order = programs(&tests);
        assert_eq!(order.len(), 4);
        assert_eq!(order[0].1, ["d"]);
        assert_eq!(order[2], (&suite, vec!["a", "b"]));
        assert_eq!(*order[3].0, Program::Scripts);
    }
}
