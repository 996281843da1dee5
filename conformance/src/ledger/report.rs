//! The ledger as a table and as JSON.

use std::fmt::Write;

use comfy_table::{
    Cell, CellAlignment, ColumnConstraint, ContentArrangement, Table, Width, presets,
};
use serde_json::{Value, json};

use super::{Place, Purpose, Row};

/// Places that a cell has room for.
const SHOWN: usize = 3;
/// Characters of a statement that are shown.
const TITLE: usize = 90;

/// The rows by chapter, and how many of each are settled.
#[must_use]
pub fn table(rows: &[&Row]) -> String {
    let mut text = String::new();
    let mut summary = Table::new();
    summary.load_style(presets::UTF8_FULL_CONDENSED);
    summary.set_header(["chapter", "rows", "settled", "excepted", "open"]);
    let mut totals = [0; 4];
    for chapter in rows.chunk_by(|one, other| same_chapter(one, other)) {
        let Some(first) = chapter.first() else {
            continue;
        };
        let title = format!("{} — {}", first.statement.document, first.statement.chapter);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{title}\n{}\n", of_chapter(chapter));
        let counts = count(chapter);
        summary.add_row(numbered(&title, counts));
        for (total, count) in totals.iter_mut().zip(counts) {
            *total += count;
        }
    }
    summary.add_row(numbered("all", totals));
    let _ = write!(text, "{summary}");
    text
}

fn same_chapter(one: &Row, other: &Row) -> bool {
    one.statement.document == other.statement.document
        && one.statement.chapter == other.statement.chapter
}

/// Rows, those settled, those excepted in part or whole, those open.
fn count(rows: &[&Row]) -> [usize; 4] {
    let open = rows.iter().filter(|row| row.missing().next().is_some());
    let open = open.count();
    let excepted = rows.iter().filter(|row| row.exception.is_some()).count();
    let settled = rows
        .iter()
        .filter(|row| row.exception.is_none() && row.missing().next().is_none());
    [rows.len(), settled.count(), excepted, open]
}

fn numbered(title: &str, numbers: [usize; 4]) -> Vec<Cell> {
    let numbers = numbers
        .into_iter()
        .map(|number| Cell::new(number).set_alignment(CellAlignment::Right));
    std::iter::once(Cell::new(title)).chain(numbers).collect()
}

fn of_chapter(rows: &[&Row]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(160);
    // The line that withstands something needs no citation.
    let needs_code = rows.iter().any(|row| row.needs.contains(&Purpose::Code));
    let code = needs_code.then_some("code");
    table.set_header(["ID", "what"].into_iter().chain(code).chain(["tests"]));
    table.set_constraints([
        ColumnConstraint::ContentWidth,
        ColumnConstraint::UpperBoundary(Width::Fixed(50)),
    ]);
    for row in rows {
        let cell = |purpose| {
            let places = row.places(purpose);
            if !places.is_empty() {
                return shown(places);
            }
            match &row.exception {
                _ if !row.needs.contains(&purpose) => String::new(),
                Some(exception) if exception.lacks.contains(&purpose) => {
                    format!("({})", exception.reason)
                }
                _ => "✗ missing".to_owned(),
            }
        };
        let what = [row.statement.id.clone(), beginning(&row.statement.title)];
        let code = needs_code.then(|| cell(Purpose::Code));
        let tests = [cell(Purpose::Test)];
        table.add_row(what.into_iter().chain(code).chain(tests));
    }
    table
}

fn shown(places: &[Place]) -> String {
    let mut lines: Vec<String> = places.iter().take(SHOWN).map(brief).collect();
    if let Some(more @ 1..) = places.len().checked_sub(SHOWN) {
        lines.push(format!("and {more} more"));
    }
    lines.join("\n")
}

/// Beginning of a long statement, enough to recognise it.
fn beginning(title: &str) -> String {
    match title.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", title.get(..end).unwrap_or(title)),
        None => title.to_owned(),
    }
}

/// A place without the folders that all files have.
fn brief(place: &Place) -> String {
    let file = place.file.replace("/src/", "/").replace("/tests/", "/");
    let file = ["smc-proto/", "conformance/"]
        .iter()
        .find_map(|crate_name| file.strip_prefix(crate_name))
        .unwrap_or(&file);
    match &place.test {
        Some(script) if file.ends_with(".smc") => format!("scripts {script}"),
        Some(test) => format!("{}::{test}", file.trim_end_matches(".rs")),
        None => format!("{file}:{}", place.line),
    }
}

/// The rows as an array of objects.
#[must_use]
pub fn json(rows: &[&Row]) -> Value {
    let places = |places: &[Place]| -> Vec<Value> {
        let places = places.iter();
        places
            .map(|place| json!({"file": place.file, "line": place.line, "test": place.test}))
            .collect()
    };
    rows.iter()
        .map(|row| {
            let exception = row.exception.as_ref();
            let missing: Vec<&str> = row.missing().map(Purpose::name).collect();
            json!({
                "id": row.statement.id,
                "document": row.statement.document,
                "chapter": row.statement.chapter,
                "title": row.statement.title,
                "code": places(&row.code),
                "tests": places(&row.tests),
                "exception": exception.map(|exception| &exception.reason),
                "missing": missing,
            })
        })
        .collect()
}
