//! One end of a scenario, by the sockets that programs get: `smc-sockets` over libibverbs,
//! with the TCP option.
//!
//! The guest's first process starts it with a session on its standard input; it
//! answers on its standard output, as that process answers the laboratory. With the argument
//! `contract` it holds the guest's RNICs to the contract of adapters instead, and with `limited`
//! it becomes another program that may lock less memory.

#[cfg(target_os = "linux")]
mod asking;
#[cfg(target_os = "linux")]
mod by_hand;
#[cfg(target_os = "linux")]
mod connection;
#[cfg(target_os = "linux")]
mod contract;
#[cfg(target_os = "linux")]
mod possessions;
#[cfg(target_os = "linux")]
mod session;
#[cfg(target_os = "linux")]
mod setup;

#[cfg(target_os = "linux")]
fn main() {
    let mut arguments = std::env::args().skip(1);
    let done = match arguments.next().as_deref() {
        Some("contract") => contract::hold(),
        Some(asking::LIMITED) => Err(asking::limited(arguments)),
        _ => session::hold(),
    };
    if let Err(error) = done {
        eprintln!("smc-lab-peer: {error}");
        std::process::exit(1);
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
