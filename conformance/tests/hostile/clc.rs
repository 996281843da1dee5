//! What breaks the CLC protocol ends the TCP connection (RFC 7609 C.6).

use conformance::check;
use conformance::script::{Peer, Script, Waiting};
use conformance::wait_state::WaitState;
use smc_proto::endpoint::{ClcError, ClcProgress, Next};
use smc_proto::event::CloseReason;
use smc_proto::id::ConnId;
use smc_proto::wire::clc::ClcMessage;

fn due(waiting: Waiting, peer: &Peer) -> Vec<u8> {
    match waiting {
        Waiting::Accept => Peer::octets(&ClcMessage::Accept(peer.accept(1))),
        _ => Peer::octets(&peer.proposal()),
    }
}

fn expect_broken(mut s: Script, conn: ConnId, bytes: &[u8]) {
    let violations = s.endpoint.statistics().violations;
    let result = s.octets(conn, bytes);
    check!(s, result.is_err(), true);
    s.expect_reset(conn, CloseReason::PeerMisbehaved);
    check!(s, s.endpoint.statistics().violations, violations + 1);
    s.end();
}

#[test]
fn bytes_that_are_no_clc_message_end_the_connection() {
    //= CASE-G12 test
    //= CLC-004 test
    //= CLC-070 test
    //= CLC-071 test
    //= CLC-072 test
    //= SEC-007 test
    type Spoil = fn(&mut Vec<u8>);
    let spoils: [Spoil; 9] = [
        |o| o[0] ^= 1,
        |o| o[3] ^= 1,
        |o| *o.last_mut().unwrap() ^= 1,
        |o| o[4] = 0,
        |o| o[4] = 5,
        |o| o[6] = o[6].wrapping_add(1),
        |o| o[6] = o[6].wrapping_sub(1),
        |o| (o[5], o[6]) = (0xff, 0xff),
        |o| *o = b"GET / HTTP/1.0\r\n\r\n".to_vec(),
    ];
    for state in WaitState::all() {
        for spoil in spoils {
            let reached = state.reach();
            let mut bytes = reached.due();
            spoil(&mut bytes);
            // Behind it more bytes than any length could ask for.
            bytes.resize(bytes.len() + 1, 0x55);
            reached.expect_broken(&bytes);
        }
    }
}

#[test]
fn version_zero_is_malformed() {
    //= CLC-007 test
    //= CLC-008 test
    for state in WaitState::all() {
        let reached = state.reach();
        let mut bytes = reached.due();
        bytes[7] &= 0x0f;
        reached.expect_broken(&bytes);
    }
}

#[test]
fn a_clc_message_of_another_kind_ends_the_connection() {
    //= CLC-009 test
    //= CLC-073 test
    for state in WaitState::all() {
        for other in WaitState::all() {
            let (reached, bytes) = (state.reach(), other.due());
            if bytes[4] != reached.due()[4] {
                reached.expect_broken(&bytes);
            }
        }
    }
}

#[test]
fn anything_but_a_decline_in_the_llc_phase_ends_the_connection() {
    //= CLC-064 test
    //= CLC-072 test
    for waiting in Waiting::FOR_LLC {
        for bytes in [
            due(Waiting::Accept, &Peer::default()),
            due(Waiting::Proposal, &Peer::default()),
            b"GET / HTTP/1.0".to_vec(),
        ] {
            let (s, conn) = waiting.reach();
            expect_broken(s, conn, &bytes);
        }
    }
}

#[test]
fn a_message_is_read_once_it_is_whole_and_no_byte_more() {
    //= CASE-H10 test
    //= CLC-014 test
    //= CLC-015 test
    for state in WaitState::all() {
        let start = state.reach();
        let whole = start.due();
        let len = whole.len();
        let taken = |r: Result<ClcProgress, ClcError>| matches!(r, Ok(ClcProgress::Consumed { len: l, .. }) if l == len);
        for cut in 0..len {
            let mut reached = start.clone();
            let total = if cut < 8 { 8 } else { len };
            let result = reached.octets(&whole[..cut]);
            reached.expect_eq(result, Ok(ClcProgress::NeedMore { total }));
            reached.expect_silence();
            let result = reached.octets(&whole);
            reached.expect_eq(taken(result), true);
        }
        let mut reached = start;
        let mut more = whole.clone();
        more.extend_from_slice(&[0xaa; 100]);
        let result = reached.octets(&more);
        reached.expect_eq(taken(result), true);
        reached.end();
    }
}

#[test]
fn reserved_fields_do_not_matter() {
    //= CLC-006 test
    for state in WaitState::all() {
        if matches!(state.waiting, Waiting::Accept | Waiting::Confirm) {
            let mut reached = state.reach();
            let mut bytes = reached.due();
            // The low two bits are the technology (V2-005).
            bytes[7] |= 0x04;
            for at in state.reserved() {
                bytes[at] = 0xff;
            }
            let len = bytes.len();
            let result = reached.octets(&bytes);
            let taken = matches!(result, Ok(ClcProgress::Consumed { len: l, .. }) if l == len);
            reached.expect_eq(taken, true);
            reached.end();
        }
    }
}

#[test]
fn bytes_out_of_turn_end_the_connection() {
    //= CLC-072 test
    let mut s = Script::server();
    let conn = s.listen();
    let mut bytes = due(Waiting::Proposal, &s.peer);
    let next = Next::Clc;
    let len = bytes.len();
    bytes.push(0);
    check!(
        s,
        s.octets(conn, &bytes),
        Ok(ClcProgress::Consumed { len, next })
    );
    s.next_event();
    check!(s, s.octets(conn, &bytes[len..]), Err(ClcError::OutOfTurn));
    s.expect_reset(conn, CloseReason::PeerMisbehaved);
    s.end();
}

#[test]
fn bytes_over_tcp_while_rdma_carries_the_connection_abort_it() {
    //= CLC-077 test
    let mut s = Script::client();
    let (conn, _) = s.client_first_contact();
    let decline = Peer::octets(&s.peer.decline());
    check!(s, s.octets(conn, &decline), Err(ClcError::OutOfTurn));
    let (_, cdc) = s.expect_cdc();
    let abnormal = smc_proto::wire::cdc::ConnectionFlags::ABNORMAL_CLOSE;
    check!(s, cdc.connection_flags.contains(abnormal), true);
    check!(s, s.endpoint.usage().groups, 1);
    s.end();
}

#[test]
fn thousands_of_half_open_handshakes_leave_nothing() {
    //= CASE-H09 test
    //= CLC-067 test
    let mut s = Script::server();
    for _ in 0..10 {
        for _ in 0..300 {
            s.listen();
        }
        s.wait(core::time::Duration::from_secs(6));
        s.skip();
        check!(s, s.endpoint.usage().connections, 0);
    }
    s.server_first_contact();
    s.end();
}
