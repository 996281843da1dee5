//! How long a client waits for the server's DELETE LINK while the server is busy
//! with an exchange of its own (RFC 7609 3.5.5.3, C.7.1).

use conformance::check;
use conformance::script::{Peer, Script};
use smc_proto::time::Duration;
use smc_proto::wire::llc::DeleteLinkFlags;

const NEARLY: Duration = Duration::from_millis(1_900);

/// A client that asks over link 1 for the end of link 2 while link 3 is added.
fn client_asks_during_addition() -> Script {
    let (mut s, _) = Script::client_joining_third();
    s.break_link(2);
    check!(s, s.over(1).expect_delete_link().link.0, 2);
    s
}

#[test]
fn the_server_may_end_its_addition_before_it_answers() {
    //= LLCSER-001 test
    //= LLCSER-009 test
    //= TIMER-023 test
    let mut s = client_asks_during_addition();
    s.wait(NEARLY);
    s.over(1).send(Peer::continuation(1, 3, &[1], false));
    s.over(1).expect_continuation_reply();
    s.wait(2 * NEARLY);
    s.expect_silence();
    s.over(3).send(Peer::asks(3, 3));
    s.over(3).expect_confirm_link_reply();
    s.skip_hints();
    s.wait(NEARLY);
    s.expect_silence();
    let answer = Peer::delete_link_with(DeleteLinkFlags::empty(), 2, false);
    s.over(1).send(answer);
    s.over(1).expect_delete_link_reply();
    s.skip_hints();
    s.pass(Duration::from_secs(10), &[1, 3]);
    s.expect_silence();
    check!(s, s.endpoint.usage().links, 2);
    s.end();
}

#[test]
fn after_the_addition_the_server_has_to_answer_in_time() {
    //= LLCSER-009 test
    //= TIMER-023 test
    let mut s = client_asks_during_addition();
    s.over(1).send(Peer::continuation(1, 3, &[1], false));
    s.over(1).expect_continuation_reply();
    s.wait(NEARLY);
    s.over(3).send(Peer::asks(3, 3));
    s.over(3).expect_confirm_link_reply();
    s.skip_hints();
    s.wait_exactly(Duration::from_secs(2));
    s.over(1).expect_test_link();
    s.wait_exactly(Duration::from_secs(2));
    // The link that carried the request is dead; both are reported on the other one.
    let gone = [(); 2].map(|()| s.over(3).expect_delete_link().link.0);
    check!(s, gone.contains(&1) && gone.contains(&2), true);
    s.end();
}

#[test]
fn an_addition_that_never_ends_does_not_put_off_the_end_for_ever() {
    //= TIMER-023 test
    //= TIMER-022 test
    let mut s = client_asks_during_addition();
    // No CONTINUATION: the new link is given up after 2 s. 2 s later its carrying link is
    // tested, and given up after 2 s more.
    s.wait(Duration::from_secs(2));
    check!(s, s.over(1).expect_delete_link().link.0, 3);
    s.wait_exactly(Duration::from_secs(2));
    s.over(1).expect_test_link();
    s.wait_exactly(Duration::from_secs(2));
    check!(s, s.endpoint.usage().groups, 0);
    s.skip();
    s.end();
}

#[test]
fn the_server_may_delete_another_link_before_it_answers() {
    //= LLCSER-014 test
    //= TIMER-023 test
    let (mut s, _, _) = Script::many_link_client(4);
    s.break_link(4);
    check!(s, s.over(1).expect_delete_link().link.0, 4);
    let mut delete = |number| {
        s.wait(NEARLY);
        s.expect_silence();
        s.over(1).send(Peer::delete_link(number));
        s.over(1).expect_delete_link_reply();
        s.skip_hints();
    };
    for number in [3, 2, 4] {
        delete(number);
    }
    check!(s, s.endpoint.usage().links, 1);
    s.end();
}
