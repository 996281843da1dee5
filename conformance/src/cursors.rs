//! Laws of cursor arithmetic, proven for every ring and every position by an SMT solver.
//!
//! `smc-proto/src/connection/cursor.rs` and `spans.rs` are read as source text and translated
//! into terms over integers (`translate`); the laws (`laws`) are Rust functions that
//! call those functions and are translated together with them. A solver must find no
//! arguments for which a law fails.
//!
//! Four checks tie formulas to code:
//!
//! * the text that is translated is the text that `smc-proto` is compiled from, at each run;
//!   an item or expression that the translator does not know is an error, never left out;
//! * the same files are compiled into this crate, too, and each function and law is run at
//!   many points: a formula that differs from the compiled code anywhere there is an error
//!   (`points`);
//! * each law must have arguments to which it applies: none holds vacuously;
//! * every small change of `cursor.rs` (`changes`) must make some law fail.

mod changes;
mod laws;
mod parallel;
mod points;
mod program;
mod solver;
mod terms;
mod translate;

/// `smc-proto`'s cursors, compiled from the file that is translated.
#[path = "../../smc-proto/src/connection/cursor.rs"]
#[allow(dead_code, unreachable_pub, reason = "a part of it is compared")]
mod cursor;

/// `smc-proto`'s spans, compiled from the file that is translated.
#[path = "../../smc-proto/src/connection/spans.rs"]
#[allow(dead_code, unreachable_pub, reason = "a part of it is compared")]
mod spans;

use std::fmt;
use std::path::{Path, PathBuf};

use program::Program;
use solver::Answer;
pub use solver::Solver;

/// Longest time for the proof of a law, on a busy machine; most take a tenth of a second.
const PROOF_SECONDS: u32 = 120;

/// Longest time for one law's search for a change: another law may see it at once.
const REFUTATION_SECONDS: u32 = 5;

/// Why there is no result.
#[derive(Debug)]
pub struct Problem(String);

impl Problem {
    fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Problem {}

/// Result of a law for all its arguments.
#[derive(Debug)]
pub struct Proof {
    /// Name of the law.
    pub law: String,
    /// Arguments for which the law fails; `None` if there are none.
    pub fails_at: Option<String>,
}

/// Result of a change of the code.
#[derive(Debug)]
pub struct Refutation {
    /// The change, with its line in `cursor.rs`.
    pub change: String,
    /// The law that fails, and where; `None` if every law still holds.
    pub refuted_by: Option<(String, String)>,
    /// Why a change alters nothing, if no law is expected to fail.
    pub equivalent: Option<&'static str>,
}

/// The texts that are translated.
#[derive(Clone, Debug)]
pub struct Sources {
    cursor: String,
    spans: String,
    types: String,
}

impl Sources {
    /// Reads the sources of `smc-proto` in a checkout.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn read(root: &Path) -> Result<Self, Problem> {
        let read = |name: &str| {
            let path: PathBuf = root.join("smc-proto/src").join(name);
            std::fs::read_to_string(&path)
                .map_err(|error| Problem::new(format!("{}: {error}", path.display())))
        };
        Ok(Self {
            cursor: read("connection/cursor.rs")?,
            spans: read("connection/spans.rs")?,
            types: read("wire/types.rs")?,
        })
    }

    /// Translates the sources and the laws.
    fn program(&self) -> Result<Program, Problem> {
        Program::parse([
            ("cursor.rs", self.cursor.as_str()),
            ("spans.rs", self.spans.as_str()),
            ("laws.rs", include_str!("cursors/laws.rs")),
            ("types.rs", &program::only_struct(&self.types, "Cursor")?),
        ])
    }
}

/// Compares every function and law with its compiled twin at `count` points each.
///
/// Returns the number of functions and laws compared.
///
/// # Errors
/// A formula that differs from the code, a function that cannot be translated or is not
/// compared, a solver that does not work.
pub fn compare(sources: &Sources, solver: &Solver, count: usize) -> Result<usize, Problem> {
    points::compare(sources, solver, count)
}

