//! CDC messages of a hostile peer, applied to an established connection.

use smc_proto::completion::RdmaCompletion;
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::types::{AlertToken, BufferSize, Cursor};

use super::Reader;
use super::conn_pair::{establish, traffic};
use super::model::Model;
use super::net::Net;
use super::side::End;

/// Most steps decoded from one input.
const MAX_OPS: usize = 300;
/// The connection that is attacked, and the one beside it.
const TARGET: usize = 0;
const BYSTANDER: usize = 1;

/// A peer whose next message is near its last one.
struct Attacker {
    /// The attacked host.
    victim: usize,
    cdc: Cdc,
    bystander: AlertToken,
    base: u32,
}

/// One of two connections of a link group gets CDC messages the peer never
/// sent: cursors anywhere, any sequence number, any flag.
///
/// What can be read is at most the ring, what can be written at most the send
/// buffer, no WRITE leaves the memory that was granted (which the network
/// checks), and the other connection stays byte exact and closes in order.
pub fn cdc_apply(data: &[u8]) {
    let mut r = Reader::new(data);
    let choices = r.u8();
    let mut net = establish(choices, 2);
    let victim = r.below(2);
    let mut attacker = Attacker::new(&net, victim, choices);
    let mut models = [0x11, 0x77].map(|name| Model {
        name,
        ..Model::default()
    });
    let mut target = [Model::default(); 2];
    for _ in 0..MAX_OPS {
        if r.is_empty() {
            break;
        }
        let (op, side) = (r.below(20), r.below(2));
        match op {
            0 | 1 => {
                let n = usize::from(r.u16() >> (r.u8() & 15));
                models[side].write(&mut net.sides[side], BYSTANDER, n, false);
            }
            2 | 3 => {
                let n = usize::from(r.u16());
                models[1 - side].read(&mut net.sides[side], BYSTANDER, n);
            }
            4 | 5 => {
                let n = usize::from(r.u16() >> (r.u8() & 15));
                target[side].write(&mut net.sides[side], TARGET, n, op == 5);
            }
            12 | 13 => consume(&mut net, side, u32::from(r.u16())),
            14.. => attacker.attack(&mut net, &mut r),
            _ => traffic(&mut net, op, side, &mut r),
        }
        net.sides[side].check_conns();
        net.sides[victim].check_conns();
    }
    for _ in 0..200 {
        net.run(Duration::from_millis(500));
        let before = models.map(|m| m.read);
        for side in 0..2 {
            models[1 - side].read(&mut net.sides[side], BYSTANDER, usize::MAX);
        }
        if before == models.map(|m| m.read) {
            break;
        }
    }
    for model in models {
        assert_eq!(
            model.read, model.written,
            "the other connection lost octets"
        );
    }
    net.wind_down();
    for side in &net.sides {
        let end = side.conns[BYSTANDER].end;
        assert_eq!(end, Some(End::Closed(CloseReason::Normal)));
    }
}

/// Reads bytes without a check of their content.
fn consume(net: &mut Net, side: usize, n: u32) {
    let host = &mut net.sides[side];
    let (now, id) = (host.now, host.conns[TARGET].id);
    if let Some(mut conn) = host.endpoint.conn(id) {
        let readable = conn.readable().map_or(0, |spans| spans.len());
        let result = conn.consume(now, n.min(readable));
        assert!(result.is_ok() || readable == 0, "{result:?}");
    }
    host.check();
}

impl Attacker {
    fn new(net: &Net, victim: usize, choices: u8) -> Self {
        let host = &net.sides[victim];
        let token = |at: usize| {
            let id = host.conns[at].id;
            let found = host.tokens.iter().find(|(conn, _)| *conn == id);
            found.expect("every connection has a token").1
        };
        let base = if choices & 3 == 0 { 0 } else { 4 };
        let start = Cursor {
            wrap: 0,
            count: base,
        };
        Self {
            victim,
            cdc: Cdc {
                sequence: 0,
                alert_token: token(TARGET),
                producer: start,
                consumer: start,
                producer_flags: ProducerFlags::empty(),
                connection_flags: ConnectionFlags::empty(),
            },
            bystander: token(BYSTANDER),
            base,
        }
    }

    fn attack(&mut self, net: &mut Net, r: &mut Reader<'_>) {
        let jumps = [1, 1, 1, 1, 1, 2, 0, 0xffff, 0x7fff, 0x8000];
        self.cdc.sequence = self.cdc.sequence.wrapping_add(jumps[r.below(10)]);
        self.cdc.producer = self.near(self.cdc.producer, r);
        self.cdc.consumer = self.near(self.cdc.consumer, r);
        let flags = r.u8();
        self.cdc.producer_flags = ProducerFlags::from_bits_truncate(flags & 0xf0);
        let (rare, value) = (r.below(16), r.u8());
        match rare {
            0 => self.cdc.connection_flags = ConnectionFlags::from_bits_truncate(value),
            1 => self.cdc.producer_flags |= ProducerFlags::FAILOVER_VALIDATION,
            _ => {}
        }
        let mut cdc = self.cdc;
        if rare == 2 {
            cdc.alert_token.0 ^= 1 << (value & 31);
        }
        if cdc.alert_token == self.bystander {
            return;
        }
        let mut payload = cdc.emit();
        // Reserved bytes are ignored.
        payload[26 + usize::from(value % 18)] = value;
        let host = &mut net.sides[self.victim];
        let link = host.contract.links[0];
        host.rdma(RdmaCompletion::Received {
            link,
            payload: &payload,
        });
    }

    /// A cursor that stays, moves on, laps, or is anywhere.
    fn near(&self, cursor: Cursor, r: &mut Reader<'_>) -> Cursor {
        let size = BufferSize::K16.octets();
        match r.below(8) {
            0..=2 => cursor,
            3..=5 => {
                let count = cursor
                    .count
                    .wrapping_add(u32::from(r.u16()) >> (r.u8() & 15));
                if count >= size {
                    Cursor {
                        wrap: cursor.wrap.wrapping_add(1),
                        count: (count - size) % size + self.base,
                    }
                } else {
                    Cursor { count, ..cursor }
                }
            }
            6 => Cursor {
                wrap: cursor.wrap.wrapping_add(1),
                ..cursor
            },
            _ => Cursor {
                wrap: r.u16(),
                count: r.u32() >> (r.u8() & 31),
            },
        }
    }
}
