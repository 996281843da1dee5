//! What had arrived before a reset, where the configuration leaves it to the application.

use super::harness::Pair;
use crate::config::ConnectionConfig;
use crate::connection::CloseState::*;
use crate::connection::*;
use crate::wire::cdc::ConnectionFlags;

const A: ConnectionFlags = ConnectionFlags::ABNORMAL_CLOSE;

/// Two sides with rings of `usable` bytes; whether they keep what was received.
fn pair(usable: u32, keep: bool) -> Pair {
    let ring = Ring::new(0, usable).expect("a ring");
    let mut cfg = ConnectionConfig::DEFAULT;
    cfg.keep_received = keep;
    Pair::configured(cfg, ring, ring, usable, false)
}

/// Whether the peer may give back the memory that it has written once it has A (D-061).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Medium {
    Rdma,
    SharedMemory,
}

const MEDIA: [Medium; 2] = [Medium::Rdma, Medium::SharedMemory];

/// Two sides that keep what was received.
fn keeping(usable: u32, medium: Medium) -> Pair {
    let pair = pair(usable, true);
    match medium {
        Medium::Rdma => pair,
        Medium::SharedMemory => pair.over_smcd(),
    }
}

fn write_fails(pair: &mut Pair, side: usize) -> bool {
    let (now, cfg) = (pair.now, pair.cfg);
    pair.conn(side).commit(now, &cfg, 1) == Err(ApiMisuse::Reset)
}

/// How the peer, side 1, ends after it has answered.
#[derive(Clone, Copy, Debug)]
enum End {
    /// The peer closes while bytes for it are on their way.
    Early,
    /// The peer closes with bytes unread.
    Unread,
    Aborts,
}

const ENDS: [End; 3] = [End::Early, End::Unread, End::Aborts];

/// Side 1 answers with 5 bytes and ends, while side 0 writes.
fn answered(pair: &mut Pair, end: End) {
    pair.send(0, 8, false);
    pair.run();
    if !matches!(end, End::Unread) {
        assert_eq!(pair.recv(1, 8), 8);
        pair.run();
    }
    assert_eq!(pair.send(1, 5, false), 5);
    pair.poll(1);
    while pair.deliver(1) {}
    while pair.complete(1) {}
    // This crosses the end.
    pair.send(0, 3, false);
    pair.poll(0);
    match end {
        End::Aborts => pair.abort(1),
        End::Early | End::Unread => pair.shutdown(1, Shutdown::Both),
    }
    pair.poll(1);
    while pair.deliver(1) {}
}

/// Reads the 5 bytes of the answer in two pieces. Whether A is out, before and between.
fn reads_the_answer(pair: &mut Pair) -> [bool; 2] {
    let mut is_out = [false; 2];
    for (at, len) in [3, 2].into_iter().enumerate() {
        pair.run();
        is_out[at] = pair.sides[0].last_cdc().connection_flags == A;
        assert_eq!(pair.sides[0].closed_notices, 0);
        assert!(!pair.sides[0].conn.is_end_of_stream());
        assert!(write_fails(pair, 0));
        assert_eq!(pair.recv(0, 3), len);
    }
    is_out
}

#[test]
fn over_rdma_a_goes_at_once_and_the_answer_before_the_reset_is_read() {
    for end in ENDS {
        let mut pair = keeping(16, Medium::Rdma);
        answered(&mut pair, end);
        let reset = Notices::RESET | Notices::READABLE;
        assert!(pair.sides[0].notices.contains(reset), "{end:?}");
        assert_eq!(reads_the_answer(&mut pair), [true, true], "{end:?}");
        // The element is free when the application has closed.
        pair.shutdown(0, Shutdown::Both);
        while pair.states() != [Closed, Closed] {
            assert!(pair.fire(), "{end:?}: {:?}", pair.states());
        }
        assert!(pair.sides.iter().all(|s| s.closed_notices == 1), "{end:?}");
        assert!(pair.sides.iter().all(|s| s.conn.is_finished()), "{end:?}");
    }
}

#[test]
fn over_shared_memory_a_waits_until_the_answer_is_read() {
    //= D-061 test
    for end in ENDS {
        let mut pair = keeping(16, Medium::SharedMemory);
        answered(&mut pair, end);
        let state = match end {
            End::Early => PeerAbortWait,
            End::Unread | End::Aborts => ProcessAbort,
        };
        assert_eq!(pair.states()[0], state, "{end:?}");
        let reset = Notices::RESET | Notices::READABLE;
        assert!(pair.sides[0].notices.contains(reset), "{end:?}");
        assert_eq!(reads_the_answer(&mut pair), [false, false], "{end:?}");
        pair.run();
        assert_eq!(pair.sides[0].last_cdc().connection_flags, A, "{end:?}");
        while pair.states() != [Closed, Closed] {
            assert!(pair.fire(), "{end:?}: {:?}", pair.states());
        }
        assert!(pair.sides.iter().all(|s| s.closed_notices == 1), "{end:?}");
        assert!(pair.sides.iter().all(|s| s.conn.is_finished()), "{end:?}");
    }
}

