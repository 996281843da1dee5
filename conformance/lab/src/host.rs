//! The side that runs the guests and judges what they did.

mod answers;
pub mod campaign;
mod captures;
mod console;
mod image;
mod judge;
mod machine;
mod modules;
mod monitor;
mod packages;
mod programs;
pub mod report;
mod scripts;
mod tools;
mod windows;

use std::fmt;

/// Why there is no result.
#[derive(Debug)]
pub enum Trouble {
    /// Something that the laboratory needs is missing on this machine.
    Unable(String),
    /// Something failed that should not.
    Failed(String),
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unable(sentence) | Self::Failed(sentence) => f.write_str(sentence),
        }
    }
}

impl std::error::Error for Trouble {}

/// A failure with what was being done.
pub(crate) fn failed<E: fmt::Display>(doing: impl fmt::Display) -> impl FnOnce(E) -> Trouble {
    move |error| Trouble::Failed(format!("{doing}: {error}"))
}
