//! What a peer sends: the right messages, and others that resemble them.

mod answers;
mod second;

use smc_proto::completion::RdmaCompletion;
use smc_proto::id::{ConnId, LinkId};
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::{
    AcceptConfirm, ClcMessage, ClcVersion, Decline, OfferedPath, PeerOs, Proposal, Subnets,
};
use smc_proto::wire::llc::{
    AddLink, AddLinkContinuation, ConfirmLink, ConfirmLinkFlags, ConfirmRkey,
    ConfirmRkeyContinuation, DeleteLink, DeleteLinkFlags, DeleteRkey, Entries, LinkRToken,
    LlcMessage, RTokenPair, RkeyFlags, TestLink,
};
use smc_proto::wire::types::{
    AddLinkRejectReason, AlertToken, BufferSize, Cursor, DeleteLinkReason, DiagnosisCode, Gid,
    LinkNumber, LinkUserId, Mac, Mtu, PeerId, Psn, Qpn, RKey, RToken, RmbeIndex,
};

use super::Reader;
use super::side::Side;
use crate::rig::{ipv4_gid, linux};

const MAC: Mac = Mac([2, 0, 0, 0, 0, 9]);
const PEER: PeerId = PeerId::new(9, MAC);

const fn gid(number: u8) -> Gid {
    ipv4_gid([10, 0, 0, number])
}

/// A peer of one endpoint, and what it learnt.
#[derive(Clone, Debug, Default)]
pub(super) struct Peer {
    /// Alert tokens the endpoint gave out.
    pub(super) tokens: Vec<AlertToken>,
    /// Whether it speaks version 2.
    v2: bool,
    /// Sequence numbers of the CDC messages sent so far.
    sequence: u16,
    /// Number of the queue pair used last.
    qpn: u32,
    next_rkey: u32,
}

pub(super) fn bytes(message: &ClcMessage) -> Vec<u8> {
    let mut bytes = vec![0; message.encoded_len()];
    message.emit(&mut bytes).expect("the right length");
    bytes
}

impl Peer {
    pub(super) fn proposal() -> ClcMessage {
        ClcMessage::Proposal(Proposal {
            version: ClcVersion::V2,
            v1: OfferedPath::SmcR,
            peer_id: PEER,
            gid: gid(9),
            mac: MAC,
            ism: None,
            subnets: Subnets::default(),
            v2_offer: None,
        })
    }

    /// A peer that speaks version 2, or 1.
    pub(super) fn of_version_2(v2: bool) -> Self {
        Self {
            v2,
            ..Self::default()
        }
    }

    /// Proposal of this peer, of the version that the peer speaks.
    pub(super) fn proposes(&self) -> ClcMessage {
        if !self.v2 {
            return Self::proposal();
        }
        let mut proposal = linux::proposal();
        if let Some(offer) = &mut proposal.v2_offer {
            offer.gid = gid(9);
        }
        ClcMessage::Proposal(proposal)
    }

    /// Returns this peer's half of a connection, with an RMB of its own.
    pub(super) fn half(&mut self, first_contact: bool) -> AcceptConfirm {
        if first_contact {
            self.qpn += 1;
        }
        self.next_rkey += 1;
        AcceptConfirm {
            first_contact,
            peer_id: PEER,
            gid: gid(9),
            mac: MAC,
            qpn: Qpn::new(self.qpn),
            rtoken: RToken {
                rkey: RKey(self.next_rkey),
                address: 0x1000,
            },
            rmbe_index: RmbeIndex(1),
            alert_token: AlertToken(self.next_rkey),
            buffer_size: BufferSize::K16,
            mtu: Mtu::M1024,
            psn: Psn::new(1),
            v2: self.v2.then(linux::half).and_then(|half| half.v2),
        }
    }

    /// A CLC message that is nearly right.
    pub(super) fn clc(&mut self, r: &mut Reader<'_>) -> ClcMessage {
        let kind = r.below(4);
        if kind == 0 {
            let ClcMessage::Proposal(mut proposal) = self.proposes() else {
                unreachable!("a Proposal");
            };
            proposal.peer_id = PeerId::new(u16::from(r.u8() & 1) + 8, MAC);
            proposal.gid = gid(8 + (r.u8() & 1));
            return ClcMessage::Proposal(proposal);
        }
        if kind == 3 {
            return ClcMessage::Decline(Decline {
                version: ClcVersion::V1,
                out_of_sync: r.flag(),
                peer_id: PEER,
                diagnosis: DiagnosisCode(r.u32()),
                os: PeerOs(0),
            });
        }
        let mut half = self.half(r.flag());
        half.qpn = Qpn::new(half.qpn.value().wrapping_sub(u32::from(r.u8() & 1)));
        half.rtoken.rkey = RKey(half.rtoken.rkey.0.wrapping_sub(u32::from(r.u8() & 1)));
        half.rmbe_index = RmbeIndex(1 ^ (r.u8() & 3));
        half.mtu = Mtu::from_code(3 ^ (r.u8() & 7));
        half.buffer_size = BufferSize::from_code(r.u8() & 0x0f);
        half.gid = gid(9 - (r.u8() & 1));
        match kind {
            1 => ClcMessage::Accept(half),
            _ => ClcMessage::Confirm(half),
        }
    }

