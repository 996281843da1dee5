//! System calls of threads that keep out of the program's way.

/// Gives the calling thread a table of descriptors of its own, which is empty: what it waits
/// for keeps no descriptor of the process open.
pub(super) fn leave_descriptors() {
    let flags = libc::CLOSE_RANGE_UNSHARE as libc::c_long;
    // SAFETY: numbers only. The thread has used no descriptor and uses none. Where the
    // kernel does not know the call (before 5.9) the table stays shared.
    unsafe { libc::syscall(libc::SYS_close_range, 0u32, u32::MAX, flags) };
}

/// Signals of the calling thread as they were, until dropped; a thread that is started
/// meanwhile has all of them blocked.
pub(crate) struct Signals(libc::sigset_t);

impl Signals {
    pub(crate) fn block() -> Self {
        // SAFETY: both sets are this function's own, and valid in any content.
        unsafe {
            let mut all: libc::sigset_t = std::mem::zeroed();
            let mut before: libc::sigset_t = std::mem::zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            Self(before)
        }
    }
}

impl Drop for Signals {
    fn drop(&mut self) {
        // SAFETY: the set is what the kernel gave.
        unsafe {
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut())
        };
    }
}
