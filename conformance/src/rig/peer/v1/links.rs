//! What the peer sends of further links: its port `n` has the number `n`, and its
//! queue pairs and keys follow from the number of the link.

use smc_proto::wire::llc::{
    AddLink, AddLinkContinuation, ConfirmLink, ConfirmLinkFlags, ConfirmRkey,
    ConfirmRkeyContinuation, DeleteLink, DeleteLinkFlags, DeleteRkey, Entries, LinkRToken,
    LlcMessage, RTokenPair, RkeyFlags,
};
use smc_proto::wire::types::{
    AddLinkRejectReason, DeleteLinkReason, Gid, LinkNumber, LinkUserId, Mac, Mtu, Psn, Qpn, RKey,
    RToken,
};

use super::Peer;
use crate::rig::ipv4_gid;

impl Peer {
    /// GID and MAC of a port of the peer; port 1 is that of the first link.
    #[must_use]
    pub fn port(number: u8) -> (Gid, Mac) {
        (ipv4_gid([10, 0, 1, number]), Mac([2, 0, 0, 0, 1, number]))
    }

    /// The peer's queue pair of a link.
    #[must_use]
    pub fn qpn_of(link: u8) -> Qpn {
        Qpn::new(0x4710 + u32::from(link))
    }

    /// The peer's RMB of this number as known on a link.
    #[must_use]
    pub fn rtoken_on(link: u8, rmb: u32) -> RToken {
        RToken {
            rkey: RKey(0x100 * u32::from(link) + rmb),
            address: 0x1000_0000 * u64::from(link - 1) + 0x10_0000 * u64::from(rmb),
        }
    }

