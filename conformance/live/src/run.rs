//! A run of scripts against live sockets.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use conformance::scripts::{
    Failure, Host, Outcome, ParsedScript, Problem, Wire, count, play, script,
};

use crate::fit::{Abilities, unfit};
use crate::stack::OurSockets;

/// How scripts are run.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Number of scripts that run at a time: they mostly wait.
    pub at_once: usize,
    /// Longest that a script may wait in all.
    pub longest: Duration,
}

impl Default for Choice {
    fn default() -> Self {
        Self {
            at_once: 8,
            longest: Duration::from_secs(5),
        }
    }
}

/// Plays scripts, given by their names and paths, on stacks of our own over RNICs in
/// software, in order of their names.
#[must_use]
pub fn run(all: &[(String, PathBuf)], choice: &Choice) -> Vec<Outcome> {
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..choice.at_once {
            scope.spawn(|| {
                while let Some((name, path)) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = one(name, path, choice);
                    if let Ok(mut outcomes) = outcomes.lock() {
                        outcomes.push(outcome);
                    }
                }
            });
        }
    });
    let mut outcomes = outcomes.into_inner().unwrap_or_default();
    outcomes.sort_by(|one, other| one.name.cmp(&other.name));
    outcomes
}

/// Longer pauses, for a machine without time.
const PATIENT: Duration = Duration::from_millis(300);

fn one(name: &str, path: &Path, choice: &Choice) -> Outcome {
    let abilities = Abilities {
        rnic: OurSockets::can,
        app: |_| true,
        takes: OurSockets::takes,
        rnics: 2,
        longest: choice.longest,
    };
    let replay = format!("cargo run -p smc-live -- {name}");
    let tried_one = tried(name, path, &abilities, |script, patient| {
        let bench = OurSockets::live(script)?;
        Ok(match patient {
            true => bench.with_pause(PATIENT),
            false => bench,
        })
    });
    tried_one.replayed_by(replay)
}

/// A script that was tried.
#[derive(Debug)]
pub struct Tried(Outcome);

impl Tried {
    /// Returns the outcome, which names the command that plays it again.
    #[must_use]
    pub fn replayed_by(mut self, command: String) -> Outcome {
        if let Some(Problem::Failed(failure)) = &mut self.0.problem {
            failure.replay = command;
        }
        self.0
    }
}

/// Plays a script on a bench that is made for it, and once more if it fails, on a patient one:
/// lines are in order, and time does not wait for a thread that cannot run.
pub fn tried<B: Wire + Host>(
    name: &str,
    path: &Path,
    abilities: &Abilities,
    mut bench: impl FnMut(&ParsedScript, bool) -> io::Result<B>,
) -> Tried {
    let began = Instant::now();
    let mut outcome = Outcome::of(name);
    match script(name, path) {
        Err(unclear) => outcome.problem = Some(Problem::Unclear(unclear)),
        Ok(script) => {
            outcome.skipped = unfit(&script, abilities).map(|why| why.to_string());
            if outcome.skipped.is_none() {
                outcome.messages = count(&script);
                play_on(bench(&script, false), &script, &mut outcome);
            }
            if outcome.problem.is_some() {
                outcome.again = true;
                play_on(bench(&script, true), &script, &mut outcome);
            }
        }
    }
    outcome.time = began.elapsed();
    Tried(outcome)
}

fn play_on<B: Wire + Host>(bench: io::Result<B>, script: &ParsedScript, outcome: &mut Outcome) {
    let mut bench = match bench {
        Ok(bench) => bench,
        Err(error) => {
            outcome.problem = Some(Problem::Failed(Failure::of_bench(script, &error)));
            return;
        }
    };
    let played = play(script, &mut bench);
    outcome.virtual_time = played.time;
    outcome.record = played.record;
    outcome.left_out = played.left_out;
    if played.failure.is_some() {
        // Whatever is left, the next script is not to meet it.
        let _ = bench.run_out();
    }
    outcome.problem = played.failure.map(Problem::Failed);
}
