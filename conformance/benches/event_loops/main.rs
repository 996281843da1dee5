//! Event loops over SMC-D, TCP loopback and Unix sockets: what programs on tokio, hyper and
//! epoll get from each, side by side.
//!
//! ```text
//!   this process: rounds, medians, verdicts, the plot
//!     ├─ server process ── listens, prints its address ┐  one transport, one workload,
//!     └─ client process ── connects, prints a figure ──┘  fresh for every round
//! ```
//!
//! Rounds are interleaved: round one of every transport, then round two of every one, so
//! that a busy moment meets all alike. Every figure is the median, with the least and the
//! most of its rounds. Run on an idle machine with two cores:
//! `cargo bench -p conformance --bench event_loops`. Arguments: the number of rounds (odd,
//! 11 by default), then a word that the titles of the workloads to be measured contain, then
//! `plot`, or `plot=FILE`, for the picture of the sweep over connections, which is
//! `docs/requests-by-connections.svg` unless another file is named.
//!
//! While more threads run than there are CPUs, loops over SMC-D do not poll before they sleep,
//! unless events come faster than threads wake up: on a busy machine the figures of hot loops
//! may be those of sleeping ones.

#[cfg(target_os = "linux")]
mod epoll;
#[cfg(target_os = "linux")]
mod http;
#[cfg(target_os = "linux")]
mod parts;
#[cfg(target_os = "linux")]
mod ping;
#[cfg(target_os = "linux")]
mod plot;
#[cfg(target_os = "linux")]
mod report;
#[cfg(target_os = "linux")]
mod setup;
#[cfg(target_os = "linux")]
mod threads;
#[cfg(target_os = "linux")]
mod transport;
#[cfg(target_os = "linux")]
mod workloads;

#[cfg(target_os = "linux")]
fn main() {
    // Cargo passes flags of its own.
    let arguments: Vec<String> = std::env::args()
        .skip(1)
        .filter(|argument| !argument.starts_with("--"))
        .collect();
    match arguments.first().map(String::as_str) {
        Some("part") => parts::run(&arguments[1..]),
        _ => workloads::run(&arguments),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}
