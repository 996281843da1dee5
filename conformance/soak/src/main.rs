//! A soak of the sockets: servers and clients of several kinds, hundreds of connections, and
//! processes that are killed, stopped and forked meanwhile.
//!
//! ```text
//!   smc-soak ──► servers: threads, epoll, tokio           each a process
//!       │    ──► clients: threads, tokio (one, several)   each a process
//!       │                    │ lines: connections, stalls, failures, wrong bytes
//!       ├── Interventions    ▼
//!       └─────────────────► Judge: each failure and each stall has its intervention
//! ```
//!
//! Every byte is checked by its reader. A request without progress for `--stall` is a
//! finding, unless one of its two processes was killed or stopped then, or a process did not
//! get a CPU. At the end servers have to possess what they had at the beginning.
//!
//! `cargo run --release -p smc-soak -- --for 10m` is the campaign that `docs/assurance.md`
//! lists; a short one runs with the tests.

#[cfg(target_os = "linux")]
mod canary;
#[cfg(target_os = "linux")]
mod client;
#[cfg(target_os = "linux")]
mod conversation;
#[cfg(target_os = "linux")]
mod fork;
#[cfg(target_os = "linux")]
mod judge;
#[cfg(target_os = "linux")]
mod pattern;
#[cfg(target_os = "linux")]
mod possessions;
#[cfg(target_os = "linux")]
mod random;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod server;
#[cfg(target_os = "linux")]
mod supervisor;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use clap::Parser;
    use std::process::ExitCode;

    let outcome = match supervisor::Arguments::parse().role {
        None => supervisor::run(&supervisor::Arguments::parse()),
        Some(supervisor::Role::Server(server)) => server::run(&server).map(|()| true),
        Some(supervisor::Role::Client(client)) => client::run(&client).map(|()| true),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::from(2)
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {
    eprintln!("Linux only");
}
