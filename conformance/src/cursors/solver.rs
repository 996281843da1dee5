//! An SMT solver, run as a program.

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::Problem;

/// A solver that reads SMT-LIB from its standard input.
#[derive(Clone, Debug)]
pub struct Solver {
    program: PathBuf,
    kind: Kind,
}

/// The programs that are known.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Z3,
    Cvc5,
}

impl Kind {
    fn arguments(self, seconds: u32) -> Vec<String> {
        match self {
            Self::Z3 => vec!["-in".to_owned(), format!("-T:{seconds}")],
            Self::Cvc5 => vec![
                "--lang=smt2".to_owned(),
                "--produce-models".to_owned(),
                format!("--tlimit={}", u64::from(seconds) * 1000),
            ],
        }
    }
}

/// A question to a solver.
#[derive(Clone, Debug)]
pub(super) struct Question {
    /// Declarations and assertions.
    pub(super) text: String,
    /// The constants whose values are of interest.
    pub(super) names: Vec<String>,
}

/// An answer of a solver.
#[derive(Debug)]
pub(super) enum Answer {
    /// There are no values that satisfy the assertions.
    Never,
    /// Some that do.
    At(String),
    /// The solver did not find out in time.
    Unknown,
}

impl Solver {
    /// Z3 or cvc5, by the name of the program.
    ///
    /// # Errors
    /// A program of another name.
    pub fn new(program: PathBuf) -> Result<Self, Problem> {
        let name = program.file_name().and_then(|name| name.to_str());
        let kind = match name {
            Some("z3") => Kind::Z3,
            Some("cvc5") => Kind::Cvc5,
            _ => return Err(Problem::new("known solvers are z3 and cvc5")),
        };
        Ok(Self { program, kind })
    }

    /// Asks for values that satisfy all assertions, and waits for them this long.
    pub(super) fn ask(&self, question: &Question, seconds: u32) -> Result<Answer, Problem> {
        let failed = |what: String| Problem::new(format!("{}: {what}", self.program.display()));
        let mut child = Command::new(&self.program)
            .args(self.kind.arguments(seconds))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| failed(error.to_string()))?;
        let values = match question.names.is_empty() {
            true => String::new(),
            false => format!("(get-value ({}))\n", question.names.join(" ")),
        };
        // Products of unknowns are another theory, and slower.
        let logic = match question.text.contains("(* ") {
            true => "QF_NIA",
            false => "QF_LIA",
        };
        let text = format!(
            "(set-logic {logic})\n{}(check-sat)\n{values}",
            question.text
        );
        let mut input = child
            .stdin
            .take()
            .ok_or_else(|| failed("no standard input".to_owned()))?;
        // A solver that ends early leaves its reason on the standard output.
        let sent = input.write_all(text.as_bytes());
        drop(input);
        let output = child
            .wait_with_output()
            .map_err(|error| failed(error.to_string()))?;
        let output = String::from_utf8_lossy(&output.stdout);
        let (first, rest) = output.split_once('\n').unwrap_or((&output, ""));
        match (first, sent) {
            ("unsat", Ok(())) => Ok(Answer::Never),
            ("sat", Ok(())) => Ok(Answer::At(values_of(rest))),
            ("timeout" | "unknown" | "", Ok(())) => Ok(Answer::Unknown),
            _ => Err(failed(format!("no answer but {output:?}\n{text}"))),
        }
    }
}

/// Names and values without parentheses.
fn values_of(model: &str) -> String {
    let words = model.replace(['(', ')', '|'], " ");
    let words: Vec<&str> = words.split_whitespace().collect();
    let pairs = words.chunks(2).map(|pair| pair.join(" = "));
    pairs.collect::<Vec<_>>().join(", ")
}
