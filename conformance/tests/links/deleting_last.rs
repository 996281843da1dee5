//! DELETE LINK for the last link and for all, and links that are being added
//! meanwhile (RFC 7609 3.5.4, 3.5.5.1.3, 3.5.5.1.4).

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::event::{CloseReason, Event};
use smc_proto::time::Duration;
use smc_proto::wire::llc::DeleteLinkFlags;

#[test]
fn links_go_one_by_one_and_with_the_last_one_the_group() {
    //= LLC-050 test
    //= LINK-036 test
    let (mut s, conn, _) = Script::many_link_client(4);
    for link in [1, 3, 2] {
        s.over(4).send(Peer::delete_link(link));
        s.skip_hints();
        s.over(4).expect_delete_link_reply();
        s.expect_link_down(link);
    }
    s.skip();
    s.write(conn, 5);
    s.over(4).expect_cdc();
    s.over(4).send(Peer::delete_link(4));
    s.over(4).expect_delete_link_reply();
    s.expect_reset(conn, CloseReason::LinksLost);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn delete_all_takes_every_link() {
    //= LINK-032 test
    //= LINK-033 test
    //= LLC-043 test
    let (mut s, conn, _) = Script::many_link_server(4);
    let group = s.group.expect("a group");
    s.endpoint.delete_group(s.now, group);
    s.pump();
    let own = s.expect_delete_link();
    check!(s, own.flags.contains(DeleteLinkFlags::ALL), true);
    s.expect_reset(conn, CloseReason::LinksLost);
    check!(s, s.endpoint.usage().links, 0);
    s.end();

    let (mut s, conn, _) = Script::many_link_client(4);
    s.over(3).send(Peer::delete_all());
    s.expect_reset(conn, CloseReason::LinksLost);
    check!(s, s.endpoint.usage().links, 0);
    for link in 1..=4 {
        s.expect_link_down(link);
    }
    s.end();
}

#[test]
fn the_last_link_may_go_while_another_one_is_offered() {
    //= LLC-053 test
    //= TIMER-027 test
    for flags in [DeleteLinkFlags::ORDERLY, DeleteLinkFlags::empty()] {
        for taken in [false, true] {
            for answered in [false, true] {
                let mut s = Script::server();
                let (conn, _) = s.server_first_contact();
                s.port_up(2);
                s.over(1).expect_add_link();
                if taken {
                    s.over(1).send(Peer::takes(3, 2));
                    s.over(1).expect_continuation();
                }
                s.over(1).send(Peer::delete_link_with(flags, 1, false));
                let own = s.over(1).expect_delete_link();
                check!(s, own.link.0, 1);
                match answered {
                    true => s.agree(1, own),
                    false => s.wait(Duration::from_secs(2)),
                }
                s.expect_reset(conn, CloseReason::LinksLost);
                check!(s, s.endpoint.usage().groups, 0);
                s.end();
            }
        }
    }
}

#[test]
fn delete_all_comes_before_another_offer() {
    //= LLCSER-011 test
    //= LINK-032 test
    // A port came up while a link was being added: that changes nothing any more.
    let mut s = Script::server();
    s.server_first_contact();
    s.port_up(2);
    s.over(1).expect_add_link();
    s.port_up(3);
    let group = s.group.expect("a group");
    s.endpoint.delete_group(s.now, group);
    s.pump();
    let own = s.over(1).expect_delete_link();
    check!(s, own.flags.contains(DeleteLinkFlags::ALL), true);
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn both_sides_deleting_different_links_keep_the_last_one() {
    // The client asks for link 1 while the server deletes link 2: the last link
    // of the group stays, because the server judges the request after its own.
    //= LLCSER-014 test
    let (mut s, conn, _) = Script::two_link_server();
    s.break_link(2);
    let own = s.over(1).expect_delete_link();
    s.over(1).send(Peer::delete_link(1));
    let events = s.take_events();
    let end = Event::Closed {
        conn,
        reason: CloseReason::LinksLost,
    };
    check!(s, events.contains(&end), false);
    s.agree(1, own);
    s.skip();
    s.run_out();
    check!(s, s.endpoint.usage().groups, 0);
    s.end();
}

#[test]
fn a_link_whose_client_lost_interest_before_it_was_complete_goes_after_it_is() {
    //= LLCSER-009 test
    let (mut s, conn, _) = Script::server_offers_second();
    s.over(1).send(Peer::takes(2, 2));
    s.over(1).send(Peer::delete_link(2));
    s.peer_answers_continuations(1, 2, &[1]);
    s.over(2).expect_confirm_link();
    s.over(2).send(Peer::confirms(2, 2));
    let own = s.expect_delete_link();
    check!(s, own.link.0, 2);
    s.expect_silence();
    s.agree(1, own);
    s.expect_established(conn);
    check!(s, s.endpoint.usage().links, 1);
    s.end();
}
