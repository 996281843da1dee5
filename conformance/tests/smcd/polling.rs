//! Polling the head of a DMB has the same outcome as a signal of it.

use std::collections::hash_map::DefaultHasher;
use std::hash::Hasher;

use conformance::smcd::{DEVICE, Setup};
use conformance::world::World;
use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;
use smc_proto::endpoint::PollOutcome;
use smc_proto::event::Event;
use smc_proto::id::ConnId;
use smc_proto::time::Duration;

/// What a client that writes `len` bytes would put to the head of the server's DMB.
fn head_of(pair: &World, conn: ConnId, len: u32) -> [u8; 32] {
    let mut pair = pair.clone();
    let now = pair.sim.now();
    let engine = pair.sim.endpoint(pair.client).expect("an engine");
    let mut signal = None;
    let written = engine.write_and_signal(
        now,
        conn,
        &mut signal,
        |_, _| len,
        |signal, head| *signal = Some(*head),
    );
    assert_eq!(written.expect("a connection"), Ok(len));
    match signal.map(IsmCommand::from) {
        Some(IsmCommand::Signal { cdc, .. }) => cdc,
        other => panic!("{other:?}"),
    }
}

/// The outcome of a message: whether anything was taken in and can be read, what the
/// device is asked, which events there are beside `Readable`, and the engine.
type Outcome = (bool, Vec<IsmCommand>, Vec<Event>, u64, String);

fn outcome(pair: &World, conn: ConnId, head: [u8; 32], polls: bool) -> Outcome {
    let mut pair = pair.clone();
    let now = pair.sim.now();
    let engine = pair.sim.endpoint(pair.server).expect("an engine");
    let mut own = None;
    let outcome = engine.poll_dmb(now, conn, |buffer, place| {
        own = Some(buffer);
        *place = head;
        polls
    });
    assert_eq!(outcome.is_anything(), polls);
    // What a socket has polled before need not be polled again.
    let quiet = engine.is_idle(DEVICE);
    assert!(
        outcome != PollOutcome::Cursors || quiet,
        "more than cursors moved"
    );
    if !polls {
        let buffer = own.expect("a DMB");
        engine.handle_ism(now, IsmCompletion::Signalled { buffer, cdc: head });
    }
    let readable = engine.is_readable(conn);
    let (mut commands, mut events) = (Vec::new(), Vec::new());
    let mut notified = false;
    loop {
        if let Some(command) = engine.poll_ism(now, DEVICE) {
            commands.push(command);
        } else if let Some(event) = engine.poll_event() {
            match event {
                Event::Readable { .. } => notified = true,
                event => events.push(event),
            }
        } else if engine.poll_tcp().is_none() {
            break;
        }
    }
    assert!(!readable || polls || notified, "a signal is reported");
    let mut state = DefaultHasher::new();
    engine.fingerprint(now, &mut state);
    let counted = format!("{:?}", engine.statistics());
    (readable, commands, events, state.finish(), counted)
}

fn both(pair: &World, conn: ConnId, head: [u8; 32]) -> Outcome {
    let (one, two) = (
        outcome(pair, conn, head, true),
        outcome(pair, conn, head, false),
    );
    assert_eq!(one, two, "{head:x?}");
    one
}

#[test]
fn a_poll_is_a_signal_but_for_the_event() {
    //= D-043 test
    for attaches in [true, false] {
        let mut pair = Setup::new(attaches).build();
        let [near, far] = pair.connect();
        let (from, to) = (pair.conn(near), pair.conn(far));
        for bytes in [1, 64, 5000] {
            // Only a writer in place announces with the write.
            let mut new = [0; 32];
            if attaches {
                new = head_of(&pair, from, bytes);
                let (readable, commands, events, ..) = both(&pair, to, new);
                assert!(readable && commands.is_empty() && events.is_empty());
            }
            let sent = vec![3; bytes as usize];
            assert_eq!(pair.carry(near, far, &sent), sent);
            // A ring of what was seen already.
            assert!(!both(&pair, to, new).0);
        }
        // Nothing was written yet: nothing follows.
        assert_eq!(both(&pair, to, [0; 32]).2, []);
        // Heads that no peer writes that keeps the rules: another type, cursors outside
        // of the ring and beyond what is free, every flag.
        for (at, byte) in [(0, 0xfd), (11, 0xff), (13, 0x7f), (19, 0xff), (8, 0x40)] {
            let mut head = [0; 32];
            head[0] = 0xfe;
            head[at] = byte;
            let ended = both(&pair, to, head);
            assert!(!ended.0, "{at}");
        }
        for bit in 0..8 {
            for at in [22, 23] {
                let mut head = if attaches {
                    head_of(&pair, from, 7)
                } else {
                    [0xfe; 32]
                };
                head[at] = 1 << bit;
                let _ = both(&pair, to, head);
            }
        }
        // A handle that is stale.
        pair.sim.finish(near);
        pair.sim.finish(far);
        pair.run(Duration::from_secs(1));
        let now = pair.sim.now();
        let engine = pair.sim.endpoint(pair.server).expect("an engine");
        if engine.conn(to).is_none() {
            assert_eq!(
                engine.poll_dmb(now, to, |_, _| panic!("no DMB")),
                PollOutcome::Nothing
            );
            assert!(!engine.is_readable(to));
        }
    }
}
