//! What is wrong with a policy, and where.

use std::fmt;
use std::io;
use std::path::PathBuf;

use serde_path_to_error::{Path, Segment};
use toml::de::{DeArray, DeTable, DeValue};

/// What is wrong with a policy.
#[derive(Debug)]
pub struct PolicyError {
    file: Option<PathBuf>,
    /// From 1, where it is known.
    line: Option<usize>,
    key: String,
    what: String,
    cause: Option<io::Error>,
}

impl PolicyError {
    /// The line that is wrong, from 1.
    #[must_use]
    pub const fn line(&self) -> Option<usize> {
        self.line
    }

    /// The key that is wrong, as a path of keys and places.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.key
    }

    pub(super) fn of_file(mut self, path: &std::path::Path) -> Self {
        self.file = Some(path.to_owned());
        self
    }

    pub(super) fn unreadable(path: &std::path::Path, error: io::Error) -> Self {
        Self {
            file: Some(path.to_owned()),
            line: None,
            key: String::new(),
            what: error.to_string(),
            cause: Some(error),
        }
    }

    pub(super) fn of_text(text: &str, path: Option<&Path>, error: &toml::de::Error) -> Self {
        let line = |at: usize| text.get(..at).unwrap_or(text).matches('\n').count() + 1;
        // The parser reports where a list begins; the path leads to the value in it.
        let value = path.and_then(|path| place_of(text, path));
        let reported = error.span().map(|span| span.start);
        let line = value.max(reported).map(line);
        let key = match path {
            Some(path) if path.iter().next().is_some() => path.to_string(),
            // Where there is no path to a value, the line itself has the key.
            _ => line
                .and_then(|line| text.lines().nth(line - 1))
                .and_then(|line| line.split_once('='))
                .map_or_else(String::new, |(key, _)| key.trim().to_owned()),
        };
        Self {
            file: None,
            line,
            key,
            what: error.message().to_owned(),
            cause: None,
        }
    }
}

/// Where a value begins.
fn place_of(text: &str, path: &Path) -> Option<usize> {
    let document = DeTable::parse(text).ok()?;
    let mut place = None;
    let mut table = Some(document.get_ref());
    let mut list = None;
    for step in path {
        let value = match step {
            Segment::Map { key } => table.and_then(|table| table.get(key.as_str())),
            Segment::Seq { index } => list.and_then(|list: &DeArray<'_>| list.get(*index)),
            Segment::Enum { .. } | Segment::Unknown => None,
        };
        let Some(value) = value else { break };
        place = Some(value.span().start);
        (table, list) = match value.get_ref() {
            DeValue::Table(inner) => (Some(inner), None),
            DeValue::Array(inner) => (None, Some(inner)),
            _ => (None, None),
        };
    }
    place
}

/// `FILE: line 3: permit[1]: what is wrong`, as far as it is known.
impl fmt::Display for PolicyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(file) = &self.file {
            write!(f, "{}: ", file.display())?;
        }
        if let Some(line) = self.line {
            write!(f, "line {line}: ")?;
        }
        if !self.key.is_empty() {
            write!(f, "{}: ", self.key)?;
        }
        f.write_str(&self.what)
    }
}

impl std::error::Error for PolicyError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause.as_ref().map(|cause| cause as _)
    }
}

impl From<PolicyError> for io::Error {
    fn from(error: PolicyError) -> Self {
        let kind = error.cause.as_ref().map(io::Error::kind);
        Self::new(kind.unwrap_or(io::ErrorKind::InvalidData), error)
    }
}
