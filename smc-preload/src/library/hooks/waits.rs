//! Waiting for descriptors.

use std::ffi::{c_int, c_long};
use std::time::Duration;

use libc::{epoll_event, fd_set, nfds_t, pollfd, sigset_t, size_t, timespec, timeval};
use rustix::io::Errno;

use super::fast::{self, fast};
use super::{fds, guard, is_reentrant, returned, status, waits as waits_for};
use crate::library::table::{self, Registration};
use crate::library::{cancel, config, poll as waits, real, report, set};

/// Milliseconds, without end if negative.
fn millis(timeout: c_int) -> Option<Duration> {
    u64::try_from(timeout).ok().map(Duration::from_millis)
}

/// A time of the caller, without end if null.
///
/// # Safety
/// The pointer is null or readable.
unsafe fn time_of(time: *const timespec) -> Result<Option<Duration>, Errno> {
    // SAFETY: as the caller's.
    let Some(time) = (unsafe { time.as_ref() }) else {
        return Ok(None);
    };
    let seconds = u64::try_from(time.tv_sec).map_err(|_| Errno::INVAL)?;
    let nanos = u32::try_from(time.tv_nsec).map_err(|_| Errno::INVAL)?;
    match nanos {
        0..1_000_000_000 => Ok(Some(Duration::new(seconds, nanos))),
        _ => Err(Errno::INVAL),
    }
}

fast! {
    /// epoll_ctl(2).
    pub(super) fn epoll_ctl(
        epoll: c_int,
        operation: c_int,
        fd: c_int,
        event: *mut epoll_event,
    ) -> c_int, fd in "dx", MAY_BE_TRACKED, control
}

/// Changes the registration of a descriptor that may have an entry, or whose registrations are
/// known.
unsafe extern "C-unwind" fn control(
    epoll: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    if is_reentrant(fd) || is_reentrant(epoll) {
        return status(Err(Errno::INTR));
    }
    if table::has(fd) {
        // SAFETY: null or the caller's.
        let asked = unsafe { event.as_ref().copied() };
        if let Some(done) = guard(|| set::control(epoll, operation, fd, asked)) {
            return status(done.map(|()| 0));
        }
    }
    // SAFETY: as the caller's.
    let done = unsafe { real::epoll_ctl(epoll, operation, fd, event) };
    if done == 0 && operation == libc::EPOLL_CTL_ADD && table::has_locks(fd) {
        guard(|| set::added(epoll, fd));
    }
    if done == 0 && table::is_tracked(fd) {
        // SAFETY: null or the caller's.
        let event = unsafe { event.as_ref() };
        let (events, data) = event.map_or((0, 0), |event| (event.events, event.u64));
        let set = epoll;
        guard(|| table::registered(operation, fd, Registration { set, events, data }));
    }
    done
}

/// epoll_create(2).
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn epoll_create(size: c_int) -> c_int {
    // SAFETY: as the caller's.
    is_made(unsafe { real::epoll_create(size) })
}

/// epoll_create1(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn epoll_create1(flags: c_int) -> c_int {
    // SAFETY: as the caller's.
    is_made(unsafe { real::epoll_create1(flags) })
}

/// The kernel has just made an epoll set.
fn is_made(set: c_int) -> c_int {
    if set >= 0 && config::is_active() && !config::is_inside() {
        fds::is_new(set);
        table::made_set(set);
    }
    set
}

/// Waits in a set with connections.
///
/// # Safety
/// The arguments are those that epoll_pwait(2) demands.
#[inline(never)]
unsafe fn wait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    time: Option<Duration>,
    mask: *const sigset_t,
) -> Option<c_int> {
    if config::is_inside() {
        return is_reentrant(epoll).then(|| status(Err(Errno::INTR)));
    }
    let found = waits_for(epoll, || {
        let set = table::set(epoll)?;
        let Some(count) = usize::try_from(count).ok().filter(|count| *count > 0) else {
            return Some(returned(Err(Errno::INVAL)));
        };
        if events.is_null() {
            return Some(returned(Err(Errno::FAULT)));
        }
        // SAFETY: so many events are the caller's.
        let events = unsafe { std::slice::from_raw_parts_mut(events, count) };
        // SAFETY: null or readable.
        let found = set.wait(epoll, events, time, unsafe { mask.as_ref() });
        Some(returned(found))
    });
    found.map(|found| found as c_int)
}

