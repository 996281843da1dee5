//! Message by message, `smcx decode` and tshark see the same in the captures.
//! What they see differently is told in conformance/vectors/README.md.

mod common;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use common::names::{CLC, LLC, OPTION, OTHER, RETH, SAME};
use common::written::write_everything;
use common::{CAPTURES, field, have_tshark, normal, records, tshark_fields, vector};
use serde_json::Value;

/// The field of tshark that tells the type, and its value.
fn kind(record: &Value) -> (&'static str, String) {
    let (name, value) = match record["type"].as_str().unwrap() {
        "TcpOption" => (OPTION, "0xe2d4"),
        "Proposal" => (CLC, "1"),
        "Accept" => (CLC, "2"),
        "Confirm" => (CLC, "3"),
        "Decline" => (CLC, "4"),
        "ConfirmLink" => (LLC, "1"),
        "AddLink" => (LLC, "2"),
        "AddLinkContinuation" => (LLC, "3"),
        "DeleteLink" => (LLC, "4"),
        "ConfirmRkey" => (LLC, "6"),
        "TestLink" => (LLC, "7"),
        "ConfirmRkeyContinuation" => (LLC, "8"),
        "DeleteRkey" => (LLC, "9"),
        "Cdc" => (LLC, "0xfe"),
        "Write" => return (RETH, field(record, "rkey")),
        other => panic!("{other} in {record}"),
    };
    (name, normal(value))
}

/// All fields of tshark that a record tells, and their values.
fn expectations(record: &Value) -> Vec<(&'static str, Vec<String>)> {
    let kind_name = record["type"].as_str().unwrap();
    let (_, same) = SAME.iter().find(|(name, _)| *name == kind_name).unwrap();
    let mut all: Vec<(&str, Vec<String>)> = same
        .iter()
        .map(|(theirs, ours)| (*theirs, vec![field(record, ours)]))
        .collect();
    let (name, value) = kind(record);
    all.push((name, vec![value]));
    if record.get("packet_psn").is_some() {
        let qpn = field(record, "destination_qpn");
        all.push(("infiniband.bth.destqp", vec![qpn]));
        all.push(("infiniband.bth.psn", vec![field(record, "packet_psn")]));
    }
    let peer = match kind_name {
        "Proposal" => "smc.proposal.sender.client.peer.id",
        "Accept" => "smc.accept.sender.server.peer.id",
        "Confirm" => "smc.confirm.sender.client.peer.id",
        "Decline" => "smc.sender.peer.id",
        _ => "",
    };
    if !peer.is_empty() {
        let digits = record["peer_id"].as_str().unwrap().replace(['@', ':'], "");
        all.push((peer, vec![normal(&format!("0x{digits}"))]));
    }
    match kind_name {
        "Accept" => sizes(
            record,
            "smc.accept.rmb.buffer.size",
            "smc.accept.qp.mtu.value",
            &mut all,
        ),
        "Confirm" => {
            sizes(
                record,
                "smc.confirm.rmb.buffer.size",
                "smc.confirm.qp.mtu.value",
                &mut all,
            );
        }
        // tshark has one name for the cursors of producer and consumer.
        "Cdc" => {
            let pair = |a, b| vec![field(record, a), field(record, b)];
            all.push((
                "smc.rmbe.ctrl.prod.wrap.seq",
                pair("producer_wrap", "consumer_wrap"),
            ));
            let cursors = pair("producer_cursor", "consumer_cursor");
            all.push(("smc.rmbe.ctrl.peer.prod.curs", cursors));
        }
        "DeleteRkey" => {
            let keys = record["rkeys"].as_array().unwrap().iter();
            let keys = keys.map(|key| normal(key.as_str().unwrap())).collect();
            all.push(("smc.delete.rkey.deleted", keys));
        }
        // The entries for other links have the names of the first one.
        "ConfirmRkey" => {
            for other in record["others"].as_array().unwrap() {
                all.push(("smc.confirm.rkey.link.number", vec![field(other, "link")]));
                for (name, ours) in [
                    ("smc.confirm.rkey.new.rkey", "rkey"),
                    ("smc.confirm.rkey.new.virt", "address"),
                ] {
                    let mine = all.iter_mut().find(|(theirs, _)| *theirs == name).unwrap();
                    mine.1.push(field(other, ours));
                }
            }
        }
        _ => {}
    }
    all
}

/// Buffer size and MTU, which tshark leaves as codes.
fn sizes(
    record: &Value,
    size: &'static str,
    mtu: &'static str,
    all: &mut Vec<(&'static str, Vec<String>)>,
) {
    let octets = record["buffer_size"].as_u64().unwrap();
    all.push((size, vec![(octets / 16384).ilog2().to_string()]));
    let octets = record["mtu"].as_u64().unwrap();
    all.push((mtu, vec![((octets / 256).ilog2() + 1).to_string()]));
}

/// Compares all messages of a capture and tells how many there were, and how
/// many values.
fn compare(capture: &Path) -> (usize, usize) {
    let mut names: Vec<&str> = OTHER.to_vec();
    names.extend(
        SAME.iter()
            .flat_map(|(_, same)| same.iter().map(|(name, _)| *name)),
    );
    let frames = tshark_fields(capture, &names);
    let records = records(capture);
    let mut values = 0;
    let mut seen: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for record in &records {
        // tshark tells of a write in its first packet, we in its last.
        let number = record.get("first_frame").unwrap_or(&record["frame"]);
        let number = number.as_u64().unwrap();
        let frame = frames.get(&number).unwrap_or_else(|| panic!("{record}"));
        for (name, expected) in expectations(record) {
            let theirs = frame.get(name).unwrap_or_else(|| panic!("{name} {record}"));
            assert_eq!(*theirs, expected, "frame {number} {name} {record}");
            values += expected.len();
        }
        seen.entry(kind(record).0).or_default().insert(number);
    }
    for name in [OPTION, CLC, LLC, RETH] {
        let theirs: BTreeSet<u64> = frames
            .iter()
            .filter(|(_, fields)| fields.contains_key(name))
            .map(|(number, _)| *number)
            .collect();
        assert_eq!(
            seen.get(name).cloned().unwrap_or_default(),
            theirs,
            "{name}"
        );
    }
    (records.len(), values)
}

#[test]
fn tshark_sees_the_same_messages_with_the_same_values() {
    if !have_tshark() {
        return;
    }
    for capture in CAPTURES {
        let (messages, values) = compare(&vector(capture));
        println!("{capture}: {messages} messages and {values} values agree with tshark");
        assert!(messages > 290 && values > 2000, "{messages} {values}");
    }
}

#[test]
fn tshark_sees_what_the_simulator_writes() {
    if !have_tshark() {
        return;
    }
    let folder = common::scratch("tshark");
    let capture = folder.join("written.pcapng");
    write_everything(&capture);
    let (messages, values) = compare(&capture);
    println!("written: {messages} messages and {values} values agree with tshark");
    let faults = tshark_fields(&capture, &["_ws.malformed", "_ws.expert.severity"]);
    let malformed: Vec<&u64> = faults
        .iter()
        .filter(|(_, fields)| fields.contains_key("_ws.malformed"))
        .map(|(number, _)| number)
        .collect();
    assert!(malformed.is_empty(), "malformed for tshark: {malformed:?}");
    let comments = tshark_fields(&capture, &["frame.comment"]);
    let comment = &comments[&1]["frame.comment"];
    assert_eq!(*comment, ["the client's SYN"]);
}
