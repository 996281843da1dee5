//! Calls of the kernel for an epoll set.

use std::time::Duration;

use libc::{epoll_event, sigset_t};
use rustix::io::Errno;

use crate::library::poll::{SIGNALS, number};
use crate::library::{cancel, real};

/// epoll_ctl(2) of the kernel.
#[allow(unsafe_code)]
pub(crate) fn kernel_ctl(
    epoll: i32,
    operation: i32,
    fd: i32,
    event: Option<epoll_event>,
) -> Result<(), Errno> {
    let mut event = event;
    let event = event
        .as_mut()
        .map_or(std::ptr::null_mut(), std::ptr::from_mut);
    // SAFETY: the event is null or valid for the call.
    result(unsafe { real::epoll_ctl(epoll, operation, fd, event) }).map(drop)
}

/// epoll_pwait2(2) of the kernel, or where that is missing epoll_pwait(2).
#[allow(unsafe_code)]
pub(super) fn kernel_wait(
    epoll: i32,
    into: &mut [epoll_event],
    time: Option<Duration>,
    mask: Option<&sigset_t>,
) -> Result<usize, Errno> {
    let count = i32::try_from(into.len()).unwrap_or(i32::MAX);
    let millis = time.map_or(-1, |time| {
        let up = time + Duration::from_nanos(999_999);
        i32::try_from(up.as_millis()).unwrap_or(i32::MAX)
    });
    let mask = mask.map_or(std::ptr::null(), std::ptr::from_ref);
    let into = into.as_mut_ptr();
    // Not by libc's function, which is a cancellation point.
    // SAFETY: the events are valid for so many, the mask is null or valid.
    let woken = cancel::sleep(|| unsafe {
        let (set, mask) = (epoll.into(), number(mask));
        real::syscall(
            libc::SYS_epoll_pwait,
            set,
            number(into),
            count.into(),
            millis.into(),
            mask,
            SIGNALS,
        )
    });
    let woken = woken.ok_or(Errno::INTR)?;
    result(i32::try_from(woken).unwrap_or(-1))
}

fn result(returned: i32) -> Result<usize, Errno> {
    usize::try_from(returned).map_err(|_| {
        let error = std::io::Error::last_os_error();
        Errno::from_raw_os_error(error.raw_os_error().unwrap_or(libc::EIO))
    })
}