#[test]
fn by_default_a_reset_discards_what_arrived() {
    //= ABORT-008 test
    //= ABORT-018 test
    for end in ENDS {
        let mut pair = pair(16, false);
        answered(&mut pair, end);
        assert!(pair.sides[0].conn.readable().is_empty(), "{end:?}");
        assert!(!pair.sides[0].conn.is_end_of_stream(), "{end:?}");
        pair.poll(0);
        assert_eq!(pair.sides[0].last_cdc().connection_flags, A, "{end:?}");
    }
}

#[test]
fn who_closes_or_aborts_reads_nothing_more() {
    for (end, medium) in ENDS
        .into_iter()
        .flat_map(|end| MEDIA.map(|medium| (end, medium)))
    {
        for (aborts, first) in [false, true]
            .into_iter()
            .flat_map(|a| [0, 2, 5].map(|f| (a, f)))
        {
            let mut pair = keeping(16, medium);
            answered(&mut pair, end);
            assert_eq!(pair.recv(0, first), first);
            if aborts {
                pair.abort(0);
            } else {
                pair.shutdown(0, Shutdown::Both);
            }
            assert!(pair.sides[0].conn.readable().is_empty());
            pair.run();
            assert_eq!(pair.sides[0].last_cdc().connection_flags, A);
            while pair.states() != [Closed, Closed] {
                assert!(pair.fire(), "{end:?}: {:?}", pair.states());
            }
            assert_eq!(pair.sides[0].closed_notices, 1, "{end:?}");
        }
    }
}

#[test]
fn what_arrived_outlives_the_path_to_the_peer() {
    for reset_first in [false, true] {
        let mut pair = keeping(16, Medium::SharedMemory);
        answered(
            &mut pair,
            if reset_first { End::Aborts } else { End::Early },
        );
        let (now, cfg) = (pair.now, pair.cfg);
        pair.conn(0).on_fatal(now, &cfg, FatalCause::LinkLost);
        pair.check();
        assert_eq!(pair.states()[0], Closed);
        assert_eq!(pair.sides[0].closed_notices, 0);
        assert_eq!(pair.recv(0, 16), 5);
        assert!(!pair.sides[0].conn.is_end_of_stream());
        assert_eq!(pair.poll(0), 0);
        pair.shutdown(0, Shutdown::Both);
        assert_eq!(pair.sides[0].closed_notices, 1);
    }
}

#[test]
fn a_stream_that_had_ended_before_the_path_was_lost_ends_in_order() {
    for unread in [0, 5] {
        let mut pair = pair(16, true);
        pair.send(1, unread, false);
        pair.shutdown(1, Shutdown::Both);
        pair.run();
        assert_eq!(pair.states()[0], AppCloseWait1);
        let (now, cfg) = (pair.now, pair.cfg);
        pair.conn(0).on_fatal(now, &cfg, FatalCause::LinkLost);
        pair.check();
        assert_eq!(pair.recv(0, 16), unread);
        assert!(pair.sides[0].conn.is_end_of_stream());
        assert!(write_fails(&mut pair, 0));
        assert_eq!(pair.sides[0].closed_notices, 0);
        pair.abort(0);
        assert_eq!(pair.sides[0].closed_notices, 1);
    }
    // Where nothing is kept, bytes that were dropped leave no end of the stream.
    let mut pair = pair(16, false);
    pair.send(1, 5, false);
    pair.shutdown(1, Shutdown::Both);
    pair.run();
    let (now, cfg) = (pair.now, pair.cfg);
    pair.conn(0).on_fatal(now, &cfg, FatalCause::LinkLost);
    pair.check();
    assert_eq!(pair.recv(0, 16), 0);
    assert!(!pair.sides[0].conn.is_end_of_stream());
    assert_eq!(pair.sides[0].closed_notices, 1);
}

/// D, then A: the peer has ended its stream before it aborted.
#[test]
fn an_end_of_stream_before_a_reset_stays_readable() {
    for (unread, medium) in [0, 5]
        .into_iter()
        .flat_map(|unread| MEDIA.map(|medium| (unread, medium)))
    {
        let mut pair = keeping(16, medium);
        pair.send(1, unread, false);
        pair.shutdown(1, Shutdown::Write);
        pair.run();
        assert_eq!(pair.states(), [AppCloseWait1, PeerCloseWait1]);
        pair.abort(1);
        pair.poll(1);
        while pair.deliver(1) {}
        assert!(pair.sides[0].notices.contains(Notices::RESET));
        pair.run();
        // Over shared memory A waits for what is unread, not for the end of the stream.
        let waits = medium == Medium::SharedMemory && unread > 0;
        let is_out = |pair: &Pair| pair.states()[0] == Closed;
        assert_eq!(is_out(&pair), !waits, "{unread} unread, {medium:?}");
        assert_eq!(pair.recv(0, 16), unread);
        assert!(pair.sides[0].conn.is_end_of_stream());
        assert!(write_fails(&mut pair, 0));
        pair.run();
        assert!(is_out(&pair), "{unread} unread, {medium:?}");
        assert_eq!(pair.sides[0].closed_notices, 0);
        assert!(pair.sides[0].conn.is_end_of_stream());
        pair.shutdown(0, Shutdown::Both);
        while pair.states() != [Closed, Closed] {
            assert!(
                pair.fire(),
                "{unread} unread, {medium:?}: {:?}",
                pair.states()
            );
        }
        assert!(pair.sides.iter().all(|s| s.closed_notices == 1));
    }
}

