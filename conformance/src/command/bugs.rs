//! `conformance bugs`.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};

use clap::Args;
use conformance::ledger::repository;
use conformance::mutants::{Bug, Problem, Searches, Tree, bugs};

#[derive(Args)]
pub(crate) struct Bugs {
    /// Mistakes whose names contain one of these; all, if none is given.
    parts: Vec<String>,
    /// Seeds within which each mistake has to be found.
    #[arg(long, value_name = "N", default_value = "500")]
    seeds: u64,
    /// Where the sources are copied to.
    #[arg(long, value_name = "FOLDER", default_value = "target/bugs")]
    folder: PathBuf,
    /// Only print the mistakes.
    #[arg(long)]
    list: bool,
}

impl Bugs {
    pub(crate) fn run(&self) -> ExitCode {
        self.search().unwrap_or_else(|problem| {
            eprintln!("conformance: {problem}");
            ExitCode::from(2)
        })
    }

    fn is_chosen(&self, bug: &Bug) -> bool {
        let mut parts = self.parts.iter();
        self.parts.is_empty() || parts.any(|part| bug.name.contains(part.as_str()))
    }

    fn search(&self) -> Result<ExitCode, Problem> {
        let root = repository();
        let bugs = bugs(&root)?;
        let numbered = bugs.iter().enumerate().map(|(at, bug)| (at + 1, bug));
        let chosen: Vec<_> = numbered.filter(|(_, bug)| self.is_chosen(bug)).collect();
        if self.list {
            chosen.iter().for_each(|(_, bug)| println!("{bug}"));
            return Ok(ExitCode::SUCCESS);
        }
        let tree = Tree::copy(&root, &self.folder)?;
        let searches = Searches::build(&tree, &bugs)?;
        searches.search_without(self.seeds)?;
        let (next, missed) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let search = || -> Result<(), Problem> {
            while let Some((number, bug)) = chosen.get(next.fetch_add(1, Ordering::Relaxed)) {
                let search = searches.search(bug, *number, self.seeds)?;
                println!("{bug}: {}", search.how);
                if !search.found {
                    missed.fetch_add(1, Ordering::Relaxed);
                }
            }
            Ok(())
        };
        std::thread::scope(|scope| {
            let threads = [(); 2].map(|()| scope.spawn(search));
            let mut outcomes = threads
                .into_iter()
                .map(|thread| thread.join().expect("a search ends"));
            outcomes.try_for_each(|outcome| outcome)
        })?;
        let missed = missed.into_inner();
        println!("{} mistakes, {missed} not found", chosen.len());
        Ok(ExitCode::from(u8::from(missed > 0)))
    }
}
