//! Conversations of groups with several links, for tests about what comes after them.

use smc_proto::id::ConnId;
use smc_proto::time::Duration;
use smc_proto::wire::llc::{ConfirmRkey, DeleteLink, LlcMessage, RTokenPair};
use smc_proto::wire::types::AlertToken;

use super::{Peer, Script};

/// Further links. The peer's port at the end of a link has the link's number
/// unless a script changes it.
impl Script {
    /// The peer, as client, takes the offer of a link that was just made over
    /// another one, announces its RMBs and confirms the link: the pairs this side
    /// announced.
    #[track_caller]
    pub fn peer_joins(&mut self, over: u8, link: u8, port: u8, rmbs: &[u32]) -> Vec<RTokenPair> {
        self.over(over).send(Peer::takes(link, port));
        let pairs = self.peer_answers_continuations(over, link, rmbs);
        self.over(link).expect_confirm_link();
        self.over(link).send(Peer::confirms(link, port));
        pairs
    }

    /// The CONTINUATIONs of this side as server, answered: the pairs it announced.
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

    /// The peer, as server, adds a link over another one: the pairs this side announced.
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
            // It has ports to spare and announces them.
            self.skip_hints();
        }
        self.link_events.clear();
        (conn, confirm.alert_token)
    }

    /// Discards what this side, as client, announced of ports it could spare.
    pub fn skip_hints(&mut self) {
        self.llc
            .retain(|(_, message)| !matches!(message, LlcMessage::AddLink(m) if !m.reply));
    }

    /// A server and two links, the start of most groups.
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

    /// A connection of a server asks for a new RMB of this side: the client's Proposal is
    /// there, CONFIRM RKEY follows.
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
}

/// Exchanges of established groups.
impl Script {
    /// Lets `time` pass less a millisecond, in which nothing happens, then the rest.
    #[track_caller]
    pub fn wait_exactly(&mut self, time: Duration) {
        let last = Duration::from_millis(1);
        self.wait(time - last);
        self.expect_silence();
        self.wait(last);
    }

    /// The peer, as client, agrees to the server's DELETE LINK.
    #[track_caller]
    pub fn agree(&mut self, over: u8, own: DeleteLink) {
        self.over(over)
            .send(LlcMessage::DeleteLink(DeleteLink { reply: true, ..own }));
    }

    /// A server of an established group of two links, of three that both want.
    #[must_use]
    #[track_caller]
    pub fn server_with_two_of_three() -> (Self, ConnId) {
        let mut s = Self::with(|config| config.max_links = 3).rnics(2);
        let (conn, _) = s.server_asks_to_confirm();
        s.send(Peer::confirms_with(1, 1, |m| m.max_links = 3));
        s.expect_add_link();
        s.peer_joins(1, 2, 2, &[1]);
        s.expect_established(conn);
        s.link_events.clear();
        (s, conn)
    }

    /// Such a server that offers link 3 over link 1.
    #[must_use]
    #[track_caller]
    pub fn server_adding_third() -> (Self, ConnId) {
        let (mut s, conn) = Self::server_with_two_of_three();
        s.port_up(3);
        let offer = s.over(1).expect_add_link();
        s.expect_eq(offer.link.0, 3);
        (s, conn)
    }

    /// Such a server whose CONFIRM RKEY for a connection is out over link 2.
    #[must_use]
    #[track_caller]
    pub fn server_announcing() -> (Self, ConnId, ConfirmRkey) {
        let (mut s, first) = Self::server_with_two_of_three();
        s.write(first, 1);
        s.expect_cdc();
        let conn = s.server_wants_rmb();
        let own = s.over(2).expect_confirm_rkey();
        (s, conn, own)
    }

    /// The peer agrees to it: the Accept follows.
    #[track_caller]
    pub fn agree_to_announcement(&mut self, conn: ConnId, own: ConfirmRkey) {
        self.over(2)
            .send(Peer::reply_to(&LlcMessage::ConfirmRkey(own)));
        self.expect_accept(conn);
    }

    /// A server that deletes link 3 of three; its DELETE LINK is out over link 1.
    #[must_use]
    #[track_caller]
    pub fn server_deleting_third() -> (Self, DeleteLink) {
        let (mut s, _, _) = Self::many_link_server(3);
        s.break_link(3);
        let own = s.over(1).expect_delete_link();
        s.expect_eq(own.link.0, 3);
        (s, own)
    }

    /// A client of an established group of two links that took the offer of a
    /// third one over link 1.
    #[must_use]
    #[track_caller]
    pub fn client_joining_third() -> (Self, ConnId) {
        let mut s = Self::with(|config| config.max_links = 3).rnics(3);
        let (conn, _) = s.client_confirms();
        let ask = s.peer.confirm_link_with(|m| m.max_links = 3);
        s.send(ask);
        s.expect_confirm_link_reply();
        s.peer_adds(1, 2, 2, &[1]);
        s.expect_established(conn);
        s.skip_hints();
        s.over(1).send(Peer::offer(3, 3));
        s.over(1).expect_add_link_reply();
        s.link_events.clear();
        (s, conn)
    }
}
