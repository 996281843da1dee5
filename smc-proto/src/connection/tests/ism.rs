//! SMC-D: two connections that write into each other's DMB, where signals merge and come
//! late, and the send buffer may be the peer's DMB itself.

use super::harness::{octet, params};
use crate::command::{DataTransmit, DataWrite};
use crate::config::ConnectionConfig;
use crate::connection::*;
use crate::time::Instant;
use crate::wire::cdc::{Cdc, ProducerFlags};
use crate::wire::cdc_ism::{CDC_ISM_LENGTH, CONSUMER, CdcIsm, Endianness};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::vec;
use std::vec::Vec;

const HEAD: u32 = CDC_ISM_LENGTH as u32;

/// A transmit that was begun: writes to do, then the message.
type Open = (VecDeque<DataWrite>, Cdc, NotifyRecord);

struct Side {
    conn: Connection,
    open: Option<Open>,
    attached: bool,
    /// Memory of this side to move from, unless that is the peer's DMB.
    buffer: Vec<u8>,
    dmb: Vec<u8>,
    /// The peer signalled since this side last polled its head.
    signalled: bool,
    committed: u64,
    read: u64,
    notices: Notices,
}

struct Pair {
    now: Instant,
    cfg: ConnectionConfig,
    sides: [Side; 2],
}

impl Pair {
    fn new(usable: [u32; 2], attached: [bool; 2], send_buffer: u32) -> Self {
        let cfg = ConnectionConfig::DEFAULT;
        let ring = |side: usize| Ring::new(0, usable[side]).expect("a ring");
        let sides = [0, 1].map(|side| {
            let conn = Connection::new(&params(ring(side), ring(1 - side), send_buffer), &cfg);
            Side {
                conn: match attached[side] {
                    true => conn.attached(HEAD),
                    false => conn.over_smcd(),
                },
                open: None,
                attached: attached[side],
                buffer: vec![0; send_buffer as usize],
                dmb: vec![0; (usable[side] + HEAD) as usize],
                signalled: false,
                committed: 0,
                read: 0,
                notices: Notices::empty(),
            }
        });
        Self {
            now: Instant::from_nanos(1_000),
            cfg,
            sides,
        }
    }

    /// Writes up to `len` bytes into the send buffer, wherever that is.
    fn send(&mut self, side: usize, len: u32) -> u32 {
        let space = self.sides[side].conn.send_space();
        let len = len.min(space.len());
        let places = space
            .iter()
            .flat_map(|span| span.offset..span.offset + span.len);
        for at in places.take(len as usize) {
            let value = octet(self.sides[side].committed);
            self.sides[side].committed += 1;
            let memory = match self.sides[side].attached {
                true => &mut self.sides[1 - side].dmb,
                false => &mut self.sides[side].buffer,
            };
            memory[at as usize] = value;
        }
        let (now, cfg) = (self.now, self.cfg);
        let committed = self.sides[side].conn.commit(now, &cfg, len);
        assert!(committed.is_ok() || len == 0, "{committed:?}");
        len
    }

    fn recv(&mut self, side: usize, len: u32) -> u32 {
        let s = &mut self.sides[side];
        let readable = s.conn.readable();
        let len = len.min(readable.len());
        let places = readable
            .iter()
            .flat_map(|span| span.offset..span.offset + span.len);
        for at in places.take(len as usize) {
            assert_eq!(
                s.dmb[(at + HEAD) as usize],
                octet(s.read),
                "octet {}",
                s.read
            );
            s.read += 1;
        }
        assert!(s.conn.consume(len).is_ok() || len == 0);
        len
    }

    /// The device of a side executes up to `most` commands.
    fn poll(&mut self, side: usize, most: u32) -> u32 {
        let (now, cfg) = (self.now, self.cfg);
        for step in 0..most {
            if self.sides[side].open.is_none() {
                let wanted = self.sides[side].conn.wants_work();
                let mut transmit = DataTransmit::EMPTY;
                let conn = &mut self.sides[side].conn;
                let Some(sent) = conn.next_transmit(now, &cfg, HEAD.into(), &mut transmit) else {
                    assert!(!wanted);
                    return step;
                };
                let mut writes: VecDeque<_> = transmit.writes.into();
                writes.retain(|write| !write.is_empty() && !self.sides[side].attached);
                self.sides[side].open = Some((writes, transmit.cdc, sent.record));
            }
            let Some((writes, cdc, record)) = &mut self.sides[side].open else {
                return step;
            };
            if let Some(write) = writes.pop_front() {
                let from = &self.sides[side].buffer;
                let bytes: Vec<u8> = write
                    .source
                    .iter()
                    .flat_map(|s| from[s.offset as usize..(s.offset + s.length) as usize].to_vec())
                    .collect();
                assert_eq!(bytes.len(), write.len() as usize);
                let at = write.address as usize;
                self.sides[1 - side].dmb[at..at + bytes.len()].copy_from_slice(&bytes);
                continue;
            }
            let (cdc, record) = (*cdc, *record);
            self.sides[side].open = None;
            let head = CdcIsm::from(cdc).emit(Endianness::NATIVE);
            self.sides[1 - side].dmb[..CDC_ISM_LENGTH].copy_from_slice(&head);
            self.sides[1 - side].signalled = true;
            self.sides[side].conn.on_signalled(now, &cfg, record);
        }
        most
    }

