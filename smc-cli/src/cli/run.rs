//! Arguments of `run`.

use std::ffi::OsString;

use clap::Args;

use super::PolicyArgument;

/// Arguments of `run`.
#[derive(Args, Debug)]
pub struct RunArguments {
    /// Which policy counts.
    #[command(flatten)]
    pub policy: PolicyArgument,
    /// In the end, list on the error stream what carried the connections of each process,
    /// and why those over TCP were not SMC.
    #[arg(long)]
    pub stats: bool,
    /// Fail if a connection was TCP for which the policy permits SMC; refuse to start a
    /// program that the library cannot reach.
    #[arg(long)]
    pub require: bool,
    /// Bytes of a connection's receive buffer, with K or M for KiB and MiB (SMC_RCVBUF).
    #[arg(short, value_name = "SIZE", value_parser = size)]
    pub receive_buffer: Option<Size>,
    /// Bytes of a connection's send buffer, likewise (SMC_SNDBUF).
    #[arg(short = 't', value_name = "SIZE", value_parser = size)]
    pub send_buffer: Option<Size>,
    /// Write a line for each connection to the error stream (SMC_DEBUG).
    #[arg(short)]
    pub debug: bool,
    /// Leave io_uring to the program, whose requests the library cannot see. Otherwise
    /// io_uring is not there for it (ENOSYS), and programs that can use epoll do so.
    #[arg(long)]
    pub keep_io_uring: bool,
    /// The program, found like a shell finds it, and its arguments.
    #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true,
        value_names = ["PROGRAM", "ARGUMENTS"])]
    pub program: Vec<OsString>,
}

/// The size of a buffer, in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Size(pub u32);

fn size(text: &str) -> Result<Size, String> {
    let bytes = smc_run::variables::size(text).map(Size);
    bytes.ok_or_else(|| "not a number of bytes from 1 to 2147483647, as in 65536, 64K or 1M".into())
}
