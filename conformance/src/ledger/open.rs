//! What is still missing and known to be: `conformance/ledger/open.txt`. The list
//! may only shrink.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Ledger, Unreadable, text};

const FILE: &str = "conformance/ledger/open.txt";

/// What is missing and not on the list, and what is on it and not missing any more;
/// a sentence each.
///
/// # Errors
/// The list cannot be read.
pub fn compare_with_open(ledger: &Ledger, root: &Path) -> Result<Vec<String>, Unreadable> {
    let text = text(&root.join(FILE))?;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let listed: BTreeSet<String> = lines.map(str::to_owned).collect();
    let missing: BTreeSet<String> = ledger
        .missing()
        .flat_map(|(row, missing)| {
            let id = &row.statement.id;
            missing
                .into_iter()
                .map(move |purpose| format!("{id} {}", purpose.name()))
        })
        .collect();
    let new = missing.difference(&listed);
    let settled = listed.difference(&missing);
    Ok(new
        .map(|what| format!("{what} is missing"))
        .chain(settled.map(|what| format!("{what} is settled: take it out of {FILE}")))
        .collect())
}
