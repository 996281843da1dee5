//! A lent data path comes to the same as the endpoint.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

use conformance::smcd::{DEVICE, Setup};
use conformance::world::World;
use smc_proto::command::{BufferSpans, IsmCommand, Signal};
use smc_proto::completion::IsmCompletion;
use smc_proto::connection::{ApiMisuse, CloseState, Shutdown};
use smc_proto::endpoint::Endpoint;
use smc_proto::id::ConnId;
use smc_proto::storage::Storage;
use smc_proto::time::Instant;
use smc_transport_sim::sim::SocketId;

/// What became of a call: how it ended, what the device is asked, what the engine is then, and
/// what it counted.
type Outcome = (Result<u32, ApiMisuse>, Vec<IsmCommand>, u64, String);

fn after<S: Storage>(
    engine: &mut Endpoint<S>,
    now: Instant,
    outcome: Result<u32, ApiMisuse>,
    signalled: Option<Signal>,
) -> Outcome {
    let mut commands: Vec<_> = signalled.into_iter().map(IsmCommand::from).collect();
    while let Some(command) = engine.poll_ism(now, DEVICE) {
        commands.push(command);
    }
    while engine.poll_event().is_some() || engine.poll_tcp().is_some() {}
    let mut state = DefaultHasher::new();
    engine.fingerprint(now, &mut state);
    let counted = format!("{:?}", engine.statistics());
    (outcome, commands, state.finish(), counted)
}

fn room(space: &BufferSpans, len: u32) -> u32 {
    let room: u32 = space.segments.iter().map(|at| at.length).sum();
    len.min(room)
}

/// A write of `len` bytes, as far as they fit, in the client of a copy of `pair`.
fn written(pair: &World, conn: ConnId, len: u32, lends: bool) -> Outcome {
    let mut pair = pair.clone();
    let now = pair.sim.now();
    let engine = pair.sim.endpoint(pair.client).expect("an engine");
    let mut signalled = None;
    let fill = |_: &mut Option<Signal>, space: &BufferSpans| room(space, len);
    let signal = |signalled: &mut Option<Signal>, signal: &Signal| *signalled = Some(*signal);
    let written = if lends {
        let mut lent = engine.lend(now, conn).expect("a data path");
        let written = lent.write(&mut signalled, fill, signal);
        assert!(!engine.take_back(now, lent));
        written
    } else {
        let written = engine.write_and_signal(now, conn, &mut signalled, fill, signal);
        written.expect("a connection")
    };
    after(engine, now, written, signalled)
}

/// A read of at most `len` of the bytes that a message says have come, in the server of a copy of
/// `pair`.
fn read(pair: &World, conn: ConnId, head: [u8; 32], len: u32, lends: bool) -> Outcome {
    let mut pair = pair.clone();
    let now = pair.sim.now();
    let engine = pair.sim.endpoint(pair.server).expect("an engine");
    let mut lent = engine.lend(now, conn).expect("a data path");
    assert_eq!(lent.handle_signal(&head), Some(true));
    assert!(!engine.take_back(now, lent));
    let mut signalled = None;
    let read = if lends {
        let mut lent = engine.lend(now, conn).expect("a data path");
        let signal = |signalled: &mut Option<Signal>, signal: &Signal| *signalled = Some(*signal);
        let read = lent.read(&mut signalled, |_, readable| room(readable, len), signal);
        assert!(!engine.take_back(now, lent));
        read
    } else {
        let read = engine.read(now, conn, |readable| room(readable, len));
        read.expect("a connection").map(|taken| taken.bytes)
    };
    after(engine, now, read, signalled)
}

fn both(call: impl Fn(bool) -> Outcome) -> Outcome {
    let (lent, own) = (call(true), call(false));
    assert_eq!(lent, own);
    lent
}

fn attached() -> (World, [ConnId; 2], [SocketId; 2]) {
    let mut pair = Setup::new(true).build();
    let [near, far] = pair.connect();
    let conns = [pair.conn(near), pair.conn(far)];
    (pair, conns, [near, far])
}

/// The message at the head of the DMB, in the server of a copy of `pair`.
fn handled(pair: &World, conn: ConnId, head: [u8; 32], lends: bool) -> Outcome {
    let mut pair = pair.clone();
    let now = pair.sim.now();
    let engine = pair.sim.endpoint(pair.server).expect("an engine");
    let mut lent = engine.lend(now, conn).expect("a data path");
    let buffer = lent.receive_buffer();
    assert_eq!(engine.receiver(buffer), Some(conn));
    let is_handled = lends && lent.handle_signal(&head).is_some();
    assert!(!engine.take_back(now, lent));
    if !is_handled {
        engine.handle_ism(now, IsmCompletion::Signalled { buffer, cdc: head });
    }
    let readable = u32::from(engine.is_readable(conn));
    after(engine, now, Ok(readable), None)
}

