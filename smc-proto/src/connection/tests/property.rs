//! Two connections, two applications and a network that act in any order.

use super::harness::{Pair, take_transmit};
use crate::config::ConnectionConfig;
use crate::connection::*;
use crate::time::Duration;
use crate::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use crate::wire::types::{AlertToken, Cursor};
use proptest::prelude::*;
use std::vec;

#[derive(Clone, Copy, Debug)]
enum Action {
    Send(usize, u32),
    Urgent(usize, u32),
    TakeUrgent(usize),
    Recv(usize, u32),
    Poll(usize),
    Deliver(usize),
    Complete(usize),
    Shutdown(usize, Shutdown),
    Abort(usize),
    TcpReset(usize),
    ChangeLink(usize),
    Wait(u64),
    Fire,
}

fn action() -> impl Strategy<Value = Action> {
    use crate::connection::Shutdown as How;
    use Action::*;
    let side = 0..2usize;
    let how = prop_oneof![
        Just(How::Read),
        Just(How::Write),
        Just(How::Write),
        Just(How::Both)
    ];
    prop_oneof![
        12 => (side.clone(), 1..12u32).prop_map(|(s, n)| Send(s, n)),
        3 => (side.clone(), 1..6u32).prop_map(|(s, n)| Urgent(s, n)),
        2 => side.clone().prop_map(TakeUrgent),
        12 => (side.clone(), 1..12u32).prop_map(|(s, n)| Recv(s, n)),
        20 => side.clone().prop_map(Poll),
        30 => side.clone().prop_map(Deliver),
        16 => side.clone().prop_map(Complete),
        3 => (side.clone(), how).prop_map(|(s, h)| Shutdown(s, h)),
        1 => side.clone().prop_map(Abort),
        1 => side.clone().prop_map(TcpReset),
        3 => side.prop_map(ChangeLink),
        2 => (0..2_000_000u64).prop_map(Wait),
        1 => Just(Fire),
    ]
}

fn ring() -> impl Strategy<Value = Ring> {
    (prop_oneof![Just(0u32), Just(4)], 1..20u32)
        .prop_map(|(base, usable)| Ring::new(base, base + usable).unwrap())
}

fn act(pair: &mut Pair, action: Action) {
    let (now, cfg) = (pair.now, pair.cfg);
    match action {
        Action::Send(s, n) => {
            pair.send(s, n, false);
        }
        Action::Urgent(s, n) => {
            pair.send(s, n, true);
        }
        Action::TakeUrgent(s) => take_urgent(pair, s),
        Action::Recv(s, n) => {
            pair.recv(s, n);
        }
        Action::Poll(s) => {
            pair.poll(s);
        }
        Action::Deliver(s) => {
            pair.deliver(s);
        }
        Action::Complete(s) => {
            pair.complete(s);
        }
        Action::Shutdown(s, how) => pair.shutdown(s, how),
        Action::Abort(s) => pair.abort(s),
        Action::TcpReset(s) => {
            pair.conn(s).on_tcp_reset(now, &cfg);
            pair.check();
        }
        Action::ChangeLink(s) => pair.change_link(s),
        Action::Wait(nanos) => {
            pair.now = now.after(Duration::from_nanos(nanos));
            for s in [0, 1] {
                let now = pair.now;
                pair.conn(s).on_timeout(now, &cfg);
            }
            pair.check();
        }
        Action::Fire => {
            pair.fire();
        }
    }
}

/// Copies the urgent byte out; out of line the reader then steps over it.
fn take_urgent(pair: &mut Pair, s: usize) {
    let side = &mut pair.sides[s];
    if let Ok(urgent) = side.conn.take_urgent() {
        let at = side.read + u64::from(urgent.ahead);
        assert_eq!(side.rmbe[urgent.offset as usize], super::harness::octet(at));
        side.read = side.conn.rx.consumed.total;
    }
    pair.check();
}

