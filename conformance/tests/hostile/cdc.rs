//! What a peer may claim in CDC messages, over SMC-R and over SMC-D (reliability C1 to C3,
//! C19, C21, H1, H2): one table for both transports, and what only memory that the peer
//! writes to can do.

use conformance::script::{Peer, Script};
use conformance::smcd::hand::{Hand, Mode, RING};
use smc_proto::completion::IsmCompletion;
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::{BufferId, ConnId, LinkId};
use smc_proto::time::Duration;
use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc::{ConnectionFlags, ProducerFlags};
use smc_proto::wire::cdc_ism::{CDC_ISM_LENGTH, CdcIsm, Endianness};
use smc_proto::wire::types::{AlertToken, BufferSize, Cursor};

const fn cursor(wrap: u16, count: u32) -> Cursor {
    Cursor { wrap, count }
}

fn message(producer: Cursor, consumer: Cursor) -> CdcIsm {
    CdcIsm {
        producer,
        consumer,
        ..CdcIsm::default()
    }
}

fn produced(wrap: u16, count: u32) -> CdcIsm {
    message(cursor(wrap, count), cursor(0, 0))
}

fn consumed(wrap: u16, count: u32) -> CdcIsm {
    message(cursor(0, 0), cursor(wrap, count))
}

/// A connection on which nothing was sent yet, and its peer.
// There is one of them at a time.
#[expect(clippy::large_enum_variant)]
enum Victim {
    SmcR {
        script: Script,
        conn: ConnId,
        link: LinkId,
        token: AlertToken,
        sequence: u16,
    },
    SmcD {
        hand: Hand,
        conn: ConnId,
        dmb: BufferId,
    },
}

impl Victim {
    /// Over either transport, in every mode, as client and as server.
    fn all() -> Vec<Self> {
        let smcr = [true, false].map(|client| {
            let mut script = Script::with(|config| {
                config.receive_buffer = BufferSize::K16;
            });
            let (conn, token) = match client {
                true => script.client_first_contact(),
                false => script.server_first_contact(),
            };
            let link = script.link();
            Self::SmcR {
                script,
                conn,
                link,
                token,
                sequence: 0,
            }
        });
        let smcd = Mode::ALL.into_iter().flat_map(|mode| {
            [true, false].map(|client| {
                let (hand, conn) = Hand::connected(mode, client);
                let dmb = hand.dmb();
                Self::SmcD { hand, conn, dmb }
            })
        });
        smcr.into_iter().chain(smcd).collect()
    }

    /// The peer sends this message.
    fn receives(&mut self, message: CdcIsm) {
        match self {
            Self::SmcR {
                script,
                link,
                token,
                sequence,
                ..
            } => {
                *sequence += 1;
                let mut cdc = Peer::cdc(*token, *sequence, 0, 0);
                (cdc.producer, cdc.consumer) = (message.producer, message.consumer);
                cdc.producer_flags = message.producer_flags;
                cdc.connection_flags = message.connection_flags;
                script.send_cdc(*link, cdc);
            }
            Self::SmcD { hand, dmb, .. } => {
                let (buffer, cdc) = (*dmb, message.emit(Endianness::NATIVE));
                hand.report(IsmCompletion::Signalled { buffer, cdc });
                hand.check();
            }
        }
    }

    fn readable(&mut self) -> Option<u32> {
        match self {
            Self::SmcR { script, conn, .. } => Some(script.endpoint.conn(*conn)?.readable()?.len()),
            Self::SmcD { hand, conn, .. } => hand.readable(*conn),
        }
    }

    fn wait(&mut self, time: Duration) {
        match self {
            Self::SmcR { script, .. } => script.wait(time),
            Self::SmcD { hand, .. } => hand.wait(time),
        }
    }

    fn closed(&mut self) -> Option<CloseReason> {
        match self {
            Self::SmcR { script, conn, .. } => {
                let conn = *conn;
                script.take_events().iter().find_map(|event| match event {
                    Event::Closed { conn: c, reason } if *c == conn => Some(*reason),
                    _ => None,
                })
            }
            Self::SmcD { hand, conn, .. } => hand.closed(*conn),
        }
    }

    fn transport(&self) -> String {
        match self {
            Self::SmcR { .. } => "SMC-R".to_owned(),
            Self::SmcD { hand, .. } => format!("SMC-D {:?}", hand.mode),
        }
    }

    /// Bytes of the ring that the peer writes to.
    fn ring(&self) -> u32 {
        match self {
            Self::SmcR { .. } => BufferSize::K16.octets(),
            Self::SmcD { .. } => RING,
        }
    }
}

/// The outcome.
#[derive(PartialEq, Eq, Debug)]
enum Outcome {
    /// The connection is aborted, as its peer's fault.
    Aborted,
    /// The connection goes on, and so much can be read.
    Readable(u32),
}

