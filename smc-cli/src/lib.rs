//! The `smcx` command as a library, so that tests can call it.
//!
//! [`run`] takes the arguments and two streams, and returns the exit status: 0
//! for success, 1 for a problem, which is told in one sentence on the error
//! stream, and 2 for wrong usage. `smcx run` ends with the status of the program it runs.

pub mod check;
pub mod cli;
pub mod decode;
pub mod demo;
#[cfg(target_os = "linux")]
pub mod devices;
#[cfg(target_os = "linux")]
pub mod launch;
#[cfg(target_os = "linux")]
pub mod net;
pub mod output;
#[cfg(target_os = "linux")]
pub mod policy;
pub mod sim;
#[cfg(target_os = "linux")]
pub mod why;

use std::ffi::OsString;
use std::io::{self, Write};

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};

use cli::{Cli, Command, DemoArguments};
use output::{Failure, Screen};

/// Runs the command, without a terminal.
pub fn run<I>(arguments: I, stdout: &mut dyn Write, stderr: &mut dyn Write) -> u8
where
    I: IntoIterator<Item = OsString>,
{
    run_on(&Screen::default(), arguments, stdout, stderr)
}

/// Runs the command; `screen` tells what kind of streams these are.
pub fn run_on<I>(
    screen: &Screen,
    arguments: I,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> u8
where
    I: IntoIterator<Item = OsString>,
{
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => return usage(&error, stdout, stderr),
    };
    if let Err(sentence) = cli.check() {
        let error = Cli::command().error(ErrorKind::ValueValidation, sentence);
        return usage(&error, stdout, stderr);
    }
    let outcome = match cli.command {
        Some(Command::Decode(arguments)) => decode::run(&arguments, stdout, stderr),
        Some(Command::Check(arguments)) => check::run(&arguments, stdout, stderr),
        Some(Command::Completions { shell, json }) => completions(shell, json, stdout),
        Some(Command::Demo(arguments)) => demo::run(&arguments, screen, stdout),
        Some(Command::Sim(arguments)) => sim::run(&arguments, screen, stdout),
        #[cfg(target_os = "linux")]
        Some(Command::Run(arguments)) => return launch::run(&arguments, stderr),
        #[cfg(target_os = "linux")]
        Some(Command::Devices(arguments)) => devices::run(&arguments, stdout),
        #[cfg(target_os = "linux")]
        Some(Command::Why(arguments)) => why::run(&arguments, stdout),
        #[cfg(target_os = "linux")]
        Some(Command::Listen(arguments)) => net::listen(&arguments, stdout, stderr),
        #[cfg(target_os = "linux")]
        Some(Command::Connect(arguments)) => net::connect(&arguments, stdout, stderr),
        #[cfg(target_os = "linux")]
        Some(Command::Perf(arguments)) => net::perf::run(&arguments, stdout),
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
    clap_complete::generate(shell, &mut Cli::command(), "smcx", &mut script);
    if json {
        let script = String::from_utf8_lossy(&script);
        let object = serde_json::json!({ "shell": shell.to_string(), "script": script });
        writeln!(stdout, "{object}")?;
    } else {
        stdout.write_all(&script)?;
    }
    Ok(())
}
