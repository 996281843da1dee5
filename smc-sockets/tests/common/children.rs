//! Children made by `fork`, which have one thread and everything else of the test process.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// Longest life of a child, in seconds: one that hangs is ended by a signal.
const LIFE: u32 = 20;

/// Whether this process can become another user. If not, says that the test is skipped, which fails
/// in CI.
#[allow(dead_code, reason = "not every test changes users")]
pub(crate) fn can_become_others() -> bool {
    let can = rustix::process::geteuid().is_root();
    if !can {
        assert!(std::env::var_os("CI").is_none_or(|ci| ci != "true"));
        eprintln!("SKIPPED: to become another user takes root");
    }
    can
}

/// Makes this thread another user's, and no other thread of the process.
#[allow(dead_code, reason = "not every test changes users")]
pub(crate) fn become_user(uid: u32) {
    let (uid, gid) = (
        rustix::process::Uid::from_raw(uid),
        rustix::process::Gid::from_raw(uid),
    );
    rustix::thread::set_thread_groups(&[]).unwrap();
    rustix::thread::set_thread_res_gid(gid, gid, gid).unwrap();
    rustix::thread::set_thread_res_uid(uid, uid, uid).unwrap();
}

/// A child that runs a part of a test.
#[must_use]
pub(crate) struct Child(libc::pid_t);

/// Runs `task` in a child made by `fork`.
pub(crate) fn fork(task: impl FnOnce()) -> Child {
    // SAFETY: the child runs the task, whose locks are the point of the test, and ends.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "{}", std::io::Error::last_os_error());
    if pid > 0 {
        return Child(pid);
    }
    // SAFETY: it takes a number.
    unsafe { libc::alarm(LIFE) };
    let outcome = catch_unwind(AssertUnwindSafe(task));
    if let Err(panic) = &outcome {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).into()));
        let line = format!("child: {}\n", text.unwrap_or_default());
        // Past the locks of the standard streams, which another thread may have held.
        // SAFETY: it reads as many bytes of the line as there are.
        unsafe { libc::write(2, line.as_ptr().cast(), line.len()) };
    }
    // SAFETY: it ends the process; nothing of the parent's is dropped.
    unsafe { libc::_exit(i32::from(outcome.is_err())) }
}

impl Child {
    fn wait(self) -> libc::c_int {
        let mut status = 0;
        loop {
            // SAFETY: the kernel writes to a local variable.
            let waited = unsafe { libc::waitpid(self.0, &raw mut status, 0) };
            if waited == self.0 {
                return status;
            }
            let error = std::io::Error::last_os_error();
            assert_eq!(error.kind(), std::io::ErrorKind::Interrupted);
        }
    }

    /// Waits for its end, which has to be SIGKILL.
    #[allow(dead_code, reason = "not every test kills its child")]
    #[track_caller]
    pub(crate) fn ends_by_sigkill(self) {
        let status = self.wait();
        assert!(libc::WIFSIGNALED(status), "its task ended");
        assert_eq!(libc::WTERMSIG(status), libc::SIGKILL);
    }

    /// Waits for its end, which has to be that of its task.
    #[track_caller]
    pub(crate) fn succeeds(self) {
        let status = self.wait();
        assert!(
            !libc::WIFSIGNALED(status),
            "ended by signal {}",
            libc::WTERMSIG(status)
        );
        assert_eq!(libc::WEXITSTATUS(status), 0, "its task failed");
    }
}
