//! The `smcx` command as a library, so that tests can call it.
//!
//! [`run`] takes the arguments and two streams, and returns the exit status: 0
//! for success, 1 for a problem, which one sentence on the error stream names, and 2 for
//! wrong usage; `--help` of each command lists those of its own. `smcx run` ends with the
//! status of the program it runs.
//!
//! The API is [`run`], [`run_on`] and [`Screen`]. All modules are for the tests of this
//! package, and may change in any release.

#[doc(hidden)]
pub mod check;
#[doc(hidden)]
pub mod cli;
#[doc(hidden)]
pub mod decode;
#[doc(hidden)]
pub mod demo;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod devices;
#[doc(hidden)]
pub mod generate;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod info;
mod input;
#[doc(hidden)]
#[cfg(target_os = "linux")]
pub mod launch;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod links;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod metrics;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod net;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod netlink;
#[doc(hidden)]
pub mod output;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod policy;
#[cfg(target_os = "linux")]
mod processes;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod proxy;
#[doc(hidden)]
pub mod sim;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod ss;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod stats;
mod status;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod top;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod trace;
#[cfg(target_os = "linux")]
#[doc(hidden)]
pub mod why;

use std::ffi::OsString;
use std::io::{self, Write};

use clap::FromArgMatches;
use clap::error::ErrorKind;

use cli::{Cli, Command, DemoArguments};
use output::Failure;

pub use output::Screen;

/// Runs the command, without a terminal.
pub fn run<I>(arguments: I, stdout: &mut dyn Write, stderr: &mut dyn Write) -> u8
where
    I: IntoIterator<Item = OsString>,
{
    run_on(&Screen::default(), arguments, stdout, stderr)
}

/// Runs the command; `screen` has the kind of these streams.
pub fn run_on<I>(
    screen: &Screen,
    arguments: I,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> u8
where
    I: IntoIterator<Item = OsString>,
{
    let matched = cli::command().try_get_matches_from(arguments);
    let cli = match matched.and_then(|matched| Cli::from_arg_matches(&matched)) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, stdout, stderr),
    };
    if let Err(sentence) = cli.check() {
        let error = cli::command().error(ErrorKind::ValueValidation, sentence);
        return usage(&error, stdout, stderr);
    }
    let outcome = match cli.command {
        Some(Command::Decode(arguments)) => decode::run(&arguments, stdout, stderr),
        Some(Command::Check(arguments)) => check::run(&arguments, screen, stdout, stderr),
        Some(Command::Completions { shell, json }) => completions(shell, json, stdout),
        Some(Command::Demo(arguments)) => demo::run(&arguments, screen, stdout),
        Some(Command::Sim(arguments)) => sim::run(&arguments, screen, stdout),
        #[cfg(target_os = "linux")]
        Some(Command::Run(arguments)) => return launch::run(&arguments, stderr),
        #[cfg(target_os = "linux")]
        Some(Command::Devices(arguments)) => devices::run(&arguments, stdout),
        #[cfg(target_os = "linux")]
        Some(Command::Ss(arguments)) => ss::run(&arguments, stdout, stderr),
        #[cfg(target_os = "linux")]
        Some(Command::Stats(arguments)) => stats::run(&arguments, stdout),
        #[cfg(target_os = "linux")]
        Some(Command::Links(arguments)) => links::run(&arguments, stdout),
        #[cfg(target_os = "linux")]
        Some(Command::Info(arguments)) => info::run(&arguments, stdout),
        #[cfg(target_os = "linux")]
        Some(Command::Metrics(arguments)) => metrics::run(&arguments, screen, stdout, stderr),
        #[cfg(target_os = "linux")]
        Some(Command::Top(arguments)) => top::run(&arguments, screen, stdout),
        #[cfg(target_os = "linux")]
        Some(Command::Trace(arguments)) => match trace::run(&arguments, stdout, stderr) {
            Ok(0) => Ok(()),
            Ok(status) => return status,
            Err(failure) => Err(failure),
        },
        #[cfg(target_os = "linux")]
        Some(Command::Why(arguments)) => why::run(&arguments, stdout),
        #[cfg(target_os = "linux")]
        Some(Command::Listen(arguments)) => net::listen(&arguments, screen, stdout, stderr),
        #[cfg(target_os = "linux")]
        Some(Command::Connect(arguments)) => net::connect(&arguments, stdout, stderr),
        #[cfg(target_os = "linux")]
        Some(Command::Perf(arguments)) => net::perf::run(&arguments, stdout, stderr),
        #[cfg(target_os = "linux")]
        Some(Command::Proxy(arguments)) => proxy::run(&arguments, screen, stdout, stderr),
        #[cfg(target_os = "linux")]
        Some(Command::Policy(cli::PolicyCommand::Check(arguments))) => {
            policy::check::run(&arguments, stdout)
        }
        #[cfg(target_os = "linux")]
        Some(Command::Policy(cli::PolicyCommand::Learn(arguments))) => {
            policy::learn::run(&arguments, screen, stdout, stderr)
        }
        Some(Command::Generate(what)) => generate::run(&what, cli::command(), stdout),
        None => demo::run(&DemoArguments::default(), screen, stdout),
    };
    let outcome = outcome.and_then(|()| stdout.flush().map_err(Failure::from));
    if outcome.is_err() {
        // What was shown before it comes first.
        let _ = stdout.flush();
    }
    ended(outcome, stderr)
}

/// Help, the version and complaints about arguments.
fn usage(error: &clap::Error, stdout: &mut dyn Write, stderr: &mut dyn Write) -> u8 {
    let text = error.render();
    if error.use_stderr() {
        let _ = write!(stderr, "{text}");
        return u8::try_from(error.exit_code()).unwrap_or(2);
    }
    let shown = write!(stdout, "{text}").and_then(|()| stdout.flush());
    ended(shown.map_err(Failure::from), stderr)
}

/// The exit status of an outcome, which is shown if it is a failure.
fn ended(outcome: Result<(), Failure>, stderr: &mut dyn Write) -> u8 {
    match outcome {
        Ok(()) => 0,
        // The reader of a pipe has seen enough.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => 0,
        Err(failure) => {
            let _ = writeln!(stderr, "smcx: {failure}");
            failure.status()
        }
    }
}

fn completions(
    shell: clap_complete::Shell,
    json: bool,
    stdout: &mut dyn Write,
) -> Result<(), Failure> {
    // Into memory first: the generator panics if it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut cli::command(), "smcx", &mut script);
    if json {
        let script = String::from_utf8_lossy(&script);
        let object = serde_json::json!({ "shell": shell.to_string(), "script": script });
        writeln!(stdout, "{object}")?;
    } else {
        stdout.write_all(&script)?;
    }
    Ok(())
}
