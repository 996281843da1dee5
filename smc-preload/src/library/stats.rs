//! Counters in the table of `smcx run`, which are complete however the process ends.

use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::fs::{Mode, OFlags};
use smc_run::statistics::{Carried, Counter, Table, Wanted};
use smc_run::variables;
use smc_sockets::{Carrier, Cause, Stack, Technology};

static TABLE: OnceLock<Table> = OnceLock::new();

/// The index in the table of the counters of this process, and 1; 0 if it has none.
static CLAIMED: AtomicUsize = AtomicUsize::new(0);

fn counter() -> Option<Counter<'static>> {
    let claimed = CLAIMED.load(Ordering::Relaxed).checked_sub(1)?;
    Some(TABLE.get()?.counter(claimed))
}

/// Whether anything is counted.
pub(crate) fn are_kept() -> bool {
    CLAIMED.load(Ordering::Relaxed) != 0
}

/// Maps the table that the environment names, if it is one.
pub(crate) fn start() {
    let Some(path) = std::env::var_os(variables::STATISTICS) else {
        return;
    };
    if let Ok(table) = Table::open(Path::new(&path)) {
        let _ = TABLE.set(table);
        forked();
    }
}

/// Claims counters for the process that `fork` made.
pub(crate) fn forked() {
    let Some(table) = TABLE.get() else {
        return;
    };
    // A child right after a fork allocates nothing.
    let mut name = [0; 16];
    let comm = rustix::fs::open("/proc/self/comm", OFlags::CLOEXEC, Mode::empty());
    let length = comm
        .and_then(|comm| rustix::io::read(comm, &mut name))
        .unwrap_or(0);
    let name = name.get(..length).unwrap_or_default();
    CLAIMED.store(table.claim(name.trim_ascii_end()) + 1, Ordering::Relaxed);
}

/// Counts a connection of which it is decided what carries it.
pub(crate) fn decided(carrier: &Carrier) {
    let Some(counter) = counter() else {
        return;
    };
    match carrier {
        Carrier::Smc(terms) if terms.technology == Technology::SmcR => {
            counter.count_smc(Carried::Verbs);
        }
        Carrier::Smc(_) => counter.count_smc(Carried::Ism),
        _ => {}
    }
    if let Some(why) = carrier.why_tcp() {
        let is_wanted = !matches!(why.cause(), Cause::Policy(_));
        plain(&why.sentence(), is_wanted);
    }
}

/// TCP carries a connection.
pub(crate) fn plain(reason: &str, is_wanted: bool) {
    if let Some(counter) = counter() {
        let wanted = if is_wanted { Wanted::Yes } else { Wanted::No };
        counter.count_tcp(reason, wanted);
    }
}

/// TCP carries a connection that nothing was asked for: this process's own reason, if the other end
/// is on this host and there is one.
pub(crate) fn unasked(stack: &Stack, is_here: bool, otherwise: &str) {
    match stack.shared_memory() {
        Err(why) if is_here => plain(&why.sentence(), true),
        _ => plain(otherwise, true),
    }
}

/// Something was refused that cannot be kept.
pub(crate) fn refused() {
    if let Some(counter) = counter() {
        counter.count_refused();
    }
}

/// Bytes were sent over SMC.
pub(crate) fn sent(bytes: usize) {
    if let Some(counter) = counter() {
        counter.add_sent(bytes as u64);
    }
}

/// Bytes were received over SMC.
pub(crate) fn received(bytes: usize) {
    if let Some(counter) = counter() {
        counter.add_received(bytes as u64);
    }
}
