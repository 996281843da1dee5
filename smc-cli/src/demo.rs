//! `smcx demo`: a file through two SMC stacks and back.

mod carry;
mod hosts;
mod ladder;
mod links;
mod report;
mod rung;
mod script;
mod source;
mod tally;
mod text;
mod watch;

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Arc, Mutex};

use smc_capture::CaptureError;
use smc_capture::writer::CaptureWriter;
use smc_proto::version::SmcVersion;
use smc_proto::wire::types::BufferSize;
use smc_transport_sim::record::Recorder;
use smc_transport_sim::tcp::SmcOption;

use crate::cli::{DemoArguments, Percentages};
use crate::output::{Failure, Screen, grouped, progress_of_bytes, reason, size};

pub use carry::{Carrier, Hooks, Outcome, Place, Setup, carry};
pub use links::{LinkEnd, LinkLife, LinkState};
pub use source::Source;
pub use tally::{Family, Kind, Tally};

/// Data up to which a capture holds all of it unless asked otherwise.
const WHOLE: u64 = 16 << 20;
/// Payload bytes of each WRITE packet that a capture of more holds.
const SNAP: usize = 64;

/// Runs the demo and reports to `stdout`.
///
/// # Errors
/// [`Failure`] if anything at all went wrong; above all if bytes changed.
pub fn run(
    arguments: &DemoArguments,
    screen: &Screen,
    stdout: &mut dyn Write,
) -> Result<(), Failure> {
    let mut source = match &arguments.file {
        Some(path) => Source::file(path)?,
        None => Source::seeded(arguments.seed, arguments.bytes),
    };
    let setup = Setup {
        seed: arguments.seed,
        ring: BufferSize::at_least(arguments.ring.parse::<u32>().unwrap_or(64) << 10),
        option: SmcOption::BOTH,
        carrier: carrier(arguments),
        rnics: arguments.rnics,
        version: arguments.version(),
        kills: arguments.kill_link.clone().unwrap_or_default().0,
        revive: arguments.revive,
    };
    let capture = capture(arguments, &source)?;
    let text = !arguments.json && !arguments.quiet;
    if text {
        title(arguments, &source, stdout)?;
        stdout.flush()?;
    }
    let bar = progress_of_bytes(text && screen.progress, source.length());
    let outcome = carry(
        &setup,
        &mut source,
        capture.as_ref(),
        &mut Hooks {
            progress: &mut |bytes| bar.set_position(bytes),
            on_read: &mut |_, _| {},
        },
    );
    bar.finish_and_clear();
    report(&outcome?, arguments, screen, stdout)
}

fn carrier(arguments: &DemoArguments) -> Carrier {
    match arguments.smc_d {
        true => Carrier::SmcD {
            in_place: !arguments.moves,
        },
        false => Carrier::SmcR,
    }
}

/// Shows what a run was, and fails if bytes changed in it.
///
/// # Errors
/// [`Failure::Problem`] if bytes changed, [`Failure::Output`] if this cannot be
/// shown.
pub fn report(
    outcome: &Outcome,
    arguments: &DemoArguments,
    screen: &Screen,
    stdout: &mut dyn Write,
) -> Result<(), Failure> {
    let mut show = || -> Result<(), Failure> {
        if arguments.json {
            report::json(outcome, arguments, stdout)?;
        } else if !arguments.quiet {
            if !arguments.no_ladder {
                ladder::show(&carry::lock(&outcome.watch), screen, stdout)?;
            }
            report::tables(outcome, arguments, screen, stdout)?;
        }
        Ok(())
    };
    let shown = show();
    report::verdict(outcome)?;
    shown
}

