//! The programs of the guide (`docs/guide`), and its code blocks as tests.
//!
//! [`rnic`] and [`host`] are the program of the chapter "Embed the engine": a whole RNIC in memory,
//! and two engines that use it. Neither allocates, and this library needs no `std`.
#![no_std]

pub mod host;
pub mod rnic;

// Sockets over shared memory are Linux's.
#[cfg(all(doctest, target_os = "linux"))]
mod chapters {
    #[doc = include_str!("../../../docs/guide/src/port.md")]
    mod port {}
    #[doc = include_str!("../../../docs/guide/src/loops.md")]
    mod loops {}
    #[doc = include_str!("../../../docs/guide/src/embed.md")]
    mod embed {}
    #[doc = include_str!("../../../docs/guide/src/why.md")]
    mod why {}
    #[doc = include_str!("../../../docs/guide/src/test.md")]
    mod test {}
    #[doc = include_str!("../../../docs/guide/src/tune.md")]
    mod tune {}
    #[doc = include_str!("../../../docs/guide/src/rnic.md")]
    mod rnic {}
}
