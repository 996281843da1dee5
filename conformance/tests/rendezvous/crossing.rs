//! Declines that cross (reliability A6, AMB-46): no CLC byte ever reaches the
//! application, and no byte of the application is swallowed.

use conformance::check;
use conformance::script::{Peer, Script, Waiting};
use smc_proto::command::TcpCommand;
use smc_proto::endpoint::{ClcProgress, Next, TcpEvent};
use smc_proto::id::ConnId;
use smc_proto::time::Duration;
use smc_proto::wire::clc::{ClcMessage, ClcVersion, Decline, EYE_CATCHER_SMCD};
use smc_proto::wire::llc::{LlcMessage, RkeyFlags};
use smc_proto::wire::types::DiagnosisCode;

const GET: &[u8] = b"GET / HTTP/1.0\r\n\r\nand a little more";

/// A client that has just declined because CONFIRM LINK did not come.
fn declined() -> (Script, ConnId) {
    let (mut s, conn) = Waiting::ConfirmLink.reach();
    s.wait(Duration::from_secs(5));
    s.expect_clc();
    let watching = s.expect_fallback(conn, DiagnosisCode::TIMEOUT_CONFIRM_LINK);
    check!(s, watching, true);
    (s, conn)
}

/// Shows a Decline after `cut` bytes of it have been shown: it is consumed, and what
/// is behind it is the application's.
fn swallows(s: &mut Script, conn: ConnId, decline: &[u8], cut: usize) {
    let end = decline.len();
    if cut < end {
        let held = s.octets(conn, &decline[..cut]);
        let total = if cut < 8 { 8 } else { end };
        check!(s, held, Ok(ClcProgress::NeedMore { total }));
    }
    let all = [decline, GET].concat();
    let (len, next) = (end, Next::Stop);
    check!(
        s,
        s.octets(conn, &all),
        Ok(ClcProgress::Consumed { len, next })
    );
    check!(s, s.octets(conn, GET), Ok(ClcProgress::NotClc));
}

#[test]
fn who_declines_while_it_prepares_may_be_declined_meanwhile() {
    // The server has waited for the Confirm as long as it would.
    //= CASE-A06 test
    //= CLC-064 test
    let decline = Peer::octets(&Peer::default().decline());
    for cut in [1, 9, 28] {
        let (mut s, conn) = Waiting::SubsequentAccept.reach();
        s.accept(conn, s.peer.subsequent(2));
        let request = LlcMessage::ConfirmRkey(s.expect_confirm_rkey());
        s.send(Peer::rkey_reply(&request, RkeyFlags::NEGATIVE));
        s.expect_clc();
        let watching = s.expect_fallback(conn, DiagnosisCode::REGISTER_BUFFER);
        check!(s, watching, true);
        swallows(&mut s, conn, &decline, cut);
        s.end();
    }
}

#[test]
fn a_crossing_decline_is_swallowed_however_it_is_cut() {
    //= CASE-A06 test
    //= CLC-064 test
    let decline = Peer::octets(&Peer::default().decline());
    for cut in 1..decline.len() {
        let (mut s, conn) = declined();
        swallows(&mut s, conn, &decline, cut);
        s.end();
    }
}

#[test]
fn a_crossing_decline_of_either_eye_catcher_and_version_is_swallowed_however_it_is_cut() {
    //= V2-004 test
    //= V2-070 test
    for version in [ClcVersion::V1, ClcVersion::V2] {
        let ClcMessage::Decline(decline) = Peer::default().decline() else {
            panic!("a Decline");
        };
        let mut decline = Peer::octets(&ClcMessage::Decline(Decline { version, ..decline }));
        let end = decline.len();
        decline[..4].copy_from_slice(&EYE_CATCHER_SMCD);
        decline[end - 4..].copy_from_slice(&EYE_CATCHER_SMCD);
        for cut in 1..end {
            let (mut s, conn) = declined();
            swallows(&mut s, conn, &decline, cut);
            s.end();
        }
    }
}

#[test]
fn a_decline_that_stands_before_ours_left_is_swallowed_too() {
    let (mut s, conn) = Waiting::ConfirmLink.reach();
    let late = s.now.after(Duration::from_secs(5));
    s.now = late;
    // Ours is decided, and not fetched.
    s.endpoint.handle_timeout(late);
    let decline = s.peer.decline();
    check!(s, s.clc(conn, &decline), Next::Stop);
    let (_, command) = s.expect_tcp();
    let watch_for_decline = false;
    check!(s, command, TcpCommand::HandOver { watch_for_decline });
    check!(s, s.octets(conn, GET), Ok(ClcProgress::NotClc));
    s.end();
}

