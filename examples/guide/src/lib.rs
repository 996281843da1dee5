//! The programs of the guide (`docs/guide`), and its code blocks as tests.
//!
//! `rnic` and `host` are the program of the chapter "Embed the engine": a whole RNIC in memory, and
//! two engines that use it. Neither allocates, and this library needs no `std`.
#![no_std]
#![allow(missing_docs, reason = "the module below is a chapter each")]

pub mod host;
pub mod rnic;
