//! What a program needs when nothing is linked that would bring it: a start, two
//! system calls, and the memory functions the compiler calls by name.

use core::arch::{asm, global_asm};

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
compile_error!("written for Linux on x86_64");

global_asm!(
    ".globl _start",
    "_start:",
    "xor ebp, ebp",
    "and rsp, -16",
    "call {start}",
    "ud2",
    start = sym crate::start,
);

/// Ends the program.
pub fn exit(code: u8) -> ! {
    // SAFETY: exit_group takes an integer and does not return.
    unsafe {
        asm!("syscall", in("rax") 231, in("rdi") u64::from(code), options(noreturn, nostack));
    }
}

/// Reads from standard input: how many bytes, 0 at its end and on errors.
pub fn read(buffer: &mut [u8]) -> usize {
    let result: isize;
    // SAFETY: read writes at most `len` octets to `buffer`, which lives longer than
    // the call; the kernel changes rcx and r11.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") 0isize => result,
            in("rdi") 0,
            in("rsi") buffer.as_mut_ptr(),
            in("rdx") buffer.len(),
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    usize::try_from(result).unwrap_or(0)
}

// In assembly, lest the compiler see a loop that copies and call memcpy for it.

/// # Safety
/// The rules of C's function of this name apply.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcpy(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    // SAFETY: the caller gives n readable and n writable bytes.
    unsafe {
        asm!("rep movsb", inout("rcx") n => _, inout("rdi") to => _, inout("rsi") from => _, options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// The rules of C's function of this name apply.
#[unsafe(no_mangle)]
unsafe extern "C" fn memmove(to: *mut u8, from: *const u8, n: usize) -> *mut u8 {
    if to.addr().wrapping_sub(from.addr()) >= n {
        // SAFETY: copying upwards reads nothing that it wrote before.
        return unsafe { memcpy(to, from, n) };
    }
    // SAFETY: the caller gives n readable and n writable bytes, at least one here;
    // the direction flag is clear again at the end.
    unsafe {
        asm!(
            "std", "rep movsb", "cld",
            inout("rcx") n => _,
            inout("rdi") to.wrapping_add(n).wrapping_sub(1) => _,
            inout("rsi") from.wrapping_add(n).wrapping_sub(1) => _,
            options(nostack),
        );
    }
    to
}

/// # Safety
/// The rules of C's function of this name apply.
#[unsafe(no_mangle)]
unsafe extern "C" fn memset(to: *mut u8, octet: i32, n: usize) -> *mut u8 {
    // SAFETY: the caller gives n writable bytes.
    unsafe {
        asm!("rep stosb", inout("rcx") n => _, inout("rdi") to => _, in("al") octet as u8, options(nostack, preserves_flags));
    }
    to
}

/// # Safety
/// The rules of C's function of this name apply.
#[unsafe(no_mangle)]
unsafe extern "C" fn memcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    let mut at = 0usize;
    while at < n {
        // SAFETY: the caller gives n readable bytes at both.
        let (x, y) = unsafe { (*a.wrapping_add(at), *b.wrapping_add(at)) };
        if x != y {
            return i32::from(x).wrapping_sub(i32::from(y));
        }
        at = at.wrapping_add(1);
    }
    0
}

/// # Safety
/// The rules of C's function of this name apply.
#[unsafe(no_mangle)]
unsafe extern "C" fn bcmp(a: *const u8, b: *const u8, n: usize) -> i32 {
    // SAFETY: the same contract.
    unsafe { memcmp(a, b, n) }
}

/// The precompiled core was built to unwind and names this.
#[unsafe(no_mangle)]
extern "C" fn rust_eh_personality() {}
