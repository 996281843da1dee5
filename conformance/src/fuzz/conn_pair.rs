//! An established pair: what arrives is what was sent, and it ends.

use std::cell::RefCell;
use std::collections::HashMap;

use smc_proto::connection::{CloseState, Shutdown};
use smc_proto::endpoint::ConnOptions;
use smc_proto::time::Duration;
use smc_proto::wire::clc::Subnets;

use super::Reader;
use super::model::Model;
use super::net::Net;
use super::side::{End, Side};

/// Most steps decoded from one input.
const MAX_OPS: usize = 300;

/// Two hosts with `connections` established connections.
pub(super) fn establish(choices: u8, connections: usize) -> Net {
    /// What was established before: an input asks for one of 32 pairs.
    type Known = HashMap<(u8, usize), Net>;
    thread_local!(static KNOWN: RefCell<Known> = RefCell::default());
    let choices = choices & 0xf;
    KNOWN.with_borrow_mut(|known| {
        let net = known.entry((choices, connections));
        net.or_insert_with(|| establish_anew(choices, connections))
            .clone()
    })
}

fn establish_anew(choices: u8, connections: usize) -> Net {
    let mut net = Net::new(|side, config| {
        config.eye_catcher = choices >> side & 1 != 0;
        config.elements_per_rmb = if choices & 4 != 0 { 3 } else { 1 };
    });
    let mut options = ConnOptions::new(Subnets::default());
    options.nodelay = choices & 8 != 0;
    for _ in 0..connections {
        net.open(&options);
        net.run(Duration::from_millis(100));
    }
    assert!(
        net.sides
            .iter()
            .flat_map(|s| &s.conns)
            .all(|c| c.established)
    );
    net
}

/// How long the network of one connection stands still at most: a link whose tests are
/// not answered is lost, and the connection with it.
const STANDSTILL: Duration = Duration::from_secs(1);

/// One connection, read and written in any portions over a network that moves
/// one thing at a time: what is read is a prefix of what was written, and all of
/// it once everything has moved, unless a side aborted.
pub fn conn_pair(data: &[u8]) {
    let mut r = Reader::new(data);
    let mut net = establish(r.u8(), 1);
    let mut models = [0x5a, 0xc3].map(|name| Model {
        name,
        ..Model::default()
    });
    let mut ended = [false; 2];
    let mut moved = net.sides[0].now;
    for _ in 0..MAX_OPS {
        if r.is_empty() {
            break;
        }
        if net.sides[0].now.since(moved) >= STANDSTILL {
            net.run_until_idle();
            moved = net.sides[0].now;
        }
        let (op, side) = (r.below(14), r.below(2));
        match op {
            0..=2 => {
                let n = usize::from(r.u16() >> (r.u8() & 15));
                models[side].write(&mut net.sides[side], 0, n, op == 2);
            }
            3..=5 => {
                let n = usize::from(r.u16() >> (r.u8() & 15));
                models[1 - side].read(&mut net.sides[side], 0, n);
            }
            12 if r.below(4) == 0 => {
                ended[side] = true;
                close(&mut net.sides[side], 0, Shutdown::Write);
            }
            _ => traffic(&mut net, op, side, &mut r),
        }
        net.sides[side].check_conns();
    }
    // Everything arrives, once the applications read it.
    for _ in 0..200 {
        net.run(Duration::from_millis(500));
        let before = models.map(|m| m.read);
        for side in 0..2 {
            models[1 - side].read(&mut net.sides[side], 0, usize::MAX);
        }
        if before == models.map(|m| m.read) {
            break;
        }
    }
    for side in 0..2 {
        let model = models[side];
        assert_eq!(model.read, model.written, "lost on the way from {side}");
        let id = net.sides[1 - side].conns[0].id;
        let conn = net.sides[1 - side].endpoint.conn(id);
        assert_eq!(conn.is_some_and(|c| c.is_end_of_stream()), ended[side]);
    }
    net.wind_down();
    for side in &net.sides {
        assert_eq!(
            side.conns[0].end,
            Some(End::Closed(smc_proto::event::CloseReason::Normal))
        );
    }
}

fn close(side: &mut Side, at: usize, how: Shutdown) {
    let (now, id) = (side.now, side.conns[at].id);
    if let Some(mut conn) = side.endpoint.conn(id) {
        conn.shutdown(now, how);
    }
    side.check();
}

/// The network moves.
pub(super) fn traffic(net: &mut Net, op: usize, side: usize, r: &mut Reader<'_>) {
    match op {
        6 | 7 => {
            net.poll(side, r.below(8));
        }
        8 | 9 => {
            net.deliver(side);
        }
        10 => {
            let at = r.below(net.sides[side].sent.len());
            net.sides[side].report(at);
        }
        11 => net.run_until_idle(),
        _ => net.advance(Duration::from_millis(u64::from(r.u8()))),
    }
}

/// Two connections that are closed, aborted and left alone in any order: all
/// reach CLOSED, and nothing is left.
pub fn close_pair(data: &[u8]) {
    let mut r = Reader::new(data);
    let mut net = establish(r.u8(), 2);
    let mut models = [[Model::default(); 2]; 2];
    for _ in 0..MAX_OPS {
        if r.is_empty() {
            break;
        }
        let (op, side, at) = (r.below(16), r.below(2), r.below(2));
        match op {
            0 | 1 => {
                let n = usize::from(r.u16() >> (r.u8() & 15));
                models[at][side].write(&mut net.sides[side], at, n, op == 1);
            }
            2 => {
                let n = usize::from(r.u16());
                models[at][1 - side].read(&mut net.sides[side], at, n);
            }
            3 => close(&mut net.sides[side], at, Shutdown::Read),
            4 => close(&mut net.sides[side], at, Shutdown::Write),
            5 => close(&mut net.sides[side], at, Shutdown::Both),
            12 => {
                let (now, id) = (net.sides[side].now, net.sides[side].conns[at].id);
                if let Some(mut conn) = net.sides[side].endpoint.conn(id) {
                    conn.abort(now);
                }
            }
            13 => net.advance(Duration::from_secs(u64::from(r.u8()))),
            14 if r.below(8) == 0 => {
                let link = net.sides[side].contract.links[0];
                net.fail(side, link);
            }
            15 => {
                let id = net.sides[side].conns[at].id;
                let conn = net.sides[side].endpoint.conn(id);
                let state = conn.and_then(|conn| conn.state());
                assert!(
                    state != Some(CloseState::Closed) || {
                        let conn = net.sides[side].endpoint.conn(id);
                        conn.is_none_or(|c| c.send_space().is_none_or(|s| s.is_empty()))
                    }
                );
            }
            _ => traffic(&mut net, op, side, &mut r),
        }
        net.sides[side].check_conns();
    }
    net.wind_down();
}
