//! A library for `LD_PRELOAD` that makes unmodified TCP programs use SMC.
//!
//! ```text
//!   the program: connect, accept, read, write, epoll_wait, ...
//!        │  symbols of this library, found before those of libc
//!        ▼
//!   hooks ── the descriptor has no entry in the table ──► libc, the kernel
//!        │   (one or two loads)
//!        ▼  an entry: a connection, or an epoll set that has connections
//!   conn, set, poll ──► smc-sockets: the peer's memory
//!        │
//!        └──► the TCP socket stays at its number: addresses, options, what is asked of TCP
//! ```
//!
//! A connection is plain TCP until both sides have agreed on SMC; only then its descriptor gets an
//! entry in the table. A connection that stays TCP costs a look-up when it is made, and
//! nothing for each byte.
//!
//! Waits are made in user space: an epoll set that has connections keeps their registrations
//! itself (`set`) and asks the kernel for its other descriptors now and then, and before it
//! sleeps. `poll` and `select` do so for one call (`poll`).
//!
//! What is used of libc inside the library goes through the same symbols: descriptors of the
//! library have no entry in the table, so that these calls reach libc like any others.
//!
//! Elsewhere than on Linux with glibc the library is empty.
#![deny(unsafe_code)]
#![cfg_attr(
    not(all(target_os = "linux", target_env = "gnu")),
    allow(rustdoc::broken_intra_doc_links, reason = "of what is on Linux only")
)]
#![cfg_attr(
    test,
    allow(dead_code, reason = "the hooks are not part of unit tests")
)]

#[cfg(all(target_os = "linux", target_env = "gnu"))]
mod library {
    pub(crate) mod accepting;
    pub(crate) mod cancel;
    pub(crate) mod config;
    pub(crate) mod conn;
    pub(crate) mod connecting;
    pub(crate) mod defaults;
    pub(crate) mod errno;
    pub(crate) mod hidden;
    #[cfg(not(test))]
    #[allow(unsafe_code)]
    mod hooks;
    pub(crate) mod own_listeners;
    pub(crate) mod poll;
    #[allow(unsafe_code)]
    pub(crate) mod real;
    pub(crate) mod report;
    pub(crate) mod set;
    pub(crate) mod short_waits;
    pub(crate) mod signals;
    pub(crate) mod stats;
    pub(crate) mod table;
}
