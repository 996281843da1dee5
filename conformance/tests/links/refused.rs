//! RNICs that refuse a command for a new link, or never answer it
//! (reliability D9, D17, D19).

use conformance::check;
use conformance::script::{Kind, Peer, Script};
use smc_proto::command::TcpCommand;
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::wire::cdc::ConnectionFlags;
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::AlertToken;

#[test]
fn refused_and_late_commands_of_a_new_link_cost_the_link_only() {
    // D9, D17, D19.
    let kinds = [
        Kind::CreateQp,
        Kind::ConnectQp,
        Kind::ActivateQp,
        Kind::Register,
    ];
    for kind in kinds {
        for late in [false, true] {
            let mut s = Script::server().rnics(2);
            let (conn, _) = s.server_asks_to_confirm();
            s.meddle(kind, late);
            s.over(1).send(Peer::confirms(1, 1));
            if s.has_llc() {
                s.expect_add_link();
                s.over(1).send(Peer::takes(2, 2));
            }
            s.answer_server(2);
            s.expect_established(conn);
            s.skip();
            s.write(conn, 5);
            s.over(1).expect_cdc();
            s.end();

            let mut s = Script::client().rnics(2);
            let (conn, _) = s.client_confirms_link();
            s.meddle(kind, late);
            s.over(1).send(Peer::offer(2, 2));
            if kind == Kind::ActivateQp && s.has_llc() {
                s.expect_add_link_reply();
                s.peer_asks_continuations(1, 2, &[1]);
                s.over(2).send(Peer::asks(2, 2));
            }
            s.answer_client(2);
            s.expect_established(conn);
            s.skip();
            s.write(conn, 5);
            s.over(1).expect_cdc();
            s.end();
        }
    }
}

#[test]
fn a_connection_does_not_move_to_a_link_on_which_its_memory_is_not_registered_yet() {
    //= CASE-D09 test
    //= ABORT-015 test
    //= RMB-021 test
    // D8, D9: it came while the link was added, and the RNIC is slow. Over the link
    // it can still announce its end, and its element waits for the peer's.
    let mut s = Script::with(|config| {
        config.max_links = 3;
        config.elements_per_rmb = 255;
    })
    .rnics(2);
    let (first, _) = s.server_asks_to_confirm();
    s.send(Peer::confirms_with(1, 1, |m| m.max_links = 3));
    s.expect_add_link();
    s.peer_joins(1, 2, 2, &[1]);
    s.expect_established(first);
    s.over(1).send(Peer::confirm_rkey_on(1, 2, &[2]));
    s.over(1).expect_confirm_rkey_reply();
    s.port_up(3);
    s.over(1).expect_add_link();
    s.over(1).send(Peer::takes(3, 3));
    s.over(1).expect_continuation();
    s.adapter.hold = Some(Kind::Register);
    s.adapter.hold_link = Some(s.link_no(3));
    let (late, token) = s.server_joins(2);
    s.over(1).send(Peer::continuation(1, 3, &[1, 2], true));
    s.over(3).expect_confirm_link();
    s.over(3).send(Peer::confirms(3, 3));
    s.break_link(1);
    s.skip();
    s.break_link(2);
    s.over(3).expect_cdc();
    let messages = [s.over(3).expect_cdc(), s.over(3).expect_cdc()];
    for message in messages {
        check!(s, message.alert_token, AlertToken(0xa000_0002));
        check!(s, message.connection_flags, ConnectionFlags::ABNORMAL_CLOSE);
    }
    check!(s, s.expect_tcp(), (late, TcpCommand::Reset));
    s.skip();
    s.write(first, 5);
    s.over(3).expect_cdc();
    check!(s, s.endpoint.conn(late).is_some(), true);
    s.over(3)
        .send_cdc(Peer::cdc_flags(token, 1, ConnectionFlags::ABNORMAL_CLOSE));
    s.expect_closed(late, CloseReason::LinksLost);
    check!(s, s.endpoint.conn(late).is_some(), false);
    s.end();
}

/// How the tests of refused commands go on.
trait Meddle {
    fn meddle(&mut self, kind: Kind, late: bool);
    fn has_llc(&self) -> bool;
    fn answer_server(&mut self, link: u8);
    fn answer_client(&mut self, link: u8);
}

impl Meddle for Script {
    /// Refuses the next command of this kind, or never answers it.
    fn meddle(&mut self, kind: Kind, late: bool) {
        if late {
            self.adapter.hold = Some(kind);
        } else {
            self.adapter.refuse(kind, 1);
        }
    }

    fn has_llc(&self) -> bool {
        self.next_llc().is_some()
    }

    /// Answers what the server sends about the link that is given up.
    fn answer_server(&mut self, link: u8) {
        for _ in 0..12 {
            self.wait(Duration::from_secs(1));
            if let Some(LlcMessage::DeleteLink(m)) = self.poll_llc() {
                self.over(1)
                    .send(Peer::delete_link_with(m.flags, link, true));
            }
        }
        self.release();
    }

    /// Answers what the client sends about the link that is given up.
    fn answer_client(&mut self, link: u8) {
        for _ in 0..12 {
            self.wait(Duration::from_secs(1));
            if let Some(LlcMessage::DeleteLink(_)) = self.poll_llc() {
                self.over(1).send(Peer::delete_link(link));
            }
        }
        self.release();
    }
}
