//! Writing and signalling the peer in one call has the same outcome as in two.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

use conformance::smcd::{DEVICE, Setup};
use conformance::world::World;
use smc_proto::command::IsmCommand;
use smc_proto::connection::ApiMisuse;
use smc_proto::id::ConnId;
use smc_proto::time::{Duration, Instant};

/// Outcome of a write: how it ended, what the device is asked, what the engine is
/// then, and what it counted.
type Outcome = (Result<u32, ApiMisuse>, Vec<IsmCommand>, u64, String);

fn now(pair: &World) -> Instant {
    pair.sim.now()
}

/// The write of `len` bytes, as far as they fit, in the client of a copy of `pair`.
fn written(pair: &World, conn: ConnId, len: u32, in_one: bool) -> Outcome {
    let (mut pair, now) = (pair.clone(), now(pair));
    let engine = pair.sim.endpoint(pair.client).expect("an engine");
    let fill = |space: &smc_proto::command::BufferSpans| {
        let room: u32 = space.segments.iter().map(|at| at.length).sum();
        len.min(room)
    };
    let (written, signalled) = if in_one {
        let mut signalled = None;
        let written = engine.write_and_signal(
            now,
            conn,
            &mut signalled,
            |_, space| fill(space),
            |signalled, signal| *signalled = Some(*signal),
        );
        (written.expect("a connection"), signalled)
    } else {
        let mut at = engine.conn(conn).expect("a connection");
        (at.write(now, fill), None)
    };
    let mut commands: Vec<_> = signalled.into_iter().map(IsmCommand::from).collect();
    while let Some(command) = engine.poll_ism(now, DEVICE) {
        commands.push(command);
    }
    while engine.poll_event().is_some() || engine.poll_tcp().is_some() {}
    assert!(engine.is_idle(DEVICE));
    let mut state = DefaultHasher::new();
    engine.fingerprint(now, &mut state);
    let counted = format!("{:?}", engine.statistics());
    (written, commands, state.finish(), counted)
}

fn both(pair: &World, conn: ConnId, len: u32) -> Outcome {
    let (one, two) = (
        written(pair, conn, len, true),
        written(pair, conn, len, false),
    );
    assert_eq!(one, two);
    one
}

#[test]
fn a_write_with_a_signal_is_a_write_and_what_follows() {
    //= D-045 test
    for attaches in [true, false] {
        let mut pair = Setup::new(attaches).build();
        let [near, far] = pair.connect();
        let conn = pair.conn(near);
        let signals = |outcome: &Outcome| {
            let signal = |at: &&IsmCommand| matches!(at, IsmCommand::Signal { .. });
            outcome.1.iter().filter(signal).count()
        };
        // Some, none, all there is room for, once round the ring.
        for len in [1, 0, 64, 5000, u32::MAX] {
            let outcome = both(&pair, conn, len);
            assert_eq!(signals(&outcome), usize::from(len > 0));
            let bytes = vec![7; len.min(5000) as usize];
            assert_eq!(pair.carry(near, far, &bytes), bytes);
            let _ = both(&pair, conn, len);
        }
        // No room is left.
        let mut full = pair.clone();
        let at = now(&full);
        let engine = full.sim.endpoint(full.client).expect("an engine");
        let mut fills = engine.conn(conn).expect("a connection");
        let taken = fills.write(at, |space| space.segments.iter().map(|at| at.length).sum());
        assert!(taken.is_ok_and(|bytes| bytes > 5000));
        assert_eq!(both(&full, conn, 1).0, Ok(0));
        // Something of the peer is to be acknowledged with it.
        pair.sim.write(far, &[8; 10_000]);
        pair.run(Duration::from_millis(1));
        pair.sim.read(near);
        assert_eq!(signals(&both(&pair, conn, 9)), 1);
        // Another connection of the way comes first.
        let [second, _] = pair.connect();
        let other = pair.conn(second);
        let mut crowded = pair.clone();
        let at = now(&crowded);
        let engine = crowded.sim.endpoint(crowded.client).expect("an engine");
        let mut waits = engine.conn(other).expect("a connection");
        assert_eq!(waits.write(at, |_| 5), Ok(5));
        let outcome = both(&crowded, conn, 9);
        assert_eq!(signals(&outcome), 2);
        let first = outcome.1.iter().find_map(|command| match command {
            IsmCommand::Signal { conn, .. } => Some(*conn),
            _ => None,
        });
        assert_eq!(first, Some(other));
        // This side has announced that it sends no more.
        pair.sim.finish(near);
        pair.run(Duration::from_millis(1));
        assert!(both(&pair, conn, 9).0.is_err());
    }
}
