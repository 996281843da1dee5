//! Short descriptions of messages, for the ladder.

use smc_capture::frame::gid_address;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::cdc_ism::CdcIsm;
use smc_proto::wire::clc::{AcceptConfirm, ClcMessage, Proposal};
use smc_proto::wire::llc::{DeleteLinkFlags, LlcMessage, RkeyFlags};
use smc_proto::wire::types::{LinkNumber, Mtu, RToken};
use smc_transport_sim::observe::TcpSegment;

use crate::output::grouped;

pub(super) fn syn(segment: &TcpSegment<'_>) -> String {
    let name = if segment.ack { "SYN-ACK" } else { "SYN" };
    let option = if segment.smc_option {
        "with the SMC option (kind 254, \"SMCR\" in EBCDIC)"
    } else {
        "without the SMC option"
    };
    format!("TCP {name} {option}")
}

pub(super) fn clc(message: &ClcMessage) -> String {
    match message {
        ClcMessage::Proposal(Proposal {
            v2_offer: Some(offer),
            ..
        }) => format!(
            "CLC Proposal: {}v2, GID {}, {}",
            offer.path,
            gid_address(offer.gid),
            many(offer.eids.len(), "EID"),
        ),
        ClcMessage::Proposal(proposal) => format!(
            "CLC Proposal: {}, GID {}, net {}/{}",
            proposal.v1,
            gid_address(proposal.gid),
            proposal.subnets.network,
            proposal.subnets.prefix_length,
        ),
        ClcMessage::Accept(contact) => format!("CLC Accept: {}", side(contact)),
        ClcMessage::Confirm(contact) => format!("CLC Confirm: {}", side(contact)),
        other @ (ClcMessage::SmcdAccept(_) | ClcMessage::SmcdConfirm(_)) => other.to_string(),
        ClcMessage::Decline(decline) => format!("CLC Decline: {}", decline.diagnosis),
    }
}

fn side(contact: &AcceptConfirm) -> String {
    format!(
        "{}, QP {}, RKey {}, ring {} KiB",
        if contact.first_contact {
            "first contact"
        } else {
            "known peer"
        },
        contact.qpn,
        contact.rtoken.rkey,
        contact.buffer_size.octets() >> 10,
    )
}

fn mtu(mtu: Mtu) -> String {
    mtu.octets()
        .map_or_else(|| mtu.to_string(), |bytes| bytes.to_string())
}

const fn kind(reply: bool) -> &'static str {
    if reply { "reply" } else { "request" }
}

pub(super) fn llc(message: &LlcMessage<'_>) -> String {
    let kind = kind(message.is_reply());
    match message {
        LlcMessage::ConfirmLink(confirm) => format!(
            "LLC CONFIRM LINK {kind}: link {}, GID {}, QP {}, max {} links",
            confirm.link,
            gid_address(confirm.gid),
            confirm.qpn,
            confirm.max_links,
        ),
        LlcMessage::AddLink(add) => {
            let (link, gid) = (add.link, gid_address(add.gid));
            let mut text = match add.rejection {
                Some(reason) => format!("LLC ADD LINK {kind}: link {link}, rejected, {reason}"),
                // The client's: only the server makes links.
                None if add.link == LinkNumber(0) => {
                    format!("LLC ADD LINK {kind}: GID {gid} could have a link")
                }
                None => format!(
                    "LLC ADD LINK {kind}: link {link}, GID {gid}, QP {}, MTU {}",
                    add.qpn,
                    mtu(add.mtu)
                ),
            };
            if let Some(extension) = &add.extension {
                text.push_str(", ");
                text.push_str(&many(extension.rtokens.len(), "RMB key"));
            }
            text
        }
        LlcMessage::AddLinkContinuation(more) => format!(
            "LLC ADD LINK CONTINUATION {kind}: link {}, {}",
            more.link,
            many(more.pairs.len(), "RMB key"),
        ),
        LlcMessage::DeleteLink(delete) => {
            let which = if delete.flags.contains(DeleteLinkFlags::ALL) {
                "all links".to_owned()
            } else {
                format!("link {}", delete.link)
            };
            format!("LLC DELETE LINK {kind}: {which}, {}", delete.reason)
        }
        LlcMessage::ConfirmRkey(confirm) => {
            let (rkey, flags) = (confirm.rtoken.rkey, refusal(confirm.flags));
            format!("LLC CONFIRM RKEY {kind}: {rkey}{flags}")
        }
        LlcMessage::DeleteRkey(delete) => {
            let (keys, flags) = (delete.rkeys.len(), refusal(delete.flags));
            format!("LLC DELETE RKEY {kind}: {}{flags}", many(keys, "key"))
        }
        LlcMessage::RequestAddLink(request) => match request.gids.first() {
            Some(gid) => format!("LLC REQUEST ADD LINK {kind}: GID {}", gid_address(gid)),
            None => format!("LLC REQUEST ADD LINK {kind}: none now"),
        },
        LlcMessage::TestLink(_) => format!("LLC TEST LINK {kind}"),
        other @ LlcMessage::ConfirmRkeyContinuation(_) => format!("LLC {other}"),
    }
}

