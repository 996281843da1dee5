//! A filter without which programs would use sockets past the library.
//!
//! io_uring takes requests through memory, which the library does not see. Answered that
//! the kernel does not have it, programs use epoll instead, as they do in containers whose
//! filters forbid it.
//!
//! The filter is written by hand for one reason: generators of filters, such as
//! `seccompiler`, kill a process of another architecture, and a program of 32 bits that a
//! shell starts is to run as it would have.

use std::io;

use rustix::thread::{no_new_privs, set_no_new_privs};

/// The number of the call, which newer architectures have in common.
const SETUP: u32 = libc::SYS_io_uring_setup as u32;
/// The bit by which x86-64 marks calls of its variant with pointers of 32 bits.
const X32: u32 = 0x4000_0000;

/// Answers `io_uring_setup` with `ENOSYS` in this process and those it starts, for good.
///
/// A process without `CAP_SYS_ADMIN` gives up that it, or what it starts, gains rights by
/// being executed (`PR_SET_NO_NEW_PRIVS`), as the kernel demands.
///
/// # Errors
/// The kernel takes no filter.
pub(super) fn hide() -> io::Result<()> {
    if is_hidden() {
        return Ok(());
    }
    match install() {
        Err(error) if error.raw_os_error() == Some(libc::EACCES) && !no_new_privs()? => {
            set_no_new_privs(true)?;
            install()
        }
        done => done,
    }
}

/// Whether there is no io_uring, in this kernel or past a filter that was installed before.
fn is_hidden() -> bool {
    // SAFETY: the kernel reads no memory at a null pointer, and makes no ring of no entries.
    let made = unsafe { libc::syscall(libc::SYS_io_uring_setup, 0, std::ptr::null_mut::<u8>()) };
    made == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::ENOSYS)
}

fn install() -> io::Result<()> {
    let mut filter = program();
    let program = libc::sock_fprog {
        len: u16::try_from(filter.len()).unwrap_or(u16::MAX),
        filter: filter.as_mut_ptr(),
    };
    // SAFETY: `program` and the filter it points to live until the call returns.
    let set = unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            libc::SECCOMP_FILTER_FLAG_SPEC_ALLOW,
            &raw const program,
        )
    };
    match set {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Lets every call pass but one, by instructions that the kernel evaluates once for each
/// number of a call and then no more.
fn program() -> [libc::sock_filter; 5] {
    let (load, and, equal, end) = (
        libc::BPF_LD | libc::BPF_W | libc::BPF_ABS,
        libc::BPF_ALU | libc::BPF_AND | libc::BPF_K,
        libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
        libc::BPF_RET | libc::BPF_K,
    );
    let absent = libc::SECCOMP_RET_ERRNO | libc::ENOSYS.unsigned_abs();
    [
        instruction(load, 0, 0),
        instruction(and, 0, !X32),
        instruction(equal, 1, SETUP),
        instruction(end, 0, absent),
        instruction(end, 0, libc::SECCOMP_RET_ALLOW),
    ]
}

/// An instruction; a jump skips `otherwise` more of them unless it holds.
fn instruction(code: u32, otherwise: u8, k: u32) -> libc::sock_filter {
    libc::sock_filter {
        code: u16::try_from(code).unwrap_or_default(),
        jt: 0,
        jf: otherwise,
        k,
    }
}
