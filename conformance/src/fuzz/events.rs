//! A body over records of events, and the flight recorder that keeps them.

use std::collections::VecDeque;

use smc_proto::trace::{Entry, FlightRecorder, Kind, Observer, Record, TraceEvent};

use super::clc::is_one_of_many;
use super::text::{print, print_in_part};

/// Records of any octets, and a recorder of any size with the events among them: what a record
/// decodes to is the same behind another record, and the recorder keeps the newest in their order.
pub fn event_records(data: &[u8]) {
    let Some((size, rest)) = data.split_first() else {
        return;
    };
    let size = usize::from(size % 9);
    let records: Vec<Record> = rest.chunks(Record::OCTETS).map(padded).collect();
    // Memory that something else used before.
    let memory = vec![records.first().copied().unwrap_or_default(); size];
    let mut recorder = FlightRecorder::new(memory);
    let (mut kept, mut observed) = (VecDeque::new(), 0u64);
    for record in &records {
        let Some(entry) = decoded(record) else {
            continue;
        };
        if is_one_of_many(record.octets()) {
            print_in_part(&entry);
        }
        recorder.observe(entry.at, entry.subject, &entry.event);
        observed += 1;
        kept.push_back(entry);
        if kept.len() > size {
            kept.pop_front();
        }
        assert!(recorder.entries().eq(kept.iter().copied()));
        assert!(
            recorder
                .records()
                .map(Record::decode)
                .eq(kept.iter().copied().map(Some))
        );
        assert_eq!(recorder.observed(), observed);
        assert_eq!(recorder.overwritten(), observed - kept.len() as u64);
    }
    let text = recorder.to_string();
    let mut lines = text.lines();
    if recorder.overwritten() > 0 {
        assert!(
            lines
                .next()
                .is_some_and(|line| line.ends_with("overwritten)"))
        );
    }
    assert!(lines.eq(kept.iter().map(Entry::to_string)));
    recorder.clear();
    assert_eq!((recorder.observed(), recorder.entries().count()), (0, 0));
}

/// A record of these octets, and zeros behind them.
fn padded(octets: &[u8]) -> Record {
    let mut all = [0; Record::OCTETS];
    all[..octets.len()].copy_from_slice(octets);
    let record = Record::from_octets(all);
    assert_eq!(record.octets(), &all);
    record
}

/// The event of a record, after all that holds for one.
fn decoded(record: &Record) -> Option<Entry> {
    print(record);
    let octets = record.octets();
    let Some(entry) = record.decode() else {
        assert_eq!(record.to_string(), "no event");
        return None;
    };
    let kind = Kind::from_number(octets[16]).expect("an event has a kind");
    assert_eq!((entry.event.kind(), kind as u8), (kind, octets[16]));
    let again = entry.encode();
    assert_eq!(again.decode(), Some(entry));
    assert_eq!(again.octets()[..8], octets[..8], "the time changed");
    assert_eq!(
        again.octets()[16..18],
        octets[16..18],
        "kind or subject changed"
    );
    assert_eq!(record.to_string(), entry.to_string());
    check_fields(&entry.event, kind);
    Some(entry)
}

/// The fields of an event are those of its kind, in their order, and its line has them.
fn check_fields(event: &TraceEvent, kind: Kind) {
    let mut described = kind.fields().iter();
    let mut line = kind.full_name().to_owned();
    event.each_field(|name, value| {
        assert_eq!(described.next().map(|field| field.name), Some(name));
        line = format!("{line} {name}={value}");
    });
    assert!(described.next().is_none());
    assert_eq!(event.to_string(), line);
}
