//! Children that share the memory of their parent: they are counted, so that what they do to their
//! descriptors is not taken for the parent's, and closing costs no system call to find out.

use std::ffi::c_int;

use crate::library::{config, errno};

/// vfork(2), which returns twice on one stack: the return address is in a register meanwhile, since
/// the child overwrites the stack.
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn vfork() -> libc::pid_t {
    std::arch::naked_asm!(
        "pop rdi",
        "lock inc dword ptr [rip + {sharing}]",
        "mov eax, {vfork}",
        "syscall",
        "push rdi",
        "test eax, eax",
        "jz 2f",
        "lock dec dword ptr [rip + {sharing}]",
        "test eax, eax",
        "js 3f",
        "2:",
        "ret",
        "3:",
        "mov edi, eax",
        "jmp {failed}",
        sharing = sym config::SHARING,
        vfork = const libc::SYS_vfork,
        failed = sym failed,
    )
}

/// What vfork(2) returns where the kernel has returned an error.
extern "C" fn failed(error: c_int) -> libc::pid_t {
    errno::set(-error);
    -1
}
