//! One item as named values.

use serde_json::Value;
use smc_capture::follow::{Content, Item, Path, RdmaWrite};
use smc_capture::frame::{RoceVersion, gid_address};
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::llc::LlcMessage;

use super::{clc, llc};
use crate::output::Fields;

/// Nanoseconds since the first frame; 0 for frames before it.
pub(super) fn since(time: u64, start: u64) -> u64 {
    time.saturating_sub(start)
}

/// Whether the invariant CRC of an item's packet is right, if it has one.
pub(super) fn crc_valid(item: &Item) -> Option<bool> {
    match &item.path {
        Path::Roce(path) => path.crc_valid,
        _ => None,
    }
}

/// The type of an item as it is named in JSON.
#[must_use]
pub fn type_name(content: &Content) -> &'static str {
    match content {
        Content::TcpOption(_) => "TcpOption",
        Content::Clc(ClcMessage::Proposal(_)) => "Proposal",
        Content::Clc(ClcMessage::Accept(_) | ClcMessage::SmcdAccept(_)) => "Accept",
        Content::Clc(ClcMessage::Confirm(_) | ClcMessage::SmcdConfirm(_)) => "Confirm",
        Content::Clc(ClcMessage::Decline(_)) => "Decline",
        Content::Llc(message) => match message.message() {
            LlcMessage::ConfirmLink(_) => "ConfirmLink",
            LlcMessage::AddLink(_) => "AddLink",
            LlcMessage::AddLinkContinuation(_) => "AddLinkContinuation",
            LlcMessage::DeleteLink(_) => "DeleteLink",
            LlcMessage::RequestAddLink(_) => "RequestAddLink",
            LlcMessage::ConfirmRkey(_) => "ConfirmRkey",
            LlcMessage::ConfirmRkeyContinuation(_) => "ConfirmRkeyContinuation",
            LlcMessage::TestLink(_) => "TestLink",
            LlcMessage::DeleteRkey(_) => "DeleteRkey",
        },
        Content::Cdc(_) => "Cdc",
        Content::Write(_) => "Write",
        Content::Unsupported { .. } => "Unsupported",
        Content::Cut { .. } => "Cut",
        Content::Malformed { .. } => "Malformed",
        _ => "Other",
    }
}

/// Everything about an item; times count from `start`.
#[must_use]
pub fn record(item: &Item, start: u64) -> Fields {
    let mut fields = Fields::default();
    fields.put("frame", item.frame);
    fields.put("time", since(item.time, start) as f64 / 1e9);
    fields.put("proto", item.content.protocol().name());
    fields.put("type", type_name(&item.content));
    fields.put("retransmission", item.retransmission);
    fields.0.extend(details(item).0);
    fields
}

/// Path and message of an item.
pub(super) fn details(item: &Item) -> Fields {
    let mut fields = Fields::default();
    match &item.path {
        Path::Tcp(path) => {
            fields.text("source", path.source);
            fields.text("destination", path.destination);
            fields.put("stream", path.stream);
            fields.put("to_server", path.to_server);
        }
        Path::Roce(path) => {
            fields.text("source", gid_address(path.source));
            fields.text("destination", gid_address(path.destination));
            if let Some(qpn) = path.source_qpn {
                fields.text("source_qpn", qpn);
            }
            fields.text("destination_qpn", path.destination_qpn);
            fields.text("packet_psn", path.psn);
            let link = path.link.map_or(Value::Null, |link| link.0.into());
            fields.put("carrier_link", link);
            let version = match path.version {
                RoceVersion::V1 => 1,
                RoceVersion::V2 { .. } => 2,
            };
            fields.put("roce_version", version);
            fields.put("crc_valid", path.crc_valid.map_or(Value::Null, Value::from));
        }
        Path::Hosts {
            source,
            destination,
        } => {
            fields.text("source", gid_address(*source));
            fields.text("destination", gid_address(*destination));
        }
    }
    fields.0.extend(message(&item.content).0);
    fields
}

/// The fields of a message.
#[must_use]
pub fn message(content: &Content) -> Fields {
    let mut fields = Fields::default();
    match content {
        Content::TcpOption(option) => fields.put("syn_ack", option.syn_ack),
        Content::Clc(message) => clc::fields(message, &mut fields),
        Content::Llc(llc) => llc::fields(&llc.message(), llc.version(), &mut fields),
        Content::Cdc(cdc) => cdc_fields(cdc, &mut fields),
        Content::Write(write) => write_fields(write, &mut fields),
        Content::Unsupported { what, .. } => fields.put("reason", what.as_str()),
        Content::Cut { have, need, .. } => {
            fields.put("have", *have);
            fields.put("need", *need);
        }
        Content::Malformed { offset, reason, .. } => {
            fields.put("offset", *offset);
            fields.put("reason", reason.as_str());
        }
        _ => {}
    }
    fields
}

fn write_fields(write: &RdmaWrite, fields: &mut Fields) {
    fields.text("rkey", write.rkey);
    fields.put("address", format!("0x{:016x}", write.address));
    fields.put("length", write.length);
    fields.put("first_frame", write.first_frame);
    fields.put("packets", write.packets);
    fields.put("complete", write.complete);
    fields.put("captured", write.present());
}

fn cdc_fields(cdc: &Cdc, fields: &mut Fields) {
    fields.put("sequence", cdc.sequence);
    fields.text("alert_token", cdc.alert_token);
    fields.put("producer_wrap", cdc.producer.wrap);
    fields.put("producer_cursor", cdc.producer.count);
    fields.put("consumer_wrap", cdc.consumer.wrap);
    fields.put("consumer_cursor", cdc.consumer.count);
    let producer = [
        ("writer_blocked", ProducerFlags::WRITER_BLOCKED),
        ("urgent_pending", ProducerFlags::URGENT_PENDING),
        ("urgent_present", ProducerFlags::URGENT_PRESENT),
        (
            "cursor_update_requested",
            ProducerFlags::CURSOR_UPDATE_REQUESTED,
        ),
        ("failover_validation", ProducerFlags::FAILOVER_VALIDATION),
    ];
    for (name, flag) in producer {
        fields.put(name, cdc.producer_flags.contains(flag));
    }
    let connection = [
        ("sending_done", ConnectionFlags::SENDING_DONE),
        (
            "peer_connection_closed",
            ConnectionFlags::PEER_CONNECTION_CLOSED,
        ),
        ("abnormal_close", ConnectionFlags::ABNORMAL_CLOSE),
    ];
    for (name, flag) in connection {
        fields.put(name, cdc.connection_flags.contains(flag));
    }
}
