//! `conformance handshake-machine`.

use std::process::ExitCode;

use clap::Args;
use conformance::explore::Progress;
use conformance::handshake_machine::{Bounds, Scenario, Transport, explore_all, explore_working};
use indicatif::{ProgressBar, ProgressStyle};

#[derive(Args)]
pub(crate) struct HandshakeMachine {
    /// How often a piece of what TCP carries arrives ahead of its rest.
    #[arg(long, default_value_t = 1)]
    cuts: u8,
    /// How often a link, or the way through the ISM devices, fails.
    #[arg(long, default_value_t = 1)]
    failures: u8,
    /// How often TCP fails, or sends a FIN of its own accord.
    #[arg(long, default_value_t = 1)]
    breaks: u8,
    /// How often an application closes or aborts.
    #[arg(long, default_value_t = 1)]
    endings: u8,
    /// Only hosts of which everything works to begin with: no full table, no device that
    /// refuses or takes its time.
    #[arg(long)]
    working: bool,
}

impl HandshakeMachine {
    pub(crate) fn run(&self) -> ExitCode {
        let bounds = Bounds {
            cuts: self.cuts,
            failures: self.failures,
            breaks: self.breaks,
            endings: self.endings,
        };
        let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
        let bar = ProgressBar::new_spinner().with_style(style.expect("a template that is right"));
        let show = |scenario: &Scenario, progress: Progress| {
            let Progress { found, explored } = progress;
            let left = found - explored;
            bar.set_message(format!("{scenario}: {found} states, {left} to explore"));
            bar.tick();
        };
        let explored = match self.working {
            true => explore_working(&Transport::ALL, bounds, show),
            false => explore_all(bounds, show),
        };
        bar.finish_and_clear();
        match explored {
            Ok(summary) => {
                println!("{summary}");
                ExitCode::SUCCESS
            }
            Err((scenario, fault)) => {
                println!("{scenario}\n{fault}");
                ExitCode::FAILURE
            }
        }
    }
}