fn title(
    arguments: &DemoArguments,
    source: &Source,
    stdout: &mut dyn Write,
) -> std::io::Result<()> {
    let what = match source.length() {
        Some(length) => format!("{} of {}", size(length), source.name()),
        None => source.name().to_owned(),
    };
    let (seed, ring) = (arguments.seed, &arguments.ring);
    let version = match arguments.version() {
        SmcVersion::V1 => "",
        SmcVersion::V2 => "v2",
    };
    writeln!(
        stdout,
        "{what} to a server and back over {}{version} (seed {seed}, rings of {ring} KiB)",
        carrier(arguments).name()
    )?;
    let mut more = Vec::new();
    if arguments.smc_d {
        let way = match arguments.moves {
            true => "moved by the devices",
            false => "written in place",
        };
        more.push(format!("ISM devices of one machine, bytes {way}"));
    }
    if arguments.rnics > 1 {
        more.push(format!("{} RNICs in each host", arguments.rnics));
    }
    if let Some(Percentages(kills)) = &arguments.kill_link {
        let times: Vec<_> = kills.iter().map(|kill| format!("{kill}%")).collect();
        more.push(format!("a link dies at {}", times.join(", ")));
    }
    if let Some(revive) = arguments.revive {
        more.push(format!("ports come back at {revive}%"));
    }
    if !more.is_empty() {
        writeln!(stdout, "{}", more.join("; "))?;
    }
    writeln!(stdout)
}

/// A capture that is being written.
pub struct Capture {
    recorder: carry::FileRecorder,
    name: String,
}

fn capture(arguments: &DemoArguments, source: &Source) -> Result<Option<Capture>, Failure> {
    let Some(path) = &arguments.pcap else {
        return Ok(None);
    };
    let same = |file: &Path| match (file.canonicalize(), path.canonicalize()) {
        (Ok(file), Ok(path)) => file == path && path.is_file(),
        _ => false,
    };
    if arguments.file.as_deref().is_some_and(same) {
        let name = path.display();
        let sentence = format!("{name}: the capture would overwrite the file to be carried");
        return Err(Failure::Problem(sentence));
    }
    let large = source.length().is_none_or(|length| length > WHOLE);
    let snap = arguments.snap.or(large.then_some(SNAP));
    Capture::create(path, snap).map(Some)
}

impl Capture {
    /// Begins a capture; `snap` limits the payload of each WRITE packet in it.
    ///
    /// # Errors
    /// [`Failure::Problem`] if the file cannot be written.
    pub fn create(path: &Path, snap: Option<usize>) -> Result<Self, Failure> {
        let name = path.display().to_string();
        let file = File::create(path).map_err(|error| unwritable(&name, &error.into()))?;
        let buffered = BufWriter::with_capacity(1 << 18, file);
        let mut writer = CaptureWriter::new(buffered).map_err(|error| unwritable(&name, &error))?;
        writer.limit_write_payload(snap);
        Ok(Self {
            recorder: Arc::new(Mutex::new(Recorder::new(writer))),
            name,
        })
    }

    /// Whether all could be written so far.
    fn check(&self) -> Result<(), Failure> {
        let mut recorder = carry::lock(&self.recorder);
        if !recorder.has_failed() {
            return Ok(());
        }
        match recorder.finish() {
            Err(error) => Err(unwritable(&self.name, &error)),
            Ok(_) => Ok(()),
        }
    }

    /// Writes what is left: how many frames there are.
    fn finish(&self) -> Result<u64, Failure> {
        let mut recorder = carry::lock(&self.recorder);
        let frames = recorder.frames();
        match recorder.finish() {
            Ok(_) => Ok(frames),
            Err(error) => Err(unwritable(&self.name, &error)),
        }
    }
}

pub(crate) fn unwritable(name: &str, error: &CaptureError) -> Failure {
    let reason = match error {
        CaptureError::Io(error) => reason(error),
        error => error.to_string(),
    };
    Failure::Problem(format!("{name}: the capture cannot be written: {reason}"))
}

fn hex(digest: &[u8; 32]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn bytes(bytes: u64) -> String {
    let (exact, short) = (grouped(bytes), size(bytes));
    if short.ends_with("bytes") || short.ends_with("byte") {
        short
    } else {
        format!("{exact} bytes ({short})")
    }
}
