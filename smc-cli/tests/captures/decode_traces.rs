//! `smcx decode` over captures of Linux kernels.

use crate::common;

use std::collections::BTreeMap;

use common::{CAPTURES, CAPTURES_V2, records, smcx, vector};
use smc_capture::follow::{self, Content, Path};
use smc_capture::reader::CaptureReader;
use smc_proto::version::SmcVersion;
use smc_proto::wire::clc::MAX_LENGTH;
use smc_proto::wire::llc::LLC_V2_MAX_LENGTH;

/// How many messages of each type a capture holds: requests, replies (or
/// messages that have neither) and repeated ones.
fn counts(capture: &str) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for record in records(&vector(capture)) {
        let mut name = record["type"].as_str().unwrap().to_owned();
        if record["reply"] == true {
            name += " reply";
        }
        if record["retransmission"] == true {
            name += " again";
        }
        *counts.entry(name).or_default() += 1;
    }
    counts
}

fn expected(counts: &[(&str, usize)]) -> BTreeMap<String, usize> {
    counts
        .iter()
        .map(|(name, count)| ((*name).to_owned(), *count))
        .collect()
}

#[test]
fn the_capture_with_one_link_holds_these_messages() {
    let found = counts(CAPTURES[0]);
    assert_eq!(
        found,
        expected(&[
            ("TcpOption", 20),
            ("Proposal", 10),
            ("Accept", 10),
            ("Confirm", 10),
            ("ConfirmLink", 1),
            ("ConfirmLink reply", 1),
            ("AddLink", 1),
            ("AddLink reply", 1),
            ("ConfirmRkey", 18),
            ("ConfirmRkey again", 1),
            ("ConfirmRkey reply", 18),
            ("DeleteRkey", 20),
            ("DeleteRkey reply", 20),
            ("DeleteLink", 2),
            ("Cdc", 140),
            ("Write", 91),
        ])
    );
}

#[test]
fn the_capture_with_two_links_holds_these_messages() {
    let found = counts(CAPTURES[1]);
    assert_eq!(
        found,
        expected(&[
            ("TcpOption", 18),
            ("Proposal", 9),
            ("Accept", 9),
            ("Confirm", 9),
            ("ConfirmLink", 2),
            ("ConfirmLink reply", 2),
            ("AddLink", 1),
            ("AddLink reply", 1),
            ("AddLinkContinuation", 1),
            ("AddLinkContinuation reply", 1),
            ("ConfirmRkey", 16),
            ("ConfirmRkey reply", 16),
            ("DeleteRkey", 17),
            ("DeleteRkey reply", 17),
            ("DeleteLink", 2),
            ("Cdc", 106),
            ("Write", 75),
        ])
    );
}

#[test]
fn the_captures_of_version_2_hold_these_messages() {
    let common = [
        ("TcpOption", 20),
        ("Proposal", 10),
        ("Accept", 10),
        ("Confirm", 10),
        ("AddLink", 1),
        ("AddLink reply", 1),
        ("ConfirmRkey", 18),
        ("ConfirmRkey reply", 18),
        ("DeleteRkey", 20),
        ("DeleteRkey reply", 20),
        ("DeleteLink", 2),
        ("Cdc", 138),
        ("Write", 89),
    ];
    for (capture, links) in CAPTURES_V2.into_iter().zip([1, 2]) {
        let mut all = expected(&common);
        all.insert("ConfirmLink".to_owned(), links);
        all.insert("ConfirmLink reply".to_owned(), links);
        assert_eq!(counts(capture), all, "{capture}");
    }
    let declined = [("TcpOption", 2), ("Proposal", 1), ("Decline", 1)];
    assert_eq!(counts(CAPTURES_V2[2]), expected(&declined));
    let smcd = [
        ("TcpOption", 16),
        ("Proposal", 8),
        ("Accept", 8),
        ("Confirm", 8),
    ];
    assert_eq!(counts(CAPTURES_V2[3]), expected(&smcd));
}

/// The bytes of an LLC message of version 2 as Linux on a little-endian machine
/// sends it.
fn little_endian(mut octets: Vec<u8>) -> Vec<u8> {
    octets.swap(1, 2);
    if octets[0] == 0x22 && octets.len() > 44 {
        octets[71] = 0;
    }
    octets
}

