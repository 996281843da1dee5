//! SENDs and RDMA WRITEs: repeated, cut, lost, foreign.

use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::{LlcMessage, TestLink};
use smc_proto::wire::types::{Psn, RKey};

use super::super::follow::{Content, Limits, Path, WritePiece};
use super::super::frame::RoceVersion;
use super::{Writer, follow, follow_with, frames, path, summary};

fn message() -> [u8; 44] {
    LlcMessage::TestLink(TestLink {
        reply: false,
        user_data: [7; 16],
    })
    .emit_short(SmcVersion::V1)
    .unwrap()
}

fn send(writer: &mut Writer, psn: u32, bytes: &[u8]) {
    writer
        .rdma_send(0, &path(5), Psn::new(psn), bytes, true)
        .unwrap();
}

fn write(writer: &mut Writer, psn: u32, length: usize) {
    let payload: Vec<u8> = (0..length).map(|index| index as u8).collect();
    writer
        .rdma_write(0, &path(5), Psn::new(psn), RKey(3), 0x1000, &payload, 256)
        .unwrap();
}

#[test]
fn a_repeated_packet_is_one_message_and_a_retransmission() {
    let all = frames(|writer| {
        send(writer, 0xff_ffff, &message());
        send(writer, 0, &message());
        send(writer, 0xff_ffff, &message());
        write(writer, 1, 300);
        write(writer, 1, 300);
    });
    let items = follow(&all);
    let seen: Vec<_> = items
        .iter()
        .map(|item| (item.frame, item.retransmission))
        .collect();
    assert_eq!(
        seen,
        [(1, false), (2, false), (3, true), (5, false), (6, true)]
    );
}

#[test]
fn roce_v1_is_read_and_a_wrong_crc_reported() {
    let mut all = frames(|writer| {
        let mut path = path(5);
        path.version = RoceVersion::V1;
        writer
            .rdma_send(0, &path, Psn::new(1), &message(), true)
            .unwrap();
        writer
            .rdma_send(0, &path, Psn::new(2), &message(), true)
            .unwrap();
    });
    // The reserved byte of the BTH, the hop limit and the traffic class may
    // change on the way; the last byte of the message may not.
    all[0].bytes[14 + 40 + 4] = 0x5a;
    all[0].bytes[14 + 7] = 1;
    all[0].bytes[14] |= 0x0f;
    all[1].bytes[14 + 40 + 12 + 43] ^= 1;
    let items = follow(&all);
    let valid = items.iter().map(|item| match &item.path {
        Path::Roce(path) => (path.version, path.crc_valid),
        other => panic!("{other:?}"),
    });
    let valid: Vec<_> = valid.collect();
    assert_eq!(
        valid,
        [
            (RoceVersion::V1, Some(true)),
            (RoceVersion::V1, Some(false))
        ]
    );
}

#[test]
fn cut_payload_of_writes_is_not_malformed() {
    let all = frames(|writer| {
        writer.limit_write_payload(Some(10));
        write(writer, 1, 600);
    });
    assert!(all.iter().all(|frame| frame.bytes.len() < 100));
    assert_eq!(all[1].original_length, 14 + 20 + 8 + 12 + 256 + 4);
    let items = follow(&all);
    let Content::Write(write) = &items[0].content else {
        panic!("{items:?}");
    };
    assert!(write.complete);
    assert_eq!((write.length, write.packets, write.present()), (600, 3, 30));
    let piece = |offset: u32| WritePiece {
        offset,
        bytes: (0..10).map(|index| (offset + index) as u8).collect(),
    };
    assert_eq!(write.pieces, [piece(0), piece(256), piece(512)]);
}

#[test]
fn lost_packets_leave_a_write_incomplete() {
    let mut all = frames(|writer| {
        write(writer, 1, 700);
        write(writer, 9, 600);
        write(writer, 20, 600);
    });
    // The middle of the first, the end of the second, the begin of the third.
    all.remove(6);
    all.remove(5);
    all.remove(1);
    let summary = summary(&follow(&all));
    assert_eq!(summary.len(), 2);
    assert!(
        summary[0].1.ends_with("length 700 packets 2 incomplete"),
        "{summary:?}"
    );
    assert!(
        summary[1].1.ends_with("length 600 packets 2 incomplete"),
        "{summary:?}"
    );
}

#[test]
fn faults_in_sends_are_reported_and_foreign_sends_are_not() {
    let mut bad_length = message();
    bad_length[1] = 43;
    let mut unknown = message();
    unknown[0] = 0x45;
    let mut optional = message();
    optional[0] = 0x85;
    let mut second = message();
    second[0] = 0x27;
    let all = frames(|writer| {
        send(writer, 1, &message());
        send(writer, 2, &bad_length);
        send(writer, 3, &unknown);
        send(writer, 4, &optional);
        send(writer, 5, &second);
        send(writer, 6, &message()[..40]);
        writer
            .rdma_send(0, &path(6), Psn::new(1), b"not SMC at all", false)
            .unwrap();
        writer
            .rdma_write(0, &path(6), Psn::new(2), RKey(1), 0, b"x", 256)
            .unwrap();
    });
    let summary = summary(&follow(&all));
    let texts: Vec<&str> = summary.iter().map(|(_, text)| text.as_str()).collect();
    assert!(texts[0].starts_with("LLC TEST LINK request"));
    assert_eq!(
        texts[1..],
        [
            "malformed at octet 1: LLC length octet 43, must be 44",
            "malformed at octet 0: unknown mandatory LLC type 0x45",
            "unknown optional LLC type 0x85",
            "LLC v2 TEST LINK request data 07070707070707070707070707070707",
            "malformed at octet 40: SEND of 40 octets, must be 44",
        ]
    );
}

#[test]
fn writes_beyond_the_limit_keep_their_lengths_only() {
    let all = frames(|writer| {
        write(writer, 1, 600);
        write(writer, 10, 600);
    });
    let limits = Limits {
        write_bytes: 300,
        queue_pairs: 1,
        ..Limits::default()
    };
    for item in follow_with(limits, &all) {
        let Content::Write(write) = item.content else {
            panic!();
        };
        assert_eq!((write.complete, write.present()), (true, 256));
    }
}
