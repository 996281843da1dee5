//! Events as JSON text sequences in qlog's frame.

use std::io::{self, Write};

use serde_json::{Map, Value as Json, json};
use smc_proto::trace::Value;
use smc_view::trace::Unread;

use super::Happened;

/// URI of the schema of the events, `docs/qlog-smc.schema.json`.
pub const SCHEMA: &str = "urn:x-smcx:qlog:events:smc";

/// Largest number that every reader of JSON takes exactly.
const EXACT: u64 = (1 << 53) - 1;

/// What begins each text of a sequence (RFC 7464).
const SEPARATOR: &[u8] = b"\x1e";

/// Writes the head of a trace whose times count from a point in time, in nanoseconds since 1970.
pub(super) fn head(title: &str, origin: u64, out: &mut dyn Write) -> io::Result<()> {
    let head = json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": title,
        "trace": {
            "common_fields": {
                "time_format": "relative_to_epoch",
                "reference_time": { "clock_type": "system", "epoch": date(origin) },
            },
            "vantage_point": {
                "name": concat!("smcx ", env!("CARGO_PKG_VERSION")),
                "type": "unknown",
            },
            "event_schemas": [SCHEMA],
        },
    });
    text(&head, out)
}

/// Writes an event.
pub(super) fn event(of: &Happened, origin: u64, out: &mut dyn Write) -> io::Result<()> {
    let entry = &of.entry;
    let kind = entry.event.kind();
    let mut data = Map::new();
    entry.event.each_field(|name, value| {
        if let Some(value) = json_of(value) {
            data.insert(name.to_owned(), value);
        }
    });
    let group = format!("{}/{}/{}", of.process, of.stack, entry.subject);
    let mut event = json!({
        "time": milliseconds(of.at, origin),
        "name": format!("smc:{}_{}", kind.group(), kind.name()),
        "data": data,
        "group_id": group,
        "system_info": { "process_id": of.process },
        "stack": of.stack,
        "subject": entry.subject.to_string(),
        "engine_time": number(entry.at.as_nanos()),
    });
    if let (Some(tuple), Some(event)) = (of.tuple(), event.as_object_mut()) {
        event.insert("tuple".to_owned(), tuple.into());
    }
    text(&event, out)
}

/// Writes how many events were not read, at a point in time.
pub(super) fn unread(unread: Unread, at: u64, origin: u64, out: &mut dyn Write) -> io::Result<()> {
    let event = json!({
        "time": milliseconds(at, origin),
        "name": "smc:trace_lost",
        "data": { "lost": number(unread.lost), "unknown": number(unread.unknown) },
    });
    text(&event, out)
}

fn text(json: &Json, out: &mut dyn Write) -> io::Result<()> {
    out.write_all(SEPARATOR)?;
    serde_json::to_writer(&mut *out, json)?;
    out.write_all(b"\n")
}

/// A value of a field; `None` if there is none.
fn json_of(value: Value) -> Option<Json> {
    match value {
        Value::Number(value) => Some(number(value)),
        Value::Flag(flag) => Some(flag.into()),
        Value::Absent => None,
        Value::Name(name) => Some(name.into()),
        // Codes, objects, and what comes to be.
        other => Some(other.to_string().into()),
    }
}

/// A number; those that are too large for some readers are text.
fn number(number: u64) -> Json {
    match number {
        ..=EXACT => number.into(),
        large => large.to_string().into(),
    }
}

fn milliseconds(at: u64, origin: u64) -> f64 {
    (i128::from(at) - i128::from(origin)) as f64 / 1e6
}

/// A point in time as RFC 3339 has it, of nanoseconds since 1970.
fn date(at: u64) -> String {
    let milliseconds = at / 1_000_000;
    let (days, of_day) = (milliseconds / 86_400_000, milliseconds % 86_400_000);
    // Years begin with March here, so that the day of a leap year is the last one.
    let since = days + 719_468;
    let (era, of_era) = (since / 146_097, since % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let (month, next) = match month {
        0..10 => (month + 3, 0),
        _ => (month - 9, 1),
    };
    let year = year + era * 400 + next;
    let (hour, minute) = (of_day / 3_600_000, of_day / 60_000 % 60);
    let (second, rest) = (of_day / 1000 % 60, of_day % 1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{rest:03}Z")
}

#[cfg(test)]
mod tests {
    use super::{date, milliseconds, number};

    #[test]
    fn dates_are_those_of_the_calendar() {
        for (seconds, expected) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399, "2000-02-28T23:59:59.000Z"),
            (951_782_400, "2000-02-29T00:00:00.000Z"),
            (951_868_800, "2000-03-01T00:00:00.000Z"),
            (1_709_164_800, "2024-02-29T00:00:00.000Z"),
            (1_798_761_599, "2026-12-31T23:59:59.000Z"),
            (4_107_542_400, "2100-03-01T00:00:00.000Z"),
        ] {
            assert_eq!(date(seconds * 1_000_000_000), expected);
        }
        assert_eq!(date(1_999_999), "1970-01-01T00:00:00.001Z");
        assert_eq!(date(u64::MAX), "2554-07-21T23:34:33.709Z");
    }

    #[test]
    fn numbers_that_json_cannot_hold_are_text() {
        assert_eq!(number((1 << 53) - 1).to_string(), "9007199254740991");
        assert_eq!(number(1 << 53).to_string(), "\"9007199254740992\"");
        assert_eq!(milliseconds(1_000_001, 1), 1.0);
        assert_eq!(milliseconds(0, 500_000), -0.5);
    }
}