/// What the kernel's set has found, without what it got of the library meanwhile.
///
/// # Safety
/// So many events are the caller's.
#[cold]
unsafe fn filtered(epoll: c_int, events: *mut epoll_event, found: c_int) -> c_int {
    let Ok(count) = usize::try_from(found) else {
        return found;
    };
    guard(|| {
        // SAFETY: as the caller's.
        let events = unsafe { std::slice::from_raw_parts_mut(events, count) };
        c_int::try_from(set::filter(epoll, events)).unwrap_or(0)
    })
}

/// Waits at an epoll set: in memory if it has connections, otherwise by `kernel`, a function of
/// libc.
///
/// # Safety
/// The arguments are those that epoll_pwait(2) demands, and `kernel` uses the same.
#[inline]
unsafe fn wait_at(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    time: impl Fn() -> Result<Option<Duration>, Errno>,
    mask: *const sigset_t,
    kernel: impl Fn() -> c_int,
) -> c_int {
    let Some(waiters) = table::waiters_at(epoll) else {
        return kernel();
    };
    loop {
        if table::begins_wait(waiters, epoll) {
            let found = kernel();
            table::ends_wait(waiters);
            if found <= 0 || !table::has(epoll) {
                return found;
            }
            // The set has got connections meanwhile.
            // SAFETY: so many were just written.
            match unsafe { filtered(epoll, events, found) } {
                0 => continue,
                left => return left,
            }
        }
        let time = match time() {
            Ok(time) => time,
            Err(error) => return status(Err(error)),
        };
        // SAFETY: as the caller's.
        return match unsafe { wait(epoll, events, count, time, mask) } {
            Some(done) => done,
            None => kernel(),
        };
    }
}

/// epoll_wait(2): the kernel's in a process with one thread, whose set gets no connection while it
/// waits. A handler of a signal that adds one has ended the wait.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
) -> c_int {
    std::arch::naked_asm!(
        "movzx eax, di",
        "lea r11, [rip + {low}]",
        "test byte ptr [r11 + rax], {mask}",
        "jne {slow}",
        "mov r11, [rip + {single}]",
        "cmp byte ptr [r11], 0",
        "je {slow}",
        "jmp qword ptr [rip + {real}]",
        low = sym table::LOW,
        mask = const table::MAY_HAVE,
        slow = sym wait_known,
        single = sym fast::SINGLE_THREADED,
        real = sym real::epoll_wait::AT,
    )
}

/// epoll_wait(2), by the rule of x86-64.
#[cfg(not(target_arch = "x86_64"))]
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn epoll_wait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
) -> c_int {
    if table::may_have(epoll, table::MAY_HAVE) || !fast::is_single_threaded() {
        // SAFETY: as the caller's.
        return unsafe { wait_known(epoll, events, count, timeout) };
    }
    // SAFETY: as the caller's.
    unsafe { real::epoll_wait(epoll, events, count, timeout) }
}

/// Waits at a set that may have connections, or get them meanwhile.
unsafe extern "C-unwind" fn wait_known(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
) -> c_int {
    let time = || Ok(millis(timeout));
    // SAFETY: as the caller's.
    let kernel = || unsafe { real::epoll_wait(epoll, events, count, timeout) };
    // SAFETY: as the caller's.
    unsafe { wait_at(epoll, events, count, time, std::ptr::null(), kernel) }
}

/// epoll_pwait(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn epoll_pwait(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: c_int,
    mask: *const sigset_t,
) -> c_int {
    let time = || Ok(millis(timeout));
    // SAFETY: as the caller's.
    let kernel = || unsafe { real::epoll_pwait(epoll, events, count, timeout, mask) };
    // SAFETY: as the caller's.
    unsafe { wait_at(epoll, events, count, time, mask, kernel) }
}

/// epoll_pwait2(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn epoll_pwait2(
    epoll: c_int,
    events: *mut epoll_event,
    count: c_int,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: null or readable, as the caller's.
    let time = || unsafe { time_of(timeout) };
    // SAFETY: as the caller's.
    let kernel = || unsafe { real::epoll_pwait2(epoll, events, count, timeout, mask) };
    // SAFETY: as the caller's.
    unsafe { wait_at(epoll, events, count, time, mask, kernel) }
}

