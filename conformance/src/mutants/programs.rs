//! The programs of tests of a copy of the sources: how they are built, and how one of their
//! tests is run.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::errors::{Errors, messages};
use super::{Problem, Program, Test, Tree};

/// KiB of memory that a test may have: a loop without an end must not take it all.
const MEMORY: u32 = 6 << 20;
/// Bytes of stack that a thread of a test has: little optimised, and with all its changes, a
/// function needs more of it.
const STACK: u32 = 64 << 20;
/// Compiling takes as long as running: little is optimised.
const QUICK: [&str; 4] = [
    "--config=profile.test.package.smc-proto.opt-level=1",
    "--config=profile.test.package.conformance.opt-level=1",
    "--config=profile.test.debug=0",
    "--config=profile.dev.debug=0",
];

/// Programs that were built.
#[derive(Debug)]
pub(super) struct Programs(BTreeMap<Program, Built>);

#[derive(Debug)]
struct Built {
    path: PathBuf,
    /// Where cargo would run it.
    folder: PathBuf,
    /// Tests of the program, with the modules they are in.
    names: Vec<String>,
}

/// Outcome of a test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TestOutcome {
    Held,
    Failed,
    /// The test did not end, or took all memory.
    Nothing,
}

impl Programs {
    /// Builds them, unless the sources cannot be compiled.
    pub(super) fn build(
        tree: &Tree,
        wanted: &BTreeSet<&Program>,
    ) -> Result<Result<Self, Errors>, Problem> {
        let mut built = BTreeMap::new();
        for arguments in commands(wanted) {
            let output = cargo(tree.root(), &arguments)?;
            if !output.status.success() {
                return Errors::of(&output).map(Err);
            }
            for message in &messages(&output) {
                if let Some((program, path)) = artifact(tree.root(), message)
                    && wanted.contains(&program)
                {
                    let of_program = Built::of(tree.root(), &program, path)?;
                    built.insert(program, of_program);
                }
            }
        }
        match wanted.iter().find(|program| !built.contains_key(program)) {
            Some(program) => Err(Problem::new(format_args!("{program:?} was not built"))),
            None => Ok(Ok(Self(built))),
        }
    }

    /// Finds those that were built last; whether of these sources, the caller must know.
    pub(super) fn built(tree: &Tree, wanted: &BTreeSet<Program>) -> Result<Self, Problem> {
        let folder = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
        let folder = folder.unwrap_or_else(|| tree.root().join("target"));
        let mut newest = BTreeMap::new();
        for entry in fs::read_dir(folder.join("debug/deps")).map_err(Problem::new)? {
            let path = entry.map_err(Problem::new)?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.and_then(|name| name.rsplit_once('-'));
            let Some((name, _)) = name.filter(|(_, hash)| !hash.contains('.')) else {
                continue;
            };
            let changed = path.metadata().and_then(|of| of.modified());
            let changed = changed.map_err(Problem::new)?;
            let last = newest
                .entry(name.to_owned())
                .or_insert((changed, path.clone()));
            if last.0 <= changed {
                *last = (changed, path);
            }
        }
        let mut built = BTreeMap::new();
        for program in wanted {
            let name = match program {
                Program::Units(package) => package.replace('-', "_"),
                Program::Suite(_, suite) => suite.clone(),
                Program::Scripts => "conformance".to_owned(),
            };
            let Some((_, path)) = newest.get(&name) else {
                return Err(Problem::new(format_args!("{program:?} was not built")));
            };
            let of_program = Built::of(tree.root(), program, path.clone())?;
            built.insert(program.clone(), of_program);
        }
        Ok(Self(built))
    }

    /// Compiles packages without linking anything; the errors, if there are any.
    pub(super) fn check(tree: &Tree, packages: &BTreeSet<&str>) -> Result<Option<Errors>, Problem> {
        let mut arguments = vec!["check".to_owned(), "--lib".to_owned()];
        arguments.extend(packages.iter().flat_map(|package| of("-p", package)));
        arguments.extend(features(packages.contains("smc-sockets")));
        let output = cargo(tree.root(), &arguments)?;
        match output.status.success() {
            true => Ok(None),
            false => Errors::of(&output).map(Some),
        }
    }

    /// All tests of the programs, with the modules they are in.
    pub(super) fn tests(&self) -> Vec<Test> {
        let each = self.0.iter().flat_map(|(program, built)| {
            built.names.iter().map(|name| Test {
                program: program.clone(),
                name: name.clone(),
            })
        });
        each.collect()
    }

    /// Runs a test with a change, for some time at most.
    pub(super) fn run(
        &self,
        test: &Test,
        change: usize,
        timeout: Duration,
    ) -> Result<TestOutcome, Problem> {
        self.start(test, change, (timeout, None), None)
    }

