//! RNICs that refuse a command for a new link, or never answer it
//! (reliability D9, D17, D19).

use conformance::script::{Kind, Peer, Script};
use smc_proto::time::Duration;
use smc_proto::wire::llc::LlcMessage;

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
            s.settle_server(2);
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
            s.settle_client(2);
            s.expect_established(conn);
            s.skip();
            s.write(conn, 5);
            s.over(1).expect_cdc();
            s.end();
        }
    }
}

/// How the stories of refused commands go on.
trait Meddle {
    fn meddle(&mut self, kind: Kind, late: bool);
    fn has_llc(&self) -> bool;
    fn settle_server(&mut self, link: u8);
    fn settle_client(&mut self, link: u8);
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

    /// Answers what the server says of the link that comes to nothing.
    fn settle_server(&mut self, link: u8) {
        for _ in 0..12 {
            self.wait(Duration::from_secs(1));
            if let Some(LlcMessage::DeleteLink(m)) = self.poll_llc() {
                self.over(1)
                    .send(Peer::delete_link_with(m.flags, link, true));
            }
        }
        self.release();
    }

    /// The same of a client.
    fn settle_client(&mut self, link: u8) {
        for _ in 0..12 {
            self.wait(Duration::from_secs(1));
            if let Some(LlcMessage::DeleteLink(_)) = self.poll_llc() {
                self.over(1).send(Peer::delete_link(link));
            }
        }
        self.release();
    }
}
