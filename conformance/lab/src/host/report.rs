//! Results: a table to read, and JUnit XML for machines.

use std::fmt::Write as _;
use std::time::Duration;

use comfy_table::{Table, presets};

/// One scenario's result.
#[derive(Clone, Debug)]
pub struct Row {
    /// The scenario.
    pub scenario: &'static str,
    /// Which end is the client and which the server.
    pub direction: String,
    /// The version of SMC that was configured.
    pub version: String,
    /// What carried it and how fast, or the first difference.
    pub result: Result<String, String>,
    /// Not tried, for the reason in the result.
    pub skipped: bool,
    /// How long it took.
    pub took: Duration,
}

impl Row {
    fn verdict(&self) -> (&'static str, &String) {
        match &self.result {
            Ok(why) if self.skipped => ("skip", why),
            Ok(details) => ("pass", details),
            Err(difference) => ("FAIL", difference),
        }
    }
}

/// The table.
#[must_use]
pub fn table(rows: &[Row]) -> String {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["scenario", "direction", "version", "result", "seconds", ""]);
    for row in rows {
        let (result, details) = row.verdict();
        let seconds = format!("{:.1}", row.took.as_secs_f64());
        table.add_row([
            row.scenario,
            &row.direction,
            &row.version,
            result,
            &seconds,
            details,
        ]);
    }
    table.trim_fmt()
}

/// One result in a line.
#[must_use]
pub fn line(row: &Row) -> String {
    let (result, details) = row.verdict();
    let seconds = row.took.as_secs_f64();
    format!(
        "{result}  {:32} {:14} {} {seconds:7.1} s  {details}",
        row.scenario, row.direction, row.version
    )
}

/// Writes the rows as JUnit has them.
#[must_use]
pub fn junit(rows: &[Row]) -> String {
    let failures = rows.iter().filter(|row| row.result.is_err()).count();
    let skipped = rows.iter().filter(|row| row.skipped).count();
    let seconds: f64 = rows.iter().map(|row| row.took.as_secs_f64()).sum();
    let mut xml = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        xml,
        "<testsuite name=\"smc-lab\" tests=\"{}\" failures=\"{failures}\" skipped=\"{skipped}\" time=\"{seconds:.3}\">",
        rows.len()
    );
    for row in rows {
        let _ = write!(
            xml,
            "  <testcase classname=\"{}\" name=\"{}\" time=\"{:.3}\"",
            escaped(&format!("{}.{}", row.direction, row.version)),
            escaped(row.scenario),
            row.took.as_secs_f64(),
        );
        let _ = match &row.result {
            Ok(why) if row.skipped => {
                writeln!(xml, "><skipped message=\"{}\"/></testcase>", escaped(why))
            }
            Ok(_) => writeln!(xml, "/>"),
            Err(difference) => writeln!(
                xml,
                "><failure message=\"{}\"/></testcase>",
                escaped(difference)
            ),
        };
    }
    xml.push_str("</testsuite>\n");
    xml
}

fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML has no way to write most of these at all.
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Row, junit, table};

    #[test]
    fn a_difference_is_in_the_table_and_well_formed_in_the_xml() {
        let row = |result, skipped| Row {
            scenario: "echo",
            direction: "kernel to kernel".into(),
            version: "v2".into(),
            result,
            skipped,
            took: Duration::from_millis(1_500),
        };
        let rows = [
            row(Ok("SMC-R".into()), false),
            row(Err("1 < 2 & \"3\"\n".into()), false),
            row(Ok("no sysctl".into()), true),
        ];
        let text = table(&rows);
        assert!(text.contains("pass") && text.contains("FAIL") && text.contains("1 < 2"));
        assert!(text.contains("skip") && text.contains("no sysctl"));
        let xml = junit(&rows);
        assert!(xml.contains("tests=\"3\" failures=\"1\" skipped=\"1\" time=\"4.500\""));
        assert!(xml.contains("<skipped message=\"no sysctl\"/>"));
        assert!(xml.contains("message=\"1 &lt; 2 &amp; &quot;3&quot; \""));
    }
}
