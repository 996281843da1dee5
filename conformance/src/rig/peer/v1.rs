//! What a peer of version 1 sends by default. Change a field, or a message.

mod links;

use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::{
    AcceptConfirm, ClcMessage, ClcVersion, Decline, MAX_LENGTH, OfferedPath, PeerOs, Proposal,
    Subnets,
};
use smc_proto::wire::llc::{
    AddLink, ConfirmLink, ConfirmLinkFlags, ConfirmRkey, DeleteLink, DeleteLinkFlags, DeleteRkey,
    Entries, LlcMessage, RkeyFlags, TestLink,
};
use smc_proto::wire::types::{
    AddLinkRejectReason, AlertToken, BufferSize, Cursor, DeleteLinkReason, DiagnosisCode, Gid,
    LinkNumber, LinkUserId, Mac, Mtu, PeerId, Psn, Qpn, RKey, RToken, RmbeIndex,
};

use crate::rig::ipv4_gid;

/// The peer's identity and its end of the link.
#[derive(Clone, Copy, Debug)]
pub struct Peer {
    /// Identity.
    pub id: PeerId,
    /// GID of its port.
    pub gid: Gid,
    /// MAC of its port.
    pub mac: Mac,
    /// Queue pair of the peer.
    pub qpn: Qpn,
}

impl Default for Peer {
    fn default() -> Self {
        let mac = Mac([2, 0, 0, 0, 1, 1]);
        Self {
            id: PeerId::new(9, mac),
            gid: ipv4_gid([10, 0, 1, 1]),
            mac,
            qpn: Qpn::new(0x4711),
        }
    }
}

impl Peer {
    /// Bytes of a CLC message.
    #[must_use]
    pub fn octets(message: &ClcMessage) -> Vec<u8> {
        let mut bytes = vec![0; MAX_LENGTH];
        let length = message.emit(&mut bytes).expect("room for any message");
        bytes.truncate(length);
        bytes
    }

    /// A Proposal of RFC 7609's form.
    #[must_use]
    pub fn proposal(&self) -> ClcMessage {
        ClcMessage::Proposal(Proposal {
            version: ClcVersion::V1,
            v1: OfferedPath::SmcR,
            peer_id: self.id,
            gid: self.gid,
            mac: self.mac,
            ism: None,
            subnets: Subnets::default(),
            v2_offer: None,
        })
    }

    /// A first-contact Accept or Confirm that gives the connection the peer's RMB
    /// of this number, whose key, address and token follow from it.
    #[must_use]
    pub fn accept(&self, rmb: u32) -> AcceptConfirm {
        AcceptConfirm {
            first_contact: true,
            peer_id: self.id,
            gid: self.gid,
            mac: self.mac,
            qpn: self.qpn,
            rtoken: Self::rtoken(rmb),
            rmbe_index: RmbeIndex(1),
            alert_token: AlertToken(0xa000_0000 | rmb),
            buffer_size: BufferSize::K64,
            mtu: Mtu::M1024,
            psn: Psn::new(0x77),
            v2: None,
        }
    }

    /// Returns the message for a connection on an existing group.
    #[must_use]
    pub fn subsequent(&self, rmb: u32) -> AcceptConfirm {
        AcceptConfirm {
            first_contact: false,
            ..self.accept(rmb)
        }
    }

    /// RToken of the peer's RMB of this number.
    #[must_use]
    pub fn rtoken(rmb: u32) -> RToken {
        RToken {
            rkey: RKey(0x100 + rmb),
            address: 0x10_0000 * u64::from(rmb),
        }
    }

    /// A Decline.
    #[must_use]
    pub fn decline(&self) -> ClcMessage {
        self.decline_with(false)
    }

    /// A Decline with or without the out-of-sync bit.
    #[must_use]
    pub fn decline_with(&self, out_of_sync: bool) -> ClcMessage {
        ClcMessage::Decline(Decline {
            version: ClcVersion::V1,
            out_of_sync,
            peer_id: self.id,
            diagnosis: DiagnosisCode::CONFIGURATION,
            os: PeerOs::UNKNOWN,
        })
    }

    fn link_information(&self, reply: bool) -> ConfirmLink {
        ConfirmLink {
            reply,
            flags: ConfirmLinkFlags::all(),
            mac: self.mac,
            gid: self.gid,
            qpn: self.qpn,
            link: LinkNumber(1),
            user_id: LinkUserId(0x55),
            max_links: 2,
            max_connections: 0,
        }
    }