    /// Runs a test with a change, for some time and some time of a processor at most.
    pub(super) fn probe(
        &self,
        test: &Test,
        change: usize,
        (time, processor): (Duration, Duration),
    ) -> Result<TestOutcome, Problem> {
        self.start(test, change, (time, Some(processor)), None)
    }

    /// Runs a test without a change; the numbers of the changes that it reaches are appended
    /// to a file.
    pub(super) fn trace(
        &self,
        test: &Test,
        (time, processor): (Duration, Duration),
        reached: &Path,
    ) -> Result<TestOutcome, Problem> {
        self.start(test, 0, (time, Some(processor)), Some(reached))
    }

    fn start(
        &self,
        test: &Test,
        change: usize,
        (time, processor): (Duration, Option<Duration>),
        reached: Option<&Path>,
    ) -> Result<TestOutcome, Problem> {
        let unknown = || Problem::new(format_args!("{test:?} is not there"));
        let built = self.0.get(&test.program).ok_or_else(unknown)?;
        let mut arguments = vec!["--exact"];
        if test.program == Program::Scripts {
            arguments = vec!["scripts", &test.name];
        } else {
            let whole = built.names.contains(&test.name);
            let last = |name: &&String| match whole {
                true => **name == test.name,
                false => name.rsplit("::").next() == Some(&test.name),
            };
            let names = built.names.iter().filter(last);
            arguments.extend(names.map(String::as_str));
            if arguments.len() == 1 {
                return Err(unknown());
            }
        }
        let processor = processor.map(|limit| format!("ulimit -t {}; ", limit.as_secs()));
        let processor = processor.unwrap_or_default();
        let script = format!("ulimit -v {MEMORY}; {processor}exec timeout --kill-after=9 \"$@\"");
        let mut command = Command::new("sh");
        if let Some(reached) = reached {
            command.env("SMC_REACHED", reached);
        }
        let output = command
            .args(["-c", &script, "sh", &time.as_secs().to_string()])
            .arg(&built.path)
            .args(arguments)
            .env("SMC_CHANGE", change.to_string())
            .env("RUST_MIN_STACK", STACK.to_string())
            .env("RUST_BACKTRACE", "0")
            // What was found with one change must not be tried first with the next one.
            .env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "true")
            .current_dir(&built.folder)
            .stdin(Stdio::null())
            .output()
            .map_err(Problem::new)?;
        Ok(outcome(&output, test))
    }
}

/// How a test ended.
fn outcome(output: &Output, test: &Test) -> TestOutcome {
    match output.status.code() {
        Some(0) => TestOutcome::Held,
        // Its name may be the beginning of another one's.
        Some(1) if test.program == Program::Scripts => {
            let failed = format!("FAILED {}", test.name);
            let text = String::from_utf8_lossy(&output.stdout);
            match text.lines().any(|line| line == failed) {
                true => TestOutcome::Failed,
                false => TestOutcome::Held,
            }
        }
        // A panic.
        Some(101) => TestOutcome::Failed,
        _ => TestOutcome::Nothing,
    }
}

impl Built {
    fn of(root: &Path, program: &Program, path: PathBuf) -> Result<Self, Problem> {
        let package = match program {
            Program::Units(package) | Program::Suite(package, _) => package,
            Program::Scripts => "conformance",
        };
        let mut names = Vec::new();
        if *program != Program::Scripts {
            let output = Command::new(&path)
                .args(["--list", "--format", "terse"])
                .output()
                .map_err(Problem::new)?;
            let text = String::from_utf8_lossy(&output.stdout);
            let tests = text.lines().filter_map(|line| line.strip_suffix(": test"));
            names = tests.map(str::to_owned).collect();
        }
        Ok(Self {
            path,
            folder: root.join(package),
            names,
        })
    }
}

/// Returns the program that cargo reports as built.
fn artifact(root: &Path, message: &Value) -> Option<(Program, PathBuf)> {
    let path = PathBuf::from(message["executable"].as_str()?);
    let manifest = Path::new(message["manifest_path"].as_str()?);
    let package = manifest.parent()?.strip_prefix(root).ok()?.to_str()?;
    let package = package.to_owned();
    let target = &message["target"];
    let program = match (target["kind"][0].as_str()?, &message["profile"]["test"]) {
        ("lib", Value::Bool(true)) => Program::Units(package),
        ("test", _) => Program::Suite(package, target["name"].as_str()?.to_owned()),
        ("bin", Value::Bool(false)) if package == "conformance" => Program::Scripts,
        _ => return None,
    };
    Some((program, path))
}