    /// A side receives signals, however many there were.
    fn receive(&mut self, side: usize, needless: bool) -> bool {
        let (now, cfg) = (self.now, self.cfg);
        let s = &mut self.sides[side];
        if !core::mem::take(&mut s.signalled) && !needless {
            return false;
        }
        let head = s.dmb.first_chunk().expect("a head");
        if let Ok(cdc) = CdcIsm::parse(head, Endianness::NATIVE) {
            let outcome = s.conn.on_cdc_ism(now, &cfg, &cdc);
            assert!(!matches!(outcome, CdcOutcome::Misbehaved(_)), "{outcome:?}");
            assert!(!matches!(outcome, CdcOutcome::Stale), "{outcome:?}");
        }
        s.notices |= s.conn.take_notices();
        true
    }

    /// Producer flags of the message in the DMB of a side.
    fn flags_for(&self, side: usize) -> ProducerFlags {
        let head = self.sides[side].dmb.first_chunk().expect("a head");
        CdcIsm::parse(head, Endianness::NATIVE)
            .expect("a message")
            .producer_flags
    }

    fn run(&mut self) {
        for _ in 0..10_000 {
            let mut moved = false;
            for side in [0, 1] {
                moved |= self.poll(side, 10) > 0;
                moved |= self.receive(side, false);
            }
            if !moved {
                return;
            }
        }
        panic!("no rest");
    }

    fn fire(&mut self) -> bool {
        let next = |s: &Side| s.conn.next_timeout();
        let Some(at) = self.sides.iter().filter_map(next).min() else {
            return false;
        };
        self.now = self.now.max(at);
        let (now, cfg) = (self.now, self.cfg);
        for s in &mut self.sides {
            s.conn.on_timeout(now, &cfg);
        }
        true
    }
}

#[test]
fn a_stream_passes_every_position_of_a_small_ring() {
    //= D-044 test
    for ring in 1..=8 {
        for attached in [true, false] {
            for begin in 0..ring {
                for len in 1..=ring {
                    let mut pair = Pair::new([ring; 2], [attached; 2], 5);
                    // To the position, then across the end as often as it takes.
                    for part in [begin, len, len, ring, len] {
                        let mut left = part;
                        while left > 0 {
                            left -= pair.send(0, left);
                            pair.run();
                            pair.recv(1, ring);
                            pair.run();
                        }
                    }
                    assert_eq!(pair.sides[1].read, u64::from(begin + 3 * len + ring));
                }
            }
        }
    }
}

#[test]
fn space_in_the_peers_ring_comes_back_when_the_peer_has_read() {
    let mut pair = Pair::new([8; 2], [true; 2], 0);
    assert_eq!(pair.send(0, 100), 8);
    assert!(pair.sides[0].conn.send_space().is_empty());
    pair.run();
    assert!(
        pair.sides[0].conn.send_space().is_empty(),
        "signalled is not read"
    );
    pair.recv(1, 3);
    pair.run();
    assert_eq!(pair.sides[0].conn.send_space().len(), 3);
    assert!(pair.sides[0].notices.contains(Notices::WRITABLE));
    let first = pair.sides[0].conn.send_space().first();
    assert_eq!(first.offset, HEAD, "the ring begins behind the head");
}

#[test]
fn an_urgent_octet_is_found_at_every_position() {
    //= D-047 test
    for (attached, begin) in (0..8).flat_map(|begin| [(true, begin), (false, begin)]) {
        for flags_come_late in [false, true] {
            let mut pair = Pair::new([8; 2], [attached; 2], 8);
            pair.send(0, begin);
            pair.run();
            pair.recv(1, 8);
            pair.run();
            pair.send(0, 2);
            pair.sides[0].conn.tx.mark_urgent();
            if flags_come_late {
                let before = pair.sides[1].dmb[CONSUMER].to_vec();
                pair.poll(0, 10);
                let whole = pair.sides[1].dmb[CONSUMER].to_vec();
                pair.sides[1].dmb[CONSUMER].copy_from_slice(&before);
                pair.receive(1, true);
                assert!(!pair.sides[1].notices.contains(Notices::URGENT));
                pair.sides[1].dmb[CONSUMER].copy_from_slice(&whole);
                pair.sides[1].signalled = true;
            }
            pair.run();
            assert!(pair.sides[1].notices.contains(Notices::URGENT));
            let urgent = pair.sides[1].conn.urgent().expect("it is there");
            let at = pair.sides[1].read + u64::from(urgent.ahead);
            assert_eq!(at, u64::from(begin) + 1);
            assert_eq!(
                pair.sides[1].dmb[(urgent.offset + HEAD) as usize],
                octet(at)
            );
        }
    }
}

