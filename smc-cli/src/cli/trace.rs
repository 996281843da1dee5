//! Arguments of `trace`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::trace::filter::{Kinds, Which};

/// Arguments of `trace`.
#[derive(Args, Debug)]
pub struct TraceArguments {
    /// The process.
    #[arg(value_name = "PID", required_unless_present = "program", conflicts_with = "program",
        value_parser = clap::value_parser!(u32).range(1..))]
    pub process: Option<u32>,
    /// JSON text sequences (RFC 7464) in the frame of qlog, for its tools; docs/operate.md names
    /// the schema.
    #[arg(long)]
    pub json: bool,
    /// Only events of connections that one of these fits: ADDRESS, :PORT, ADDRESS:PORT of either
    /// end, or the name of a connection, such as conn0.1.
    #[arg(short, long, value_name = "WHICH")]
    pub connection: Vec<Which>,
    /// Only events of these groups or kinds, such as cdc or conn:moved, with commas in between;
    /// --list-kinds has them all.
    #[arg(short, long, value_name = "KINDS", value_delimiter = ',')]
    pub kinds: Vec<Kinds>,
    /// End after this many seconds; a program that was started goes on.
    #[arg(long = "for", value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=31_536_000))]
    pub seconds: Option<u64>,
    /// End after this many events; a program that was started goes on.
    #[arg(long, value_name = "EVENTS", value_parser = clap::value_parser!(u64).range(1..))]
    pub count: Option<u64>,
    /// Add to each event what it says, as a sentence.
    #[arg(short, long, conflicts_with = "json")]
    pub verbose: bool,
    /// Write into this file, and not to the standard output (of a program that is started, the
    /// standard error).
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Show all kinds of events, by groups, with their fields.
    #[arg(long, exclusive = true)]
    pub list_kinds: bool,
    /// A program to start as "smcx run" does, and its arguments: its events from the first one
    /// on, and those of its children.
    #[arg(last = true, value_names = ["PROGRAM", "ARGUMENTS"])]
    pub program: Vec<OsString>,
}