    /// An LLC message that is nearly right.
    pub(super) fn llc(&self, r: &mut Reader<'_>) -> LlcMessage<'static> {
        let reply = r.flag();
        let link = LinkNumber(r.u8() & 3);
        let rtoken = RToken {
            rkey: RKey(u32::from(r.u8() & 7)),
            address: 0x1000,
        };
        let flags = RkeyFlags::from_bits_truncate(r.u8());
        match r.below(8) {
            0 => LlcMessage::ConfirmLink(ConfirmLink {
                reply,
                flags: ConfirmLinkFlags::from_bits_truncate(r.u8()),
                mac: MAC,
                gid: gid(9 - (r.u8() & 1)),
                qpn: Qpn::new(self.qpn),
                link,
                user_id: LinkUserId(7),
                max_links: r.u8() & 7,
                max_connections: 0,
            }),
            1 => LlcMessage::AddLink(AddLink {
                reply,
                rejection: r.flag().then_some(AddLinkRejectReason(r.u8() & 3)),
                mac: MAC,
                gid: gid(9 - (r.u8() & 1)),
                qpn: Qpn::new(self.qpn + u32::from(r.u8() & 1)),
                link,
                mtu: Mtu::from_code(r.u8()),
                psn: Psn::new(2),
                extension: None,
            }),
            2 => {
                let mut pairs = AddLinkContinuation {
                    reply,
                    link,
                    remaining: r.u8() & 7,
                    pairs: Default::default(),
                };
                for _ in 0..pairs.remaining.min(2) {
                    let _ = pairs.pairs.push(RTokenPair {
                        reference: rtoken.rkey,
                        new: rtoken,
                    });
                }
                LlcMessage::AddLinkContinuation(pairs)
            }
            3 => LlcMessage::DeleteLink(DeleteLink {
                reply,
                flags: DeleteLinkFlags::from_bits_truncate(r.u8()),
                link,
                reason: DeleteLinkReason(u32::from(r.u8()) << 16),
            }),
            4 => {
                let mut message = ConfirmRkey {
                    reply,
                    flags,
                    rtoken,
                    other_links: r.u8() & 3,
                    others: Default::default(),
                };
                for _ in 0..message.other_links.min(2) {
                    let _ = message.others.push(LinkRToken { link, rtoken });
                }
                LlcMessage::ConfirmRkey(message)
            }
            5 => {
                let mut message = ConfirmRkeyContinuation {
                    reply,
                    flags,
                    remaining: 1 + (r.u8() & 3),
                    others: Default::default(),
                };
                for _ in 0..message.remaining.min(3) {
                    let _ = message.others.push(LinkRToken { link, rtoken });
                }
                LlcMessage::ConfirmRkeyContinuation(message)
            }
            6 => LlcMessage::TestLink(TestLink {
                reply,
                user_data: [r.u8(); 16],
            }),
            _ => {
                let unknown = r.u8();
                let rkeys: Vec<_> = (0..=r.below(8))
                    .map(|_| RKey(u32::from(r.u8() & 7)))
                    .take(8)
                    .collect();
                LlcMessage::DeleteRkey(DeleteRkey {
                    reply,
                    flags,
                    unknown,
                    rkeys: Entries::inline(rkeys),
                })
            }
        }
    }

    /// A CDC message for a connection of the endpoint, nearly right.
    pub(super) fn cdc(&mut self, r: &mut Reader<'_>) -> Cdc {
        let token = r.below(self.tokens.len() + 1);
        self.sequence = self.sequence.wrapping_add(u16::from(r.u8() % 3));
        let mut cursor = || Cursor {
            wrap: u16::from(r.u8() & 1),
            count: r.u32() & 0x7fff,
        };
        let (producer, consumer) = (cursor(), cursor());
        Cdc {
            sequence: self.sequence,
            alert_token: self.tokens.get(token).copied().unwrap_or_default(),
            producer,
            consumer,
            producer_flags: ProducerFlags::from_bits_truncate(r.u8()),
            connection_flags: ConnectionFlags::from_bits_truncate(r.u8()),
        }
    }
}

impl Side {
    /// An LLC or CDC message arrives.
    pub(super) fn receive(&mut self, link: LinkId, payload: &[u8]) {
        self.rdma(RdmaCompletion::Received { link, payload });
    }

    /// CLC bytes arrive, all at once.
    pub(super) fn show(&mut self, conn: ConnId, bytes: &[u8]) {
        let _ = super::stream::show(&mut self.endpoint, self.now, conn, bytes);
        self.check();
    }
}
