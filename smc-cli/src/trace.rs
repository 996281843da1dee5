//! `smcx trace`: events of programs' engines, live.

mod ending;
pub mod filter;
mod names;
pub mod qlog;
pub mod session;
mod text;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use smc_proto::trace::Entry;
use smc_view::trace::{TraceReader, TraceSet};

use crate::cli::TraceArguments;
use crate::launch;
use crate::output::{Failure, reason};
use ending::Ending;
use filter::Filter;
use session::{Form, Session};

/// Notes of a process that are read at one go.
const AT_ONCE: usize = 4096;

/// Shortest and longest time between two polls of a ring.
const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(20));

/// An event of a process.
#[derive(Clone, Debug)]
pub struct Happened {
    /// The process.
    pub process: u32,
    /// The stack in the process.
    pub stack: u16,
    /// When it was written down, in nanoseconds since 1970.
    pub at: u64,
    /// What happened.
    pub entry: Entry,
    /// Addresses of the connection that it is about, if they are known: of this end and of the
    /// peer's.
    pub ends: Option<(SocketAddr, SocketAddr)>,
}

impl Happened {
    /// The addresses as one text.
    fn tuple(&self) -> Option<String> {
        self.ends.map(|(local, peer)| format!("{local}-{peer}"))
    }
}

/// Shows the events of a process, or of a program that is started, until it ends or a limit is
/// reached. Returns the exit status.
pub fn run(
    arguments: &TraceArguments,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<u8, Failure> {
    if arguments.list_kinds {
        text::kinds(stdout)?;
        return Ok(0);
    }
    let mut file = match &arguments.output {
        Some(path) => Some(create(path)?),
        None => None,
    };
    match arguments.process {
        Some(process) => {
            let out: &mut dyn Write = match &mut file {
                Some(file) => file,
                None => stdout,
            };
            let complaint = of_process(process, arguments, out)?;
            if let Some(complaint) = complaint {
                let _ = writeln!(stderr, "smcx: {complaint}");
            }
            Ok(0)
        }
        None => of_program(
            arguments,
            file.as_mut().map(|file| file as &mut dyn Write),
            stderr,
        ),
    }
}

fn create(path: &Path) -> Result<BufWriter<File>, Failure> {
    let file = File::create(path);
    let file =
        file.map_err(|error| Failure::Problem(format!("{}: {}", path.display(), reason(&error))))?;
    Ok(BufWriter::new(file))
}

fn session<'a>(arguments: &TraceArguments, title: &str, out: &'a mut dyn Write) -> Session<'a> {
    let form = match (arguments.json, arguments.verbose) {
        (true, _) => Form::Json,
        (false, verbose) => Form::Text { verbose },
    };
    let filter = Filter {
        connections: arguments.connection.clone(),
        kinds: arguments.kinds.clone(),
    };
    let limits = (arguments.count, arguments.seconds.map(Duration::from_secs));
    Session::new(form, filter, limits, title, out)
}

/// Why a process cannot be traced.
fn sentence(process: u32, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound => format!("there is no process {process}"),
        io::ErrorKind::PermissionDenied => {
            format!("process {process} is another user's: only that user and root can trace it")
        }
        io::ErrorKind::Unsupported => format!(
            "process {process} has no events to be read: it uses no SMC socket yet, or has \
             SMC_VIEW=0, or had no descriptor left"
        ),
        _ => format!("process {process}: {}", reason(error)),
    }
}

