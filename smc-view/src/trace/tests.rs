//! Tests of rings, their writers and readers, and of what hostile ones do.

use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rustix::fs::{FallocateFlags, MemfdFlags, SealFlags};

use super::layout::{NAME, Ring, Rings, SLOTS};
use super::*;
use crate::memory::Memory;
use crate::processes::Identity;

fn path_of(file: &OwnedFd) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

/// A ring with a reader that has seen nothing yet.
fn ring() -> (OwnedFd, TraceWriter, TraceReader) {
    let (file, writer) = TraceWriter::start().unwrap();
    let reader = TraceReader::open(&path_of(&file)).unwrap();
    (file, writer, reader)
}

fn event(at: u64) -> Note {
    let mut record = [0; 32];
    let (first, last) = record.split_at_mut(16);
    first.fill(at as u8);
    last.fill(!at as u8);
    Note::Event(NotedEvent {
        at,
        stack: at as u16,
        record,
    })
}

fn read(reader: &mut TraceReader) -> (Vec<Note>, Unread) {
    let mut notes = Vec::new();
    let (unread, more) = reader.read(usize::MAX, |note| notes.push(note));
    assert!(!more);
    (notes, unread)
}

#[test]
fn what_is_written_is_read_once_and_in_order() {
    let (_file, writer, mut reader) = ring();
    let connection = |local: &str, peer: &str| {
        Note::Connection(NotedConnection {
            at: u64::MAX,
            stack: u16::MAX,
            conn: 0x0102_0304_0506_0708,
            local: local.parse().unwrap(),
            peer: peer.parse().unwrap(),
        })
    };
    let notes = [
        connection("10.0.0.1:80", "10.0.0.2:65535"),
        event(1),
        connection("[::1]:1", "[2001:db8::1]:2"),
        connection("[::ffff:10.0.0.1]:1", "[::ffff:10.0.0.2]:2"),
        event(u64::MAX),
    ];
    notes.iter().for_each(|note| writer.write(note));
    assert_eq!(read(&mut reader), (notes.to_vec(), Unread::default()));
    assert_eq!(read(&mut reader), (vec![], Unread::default()));
    // A few at a time, and what was written before a reader came is not for it.
    let mut late = reader_of(&writer, &_file);
    (0..5).for_each(|at| writer.write(&event(at)));
    let mut seen = Vec::new();
    let mut rounds = 0;
    while late.read(2, |note| seen.push(note)).1 {
        rounds += 1;
    }
    assert_eq!((seen.len(), rounds), (5, 2));
    assert_eq!(seen, (0..5).map(event).collect::<Vec<_>>());
    assert_eq!(read(&mut reader).0, seen, "readers are independent");
}

fn reader_of(_: &TraceWriter, file: &OwnedFd) -> TraceReader {
    TraceReader::open(&path_of(file)).unwrap()
}

#[test]
fn a_reader_that_is_late_knows_how_much_it_has_lost() {
    let (_file, writer, mut reader) = ring();
    let total = SLOTS as u64 + 1000;
    (0..total).for_each(|at| writer.write(&event(at)));
    let (notes, unread) = read(&mut reader);
    assert_eq!((unread.lost, unread.unknown), (1000, 0));
    assert_eq!(notes, (1000..total).map(event).collect::<Vec<_>>());
}

/// Whatever a reader sees while the ring turns under it is whole, in order, and each note is either
/// read or counted as lost.
#[test]
fn notes_that_are_written_meanwhile_are_whole_or_lost() {
    let (_file, writer, mut reader) = ring();
    let over = AtomicBool::new(false);
    let total = 40 * SLOTS as u64;
    let (mut seen, mut unread, mut next) = (0, Unread::default(), 0);
    thread::scope(|scope| {
        scope.spawn(|| {
            (0..total).for_each(|at| writer.write(&event(at)));
            over.store(true, Ordering::Release);
        });
        loop {
            let ended = over.load(Ordering::Acquire);
            let (missed, more) = reader.read(1000, |note| {
                let Note::Event(of) = note else {
                    panic!("{note:?}");
                };
                assert!(of.at >= next, "{} before {next}", of.at);
                assert_eq!(note, event(of.at));
                next = of.at + 1;
                seen += 1;
            });
            unread.add(missed);
            if ended && !more {
                break;
            }
        }
    });
    assert_eq!(unread.unknown, 0);
    assert_eq!(seen + unread.lost, total);
    assert!(seen > 0);
}

