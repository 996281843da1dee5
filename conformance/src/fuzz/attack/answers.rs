//! What an honest peer sends.

use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::llc::{
    AddLink, ConfirmLink, ConfirmLinkFlags, ConfirmRkey, DeleteLink, DeleteRkey, LlcMessage,
    TestLink,
};
use smc_proto::wire::types::{AddLinkRejectReason, LinkNumber, LinkUserId, Mtu, Psn, Qpn};

use super::{MAC, Peer, gid};

impl Peer {
    /// Takes note of a CLC message of the endpoint and gives the right answer.
    pub(in super::super) fn answer_clc(
        &mut self,
        bytes: &[u8],
        first_contact: bool,
    ) -> Option<ClcMessage> {
        match ClcMessage::parse(bytes).ok()?.0 {
            ClcMessage::Proposal(_) => Some(ClcMessage::Accept(self.half(first_contact))),
            ClcMessage::Accept(accept) => {
                self.tokens.push(accept.alert_token);
                Some(ClcMessage::Confirm(self.half(accept.first_contact)))
            }
            ClcMessage::Confirm(confirm) => {
                self.tokens.push(confirm.alert_token);
                None
            }
            ClcMessage::SmcdAccept(_) | ClcMessage::SmcdConfirm(_) | ClcMessage::Decline(_) => None,
        }
    }

    /// The right answer to an LLC message of the endpoint.
    pub(in super::super) fn answer_llc(
        &self,
        message: &LlcMessage<'_>,
    ) -> Option<LlcMessage<'static>> {
        Some(match message.to_static()? {
            LlcMessage::ConfirmLink(m) if !m.reply => self.confirm_link(true, m.link),
            // This peer is the server and goes on with ADD LINK.
            LlcMessage::ConfirmLink(_) => self.add_link(false),
            LlcMessage::AddLink(m) if !m.reply => self.add_link(true),
            LlcMessage::ConfirmRkey(m) if !m.reply => {
                LlcMessage::ConfirmRkey(ConfirmRkey { reply: true, ..m })
            }
            LlcMessage::DeleteRkey(m) if !m.reply => {
                LlcMessage::DeleteRkey(DeleteRkey { reply: true, ..m })
            }
            LlcMessage::TestLink(m) if !m.reply => {
                LlcMessage::TestLink(TestLink { reply: true, ..m })
            }
            LlcMessage::DeleteLink(m) if !m.reply => {
                LlcMessage::DeleteLink(DeleteLink { reply: true, ..m })
            }
            _ => return None,
        })
    }

    pub(in super::super) fn confirm_link(
        &self,
        reply: bool,
        link: LinkNumber,
    ) -> LlcMessage<'static> {
        LlcMessage::ConfirmLink(ConfirmLink {
            reply,
            flags: ConfirmLinkFlags::all(),
            mac: MAC,
            gid: gid(9),
            qpn: Qpn::new(self.qpn),
            link,
            user_id: LinkUserId(7),
            max_links: 2,
            max_connections: if self.v2 { 16 } else { 0 },
        })
    }

    fn add_link(&self, reply: bool) -> LlcMessage<'static> {
        LlcMessage::AddLink(AddLink {
            reply,
            rejection: reply.then_some(AddLinkRejectReason::NO_ALTERNATE_PATH),
            mac: MAC,
            gid: gid(9),
            qpn: Qpn::new(self.qpn),
            link: LinkNumber(2),
            mtu: Mtu::M1024,
            psn: Psn::new(2),
            extension: None,
        })
    }
}