/// An A that carries the peer's D ends the stream; a C for which bytes are left resets it.
#[test]
fn only_d_ends_the_stream_of_a_connection_that_is_reset() {
    for flags in [
        A,
        A | ConnectionFlags::SENDING_DONE,
        ConnectionFlags::PEER_CONNECTION_CLOSED,
    ] {
        let mut pair = keeping(16, Medium::Rdma);
        pair.send(1, 5, false);
        pair.run();
        pair.send(0, 3, false);
        pair.poll(0);
        let (now, cfg) = (pair.now, pair.cfg);
        let mut last = pair.sides[1].last_cdc();
        last.sequence += 1;
        last.connection_flags = flags;
        let _ = pair.conn(0).on_cdc(now, &cfg, &last);
        pair.check();
        assert!(pair.sides[0].notices.contains(Notices::RESET), "{flags:?}");
        assert_eq!(pair.recv(0, 16), 5, "{flags:?}");
        let ended = flags.contains(ConnectionFlags::SENDING_DONE);
        assert_eq!(pair.sides[0].conn.is_end_of_stream(), ended, "{flags:?}");
    }
}

#[test]
fn a_peer_that_misbehaved_or_took_the_element_leaves_nothing() {
    //= RMB-025 test
    let causes = [
        FatalCause::RmbeConflict,
        FatalCause::EyeCatcherDamaged,
        FatalCause::TcpData,
    ];
    for cause in causes {
        let mut pair = pair(16, true);
        pair.send(1, 5, false);
        pair.run();
        let (now, cfg) = (pair.now, pair.cfg);
        pair.conn(0).on_fatal(now, &cfg, cause);
        pair.check();
        assert_eq!(pair.recv(0, 16), 0, "{cause:?}");
    }
    let mut pair = pair(16, true);
    pair.send(1, 5, false);
    pair.run();
    let (now, cfg) = (pair.now, pair.cfg);
    let mut beyond = pair.sides[1].last_cdc();
    beyond.sequence += 1;
    beyond.producer.count = 15;
    beyond.producer.wrap += 1;
    let outcome = pair.conn(0).on_cdc(now, &cfg, &beyond);
    assert!(matches!(outcome, CdcOutcome::Misbehaved(_)), "{outcome:?}");
    pair.check();
    assert_eq!(pair.recv(0, 16), 0);
}

#[test]
fn an_urgent_byte_before_a_reset_can_be_taken() {
    for inline in [false, true] {
        let mut pair = pair(16, true);
        pair.conn(0).set_urgent_inline(inline);
        assert_eq!(pair.send(1, 3, true), 3);
        pair.poll(1);
        while pair.deliver(1) {}
        pair.abort(1);
        pair.run();
        assert!(pair.sides[0].notices.contains(Notices::URGENT));
        let urgent = pair.conn(0).urgent().expect("an urgent byte");
        assert_eq!(urgent.ahead, 2);
        assert_eq!(pair.conn(0).take_urgent(), Ok(urgent));
        assert_eq!(pair.recv(0, 16), if inline { 3 } else { 2 });
        pair.run();
        assert_eq!(pair.states(), [Closed, Closed]);
    }
}

/// Nothing that comes after the reset is added to what is kept.
#[test]
fn a_peer_adds_nothing_after_a_reset() {
    for (end, medium) in ENDS
        .into_iter()
        .flat_map(|end| MEDIA.map(|medium| (end, medium)))
    {
        let mut pair = keeping(16, medium);
        answered(&mut pair, end);
        let (now, cfg) = (pair.now, pair.cfg);
        let mut more = pair.sides[1].last_cdc();
        for flags in [ConnectionFlags::empty(), A] {
            more.sequence += 1;
            more.producer.count += 4;
            more.connection_flags = flags;
            let _ = pair.conn(0).on_cdc(now, &cfg, &more);
            pair.check();
        }
        assert_eq!(pair.recv(0, 16), 5, "{end:?}");
        pair.run();
        assert!(pair.states()[0] == Closed || pair.fire());
        assert_eq!(pair.states()[0], Closed, "{end:?}");
        assert_eq!(pair.sides[0].closed_notices, 1, "{end:?}");
    }
}
