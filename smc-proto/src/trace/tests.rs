use std::collections::BTreeSet;
use std::string::{String, ToString};
use std::vec::Vec;
use std::{format, vec};

use proptest::prelude::*;

use super::*;
use crate::event::CloseReason;
use crate::id::{ConnId, Idx};
use crate::wire::types::DiagnosisCode;

fn conn(index: u32, generation: u32) -> Subject {
    let index = Idx::new(index);
    Subject::Conn(ConnId { index, generation })
}

/// Records of a kind, without end; octets of fields are small most often, as those of names are.
fn records(kind: Kind) -> impl Iterator<Item = Record> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64 ^ u64::from(kind as u8);
    core::iter::repeat_with(move || {
        let mut draw = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 32) as u32
        };
        let mut octets = [0; Record::OCTETS];
        octets.iter_mut().for_each(|octet| *octet = draw() as u8);
        // A device has a small number.
        octets[9..12].fill(0);
        octets[16] = kind as u8;
        octets[17] = (draw() % 6) as u8;
        for octet in &mut octets[18..] {
            *octet = match draw() % 8 {
                0 => draw() as u8,
                _ => (draw() % 12) as u8,
            };
        }
        Record::from_octets(octets)
    })
}

#[test]
fn each_kind_is_the_same_event_behind_a_record() {
    for kind in Kind::ALL {
        let drawn = records(*kind).take(300_000);
        let mut found = 0;
        for entry in drawn.filter_map(|record| record.decode()).take(50) {
            assert_eq!(entry.event.kind(), *kind);
            let record = entry.encode();
            assert_eq!(record.decode(), Some(entry));
            let text = entry.to_string();
            assert!(text.contains(kind.full_name()), "{text}");
            for field in kind.fields() {
                assert!(text.contains(&format!(" {}=", field.name)), "{text}");
            }
            found += 1;
        }
        assert!(found >= 20, "{kind:?}: {found} events");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(5_000))]

    #[test]
    fn any_octets_are_an_event_or_none(octets in any::<[u8; 32]>(), kind in any::<u8>()) {
        let mut octets = octets;
        octets[16] = kind;
        octets[17] &= 7;
        let record = Record::from_octets(octets);
        prop_assert_eq!(record.octets(), &octets);
        let text = record.to_string();
        match record.decode() {
            None => prop_assert_eq!(text, "no event"),
            Some(entry) => {
                prop_assert_eq!(text, entry.to_string());
                prop_assert_eq!(entry.encode().decode(), Some(entry));
            }
        }
    }
}

#[test]
fn kinds_have_numbers_and_names_of_their_own() {
    let names: BTreeSet<_> = Kind::ALL.iter().map(|kind| kind.full_name()).collect();
    assert_eq!(names.len(), Kind::ALL.len());
    let numbers: BTreeSet<_> = Kind::ALL.iter().map(|kind| *kind as u8).collect();
    assert_eq!(numbers.len(), Kind::ALL.len());
    assert!(!numbers.contains(&0), "an empty record is no event");
    for number in 0..=u8::MAX {
        match Kind::from_number(number) {
            Some(kind) => assert_eq!(kind as u8, number),
            None => assert!(!numbers.contains(&number)),
        }
    }
    let plain = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
    for kind in Kind::ALL {
        assert_eq!(
            kind.full_name(),
            format!("{}:{}", kind.group(), kind.name())
        );
        assert!(plain(kind.group()) && plain(kind.name()), "{kind:?}");
        assert!(kind.meaning().ends_with('.'), "{kind:?}");
        let fields: BTreeSet<_> = kind.fields().iter().map(|field| field.name).collect();
        assert_eq!(fields.len(), kind.fields().len(), "{kind:?}");
        for field in kind.fields() {
            assert!(plain(field.name), "{kind:?}: {}", field.name);
            assert!(field.meaning.ends_with('.'), "{kind:?}: {}", field.name);
        }
    }
}

#[test]
fn an_entry_is_one_line_of_text() {
    let entry = |nanoseconds, subject, event| {
        let at = Instant::from_nanos(nanoseconds);
        Entry { at, subject, event }.to_string()
    };
    assert_eq!(
        entry(
            12_500,
            conn(3, 7),
            TraceEvent::CdcSent {
                sequence: 9,
                producer: 17,
                consumer: 4,
                producer_flags: Flags(0x80),
                connection_flags: Flags(0),
            }
        ),
        "0.000012500 conn3.7 cdc:sent sequence=9 producer=17 consumer=4 producer_flags=0x80 \
         connection_flags=0x00"
    );
    assert_eq!(
        entry(
            u64::MAX,
            conn(0, 0),
            TraceEvent::FellBack {
                code: DiagnosisCode(0x0301_0000),
                peer_code: None,
            }
        ),
        "18446744073.709551615 conn0.0 rendezvous:fell_back code=0x03010000 peer_code=none"
    );
    let event = TraceEvent::ConnClosed {
        reason: CloseReason::LinksLost,
    };
    assert_eq!(
        entry(3_000_000_000, conn(0, 0), event),
        "3.000000000 conn0.0 conn:closed reason=links_lost"
    );
}

#[test]
fn the_recorder_keeps_the_newest_events_in_their_order() {
    for kept in 0..5usize {
        for observed in 0..12u64 {
            let mut recorder = FlightRecorder::new(vec![Record::EMPTY; kept]);
            for n in 0..observed {
                let at = Instant::from_nanos(n);
                recorder.observe(at, Subject::Endpoint, &TraceEvent::CdcStale);
            }
            assert_eq!(recorder.observed(), observed);
            let expected = observed.saturating_sub(kept as u64)..observed;
            assert_eq!(recorder.overwritten(), expected.start);
            let times: Vec<_> = recorder.entries().map(|e| e.at.as_nanos()).collect();
            assert_eq!(times, expected.collect::<Vec<_>>(), "{kept} of {observed}");
            let text: String = recorder.to_string();
            assert_eq!(
                text.lines().filter(|l| l.contains("cdc:stale")).count(),
                times.len()
            );
            recorder.clear();
            assert_eq!(recorder.entries().count(), 0);
        }
    }
}

#[test]
fn observers_compose() {
    let recorder = || FlightRecorder::new([Record::EMPTY; 4]);
    let mut both = (recorder(), Some(recorder()));
    assert!(both.is_on());
    let observe = |observer: &mut dyn Observer| {
        observer.observe(Instant::ZERO, Subject::Endpoint, &TraceEvent::CdcStale);
    };
    observe(&mut both);
    observe(&mut &mut both.0);
    let (first, second) = both;
    assert_eq!(first.observed(), 2);
    assert_eq!(second.unwrap().observed(), 1);
    let nothing: Option<FlightRecorder<[Record; 1]>> = None;
    assert!(!nothing.is_on());
    assert!(!(nothing.clone(), nothing).is_on());
}
