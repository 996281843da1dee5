//! The messages of cargo and of the compiler.

use std::process::Output;

use serde_json::Value;

use super::Problem;

/// Why cargo built nothing.
#[derive(Debug, Default)]
pub(super) struct Errors {
    /// The file and the line of each error.
    pub(super) places: Vec<(String, usize)>,
    /// Error text of the compiler.
    pub(super) text: String,
}

impl Errors {
    /// The errors of a cargo that failed.
    pub(super) fn of(output: &Output) -> Result<Self, Problem> {
        let mut errors = Self::default();
        messages(output)
            .iter()
            .for_each(|message| errors.add(message));
        if errors.places.is_empty() {
            let why = String::from_utf8_lossy(&output.stderr);
            return Err(Problem::new(format_args!("cargo: {}{why}", errors.text)));
        }
        Ok(errors)
    }

    /// Takes a message of cargo about the compiler, if it is an error.
    fn add(&mut self, message: &Value) {
        let message = &message["message"];
        if message["level"] != "error" {
            return;
        }
        self.text += message["rendered"].as_str().unwrap_or_default();
        let spans = message["spans"].as_array().map(Vec::as_slice);
        for span in spans.unwrap_or_default() {
            if span["is_primary"] == true {
                self.places.extend(place(span));
            }
        }
    }
}

/// The messages that cargo writes, a line each.
pub(super) fn messages(output: &Output) -> Vec<Value> {
    let lines = output.stdout.split(|byte| *byte == b'\n');
    let lines = lines.filter_map(|line| serde_json::from_slice(line).ok());
    lines.collect()
}

/// Where an error is, or where the macro was called that it is in.
fn place(span: &Value) -> Option<(String, usize)> {
    let mut span = span;
    while span["expansion"]["span"].is_object() {
        span = &span["expansion"]["span"];
    }
    let line = usize::try_from(span["line_start"].as_u64()?).ok()?;
    Some((span["file_name"].as_str()?.to_owned(), line))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_error_is_where_its_macro_is_called() {
        let span = |file: &str, line: u32, primary: bool| json!({ "file_name": file, "line_start": line, "is_primary": primary });
        let mut inside = span("library/matches.rs", 9, true);
        inside["expansion"] = json!({ "span": span("a/src/b.rs", 7, true) });
        let spans = [
            span("a/src/c.rs", 3, true),
            span("a/src/c.rs", 1, false),
            inside,
        ];
        let errors_of = |level: &str| {
            let message = json!({ "level": level, "rendered": "why", "spans": spans });
            let mut errors = Errors::default();
            errors.add(&json!({ "reason": "compiler-message", "message": message }));
            errors
        };
        let errors = errors_of("error");
        let places = [("a/src/c.rs".to_owned(), 3), ("a/src/b.rs".to_owned(), 7)];
        assert_eq!(errors.places, places);
        assert_eq!(errors.text, "why");
        assert!(errors_of("warning").places.is_empty());
    }
}