/// Proves all laws.
///
/// # Errors
/// A law that applies to nothing, a solver that does not work or does not decide.
pub fn prove(sources: &Sources, solver: &Solver) -> Result<Vec<Proof>, Problem> {
    parallel::map(&sources.program()?.laws(), |law| {
        // A syntax tree stays with its thread.
        let formula = translate::law(&sources.program()?, law)?;
        if !matches!(
            solver.ask(&formula.applies(), PROOF_SECONDS)?,
            Answer::At(_)
        ) {
            return Err(Problem::new(format!("{law}: no arguments it applies to")));
        }
        let fails_at = match solver.ask(&formula.fails(), PROOF_SECONDS)? {
            Answer::Never => None,
            Answer::At(arguments) => Some(arguments),
            Answer::Unknown => return Err(Problem::new(format!("{law}: not decided in time"))),
        };
        let law = law.clone();
        Ok(Proof { law, fails_at })
    })
}

/// Changes `cursor.rs` in every known way, one change at a time, and searches for a law that
/// fails.
///
/// # Errors
/// A change that cannot be made or translated, a solver that does not work or does not decide.
pub fn refute(sources: &Sources, solver: &Solver) -> Result<Vec<Refutation>, Problem> {
    parallel::map(&changes::all(&sources.cursor)?, |change| {
        let changed = Sources {
            cursor: change.applied(&sources.cursor),
            ..sources.clone()
        };
        let program = changed.program()?;
        let mut refuted_by = None;
        let mut undecided = Vec::new();
        for law in program.laws() {
            let formula = translate::law(&program, &law)?;
            if !change.function.is_empty() && !formula.calls(&change.function) {
                continue;
            }
            match solver.ask(&formula.fails(), REFUTATION_SECONDS)? {
                Answer::At(arguments) => {
                    refuted_by = Some((law, arguments));
                    break;
                }
                Answer::Unknown => undecided.push((law, formula)),
                Answer::Never => {}
            }
        }
        // No law sees the change at once: on a busy machine one may take longer.
        if refuted_by.is_none() && change.equivalent.is_none() {
            for (law, formula) in undecided {
                if let Answer::At(arguments) = solver.ask(&formula.fails(), PROOF_SECONDS)? {
                    refuted_by = Some((law, arguments));
                    break;
                }
            }
        }
        Ok(Refutation {
            refuted_by,
            equivalent: change.equivalent,
            change: change.name.clone(),
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources() -> Sources {
        Sources::read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("..")).unwrap()
    }

    /// What the translator makes of a law with this body, if it knows it.
    fn law(body: &str) -> Result<(), Problem> {
        let text = format!("fn law(a: u32, b: u32) -> Option<bool> {{ {body} }}");
        let program = Program::parse([("laws.rs", text.as_str())])?;
        assert_eq!(program.laws(), ["law"]);
        translate::law(&program, "law").map(|_| ())
    }

    #[test]
    fn code_that_the_translator_does_not_know_is_refused() {
        law("Some(a.wrapping_add(b) >= a)").unwrap();
        for body in [
            "Some(a + b >= a)",
            "Some(a / b >= a)",
            "let mut c = a; c = b; Some(c == b)",
            "for _ in 0..b {} Some(a == b)",
            "Some(a.leading_zeros() == b)",
            "if a == b { other(); } Some(a == b)",
            "let c = if a == b { return None; } else { b }; Some(c == b)",
            "Some(unsafe { a == b })",
            "Some(a as u8 == 1)",
            "Some(u64::from(a) as i128 == 1)",
            "assert!(a == b); Some(true)",
        ] {
            law(body).expect_err(body);
        }
    }

    #[test]
    fn every_change_of_the_cursors_can_be_translated() {
        let sources = sources();
        let changes = changes::all(&sources.cursor).unwrap();
        assert!(changes.len() > 100, "{}", changes.len());
        for change in changes {
            let cursor = change.applied(&sources.cursor);
            assert_ne!(cursor, sources.cursor, "{}", change.name);
            let changed = Sources {
                cursor,
                ..sources.clone()
            };
            let program = changed.program().unwrap();
            for law in program.laws() {
                translate::law(&program, &law)
                    .unwrap_or_else(|problem| panic!("{}: {law}: {problem}", change.name));
            }
        }
    }
}
