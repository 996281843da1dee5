//! What commands of the application fail with.

use core::fmt;

/// Why a connection could not be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// A table is full: use plain TCP, or try later.
    Full,
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => f.write_str("no free slot for a connection"),
        }
    }
}

impl core::error::Error for OpenError {}

/// Why a Proposal could not be answered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AnswerError {
    /// The connection has no Proposal that waits for an answer.
    NotProposed,
}

impl fmt::Display for AnswerError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotProposed => f.write_str("no Proposal waits for an answer"),
        }
    }
}

impl core::error::Error for AnswerError {}
