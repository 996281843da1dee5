//! Functions with a variable number of arguments, which cannot be written in stable Rust: on x86-64
//! a few instructions gather the arguments as a `va_list`.

use std::ffi::{c_char, c_int};
use std::ptr;

use super::exec;
use crate::library::errno;

/// Gathers the arguments behind the `$fixed` bytes of registers that named ones take, and calls a
/// function with them in the register `$register`.
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

pub(super) use variadic;

/// Arguments behind the named ones, as the ABI of x86-64 has them.
#[repr(C)]
struct Arguments {
    /// Bytes of the saved registers that are taken already.
    taken: u32,
    taken_of_floats: u32,
    stack: *const *const c_char,
    registers: *const u8,
}

/// Bytes of saved registers.
const REGISTERS: u32 = 48;

impl Arguments {
    /// The next argument, a pointer.
    ///
    /// # Safety
    /// There is one.
    unsafe fn next(&mut self) -> *const c_char {
        if self.taken < REGISTERS {
            // SAFETY: registers up to there were saved.
            let at = unsafe { self.registers.byte_add(self.taken as usize) };
            self.taken += 8;
            // SAFETY: as above.
            return unsafe { at.cast::<*const c_char>().read_unaligned() };
        }
        let at = self.stack;
        // SAFETY: as the caller's.
        self.stack = unsafe { at.add(1) };
        // SAFETY: as the caller's.
        unsafe { at.read() }
    }
}

/// Arguments that a program is executed with without memory of the heap, which a child that was
/// forked from a process with threads may not use.
const MOST: usize = 4096;

/// How a program is executed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// By its path.
    Path,
    /// By its name.
    Name,
    /// By its path, with an environment behind the arguments.
    Environment,
}

/// Executes a program with arguments up to a null pointer.
///
/// # Safety
/// The arguments are those that execl(3) demands.
unsafe fn execute(
    kind: Kind,
    path: *const c_char,
    first: *const c_char,
    rest: *mut Arguments,
) -> c_int {
    let mut list = [ptr::null::<c_char>(); MOST];
    let mut argument = first;
    for place in &mut list {
        *place = argument;
        if argument.is_null() {
            // SAFETY: as the caller's, for all of these.
            return unsafe {
                match kind {
                    Kind::Path => exec::execv(path, list.as_ptr()),
                    Kind::Name => exec::execvp(path, list.as_ptr()),
                    Kind::Environment => {
                        let environment = (*rest).next().cast::<*const c_char>();
                        exec::execve(path, list.as_ptr(), environment)
                    }
                }
            };
        }
        // SAFETY: the last argument is a null pointer.
        argument = unsafe { (*rest).next() };
    }
    errno::set(libc::E2BIG);
    -1
}

unsafe extern "C" fn by_path(
    path: *const c_char,
    first: *const c_char,
    rest: *mut Arguments,
) -> c_int {
    // SAFETY: as the caller's.
    unsafe { execute(Kind::Path, path, first, rest) }
}

unsafe extern "C" fn by_name(
    path: *const c_char,
    first: *const c_char,
    rest: *mut Arguments,
) -> c_int {
    // SAFETY: as the caller's.
    unsafe { execute(Kind::Name, path, first, rest) }
}

unsafe extern "C" fn with_environment(
    path: *const c_char,
    first: *const c_char,
    rest: *mut Arguments,
) -> c_int {
    // SAFETY: as the caller's.
    unsafe { execute(Kind::Environment, path, first, rest) }
}

/// execl(3).
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn execl(path: *const c_char, first: *const c_char) -> c_int {
    variadic!(16, "rdx", by_path)
}

/// execlp(3).
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn execlp(file: *const c_char, first: *const c_char) -> c_int {
    variadic!(16, "rdx", by_name)
}

/// execle(3).
#[unsafe(naked)]
#[unsafe(no_mangle)]
unsafe extern "C" fn execle(path: *const c_char, first: *const c_char) -> c_int {
    variadic!(16, "rdx", with_environment)
}
