//! A connection of SMC-D whose peer writes what it likes to the head of its DMB.

use smc_proto::completion::IsmCompletion;
use smc_proto::connection::Shutdown;
use smc_proto::id::{BufferId, ConnId, DeviceId};
use smc_proto::time::Duration;
use smc_proto::wire::cdc::{ConnectionFlags, ProducerFlags};
use smc_proto::wire::cdc_ism::{CDC_ISM_LENGTH, CdcIsm, Endianness};
use smc_proto::wire::types::{Cursor, DmbToken, IsmGid};

use super::Reader;
use crate::smcd::hand::{DEVICE, Hand, Mode, RING};

/// Most steps decoded from one input.
const MAX_OPS: usize = 300;

/// One of two connections of a group has a peer that sends anything at any time: cursors
/// anywhere, heads that are torn or no CDC messages, one message while the last is being
/// taken in; and a device that reports others, failures, and unsolicited answers.
///
/// What can be read is at most the ring, what can be written leaves no DMB, what is moved
/// stays inside the peer's, the other connection goes on, and nothing is left in the end.
pub fn smcd_cdc(data: &[u8]) {
    let mut r = Reader::new(data);
    let mode = Mode::ALL[r.below(Mode::ALL.len())];
    let (mut hand, victim) = Hand::connected(mode, r.flag());
    let target = hand.dmb();
    let other = hand.client(false, 0xb);
    let bystander = hand.dmb();
    let mut peer = Peer::default();
    let mut produced = 0;
    for _ in 0..MAX_OPS {
        if r.is_empty() {
            break;
        }
        match r.below(16) {
            0..=5 => {
                let cdc = peer.message(&mut r).emit(Endianness::NATIVE);
                signal(&mut hand, target, cdc);
            }
            6 => {
                let cdc = torn(&mut r, &peer);
                signal(&mut hand, target, cdc);
            }
            7 => signal(&mut hand, target, r.array()),
            8 => read(&mut hand, victim, u32::from(r.u16())),
            9 => write(&mut hand, victim, u32::from(r.u16()), r.flag()),
            10 => end(&mut hand, victim, &mut r),
            11 => hand.wait(Duration::from_micros(u64::from(r.u16()) << r.below(16))),
            12 => {
                if produced < RING {
                    produced += 1;
                    let message = CdcIsm {
                        producer: cursor(0, produced),
                        ..CdcIsm::default()
                    };
                    signal(&mut hand, bystander, message.emit(Endianness::NATIVE));
                }
            }
            13 => lie(&mut hand, &mut r, target, victim),
            // The device takes its time.
            14 => hand.hold = !hand.hold,
            _ => {
                if let Some(command) = hand.commands.pop_front() {
                    hand.execute(command);
                    hand.pump();
                }
            }
        }
        hand.check();
    }
    assert_eq!(hand.closed(other), None, "the other connection ended");
    assert_eq!(hand.readable(other).unwrap_or(0), produced);
    hand.end();
}

const fn cursor(wrap: u16, count: u32) -> Cursor {
    Cursor { wrap, count }
}

/// The last message of the peer: its next one is near that.
#[derive(Default)]
struct Peer {
    last: CdcIsm,
}

impl Peer {
    fn message(&mut self, r: &mut Reader<'_>) -> CdcIsm {
        let mut next = self.last;
        for at in [&mut next.producer, &mut next.consumer] {
            *at = match r.below(8) {
                0 | 1 => *at,
                2 => cursor(at.wrap, at.count.wrapping_add(r.u8().into())),
                3 => cursor(at.wrap.wrapping_add(1), at.count),
                4 => cursor(at.wrap, RING - 1),
                5 => cursor(at.wrap.wrapping_add(1), 0),
                6 => cursor(at.wrap, r.u32() & 0x7fff),
                _ => cursor(r.u16(), r.u32()),
            };
        }
        next.producer_flags = ProducerFlags::from_bits_truncate(r.u8());
        // Seldom an end: it ends what there is to see.
        let ends = match r.below(8) {
            0 => r.u8(),
            _ => 0,
        };
        next.connection_flags = ConnectionFlags::from_bits_truncate(ends);
        self.last = next;
        next
    }
}

