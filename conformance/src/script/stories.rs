//! Whole conversations, for tests about what comes after them.

use smc_proto::id::ConnId;
use smc_proto::wire::clc::AcceptConfirm;
use smc_proto::wire::llc::{LlcMessage, RTokenPair};
use smc_proto::wire::types::AlertToken;

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

    /// Answers CONFIRM RKEY, if that is what the engine says next.
    #[track_caller]
    pub fn agree_to_rmb(&mut self) {
        if let Some((link, request @ LlcMessage::ConfirmRkey(_))) = self.llc.front().cloned() {
            self.llc.pop_front();
            self.send_on(link, Peer::reply_to(&request));
        }
    }
}

/// Further links. The peer's port at the end of a link has the link's number
/// unless a story says otherwise.
impl Script {
    /// The peer, as client, takes the offer of a link that was just made over
    /// another one, tells of its RMBs and confirms the link: the pairs this side
    /// told of.
    #[track_caller]
    pub fn peer_joins(&mut self, over: u8, link: u8, port: u8, rmbs: &[u32]) -> Vec<RTokenPair> {
        self.over(over).send(Peer::takes(link, port));
        let pairs = self.peer_answers_continuations(over, link, rmbs);
        self.over(link).expect_confirm_link();
        self.over(link).send(Peer::confirms(link, port));
        pairs
    }

    /// The CONTINUATIONs of this side as server, answered: the pairs it told of.
    #[track_caller]
    pub fn peer_answers_continuations(
        &mut self,
        over: u8,
        link: u8,
        rmbs: &[u32],
    ) -> Vec<RTokenPair> {
        let mut pairs = Vec::new();
        let mut left = rmbs;
        loop {
            let request = self.over(over).expect_continuation();
            self.expect_eq(request.link.0, link);
            pairs.extend(request.pairs.iter().copied());
            let reply = Peer::continuation(over, link, left, true);
            self.over(over).send(reply);
            left = left.get(2..).unwrap_or(&[]);
            if request.remaining <= 2 && left.is_empty() {
                return pairs;
            }
        }
    }

    /// The peer, as server, adds a link over another one: the pairs this side told of.
    #[track_caller]
    pub fn peer_adds(&mut self, over: u8, link: u8, port: u8, rmbs: &[u32]) -> Vec<RTokenPair> {
        self.over(over).send(Peer::offer(link, port));
        let reply = self.over(over).expect_add_link_reply();
        self.expect_eq((reply.link.0, reply.rejection), (link, None));
        let pairs = self.peer_asks_continuations(over, link, rmbs);
        self.over(link).send(Peer::asks(link, port));
        // Ports it could spare for still more links may be mentioned at once.
        self.skip_hints();
        let reply = self.over(link).expect_confirm_link_reply();
        self.expect_eq(reply.link.0, link);
        pairs
    }

    /// The peer's CONTINUATIONs as server: the pairs this side answered with.
    #[track_caller]
    pub fn peer_asks_continuations(&mut self, over: u8, link: u8, rmbs: &[u32]) -> Vec<RTokenPair> {
        let mut pairs = Vec::new();
        let mut left = rmbs;
        loop {
            let request = Peer::continuation(over, link, left, false);
            self.over(over).send(request);
            left = left.get(2..).unwrap_or(&[]);
            let reply = self.over(over).expect_continuation_reply();
            self.expect_eq(reply.link.0, link);
            pairs.extend(reply.pairs.iter().copied());
            if reply.remaining <= 2 && left.is_empty() {
                return pairs;
            }
        }
    }

    /// A server with as many RNICs as links, and its first connection.
    #[track_caller]
    pub fn server_with_links(&mut self, links: u8) -> (ConnId, AlertToken) {
        let (conn, accept) = self.server_asks_to_confirm();
        self.send(Peer::confirms_with(1, 1, |m| m.max_links = links.max(2)));
        for link in 2..=links {
            self.expect_add_link();
            self.peer_joins(1, link, link, &[1]);
            if link == 2 {
                self.expect_established(conn);
            }
        }
        self.link_events.clear();
        (conn, accept.alert_token)
    }