#[test]
fn threads_of_a_process_write_one_ring() {
    let (_file, writer, mut reader) = ring();
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..1000).for_each(|at| writer.write(&event(at))));
        }
    });
    let (notes, unread) = read(&mut reader);
    assert!(unread.is_empty());
    assert_eq!(notes.len(), 4000);
    for at in 0..1000 {
        assert_eq!(notes.iter().filter(|note| **note == event(at)).count(), 4);
    }
}

#[test]
fn a_process_is_asked_and_is_found_by_its_number() {
    let (_file, writer) = TraceWriter::start().unwrap();
    assert_eq!(writer.requests(), 0);
    let mut reader = TraceReader::of(std::process::id()).unwrap();
    // The rings of other tests are this process's, too.
    let of_this = |reader: &TraceReader| reader.ring().head.process.load(Ordering::Relaxed);
    assert_eq!(of_this(&reader), std::process::id());
    assert_ne!(reader.ring().requests.number.load(Ordering::Relaxed), 0);
    let _ = read(&mut reader);
    let missing = TraceReader::of(u32::MAX).unwrap_err();
    assert_eq!(missing.kind(), std::io::ErrorKind::NotFound);
    let mut child = std::process::Command::new("sleep")
        .arg("60")
        .spawn()
        .unwrap();
    let without = TraceReader::of(child.id()).unwrap_err();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(without.kind(), std::io::ErrorKind::Unsupported);
}

#[test]
fn each_process_of_a_set_has_a_ring_while_there_are_any() {
    let mut set = TraceSet::create().unwrap();
    let writers: Vec<_> = (0..super::set::SET)
        .map(|_| TraceWriter::join(&set.path()).unwrap())
        .collect();
    assert!(TraceWriter::join(&set.path()).is_err());
    assert_eq!(set.refused(), 1);
    for (writer, at) in writers.iter().zip(0..) {
        assert_eq!(writer.requests(), 1);
        writer.write(&event(at));
    }
    set.renew();
    assert!(writers.iter().all(|writer| writer.requests() == 2));
    let mut seen = Vec::new();
    let (unread, more) = set.read(10, |process, note| seen.push((process, note)));
    assert!(unread.is_empty() && !more);
    let all = (0..writers.len() as u64).map(|at| (std::process::id(), event(at)));
    assert_eq!(seen, all.collect::<Vec<_>>());
    // What is no set is not taken for one.
    let (file, _) = TraceWriter::start().unwrap();
    assert!(TraceWriter::join(&path_of(&file)).is_err());
    assert!(TraceWriter::join("/dev/null".as_ref()).is_err());
    assert!(TraceWriter::join("/no/such/file".as_ref()).is_err());
}

/// A process that may open the file can write all of it. The process goes on, and what it writes
/// from then on is read again.
#[test]
fn a_reader_that_writes_garbage_harms_no_process() {
    let (file, writer, mut reader) = ring();
    (0..100).for_each(|at| writer.write(&event(at)));
    for fill in [0xff_u8, 0x01, 0x80, 0x00] {
        let garbage = vec![fill; size_of::<Rings<1>>() - 64];
        assert_eq!(rustix::io::pwrite(&file, &garbage, 64), Ok(garbage.len()));
        let word = u32::from_ne_bytes([fill; 4]);
        assert_eq!(writer.requests(), word);
        // Numbers that make no sense cost a bounded number of reads.
        let (notes, _) = read(&mut reader);
        assert!(notes.len() <= SLOTS);
        let mut fresh = reader_of(&writer, &file);
        writer.write(&event(7));
        writer.write(&event(8));
        let (notes, _) = read(&mut fresh);
        // The number of those written is the process's own, and right again at once.
        assert!(notes.len() <= SLOTS, "{}", notes.len());
        let mut next = reader_of(&writer, &file);
        writer.write(&event(9));
        assert_eq!(read(&mut next), (vec![event(9)], Unread::default()));
    }
}

#[test]
fn no_one_can_cut_the_memory_of_another() {
    let (file, writer, mut reader) = ring();
    let size = size_of::<Rings<1>>() as u64;
    for length in [0, 1, size - 4096, size + 4096] {
        assert!(rustix::fs::ftruncate(&file, length).is_err(), "{length}");
    }
    let more = SealFlags::WRITE | SealFlags::FUTURE_WRITE;
    assert!(rustix::fs::fcntl_add_seals(&file, more).is_err());
    // Taking pages out loses what was in them, and no more.
    writer.write(&event(1));
    let hole = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, hole, 0, size).unwrap();
    writer.write(&event(2));
    let (notes, unread) = read(&mut reader);
    assert_eq!((notes, unread.lost), (vec![event(2)], 1));
    assert_eq!(writer.requests(), 0);
}