const fn refusal(flags: RkeyFlags) -> &'static str {
    if flags.contains(RkeyFlags::NEGATIVE) {
        ", refused"
    } else {
        ""
    }
}

fn many(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// Describes the rings that a message names.
pub(super) fn rings(message: &LlcMessage<'_>, mut learn: impl FnMut(RToken)) {
    match message {
        LlcMessage::ConfirmRkey(confirm) => {
            learn(confirm.rtoken);
            confirm.others.iter().for_each(|other| learn(other.rtoken));
        }
        LlcMessage::ConfirmRkeyContinuation(more) => {
            more.others.iter().for_each(|other| learn(other.rtoken));
        }
        LlcMessage::AddLinkContinuation(more) => {
            more.pairs.iter().for_each(|pair| learn(pair.new));
        }
        LlcMessage::AddLink(add) => {
            let pairs = add.extension.iter().flat_map(|extension| extension.rtokens);
            pairs.for_each(|pair| learn(pair.new));
        }
        _ => {}
    }
}

/// Cursors as laps around the ring and bytes.
pub(super) fn cdc(cdc: &Cdc) -> String {
    let name = format!("CDC {}", cdc.sequence);
    cursors(&name, &CdcIsm::from(*cdc))
}

/// Cursors of a message of SMC-D, which has no number.
pub(super) fn cdc_ism(cdc: &CdcIsm) -> String {
    cursors("CDC", cdc)
}

fn cursors(name: &str, cdc: &CdcIsm) -> String {
    let cursor = |cursor: smc_proto::wire::types::Cursor| {
        format!("{}+{}", cursor.wrap, grouped(cursor.count.into()))
    };
    let (producer, consumer) = (cursor(cdc.producer), cursor(cdc.consumer));
    let mut text = format!("{name}: written {producer}, read {consumer}");
    let producer = [
        (ProducerFlags::WRITER_BLOCKED, "writer blocked"),
        (ProducerFlags::URGENT_PENDING, "urgent pending"),
        (ProducerFlags::URGENT_PRESENT, "urgent present"),
        (ProducerFlags::CURSOR_UPDATE_REQUESTED, "update requested"),
        (ProducerFlags::FAILOVER_VALIDATION, "failover"),
    ];
    let connection = [
        (ConnectionFlags::SENDING_DONE, "sending done"),
        (ConnectionFlags::PEER_CONNECTION_CLOSED, "closed"),
        (ConnectionFlags::ABNORMAL_CLOSE, "aborted"),
    ];
    let producer = producer
        .into_iter()
        .filter(|(flag, _)| cdc.producer_flags.contains(*flag))
        .map(|(_, words)| words);
    let connection = connection
        .into_iter()
        .filter(|(flag, _)| cdc.connection_flags.contains(*flag))
        .map(|(_, words)| words);
    for words in producer.chain(connection) {
        text.push_str(", ");
        text.push_str(words);
    }
    text
}