/// Waits for descriptors of which some have entries.
///
/// # Safety
/// The arguments are those that ppoll(2) demands.
unsafe fn polls(
    fds: *mut pollfd,
    count: nfds_t,
    time: Result<Option<Duration>, Errno>,
    mask: *const sigset_t,
) -> Option<c_int> {
    if !table::serves_any() || count == 0 || fds.is_null() {
        return None;
    }
    // SAFETY: so many descriptors are the caller's.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, usize::try_from(count).ok()?) };
    if !waits::concerns(fds) {
        return None;
    }
    if config::is_inside() {
        return Some(status(Err(Errno::INTR)));
    }
    loop {
        cancel::point();
        let found = guard(|| {
            // SAFETY: null or readable.
            let found = time.and_then(|time| waits::poll(fds, time, unsafe { mask.as_ref() }));
            returned(found)
        });
        if found >= 0 || !cancel::has_interrupted() {
            return Some(found as c_int);
        }
    }
}

/// poll(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn poll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
) -> c_int {
    // SAFETY: as the caller's.
    match unsafe { polls(fds, count, Ok(millis(timeout)), std::ptr::null()) } {
        Some(done) => done,
        // SAFETY: as the caller's.
        None => unsafe { real::poll(fds, count, timeout) },
    }
}

/// poll(2) of programs that were compiled with checks.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
    room: size_t,
) -> c_int {
    check(count, room);
    // SAFETY: as the caller's.
    unsafe { poll(fds, count, timeout) }
}

fn check(count: nfds_t, room: size_t) {
    if room / size_of::<pollfd>() < usize::try_from(count).unwrap_or(usize::MAX) {
        report::line("a wait past the end of a buffer; the process ends");
        std::process::abort();
    }
}

/// ppoll(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: as the caller's.
    match unsafe { polls(fds, count, time_of(timeout), mask) } {
        Some(done) => done,
        // SAFETY: as the caller's.
        None => unsafe { real::ppoll(fds, count, timeout, mask) },
    }
}

/// ppoll(2) of programs that were compiled with checks.
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: nfds_t,
    timeout: *const timespec,
    mask: *const sigset_t,
    room: size_t,
) -> c_int {
    check(count, room);
    // SAFETY: as the caller's.
    unsafe { ppoll(fds, count, timeout, mask) }
}

/// The three sets of select(2), null or the caller's.
#[derive(Clone, Copy)]
pub(super) struct Sets(pub(super) [*mut fd_set; 3]);

/// What each set asks for, and what is in it afterwards.
const ASKED: [i16; 3] = [libc::POLLIN, libc::POLLOUT, libc::POLLPRI];
const FOUND: [i16; 3] = [
    libc::POLLIN | libc::POLLHUP | libc::POLLERR,
    libc::POLLOUT | libc::POLLERR,
    libc::POLLPRI,
];

/// Bits of a word of an `fd_set`, which may be longer than the type says.
const BITS: usize = c_long::BITS as usize;

impl Sets {
    /// # Safety
    /// The sets are null or have a bit for the descriptor.
    unsafe fn has(self, which: usize, fd: usize) -> bool {
        let Some(set) = self.0.get(which).filter(|set| !set.is_null()) else {
            return false;
        };
        // SAFETY: as the caller's.
        let word = unsafe { set.cast::<libc::c_ulong>().add(fd / BITS).read() };
        word >> (fd % BITS) & 1 != 0
    }

    /// # Safety
    /// As for [`Self::has`].
    unsafe fn set(self, which: usize, fd: usize, is_in: bool) {
        let Some(set) = self.0.get(which).filter(|set| !set.is_null()) else {
            return;
        };
        // SAFETY: as the caller's.
        let word = unsafe { set.cast::<libc::c_ulong>().add(fd / BITS) };
        let bit = 1 << (fd % BITS);
        // SAFETY: as the caller's.
        unsafe { *word = if is_in { *word | bit } else { *word & !bit } };
    }
}

