//! The follower over frames that the writer makes and the tests disorder.

mod rdma;
mod tcp;

use core::net::SocketAddr;

use smc_proto::wire::types::{Gid, Mac, Qpn};

use super::follow::{Content, Follower, Item, Limits};
use super::reader::{CaptureReader, CapturedFrame};
use super::writer::{CaptureWriter, QpPath, TcpEnd, TcpFlow};

pub(super) type Writer = CaptureWriter<Vec<u8>>;

pub(super) const MAC: Mac = Mac([2, 0, 0, 0, 0, 1]);

pub(super) fn gid(last: u8) -> Gid {
    Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, last])
}

pub(super) fn flow(port: u16) -> TcpFlow {
    let end = |last, port| TcpEnd {
        mac: MAC,
        address: SocketAddr::from(([10, 0, 0, last], port)),
    };
    TcpFlow {
        client: end(2, port),
        server: end(1, 80),
        vlan: None,
    }
}

pub(super) fn path(qpn: u32) -> QpPath {
    QpPath::new((MAC, gid(2)), (MAC, gid(1)), Qpn::new(qpn))
}

/// The frames that `fill` writes.
pub(super) fn frames(fill: impl FnOnce(&mut Writer)) -> Vec<CapturedFrame> {
    let mut writer = CaptureWriter::new(Vec::new()).unwrap();
    fill(&mut writer);
    let bytes = writer.finish().unwrap();
    let reader = CaptureReader::new(bytes.as_slice()).unwrap();
    reader.collect::<Result<_, _>>().unwrap()
}

pub(super) fn follow_with(limits: Limits, frames: &[CapturedFrame]) -> Vec<Item> {
    let mut follower = Follower::new(limits);
    let mut items = Vec::new();
    for (index, frame) in frames.iter().enumerate() {
        let frame = CapturedFrame {
            number: index as u64 + 1,
            ..frame.clone()
        };
        follower.push(&frame, &mut items);
    }
    follower.finish(&mut items);
    items
}

pub(super) fn follow(frames: &[CapturedFrame]) -> Vec<Item> {
    follow_with(Limits::default(), frames)
}

/// Frame and beginning of the text of each item.
pub(super) fn summary(items: &[Item]) -> Vec<(u64, String)> {
    let text = |item: &Item| {
        let mut text = match &item.content {
            Content::Clc(message) => message.kind().to_string(),
            other => other.to_string(),
        };
        if item.retransmission {
            text += " again";
        }
        (item.frame, text)
    };
    items.iter().map(text).collect()
}

#[test]
fn vlan_cooked_and_plain_ip_captures_are_read() {
    use super::frame::{Frame, LinkType, parse_frame};
    let mut tagged = flow(9);
    tagged.vlan = Some(4095);
    let frames = frames(|writer| {
        writer.tcp_syn(0, &flow(9), true).unwrap();
        writer.tcp_syn(0, &tagged, true).unwrap();
    });
    let plain = parse_frame(LinkType::Ethernet, &frames[0].bytes);
    assert!(matches!(plain, Frame::Tcp(_)));
    assert_eq!(parse_frame(LinkType::Ethernet, &frames[1].bytes), plain);
    let ip = &frames[0].bytes[14..];
    assert_eq!(parse_frame(LinkType::Ip, ip), plain);
    let cooked = [&[0; 14][..], &[8, 0], ip].concat();
    assert_eq!(parse_frame(LinkType::LinuxCooked, &cooked), plain);
    let cooked = [&[8, 0][..], &[0; 18], ip].concat();
    assert_eq!(parse_frame(LinkType::LinuxCooked2, &cooked), plain);
    for length in 0..frames[0].bytes.len() {
        let _ = parse_frame(LinkType::Ethernet, &frames[0].bytes[..length]);
    }
}

#[test]
fn errors_of_the_disk_are_returned() {
    struct Full(usize);
    impl std::io::Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            if self.0 < bytes.len() {
                return Err(std::io::ErrorKind::StorageFull.into());
            }
            self.0 -= bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    assert!(CaptureWriter::new(Full(10)).is_err());
    for room in 100..240 {
        let mut writer = CaptureWriter::new(Full(room)).unwrap();
        assert!(writer.tcp_handshake(0, &flow(1), true, true).is_err());
    }
    let mut mixed = flow(1);
    mixed.client.address = SocketAddr::from(([0_u16; 8], 5));
    let mut writer = CaptureWriter::new(Vec::new()).unwrap();
    let error = writer.tcp_syn(0, &mixed, true).unwrap_err();
    assert_eq!(error.to_string(), "one end is IPv4 and the other IPv6");
}
