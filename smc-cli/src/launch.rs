//! `smcx run`: a program that knows nothing of SMC, over SMC.

mod environment;
mod io_uring;
mod library;
mod program;
mod reach;
mod report;
mod supervise;

use std::ffi::OsString;
use std::fmt;
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use smc_run::statistics::Table;
use smc_sockets::Policy;
use smc_view::handed;

use crate::cli::{PolicyArgument, RunArguments};
use crate::output::reason;
use crate::policy;
pub(crate) use program::Program;
use reach::Obstacle;
pub(crate) use supervise::run as supervised;

/// The status if a connection was TCP for which the policy permits SMC (`--require`).
const NOT_SMC: u8 = 123;
/// The status if no program can be run over SMC.
const UNABLE: u8 = 125;
/// The status if the program cannot be executed, as of env(1).
const NOT_EXECUTABLE: u8 = 126;
/// The status if there is no program of the name, as of env(1).
const NOT_FOUND: u8 = 127;

/// Why the program is not run: an exit status and a sentence.
#[derive(Debug)]
pub(crate) struct Refusal(u8, String);

/// Runs the program in place of this process, or, if statistics are wanted, as its child.
/// Returns the exit status.
pub fn run(arguments: &RunArguments, stderr: &mut dyn Write) -> u8 {
    match start(arguments, stderr) {
        Ok(status) => status,
        Err(refusal) => refusal.show(stderr),
    }
}

fn start(arguments: &RunArguments, stderr: &mut dyn Write) -> Result<u8, Refusal> {
    let (mut command, program) = prepare(arguments, stderr)?;
    if arguments.stats || arguments.require {
        counted(&program, command, arguments, stderr)
    } else {
        Err(program.refusal(&command.exec()))
    }
}

/// The arguments of a program that is run without any option.
pub(crate) fn plain(program: Vec<OsString>) -> RunArguments {
    RunArguments {
        policy: PolicyArgument::default(),
        stats: false,
        require: false,
        receive_buffer: None,
        send_buffer: None,
        debug: false,
        keep_io_uring: false,
        program,
    }
}

/// What is to be executed, with the library and everything that the arguments say.
pub(crate) fn prepare(
    arguments: &RunArguments,
    stderr: &mut dyn Write,
) -> Result<(Command, Program), Refusal> {
    let policy =
        policy::load(&arguments.policy).map_err(|failure| Refusal(UNABLE, failure.to_string()))?;
    if let Some(key) = forbids_all(&policy) {
        warn(
            stderr,
            format_args!("the policy forbids SMC ({key}); every connection is TCP"),
        );
    }
    let program = Program::find(&arguments.program)?;
    let library = library::find().map_err(|sentence| Refusal(UNABLE, sentence))?;
    let obstacle = reach::obstacle(&program);
    if let Some(obstacle) = &obstacle {
        let sentence = format!("{} {obstacle}", program.display());
        if arguments.require {
            return Err(Refusal(UNABLE, format!("{sentence}, and SMC is required")));
        }
        warn(stderr, format_args!("{sentence}; its connections are TCP"));
    }
    let mut command = program.command();
    environment::apply(&mut command, arguments, stderr);
    if obstacle.as_ref().is_none_or(Obstacle::leaves_preload) {
        environment::preload(&mut command, &library);
    }
    if !arguments.keep_io_uring && !matches!(obstacle, Some(Obstacle::Privileged(_))) {
        io_uring::hide().map_err(|error| {
            let why = reason(&error);
            Refusal(
                UNABLE,
                format!("io_uring cannot be hidden from the program: {why} (see --keep-io-uring)"),
            )
        })?;
    }
    Ok((command, program))
}

/// What is known of the connections of a program that has not opened the statistics.
const UNCOUNTED: &str = "connections of the program are not counted: it does not have the preload \
                         library of this version";

/// Runs the program as a child, and reports what its connections were.
fn counted(
    program: &Program,
    mut command: Command,
    arguments: &RunArguments,
    stderr: &mut dyn Write,
) -> Result<u8, Refusal> {
    let (file, table) = statistics()?;
    let file = handed::inheritable(file);
    environment::count(&mut command, &handed::path_of(&file));
    let ended =
        supervise::run(&mut command, &mut || None).map_err(|error| program.refusal(&error))?;
    let counts = table.read();
    let is_counted = table.processes() > 0;
    if arguments.stats {
        // A closed error stream changes nothing of what the program did.
        let _ = match is_counted {
            true => report::text(&counts, stderr),
            false => writeln!(stderr, "smcx: {UNCOUNTED}"),
        };
    }
    let tcp = counts.iter().map(|counts| counts.tcp_wanted).sum::<u64>();
    if arguments.require && (tcp > 0 || !is_counted) {
        let what = match is_counted {
            true => report::tcp(tcp),
            false => UNCOUNTED.to_owned(),
        };
        warn(stderr, format_args!("{what}, and SMC is required"));
        if ended.status() == 0 {
            return Ok(NOT_SMC);
        }
    }
    Ok(ended.repeat())
}

fn statistics() -> Result<(OwnedFd, Table), Refusal> {
    Table::create().map_err(|error| {
        let why = reason(&error);
        Refusal(UNABLE, format!("no memory for the statistics: {why}"))
    })
}

/// The key by which a policy keeps every connection on TCP.
fn forbids_all(policy: &Policy) -> Option<&'static str> {
    if policy.warning().is_some() {
        // The warning was shown when the policy was read.
        return None;
    }
    [
        (!policy.enabled, "enabled"),
        (policy.transports.is_empty(), "transports"),
        (policy.permit.is_empty(), "permit"),
        (
            policy.listen_ports.is_empty() && policy.connect_ports.is_empty(),
            "listen-ports and connect-ports",
        ),
    ]
    .into_iter()
    .find_map(|(forbids, key)| forbids.then_some(key))
}

/// Shows a sentence; a closed error stream keeps no program from running.
fn warn(stderr: &mut dyn Write, sentence: impl fmt::Display) {
    let _ = writeln!(stderr, "smcx: {sentence}");
}

impl Refusal {
    /// The refusal of a program that the kernel does not execute.
    fn of(name: &dyn fmt::Display, error: &io::Error) -> Self {
        let status = match error.kind() {
            io::ErrorKind::NotFound => NOT_FOUND,
            _ => NOT_EXECUTABLE,
        };
        Self(status, format!("{name}: {}", reason(error)))
    }

    /// Shows the sentence, and returns the status.
    pub(crate) fn show(self, stderr: &mut dyn Write) -> u8 {
        let Self(status, sentence) = self;
        warn(stderr, sentence);
        status
    }
}
