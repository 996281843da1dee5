//! What comes first when several exchanges are wanted, and what was sent before it
//! was received (RFC 7609 3.5.5.1.2, 3.5.5.3).

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::id::ConnId;
use smc_proto::time::Duration;
use smc_proto::wire::llc::{ConfirmRkey, LlcMessage};

/// A server whose only further link is an asymmetric one, because the client has one
/// port; it waits for the answer to CONFIRM LINK.
fn server_awaits_confirmation() -> (Script, ConnId) {
    let (mut s, conn, _) = Script::server_offers_second();
    s.over(1).send(Peer::takes(2, 1));
    s.peer_answers_continuations(1, 2, &[1]);
    s.over(2).expect_confirm_link();
    (s, conn)
}

#[test]
fn a_port_that_the_client_announces_after_its_last_answer_counts_though_it_comes_first() {
    //= LINK-042 test
    //= LLCSER-007 test
    let (mut s, conn) = server_awaits_confirmation();
    s.over(1).send(Peer::hint(2));
    s.over(1).send(Peer::hint(2));
    s.expect_silence();
    s.over(2).send(Peer::confirms(2, 1));
    s.expect_established(conn);
    let offer = s.over(1).expect_add_link();
    check!(s, offer.link.0, 3);
    // It was one wish.
    s.over(1).send(Peer::rejects(3));
    s.expect_silence();
    s.end();
}

#[test]
fn without_such_an_announcement_an_asymmetric_link_is_enough() {
    //= LINK-042 test
    let (mut s, conn) = server_awaits_confirmation();
    s.over(2).send(Peer::confirms(2, 1));
    s.expect_established(conn);
    s.pass(Duration::from_secs(100), &[1, 2]);
    s.expect_silence();
    s.end();
}

#[test]
fn a_port_announced_while_the_last_answer_is_lost_ends_the_pause() {
    //= LINK-050 test
    //= TIMER-011 test
    let (mut s, conn) = server_awaits_confirmation();
    s.over(1).send(Peer::hint(2));
    s.wait(Duration::from_secs(5));
    let own = s.over(1).expect_delete_link();
    check!(s, own.link.0, 2);
    s.agree(1, own);
    s.expect_established(conn);
    check!(s, s.over(1).expect_add_link().link.0, 3);
    s.end();
}

fn agree_to(s: &mut Script, own: ConfirmRkey) {
    s.over(1)
        .send(Peer::reply_to(&LlcMessage::ConfirmRkey(own)));
}

/// A server of one link whose CONFIRM RKEY is out, with others waiting, as a port comes up.
fn server_with_waiting(waiting: usize) -> (Script, Vec<ConnId>, ConfirmRkey) {
    let mut s = Script::server();
    s.server_first_contact();
    let conns = (0..waiting).map(|_| s.server_wants_rmb()).collect();
    let own = s.over(1).expect_confirm_rkey();
    s.port_up(2);
    s.expect_silence();
    (s, conns, own)
}

#[test]
fn connections_that_wait_for_an_rmb_do_not_wait_for_a_further_link() {
    //= CASE-D08 test
    //= LLCSER-002 test
    //= LLCSER-021 test
    //= RENDEZVOUS-038 test
    let (mut s, conns, own) = server_with_waiting(3);
    agree_to(&mut s, own);
    s.expect_accept(conns[0]);
    for conn in [conns[2], conns[1]] {
        let own = s.over(1).expect_confirm_rkey();
        agree_to(&mut s, own);
        s.expect_accept(conn);
    }
    check!(s, s.over(1).expect_add_link().link.0, 3);
    s.over(1).send(Peer::rejects(3));
    s.expect_silence();
    s.end();
}

#[test]
fn a_further_link_is_not_put_off_for_ever() {
    //= LINK-042 test
    //= LLCSER-021 test
    let (mut s, _, mut own) = server_with_waiting(40);
    let mut announced = 0;
    loop {
        agree_to(&mut s, own);
        announced += 1;
        match s.expect_llc() {
            LlcMessage::ConfirmRkey(next) => own = next,
            LlcMessage::AddLink(offer) => {
                check!(s, offer.link.0, 3);
                break;
            }
            other => s.fail(other),
        }
    }
    check!(s, announced, 17);
    s.over(1).send(Peer::rejects(3));
    s.over(1).expect_confirm_rkey();
    s.end();
}

#[test]
fn a_link_that_was_never_confirmed_is_deleted_before_another_one() {
    //= LLCSER-003 test
    let (mut s, _) = Script::server_adding_third();
    // Both are at the RNICs that fail. The answer to ADD LINK is not here yet.
    s.break_link(2);
    s.expect_silence();
    s.remove_rnic(3);
    let first = s.over(1).expect_delete_link();
    check!(s, first.link.0, 3);
    s.agree(1, first);
    check!(s, s.over(1).expect_delete_link().link.0, 2);
    s.end();
}
