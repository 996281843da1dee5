//! What the engines said they did, and records made of run-time input.

use smc_proto::id::{ConnId, DeviceId};
use smc_proto::time::Instant;
use smc_proto::trace::{Entry, FlightRecorder, Kind, Observer, Record, Subject, TraceEvent};

use crate::fabric::Pair;
use crate::input::Input;
use crate::sink::{Sink, keep};

/// Reads what both engines have recorded, and what no engine has.
pub fn all(pair: &mut Pair, input: &mut Input, sink: &mut Sink) {
    for host in &mut pair.hosts {
        let recorder = host.endpoint.observer_ref();
        keep((recorder.observed(), recorder.overwritten()));
        sink.display(recorder);
        sink.debug(recorder);
        for record in recorder.records() {
            shown(record, sink);
        }
        keep(recorder.entries().count());
        host.endpoint.observer().clear();
    }
    for _ in 0..16 {
        let (head, tail): ([u8; 16], [u8; 16]) = (input.octets(), input.octets());
        let mut octets = [0; Record::OCTETS];
        let all = head.iter().chain(&tail);
        octets
            .iter_mut()
            .zip(all)
            .for_each(|(to, from)| *to = *from);
        shown(&Record::from_octets(octets), sink);
    }
    for kind in Kind::ALL {
        described(*kind, sink);
    }
    keep(Kind::from_number(input.octet()));
    observed(input, sink);
}

fn shown(record: &Record, sink: &mut Sink) {
    sink.display(record);
    sink.hashed(record, &Record::default());
    sink.octets(record.octets());
    let Some(entry) = record.decode() else {
        return;
    };
    let Entry { subject, event, .. } = entry;
    sink.display(&entry);
    sink.value(&entry, &entry);
    keep(entry.encode() == *record);
    sink.display(&event);
    sink.value(&event, &event);
    sink.shown(&subject, &Subject::Endpoint);
    sink.octets(subject.type_name().as_bytes());
    keep(subject.index_and_generation());
    event.each_field(|name, value| {
        sink.octets(name.as_bytes());
        sink.display(&value);
        sink.value(&value, &value);
    });
    described(event.kind(), sink);
}

fn described(kind: Kind, sink: &mut Sink) {
    for text in [kind.group(), kind.name(), kind.full_name(), kind.meaning()] {
        sink.octets(text.as_bytes());
    }
    for field in kind.fields() {
        sink.octets(field.name.as_bytes());
        sink.octets(field.meaning.as_bytes());
        sink.value(field, field);
    }
    sink.hashed(&kind, &Kind::CdcStale);
    sink.ordered(&kind, &Kind::CdcStale);
}

/// Observers that pass events on.
fn observed(input: &mut Input, sink: &mut Sink) {
    let at = Instant::from_nanos(input.u64());
    let device = Subject::from(DeviceId(input.octet()));
    let conn: Option<ConnId> = None;
    let subject = conn.map_or(device, Subject::from);
    let mut both = (
        FlightRecorder::new([Record::EMPTY; 2]),
        input
            .bit()
            .then(|| FlightRecorder::new([Record::new(at, subject, &TraceEvent::CdcStale); 1])),
    );
    let mut observer = &mut both;
    keep(observer.is_on());
    Observer::observe(&mut observer, at, subject, &TraceEvent::ConnFreed);
    sink.display(&both.0);
    keep(both.1.as_ref().map(Observer::is_on));
    keep(both.clone());
}
