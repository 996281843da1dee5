//! What an ISM device may report of its peers, and what a peer may have it report:
//! forged names, unsolicited answers, storms (reliability C16 to C18, H7, H21).

use std::hash::{DefaultHasher, Hasher};

use conformance::smcd::hand::{DEVICE, Hand, Mode};
use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;
use smc_proto::event::CloseReason;
use smc_proto::id::{BufferId, ConnId, DeviceId};
use smc_proto::time::Duration;
use smc_proto::wire::cdc::ProducerFlags;
use smc_proto::wire::cdc_ism::{CdcIsm, Endianness};
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::ism_event::{ANY_VLAN, EventInfo, SHUTDOWN, TEST};
use smc_proto::wire::types::{Cursor, DmbToken, IsmGid};

fn fingerprint(hand: &mut Hand) -> u64 {
    let mut hasher = DefaultHasher::new();
    hand.endpoint.fingerprint(hand.now, &mut hasher);
    hasher.finish()
}

/// In every mode, as client and as server.
fn all() -> impl Iterator<Item = (Hand, ConnId)> {
    Mode::ALL
        .into_iter()
        .flat_map(|mode| [true, false].map(|client| Hand::connected(mode, client)))
}

fn event(device: DeviceId, peer: IsmGid, code: u32, kind: u16) -> IsmCompletion {
    let info = EventInfo {
        group: *b"evil",
        vlan: ANY_VLAN,
        kind,
    };
    IsmCompletion::Event {
        device,
        peer,
        code,
        info: info.bits(Endianness::NATIVE),
    }
}

/// A device that resembles the peer's.
fn strangers(mode: Mode) -> [(DeviceId, IsmGid); 5] {
    let peer = mode.device(2);
    let gid = |gid, gid_ext| IsmGid {
        gid,
        gid_ext,
        ..peer
    };
    [
        (DEVICE, gid(3, peer.gid_ext)),
        (DEVICE, gid(peer.gid, peer.gid_ext ^ 1)),
        (DEVICE, gid(0, 0)),
        (DeviceId(1), peer),
        (DeviceId(u8::MAX), peer),
    ]
}

#[test]
fn no_peer_ends_anothers_group() {
    //= D-051 test
    //= D-052 test
    for (mut hand, conn) in all() {
        let before = fingerprint(&mut hand);
        for (device, peer) in strangers(hand.mode) {
            hand.report(IsmCompletion::PeerVanished { device, peer });
            hand.report(event(device, peer, SHUTDOWN, EventInfo::REQUEST));
        }
        assert_eq!(fingerprint(&mut hand), before);
        assert_eq!(hand.closed(conn), None);
        // The peer itself may.
        let peer = hand.mode.device(2);
        hand.report(IsmCompletion::PeerVanished {
            device: DEVICE,
            peer,
        });
        assert_eq!(hand.closed(conn), Some(CloseReason::LinksLost));
        hand.end();
    }
}

#[test]
fn unsolicited_answers_change_nothing() {
    //= CASE-C18 test
    for (mut hand, conn) in all() {
        let before = fingerprint(&mut hand);
        let buffers: Vec<_> = hand.buffers().collect();
        // And one of an engine that has far more.
        let mut other = Hand::new(hand.mode);
        let foreign: Vec<_> = (0..4)
            .map(|number| {
                let _ = other.client(number == 0, number);
                other.dmb()
            })
            .filter(|buffer| !buffers.contains(buffer))
            .collect();
        assert!(!foreign.is_empty());
        for buffer in buffers.into_iter().chain(foreign) {
            let token = DmbToken(0xbad);
            for answer in [
                IsmCompletion::DmbRegistered { buffer, token },
                IsmCompletion::DmbUnregistered { buffer },
                IsmCompletion::DmbCleared { buffer },
                IsmCompletion::BufferAllocated { buffer },
                IsmCompletion::BufferFreed { buffer },
                IsmCompletion::DmbAttached { buffer },
                IsmCompletion::DmbDetached { buffer },
                IsmCompletion::Refused { buffer },
            ] {
                hand.report(answer);
                assert_eq!(fingerprint(&mut hand), before, "{answer:?}");
            }
        }
        assert_eq!(hand.closed(conn), None);
        hand.end();
    }
}

#[test]
fn an_answer_of_the_wrong_kind_is_none() {
    // While a DMB is being registered, and memory provided.
    for mode in Mode::ALL {
        let mut hand = Hand::new(mode);
        hand.hold = true;
        let conn = hand.connect();
        let accept = hand.half(true, 0xa);
        hand.clc(conn, &ClcMessage::SmcdAccept(accept));
        let asked: Vec<_> = hand.commands.iter().copied().collect();
        assert!(!asked.is_empty());
        for command in asked {
            let (buffer, right) = match command {
                IsmCommand::RegisterDmb { buffer, .. } => (buffer, 0),
                IsmCommand::AllocBuffer { buffer, .. } => (buffer, 1),
                IsmCommand::AttachDmb { buffer, .. } => (buffer, 2),
                other => panic!("{other:?}"),
            };
            let token = DmbToken(0xbad);
            let wrong = [
                IsmCompletion::DmbRegistered { buffer, token },
                IsmCompletion::BufferAllocated { buffer },
                IsmCompletion::DmbAttached { buffer },
                IsmCompletion::DmbUnregistered { buffer },
                IsmCompletion::DmbCleared { buffer },
                IsmCompletion::DmbDetached { buffer },
                IsmCompletion::BufferFreed { buffer },
            ];
            let before = fingerprint(&mut hand);
            for (number, answer) in wrong.into_iter().enumerate() {
                if number != right {
                    hand.report(answer);
                    assert_eq!(fingerprint(&mut hand), before, "{command:?} {answer:?}");
                }
            }
        }
        assert!(!hand.is_established(conn));
        hand.end();
    }
}

