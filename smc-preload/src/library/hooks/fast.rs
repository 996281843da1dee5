//! Hooks of the calls that programs make most. They read one byte of the descriptor, and jump to
//! libc for a foreign one: on x86-64 these are five instructions, and no register is saved.

use std::ffi::c_char;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Defines a hook whose first argument is the descriptor, in the 16-bit register `$register` of
/// x86-64: a call goes to `$slow`, a function with the same arguments, if the descriptor may have
/// any of the bits of `$mask` in [`LOW`](crate::library::table::LOW).
macro_rules! fast {
    ($(#[$about:meta])* $visibility:vis fn $name:ident(
        $($argument:ident: $kind:ty),* $(,)?
    ) -> $result:ty, $fd:ident in $register:literal, $mask:ident, $slow:path) => {
        $(#[$about])*
        #[cfg(target_arch = "x86_64")]
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        $visibility unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> $result {
            std::arch::naked_asm!(
                concat!("movzx eax, ", $register),
                "lea r11, [rip + {low}]",
                "test byte ptr [r11 + rax], {mask}",
                "jne {slow}",
                "jmp qword ptr [rip + {real}]",
                low = sym $crate::library::table::LOW,
                mask = const $crate::library::table::$mask,
                slow = sym $slow,
                real = sym $crate::library::real::$name::AT,
            )
        }

        $(#[$about])*
        #[cfg(not(target_arch = "x86_64"))]
        #[unsafe(no_mangle)]
        $visibility unsafe extern "C-unwind" fn $name($($argument: $kind),*) -> $result {
            use $crate::library::{real, table};
            if table::may_have($fd, table::$mask) {
                // SAFETY: as the caller's.
                return unsafe { $slow($($argument),*) };
            }
            // SAFETY: as the caller's.
            unsafe { real::$name($($argument),*) }
        }
    };
}

pub(super) use fast;

/// No process has one thread, as far as is known.
static UNKNOWN: c_char = 0;

/// Where libc says whether the process has one thread.
pub(super) static SINGLE_THREADED: AtomicPtr<c_char> =
    AtomicPtr::new((&raw const UNKNOWN).cast_mut());

/// Whether the process has one thread.
#[cfg(not(target_arch = "x86_64"))]
#[inline]
pub(super) fn is_single_threaded() -> bool {
    // SAFETY: the pointer is that of a byte which is never freed.
    unsafe { SINGLE_THREADED.load(Ordering::Relaxed).read_volatile() != 0 }
}

/// Finds where libc says so, which is not everywhere.
pub(super) fn start() {
    // SAFETY: the name is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()) };
    if !found.is_null() {
        SINGLE_THREADED.store(found.cast(), Ordering::Relaxed);
    }
}