/// A process that lies about its ring is read in bounded time, and what it writes is judged.
#[test]
fn a_ring_of_a_hostile_process_is_read_in_bounded_time() {
    let (_file, _writer, mut reader) = ring();
    let written = |reader: &TraceReader, number: u64| {
        reader.ring().head.written.store(number, Ordering::Relaxed);
    };
    for number in [u64::MAX, 1 << 63, 5, 0, u64::MAX - 1, 3, u64::MAX] {
        written(&reader, number);
        let mut notes = 0;
        let mut rounds = 0;
        // At most as many reads as the ring has slots.
        while reader.read(SLOTS / 4, |_| notes += 1).1 {
            rounds += 1;
            assert!(rounds <= 4, "{number}");
        }
        assert_eq!(notes, 0, "no slot has such a number");
    }
    // Kinds that do not exist are counted.
    written(&reader, 0);
    let _ = read(&mut reader);
    let slot = reader.ring().slot(0).unwrap();
    slot.write(1, &[u64::MAX; 7]);
    written(&reader, 1);
    let (notes, unread) = read(&mut reader);
    assert_eq!((notes.len(), unread.lost, unread.unknown), (0, 0, 1));
}

#[test]
fn what_is_no_ring_is_refused() {
    let open = |file: &OwnedFd| TraceReader::open(&path_of(file));
    let size = size_of::<Rings<1>>() as u64;
    let memory = || rustix::fs::memfd_create(NAME, MemfdFlags::ALLOW_SEALING).unwrap();
    let sealed = SealFlags::GROW | SealFlags::SHRINK;
    let unsealed = memory();
    rustix::fs::ftruncate(&unsealed, size).unwrap();
    assert!(open(&unsealed).is_err());
    let short = memory();
    rustix::fs::ftruncate(&short, size - 64).unwrap();
    rustix::fs::fcntl_add_seals(&short, sealed).unwrap();
    assert!(open(&short).is_err());
    let other_version = memory();
    rustix::fs::ftruncate(&other_version, size).unwrap();
    rustix::fs::fcntl_add_seals(&other_version, sealed).unwrap();
    assert!(open(&other_version).is_err());
    let read_only = memory();
    rustix::fs::ftruncate(&read_only, size).unwrap();
    rustix::fs::fcntl_add_seals(&read_only, sealed | SealFlags::WRITE).unwrap();
    assert!(open(&read_only).is_err());
    assert!(TraceReader::open("/dev/null".as_ref()).is_err());
    assert!(fs::metadata("/dev/null").is_ok());
}

/// A file of another process, which a hostile one passes for its own, is not even written to.
#[test]
fn only_a_ring_of_the_process_itself_is_asked() {
    let (file, _writer, reader) = ring();
    let this = Identity::of(std::process::id()).unwrap();
    assert!(reader.is_of(&this));
    let other = Identity { own: 1, ..this };
    assert!(!reader.is_of(&other));
    // Nor one that another user has made; root's may be of a process that was root's.
    let user = Identity::of(std::process::id()).unwrap();
    let foreign = rustix::fs::Uid::from_raw(54_321);
    if rustix::fs::fchown(&file, Some(foreign), None).is_ok() {
        let given = TraceReader::open(&path_of(&file)).unwrap();
        assert!(!given.is_of(&user));
    }
    assert_eq!(reader.ring().requests.number.load(Ordering::Relaxed), 0);
}

/// A program of which a trace is read goes on where the kernel has no memory for its events.
#[test]
fn events_without_memory_are_lost_alone() {
    let page = rustix::param::page_size();
    let whole = page + std::mem::offset_of!(Ring, slots);
    let (_file, memory) = Memory::<Rings<1>>::scarce(NAME, whole.next_multiple_of(page));
    let writer = TraceWriter::of_process(memory).unwrap();
    (0..SLOTS as u64 + 7).for_each(|at| writer.write(&event(at)));
    let (_file, memory) = Memory::<Rings<1>>::scarce(NAME, 0);
    let error = TraceWriter::of_process(memory).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::OutOfMemory);
}