/// A part of the last message, and a part of something else.
fn torn(r: &mut Reader<'_>, peer: &Peer) -> [u8; CDC_ISM_LENGTH] {
    let mut bytes = peer.last.emit(Endianness::NATIVE);
    let (from, length) = (r.below(CDC_ISM_LENGTH), r.below(CDC_ISM_LENGTH));
    for byte in bytes.iter_mut().skip(from).take(length) {
        *byte = r.u8();
    }
    bytes
}

fn signal(hand: &mut Hand, buffer: BufferId, cdc: [u8; CDC_ISM_LENGTH]) {
    hand.report(IsmCompletion::Signalled { buffer, cdc });
}

fn read(hand: &mut Hand, conn: ConnId, most: u32) {
    let now = hand.now;
    if let Some(mut conn) = hand.endpoint.conn(conn) {
        let readable = conn.readable().map_or(0, |spans| spans.len());
        let result = conn.consume(now, most.min(readable));
        assert!(result.is_ok() || readable == 0, "{result:?}");
    }
    hand.pump();
}

fn write(hand: &mut Hand, conn: ConnId, most: u32, urgent: bool) {
    let now = hand.now;
    if let Some(mut conn) = hand.endpoint.conn(conn) {
        let space = conn.send_space().map_or(0, |spans| spans.len());
        // It may have been closed for writing.
        let _ = match urgent && most.min(space) > 0 {
            true => conn.commit_urgent(now, most.min(space)),
            false => conn.commit(now, most.min(space)),
        };
    }
    hand.pump();
}

fn end(hand: &mut Hand, conn: ConnId, r: &mut Reader<'_>) {
    let now = hand.now;
    if let Some(mut conn) = hand.endpoint.conn(conn) {
        match r.below(8) {
            0 => conn.abort(now),
            1 => conn.shutdown(now, Shutdown::Both),
            2 => conn.shutdown(now, Shutdown::Write),
            3 => conn.shutdown(now, Shutdown::Read),
            _ => conn.set_urgent_inline(r.flag()),
        }
    }
    hand.pump();
}

/// The device reports what concerns no connection, or the attacked connection alone.
fn lie(hand: &mut Hand, r: &mut Reader<'_>, buffer: BufferId, conn: ConnId) {
    let device = match r.below(4) {
        0 => DEVICE,
        _ => DeviceId(1 + r.u8() % 254),
    };
    let stranger = IsmGid {
        gid: 3 + u64::from(r.u8()),
        ..hand.mode.device(2)
    };
    let token = DmbToken(r.u64());
    // Nothing that was asked is in progress, so that this answers nothing.
    let idle = hand.commands.is_empty();
    let lie = match r.below(11) {
        0 => IsmCompletion::PeerVanished {
            device,
            peer: stranger,
        },
        1 => IsmCompletion::Event {
            device,
            peer: stranger,
            code: [0x80, 0x83, r.u32()][r.below(3)],
            info: r.u64(),
        },
        2 => IsmCompletion::MoveFailed { conn },
        3 => IsmCompletion::DmbFailed { buffer },
        4 if idle => IsmCompletion::DmbRegistered { buffer, token },
        5 if idle => IsmCompletion::DmbAttached { buffer },
        6 if idle => IsmCompletion::DmbDetached { buffer },
        7 if idle => IsmCompletion::BufferAllocated { buffer },
        8 if idle => IsmCompletion::DmbCleared { buffer },
        // What it sends from, or its DMB, which is none of the peer's.
        9 => {
            let open = hand.endpoint.conn(conn).filter(|_| r.flag());
            let bound = open.and_then(|conn| Some(conn.send_space()?.buffer));
            let buffer = bound.unwrap_or(buffer);
            IsmCompletion::DmbWithdrawn { buffer }
        }
        _ => return,
    };
    hand.report(lie);
}