    /// A client with as many RNICs as links, and its first connection.
    #[track_caller]
    pub fn client_with_links(&mut self, links: u8) -> (ConnId, AlertToken) {
        let (conn, confirm) = self.client_confirms();
        let ask = self.peer.confirm_link_with(|m| m.max_links = links.max(2));
        self.send(ask);
        self.expect_confirm_link_reply();
        for link in 2..=links {
            self.peer_adds(1, link, link, &[1]);
            if link == 2 {
                self.expect_established(conn);
            }
            // It has ports to spare and says so.
            self.skip_hints();
        }
        self.link_events.clear();
        (conn, confirm.alert_token)
    }

    /// Forgets what this side, as client, said of ports it could spare.
    pub fn skip_hints(&mut self) {
        self.llc
            .retain(|(_, message)| !matches!(message, LlcMessage::AddLink(m) if !m.reply));
    }

    /// A server and two links, the story of most groups.
    #[must_use]
    #[track_caller]
    pub fn two_link_server() -> (Self, ConnId, AlertToken) {
        let mut s = Self::server().rnics(2);
        let (conn, token) = s.server_with_links(2);
        (s, conn, token)
    }

    /// A client and two links.
    #[must_use]
    #[track_caller]
    pub fn two_link_client() -> (Self, ConnId, AlertToken) {
        let mut s = Self::client().rnics(2);
        let (conn, token) = s.client_with_links(2);
        (s, conn, token)
    }

    /// A server and a group of this many links, as many as both sides want.
    #[must_use]
    #[track_caller]
    pub fn many_link_server(links: u8) -> (Self, ConnId, AlertToken) {
        let mut s = Self::with(|config| config.max_links = links).rnics(links);
        let (conn, token) = s.server_with_links(links);
        (s, conn, token)
    }

    /// A client and a group of this many links, as many as both sides want.
    #[must_use]
    #[track_caller]
    pub fn many_link_client(links: u8) -> (Self, ConnId, AlertToken) {
        let mut s = Self::with(|config| config.max_links = links).rnics(links);
        let (conn, token) = s.client_with_links(links);
        (s, conn, token)
    }

    /// A connection asks for a new RMB of this side: the client's Accept or the
    /// server's Proposal is there, CONFIRM RKEY follows.
    #[track_caller]
    pub fn client_wants_rmb(&mut self, rmb: u32) -> ConnId {
        let conn = self.connect();
        self.expect_proposal(conn);
        self.accept(conn, self.peer.subsequent(rmb));
        conn
    }

    /// The same for a server.
    #[track_caller]
    pub fn server_wants_rmb(&mut self) -> ConnId {
        let conn = self.listen();
        let proposal = self.peer.proposal();
        let _ = self.clc(conn, &proposal);
        self.take_proposal(conn);
        conn
    }

    /// A server with two links offers its second one: the connection that waits,
    /// and its token.
    #[must_use]
    #[track_caller]
    pub fn server_offers_second() -> (Self, ConnId, AlertToken) {
        let mut s = Self::server().rnics(2);
        let (conn, accept) = s.server_adds_link();
        (s, conn, accept.alert_token)
    }

    /// A client with two RNICs waits for the offer of a second link.
    #[must_use]
    #[track_caller]
    pub fn client_awaits_second() -> (Self, ConnId, AlertToken) {
        let mut s = Self::client().rnics(2);
        let (conn, confirm) = s.client_confirms_link();
        (s, conn, confirm.alert_token)
    }

    /// A server whose second link failed on an established group, and whose RNIC
    /// is back: ADD LINK for link 3 is out over link 1.
    #[must_use]
    #[track_caller]
    pub fn server_adds_later() -> (Self, ConnId, AlertToken) {
        let (mut s, conn, token) = Self::two_link_server();
        s.port_down(2);
        let request = s.over(1).expect_delete_link();
        s.over(1)
            .send(Peer::reply_to(&LlcMessage::DeleteLink(request)));
        s.skip();
        s.port_up(2);
        s.skip();
        (s, conn, token)
    }
}
