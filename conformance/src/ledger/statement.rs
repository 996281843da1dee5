//! The numbered statements of a document: rows of its tables that begin with an
//! ID, and paragraphs that begin with one in bold.

use std::path::Path;

use super::{Unreadable, text};

/// Whose a requirement is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Who {
    /// The engine's, or that of whatever the document is about.
    Engine,
    /// The transport has to help.
    Adapter,
    /// The TCP stack, operating system or application around the engine.
    Host,
}

/// A numbered statement.
#[derive(Clone, Debug)]
pub struct Statement {
    /// The ID that citations name.
    pub id: String,
    /// The document, from the root of the repository.
    pub document: &'static str,
    /// The heading it is under.
    pub chapter: String,
    /// The statement, or its beginning.
    pub title: String,
    /// Owner of the statement.
    pub who: Who,
}

/// Whether `text` is an ID: letters and digits, a hyphen, at most one letter, digits.
pub(super) fn is_id(text: &str) -> bool {
    let Some((chapter, number)) = text.split_once('-') else {
        return false;
    };
    let digits = number.strip_prefix(|first: char| first.is_ascii_uppercase());
    let digits = digits.unwrap_or(number);
    chapter.starts_with(|first: char| first.is_ascii_uppercase())
        && chapter
            .chars()
            .all(|each| each.is_ascii_uppercase() || each.is_ascii_digit())
        && (2..=3).contains(&digits.len())
        && digits.chars().all(|each| each.is_ascii_digit())
}

/// The cells of a table's row.
pub(super) fn cells(line: &str) -> Option<Vec<&str>> {
    let inner = line.trim().strip_prefix('|')?.strip_suffix('|')?;
    Some(inner.split('|').map(str::trim).collect())
}

pub(super) fn read(root: &Path, document: &'static str) -> Result<Vec<Statement>, Unreadable> {
    let path = root.join(document);
    let text = text(&path)?;
    let mut chapter = String::new();
    let mut head = Vec::new();
    let mut statements: Vec<Statement> = Vec::new();
    // Whether the last statement is a paragraph that goes on.
    let mut open = false;
    for line in text.lines() {
        let mut state = |id: &str, title: &str, who| {
            statements.push(Statement {
                id: id.to_owned(),
                document,
                chapter: chapter.clone(),
                title: title.to_owned(),
                who,
            });
        };
        if let Some(heading) = line.strip_prefix("## ") {
            let name = heading.trim_start_matches(|each: char| each.is_ascii_digit());
            let name = name.strip_prefix(". ").unwrap_or(heading);
            chapter = name.to_owned();
            open = false;
        } else if let Some(row) = cells(line) {
            open = false;
            if row.first() == Some(&"ID") {
                head = row;
            } else if let Some(id) = row.first().filter(|first| is_id(first)) {
                let cell = |name: &[&str]| {
                    let column = head.iter().position(|each| name.contains(each))?;
                    row.get(column).copied()
                };
                let title = cell(&["title", "statement", "what is withstood"]);
                let title = title.ok_or_else(|| Unreadable::new(&path, format!("no {id}")))?;
                let who = match cell(&["who"]) {
                    None | Some("") => Who::Engine,
                    Some("adapter") => Who::Adapter,
                    Some("host") => Who::Host,
                    Some(other) => return Err(Unreadable::new(&path, format!("who is {other}?"))),
                };
                state(id, title, who);
            }
        } else if let Some((id, rest)) = line
            .strip_prefix("**")
            .and_then(|bold| bold.split_once("**"))
            .filter(|(id, _)| is_id(id))
        {
            state(id, rest.trim(), Who::Engine);
            open = true;
        } else if line.is_empty() || line.starts_with("- ") {
            open = false;
        } else if let Some(last) = statements.last_mut().filter(|_| open) {
            last.title.push(' ');
            last.title.push_str(line.trim());
        }
    }
    if statements.is_empty() {
        return Err(Unreadable::new(&path, "no statements"));
    }
    Ok(statements)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_have_a_chapter_and_a_number() {
        for id in ["CLC-014", "V2-210", "D-001", "SHM-031", "CASE-A01"] {
            assert!(is_id(id), "{id}");
        }
        for other in [
            "CLC", "CLC-14-2", "clc-014", "CLC-", "-014", "CASE-AA1", "A.3.2", "CLC-1",
        ] {
            assert!(!is_id(other), "{other}");
        }
    }
}
