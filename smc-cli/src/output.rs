//! What goes to the user: failures as one sentence, records as JSON or text.

use std::fmt;
use std::io::{self, IsTerminal};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::{Serialize, Serializer};
use serde_json::Value;

/// Why a command did not succeed.
#[derive(Debug)]
pub enum Failure {
    /// The output cannot be written.
    Output(io::Error),
    /// Anything else, as one sentence.
    Problem(String),
    /// A file that cannot be analysed: one sentence.
    Unusable(String),
    /// Arguments that do not fit each other, as one sentence.
    Usage(String),
}

impl Failure {
    /// The exit status.
    #[must_use]
    pub const fn status(&self) -> u8 {
        match self {
            Self::Output(_) | Self::Problem(_) => 1,
            Self::Unusable(_) | Self::Usage(_) => 2,
        }
    }
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
            Self::Problem(sentence) | Self::Unusable(sentence) | Self::Usage(sentence) => {
                f.write_str(sentence)
            }
        }
    }
}

/// Message of the operating system, without its error number.
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

/// What kind of streams the command talks to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Screen {
    /// Whether the output may have colours.
    pub colours: bool,
    /// Whether the error stream is a terminal: it shows progress, and what a server waits for.
    pub progress: bool,
    /// Columns of the output, if it is a terminal.
    pub width: Option<usize>,
}

impl Screen {
    /// Asks the standard streams; `NO_COLOR` is respected.
    #[must_use]
    pub fn detect() -> Self {
        let terminal = io::stdout().is_terminal();
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let size = console::Term::stdout().size_checked();
        Self {
            colours: terminal && !plain,
            progress: io::stderr().is_terminal(),
            width: size.filter(|_| terminal).map(|(_, columns)| columns.into()),
        }
    }
}

/// A bar of bytes on the error stream, of so many in all if that is known; none unless it is shown.
pub(crate) fn progress_of_bytes(shown: bool, length: Option<u64>) -> ProgressBar {
    if !shown {
        return ProgressBar::hidden();
    }
    let (template, draw) = (
        match length {
            Some(_) => "{bar:50} {percent:>3}%  {bytes} of {total_bytes}  {bytes_per_sec}  {eta}",
            None => "{spinner} {bytes}  {bytes_per_sec}",
        },
        ProgressDrawTarget::stderr_with_hz(10),
    );
    let bar = ProgressBar::with_draw_target(length, draw);
    match ProgressStyle::with_template(template) {
        Ok(style) => bar.with_style(style.progress_chars("━╸ ")),
        Err(_) => bar,
    }
}

/// A number with commas between groups of three digits.
#[must_use]
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// A number of bytes in the unit that suits it.
#[must_use]
pub fn size(octets: u64) -> String {
    let units = [("GiB", 30), ("MiB", 20), ("KiB", 10)];
    let fitting = units.into_iter().find(|(_, shift)| octets >> shift > 0);
    match fitting {
        Some((unit, shift)) if octets.is_multiple_of(1 << shift) => {
            format!("{} {unit}", octets >> shift)
        }
        Some((unit, shift)) => format!("{:.1} {unit}", octets as f64 / f64::from(1 << shift)),
        None if octets == 1 => "1 byte".to_owned(),
        None => format!("{octets} bytes"),
    }
}