    fn end_of(link: u8, port: u8, reply: bool) -> AddLink<'static> {
        let (gid, mac) = Self::port(port);
        AddLink {
            reply,
            rejection: None,
            mac,
            gid,
            qpn: Self::qpn_of(link),
            link: LinkNumber(link),
            mtu: Mtu::M1024,
            psn: Psn::new(u32::from(link)),
            extension: None,
        }
    }

    /// Server: ADD LINK.
    #[must_use]
    pub fn offer(link: u8, port: u8) -> LlcMessage<'static> {
        LlcMessage::AddLink(Self::end_of(link, port, false))
    }

    /// Server: ADD LINK, with a change.
    #[must_use]
    pub fn offer_with(
        link: u8,
        port: u8,
        change: impl FnOnce(&mut AddLink),
    ) -> LlcMessage<'static> {
        let mut message = Self::end_of(link, port, false);
        change(&mut message);
        LlcMessage::AddLink(message)
    }

    /// Client: takes the offer of a link.
    #[must_use]
    pub fn takes(link: u8, port: u8) -> LlcMessage<'static> {
        LlcMessage::AddLink(Self::end_of(link, port, true))
    }

    /// Client: takes the offer of a link, with a change.
    #[must_use]
    pub fn takes_with(
        link: u8,
        port: u8,
        change: impl FnOnce(&mut AddLink),
    ) -> LlcMessage<'static> {
        let mut message = Self::end_of(link, port, true);
        change(&mut message);
        LlcMessage::AddLink(message)
    }

    /// Client: rejects the offer of a link.
    #[must_use]
    pub fn rejects(link: u8) -> LlcMessage<'static> {
        let rejection = Some(AddLinkRejectReason::NO_ALTERNATE_PATH);
        Self::takes_with(link, 1, |m| m.rejection = rejection)
    }

    /// Client: ADD LINK, which only announces that a port is there.
    #[must_use]
    pub fn hint(port: u8) -> LlcMessage<'static> {
        LlcMessage::AddLink(AddLink {
            qpn: Qpn::new(0),
            psn: Psn::new(0),
            ..Self::end_of(0, port, false)
        })
    }

    fn confirmation(link: u8, port: u8, reply: bool) -> ConfirmLink {
        let (gid, mac) = Self::port(port);
        ConfirmLink {
            reply,
            flags: ConfirmLinkFlags::all(),
            mac,
            gid,
            qpn: Self::qpn_of(link),
            link: LinkNumber(link),
            user_id: LinkUserId(0x55 + u32::from(link)),
            max_links: 2,
            max_connections: 0,
        }
    }

    /// Server: CONFIRM LINK.
    #[must_use]
    pub fn asks(link: u8, port: u8) -> LlcMessage<'static> {
        LlcMessage::ConfirmLink(Self::confirmation(link, port, false))
    }

    /// Server: CONFIRM LINK, with a change.
    #[must_use]
    pub fn asks_with(
        link: u8,
        port: u8,
        change: impl FnOnce(&mut ConfirmLink),
    ) -> LlcMessage<'static> {
        let mut message = Self::confirmation(link, port, false);
        change(&mut message);
        LlcMessage::ConfirmLink(message)
    }

    /// Client: the answer to CONFIRM LINK.
    #[must_use]
    pub fn confirms(link: u8, port: u8) -> LlcMessage<'static> {
        LlcMessage::ConfirmLink(Self::confirmation(link, port, true))
    }

    /// Client: the answer to CONFIRM LINK, with a change.
    #[must_use]
    pub fn confirms_with(
        link: u8,
        port: u8,
        change: impl FnOnce(&mut ConfirmLink),
    ) -> LlcMessage<'static> {
        let mut message = Self::confirmation(link, port, true);
        change(&mut message);
        LlcMessage::ConfirmLink(message)
    }

    /// ADD LINK CONTINUATION for a link, sent over another one: of the first two RMBs still
    /// to announce.
    #[must_use]
    pub fn continuation(over: u8, link: u8, left: &[u32], reply: bool) -> LlcMessage<'static> {
        let pair = |rmb: &u32| RTokenPair {
            reference: Self::rtoken_on(over, *rmb).rkey,
            new: Self::rtoken_on(link, *rmb),
        };
        LlcMessage::AddLinkContinuation(AddLinkContinuation {
            reply,
            link: LinkNumber(link),
            remaining: u8::try_from(left.len()).expect("at most 255 RMBs"),
            pairs: left.iter().take(2).map(pair).collect(),
        })
    }

    /// DELETE LINK of one link, orderly, for this reason.
    #[must_use]
    pub fn delete_because(link: u8, reason: DeleteLinkReason) -> LlcMessage<'static> {
        LlcMessage::DeleteLink(DeleteLink {
            reply: false,
            flags: DeleteLinkFlags::ORDERLY,
            link: LinkNumber(link),
            reason,
        })
    }

    fn entries<L: FromIterator<LinkRToken>>(rmb: u32, links: &[u8], room: usize) -> L {
        let entry = |link: &u8| LinkRToken {
            link: LinkNumber(*link),
            rtoken: Self::rtoken_on(*link, rmb),
        };
        links.iter().take(room).map(entry).collect()
    }

    /// CONFIRM RKEY of an RMB, sent over one link, for others as well.
    #[must_use]
    pub fn confirm_rkey_on(over: u8, rmb: u32, others: &[u8]) -> LlcMessage<'static> {
        LlcMessage::ConfirmRkey(ConfirmRkey {
            reply: false,
            flags: RkeyFlags::empty(),
            rtoken: Self::rtoken_on(over, rmb),
            other_links: others.len() as u8,
            others: Self::entries(rmb, others, 2),
        })
    }

    /// DELETE RKEY of RMBs as they are known on a link.
    #[must_use]
    pub fn delete_rkey_on(link: u8, rmbs: &[u32]) -> LlcMessage<'static> {
        LlcMessage::DeleteRkey(DeleteRkey {
            reply: false,
            flags: RkeyFlags::empty(),
            unknown: 0,
            rkeys: Entries::inline(rmbs.iter().map(|rmb| Self::rtoken_on(link, *rmb).rkey)),
        })
    }

    /// CONFIRM RKEY CONTINUATION for the links still to announce.
    #[must_use]
    pub fn rkey_continuation(rmb: u32, left: &[u8]) -> LlcMessage<'static> {
        LlcMessage::ConfirmRkeyContinuation(ConfirmRkeyContinuation {
            reply: false,
            flags: RkeyFlags::empty(),
            remaining: left.len() as u8,
            others: Self::entries(rmb, left, 3),
        })
    }
}
