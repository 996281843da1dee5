//! CLC messages in disordered, repeated, cut and foreign TCP streams.

use smc_proto::wire::clc::{
    AcceptConfirm, ClcMessage, ClcVersion, Decline, OfferedPath, PeerOs, Proposal, Subnets,
};
use smc_proto::wire::types::{
    AlertToken, BufferSize, DiagnosisCode, Mtu, PeerId, Psn, Qpn, RKey, RToken, RmbeIndex,
};

use super::super::follow::{Content, Follower, Limits, TcpSign};
use super::super::frame::{Frame, parse_frame};
use super::super::reader::CapturedFrame;
use super::super::writer::Direction::{ToClient, ToServer};
use super::{MAC, Writer, flow, follow, follow_with, frames, gid, summary};

fn bytes(message: &ClcMessage) -> Vec<u8> {
    let mut buffer = vec![0; message.encoded_len()];
    message.emit(&mut buffer).unwrap();
    buffer
}

fn proposal() -> Vec<u8> {
    bytes(&ClcMessage::Proposal(Proposal {
        version: ClcVersion::V1,
        v1: OfferedPath::SmcR,
        peer_id: PeerId::new(1, MAC),
        gid: gid(2),
        mac: MAC,
        ism: None,
        subnets: Subnets::default(),
        v2_offer: None,
    }))
}

fn accept_confirm() -> AcceptConfirm {
    AcceptConfirm {
        first_contact: true,
        peer_id: PeerId::new(1, MAC),
        gid: gid(1),
        mac: MAC,
        qpn: Qpn::new(7),
        rtoken: RToken {
            rkey: RKey(1),
            address: 0,
        },
        rmbe_index: RmbeIndex(1),
        alert_token: AlertToken(1),
        buffer_size: BufferSize::K16,
        mtu: Mtu::M1024,
        psn: Psn::new(1),
        v2: None,
    }
}

fn accept() -> Vec<u8> {
    bytes(&ClcMessage::Accept(accept_confirm()))
}

fn confirm() -> Vec<u8> {
    bytes(&ClcMessage::Confirm(accept_confirm()))
}

fn decline() -> Vec<u8> {
    bytes(&ClcMessage::Decline(Decline {
        version: ClcVersion::V1,
        out_of_sync: false,
        peer_id: PeerId::new(1, MAC),
        diagnosis: DiagnosisCode::NO_DEVICE,
        os: PeerOs(0),
    }))
}

fn handshake(writer: &mut Writer) {
    writer.tcp_handshake(0, &flow(9), true, true).unwrap();
}

const SYN: &str = "SMC option in SYN";
const SYN_ACK: &str = "SMC option in SYN-ACK";

fn lines(lines: &[(u64, &str)]) -> Vec<(u64, String)> {
    let options = [(1, SYN), (2, SYN_ACK)];
    let all = options.iter().chain(lines);
    all.map(|(frame, text)| (*frame, (*text).to_owned()))
        .collect()
}

#[test]
fn a_message_in_many_segments_belongs_to_the_frame_that_completes_it() {
    let frames = frames(|writer| {
        handshake(writer);
        writer.set_maximum_segment(20);
        writer.tcp_data(0, &flow(9), ToServer, &proposal()).unwrap();
        writer.tcp_data(0, &flow(9), ToClient, &accept()).unwrap();
    });
    let items = follow(&frames);
    assert_eq!(summary(&items), lines(&[(6, "Proposal"), (10, "Accept")]));
    assert_eq!(items[2].bytes, proposal());
}

#[test]
fn segments_out_of_order_and_repeated_ones_are_put_right() {
    let mut frames = frames(|writer| {
        handshake(writer);
        writer.set_maximum_segment(20);
        writer.tcp_data(0, &flow(9), ToServer, &proposal()).unwrap();
        writer.set_maximum_segment(1000);
        writer.tcp_data(0, &flow(9), ToClient, &accept()).unwrap();
    });
    // Frames 4, 5 and 6 carry the Proposal.
    frames.swap(3, 5);
    let parts = [frames[4].clone(), frames[0].clone(), frames[6].clone()];
    frames.extend(parts);
    assert_eq!(
        summary(&follow(&frames)),
        lines(&[
            (6, "Proposal"),
            (7, "Accept"),
            (9, "SMC option in SYN again"),
            (10, "Accept again"),
        ])
    );
}