/// What is sent, by the length of the ring; and its effect.
type Row = (&'static str, fn(u32) -> Vec<CdcIsm>, fn(u32) -> Outcome);

const TABLE: [Row; 20] = [
    (
        "a count where the ring ends",
        |r| vec![produced(0, r)],
        |_| Outcome::Aborted,
    ),
    (
        "a count behind the ring",
        |r| vec![produced(0, r + 1)],
        |_| Outcome::Aborted,
    ),
    (
        "the greatest count",
        |_| vec![produced(0, u32::MAX)],
        |_| Outcome::Aborted,
    ),
    (
        "a count that is negative",
        |_| vec![produced(0, 1 << 31)],
        |_| Outcome::Aborted,
    ),
    (
        "one octet more than the ring",
        |_| vec![produced(1, 1)],
        |_| Outcome::Aborted,
    ),
    ("two rings", |_| vec![produced(2, 0)], |_| Outcome::Aborted),
    (
        "many rings",
        |_| vec![produced(8_000, 0)],
        |_| Outcome::Aborted,
    ),
    (
        "half of all wraps",
        |_| vec![produced(0x8000, 0)],
        |_| Outcome::Aborted,
    ),
    (
        "before the beginning",
        |_| vec![produced(0xfffe, 0)],
        |_| Outcome::Aborted,
    ),
    ("a full ring", |_| vec![produced(1, 0)], Outcome::Readable),
    (
        "wraps alone, one by one",
        |_| (1..=6).map(|wrap| produced(wrap, 0)).collect(),
        |_| Outcome::Aborted,
    ),
    (
        "further than was read",
        |r| vec![produced(0, r - 1), produced(1, 2)],
        |_| Outcome::Aborted,
    ),
    (
        "back, and on from where it was",
        |_| {
            vec![
                produced(0, 100),
                produced(0, 40),
                produced(0, 40),
                produced(0, 140),
            ]
        },
        |_| Outcome::Readable(140),
    ),
    (
        "the same again",
        |_| vec![produced(0, 9), produced(0, 9), produced(0, 9)],
        |_| Outcome::Readable(9),
    ),
    (
        "reading what was not sent",
        |_| vec![consumed(0, 1)],
        |_| Outcome::Aborted,
    ),
    (
        "reading a ring that was not sent",
        |_| vec![consumed(1, 0)],
        |_| Outcome::Aborted,
    ),
    (
        "reading behind the ring",
        |_| vec![consumed(0, u32::MAX)],
        |_| Outcome::Aborted,
    ),
    (
        "reading six rings",
        |_| vec![consumed(6, 0)],
        |_| Outcome::Aborted,
    ),
    (
        "urgent octets behind the ring",
        |r| {
            vec![CdcIsm {
                producer_flags: ProducerFlags::URGENT_PENDING | ProducerFlags::URGENT_PRESENT,
                ..produced(0, r + 1)
            }]
        },
        |_| Outcome::Aborted,
    ),
    (
        "octets behind the end of the stream",
        |_| {
            let done = CdcIsm {
                connection_flags: ConnectionFlags::SENDING_DONE,
                ..produced(0, 5)
            };
            vec![done, produced(0, 500)]
        },
        |_| Outcome::Readable(5),
    ),
];

#[test]
fn cursors_are_judged_alike_whatever_carries_them() {
    //= CASE-C21 test
    //= D-046 test
    for (what, sent, outcome) in TABLE {
        for mut victim in Victim::all() {
            let ring = victim.ring();
            for message in sent(ring) {
                victim.receives(message);
            }
            let found = match victim.readable().filter(|bytes| *bytes > 0) {
                Some(bytes) => Outcome::Readable(bytes),
                None => {
                    victim.wait(Duration::from_secs(70));
                    let transport = victim.transport();
                    let closed = victim.closed();
                    assert_eq!(
                        closed,
                        Some(CloseReason::PeerMisbehaved),
                        "{what}: {transport}"
                    );
                    Outcome::Aborted
                }
            };
            assert_eq!(found, outcome(ring), "{what}: {}", victim.transport());
        }
    }
}

/// How much can be read after this message alone, by the rules; `None`: an abort. A cursor
/// that goes back, by no more than a ring, stays where it was.
fn by_the_rules(message: &CdcIsm) -> Option<u32> {
    let bytes = |at: Cursor| {
        let bytes = u64::from(at.wrap) * u64::from(RING) + u64::from(at.count);
        match at.wrap {
            _ if at.count >= RING => None,
            0xffff => Some(0),
            _ => (bytes <= u64::from(RING)).then_some(bytes as u32),
        }
    };
    // Nothing was sent, so nothing can have been read.
    let read = bytes(message.consumer) == Some(0);
    bytes(message.producer).filter(|_| read)
}

#[test]
fn every_combination_at_the_edges_is_as_the_rules_say() {
    //= CASE-C21 test
    let counts = [0, 1, RING - 1, RING, RING + 1, 1 << 31, u32::MAX];
    let wraps = [0, 1, 2, 0x7fff, 0x8000, 0xffff];
    let cursors: Vec<_> = wraps
        .iter()
        .flat_map(|wrap| counts.map(|count| cursor(*wrap, count)))
        .collect();
    let flags = [0, 0xff, 0x80, 0x20, 0x60].map(ProducerFlags::from_bits_truncate);
    for maps in [false, true] {
        let (start, conn) = Hand::connected(Mode::new(SmcVersion::V2, maps), false);
        let buffer = start.dmb();
        for (producer, consumer) in cursors
            .iter()
            .flat_map(|one| cursors.iter().map(move |other| (*one, *other)))
        {
            for producer_flags in flags {
                let mut hand = start.clone();
                let sent = CdcIsm {
                    producer_flags,
                    ..message(producer, consumer)
                };
                let cdc = sent.emit(Endianness::NATIVE);
                hand.report(IsmCompletion::Signalled { buffer, cdc });
                hand.check();
                let readable = hand.readable(conn).unwrap_or(0);
                let violations = hand.endpoint.statistics().violations;
                let back = hand.endpoint.statistics().backward_cursors;
                match by_the_rules(&sent) {
                    Some(bytes) => {
                        let goes_back = [producer.wrap, consumer.wrap].contains(&0xffff);
                        let counted = (bytes, 0, u64::from(goes_back));
                        assert_eq!((readable, violations, back), counted, "{sent:?}");
                    }
                    None => assert_eq!((readable, violations, back), (0, 1, 0), "{sent:?}"),
                }
            }
        }
    }
}

/// Messages of one connection, as a peer that does nothing wrong would send them.
fn conversation() -> Vec<[u8; CDC_ISM_LENGTH]> {
    let flagged = CdcIsm {
        producer_flags: ProducerFlags::WRITER_BLOCKED,
        ..produced(1, 0)
    };
    let done = CdcIsm {
        connection_flags: ConnectionFlags::SENDING_DONE,
        ..produced(1, 0)
    };
    [produced(0, 700), produced(0, RING - 1), flagged, done]
        .map(|message| message.emit(Endianness::NATIVE))
        .to_vec()
}

#[test]
fn a_head_that_is_torn_anywhere_does_no_harm() {
    //= CASE-C21 test
    //= D-042 test
    // A peer is not held to writing its cursors in one piece, or in any order.
    let words = conversation();
    for maps in [false, true] {
        let (start, conn) = Hand::connected(Mode::new(SmcVersion::V2, maps), true);
        let buffer = start.dmb();
        for (before, after) in words.iter().flat_map(|a| words.iter().map(move |b| (a, b))) {
            for cut in 0..=CDC_ISM_LENGTH {
                for new_first in [false, true] {
                    let (head, tail) = match new_first {
                        true => (after, before),
                        false => (before, after),
                    };
                    let mut torn = [0; CDC_ISM_LENGTH];
                    torn[..cut].copy_from_slice(&head[..cut]);
                    torn[cut..].copy_from_slice(&tail[cut..]);
                    let mut hand = start.clone();
                    for cdc in [*before, torn, *after] {
                        hand.report(IsmCompletion::Signalled { buffer, cdc });
                        hand.check();
                    }
                    // Aborted, or as far as the furthest of what was sent.
                    if hand.endpoint.statistics().violations == 0 {
                        let parsed = |cdc| CdcIsm::parse(cdc, Endianness::NATIVE).ok();
                        let far = [before, &torn, after]
                            .into_iter()
                            .filter_map(|cdc| by_the_rules(&parsed(cdc)?))
                            .max();
                        let end = far.filter(|far| *far > 0);
                        assert!(hand.readable(conn) <= end, "{torn:02x?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_head_that_changes_during_the_read_is_taken_as_it_was_read() {
    //= D-043 test
    // Every byte at every value: nothing, an abort, or a valid message.
    for mode in Mode::ALL {
        let (start, conn) = Hand::connected(mode, false);
        let buffer = start.dmb();
        for at in 0..CDC_ISM_LENGTH {
            for value in 0..=u8::MAX {
                let mut cdc = produced(0, 700).emit(Endianness::NATIVE);
                cdc[at] = value;
                let mut hand = start.clone();
                hand.report(IsmCompletion::Signalled { buffer, cdc });
                hand.check();
                let state = (hand.closed(conn), hand.endpoint.statistics().violations);
                let readable = hand.readable(conn).unwrap_or(0);
                assert!(readable <= RING, "octet {at} is {value}: {state:?}");
                if state == (None, 0) && cdc[0] != 0 {
                    let sent = CdcIsm::parse(&cdc, Endianness::NATIVE).unwrap();
                    assert_eq!(Some(readable), by_the_rules(&sent), "octet {at} is {value}");
                }
            }
        }
    }
}
