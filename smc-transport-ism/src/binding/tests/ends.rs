//! Ends of connections over shared memory: a reader gets every byte that was written to it,
//! also when the writer has let go of its memory before, and the memory is given back only
//! behind the reader's last message (C or A).

use smc_proto::connection::Shutdown;
use smc_proto::endpoint::TcpEvent;
use smc_proto::event::{CloseReason, Event};
use smc_proto::time::Duration;

use super::{Pair, Side, bytes};
use crate::shared::Device;

/// Longer than a connection waits for its peer's last message.
const LONG: Duration = Duration::from_secs(70);

/// A writer and a reader, connected, and what the writer has written.
fn written() -> (Pair<Device>, Vec<u8>) {
    let (mut one, mut two) = (Device::open().unwrap(), Device::open().unwrap());
    Device::join(&mut one, &mut two).unwrap();
    let mut pair = Pair::over(one, two, true);
    let message = bytes(50_000);
    assert_eq!(pair.sides[0].write(pair.now, &message), message.len());
    pair.run_until_idle();
    (pair, message)
}

/// Lets time pass at one side alone, as where the other process is stopped.
fn wait_at(pair: &mut Pair<Device>, at: usize, time: Duration) {
    pair.now = pair.now.after(time);
    let side = &mut pair.sides[at];
    side.engine.handle_timeout(pair.now);
    // What it sends over TCP is of no matter here.
    let _ = side.step(pair.now);
}

fn shut(pair: &mut Pair<Device>, at: usize, how: Shutdown) {
    let side = &mut pair.sides[at];
    let mut conn = side.engine.conn(side.conn.unwrap()).unwrap();
    conn.shutdown(pair.now, how);
}

fn abort(pair: &mut Pair<Device>, at: usize) {
    let side = &mut pair.sides[at];
    let mut conn = side.engine.conn(side.conn.unwrap()).unwrap();
    conn.abort(pair.now);
}

/// Reads in small pieces until there is nothing more.
fn read_all(pair: &mut Pair<Device>) -> Vec<u8> {
    let mut read = Vec::new();
    loop {
        let [_, reader] = &mut pair.sides;
        // It may have ended with the last byte.
        if reader.engine.conn(reader.conn.unwrap()).is_none() {
            return read;
        }
        let piece = reader.read(pair.now, 1_009);
        let _ = pair.sides[1].step(pair.now);
        if piece.is_empty() {
            return read;
        }
        read.extend(piece);
    }
}

fn is_at_end(side: &mut Side<Device>) -> bool {
    side.engine
        .conn(side.conn.unwrap())
        .unwrap()
        .is_end_of_stream()
}

fn reason(side: &Side<Device>) -> Option<CloseReason> {
    side.events.iter().find_map(|event| match event {
        Event::Closed { reason, .. } => Some(*reason),
        _ => None,
    })
}

//= D-061 test
#[test]
fn ends_in_order_give_memory_back_at_both_sides() {
    for first in [Shutdown::Write, Shutdown::Both] {
        let (mut pair, message) = written();
        shut(&mut pair, 0, first);
        pair.run_until_idle();
        assert!(read_all(&mut pair) == message, "{first:?}");
        assert!(is_at_end(&mut pair.sides[1]));
        shut(&mut pair, 1, Shutdown::Both);
        shut(&mut pair, 0, Shutdown::Both);
        pair.run_until_idle();
        for side in &pair.sides {
            assert_eq!(
                reason(side),
                Some(CloseReason::Normal),
                "{:?}",
                pair.sides
                    .iter()
                    .map(|s| (&s.events, &s.discarded))
                    .collect::<Vec<_>>()
            );
            assert_eq!(side.discarded, [true], "{first:?}");
        }
    }
}

/// The writer closes, waits for the reader's close as long as it waits for anything, and lets
/// go of everything. The reader comes after that.
//= D-061 test
#[test]
fn a_reader_that_comes_after_the_writer_has_let_go_reads_every_byte() {
    for late_signal in [false, true] {
        let (mut pair, message) = written();
        shut(&mut pair, 0, Shutdown::Both);
        if late_signal {
            let _ = pair.sides[0].step(pair.now);
        } else {
            pair.run_until_idle();
        }
        wait_at(&mut pair, 0, LONG);
        assert_eq!(
            pair.sides[0].discarded,
            [false],
            "the reader may still read"
        );
        let _ = pair.sides[1].step(pair.now);
        assert!(read_all(&mut pair) == message, "{late_signal}");
        assert!(is_at_end(&mut pair.sides[1]));
        shut(&mut pair, 1, Shutdown::Both);
        let _ = pair.sides[1].step(pair.now);
    }
}

//= D-061 test
#[test]
fn an_abort_is_answered_and_gives_memory_back_at_both_sides() {
    for by in [0, 1] {
        let (mut pair, _) = written();
        abort(&mut pair, by);
        pair.run_until_idle();
        for side in &pair.sides {
            assert_eq!(side.discarded, [true], "aborted by {by}");
        }
        assert_eq!(reason(&pair.sides[1 - by]), Some(CloseReason::PeerAbort));
    }
}

/// A reader that is stopped while the writer aborts and lets go finds the writer's last
/// message where it was written.
//= D-061 test
#[test]
fn an_abort_is_seen_after_the_writer_has_let_go() {
    for by_tcp in [false, true] {
        let (mut pair, _) = written();
        if by_tcp {
            let [writer, _] = &mut pair.sides;
            let conn = writer.conn.unwrap();
            writer
                .engine
                .handle_tcp(pair.now, conn, TcpEvent::PeerReset);
        } else {
            abort(&mut pair, 0);
        }
        let _ = pair.sides[0].step(pair.now);
        wait_at(&mut pair, 0, LONG);
        assert_eq!(
            pair.sides[0].discarded,
            [false],
            "the reader may still read"
        );
        let _ = pair.sides[1].step(pair.now);
        assert_eq!(reason(&pair.sides[1]), Some(CloseReason::PeerAbort));
    }
}

