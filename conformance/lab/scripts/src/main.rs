//! The scripts of the conformance suite in a guest of the laboratory.
//!
//! ```text
//!   one guest: play                            the other one: serve
//!   scripts, TCP, queue pairs of soft-RoCE ◄──► sockets under test: the kernel's, or ours
//!            └──────── calls of their application, over TCP of their own ────────┘
//! ```
//!
//! `serve WHOM VERSION ADDRESS PORT` and `play WHOM VERSION ADDRESS PORT [NAMES]`, with
//! `kernel` or `ours`, and `v1` or `v2`. Of NAMES, which are beginnings, those behind a `!` are
//! left out.

#[cfg(target_os = "linux")]
mod kernel;
#[cfg(target_os = "linux")]
mod order;
#[cfg(target_os = "linux")]
mod ours;
#[cfg(target_os = "linux")]
mod play;
#[cfg(target_os = "linux")]
mod serve;

#[cfg(target_os = "linux")]
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match order::Order::parse(&arguments) {
        Some(order) if order.serves => serve::serve(&order),
        Some(order) => play::play(&order),
        None => Err(std::io::ErrorKind::InvalidInput.into()),
    };
    if let Err(error) = done {
        eprintln!("smc-lab-scripts: {error}");
        std::process::exit(1);
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