#[test]
fn signals_for_what_is_no_dmb_of_a_connection_are_counted() {
    //= CASE-H07 test
    for (mut hand, conn) in all() {
        let dmb = hand.dmb();
        let message = CdcIsm {
            producer: Cursor { wrap: 0, count: 9 },
            ..CdcIsm::default()
        };
        let cdc = message.emit(Endianness::NATIVE);
        let others: Vec<BufferId> = hand.buffers().filter(|buffer| *buffer != dmb).collect();
        for buffer in others {
            let before = hand.endpoint.statistics().cdc_unknown;
            hand.report(IsmCompletion::Signalled { buffer, cdc });
            assert_eq!(hand.endpoint.statistics().cdc_unknown, before + 1);
            assert_eq!(hand.readable(conn).unwrap_or(0), 0);
        }
        // Nor for one whose connection is gone.
        let now = hand.now;
        hand.endpoint.conn(conn).unwrap().abort(now);
        hand.pump();
        hand.wait(Duration::from_secs(30));
        let before = fingerprint(&mut hand);
        let unknown = hand.endpoint.statistics().cdc_unknown;
        for _ in 0..100 {
            hand.report(IsmCompletion::Signalled { buffer: dmb, cdc });
        }
        assert_eq!(hand.endpoint.statistics().cdc_unknown, unknown + 100);
        assert_eq!(fingerprint(&mut hand), before);
        hand.end();
    }
}

#[test]
fn a_dmb_taken_away_while_in_use_ends_its_connection_alone() {
    //= CASE-C17 test
    //= D-053 test
    for (mut hand, first) in all() {
        let buffer = hand.dmb();
        let second = hand.client(false, 0xb);
        assert!(hand.is_established(second));
        hand.report(IsmCompletion::DmbFailed { buffer });
        hand.report(IsmCompletion::DmbFailed { buffer });
        hand.wait(Duration::from_secs(70));
        assert_eq!(hand.closed(first), Some(CloseReason::LinksLost));
        assert_eq!(hand.closed(second), None);
        // A failure of what is gone affects no other.
        hand.report(IsmCompletion::MoveFailed { conn: first });
        hand.report(IsmCompletion::DmbFailed { buffer });
        assert_eq!(hand.closed(second), None);
        hand.end();
    }
}

#[test]
fn a_storm_of_signals_is_answered_with_none() {
    //= CASE-H21 test
    for (mut hand, conn) in all() {
        let buffer = hand.dmb();
        let message = CdcIsm {
            producer: Cursor {
                wrap: 0,
                count: 100,
            },
            producer_flags: ProducerFlags::CURSOR_UPDATE_REQUESTED,
            ..CdcIsm::default()
        };
        let cdc = message.emit(Endianness::NATIVE);
        hand.moved.clear();
        let signals = |hand: &mut Hand| {
            let commands = core::mem::take(&mut hand.moved);
            let signal = |command: &&IsmCommand| matches!(command, IsmCommand::Signal { .. });
            commands.iter().filter(signal).count()
        };
        for _ in 0..20_000 {
            hand.report(IsmCompletion::Signalled { buffer, cdc });
        }
        assert_eq!(signals(&mut hand), 0);
        // What is consumed is announced once, however often it is asked for.
        let now = hand.now;
        hand.endpoint.conn(conn).unwrap().consume(now, 50).unwrap();
        hand.pump();
        for _ in 0..500 {
            hand.report(IsmCompletion::Signalled { buffer, cdc });
        }
        assert_eq!(signals(&mut hand), 1);
        hand.end();
    }
}

#[test]
fn a_storm_of_tests_has_one_answer_at_a_time() {
    //= D-054 test
    for (mut hand, conn) in all() {
        hand.moved.clear();
        let groups = hand.endpoint.usage();
        for gid in 0..5_000 {
            let peer = IsmGid {
                gid,
                ..hand.mode.device(2)
            };
            let now = hand.now;
            hand.endpoint
                .handle_ism(now, event(DEVICE, peer, TEST, EventInfo::REQUEST));
        }
        hand.pump();
        assert_eq!(hand.moved.len(), 1);
        assert_eq!(hand.endpoint.usage(), groups);
        assert_eq!(hand.closed(conn), None);
        hand.moved.clear();
        // Devices that there are not have none.
        for device in (1..=u8::MAX).map(DeviceId) {
            let peer = hand.mode.device(2);
            hand.report(event(device, peer, TEST, EventInfo::REQUEST));
        }
        assert_eq!(hand.moved.len(), 0);
        hand.end();
    }
}
