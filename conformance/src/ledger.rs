//! Which line decides a requirement, and which test proves it.
//!
//! Requirements are the numbered statements of `docs/`; what is known about them
//! comes from the citations in code (`//= CLC-014`) and tests (`//= CLC-014 test`)
//! alone. `cargo run -p conformance -- ledger` prints it.

mod citation;
mod exception;
mod open;
mod report;
mod statement;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use citation::Citation;
pub use citation::{Place, Purpose};
pub use exception::Exception;
pub use open::compare_with_open;
pub use report::{json, table};
pub use statement::{Statement, Who};

/// What a statement needs before it is settled.
const REQUIREMENTS: [(&str, &[Purpose]); 5] = [
    ("docs/rfc7609.md", &[Purpose::Code, Purpose::Test]),
    ("docs/smc-v2.md", &[Purpose::Code, Purpose::Test]),
    ("docs/smc-d.md", &[Purpose::Code, Purpose::Test]),
    ("docs/shared-memory.md", &[Purpose::Code, Purpose::Test]),
    // Defects and attacks: whatever line keeps them out, a test has to show it.
    (REGRESSIONS, &[Purpose::Test]),
];

/// The list of what is withstood.
const REGRESSIONS: &str = "docs/regressions.md";

/// One statement with all that is known about it.
#[derive(Clone, Debug)]
pub struct Row {
    /// The statement.
    pub statement: Statement,
    /// What it needs.
    pub needs: &'static [Purpose],
    /// Lines that decide it.
    pub code: Vec<Place>,
    /// Tests that prove it.
    pub tests: Vec<Place>,
    /// Why something may be missing.
    pub exception: Option<Exception>,
}

impl Row {
    /// The places of one purpose.
    #[must_use]
    pub fn places(&self, purpose: Purpose) -> &[Place] {
        match purpose {
            Purpose::Code => &self.code,
            Purpose::Test => &self.tests,
        }
    }

    /// What is needed, is not there, and is not excepted.
    pub fn missing(&self) -> impl Iterator<Item = Purpose> + '_ {
        self.lacking().filter(|purpose| {
            self.exception
                .as_ref()
                .is_none_or(|exception| !exception.lacks.contains(purpose))
        })
    }

    /// What is needed and not there.
    fn lacking(&self) -> impl Iterator<Item = Purpose> + '_ {
        let needs = self.needs.iter().copied();
        needs.filter(|purpose| self.places(*purpose).is_empty())
    }

    /// Whether this is a regression, not a requirement.
    #[must_use]
    pub fn is_regression(&self) -> bool {
        self.statement.document == REGRESSIONS
    }
}

/// All statements, in the order of the documents.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// The rows.
    pub rows: Vec<Row>,
    /// Citations and exceptions that make no sense, a sentence each.
    pub faults: Vec<String>,
}

/// Why there is no ledger: a file cannot be read, or holds what is not understood.
#[derive(Debug)]
pub struct Unreadable {
    path: PathBuf,
    what: String,
}

impl Unreadable {
    fn new(path: &Path, what: impl fmt::Display) -> Self {
        Self {
            path: path.to_owned(),
            what: what.to_string(),
        }
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path.display(), self.what)
    }
}

/// The text of a file.
fn text(path: &Path) -> Result<String, Unreadable> {
    std::fs::read_to_string(path).map_err(|error| Unreadable::new(path, error))
}

/// The repository that this program was built from.
#[must_use]
pub fn repository() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

impl Ledger {
    /// Reads the documents and sources below `root`.
    ///
    /// # Errors
    /// A file that is missing or is not what it should be.
    pub fn read(root: &Path) -> Result<Self, Unreadable> {
        let mut ledger = Self::default();
        for (document, needs) in REQUIREMENTS {
            for statement in statement::read(root, document)? {
                ledger.rows.push(Row {
                    statement,
                    needs,
                    code: Vec::new(),
                    tests: Vec::new(),
                    exception: None,
                });
            }
        }
        let mut by_id = BTreeMap::new();
        for (index, row) in ledger.rows.iter().enumerate() {
            if by_id.insert(row.statement.id.clone(), index).is_some() {
                let id = &row.statement.id;
                ledger.faults.push(format!("{id} is stated twice"));
            }
        }
        let found = citation::read(root)?;
        ledger.faults.extend(found.faults);
        for Citation { id, purpose, place } in found.citations {
            let Some(row) = by_id.get(&id).and_then(|index| ledger.rows.get_mut(*index)) else {
                ledger
                    .faults
                    .push(format!("{place} cites {id}, which nothing states"));
                continue;
            };
            let places = match purpose {
                Purpose::Code => &mut row.code,
                Purpose::Test => &mut row.tests,
            };
            if !places.contains(&place) {
                places.push(place);
            }
        }
        let exceptions = exception::read(root)?;
        for (id, exception) in exceptions {
            let Some(row) = by_id.get(&id).and_then(|index| ledger.rows.get_mut(*index)) else {
                let fault = format!("an exception names {id}, which nothing states");
                ledger.faults.push(fault);
                continue;
            };
            ledger.faults.extend(exception.faults(root, row)?);
            row.exception = Some(exception);
        }
        Ok(ledger)
    }

    /// What is missing: the ID and the purposes of each row that is not settled.
    pub fn missing(&self) -> impl Iterator<Item = (&Row, Vec<Purpose>)> {
        let rows = self.rows.iter();
        rows.map(|row| (row, row.missing().collect::<Vec<_>>()))
            .filter(|(_, missing)| !missing.is_empty())
    }
}