/// Both applications close and read what is left; then only timers may act.
fn wind_down(pair: &mut Pair) {
    for s in [0, 1] {
        pair.recv(s, 100);
        pair.shutdown(s, Shutdown::Both);
    }
    pair.run();
    for _ in 0..20 {
        if pair.states() == [CloseState::Closed; 2] {
            break;
        }
        assert!(pair.fire(), "stranded in {:?}", pair.states());
        pair.run();
    }
    assert_eq!(pair.states(), [CloseState::Closed; 2]);
    for s in &pair.sides {
        assert!(s.conn.is_finished(), "{:?}", s.conn);
        assert_eq!(s.closed_notices, 1);
        let graceful = s.conn.cause() == Some(CloseCause::Orderly);
        let closed_tcp = s.notices.contains(Notices::TCP_CLOSE);
        // Over SMC-D, TCP is finished by the side that ends first, whatever comes then.
        #[cfg(feature = "smc-d")]
        let may_be_early = s.conn.smcd;
        #[cfg(not(feature = "smc-d"))]
        let may_be_early = false;
        assert!(closed_tcp == graceful || closed_tcp && may_be_early);
        assert_eq!(s.notices.contains(Notices::RESET), !graceful);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases * 2, ..ProptestConfig::default() })]

    #[test]
    fn any_order_of_events_ends_closed_with_a_prefix_delivered(
        a in ring(),
        b in ring(),
        send_buffer in 1..24u32,
        (inline, keep, smcd) in any::<(bool, bool, bool)>(),
        actions in prop::collection::vec(action(), 0..160),
    ) {
        //= CASE-E01 test
        //= CLOSE-028 test
        //= CLOSE-029 test
        //= ABORT-011 test
        //= ABORT-019 test
        //= FLOW-002 test
        //= FAILOVER-018 test
        let mut cfg = ConnectionConfig::DEFAULT;
        cfg.keep_received = keep;
        let mut pair = Pair::configured(cfg, a, b, send_buffer, inline);
        #[cfg(feature = "smc-d")]
        if smcd {
            pair = pair.over_smcd();
        }
        #[cfg(not(feature = "smc-d"))]
        let _ = smcd;
        for action in actions {
            act(&mut pair, action);
        }
        wind_down(&mut pair);
    }

    /// Without faults and with readers that keep reading, everything arrives.
    #[test]
    fn everything_sent_before_the_close_arrives(
        a in ring(),
        b in ring(),
        send_buffer in 1..24u32,
        rounds in prop::collection::vec((0..2usize, 1..30u32, any::<bool>(), 0..6u32, any::<bool>()), 1..40),
    ) {
        let mut pair = Pair::new(a, b, send_buffer);
        for (side, len, urgent, steps, failover) in rounds {
            pair.send(side, len, urgent);
            for step in 0..steps {
                pair.poll(side);
                pair.deliver(side);
                pair.complete((side + step as usize) % 2);
                pair.recv(1 - side, len);
            }
            if failover {
                pair.change_link(side);
            }
        }
        for side in [0, 1] {
            pair.shutdown(side, Shutdown::Write);
        }
        for _ in 0..1_000 {
            pair.run();
            if pair.recv(0, 100) + pair.recv(1, 100) == 0 && !pair.sides.iter().any(|s| s.conn.wants_work()) {
                break;
            }
        }
        for side in [0, 1] {
            prop_assert_eq!(pair.sides[side].committed, pair.sides[1 - side].read);
            prop_assert!(pair.sides[side].conn.is_end_of_stream());
        }
        wind_down(&mut pair);
        for side in &pair.sides {
            prop_assert_eq!(side.conn.cause(), Some(CloseCause::Orderly));
        }
    }

    /// Whatever messages arrive, no counter leaves its buffer, nothing is written
    /// outside the window, and the connection can always be ended.
    #[test]
    fn a_hostile_peer_harms_only_itself(
        (ours, theirs) in (ring(), ring()),
        steps in prop::collection::vec(
            (0..10u8, 0..4u16, (0..3u16, 0..26u32), (0..3u16, 0..26u32), any::<(u8, u8)>()),
            1..80,
        ),
    ) {
        let mut pair = Pair::new(ours, theirs, 16);
        let mut sequence = 0u16;
        for (what, gap, producer, consumer, flags) in steps {
            match what {
                0 => { pair.send(0, u32::from(gap) + 1, flags.0 & 1 == 1); }
                1 => { let n = pair.conn(0).readable().len(); let _ = pair.conn(0).consume(n.min(3)); }
                2 => { hostile_poll(&mut pair); }
                3 => { while let Some(r) = pair.sides[0].done.pop_front() {
                    let (now, cfg) = (pair.now, pair.cfg);
                    pair.conn(0).on_notify_completed(now, &cfg, r);
                } }
                4 if flags.0 < 30 => pair.shutdown(0, if flags.1 < 128 { Shutdown::Write } else { Shutdown::Both }),
                _ => {
                    sequence = sequence.wrapping_add(gap);
                    forge(&mut pair, sequence, producer, consumer, flags);
                }
            }
            pair.check();
        }
        pair.shutdown(0, Shutdown::Both);
        for _ in 0..8 {
            hostile_poll(&mut pair);
            let (now, cfg) = (pair.now, pair.cfg);
            if let Some(next) = pair.conn(0).next_timeout() {
                pair.now = now.max(next);
                let now = pair.now;
                pair.conn(0).on_timeout(now, &cfg);
            }
            pair.check();
        }
        prop_assert_eq!(pair.states()[0], CloseState::Closed);
    }
}

/// Executes the work of side 0 against memory that no side reads.
fn hostile_poll(pair: &mut Pair) {
    let (now, cfg) = (pair.now, pair.cfg);
    for _ in 0..4 {
        let peer = pair.conn(0).tx.peer;
        let Some(transmit) = take_transmit(pair.conn(0), now, &cfg) else {
            return;
        };
        for write in transmit.writes {
            let offset = u32::try_from(write.address).expect("in the element");
            assert!(offset >= peer.base() && offset + write.len() <= peer.end());
        }
        pair.sides[0].done.push_back(transmit.record);
    }
    panic!("endless work");
}

/// A message with cursors around the present ones and any flags.
fn forge(pair: &mut Pair, sequence: u16, p: (u16, u32), c: (u16, u32), flags: (u8, u8)) {
    let (now, cfg) = (pair.now, pair.cfg);
    let cursor = |(wrap, count): (u16, u32), near: Cursor| Cursor {
        wrap: near.wrap.wrapping_add(wrap).wrapping_sub(1),
        count,
    };
    let conn = pair.conn(0);
    let cdc = Cdc {
        sequence,
        alert_token: AlertToken(7),
        producer: cursor(p, conn.rx.received.cursor),
        consumer: cursor(c, conn.tx.consumer.cursor),
        producer_flags: ProducerFlags::from_bits_truncate(flags.0),
        // Mostly none, or the end would always come at once.
        connection_flags: ConnectionFlags::from_bits_truncate(if flags.1 < 200 {
            0
        } else {
            flags.1 << 3
        }),
    };
    let before = (conn.rx.received, conn.tx.consumer, conn.rx.sequence);
    if let CdcOutcome::Misbehaved(_) = conn.on_cdc(now, &cfg, &cdc) {
        assert_eq!(
            before,
            (conn.rx.received, conn.tx.consumer, conn.rx.sequence)
        );
    }
}