/// The head of the server's DMB after a write of the client.
fn head_of(outcome: &Outcome) -> [u8; 32] {
    match outcome.1.as_slice() {
        [IsmCommand::Signal { cdc, .. }] => *cdc,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_write_by_a_lent_data_path_is_one_of_the_endpoint() {
    let (mut pair, [conn, _], [near, far]) = attached();
    for len in [1, 0, 64, 5000, u32::MAX] {
        let outcome = both(|lends| written(&pair, conn, len, lends));
        assert_eq!(outcome.1.len(), usize::from(len > 0));
        let bytes = vec![7; len.min(5000) as usize];
        assert_eq!(pair.carry(near, far, &bytes), bytes);
        let _ = both(|lends| written(&pair, conn, len, lends));
    }
}

#[test]
fn a_read_by_a_lent_data_path_is_one_of_the_endpoint() {
    let (pair, [from, to], _) = attached();
    for sent in [1, 64, 5000, 9000] {
        let head = head_of(&written(&pair, from, sent, true));
        for len in [0, 1, 64, 7000, u32::MAX] {
            let outcome = both(|lends| read(&pair, to, head, len, lends));
            assert_eq!(outcome.0, Ok(len.min(sent)));
        }
    }
}

#[test]
fn a_message_is_handled_by_a_lent_data_path_as_by_the_endpoint() {
    let (mut pair, [from, to], [near, far]) = attached();
    for len in [1, 64, 5000] {
        let head = head_of(&written(&pair, from, len, true));
        assert_eq!(both(|lends| handled(&pair, to, head, lends)).0, Ok(1));
        let sent = vec![3; len as usize];
        assert_eq!(pair.carry(near, far, &sent), sent);
        // The same again.
        assert_eq!(both(|lends| handled(&pair, to, head, lends)).0, Ok(0));
    }
    // Heads that no peer writes that keeps the rules, and every flag.
    for (at, value) in [(0, 0xfd), (11, 0xff), (13, 0x7f), (19, 0xff), (8, 0x40)] {
        let mut head = [0; 32];
        (head[0], head[at]) = (0xfe, value);
        let _ = both(|lends| handled(&pair, to, head, lends));
    }
    for (at, bit) in (0..8).flat_map(|bit| [(22, bit), (23, bit)]) {
        let mut head = head_of(&written(&pair, from, 7, true));
        head[at] = 1 << bit;
        let _ = both(|lends| handled(&pair, to, head, lends));
    }
}

#[test]
fn only_a_connection_is_lent_of_which_nothing_but_bytes_is_expected() {
    let (mut pair, [conn, _], _) = attached();
    let now = pair.sim.now();
    let engine = pair.sim.endpoint(pair.client).expect("an engine");
    // It is lent once, and the endpoint has none of it meanwhile.
    let lent = engine.lend(now, conn).expect("a data path");
    assert!(!engine.can_lend(conn) && engine.lend(now, conn).is_none());
    assert!(!engine.is_readable(conn));
    assert!(
        engine
            .read(now, conn, |_| 0)
            .is_none_or(|read| read.is_err())
    );
    assert!(!engine.take_back(now, lent) && engine.can_lend(conn));
    // Something waits to be sent.
    let mut waits = pair.clone();
    let engine = waits.sim.endpoint(waits.client).expect("an engine");
    let mut at = engine.conn(conn).expect("a connection");
    assert_eq!(at.write(now, |_| 5), Ok(5));
    assert!(!engine.can_lend(conn));
    // Urgent bytes.
    let mut urgent = pair.clone();
    let engine = urgent.sim.endpoint(urgent.client).expect("an engine");
    let mut at = engine.conn(conn).expect("a connection");
    assert_eq!(at.commit_urgent(now, 1), Ok(()));
    while engine.poll_ism(now, DEVICE).is_some() {}
    assert!(!engine.can_lend(conn));
    // This side sends no more.
    let engine = pair.sim.endpoint(pair.client).expect("an engine");
    let mut at = engine.conn(conn).expect("a connection");
    at.shutdown(now, Shutdown::Write);
    assert!(!engine.can_lend(conn));
    // The memory of the peer is not mapped here.
    let mut moves = Setup::new(false).build();
    let [near, _] = moves.connect();
    let conn = moves.conn(near);
    let engine = moves.sim.endpoint(moves.client).expect("an engine");
    assert!(!engine.can_lend(conn));
}

#[test]
fn a_connection_that_is_lost_while_it_is_lent_ends_when_it_is_given_back() {
    let (mut pair, [from, conn], _) = attached();
    let head = head_of(&written(&pair, from, 100, true));
    let now = pair.sim.now();
    let engine = pair.sim.endpoint(pair.server).expect("an engine");
    let mut lent = engine.lend(now, conn).expect("a data path");
    assert_eq!(lent.handle_signal(&head), Some(true));
    let buffer = lent.send_buffer();
    engine.handle_ism(now, IsmCompletion::DmbWithdrawn { buffer });
    assert!(engine.poll_event().is_none());
    assert!(engine.take_back(now, lent));
    // What came can be saved.
    let mut at = engine.conn(conn).expect("a connection");
    assert_eq!(at.read(now, |space| room(space, 100)), Ok(100));
    assert_eq!(at.state(), Some(CloseState::Active));
    engine.end_lost(now, conn);
    let state = engine.conn(conn).and_then(|at| at.state());
    assert_ne!(state, Some(CloseState::Active));
}
