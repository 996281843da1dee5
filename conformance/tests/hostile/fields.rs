//! Every byte of every CLC message of SMC-D with values that it should not have, in every
//! state in which one is due (reliability A1 to A5, A8, A13, A15, H10, H11).

use conformance::smcd::hand::{Hand, Mode};
use conformance::wait_state::WaitState;
use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;
use smc_proto::endpoint::{ClcProgress, TcpEvent};
use smc_proto::event::Event;
use smc_proto::time::Duration;
use smc_proto::wire::cdc_ism::{CdcIsm, Endianness};
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH, SmcdAcceptConfirm};
use smc_proto::wire::types::{BufferSize, Cursor, DmbToken};

/// A byte is replaced by these, and by itself with each bit flipped.
const VALUES: [u8; 8] = [0, 1, 2, 8, 9, 0x7f, 0x80, 0xff];

#[test]
fn any_byte_may_be_anything() {
    //= CASE-A01 test
    //= CASE-A02 test
    //= CASE-A03 test
    //= CASE-A15 test
    //= CASE-H11 test
    let mut ends = [0_u32; 3];
    for state in WaitState::all().filter(|state| state.is_smcd()) {
        let start = state.reach();
        let due = start.due();
        for at in 0..due.len() {
            let flipped = (0..8).map(|bit| due[at] ^ 1 << bit);
            for value in VALUES.into_iter().chain(flipped) {
                let mut bytes = due.clone();
                bytes[at] = value;
                // More than the longest message, so that a length finds bytes to take.
                bytes.resize(2 * MAX_LENGTH, 0);
                let mut reached = start.clone();
                let came = match reached.octets(&bytes) {
                    Ok(ClcProgress::Consumed { len, .. }) => {
                        assert!(len <= MAX_LENGTH, "octet {at} is {value}");
                        0
                    }
                    Ok(_) => 1,
                    Err(_) => 2,
                };
                ends[came] += 1;
                reached.end();
            }
        }
    }
    let [taken, asked_for_more, broken] = ends;
    println!("{taken} taken, {asked_for_more} asked for more, {broken} broken");
    assert!(taken > 1_000 && broken > 1_000, "{ends:?}");
}

#[test]
fn messages_cut_short_are_waited_for_and_given_up() {
    //= CASE-A04 test
    //= CASE-H09 test
    for state in WaitState::all() {
        let start = state.reach();
        for length in [0, 1, 7, 8, 9, 51, 652, 653, 0x7fff, 0xffff_u16] {
            let mut bytes = start.due();
            bytes[5..7].copy_from_slice(&length.to_be_bytes());
            let mut reached = start.clone();
            // A byte at a time, as far as more is asked for.
            let mut shown = 0;
            while shown < bytes.len() {
                shown += 1;
                match reached.octets(&bytes[..shown]) {
                    Ok(ClcProgress::NeedMore { total }) => assert!(total <= MAX_LENGTH),
                    _ => break,
                }
            }
            reached.end();
        }
    }
}

type Change = (&'static str, fn(&mut SmcdAcceptConfirm));

/// Halves of a connection that no peer can mean.
const IMPOSSIBLE: [Change; 3] = [
    ("another device", |half| half.gid ^= 1),
    ("another element", |half| half.dmbe_index = 1),
    ("the last element", |half| half.dmbe_index = u8::MAX),
];

#[test]
fn a_confirm_of_something_else_ends_the_connection_and_no_other() {
    //= D-026 test
    //= CASE-A08 test
    for mode in Mode::ALL {
        for (what, change) in IMPOSSIBLE {
            let mut hand = Hand::new(mode);
            let first = hand.server(true, 0xa);
            let dmb = hand.dmb();
            let second = hand.accepts();
            let mut confirm = hand.half(false, 0xb);
            change(&mut confirm);
            hand.clc(second, &ClcMessage::SmcdConfirm(confirm));
            assert!(hand.closed(second).is_some(), "{what}: {mode:?}");
            assert_eq!(hand.closed(first), None, "{what}: {mode:?}");
            let message = CdcIsm {
                producer: Cursor { wrap: 0, count: 3 },
                ..CdcIsm::default()
            };
            let cdc = message.emit(Endianness::NATIVE);
            hand.report(IsmCompletion::Signalled { buffer: dmb, cdc });
            assert_eq!(hand.readable(first), Some(3), "{what}: {mode:?}");
            hand.end();
        }
    }
}

#[test]
fn any_size_and_token_is_the_devices_to_judge() {
    //= CASE-H06 test
    // The engine believes the peer and asks the device, which knows better.
    for mode in Mode::ALL {
        for code in 0..16 {
            let mut hand = Hand::new(mode);
            hand.hold = true;
            let conn = hand.connect();
            let mut accept = hand.half(true, u64::MAX);
            accept.buffer_size = BufferSize::from_code(code);
            hand.clc(conn, &ClcMessage::SmcdAccept(accept));
            hand.hold = false;
            let mut asked = None;
            while let Some(command) = hand.commands.pop_front() {
                match command {
                    IsmCommand::AttachDmb {
                        buffer,
                        token,
                        length,
                        ..
                    } => {
                        asked = Some((token, length));
                        hand.report(IsmCompletion::Refused { buffer });
                    }
                    command => {
                        hand.execute(command);
                        hand.hold = true;
                        hand.pump();
                        hand.hold = false;
                    }
                }
            }
            let length = BufferSize::from_code(code).octets();
            assert_eq!(asked, Some((DmbToken(u64::MAX), length)), "{mode:?}");
            assert!(!hand.is_established(conn));
            hand.wait(Duration::from_secs(1));
            hand.end();
        }
    }
}

#[test]
fn floods_of_rendezvous_leave_nothing() {
    //= CASE-H09 test
    //= CASE-H12 test
    for mode in Mode::ALL {
        let mut hand = Hand::new(mode);
        let first = hand.server(true, 0xa);
        for round in 0..200_u64 {
            // Silent, declined, cut off, or broken: as many as there is room for.
            for number in 0..7 {
                let conn = hand.listen();
                if number > 0 {
                    let proposal = hand.proposal();
                    hand.clc(conn, &proposal);
                }
                match (round + number) % 3 {
                    0 => drop(hand.octets(conn, b"GET / HTTP/1.0\r\n\r\n")),
                    1 => hand
                        .endpoint
                        .handle_tcp(hand.now, conn, TcpEvent::PeerReset),
                    _ => {}
                }
                hand.pump();
            }
            hand.wait(Duration::from_secs(6));
            hand.wait(Duration::from_secs(2));
            assert_eq!(hand.endpoint.usage().handshakes, 0, "{mode:?}");
            assert_eq!(hand.closed(first), None, "{mode:?}");
            hand.events
                .retain(|event| matches!(event, Event::Established { .. }));
        }
        assert!(hand.buffers().count() <= 2 * 8, "{mode:?}");
        hand.end();
    }
}
