//! `conformance ledger` and `conformance regressions`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Args;
use conformance::ledger::{self, Ledger, Row};

#[derive(Args)]
pub(crate) struct Selection {
    /// IDs, or the beginnings of some: CLC, CLC-014, V2-2.
    ids: Vec<String>,
    /// Only what is missing.
    #[arg(long)]
    open: bool,
    /// JSON in place of tables.
    #[arg(long)]
    json: bool,
}

impl Selection {
    fn has(&self, row: &Row) -> bool {
        let id = &row.statement.id;
        let named = self.ids.is_empty() || self.ids.iter().any(|each| id.starts_with(each));
        named && (!self.open || row.missing().next().is_some())
    }

    pub(crate) fn run(&self, regressions: bool) -> ExitCode {
        let ledger = match Ledger::read(&ledger::repository()) {
            Ok(ledger) => ledger,
            Err(unreadable) => {
                eprintln!("conformance: {unreadable}");
                return ExitCode::from(2);
            }
        };
        let rows = ledger.rows.iter();
        let rows: Vec<&Row> = rows
            .filter(|row| row.is_regression() == regressions && self.has(row))
            .collect();
        let text = if self.json {
            format!("{:#}", ledger::json(&rows))
        } else {
            ledger::table(&rows)
        };
        // The reader of a pipe may have closed it.
        let _ = writeln!(io::stdout().lock(), "{text}");
        for fault in &ledger.faults {
            eprintln!("conformance: {fault}");
        }
        let open = rows.iter().filter(|row| row.missing().next().is_some());
        let open = open.count();
        if open > 0 {
            eprintln!("conformance: {open} without code or test");
        }
        ExitCode::from(u8::from(open > 0 || !ledger.faults.is_empty()))
    }
}