#[test]
fn what_does_not_begin_like_a_decline_is_the_applications_at_once() {
    //= CLC-051 test
    //= CLC-077 test
    let decline = Peer::octets(&Peer::default().decline());
    for place in 0..5 {
        let (mut s, conn) = declined();
        let mut bytes = decline[..=place].to_vec();
        bytes[place] ^= 1;
        check!(s, s.octets(conn, &bytes), Ok(ClcProgress::NotClc));
        s.end();
    }
    for bytes in [
        Peer::octets(&Peer::default().proposal()),
        decline[..8].iter().chain(&[0; 20]).copied().collect(),
    ] {
        let (mut s, conn) = declined();
        check!(s, s.octets(conn, &bytes), Ok(ClcProgress::NotClc));
        s.end();
    }
}

#[test]
fn only_one_decline_is_swallowed() {
    let (mut s, conn) = declined();
    let mut two = Peer::octets(&s.peer.decline());
    two.extend_from_within(..);
    let (len, next) = (28, Next::Stop);
    check!(
        s,
        s.octets(conn, &two),
        Ok(ClcProgress::Consumed { len, next })
    );
    check!(s, s.octets(conn, &two[28..]), Ok(ClcProgress::NotClc));
    s.end();
}

#[test]
fn a_decline_may_take_as_long_as_tcp_takes_to_deliver_it() {
    // The outage that cost the link costs TCP minutes as well.
    //= CLC-064 test
    let (mut s, conn) = declined();
    s.wait(Duration::from_secs(86_400));
    let decline = s.peer.decline();
    check!(s, s.clc(conn, &decline), Next::Stop);
    check!(s, s.octets(conn, GET), Ok(ClcProgress::NotClc));
    s.end();
}

#[test]
fn an_application_that_gives_up_before_its_peer_wrote_leaves_nothing() {
    //= CASE-B04 test
    let (mut s, conn) = declined();
    check!(s, s.endpoint.usage().connections, 1);
    let now = s.now;
    s.endpoint.conn(conn).unwrap().abort(now);
    s.run_out();
    let watch_for_decline = false;
    let command = TcpCommand::HandOver { watch_for_decline };
    check!(s, s.expect_tcp(), (conn, command));
    check!(s, s.endpoint.usage().connections, 0);
}

#[test]
fn what_is_held_back_waits_for_the_rest_from_its_first_byte_on() {
    let decline = Peer::octets(&Peer::default().decline());
    let (mut s, conn) = declined();
    s.wait(Duration::from_secs(3_600));
    for bytes in [1, 2, 9] {
        let held = s.octets(conn, &decline[..bytes]);
        let total = if bytes < 8 { 8 } else { 28 };
        check!(s, held, Ok(ClcProgress::NeedMore { total }));
        s.wait(Duration::from_secs(39));
    }
    s.wait(Duration::from_secs(3));
    let watch_for_decline = false;
    let command = TcpCommand::HandOver { watch_for_decline };
    check!(s, s.expect_tcp(), (conn, command));
    s.end();
}

#[test]
fn bytes_that_only_resemble_a_decline_are_handed_over_in_the_end() {
    // Two bytes of an application that happens to speak EBCDIC, and no more.
    let ends: [fn(&mut Script, ConnId); 2] = [
        |s, _| s.wait(Duration::from_secs(130)),
        |s, conn| s.tcp(conn, TcpEvent::PeerFin),
    ];
    for end in ends {
        let (mut s, conn) = declined();
        let held = s.octets(conn, &[0xe2, 0xd4]);
        check!(s, held, Ok(ClcProgress::NeedMore { total: 8 }));
        end(&mut s, conn);
        let watch_for_decline = false;
        let command = TcpCommand::HandOver { watch_for_decline };
        check!(s, s.expect_tcp(), (conn, command));
        check!(s, s.octets(conn, &[0xe2, 0xd4]), Ok(ClcProgress::NotClc));
        s.end();
    }
}

#[test]
fn the_beginning_of_a_crossing_decline_is_dropped_once_tcp_is_reset() {
    // The rest of the Decline was lost with the reset.
    //= CASE-A06 test
    //= CLC-064 test
    let decline = Peer::octets(&Peer::default().decline());
    for event in [TcpEvent::PeerReset, TcpEvent::Failed] {
        for bytes in [1, 9, 27] {
            let (mut s, conn) = declined();
            let total = if bytes < 8 { 8 } else { 28 };
            let held = s.octets(conn, &decline[..bytes]);
            check!(s, held, Ok(ClcProgress::NeedMore { total }));
            s.tcp(conn, event);
            check!(s, s.expect_tcp(), (conn, TcpCommand::Reset));
            s.expect_silence();
            s.end();
        }
        // Nothing had come: there is nothing to be given to the wrong one.
        let (mut s, conn) = declined();
        s.tcp(conn, event);
        let watch_for_decline = false;
        let command = TcpCommand::HandOver { watch_for_decline };
        check!(s, s.expect_tcp(), (conn, command));
        s.end();
    }
}
