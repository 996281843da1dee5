//! The one connection of a captured Linux pair without a common EID, with our endpoint in
//! the place of its client and of its server: Proposal, Decline, and then TCP.

use std::path::Path;

use smc_capture::follow::{Content, Follower};
use smc_capture::reader::CaptureReader;
use smc_proto::command::TcpCommand;
use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::{ClcProgress, ConnOptions, Endpoint, Next};
use smc_proto::event::{Event, FallbackReason};
use smc_proto::id::{ConnId, DeviceId};
use smc_proto::path::{LocalPath, RoceVersion};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::clc::{ClcMessage, Decline, MAX_LENGTH, Proposal, Subnets};
use smc_proto::wire::types::{DiagnosisCode, Eid, Gid, Mac, PeerId, PeerOs};

const CAPTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/vectors/linux612-v2-decline-ueid.pcap.gz"
);
const NOW: Instant = Instant::from_nanos(1);
/// Peer ID, GID and MAC of a Proposal.
const IDENTITY: std::ops::Range<usize> = 8..38;

/// A captured message: bytes, and what they are.
struct Captured {
    proposal: (Vec<u8>, Proposal),
    decline: (Vec<u8>, Decline),
}

fn captured() -> Captured {
    let mut follower = Follower::default();
    let mut items = Vec::new();
    for frame in CaptureReader::open(Path::new(CAPTURE)).unwrap() {
        follower.push(&frame.unwrap(), &mut items);
    }
    follower.finish(&mut items);
    let (mut proposal, mut decline) = (None, None);
    for item in items.into_iter().filter(|item| !item.retransmission) {
        match item.content {
            Content::Clc(ClcMessage::Proposal(message)) => {
                assert!(proposal.replace((item.bytes, message)).is_none());
            }
            Content::Clc(ClcMessage::Decline(message)) => {
                assert!(decline.replace((item.bytes, message)).is_none());
            }
            Content::Clc(other) => panic!("{other}"),
            _ => {}
        }
    }
    Captured {
        proposal: proposal.expect("a Proposal"),
        decline: decline.expect("a Decline"),
    }
}

/// Ours, in the place of a host with this identity and EID.
fn endpoint(id: PeerId, eid: Eid) -> Endpoint<Owned> {
    let mut config = Config::new(id);
    config.offers = Offers::SMCR_V2;
    config.v2.os = PeerOs::LINUX;
    config.v2.ueids.push(eid).unwrap();
    Endpoint::new(config, 1, Owned::new(Limits::for_connections(1)))
}

/// A port that both hosts could have used.
fn path(gid: Gid, mac: Mac) -> LocalPath {
    let mut path = LocalPath::new(DeviceId(0), 1, gid, mac);
    path.subnet_match = true;
    path.roce = RoceVersion::V2;
    path
}

fn poll_clc(ours: &mut Endpoint<Owned>) -> Vec<u8> {
    let mut bytes = [0; MAX_LENGTH];
    let (_, length) = ours.poll_clc(NOW, &mut bytes).unwrap().expect("a message");
    bytes[..length].to_vec()
}

/// The connection is TCP's, and nothing else is left of it.
fn assert_on_tcp(ours: &mut Endpoint<Owned>, conn: ConnId, why: FallbackReason) {
    let handed_over = |command| matches!(command, (c, TcpCommand::HandOver { .. }) if c == conn);
    assert!(std::iter::from_fn(|| ours.poll_tcp()).any(handed_over));
    let event = std::iter::from_fn(|| ours.poll_event()).last();
    assert_eq!(event, Some(Event::FellBack { conn, why }));
    let usage = ours.usage();
    assert_eq!((usage.handshakes, usage.groups, usage.links), (0, 0, 0));
}

#[test]
fn our_server_declines_the_client_of_the_capture_alike() {
    //= V2-074 test
    let captured = captured();
    let (bytes, proposal) = &captured.proposal;
    let (captured_bytes, decline) = &captured.decline;
    let offer = proposal.v2_offer.as_ref().expect("an offer of version 2");
    let other = Eid::user("ANOTHER.UEID").unwrap();
    assert!(!offer.eids.contains(&other));
    let mut ours = endpoint(decline.peer_id, other);
    let options = ConnOptions::new(Subnets::default());
    let conn = ours.listen(NOW, options).unwrap();
    let taken = ours.handle_clc(NOW, conn, bytes);
    let (len, next) = (bytes.len(), Next::Clc);
    assert_eq!(taken, Ok(ClcProgress::Consumed { len, next }));
    assert_eq!(ours.poll_event(), Some(Event::Proposed { conn }));
    let paths = [path(Gid::default(), Mac::default())];
    ours.accept(NOW, conn, &paths).unwrap();
    let ours_sent = poll_clc(&mut ours);
    let show = |bytes: &[u8]| ClcMessage::parse(bytes).unwrap().0.to_string();
    assert_eq!(show(&ours_sent), show(captured_bytes));
    assert_eq!(&ours_sent, captured_bytes);
    let why = FallbackReason::new(decline.diagnosis);
    assert_on_tcp(&mut ours, conn, why);
}

#[test]
fn our_client_is_declined_by_the_server_of_the_capture() {
    //= V2-074 test
    let captured = captured();
    let (bytes, proposal) = &captured.proposal;
    let (captured_bytes, decline) = &captured.decline;
    let offer = proposal.v2_offer.as_ref().expect("an offer of version 2");
    let mut ours = endpoint(proposal.peer_id, offer.eids[0]);
    let paths = [path(offer.gid, proposal.mac)];
    let options = ConnOptions::new(Subnets::default());
    let conn = ours.connect(NOW, options, &paths).unwrap();
    // Linux leaves its identity out of a Proposal of version 2 alone (V2-023).
    let mut ours_sent = poll_clc(&mut ours);
    ours_sent[IDENTITY].copy_from_slice(&bytes[IDENTITY]);
    let show = |bytes: &[u8]| ClcMessage::parse(bytes).unwrap().0.to_string();
    assert_eq!(show(&ours_sent), show(bytes));
    assert_eq!(&ours_sent, bytes);
    // Behind the Decline the bytes of the application begin.
    let mut stream = captured_bytes.clone();
    stream.extend_from_slice(b"s");
    let taken = ours.handle_clc(NOW, conn, &stream);
    let len = captured_bytes.len();
    assert!(
        matches!(taken, Ok(ClcProgress::Consumed { len: l, .. }) if l == len),
        "{taken:?}"
    );
    let mut why = FallbackReason::new(DiagnosisCode::PEER_DECLINED);
    why.peer_diagnosis = Some(decline.diagnosis);
    assert_on_tcp(&mut ours, conn, why);
}
