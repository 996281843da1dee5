//! What the environment asks for, and the stack of the process.

use std::cell::Cell;
use std::os::unix::ffi::OsStrExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::time::Duration;

use smc_run::variables;
use smc_sockets::{Policy, Settings, Stack};

use super::report;

/// The library does something in this process.
static ACTIVE: AtomicBool = AtomicBool::new(false);
/// ID of the process at the last check.
static PID: AtomicI32 = AtomicI32::new(0);

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread runs code of the library.
#[inline]
pub(crate) fn is_inside() -> bool {
    INSIDE.with(Cell::get)
}

/// Runs code of the library: what it calls of libc concerns no connection of the program.
pub(crate) fn inside<T>(run: impl FnOnce() -> T) -> T {
    struct Leave(bool);
    impl Drop for Leave {
        fn drop(&mut self) {
            INSIDE.with(|inside| inside.set(self.0));
        }
    }
    let _leave = Leave(INSIDE.with(|inside| inside.replace(true)));
    run()
}

/// Sleeps: what a handler of a signal calls meanwhile is not called in the midst of the library.
pub(crate) fn outside<T>(sleep: impl FnOnce() -> T) -> T {
    let before = set_inside(false);
    let slept = sleep();
    set_inside(before);
    slept
}

/// Sets whether this thread runs code of the library, and returns whether it did before.
pub(crate) fn set_inside(is_inside: bool) -> bool {
    INSIDE.with(|inside| inside.replace(is_inside))
}

/// Whether new connections may use SMC.
#[inline]
pub(crate) fn is_active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

/// The number of this process. In a child of `vfork` it is still that of the parent, whose
/// memory it is.
#[inline]
pub(crate) fn pid() -> i32 {
    PID.load(Ordering::Relaxed)
}

/// Whether this is a child that shares the memory of its parent (`vfork`).
pub(crate) fn shares_memory() -> bool {
    rustix::process::getpid().as_raw_pid() != pid()
}

/// Children of `vfork` that run now, with the memory of this process.
pub(crate) static SHARING: AtomicU32 = AtomicU32::new(0);

/// Whether this is a child of `vfork`. No system call is made unless there is one, where `vfork` is
/// counted.
#[cold]
pub(crate) fn is_vforked() -> bool {
    let is_counted = cfg!(target_arch = "x86_64");
    (!is_counted || SHARING.load(Ordering::Relaxed) > 0) && shares_memory()
}

/// Notes that `fork` made this process.
pub(crate) fn forked() {
    SHARING.store(0, Ordering::Relaxed);
    PID.store(rustix::process::getpid().as_raw_pid(), Ordering::Relaxed);
    super::hidden::forked();
    super::own_listeners::are_shared();
    super::cancel::forked();
    super::stats::forked();
}

/// How long the end of a process waits at most until its peers have what it has written over RNICs.
/// Peers that do not read take all of it.
const FLUSH: Duration = Duration::from_secs(5);

/// The process ends.
pub(crate) fn end() {
    if is_active() && !shares_memory() {
        super::table::conns().for_each(|(_, conn)| conn.end());
        // A kernel's TCP goes on when its process has ended; an RNIC's queue pairs end with it.
        if let Some(stack) = opened_stack() {
            let _ = inside(|| stack.flush(FLUSH));
        }
    }
}

/// Begins, as the process starts: nothing is opened yet.
pub(crate) fn start(is_privileged: bool) {
    forked();
    let off = std::env::var_os(variables::PRELOAD).is_some_and(|value| value == "0");
    if is_privileged || off {
        return;
    }
    super::hidden::start();
    report::start(is_set(variables::DEBUG));
    super::stats::start();
    ACTIVE.store(true, Ordering::Relaxed);
}

fn is_set(name: &str) -> bool {
    std::env::var_os(name).is_some_and(|value| variables::is_set(value.as_bytes()))
}

/// The policy of the process; none if it cannot be used.
pub(crate) fn policy() -> Option<&'static Policy> {
    static POLICY: OnceLock<Option<Policy>> = OnceLock::new();
    let find = || match Policy::find() {
        Ok(policy) => {
            if let Some(warning) = policy.warning() {
                report::line(&format!("policy: {warning}; every connection is TCP"));
            }
            Some(policy)
        }
        Err(error) => {
            report::line(&format!("policy: {error}; every connection is TCP"));
            None
        }
    };
    POLICY.get_or_init(find).as_ref()
}

/// The stack of the process, unless it cannot be opened.
static STACK: OnceLock<Option<Stack>> = OnceLock::new();

/// The stack of the process, for connections that it has: it is opened.
pub(crate) fn opened_stack() -> Option<&'static Stack> {
    STACK.get()?.as_ref()
}

/// The stack of the process for a new connection, opened when it is first needed; none if it cannot
/// be, and while the process may have too few descriptors.
pub(crate) fn stack() -> Option<&'static Stack> {
    if super::hidden::are_few() {
        static IS_SAID: AtomicBool = AtomicBool::new(false);
        if !IS_SAID.swap(true, Ordering::Relaxed) {
            report::line("no SMC in this process: it may have too few descriptors");
        }
        return None;
    }
    STACK.get_or_init(|| inside(open)).as_ref()
}

fn open() -> Option<Stack> {
    let mut settings = Settings::default();
    settings.policy = policy()?.clone();
    let sizes =
        [variables::RECEIVE_BUFFER, variables::SEND_BUFFER].map(|name| std::env::var(name).ok());
    let size = sizes
        .iter()
        .flatten()
        .find_map(|size| variables::size(size));
    settings.buffer = size.or(settings.buffer);
    match Stack::with_late_thread(settings) {
        Ok(stack) => Some(stack),
        Err(error) => {
            report::line(&format!("no SMC in this process: {error}"));
            None
        }
    }
}
