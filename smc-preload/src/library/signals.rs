//! Signals that interrupt calls which wait.

/// The numbers of signals that glibc keeps for itself: sigaction(2) refuses them.
const OF_LIBC: [i32; 2] = [32, 33];
/// Signals of faults, which no thread that waits commits.
const FAULTS: [i32; 4] = [libc::SIGILL, libc::SIGBUS, libc::SIGFPE, libc::SIGSEGV];
/// The greatest number of a signal.
const LAST: i32 = 64;

/// Whether calls go on after whichever handler of this process: all were installed with
/// `SA_RESTART`. Which of them has interrupted a call cannot be found out.
#[cold]
pub(crate) fn restart_calls() -> bool {
    (1..=LAST)
        .filter(|signal| !OF_LIBC.contains(signal) && !FAULTS.contains(signal))
        .all(restarts)
}

/// Whether a signal has no handler, or one after which calls go on.
#[allow(unsafe_code)]
fn restarts(signal: i32) -> bool {
    // SAFETY: zeros are an action that does nothing, without flags.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: no action is set; the one that there is goes to this function's.
    let asked = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    let handled = ![libc::SIG_DFL, libc::SIG_IGN].contains(&action.sa_sigaction);
    asked == 0 && (!handled || action.sa_flags & libc::SA_RESTART != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[allow(unsafe_code)]
    fn one_handler_without_the_flag_ends_calls() {
        extern "C" fn nothing(_: i32) {}
        let set = |flags| {
            // SAFETY: as above.
            let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
            action.sa_sigaction = nothing as extern "C" fn(i32) as usize;
            action.sa_flags = flags;
            // SAFETY: the handler does nothing.
            let done =
                unsafe { libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()) };
            assert_eq!(done, 0);
        };
        set(libc::SA_RESTART);
        assert!(restarts(libc::SIGUSR2) && restarts(libc::SIGUSR1));
        assert!(restart_calls());
        set(0);
        assert!(!restarts(libc::SIGUSR2));
        assert!(!restart_calls());
    }
}
