//! How a run went: a table, and JUnit XML.

use std::io;

use comfy_table::{Cell, CellAlignment, Table, presets};
use quick_xml::Writer;
use quick_xml::events::{BytesDecl, BytesText, Event};

use super::Outcome;

/// The chapters with their scripts, those that failed, and the virtual time.
#[must_use]
pub fn table(outcomes: &[Outcome]) -> String {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    let left_out = outcomes.iter().any(|o| o.skipped.is_some());
    let mut header = vec!["chapter", "scripts", "failed", "messages", "time"];
    if left_out {
        header.push("not for it");
    }
    table.set_header(header);
    let row = |title: &str, outcomes: &[&Outcome]| {
        let failed = outcomes.iter().filter(|o| o.problem.is_some()).count();
        let messages: usize = outcomes.iter().map(|o| o.messages).sum();
        let time: f64 = outcomes.iter().map(|o| o.virtual_time.as_secs_f64()).sum();
        let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
        let mut cells = vec![
            Cell::new(title),
            right(outcomes.len().to_string()),
            right(failed.to_string()),
            right(messages.to_string()),
            right(format!("{time:.0} s")),
        ];
        if left_out {
            let skipped = outcomes.iter().filter(|o| o.skipped.is_some()).count();
            cells.push(right(skipped.to_string()));
        }
        cells
    };
    for chapter in chapters(outcomes) {
        let title = chapter.first().map_or("", |outcome| outcome.chapter());
        table.add_row(row(title, &chapter));
    }
    let all: Vec<&Outcome> = outcomes.iter().collect();
    table.add_row(row("all", &all));
    table.to_string()
}

fn chapters(outcomes: &[Outcome]) -> Vec<Vec<&Outcome>> {
    let chapters = outcomes.chunk_by(|one, other| one.chapter() == other.chapter());
    chapters.map(|chapter| chapter.iter().collect()).collect()
}

/// The run as JUnit XML: a suite for each chapter, a case for each script.
///
/// # Errors
/// The writer's.
pub fn junit<W: io::Write>(outcomes: &[Outcome], into: W) -> io::Result<W> {
    let mut writer = Writer::new_with_indent(into, b' ', 2);
    let declaration = BytesDecl::new("1.0", Some("UTF-8"), None);
    writer.write_event(Event::Decl(declaration))?;
    let count = |outcomes: &[&Outcome]| {
        let failed = outcomes.iter().filter(|o| o.problem.is_some()).count();
        let skipped = outcomes.iter().filter(|o| o.skipped.is_some()).count();
        [outcomes.len(), failed, skipped].map(|count| count.to_string())
    };
    let all: Vec<&Outcome> = outcomes.iter().collect();
    let [tests, failures, skipped] = count(&all);
    writer
        .create_element("testsuites")
        .with_attributes([
            ("name", "scripts"),
            ("tests", tests.as_str()),
            ("failures", failures.as_str()),
            ("skipped", skipped.as_str()),
        ])
        .write_inner_content(|writer| {
            for chapter in chapters(outcomes) {
                let title = chapter.first().map_or("", |outcome| outcome.chapter());
                let [tests, failures, skipped] = count(&chapter);
                writer
                    .create_element("testsuite")
                    .with_attributes([
                        ("name", title),
                        ("tests", tests.as_str()),
                        ("failures", failures.as_str()),
                        ("skipped", skipped.as_str()),
                    ])
                    .write_inner_content(|writer| {
                        chapter.iter().try_for_each(|outcome| case(writer, outcome))
                    })?;
            }
            Ok(())
        })?;
    Ok(writer.into_inner())
}

fn case<W: io::Write>(writer: &mut Writer<W>, outcome: &Outcome) -> io::Result<()> {
    let time = format!("{:.6}", outcome.time.as_secs_f64());
    let element = writer.create_element("testcase").with_attributes([
        ("classname", outcome.chapter()),
        ("name", outcome.name.as_str()),
        ("time", time.as_str()),
    ]);
    let Some(problem) = &outcome.problem else {
        match &outcome.skipped {
            None => element.write_empty()?,
            Some(why) => element.write_inner_content(|writer| {
                let skipped = writer.create_element("skipped");
                skipped
                    .with_attribute(("message", why.as_str()))
                    .write_empty()?;
                Ok(())
            })?,
        };
        return Ok(());
    };
    let text: String = problem.to_string().chars().filter(is_xml).collect();
    let message = text.lines().take(3).collect::<Vec<_>>().join(" ");
    element.write_inner_content(|writer| {
        writer
            .create_element("failure")
            .with_attribute(("message", message.as_str()))
            .write_text_content(BytesText::new(&text))?;
        Ok(())
    })?;
    Ok(())
}

/// What may be in XML 1.0.
const fn is_xml(each: &char) -> bool {
    matches!(each, '\t' | '\n' | ' '..='\u{d7ff}' | '\u{e000}'..='\u{fffd}')
}
