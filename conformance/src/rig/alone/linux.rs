//! How one endpoint and a Linux peer get to where a test begins.

use smc_proto::event::Event;
use smc_proto::id::{ConnId, LinkId};
use smc_proto::time::Duration;
use smc_proto::version::SmcVersion;
use smc_proto::wire::clc::{AcceptConfirm, ClcMessage, Proposal};
use smc_proto::wire::llc::{ConfirmLink, LlcMessage};
use smc_proto::wire::types::LinkNumber;

use super::Rig;
use crate::rig::peer::linux::{add_link, bytes, confirm_link, extended, half, proposal, rejection};

impl Rig {
    /// Our server, when its Accept is out.
    #[track_caller]
    pub fn server_accepts(&mut self, proposal: &Proposal) -> (ConnId, AcceptConfirm) {
        let conn = self.listen();
        let proposal = ClcMessage::Proposal(proposal.clone());
        self.receive_clc(conn, &proposal);
        // On a group that is there the RMB is announced first.
        while self.clc.is_empty()
            && let Some((link, mut sent)) = self.llc.pop_front()
        {
            sent[3] |= 0x80;
            self.receive(link, &sent);
        }
        match self.sent_clc() {
            ClcMessage::Accept(accept) => (conn, accept),
            other => panic!("{other}"),
        }
    }

    /// Our server, when CONFIRM LINK is out.
    #[track_caller]
    pub fn server_asks(&mut self) -> (ConnId, LinkId, ConfirmLink) {
        let (conn, _) = self.server_accepts(&proposal());
        self.receive_clc(conn, &ClcMessage::Confirm(half()));
        self.wait(Duration::from_millis(10));
        let link = self.link(0);
        let sent = self.sent_llc(link);
        match LlcMessage::parse(&sent, SmcVersion::V2) {
            Ok(LlcMessage::ConfirmLink(request)) => (conn, link, request),
            other => panic!("{other:?}"),
        }
    }

    /// Our server with a link, when ADD LINK is out, which is given as bytes.
    #[track_caller]
    pub fn server_offers(&mut self) -> (ConnId, LinkId, Vec<u8>) {
        let (conn, link, request) = self.server_asks();
        let reply = confirm_link(true, request.link);
        self.receive(link, &bytes(&LlcMessage::ConfirmLink(reply)));
        let offer = self.sent_llc(link);
        (conn, link, offer)
    }

    /// Our server with a connection and one link.
    #[track_caller]
    pub fn server_up(&mut self) -> (ConnId, LinkId) {
        let (conn, link, offer) = self.server_offers();
        let Ok(LlcMessage::AddLink(offer)) = LlcMessage::parse(&offer, SmcVersion::V2) else {
            panic!("{offer:?}");
        };
        self.receive(link, &rejection(offer));
        assert!(self.happened(|event| matches!(event, Event::Established { .. })));
        (conn, link)
    }

    /// Our client, when its Confirm is out.
    #[track_caller]
    pub fn client_confirms(&mut self, accept: AcceptConfirm) -> (ConnId, LinkId, AcceptConfirm) {
        let conn = self.connect();
        let _ = self.sent_clc();
        self.receive_clc(conn, &ClcMessage::Accept(accept));
        match self.sent_clc() {
            ClcMessage::Confirm(confirm) => (conn, self.link(0), confirm),
            other => panic!("{other}"),
        }
    }

    /// Our client, when CONFIRM LINK is answered.
    #[track_caller]
    pub fn client_answers(&mut self) -> (ConnId, LinkId) {
        let (conn, link, _) = self.client_confirms(half());
        let request = confirm_link(false, LinkNumber(1));
        self.receive(link, &bytes(&LlcMessage::ConfirmLink(request)));
        let sent = self.sent_llc(link);
        assert!(
            matches!(LlcMessage::parse(&sent, SmcVersion::V2), Ok(LlcMessage::ConfirmLink(m)) if m.reply)
        );
        (conn, link)
    }

    /// Our client with a connection and one link.
    #[track_caller]
    pub fn client_up(&mut self) -> (ConnId, LinkId) {
        let (conn, link) = self.client_answers();
        self.receive(link, &extended(add_link(false, LinkNumber(2), 0), &[]));
        let _ = self.sent_llc(link);
        assert!(self.happened(|event| matches!(event, Event::Established { .. })));
        (conn, link)
    }
}
