//! Every requirement has its line and its test, or is known not to have it yet.

use conformance::ledger::{self, Ledger};

fn read() -> Ledger {
    match Ledger::read(&ledger::repository()) {
        Ok(ledger) => ledger,
        Err(unreadable) => panic!("{unreadable}"),
    }
}

#[test]
fn what_is_cited_is_stated_and_what_is_stated_is_cited() {
    let ledger = read();
    let mut problems = ledger.faults.clone();
    match ledger::compare_with_open(&ledger, &ledger::repository()) {
        Ok(differences) => problems.extend(differences),
        Err(unreadable) => problems.push(unreadable.to_string()),
    }
    assert!(problems.is_empty(), "\n{}", problems.join("\n"));
}

#[test]
fn no_statement_was_lost() {
    let ledger = read();
    let of = |document: &str| {
        let rows = ledger.rows.iter();
        rows.filter(|row| row.statement.document == document)
            .count()
    };
    assert!(of("docs/rfc7609.md") >= 549);
    assert!(of("docs/smc-v2.md") >= 109);
    assert!(of("docs/smc-d.md") >= 42);
    assert!(of("docs/shared-memory.md") >= 29);
    assert!(of("docs/regressions.md") >= 123);
}
