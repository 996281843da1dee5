//! What needs no code or no test here, and why not: `conformance/ledger/exceptions.md`.

use std::path::Path;

use super::citation::Purpose;
use super::statement::{Who, cells, is_id};
use super::{Row, Unreadable, text};

const FILE: &str = "conformance/ledger/exceptions.md";
const DEVIATIONS: &str = "docs/deviations.md";
const AMBIGUITIES: &str = "docs/ambiguities.md";

/// What allows an exception; there is nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ground {
    /// The requirement is about what is around the engine.
    Host,
    /// The RFC can be read in two ways, and this is the other one.
    Reading(String),
    /// A row of the deviations names what is done instead.
    Deviation,
}

/// Why something may be missing.
#[derive(Clone, Debug)]
pub struct Exception {
    /// What need not be there.
    pub lacks: Vec<Purpose>,
    /// What allows it.
    pub ground: Ground,
    /// In words.
    pub reason: String,
}

pub(super) fn read(root: &Path) -> Result<Vec<(String, Exception)>, Unreadable> {
    let path = root.join(FILE);
    let text = text(&path)?;
    let mut exceptions = Vec::new();
    for line in text.lines() {
        let Some(row) = cells(line) else { continue };
        let Some(id) = row.first().filter(|id| is_id(id)) else {
            continue;
        };
        let wrong = || Unreadable::new(&path, format!("what is \"{line}\"?"));
        let [_, lacks, ground, reason] = row.as_slice() else {
            return Err(wrong());
        };
        let lacks = lacks.split(", ").map(|word| match word {
            "code" => Some(Purpose::Code),
            "test" => Some(Purpose::Test),
            _ => None,
        });
        let ground = match *ground {
            "host" => Ground::Host,
            "deviation" => Ground::Deviation,
            other => match other.strip_prefix("AMB-") {
                Some(number) => Ground::Reading(number.to_owned()),
                None => return Err(wrong()),
            },
        };
        exceptions.push((
            (*id).to_owned(),
            Exception {
                lacks: lacks.collect::<Option<_>>().ok_or_else(wrong)?,
                ground,
                reason: (*reason).to_owned(),
            },
        ));
    }
    Ok(exceptions)
}

impl Exception {
    /// What is wrong with it: no ground, no reason, or no need.
    pub(super) fn faults(&self, root: &Path, row: &Row) -> Result<Vec<String>, Unreadable> {
        let id = &row.statement.id;
        let mut faults = Vec::new();
        let grounded = match &self.ground {
            Ground::Host => row.statement.who == Who::Host,
            Ground::Deviation => first_cells(root, DEVIATIONS)?
                .iter()
                .any(|cell| cell.split(", ").any(|each| each == id)),
            Ground::Reading(number) => first_cells(root, AMBIGUITIES)?
                .iter()
                .any(|cell| cell.split(", ").any(|each| each == number)),
        };
        if !grounded {
            faults.push(format!(
                "the exception of {id} has no ground in the documents"
            ));
        }
        if self.reason.is_empty() {
            faults.push(format!("the exception of {id} has no reason"));
        }
        for purpose in &self.lacks {
            if !row.places(*purpose).is_empty() {
                let name = purpose.name();
                faults.push(format!("{id} has a {name} citation and needs no exception"));
            }
        }
        Ok(faults)
    }
}

fn first_cells(root: &Path, document: &str) -> Result<Vec<String>, Unreadable> {
    let text = text(&root.join(document))?;
    let rows = text.lines().filter_map(cells);
    Ok(rows
        .filter_map(|row| row.first().map(|cell| (*cell).to_owned()))
        .collect())
}