/// A reader that closes with bytes unread reads none of them any more.
//= D-061 test
#[test]
fn a_reader_that_closes_early_gets_no_memory_left() {
    let (mut pair, _) = written();
    shut(&mut pair, 1, Shutdown::Both);
    pair.run_until_idle();
    pair.run_until_idle();
    for side in &pair.sides {
        assert_eq!(side.discarded, [true], "{:?}", side.events);
    }
}

/// The writer's device goes with its process. What it wrote is there until the reader lets go.
//= D-061 test
#[test]
fn a_writer_that_is_gone_leaves_every_byte() {
    let (mut pair, message) = written();
    shut(&mut pair, 0, Shutdown::Write);
    let _ = pair.sides[0].step(pair.now);
    *pair.sides[0].binding.device_mut() = Device::open().unwrap();
    // The end of the stream is rung for before the end of the process.
    while let Some(completion) = pair.sides[1].binding.poll() {
        pair.sides[1].engine.handle_ism(pair.now, completion);
        let ended = reason(&pair.sides[1]).is_some();
        if !ended && is_at_end_or_readable(&mut pair.sides[1]) {
            break;
        }
    }
    let [_, reader] = &mut pair.sides;
    assert!(reader.read(pair.now, 50_000) == message);
}

/// Both sides keep what they have received.
fn keeping() -> Pair<Device> {
    let (mut one, mut two) = (Device::open().unwrap(), Device::open().unwrap());
    Device::join(&mut one, &mut two).unwrap();
    Pair::configured(one, two, true, |config| {
        config.connection.keep_received = true;
    })
}

fn reset(side: &Side<Device>) -> Option<(CloseReason, bool)> {
    side.events.iter().find_map(|event| match event {
        Event::Reset {
            reason,
            end_of_stream,
            ..
        } => Some((*reason, *end_of_stream)),
        _ => None,
    })
}

/// The writer answers a reader whose own bytes it does not read, and lets go of everything in its
/// time. The device gives back what was written as soon as the reader says that it reads no more.
#[test]
fn an_answer_before_a_reset_stays_until_it_is_read() {
    for (aborts, waits) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut pair = keeping();
        let answer = bytes(50_000);
        assert_eq!(pair.sides[0].write(pair.now, &answer), answer.len());
        let _ = pair.sides[0].step(pair.now);
        // It crosses the end, so that the writer closes in order, before it was read.
        assert_eq!(pair.sides[1].write(pair.now, b"a request"), 9);
        match aborts {
            true => abort(&mut pair, 0),
            false => shut(&mut pair, 0, Shutdown::Both),
        }
        pair.run_until_idle();
        let [writer, reader] = &mut pair.sides;
        let expected = match aborts {
            true => CloseReason::PeerAbort,
            false => CloseReason::LocalAbort,
        };
        assert_eq!(reset(reader), Some((expected, false)));
        assert_eq!(reason(reader), None);
        assert!(!is_at_end(reader));
        assert_eq!(writer.discarded, [] as [bool; 0], "{aborts}");
        if waits {
            wait_at(&mut pair, 0, LONG);
            assert_eq!(pair.sides[0].discarded, [false], "{aborts}");
        }
        assert!(read_all(&mut pair) == answer, "{aborts}, {waits}");
        pair.run_until_idle();
        let [writer, reader] = &mut pair.sides;
        if !waits {
            assert_eq!(writer.discarded, [true], "{aborts}");
        } else {
            let conn = reader.conn.unwrap();
            reader.engine.conn(conn).into_iter().for_each(|mut conn| {
                conn.abort(pair.now);
            });
        }
        // A reader waits for the writer's last message for a limited time.
        wait_at(&mut pair, 1, LONG);
        assert_eq!(reason(&pair.sides[1]), Some(expected));
        assert_eq!(pair.sides[1].engine.usage().connections, 0);
    }
}

/// The writer's device goes with its process.
#[test]
fn bytes_of_a_process_that_is_gone_are_read_and_the_end_that_it_had_sent() {
    for ends in [false, true] {
        let mut pair = keeping();
        let message = bytes(50_000);
        assert_eq!(pair.sides[0].write(pair.now, &message), message.len());
        if ends {
            shut(&mut pair, 0, Shutdown::Write);
        }
        let _ = pair.sides[0].step(pair.now);
        *pair.sides[0].binding.device_mut() = Device::open().unwrap();
        // The device polls sockets now and then.
        for _ in 0..10_000 {
            let _ = pair.sides[1].step(pair.now);
        }
        let events = &pair.sides[1].events;
        let lost = Some((CloseReason::LinksLost, ends));
        assert_eq!(reset(&pair.sides[1]), lost, "{events:?}");
        let [_, reader] = &mut pair.sides;
        assert!(reader.read(pair.now, 50_000) == message, "{ends}");
        assert_eq!(is_at_end(reader), ends);
        // Groups and buffers are held by nothing else.
        shut(&mut pair, 1, Shutdown::Both);
        let _ = pair.sides[1].step(pair.now);
        let usage = pair.sides[1].engine.usage();
        assert_eq!((usage.connections, usage.groups, usage.buffers), (0, 0, 0));
        assert!(pair.sides[1].binding.buffers.is_empty());
    }
}

fn is_at_end_or_readable(side: &mut Side<Device>) -> bool {
    side.engine.is_readable(side.conn.unwrap())
}
