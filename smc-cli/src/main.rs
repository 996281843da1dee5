//! The `smcx` command.

use std::io::{self, BufWriter, Write};
use std::process::ExitCode;

fn main() -> ExitCode {
    // Neither is locked: other threads show progress, and the message of a panic, on the standard error.
    let mut stdout = BufWriter::new(io::stdout());
    let mut stderr = io::stderr();
    let screen = smcx::Screen::detect();
    let status = smcx::run_on(&screen, std::env::args_os(), &mut stdout, &mut stderr);
    // What is left in the buffer is lost if the reader has gone.
    let _ = stdout.flush();
    ExitCode::from(status)
}
