//! `smcx decode`: the SMC messages of a capture.

mod clc;
#[cfg(target_os = "linux")]
mod live;
mod llc;
mod record;

use std::cell::{Cell, RefCell};
use std::io::{self, Read, Write};

use smc_capture::CaptureError;
use smc_capture::follow::{self, Item};
use smc_capture::reader::{CaptureReader, CapturedFrame};

use crate::cli::DecodeArguments;
use crate::input;
use crate::output::{Failure, plain, reason};

pub use record::{message, record, type_name};

/// Decodes a capture to `stdout`.
///
/// # Errors
/// [`Failure`] if the capture cannot be read to its end, if a message was
/// malformed, or if the output cannot be written.
pub fn run(
    arguments: &DecodeArguments,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    let output = Output::new(stdout);
    let outcome = decode(arguments, &output, stderr);
    // A reader of the output that has gone shows while the input is read.
    match output.failure.take() {
        Some(error) => Err(Failure::Output(error)),
        None => outcome,
    }
}

/// Frames, wherever they come from.
type Frames<'a> = Box<dyn Iterator<Item = Result<CapturedFrame, CaptureError>> + 'a>;

fn decode(
    arguments: &DecodeArguments,
    output: &Output<'_>,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    #[cfg(target_os = "linux")]
    if let Some(interface) = &arguments.live {
        let capture = live::open(interface, arguments.count.unwrap_or(u64::MAX))
            .map_err(|error| Failure::Problem(live::sentence(interface, &error)))?;
        let frames = Box::new(live::Frames::new(&capture, output));
        let outcome = follow(arguments, interface, frames, output, stderr);
        // Whatever it was that ended it.
        if let Ok((frames, lost)) = capture.counts() {
            let _ = writeln!(
                stderr,
                "smcx: {interface}: {frames} frames, {lost} lost by the kernel"
            );
        }
        return outcome;
    }
    let Some(file) = &arguments.file else {
        return Err(Failure::Usage("which capture?".to_owned()));
    };
    let name = file.display().to_string();
    let input = input::open(file).map_err(CaptureError::from);
    let reader = input.and_then(|input| {
        CaptureReader::new(Beside {
            input: input.bytes,
            output,
        })
    });
    let reader =
        reader.map_err(|error| Failure::Problem(format!("{name}: {}", sentence(&error))))?;
    follow(arguments, &name, Box::new(reader), output, stderr)
}

fn follow(
    arguments: &DecodeArguments,
    name: &str,
    frames: Frames<'_>,
    output: &Output<'_>,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    let problem = |error: CaptureError| Failure::Problem(format!("{name}: {}", sentence(&error)));
    let mut items = follow::items(frames);
    let mut found = 0_u64;
    let mut malformed = 0_u64;
    while let Some(item) = items.next() {
        let item = item.map_err(problem)?;
        found += 1;
        malformed += u64::from(item.content.is_malformed());
        if item.retransmission && !arguments.retransmissions {
            continue;
        }
        let start = items.start().unwrap_or(item.time);
        show(arguments, &item, start, &mut **output.stream.borrow_mut())?;
    }
    output.stream.borrow_mut().flush()?;
    if found == 0 {
        let frames = items.frames();
        let _ = writeln!(stderr, "smcx: {name}: no SMC in {frames} frames");
    }
    match malformed {
        0 => Ok(()),
        1 => Err(Failure::Problem(format!("{name}: 1 malformed message"))),
        count => Err(Failure::Problem(format!(
            "{name}: {count} malformed messages"
        ))),
    }
}

/// The output, which is flushed whenever the input may have to be waited for: what a frame
/// has completed is shown before the next frame is there.
struct Output<'a> {
    stream: RefCell<&'a mut dyn Write>,
    /// Why it could not be flushed.
    failure: Cell<Option<io::Error>>,
}

impl<'a> Output<'a> {
    fn new(stream: &'a mut dyn Write) -> Self {
        Self {
            stream: RefCell::new(stream),
            failure: Cell::new(None),
        }
    }

    /// Writes what was shown so far, before the input is waited for.
    fn flush(&self) -> io::Result<()> {
        let flushed = self.stream.borrow_mut().flush();
        flushed.map_err(|error| {
            self.failure.set(Some(error));
            io::ErrorKind::BrokenPipe.into()
        })
    }
}

/// An input that flushes an output before each read.
struct Beside<'a, 'b, R> {
    input: R,
    output: &'a Output<'b>,
}

impl<R: Read> Read for Beside<'_, '_, R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.output.flush()?;
        self.input.read(into)
    }
}

pub(crate) fn sentence(error: &CaptureError) -> String {
    match error {
        CaptureError::Io(error) => format!("cannot be read: {}", reason(error)),
        error => error.to_string(),
    }
}

fn show(
    arguments: &DecodeArguments,
    item: &Item,
    start: u64,
    stdout: &mut dyn Write,
) -> Result<(), Failure> {
    if arguments.json {
        let record = record(item, start);
        let line = serde_json::to_string(&record)
            .map_err(|error| Failure::Output(io::Error::other(error)))?;
        writeln!(stdout, "{line}")?;
        return Ok(());
    }
    line(item, start, stdout)?;
    if arguments.verbose {
        for (name, value) in record::details(item).0 {
            writeln!(stdout, "        {name}: {}", plain(&value))?;
        }
    }
    Ok(())
}

/// One line: frame, time, sender and receiver, protocol, message.
fn line(item: &Item, start: u64, stdout: &mut dyn Write) -> io::Result<()> {
    let micros = record::since(item.time, start) / 1_000;
    write!(
        stdout,
        "{:>6} {:>6}.{:06} {:<52} {:<10} {}",
        item.frame,
        micros / 1_000_000,
        micros % 1_000_000,
        item.path.to_string(),
        item.content.protocol(),
        item.content,
    )?;
    if record::crc_valid(item) == Some(false) {
        write!(stdout, " [wrong invariant CRC]")?;
    }
    if item.retransmission {
        write!(stdout, " [retransmission]")?;
    }
    writeln!(stdout)
}
