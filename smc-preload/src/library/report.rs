//! Lines for the user, on a duplicate of the standard error: the program may close or replace
//! its own.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Mutex;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use smc_sockets::Carrier;

use super::{config, conn, hidden, stats};

static OUTPUT: OnceLock<OwnedFd> = OnceLock::new();
static VERBOSE: AtomicBool = AtomicBool::new(false);

/// Takes the standard error as it is now.
pub(crate) fn start(verbose: bool) {
    VERBOSE.store(verbose, Ordering::Relaxed);
    if let Ok(fd) = hidden::duplicate_early(2) {
        let _ = OUTPUT.set(fd);
    }
}

/// Writes one line.
pub(crate) fn line(text: &str) {
    if let Some(output) = OUTPUT.get() {
        let line = format!("smc-preload[{}]: {text}\n", config::pid());
        // Without a reader nothing is lost but the line.
        let _ = rustix::io::write(output.as_fd(), line.as_bytes());
    }
}

/// Something that cannot be kept is refused, for a reason that the user must know: one line for
/// each reason, or each time if the user wants all.
pub(crate) fn refuse(reason: &'static str) {
    static SEEN: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    stats::refused();
    let is_new = {
        let mut seen = conn::lock(&SEEN);
        let is_new = !seen.contains(&reason);
        if is_new {
            seen.push(reason);
        }
        is_new
    };
    if is_new || VERBOSE.load(Ordering::Relaxed) {
        line(reason);
    }
}

/// What carries a connection, for a user who wants to see each.
pub(crate) fn decided(carrier: &Carrier, accepted: bool) {
    if VERBOSE.load(Ordering::Relaxed) {
        let verb = if accepted { "accepted" } else { "connected" };
        line(&format!("{verb}: {carrier}"));
    }
}