#[test]
fn a_decline_is_found_in_the_first_contact_phase_and_data_is_not() {
    let talk = |last: &[u8]| {
        let frames = frames(|writer| {
            handshake(writer);
            for (direction, message) in [
                (ToServer, proposal()),
                (ToClient, accept()),
                (ToServer, confirm()),
                (ToServer, last.to_vec()),
                (ToServer, proposal()),
                (ToClient, decline()),
                (ToClient, decline()),
            ] {
                writer.tcp_data(0, &flow(9), direction, &message).unwrap();
            }
        });
        summary(&follow(&frames))
    };
    let begun = [(4, "Proposal"), (5, "Accept"), (6, "Confirm")];
    let declined = [&begun[..], &[(7, "Decline"), (9, "Decline")]].concat();
    assert_eq!(talk(&decline()), lines(&declined));
    let data = [&begun[..], &[(9, "Decline")]].concat();
    assert_eq!(talk(b"data"), lines(&data));
    // A Decline but for its last byte is data.
    let mut almost = decline();
    almost[27] ^= 1;
    assert_eq!(talk(&almost), lines(&data));
}

#[test]
fn faults_in_clc_are_reported_with_their_position() {
    let talk = |message: &[u8]| {
        let frames = frames(|writer| {
            handshake(writer);
            writer.tcp_data(0, &flow(9), ToServer, message).unwrap();
            writer.tcp_data(0, &flow(9), ToServer, &confirm()).unwrap();
        });
        summary(&follow(&frames)).split_off(2)
    };
    let one = |text: &str| vec![(4, text.to_owned())];
    assert_eq!(
        talk(b"GET /"),
        one("malformed at octet 0: no CLC eye catcher although both SYNs carry the SMC option")
    );
    let mut wrong = proposal();
    wrong[4] = 9;
    assert_eq!(
        talk(&wrong),
        one("malformed at octet 4: CLC type 9, must be 1 to 4")
    );
    let mut wrong = confirm();
    wrong[66] = 0;
    assert_eq!(
        talk(&wrong),
        one("malformed at octet 64: e2d400d9 at offset 64, must be e2d4c3d9 or e2d4c3c4")
    );
    let mut wrong = confirm();
    wrong[7] = 0x28;
    assert_eq!(
        talk(&wrong),
        one("malformed at octet 5: CLC Confirm cannot have length 68")
    );
    wrong[5..7].fill(0xff);
    wrong.resize(5000, 0);
    let long = talk(&wrong);
    assert_eq!(long.len(), 1);
    assert!(long[0].1.contains("cannot have length 65535"), "{long:?}");
}

#[test]
fn a_message_that_the_capture_cuts_is_not_malformed() {
    let mut frames = frames(|writer| {
        handshake(writer);
        writer.tcp_data(0, &flow(9), ToServer, &proposal()).unwrap();
        writer
            .tcp_data(0, &flow(9), ToClient, &accept()[..30])
            .unwrap();
    });
    frames[3].bytes.truncate(54 + 20);
    assert_eq!(
        summary(&follow(&frames)),
        lines(&[
            (4, "cut: the capture holds 20 of 52 octets of a clc message"),
            (5, "cut: the capture holds 30 of 68 octets of a clc message"),
        ])
    );
}

#[test]
fn without_the_option_on_both_sides_there_is_no_clc() {
    let frames = frames(|writer| {
        writer.tcp_handshake(0, &flow(1), true, false).unwrap();
        writer.tcp_data(0, &flow(1), ToServer, &proposal()).unwrap();
        writer.tcp_handshake(0, &flow(2), false, true).unwrap();
        writer.tcp_data(0, &flow(2), ToServer, b"GET /").unwrap();
        writer.tcp_handshake(0, &flow(3), false, false).unwrap();
        writer.tcp_data(0, &flow(3), ToServer, &proposal()).unwrap();
    });
    let summary = summary(&follow(&frames));
    assert_eq!(summary, [(1, SYN.to_owned()), (6, SYN_ACK.to_owned())]);
}