/// What cargo is asked for.
fn commands(wanted: &BTreeSet<&Program>) -> Vec<Vec<String>> {
    let mut tests = BTreeSet::new();
    let mut scripts = Vec::new();
    for program in wanted {
        match program {
            Program::Units(package) => tests.extend([of("-p", package), vec!["--lib".to_owned()]]),
            Program::Suite(folder, suite) => {
                tests.extend([of("-p", package_in(folder)), of("--test", suite)]);
            }
            Program::Scripts => {
                let bin = of("--bin", "conformance");
                scripts
                    .push([of("build", "--profile=test"), of("-p", "conformance"), bin].concat());
            }
        }
    }
    let sockets = tests.contains(&of("-p", "smc-sockets"));
    let tests: Vec<String> = tests.into_iter().flatten().collect();
    let tests = (!tests.is_empty()).then(|| {
        let features = features(sockets).into_iter().collect();
        [of("test", "--no-run"), tests, features].concat()
    });
    tests.into_iter().chain(scripts).collect()
}

/// What cargo is asked for if the sockets are among the packages: all of their suites.
fn features(sockets: bool) -> Option<String> {
    sockets.then(|| "--features=smc-sockets/tokio".to_owned())
}

/// The name of the package in a folder of the workspace.
fn package_in(folder: &str) -> &str {
    match folder {
        "conformance/attacks" => "smc-attacks",
        _ => folder,
    }
}

fn of(option: &str, value: &str) -> Vec<String> {
    vec![option.to_owned(), value.to_owned()]
}

fn cargo(root: &Path, arguments: &[String]) -> Result<Output, Problem> {
    Command::new("cargo")
        .args(arguments)
        .args(["--message-format", "json"])
        .args(QUICK)
        .current_dir(root)
        // A change may leave behind what lints forbid.
        .env("RUSTFLAGS", "--cap-lints=allow")
        .stdin(Stdio::null())
        .output()
        .map_err(Problem::new)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;
    use std::process::ExitStatus;

    use serde_json::json;

    use super::*;

    fn suite(name: &str) -> Program {
        Program::Suite("conformance".to_owned(), name.to_owned())
    }

    #[test]
    fn a_test_is_judged_by_its_status_and_a_script_by_its_name() {
        let ended = |program: Program, status: i32, stdout: &str| {
            let name = "close/aborts".to_owned();
            let output = Output {
                status: ExitStatus::from_raw(status),
                stdout: stdout.as_bytes().to_vec(),
                stderr: Vec::new(),
            };
            outcome(&output, &Test { program, name })
        };
        let exit = |code: i32| code << 8;
        assert_eq!(ended(suite("llc"), exit(0), ""), TestOutcome::Held);
        assert_eq!(ended(suite("llc"), exit(101), ""), TestOutcome::Failed);
        let (own, other) = ("FAILED close/aborts\nwhy\n", "FAILED close/aborts_late\n");
        assert_eq!(ended(Program::Scripts, exit(1), own), TestOutcome::Failed);
        assert_eq!(ended(Program::Scripts, exit(1), other), TestOutcome::Held);
        // Time is over, and a signal for want of memory.
        assert_eq!(ended(suite("llc"), exit(124), ""), TestOutcome::Nothing);
        assert_eq!(ended(suite("llc"), 6, ""), TestOutcome::Nothing);
    }

    #[test]
    fn programs_are_built_by_two_commands() {
        let units = Program::Units("smc-proto".to_owned());
        let (llc, rmb) = (suite("llc"), suite("rmb"));
        let wanted = BTreeSet::from([&units, &llc, &rmb, &Program::Scripts]);
        let lines: Vec<String> = commands(&wanted)
            .iter()
            .map(|line| line.join(" "))
            .collect();
        assert_eq!(
            lines,
            [
                "test --no-run --lib --test llc --test rmb -p conformance -p smc-proto",
                "build --profile=test -p conformance --bin conformance",
            ]
        );
        assert_eq!(commands(&BTreeSet::from([&Program::Scripts])).len(), 1);
        let attacks = Program::Suite("conformance/attacks".into(), "attacks".into());
        let line = commands(&BTreeSet::from([&attacks])).concat().join(" ");
        assert_eq!(line, "test --no-run --test attacks -p smc-attacks");
        let root = Path::new("/copy");
        let built = |kind: &str, test: bool| {
            let message = json!({
                "manifest_path": "/copy/conformance/Cargo.toml",
                "target": { "kind": [kind], "name": "llc" },
                "profile": { "test": test },
                "executable": "/copy/target/llc-17",
            });
            artifact(root, &message).map(|(program, _)| program)
        };
        assert_eq!(built("test", true), Some(llc.clone()));
        assert_eq!(
            built("lib", true),
            Some(Program::Units("conformance".to_owned()))
        );
        assert_eq!(built("bin", false), Some(Program::Scripts));
        assert_eq!(built("bin", true), None);
    }
}
