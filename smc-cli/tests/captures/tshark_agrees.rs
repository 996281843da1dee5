//! Message by message, `smcx decode` and tshark see the same in the captures.
//! What they see differently is listed in conformance/vectors/README.md.

use crate::common;
use crate::little_endian;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use common::names::{CLC, LLC, OPTION, OTHER, OTHER_V2, RETH, SAME, SAME_V2};
use common::written::write_everything;
use common::{CAPTURES, CAPTURES_V2, field, have_tshark, normal, records, tshark_fields, vector};
use serde_json::Value;

/// The field of tshark with the type, and its value.
fn kind(record: &Value) -> (&'static str, String) {
    // The types of version 2 are those of version 1 and 0x20.
    if record.get("llc_version").is_some() {
        let value = match record["type"].as_str().unwrap() {
            "ConfirmLink" => 0x21,
            "AddLink" => 0x22,
            "DeleteLink" => 0x24,
            "ConfirmRkey" => 0x26,
            "DeleteRkey" => 0x29,
            other => panic!("{other} in {record}"),
        };
        return (LLC, value.to_string());
    }
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

/// All fields of tshark that a record has, and their values.
fn expectations(record: &Value) -> Vec<(&'static str, Vec<String>)> {
    let kind_name = record["type"].as_str().unwrap();
    let smcd = record.get("smcd").is_some();
    let mut all = Vec::new();
    // Without an offer in version 1 tshark names hardly a field of version 1.
    if !smcd && record["v1_offer"] != "none" {
        let (_, same) = SAME.iter().find(|(name, _)| *name == kind_name).unwrap();
        all = same_fields(record, same);
    }
    v2(record, kind_name, smcd, &mut all);
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
    if !peer.is_empty() && !smcd && record["v2_offer"] != "SMC-D" {
        let digits = record["peer_id"].as_str().unwrap().replace(['@', ':'], "");
        all.push((peer, vec![normal(&format!("0x{digits}"))]));
    }
    match kind_name {
        _ if smcd => {}
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
        // tshark shows no keys in an answer of version 2.
        "DeleteRkey" if record.get("unknown").is_some() && record["reply"] == true => {}
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

fn same_fields(record: &Value, same: &[(&'static str, &str)]) -> Vec<(&'static str, Vec<String>)> {
    same.iter()
        // Version 2 has a count in place of the mask.
        .filter(|(_, ours)| *ours != "error_mask" || record.get("llc_version").is_none())
        .map(|(theirs, ours)| (*theirs, vec![field(record, ours)]))
        .collect()
}

/// A text as tshark shows it: padded with blanks.
fn padded(record: &Value, name: &str) -> Vec<String> {
    vec![format!("{:32}", record[name].as_str().unwrap())]
}

/// The items of a list, each as one of tshark's values.
fn items(record: &Value, name: &str) -> Vec<String> {
    let items = record[name].as_array().unwrap().iter();
    items
        .map(|item| item.as_str().unwrap().to_owned())
        .collect()
}

/// What version 2 and SMC-D add.
fn v2(record: &Value, kind_name: &str, smcd: bool, all: &mut Vec<(&'static str, Vec<String>)>) {
    let mut add = |name: &str| {
        let found = SAME_V2.iter().find(|(theirs, _)| *theirs == name);
        all.extend(same_fields(record, found.unwrap().1));
    };
    let first = record["first_contact"] == true;
    match (kind_name, record["version"] == 2) {
        ("Proposal", _) if record.get("v2_offer").is_some() => {
            add("Proposal");
            let eids = items(record, "v2_eids").into_iter();
            let eids = eids.map(|eid| format!("{eid:32}")).collect();
            all.push(("smc.proposal.eid", eids));
            if let Some(gid) = record["v2_gid"].as_str().unwrap().strip_prefix("::ffff:") {
                all.push(("smc.proposal.rocev2.gid.ipv4", vec![gid.to_owned()]));
            }
            if record["v2_offer"] == "SMC-D" {
                // The empty ISM area comes first.
                let (mut gids, mut chids) = (vec![normal("0")], vec![normal("0")]);
                for entry in items(record, "v2_ism_gids") {
                    let (gid, chid) = entry.split_once('/').unwrap();
                    gids.push(normal(gid));
                    chids.push(normal(chid));
                }
                all.push(("smc.proposal.ism.gid", gids));
                all.push(("smc.proposal.smc.chid", chids));
            }
        }
        ("Accept", true) => {
            if smcd {
                add("SmcdAccept");
                all.push(("smc.accept.dmbe.buffer.size", vec![size_code(record)]));
            } else if first {
                all.push(("smc.accept.v2_lg.type", vec![field(record, "direct")]));
            }
            all.push(("smc.accept.eid", padded(record, "eid")));
            if first {
                let found = SAME_V2.iter().find(|(name, _)| *name == "AcceptExtension");
                all.extend(same_fields(record, found.unwrap().1));
                all.push(("smc.accept.peer.host.name", padded(record, "hostname")));
            }
        }
        ("Confirm", true) => {
            if smcd {
                add("SmcdConfirm");
                all.push(("smc.confirm.dmbe.buffer.size", vec![size_code(record)]));
            }
            all.push(("smc.confirm.eid", padded(record, "eid")));
            if first {
                let found = SAME_V2.iter().find(|(name, _)| *name == "ConfirmExtension");
                all.extend(same_fields(record, found.unwrap().1));
                all.push(("smc.confirm.peer.host.name", padded(record, "hostname")));
            }
            if record.get("gids").is_some() {
                all.push(("smc.confirm.gid.list.entry", items(record, "gids")));
            }
        }
        ("Decline", true) => {
            all.push(("smc.decline.os.type", vec![field(record, "os")]));
            // The four further words, which are empty, have the same name.
            let diagnosis = all
                .iter_mut()
                .find(|(name, _)| *name == "smc.peer.diag.info");
            diagnosis.unwrap().1.extend(vec![normal("0"); 4]);
        }
        // tshark shows the extension of a request only.
        ("AddLink", _) if record.get("pairs").is_some() && record["reply"] == false => {
            all.push(("smc.add.link.direct_link", vec![field(record, "direct")]));
            for (name, ours) in [
                ("smc.add.link.rmb.RTok.Rkey1", "reference_rkey"),
                ("smc.add.link.rmb.RTok.Rkey2", "rkey"),
            ] {
                let pairs = record["pairs"].as_array().unwrap().iter();
                all.push((name, pairs.map(|pair| field(pair, ours)).collect()));
            }
        }
        ("DeleteRkey", _) if record.get("unknown").is_some() && record["reply"] == true => {
            let unknown = vec![field(record, "unknown")];
            all.push(("smc.delete.rkey.count.invalid", unknown));
        }
        _ => {}
    }
}

fn size_code(record: &Value) -> String {
    let octets = record["buffer_size"].as_u64().unwrap();
    (octets / 16384).ilog2().to_string()
}

/// Buffer size and MTU, which tshark leaves as codes.
fn sizes(
    record: &Value,
    size: &'static str,
    mtu: &'static str,
    all: &mut Vec<(&'static str, Vec<String>)>,
) {
    all.push((size, vec![size_code(record)]));
    let octets = record["mtu"].as_u64().unwrap();
    all.push((mtu, vec![((octets / 256).ilog2() + 1).to_string()]));
}

/// Compares all messages of a capture and returns how many there were, and how
/// many values.
fn compare(capture: &Path) -> (usize, usize) {
    let mut names: Vec<&str> = OTHER.into_iter().chain(OTHER_V2).collect();
    names.extend(
        SAME.iter()
            .chain(&SAME_V2)
            .flat_map(|(_, same)| same.iter().map(|(name, _)| *name)),
    );
    let frames = tshark_fields(capture, &names);
    let records = records(capture);
    let mut values = 0;
    let mut seen: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for record in &records {
        // tshark reports a write in its first packet, we in its last.
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
fn tshark_sees_the_same_in_version_2_and_smcd() {
    if !have_tshark() {
        return;
    }
    let folder = common::scratch("tshark-v2");
    for (capture, least) in CAPTURES_V2.into_iter().zip([2000, 2000, 8, 150]) {
        // tshark takes a SEND for SMC only if its length is right big-endian.
        let swapped = folder.join(capture.trim_end_matches(".gz"));
        let sends = little_endian::swap_lengths(&vector(capture), &swapped);
        let (messages, values) = compare(&swapped);
        println!("{capture}: {messages} messages and {values} values agree, {sends} swapped");
        assert!(values > least, "{values}");
    }
}

/// Messages of a little-endian machine are, as they are, no SMC for tshark.
#[test]
fn tshark_reads_no_llc_of_version_2_with_a_little_endian_length() {
    if !have_tshark() {
        return;
    }
    let frames = tshark_fields(&vector(CAPTURES_V2[0]), &[LLC]);
    let v2 = records(&vector(CAPTURES_V2[0]))
        .into_iter()
        .filter(|record| record.get("llc_version").is_some());
    assert!(v2.clone().count() > 80);
    for record in v2 {
        let frame = record["frame"].as_u64().unwrap();
        assert!(!frames.contains_key(&frame), "{record}");
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