#[test]
fn a_connection_that_was_reset_holds_no_messages_any_more() {
    // The other end has not seen the reset yet and goes on, first with a Decline.
    let frames = frames(|writer| {
        handshake(writer);
        let flow = flow(9);
        writer.tcp_data(1, &flow, ToServer, &proposal()).unwrap();
        writer.tcp_reset(2, &flow, ToServer).unwrap();
        writer.tcp_data(3, &flow, ToClient, &decline()).unwrap();
        writer.tcp_data(4, &flow, ToClient, b"octets").unwrap();
    });
    let items = follow(&frames);
    assert!(!items.iter().any(|item| item.content.is_malformed()));
    assert_eq!(items.len(), 3, "{:?}", summary(&items));
    // Its numbers go on where they were.
    let numbers = |frame: &CapturedFrame| match parse_frame(frame.link, &frame.bytes) {
        Frame::Tcp(segment) => (segment.sequence, segment.acknowledgement),
        _ => panic!("no TCP"),
    };
    let (reset, after) = (numbers(&frames[4]), numbers(&frames[5]));
    assert_eq!(after, (reset.1, reset.0));
}

#[test]
fn segments_with_numbers_of_the_caller_are_cut_and_followed() {
    use super::super::frame::{EthernetPath, TcpFlags, TcpSegment};
    use super::super::writer::syn_options;
    let path = EthernetPath {
        source: MAC,
        destination: MAC,
        vlan: None,
    };
    let ack = TcpFlags {
        ack: true,
        ..TcpFlags::default()
    };
    let syn = |ack| TcpFlags {
        syn: true,
        ack,
        ..TcpFlags::default()
    };
    let (client, server) = (flow(9).client.address, flow(9).server.address);
    let offer = proposal();
    let segment = TcpSegment {
        source: client,
        destination: server,
        sequence: u32::MAX,
        acknowledgement: 0,
        flags: syn(false),
        options: syn_options(true),
        payload: &[],
        missing: 0,
    };
    let frames = frames(|writer| {
        writer.set_maximum_segment(30);
        writer.tcp_segment(0, path, &segment).unwrap();
        let answer = TcpSegment {
            source: server,
            destination: client,
            flags: syn(true),
            ..segment.clone()
        };
        writer.tcp_segment(0, path, &answer).unwrap();
        // The Proposal, whose numbers begin at 0, twice.
        let data = TcpSegment {
            sequence: 0,
            flags: ack,
            options: &[],
            payload: &offer,
            ..segment.clone()
        };
        writer.tcp_segment(0, path, &data).unwrap();
        writer.set_maximum_segment(1000);
        writer.tcp_segment(0, path, &data).unwrap();
    });
    assert_eq!(
        summary(&follow(&frames)),
        lines(&[(4, "Proposal"), (5, "Proposal again")])
    );
}

#[test]
fn old_connections_are_forgotten_when_there_are_too_many() {
    let frames = frames(|writer| {
        for port in 1..=10 {
            writer.tcp_handshake(0, &flow(port), true, true).unwrap();
        }
        for port in 1..=10 {
            writer
                .tcp_data(0, &flow(port), ToServer, &proposal())
                .unwrap();
        }
    });
    let limits = Limits {
        streams: 3,
        ..Limits::default()
    };
    assert_eq!(follow_with(limits, &frames).len(), 20 + 3);
}

#[test]
fn tcp_segments_are_reported_on_request() {
    let frames = frames(|writer| {
        let flow = flow(40_000);
        writer.tcp_handshake(1, &flow, true, true).unwrap();
        writer.tcp_data(2, &flow, ToServer, &proposal()).unwrap();
        let mut behind = decline();
        behind.extend(b"data");
        writer.tcp_data(3, &flow, ToClient, &behind).unwrap();
        writer.tcp_data(4, &flow, ToServer, b"more").unwrap();
        writer.tcp_fin(5, &flow, ToServer).unwrap();
        writer.tcp_reset(6, &flow, ToClient).unwrap();
    });
    let signs = |mut follower: Follower| {
        let mut items = Vec::new();
        for frame in &frames {
            follower.push(frame, &mut items);
        }
        let signs = items.into_iter().filter_map(|item| match item.content {
            Content::Tcp(sign) => Some(sign),
            _ => None,
        });
        signs.collect::<Vec<_>>()
    };
    assert!(signs(Follower::default()).is_empty());
    let data = TcpSign::Data { bytes: 4 };
    let expected = [data, data, TcpSign::Fin, TcpSign::Reset];
    assert_eq!(signs(Follower::default().with_tcp()), expected);
}
