//! ADD LINK as either side writes and reads it.

use crate::command::QpAddress;
use crate::id::LinkIdx;
use crate::link_group::Groups;
use crate::path::LocalPath;
use crate::wire::llc::{AddLink, LlcMessage};
use crate::wire::types::{AddLinkRejectReason, LinkNumber, Psn, Qpn};

impl Groups<'_> {
    /// The own end of a new link: the server's offer, or the client's reply.
    pub(in super::super) fn own_end(&self, link: LinkIdx, reply: bool) -> Option<AddLink<'static>> {
        let l = self.link(link)?;
        Some(AddLink {
            reply,
            rejection: None,
            mac: l.path.mac,
            gid: l.path.gid,
            qpn: l.qpn,
            link: l.number,
            mtu: l.path.mtu,
            psn: l.psn,
            extension: None,
        })
    }
}

/// A port without a queue pair: a rejection, or a client's hint (AMB-23).
pub(super) const fn port_only(
    path: &LocalPath,
    link: LinkNumber,
    rejection: Option<AddLinkRejectReason>,
) -> LlcMessage<'static> {
    LlcMessage::AddLink(AddLink {
        reply: rejection.is_some(),
        rejection,
        mac: path.mac,
        //= V2-191
        gid: path.gid,
        qpn: Qpn::new(0),
        link,
        mtu: path.mtu,
        psn: Psn::new(0),
        extension: None,
    })
}

/// The peer's end of a new link.
pub(super) const fn other_end(message: &AddLink<'_>) -> QpAddress {
    QpAddress {
        qpn: message.qpn,
        psn: message.psn,
        gid: message.gid,
        mac: message.mac,
    }
}