/// Whether any descriptor of these sets has an entry.
///
/// # Safety
/// The arguments are those that pselect(2) demands.
pub(super) unsafe fn concerns(count: c_int, sets: Sets) -> bool {
    if !table::serves_any() {
        return false;
    }
    let Ok(count) = usize::try_from(count) else {
        return false;
    };
    let is_asked = |fd: usize| {
        // SAFETY: as the caller's.
        (0..3).any(|which| unsafe { sets.has(which, fd) })
    };
    let has = |fd: usize| i32::try_from(fd).is_ok_and(table::has_locks);
    (0..count).any(|fd| has(fd) && is_asked(fd))
}

/// Waits for the descriptors of sets if some of them have entries.
///
/// # Safety
/// The arguments are those that pselect(2) demands.
unsafe fn selects(
    count: c_int,
    sets: Sets,
    time: Result<Option<Duration>, Errno>,
    mask: *const sigset_t,
) -> Option<Result<usize, Errno>> {
    // SAFETY: as the caller's.
    if !unsafe { concerns(count, sets) } {
        return None;
    }
    if config::is_inside() {
        return Some(Err(Errno::INTR));
    }
    let count = usize::try_from(count).ok()?;
    let call = || {
        let mut polled = Vec::new();
        for fd in 0..count {
            let mut events = 0;
            for (which, asked) in ASKED.iter().enumerate() {
                // SAFETY: as the caller's.
                if unsafe { sets.has(which, fd) } {
                    events |= asked;
                }
            }
            if events != 0 {
                let fd = i32::try_from(fd).unwrap_or(-1);
                let revents = 0;
                polled.push(pollfd {
                    fd,
                    events,
                    revents,
                });
            }
        }
        // SAFETY: null or readable.
        waits::poll(&mut polled, time?, unsafe { mask.as_ref() })?;
        if polled.iter().any(|at| at.revents & libc::POLLNVAL != 0) {
            return Err(Errno::BADF);
        }
        let mut found = 0;
        for at in &polled {
            let fd = usize::try_from(at.fd).unwrap_or(0);
            for (which, (asked, events)) in ASKED.iter().zip(FOUND).enumerate() {
                let is_in = at.events & asked != 0 && at.revents & events != 0;
                // SAFETY: as the caller's.
                unsafe { sets.set(which, fd, is_in) };
                found += usize::from(is_in);
            }
        }
        Ok(found)
    };
    loop {
        cancel::point();
        let done = guard(call);
        if done != Err(Errno::INTR) || !cancel::has_interrupted() {
            return Some(done);
        }
    }
}

/// select(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn select(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *mut timeval,
) -> c_int {
    if !table::serves_any() {
        // SAFETY: as the caller's.
        return unsafe { real::select(count, read, write, except, timeout) };
    }
    // SAFETY: null or the caller's.
    let time = match unsafe { timeout.as_ref() } {
        None => Ok(None),
        Some(time) => match (u64::try_from(time.tv_sec), u64::try_from(time.tv_usec)) {
            (Ok(seconds), Ok(micros)) => Ok(Some(
                Duration::from_secs(seconds) + Duration::from_micros(micros),
            )),
            _ => Err(Errno::INVAL),
        },
    };
    let began = std::time::Instant::now();
    // SAFETY: as the caller's.
    let done = unsafe { selects(count, Sets([read, write, except]), time, std::ptr::null()) };
    let Some(done) = done else {
        // SAFETY: as the caller's.
        return unsafe { real::select(count, read, write, except, timeout) };
    };
    // Linux says how much of the time is left.
    if let (Ok(Some(time)), false) = (time, timeout.is_null()) {
        let left = time.saturating_sub(began.elapsed());
        let left = timeval {
            tv_sec: libc::time_t::try_from(left.as_secs()).unwrap_or(libc::time_t::MAX),
            tv_usec: libc::suseconds_t::from(left.subsec_micros().cast_signed()),
        };
        // SAFETY: as the caller's.
        unsafe { *timeout = left };
    }
    returned(done) as c_int
}

/// pselect(2).
#[unsafe(no_mangle)]
pub(super) unsafe extern "C-unwind" fn pselect(
    count: c_int,
    read: *mut fd_set,
    write: *mut fd_set,
    except: *mut fd_set,
    timeout: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: as the caller's.
    let done = unsafe {
        let sets = Sets([read, write, except]);
        selects(count, sets, time_of(timeout), mask)
    };
    match done {
        Some(done) => returned(done) as c_int,
        // SAFETY: as the caller's.
        None => unsafe { real::pselect(count, read, write, except, timeout, mask) },
    }
}
