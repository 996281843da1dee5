//! Tests of the table.

use std::io::Write;
use std::path::Path;

use rustix::fs::{CWD, FileType, MemfdFlags, SealFlags};
use smc_view::{Sentence, handed::path_of};

use super::*;

const PEER_NO_SMC: &str = "The peer does not use SMC.";

#[test]
fn what_another_mapping_counts_is_read() {
    let (file, table) = Table::create().unwrap();
    let theirs = Table::open(&path_of(&file)).unwrap();
    let slot = theirs.counter(theirs.claim(b"redis-server"));
    slot.count_smc(Carried::Ism);
    slot.count_smc(Carried::Verbs);
    slot.count_tcp(PEER_NO_SMC, Wanted::Yes);
    slot.count_tcp(PEER_NO_SMC, Wanted::Yes);
    slot.count_tcp("The policy forbids it.", Wanted::No);
    slot.add_sent(5);
    slot.add_received(7);
    slot.count_refused();
    // Counts outlive the mapping they were written by.
    drop(theirs);
    let expected = Counts {
        process: Some(std::process::id()),
        name: b"redis-server".to_vec(),
        ism: 1,
        verbs: 1,
        tcp_wanted: 2,
        tcp_forbidden: 1,
        refused: 1,
        sent: 5,
        received: 7,
        reasons: vec![
            (PEER_NO_SMC.into(), 2),
            ("The policy forbids it.".into(), 1),
        ],
    };
    assert_eq!(table.read(), [expected]);
}

#[test]
fn a_process_that_counts_nothing_is_left_out() {
    let (_file, table) = Table::create().unwrap();
    table.counter(table.claim(b"true")).add_sent(0);
    assert_eq!(table.read(), []);
}

#[test]
fn names_are_cut_and_may_hold_any_bytes() {
    let (_file, table) = Table::create().unwrap();
    let slot = table.counter(table.claim(b"\xff\n0123456789abcdefgh"));
    slot.count_smc(Carried::Ism);
    assert_eq!(table.read()[0].name, b"\xff\n0123456789abcd");
}

#[test]
fn reasons_beyond_the_room_count_in_the_totals_alone() {
    let (_file, table) = Table::create().unwrap();
    let slot = table.counter(table.claim(b"many"));
    for reason in 1..=20 {
        slot.count_tcp(&format!("{reason}"), Wanted::Yes);
    }
    let counts = table.read().remove(0);
    assert_eq!(counts.tcp_wanted, 20);
    assert_eq!(counts.reasons.len(), 12);
    assert_eq!(counts.reasons.last(), Some(&("12".into(), 1)));
}

#[test]
fn processes_beyond_the_room_share_a_slot() {
    let (_file, table) = Table::create().unwrap();
    for _ in 0..SLOTS + 3 {
        table.counter(table.claim(b"x")).count_smc(Carried::Ism);
    }
    let counts = table.read();
    assert_eq!(counts.len(), SLOTS + 1);
    let others = counts.last().unwrap();
    assert_eq!((others.process, others.ism), (None, 3));
}

#[test]
fn threads_lose_no_count() {
    let (_file, table) = Table::create().unwrap();
    let slot = table.counter(table.claim(b"threads"));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let reason = ["one", "other"][thread % 2];
            scope.spawn(move || {
                for _ in 0..1000 {
                    slot.count_tcp(reason, Wanted::Yes);
                }
            });
        }
    });
    let counts = table.read().remove(0);
    assert_eq!(counts.tcp_wanted, 4000);
    assert_eq!(counts.reasons.iter().map(|at| at.1).sum::<u64>(), 4000);
}

#[test]
fn sentences_beyond_the_room_are_counted_without() {
    let (_file, table) = Table::create().unwrap();
    for process in 0..10 {
        let slot = table.counter(table.claim(b"many"));
        for reason in 0..10 {
            slot.count_tcp(&format!("{process}{reason}"), Wanted::Yes);
        }
    }
    let counts = table.read();
    assert_eq!(counts[6].reasons[3], ("63".into(), 1));
    assert_eq!(counts[6].reasons[4], (Vec::new(), 1));
    assert!(counts.iter().all(|counts| counts.reasons.len() == 10));
}

#[test]
fn long_sentences_are_cut() {
    let (_file, table) = Table::create().unwrap();
    let slot = table.counter(table.claim(b"x"));
    slot.count_tcp(&"é".repeat(Sentence::MOST), Wanted::Yes);
    assert_eq!(
        table.read()[0].reasons,
        [("é".repeat(Sentence::MOST / 2).into(), 1)]
    );
}

/// A path in the environment may name anything.
#[test]
fn what_is_no_table_is_refused() {
    let directory = std::env::temp_dir().join(format!("smc-run-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("file");
    let mut content = std::fs::File::create(&file).unwrap();
    content.write_all(&[0; 1 << 20]).unwrap();
    let fifo = directory.join("fifo");
    rustix::fs::mknodat(CWD, &fifo, FileType::Fifo, 0o600.into(), 0).unwrap();
    let memory = rustix::fs::memfd_create("other", MemfdFlags::ALLOW_SEALING).unwrap();
    for path in [
        Path::new("/dev/null"),
        Path::new("/"),
        Path::new(""),
        Path::new("/proc/self/fd/999999"),
        &file,
        &fifo,
        &path_of(&memory),
    ] {
        assert!(Table::open(path).is_err(), "{path:?}");
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn a_memory_file_without_the_first_bytes_is_no_table() {
    let (file, table) = Table::create().unwrap();
    let size = rustix::fs::fstat(&file).unwrap().st_size;
    drop(table);
    let other = rustix::fs::memfd_create("other", MemfdFlags::ALLOW_SEALING).unwrap();
    rustix::fs::ftruncate(&other, size.unsigned_abs()).unwrap();
    rustix::fs::fcntl_add_seals(&other, SealFlags::GROW | SealFlags::SHRINK).unwrap();
    assert!(Table::open(&path_of(&other)).is_err());
    assert!(Table::open(&path_of(&file)).is_ok());
}