    /// CONFIRM LINK of link 1.
    #[must_use]
    pub fn confirm_link(&self) -> LlcMessage<'static> {
        LlcMessage::ConfirmLink(self.link_information(false))
    }

    /// CONFIRM LINK of link 1, changed.
    #[must_use]
    pub fn confirm_link_with(&self, change: impl FnOnce(&mut ConfirmLink)) -> LlcMessage<'static> {
        let mut message = self.link_information(false);
        change(&mut message);
        LlcMessage::ConfirmLink(message)
    }

    /// The answer to CONFIRM LINK of link 1.
    #[must_use]
    pub fn confirm_link_reply(&self) -> LlcMessage<'static> {
        LlcMessage::ConfirmLink(self.link_information(true))
    }

    /// ADD LINK of link 2 on the same RNIC.
    #[must_use]
    pub fn add_link(&self) -> LlcMessage<'static> {
        LlcMessage::AddLink(AddLink {
            mac: self.mac,
            gid: self.gid,
            ..self.link_offer(false, None)
        })
    }

    /// ADD LINK of link 2 on another RNIC.
    #[must_use]
    pub fn add_link_elsewhere(&self) -> LlcMessage<'static> {
        LlcMessage::AddLink(self.link_offer(false, None))
    }

    /// ADD LINK with this MTU code.
    #[must_use]
    pub fn add_link_mtu(&self, code: u8) -> LlcMessage<'static> {
        LlcMessage::AddLink(AddLink {
            mtu: Mtu::from_code(code),
            ..self.link_offer(false, None)
        })
    }

    /// The answer that rejects link 2.
    #[must_use]
    pub fn add_link_rejection(&self) -> LlcMessage<'static> {
        LlcMessage::AddLink(self.link_offer(true, Some(AddLinkRejectReason::NO_ALTERNATE_PATH)))
    }

    /// The answer that accepts link 2.
    #[must_use]
    pub fn add_link_acceptance(&self) -> LlcMessage<'static> {
        LlcMessage::AddLink(self.link_offer(true, None))
    }

    fn link_offer(&self, reply: bool, rejection: Option<AddLinkRejectReason>) -> AddLink<'static> {
        AddLink {
            reply,
            rejection,
            mac: Mac([2, 0, 0, 0, 1, 2]),
            gid: ipv4_gid([10, 0, 1, 2]),
            qpn: Qpn::new(0x4712),
            link: LinkNumber(2),
            mtu: Mtu::M1024,
            psn: Psn::new(1),
            extension: None,
        }
    }

    /// DELETE LINK of one link, orderly.
    #[must_use]
    pub fn delete_link(number: u8) -> LlcMessage<'static> {
        Self::delete_link_with(DeleteLinkFlags::ORDERLY, number, false)
    }

    /// DELETE LINK of a link that the peer lost, orderly as Linux has it.
    #[must_use]
    pub fn lost_link(number: u8) -> LlcMessage<'static> {
        LlcMessage::DeleteLink(DeleteLink {
            reply: false,
            flags: DeleteLinkFlags::ORDERLY,
            link: LinkNumber(number),
            reason: DeleteLinkReason::LOST_PATH,
        })
    }

    /// DELETE LINK of all.
    #[must_use]
    pub fn delete_all() -> LlcMessage<'static> {
        Self::delete_link_with(DeleteLinkFlags::ALL | DeleteLinkFlags::ORDERLY, 0, false)
    }

    /// DELETE LINK.
    #[must_use]
    pub fn delete_link_with(
        flags: DeleteLinkFlags,
        number: u8,
        reply: bool,
    ) -> LlcMessage<'static> {
        LlcMessage::DeleteLink(DeleteLink {
            reply,
            flags,
            link: LinkNumber(number),
            reason: DeleteLinkReason::PROGRAM,
        })
    }

    /// CONFIRM RKEY of the peer's RMB of this number.
    #[must_use]
    pub fn confirm_rkey(rmb: u32) -> LlcMessage<'static> {
        LlcMessage::ConfirmRkey(ConfirmRkey {
            reply: false,
            flags: RkeyFlags::empty(),
            rtoken: Self::rtoken(rmb),
            other_links: 0,
            others: Default::default(),
        })
    }

    /// DELETE RKEY of the peer's RMBs of these numbers.
    #[must_use]
    pub fn delete_rkey(rmbs: &[u32]) -> LlcMessage<'static> {
        LlcMessage::DeleteRkey(DeleteRkey {
            reply: false,
            flags: RkeyFlags::empty(),
            unknown: 0,
            rkeys: Entries::inline(rmbs.iter().map(|rmb| Self::rtoken(*rmb).rkey)),
        })
    }

    /// Returns the message as an answer.
    #[must_use]
    pub fn reply_to(message: &LlcMessage<'_>) -> LlcMessage<'static> {
        let mut bytes = message.emit_short(SmcVersion::V1).unwrap();
        bytes[3] |= 0x80;
        LlcMessage::parse(&bytes, SmcVersion::V1)
            .ok()
            .and_then(|message| message.to_static())
            .expect("a message of the same kind")
    }

    /// Returns the CONFIRM RKEY as an answer with these flags.
    #[must_use]
    pub fn rkey_reply(message: &LlcMessage<'_>, flags: RkeyFlags) -> LlcMessage<'static> {
        match message {
            LlcMessage::ConfirmRkey(m) => LlcMessage::ConfirmRkey(ConfirmRkey {
                reply: true,
                flags,
                ..m.clone()
            }),
            LlcMessage::DeleteRkey(m) => LlcMessage::DeleteRkey(DeleteRkey {
                reply: true,
                flags,
                unknown: 0x80,
                rkeys: m.rkeys.to_static().expect("no list of version 1 is long"),
            }),
            other => panic!("{other} is not about an RKey"),
        }
    }

    /// TEST LINK.
    #[must_use]
    pub fn test_link(byte: u8, reply: bool) -> LlcMessage<'static> {
        LlcMessage::TestLink(TestLink {
            reply,
            user_data: [byte; 16],
        })
    }

    /// A CDC message to the connection with this token that publishes `produced`
    /// bytes and has read `consumed`; rings start at 0.
    #[must_use]
    pub fn cdc(token: AlertToken, sequence: u16, produced: u32, consumed: u32) -> Cdc {
        let cursor = |count| Cursor { wrap: 0, count };
        Cdc {
            sequence,
            alert_token: token,
            producer: cursor(produced),
            consumer: cursor(consumed),
            producer_flags: ProducerFlags::empty(),
            connection_flags: ConnectionFlags::empty(),
        }
    }

    /// A CDC message with connection flags.
    #[must_use]
    pub fn cdc_flags(token: AlertToken, sequence: u16, flags: ConnectionFlags) -> Cdc {
        Cdc {
            connection_flags: flags,
            ..Self::cdc(token, sequence, 0, 0)
        }
    }
}
