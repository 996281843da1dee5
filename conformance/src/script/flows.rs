//! Whole conversations, for tests about what comes after them.

use smc_proto::id::{ConnId, LinkId};
use smc_proto::wire::clc::AcceptConfirm;
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{AlertToken, PeerId, Qpn};

use super::{Peer, Script};

impl Script {
    /// Client up to its first-contact Confirm: the connection and the Confirm.
    #[track_caller]
    pub fn client_confirms(&mut self) -> (ConnId, AcceptConfirm) {
        let conn = self.connect();
        self.expect_proposal(conn);
        self.accept(conn, self.peer.accept(1));
        let confirm = self.expect_confirm(conn);
        (conn, confirm)
    }

    /// Client up to its CONFIRM LINK reply.
    #[track_caller]
    pub fn client_confirms_link(&mut self) -> (ConnId, AcceptConfirm) {
        let (conn, confirm) = self.client_confirms();
        self.send(self.peer.confirm_link());
        self.expect_confirm_link_reply();
        (conn, confirm)
    }

    /// A client's first contact: the connection and its alert token.
    #[track_caller]
    pub fn client_first_contact(&mut self) -> (ConnId, AlertToken) {
        let (conn, confirm) = self.client_confirms_link();
        self.send(self.peer.add_link());
        self.expect_add_link_rejection();
        self.expect_established(conn);
        (conn, confirm.alert_token)
    }

    /// A client with two groups to two peers: links and connections of both, with
    /// their alert tokens.
    #[must_use]
    #[track_caller]
    pub fn two_groups() -> (Self, [(LinkId, ConnId, AlertToken); 2]) {
        let mut s = Self::client();
        let mut made = Vec::new();
        for number in 0..2u8 {
            s.peer.id = PeerId::new(number.into(), s.peer.mac);
            s.peer.qpn = Qpn::new(0x100 * (u32::from(number) + 1));
            let (conn, confirm) = s.client_confirms();
            let link = s.adapter.links().last().expect("a queue pair");
            s.send_on(link, s.peer.confirm_link());
            s.expect_confirm_link_reply();
            s.send_on(link, s.peer.add_link());
            s.expect_add_link_rejection();
            s.expect_established(conn);
            made.push((link, conn, confirm.alert_token));
        }
        (s, [made[0], made[1]])
    }

    /// A further connection of a client, whose new RMB the peer agrees to.
    #[track_caller]
    pub fn client_joins(&mut self, rmb: u32) -> (ConnId, AlertToken) {
        let conn = self.connect();
        self.expect_proposal(conn);
        self.accept(conn, self.peer.subsequent(rmb));
        self.agree_to_rmb();
        let confirm = self.expect_confirm(conn);
        self.expect_established(conn);
        (conn, confirm.alert_token)
    }

    /// Server up to its Accept: the connection and the Accept.
    #[track_caller]
    pub fn server_accepts(&mut self) -> (ConnId, AcceptConfirm) {
        let conn = self.listen();
        let proposal = self.peer.proposal();
        let _ = self.clc(conn, &proposal);
        self.take_proposal(conn);
        self.agree_to_rmb();
        let accept = self.expect_accept(conn);
        (conn, accept)
    }

    /// Server up to CONFIRM LINK.
    #[track_caller]
    pub fn server_asks_to_confirm(&mut self) -> (ConnId, AcceptConfirm) {
        let (conn, accept) = self.server_accepts();
        self.confirm(conn, self.peer.accept(1));
        self.expect_confirm_link();
        (conn, accept)
    }

    /// Server up to ADD LINK.
    #[track_caller]
    pub fn server_adds_link(&mut self) -> (ConnId, AcceptConfirm) {
        let (conn, accept) = self.server_asks_to_confirm();
        self.send(self.peer.confirm_link_reply());
        self.expect_add_link();
        (conn, accept)
    }

    /// A server's first contact: the connection and its alert token.
    #[track_caller]
    pub fn server_first_contact(&mut self) -> (ConnId, AlertToken) {
        let (conn, accept) = self.server_adds_link();
        self.send(self.peer.add_link_rejection());
        self.expect_established(conn);
        (conn, accept.alert_token)
    }

    /// A further connection of a server, whose new RMB the peer agrees to.
    #[track_caller]
    pub fn server_joins(&mut self, rmb: u32) -> (ConnId, AlertToken) {
        let (conn, accept) = self.server_accepts();
        self.expect_eq(accept.first_contact, false);
        self.confirm(conn, self.peer.subsequent(rmb));
        self.expect_established(conn);
        (conn, accept.alert_token)
    }

    /// Answers CONFIRM RKEY, if that is what the engine sends next.
    #[track_caller]
    pub fn agree_to_rmb(&mut self) {
        if let Some((link, request @ LlcMessage::ConfirmRkey(_))) = self.llc.front().cloned() {
            self.llc.pop_front();
            self.send_on(link, Peer::reply_to(&request));
        }
    }
}
