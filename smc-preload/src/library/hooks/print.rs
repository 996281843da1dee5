//! Printing to a descriptor: libc writes by functions that no symbol stands before.
//!
//! Functions with a variable number of arguments cannot be written in stable Rust: on x86-64 a few
//! instructions gather the arguments as a `va_list`. Elsewhere `dprintf` to an SMC connection is
//! not served.

use std::ffi::{c_char, c_int, c_void};
use std::ptr;

use super::data;
use crate::library::{real, table};

unsafe extern "C" {
    fn vasprintf(text: *mut *mut c_char, format: *const c_char, arguments: *mut c_void) -> c_int;
}

/// vdprintf(3). The arguments are a `va_list`, which is passed as a pointer.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn vdprintf(
    fd: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    if !table::has(fd) {
        // SAFETY: as the caller's.
        return unsafe { real::vdprintf(fd, format, arguments) };
    }
    let mut text = ptr::null_mut();
    // SAFETY: as the caller's; the text is this function's.
    let length = unsafe { vasprintf(&raw mut text, format, arguments) };
    let Ok(whole) = usize::try_from(length) else {
        return -1;
    };
    let mut written = 0;
    while written < whole {
        // SAFETY: libc has just made a text of this length.
        let done = unsafe { data::write(fd, text.add(written).cast(), whole - written) };
        match usize::try_from(done) {
            Ok(done) => written += done,
            Err(_) => break,
        }
    }
    // SAFETY: libc has allocated it.
    unsafe { libc::free(text.cast()) };
    if written < whole { -1 } else { length }
}

/// vdprintf(3) of programs that were compiled with checks.
#[unsafe(no_mangle)]
unsafe extern "C-unwind" fn __vdprintf_chk(
    fd: c_int,
    flag: c_int,
    format: *const c_char,
    arguments: *mut c_void,
) -> c_int {
    if !table::has(fd) {
        // SAFETY: as the caller's.
        return unsafe { real::__vdprintf_chk(fd, flag, format, arguments) };
    }
    // SAFETY: as the caller's.
    unsafe { vdprintf(fd, format, arguments) }
}

/// Gathers the arguments behind the `$fixed` bytes of registers that named ones take, and calls a
/// function with them in the register `$register`.
#[cfg(target_arch = "x86_64")]
macro_rules! variadic {
    ($fixed:literal, $register:literal, $function:path) => {
        std::arch::naked_asm!(
            // The registers are saved at rsp + 32, the va_list is at rsp + 8.
            "sub rsp, 216",
            "mov [rsp + 48], rdx",
            "mov [rsp + 56], rcx",
            "mov [rsp + 64], r8",
            "mov [rsp + 72], r9",
            "test al, al",
            "je 2f",
            "movaps [rsp + 80], xmm0",
            "movaps [rsp + 96], xmm1",
            "movaps [rsp + 112], xmm2",
            "movaps [rsp + 128], xmm3",
            "movaps [rsp + 144], xmm4",
            "movaps [rsp + 160], xmm5",
            "movaps [rsp + 176], xmm6",
            "movaps [rsp + 192], xmm7",
            "2:",
            concat!("mov dword ptr [rsp + 8], ", $fixed),
            "mov dword ptr [rsp + 12], 48",
            "lea rax, [rsp + 224]",
            "mov [rsp + 16], rax",
            "lea rax, [rsp + 32]",
            "mov [rsp + 24], rax",
            concat!("lea ", $register, ", [rsp + 8]"),
            "call {function}",
            "add rsp, 216",
            "ret",
            function = sym $function,
        )
    };
}

/// dprintf(3).
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn dprintf(fd: c_int, format: *const c_char) -> c_int {
    variadic!(16, "rdx", vdprintf)
}

/// dprintf(3) of programs that were compiled with checks.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn __dprintf_chk(fd: c_int, flag: c_int, format: *const c_char) -> c_int {
    variadic!(24, "rcx", __vdprintf_chk)
}
