//! `conformance close-machine`.

use std::process::ExitCode;

use clap::Args;
use conformance::close_machine::{self, Bounds};
use conformance::explore::Progress;
use indicatif::{ProgressBar, ProgressStyle};

#[derive(Args)]
pub(crate) struct CloseMachine {
    /// CDC messages in flight in each direction.
    #[arg(long, default_value_t = 3)]
    queue: usize,
    /// Bytes that each application writes.
    #[arg(long, default_value_t = 1)]
    bytes: u8,
    /// Links of the group.
    #[arg(long, default_value_t = 2)]
    links: u8,
    /// Messages overtake each other.
    #[arg(long)]
    reorder: bool,
    /// Completions come late, or not at all.
    #[arg(long)]
    late_completions: bool,
    /// Compare with the abstract model of RFC 7609 4.8 instead: what the engine covers of
    /// it, and by which rules it differs. Completions are never late then.
    #[arg(long, conflicts_with = "late_completions")]
    project: bool,
    /// How many states of the engine are followed for each state of the model.
    #[arg(long, default_value_t = 1, requires = "project")]
    each: u8,
}

impl CloseMachine {
    pub(crate) fn run(&self) -> ExitCode {
        let bounds = Bounds {
            queue: self.queue,
            bytes: self.bytes,
            links: self.links,
            reorder: self.reorder,
            late_completions: self.late_completions,
        };
        let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
        let bar = ProgressBar::new_spinner().with_style(style.expect("a template that is right"));
        let show = |progress: Progress| {
            bar.set_message(format!(
                "{} states, {} to explore",
                progress.found,
                progress.found - progress.explored
            ));
            bar.tick();
        };
        if self.project {
            let comparison = close_machine::compare(bounds, self.each, show);
            bar.finish_and_clear();
            println!("{comparison}");
            return match comparison.is_explained() {
                true => ExitCode::SUCCESS,
                false => ExitCode::FAILURE,
            };
        }
        let explored = close_machine::explore(bounds, show);
        bar.finish_and_clear();
        match explored {
            Ok(explored) => {
                println!("{explored}");
                ExitCode::SUCCESS
            }
            Err(fault) => {
                println!("{fault}");
                ExitCode::FAILURE
            }
        }
    }
}
