//! All stories, told side by side.

use std::collections::VecDeque;
use std::num::NonZero;
use std::sync::{Mutex, PoisonError};
use std::thread;

use super::run::{Requests, requests};
use super::story::Story;
use super::tally::{Tally, tally};

/// A story, and what came of its runs.
#[derive(Clone, Debug)]
pub struct Told {
    /// What the story is about.
    pub name: &'static str,
    /// What it asks for if nothing is refused.
    pub requests: Requests,
    /// What came of it with requests refused.
    pub tally: Tally,
}

/// Tells stories with requests refused: all of them, or of each resource the `few` that
/// [`Requests::refusals`] picks. `tell` hears of runs to come, and of each that is over.
#[must_use]
pub fn round(
    stories: Vec<Story>,
    few: Option<u64>,
    jobs: NonZero<usize>,
    tell: impl Fn(Progress) + Sync,
) -> Vec<Told> {
    let left: VecDeque<_> = stories.into_iter().enumerate().collect();
    let left = Mutex::new(left);
    let done = Mutex::new(Vec::new());
    let work = || {
        while let Some((place, story)) = pop(&left) {
            let told = one(&story, few, &tell);
            done.lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push((place, told));
        }
    };
    thread::scope(|scope| {
        for _ in 0..jobs.get() {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    done.sort_by_key(|(place, _)| *place);
    done.into_iter().map(|(_, told)| told).collect()
}

/// How far a round has come.
#[derive(Clone, Copy, Debug)]
pub enum Progress {
    /// So many runs are to come.
    Planned(u64),
    /// One is over.
    Ran,
}

fn pop(left: &Mutex<VecDeque<(usize, Story)>>) -> Option<(usize, Story)> {
    left.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .pop_front()
}

fn one(story: &Story, few: Option<u64>, tell: &impl Fn(Progress)) -> Told {
    let name = story.name;
    match requests(story) {
        Ok(requests) => {
            let refusals = requests.refusals(few);
            tell(Progress::Planned(refusals.len() as u64));
            let tally = tally(story, &refusals, || tell(Progress::Ran));
            Told {
                name,
                requests,
                tally,
            }
        }
        Err(failures) => Told {
            name,
            requests: Requests::default(),
            tally: Tally {
                failures: failures
                    .iter()
                    .map(|what| format!("{name}: nothing refused: {what}"))
                    .collect(),
                ..Tally::default()
            },
        },
    }
}
