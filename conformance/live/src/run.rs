//! A run of scripts against live sockets.

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use conformance::scripts::{Failure, Outcome, Problem, Story, count, play, script};

use crate::fit::{Abilities, unfit};
use crate::stack::OurSockets;

/// How scripts are run.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// So many at a time: they mostly wait.
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
    let began = Instant::now();
    let mut outcome = Outcome::of(name);
    let abilities = Abilities {
        rnic: OurSockets::can,
        takes: OurSockets::takes,
        rnics: 2,
        longest: choice.longest,
    };
    match script(name, path) {
        Err(unclear) => outcome.problem = Some(Problem::Unclear(unclear)),
        Ok(story) => {
            outcome.skipped = unfit(&story, &abilities).map(|why| why.to_string());
            if outcome.skipped.is_none() {
                outcome.messages = count(&story);
                play_on_ours(&story, None, &mut outcome);
            }
            if outcome.problem.is_some() {
                // Lines stand in order, and time does not wait for a thread that cannot run.
                outcome.again = true;
                play_on_ours(&story, Some(PATIENT), &mut outcome);
            }
        }
    }
    outcome.time = began.elapsed();
    outcome
}

fn play_on_ours(story: &Story, pause: Option<Duration>, outcome: &mut Outcome) {
    let bench = OurSockets::live(story);
    let mut bench = match bench {
        Ok(bench) => bench,
        Err(error) => {
            outcome.problem = Some(Problem::Failed(Failure::of_bench(story, &error)));
            return;
        }
    };
    if let Some(pause) = pause {
        bench = bench.with_pause(pause);
    }
    let played = play(story, &mut bench);
    outcome.virtual_time = played.time;
    outcome.record = played.record;
    outcome.left_out = played.left_out;
    outcome.problem = played.failure.map(|failure| {
        let replay = format!("cargo run -p smc-live -- {}", story.name);
        Problem::Failed(Failure { replay, ..failure })
    });
}