/// Follows a process, and returns what is to be said of it in the end.
fn of_process(
    process: u32,
    arguments: &TraceArguments,
    out: &mut dyn Write,
) -> Result<Option<String>, Failure> {
    let started = smc_view::started(process);
    let mut reader =
        TraceReader::of(process).map_err(|error| Failure::Problem(sentence(process, &error)))?;
    let ending = Ending::new().map_err(|error| crate::net::problem("signals", &error))?;
    let mut session = session(arguments, &format!("process {process}"), out);
    session.begin()?;
    loop {
        // What it wrote before it ended is read after that.
        let is_there = smc_view::started(process) == started;
        if session.renews() {
            reader.renew();
        }
        let mut take = session.taker();
        let (unread, more) = reader.read(AT_ONCE, |note| take.note(process, note));
        take.finish(unread)?;
        if session.is_over() {
            return Ok(None);
        }
        if more {
            continue;
        }
        session.flush()?;
        if !is_there {
            return Ok(Some(format!("process {process} has ended")));
        }
        if ending.within(session.pause())? {
            return Ok(None);
        }
    }
}

/// Starts a program and follows it and its children. What cannot be written is reported, and the
/// program goes on.
fn of_program(
    arguments: &TraceArguments,
    file: Option<&mut dyn Write>,
    stderr: &mut dyn Write,
) -> Result<u8, Failure> {
    let set = TraceSet::create()
        .map_err(|error| Failure::Problem(format!("no memory for events: {}", reason(&error))))?;
    let run = launch::plain(arguments.program.clone());
    let path = set.path();
    let (command, program) = match launch::prepare(&run, stderr) {
        Ok(prepared) => prepared,
        Err(refusal) => return Ok(refusal.show(stderr)),
    };
    let mut command = command;
    command.env(smc_view::trace::VARIABLE, path);
    let (outcome, ended, refused) = {
        let out: &mut dyn Write = match file {
            Some(file) => file,
            None => &mut *stderr,
        };
        let mut following = Following {
            set,
            session: session(arguments, &program.name(), out),
            failed: None,
        };
        following.begin();
        let ended = launch::supervised(&mut command, &mut || Some(following.turn()));
        if ended.is_ok() {
            following.finish();
        }
        (following.failed.take(), ended, following.set.refused())
    };
    if refused > 0 {
        let _ = writeln!(
            stderr,
            "smcx: {refused} further processes found no room for their events"
        );
    }
    if let Some(error) = outcome.filter(|error| error.kind() != io::ErrorKind::BrokenPipe) {
        let _ = writeln!(stderr, "smcx: {}", Failure::Output(error));
    }
    match ended {
        Ok(ended) => Ok(ended.repeat()),
        Err(error) => Ok(program.refusal(&error).show(stderr)),
    }
}

/// Events of a program that runs meanwhile.
struct Following<'a> {
    set: TraceSet,
    session: Session<'a>,
    /// The output is gone: nothing more is read.
    failed: Option<io::Error>,
}

impl Following<'_> {
    fn begin(&mut self) {
        let begun = self.session.begin();
        self.keep(begun);
    }

    fn keep(&mut self, outcome: io::Result<()>) {
        if let Err(error) = outcome {
            self.failed.get_or_insert(error);
        }
    }

    /// Reads what there is; returns the time until this is to be called again.
    fn turn(&mut self) -> Duration {
        if self.failed.is_some() {
            return session::IDLE;
        }
        if self.session.is_over() {
            let flushed = self.session.flush();
            self.keep(flushed);
            return session::IDLE;
        }
        if self.session.renews() {
            self.set.renew();
        }
        let mut take = self.session.taker();
        let (unread, more) = self
            .set
            .read(AT_ONCE, |process, note| take.note(process, note));
        let taken = take.finish(unread);
        self.keep(taken);
        if more {
            return Duration::ZERO;
        }
        let flushed = self.session.flush();
        self.keep(flushed);
        self.session.pause()
    }

    /// Reads what the program has written until it has ended.
    fn finish(&mut self) {
        // A child that goes on writes on: no more than what its ring holds is taken.
        for _ in 0..smc_view::trace::SLOTS.div_ceil(AT_ONCE) {
            if self.turn() != Duration::ZERO {
                break;
            }
        }
        let flushed = self.session.flush();
        self.keep(flushed);
    }
}
