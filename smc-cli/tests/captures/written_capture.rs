//! What the simulator's writer writes, the reader and the follower find.

use crate::common;

use common::written::{Written, write_everything};
use common::{records, scratch, smcx};
use smc_capture::follow::{self, Content, Path, WritePiece};
use smc_capture::reader::CaptureReader;

#[test]
fn what_is_written_is_found_again() {
    let capture = scratch("written").join("all.pcapng");
    let written = write_everything(&capture);
    let mut found = Vec::new();
    for item in follow::items(CaptureReader::open(&capture).unwrap()) {
        let item = item.unwrap();
        assert!(!item.retransmission, "{item:?}");
        if let Path::Roce(path) = &item.path {
            assert_eq!(path.crc_valid, Some(true), "{item:?}");
            assert!(path.source_qpn.is_some(), "{item:?}");
        }
        found.push(match item.content {
            Content::TcpOption(option) => Written::Option {
                syn_ack: option.syn_ack,
            },
            Content::Write(write) => {
                assert!(write.complete);
                let [WritePiece { offset: 0, bytes }] = &write.pieces[..] else {
                    panic!("{:?}", write.pieces);
                };
                assert_eq!(bytes.len(), write.length as usize);
                Written::Write {
                    rkey: write.rkey,
                    address: write.address,
                    payload: bytes.clone(),
                }
            }
            Content::Clc(_) | Content::Llc(_) | Content::Cdc(_) => Written::Message(item.bytes),
            other => panic!("{other:?}"),
        });
    }
    assert_eq!(found, written);
}

#[test]
fn time_keeps_its_nanoseconds() {
    let capture = scratch("nanoseconds").join("all.pcapng");
    write_everything(&capture);
    let times: Vec<f64> = records(&capture)
        .iter()
        .map(|record| record["time"].as_f64().unwrap())
        .collect();
    assert_eq!(times[..3], [0.0, 0.0, 0.001_234_567]);
}

#[test]
fn json_has_one_type_name_for_each_message() {
    let capture = scratch("names").join("all.pcapng");
    write_everything(&capture);
    let mut names: Vec<String> = records(&capture)
        .iter()
        .map(|record| record["type"].as_str().unwrap().to_owned())
        .collect();
    names.sort();
    names.dedup();
    assert_eq!(
        names,
        [
            "Accept",
            "AddLink",
            "AddLinkContinuation",
            "Cdc",
            "Confirm",
            "ConfirmLink",
            "ConfirmRkey",
            "ConfirmRkeyContinuation",
            "Decline",
            "DeleteLink",
            "DeleteRkey",
            "Proposal",
            "TcpOption",
            "TestLink",
            "Write"
        ]
    );
    let verbose = smcx(["decode".as_ref(), capture.as_os_str(), "-v".as_ref()]);
    assert!(verbose.stdout.contains("diagnosis: 0x03030002"));
}
