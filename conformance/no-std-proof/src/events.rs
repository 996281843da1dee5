//! Events: those that the recorders of the endpoints kept, and records of any octets.

use core::fmt::Debug;
use core::hash::Hash;

use smc_proto::command::BufferKind;
use smc_proto::endpoint::Endpoint;
use smc_proto::id::DeviceId;
use smc_proto::storage::Storage;
use smc_proto::time::Instant;
use smc_proto::trace::{
    BufferStep, Entry, FieldInfo, Flags, FlightRecorder, GroupStep, Kind, LinkStep, LlcKind,
    Observer, QpStep, Record, RendezvousStep, Side, Subject, TcpAction, TimerKind, TraceEvent,
    Value,
};

use crate::Failure;
use crate::input::Input;
use crate::objects::Handles;
use crate::observed::Stored;
use crate::sink::{Sink, keep};

/// Reads all that the recorder of an endpoint kept, and the records again.
pub fn recorded<T: Storage>(
    endpoint: &mut Endpoint<Stored<T>>,
    sink: &mut Sink,
) -> Result<(), Failure> {
    keep(endpoint.observer_ref().observed());
    let recorder = endpoint.observer();
    sink.display(recorder);
    sink.debug(recorder);
    keep((recorder.overwritten(), recorder.clone().is_on()));
    if recorder.observed() == 0 || recorder.records().next().is_none() {
        return Err(Failure::NoEvents);
    }
    for record in recorder.records() {
        let entry = record.decode().ok_or(Failure::EventDisagrees)?;
        again(&entry, sink)?;
    }
    keep(recorder.entries().last());
    recorder.clear();
    Ok(())
}

/// The record of an event is the same event.
fn again(entry: &Entry, sink: &mut Sink) -> Result<(), Failure> {
    sink.value(entry, entry);
    sink.display(entry);
    sink.value(&entry.event, &TraceEvent::CdcStale);
    let record = entry.encode();
    sink.hashed(&record, &Record::EMPTY);
    sink.display(&record);
    (record.decode().as_ref() == Some(entry))
        .then_some(())
        .ok_or(Failure::EventDisagrees)?;
    let mut fields = 0usize;
    entry.event.each_field(|name, value| {
        fields = fields.saturating_add(1);
        sink.octets(name.as_bytes());
        sink.value(&value, &Value::Absent);
        sink.display(&value);
    });
    (fields == entry.event.kind().fields().len())
        .then_some(())
        .ok_or(Failure::EventDisagrees)
}

/// Decodes records of any octets, of each kind and subject.
pub fn any(input: &mut Input, sink: &mut Sink) -> Result<(), Failure> {
    sink.hashed(&Record::default(), &Record::EMPTY);
    for kind in Kind::ALL {
        sink.hashed(kind, &Kind::CdcStale);
        sink.ordered(kind, &Kind::CdcStale);
        keep(Kind::from_number(input.octet()));
        for text in [kind.group(), kind.name(), kind.full_name(), kind.meaning()] {
            sink.octets(text.as_bytes());
        }
        for field in kind.fields() {
            let FieldInfo { name, meaning, .. } = field;
            sink.octets(name.as_bytes());
            sink.octets(meaning.as_bytes());
            sink.value(field, field);
        }
        for _ in 0..8 {
            let mut octets: [u8; Record::OCTETS] = input.octets();
            // Names have small numbers, and so have devices.
            let small = input.bit();
            let (_, rest) = octets.split_at_mut_checked(9).unwrap_or_default();
            for octet in rest.iter_mut().filter(|_| small) {
                *octet &= 3;
            }
            if let [_, _, _, _, _, _, _, number, subject, ..] = rest {
                *number = *kind as u8;
                *subject &= 7;
            }
            let record = Record::from_octets(octets);
            keep(record.octets());
            sink.display(&record);
            if let Some(entry) = record.decode() {
                sink.hashed(&entry.subject, &Subject::Endpoint);
                again(&entry, sink)?;
            }
        }
    }
    names(input, sink);
    Ok(())
}

fn named<T: Copy + PartialEq + Debug + Hash, const N: usize>(
    input: &mut Input,
    sink: &mut Sink,
    all: [T; N],
) {
    sink.hashed(&input.one_of(&all), &input.one_of(&all));
}

fn names(input: &mut Input, sink: &mut Sink) {
    named(input, sink, [Side::Client, Side::Server]);
    named(
        input,
        sink,
        [RendezvousStep::Queued, RendezvousStep::Forming],
    );
    named(input, sink, [TcpAction::HandOver, TcpAction::Close]);
    named(input, sink, [GroupStep::Forming, GroupStep::Ending]);
    named(input, sink, [LinkStep::Offered, LinkStep::Removing]);
    named(input, sink, [QpStep::Absent, QpStep::Drained]);
    named(input, sink, [BufferStep::Allocate, BufferStep::Free]);
    named(input, sink, [BufferKind::Rmb, BufferKind::Send]);
    named(input, sink, [TimerKind::Connection, TimerKind::Buffer]);
    named(input, sink, [LlcKind::ConfirmLink, LlcKind::Other]);
    let flags = [Flags(input.octet()), Flags::default()];
    named(input, sink, flags);
}

/// Observers of observers, rings of any size, and subjects of each type.
pub fn observers(input: &mut Input, sink: &mut Sink, handles: Handles) {
    let mut memory = [Record::EMPTY; 5];
    let size = input.below(6) as usize;
    let (some, rest) = memory.split_at_mut_checked(size).unwrap_or_default();
    let mut observer = (FlightRecorder::new(some), Some(FlightRecorder::new(rest)));
    let subjects: [Subject; 6] = [
        Subject::Endpoint,
        handles.conn.into(),
        handles.group.into(),
        handles.link.into(),
        handles.buffer.into(),
        DeviceId(input.octet()).into(),
    ];
    for subject in subjects {
        sink.shown(&subject, &Subject::Endpoint);
        sink.octets(subject.type_name().as_bytes());
        keep(subject.index_and_generation());
        let at = Instant::from_nanos(input.u64());
        if observer.is_on() {
            let observer: &mut dyn Observer = &mut &mut observer;
            keep(observer.is_on());
            observer.observe(at, subject, &TraceEvent::CdcStale);
        }
    }
    let (first, second) = &observer;
    sink.display(first);
    keep(first.entries().last());
    if let Some(second) = second {
        sink.display(second);
    }
}