//= V2-151 test
//= V2-155 test
#[test]
fn every_message_of_a_kernel_is_emitted_octet_for_octet() {
    let all = CAPTURES.into_iter().chain(CAPTURES_V2);
    for (capture, least) in all.zip([170, 170, 170, 170, 2, 24]) {
        let mut messages = 0;
        for item in follow::items(CaptureReader::open(vector(capture)).unwrap()) {
            let item = item.unwrap();
            let emitted = match &item.content {
                Content::Clc(message) => {
                    let mut buffer = [0; MAX_LENGTH];
                    let length = message.emit(&mut buffer).unwrap();
                    buffer[..length].to_vec()
                }
                Content::Llc(llc) => {
                    let mut buffer = vec![0; LLC_V2_MAX_LENGTH];
                    let length = llc.message().emit(llc.version(), &mut buffer).unwrap();
                    buffer.truncate(length);
                    match llc.version() {
                        SmcVersion::V1 => buffer,
                        SmcVersion::V2 => little_endian(buffer),
                    }
                }
                Content::Cdc(message) => message.emit().to_vec(),
                Content::Unsupported { .. } | Content::Malformed { .. } => {
                    panic!("frame {} {}", item.frame, item.content)
                }
                _ => continue,
            };
            assert_eq!(emitted, item.bytes, "frame {} {}", item.frame, item.content);
            messages += 1;
        }
        assert!(messages >= least, "{messages} in {capture}");
    }
}

#[test]
fn packets_of_kernels_have_a_right_crc_and_known_senders() {
    for capture in CAPTURES.into_iter().chain(CAPTURES_V2) {
        for item in follow::items(CaptureReader::open(vector(capture)).unwrap()) {
            let item = item.unwrap();
            let Path::Roce(path) = &item.path else {
                continue;
            };
            assert!(path.source_qpn.is_some(), "frame {}", item.frame);
            match &item.content {
                Content::Write(write) => {
                    assert!(write.complete, "frame {}", item.frame);
                    assert!(write.present() > 0);
                    assert_ne!(path.crc_valid, Some(false));
                }
                _ => assert_eq!(path.crc_valid, Some(true), "frame {}", item.frame),
            }
        }
    }
}

/// Messages and writes on each link, by the GIDs that they went between.
#[test]
fn each_message_of_the_capture_with_two_links_names_its_link() {
    let mut counts: BTreeMap<(u64, &str), usize> = BTreeMap::new();
    for record in records(&vector(CAPTURES[1])) {
        if record["destination_qpn"].is_null() {
            continue;
        }
        let link = record["carrier_link"].as_u64().unwrap();
        let ends = [&record["source"], &record["destination"]].map(|end| end.as_str().unwrap());
        let subnet = ["10.9.9.", "10.9.8."][link as usize - 1];
        assert!(ends.iter().all(|end| end.starts_with(subnet)), "{record}");
        let proto = ["llc", "cdc", "write"]
            .into_iter()
            .find(|proto| record["proto"] == *proto);
        *counts.entry((link, proto.unwrap())).or_default() += 1;
    }
    let expected = [
        ((1, "cdc"), 94),
        ((1, "llc"), 70),
        ((1, "write"), 68),
        ((2, "cdc"), 12),
        ((2, "llc"), 6),
        ((2, "write"), 7),
    ];
    assert_eq!(counts, BTreeMap::from(expected));
    let text = smcx(["decode".as_ref(), vector(CAPTURES[1]).as_os_str()]).stdout;
    for line in [
        "    22      0.441539 10.9.8.1 qp 0x000011 -> 10.9.8.2 qp 0x000011 link 2  llc        LLC CONFIRM LINK request link 2 ",
        "    14      0.289820 10.9.9.1 qp 0x000011 -> 10.9.9.2 qp 0x000011 link 1  llc        LLC ADD LINK request link 2 ",
    ] {
        assert!(text.contains(line), "{line}");
    }
}

#[test]
fn text_lines_begin_with_frame_and_time_and_leave_repeats_out() {
    let capture = vector(CAPTURES[0]);
    let text = smcx(["decode".as_ref(), capture.as_os_str()]);
    assert_eq!((text.status, text.stderr.as_str()), (0, ""));
    assert_eq!(text.stdout.lines().count(), 363);
    let line = text.stdout.lines().nth(5).unwrap();
    assert!(line.starts_with("    10      0.133350 10.9.9.1 qp 0x000011 -> 10.9.9.2 qp 0x000011"));
    assert!(line.contains("llc        LLC CONFIRM LINK request link 1 "));
    let all = smcx([
        "decode".as_ref(),
        capture.as_os_str(),
        "--retransmissions".as_ref(),
    ]);
    assert_eq!(all.stdout.lines().count(), 364);
    let again = all
        .stdout
        .lines()
        .filter(|line| line.ends_with("[retransmission]"));
    assert_eq!(again.count(), 1);
}

#[test]
fn verbose_text_lists_all_fields_one_a_line() {
    let capture = vector(CAPTURES[1]);
    let text = smcx(["decode".as_ref(), capture.as_os_str(), "-v".as_ref()]);
    assert_eq!(text.status, 0);
    for line in [
        "        gid: ::ffff:10.9.8.1",
        "        buffer_size: 65536",
        "        diagnosis",
        "        pairs: address 0xff264f8d04340000 reference_rkey 0x0000030f rkey 0x000003cd",
    ] {
        let found = text.stdout.contains(line);
        assert_eq!(found, !line.ends_with("diagnosis"), "{line}");
    }
}