#[test]
fn an_urgent_octet_is_marked_though_later_messages_overwrite_its_own() {
    //= D-047 test
    //= D-060 test
    for attached in [true, false] {
        let mut pair = Pair::new([8; 2], [attached; 2], 8);
        pair.send(0, 3);
        pair.sides[0].conn.tx.mark_urgent();
        assert!(pair.poll(0, 10) > 0);
        // The reader is busy. A cursor and a half-close follow, over the same memory.
        pair.send(1, 8);
        pair.poll(1, 10);
        pair.receive(0, false);
        assert_eq!(pair.recv(0, 8), 8);
        assert_eq!(pair.poll(0, 10), 1);
        assert_eq!(pair.flags_for(1), ProducerFlags::URGENT_PRESENT);
        let (now, cfg) = (pair.now, pair.cfg);
        pair.sides[0].conn.shutdown(now, &cfg, Shutdown::Write);
        // In place nothing is in flight; from a buffer everything was moved.
        assert_eq!(pair.poll(0, 10), 1);
        assert_eq!(pair.flags_for(1), ProducerFlags::URGENT_PRESENT);
        pair.receive(1, false);
        assert!(pair.sides[1].notices.contains(Notices::URGENT));
        assert_eq!(pair.sides[1].conn.urgent().map(|u| u.ahead), Some(2));
        assert_eq!(pair.recv(1, 3), 3);
        pair.run();
        assert!(pair.sides[1].conn.is_end_of_stream());
        // Once it is acknowledged, no message marks it any more.
        pair.sides[0].conn.shutdown(now, &cfg, Shutdown::Both);
        pair.poll(0, 10);
        assert_eq!(pair.flags_for(1), ProducerFlags::empty());
    }
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Send(usize, u32),
    Recv(usize, u32),
    Poll(usize, u32),
    Receive(usize, bool),
    Shutdown(usize, Shutdown),
    Abort(usize),
    MoveFails(usize),
    Fire,
}

fn action() -> impl Strategy<Value = Action> {
    let side = 0..2usize;
    let how = prop_oneof![
        Just(Shutdown::Write),
        Just(Shutdown::Both),
        Just(Shutdown::Read)
    ];
    prop_oneof![
        12 => (side.clone(), 1..12u32).prop_map(|(s, n)| Action::Send(s, n)),
        12 => (side.clone(), 1..12u32).prop_map(|(s, n)| Action::Recv(s, n)),
        25 => (side.clone(), 1..4u32).prop_map(|(s, n)| Action::Poll(s, n)),
        20 => (side.clone(), any::<bool>()).prop_map(|(s, n)| Action::Receive(s, n)),
        3 => (side.clone(), how).prop_map(|(s, h)| Action::Shutdown(s, h)),
        1 => side.clone().prop_map(Action::Abort),
        1 => side.prop_map(Action::MoveFails),
        1 => Just(Action::Fire),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    /// Whatever the order in which commands are executed and signals are received: bytes
    /// arrive as sent, neither side blames the other, and both ends close.
    #[test]
    fn streams_and_closes_converge(
        usable in [1..20u32, 1..20u32],
        attached in any::<[bool; 2]>(),
        send_buffer in 1..20u32,
        actions in proptest::collection::vec(action(), 0..120),
    ) {
        let mut pair = Pair::new(usable, attached, send_buffer);
        let mut unkind = false;
        for action in actions {
            let (now, cfg) = (pair.now, pair.cfg);
            match action {
                Action::Send(s, n) => { pair.send(s, n); }
                Action::Recv(s, n) => { pair.recv(s, n); }
                Action::Poll(s, n) => { pair.poll(s, n); }
                Action::Receive(s, needless) => { pair.receive(s, needless); }
                Action::Shutdown(s, how) => pair.sides[s].conn.shutdown(now, &cfg, how),
                Action::Abort(s) => {
                    unkind = true;
                    pair.sides[s].conn.abort(now, &cfg);
                }
                Action::MoveFails(s) => {
                    unkind = true;
                    pair.sides[s].conn.on_move_failed(now, &cfg);
                }
                Action::Fire => {
                    unkind |= pair.fire();
                }
            }
        }
        // No read is in vain: all that was committed arrives before the close.
        for _ in 0..200 {
            pair.run();
            for side in [0, 1] {
                pair.recv(side, 100);
            }
        }
        let states = [0, 1].map(|side| pair.sides[side].conn.state());
        if !unkind && states == [CloseState::Active; 2] {
            for side in [0, 1] {
                prop_assert_eq!(pair.sides[side].read, pair.sides[1 - side].committed);
            }
        }
        let (now, cfg) = (pair.now, pair.cfg);
        for side in [0, 1] {
            pair.sides[side].conn.shutdown(now, &cfg, Shutdown::Both);
        }
        for _ in 0..20 {
            pair.run();
            if !pair.fire() {
                break;
            }
        }
        pair.run();
        for side in &pair.sides {
            prop_assert_eq!(side.conn.state(), CloseState::Closed);
            prop_assert!(side.conn.is_finished());
        }
    }
}
