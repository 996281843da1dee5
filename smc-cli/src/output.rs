//! What goes to the user: failures as one sentence, records as JSON or text.

use std::fmt;
use std::io;

use serde::{Serialize, Serializer};
use serde_json::Value;

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The output cannot be written.
    Output(io::Error),
    /// Anything else, as one sentence.
    Problem(String),
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::Output(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Output(error) => write!(f, "cannot write the output: {}", reason(error)),
            Self::Problem(sentence) => f.write_str(sentence),
        }
    }
}

/// What the operating system says, without its error number.
#[must_use]
pub fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    match text.split_once(" (os error") {
        Some((words, _)) => words.to_lowercase(),
        None => text,
    }
}

/// Named values in the order in which they are shown.
#[derive(Debug, Default, Clone, PartialEq)]
pub struct Fields(pub Vec<(&'static str, Value)>);

impl Fields {
    /// Adds a value.
    pub fn put(&mut self, name: &'static str, value: impl Into<Value>) {
        self.0.push((name, value.into()));
    }

    /// Adds a value as its text.
    pub fn text(&mut self, name: &'static str, value: impl fmt::Display) {
        self.put(name, value.to_string());
    }
}

impl Serialize for Fields {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// A JSON value as a person writes it: text without quotation marks, lists
/// with commas.
#[must_use]
pub fn plain(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Bool(true) => "yes".to_owned(),
        Value::Bool(false) => "no".to_owned(),
        Value::Null => "-".to_owned(),
        Value::Array(values) if values.is_empty() => "none".to_owned(),
        Value::Array(values) => values.iter().map(plain).collect::<Vec<_>>().join(", "),
        Value::Object(fields) => fields
            .iter()
            .map(|(name, value)| format!("{name} {}", plain(value)))
            .collect::<Vec<_>>()
            .join(" "),
        Value::Number(number) => number.to_string(),
    }
}
