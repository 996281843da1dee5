//! The SMC-D connections of a captured Linux kernel, with our endpoint in the place of
//! its client and of its server. A wire shows nothing of SMC-D but CLC.

use std::path::Path;

use smc_capture::follow::{Content, Follower};
use smc_capture::reader::CaptureReader;
use smc_proto::command::IsmCommand;
use smc_proto::completion::IsmCompletion;
use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::{ClcProgress, ConnOptions, Endpoint, Next};
use smc_proto::event::Event;
use smc_proto::id::{ConnId, DeviceId};
use smc_proto::path::{IsmPath, Paths};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::Instant;
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH, SmcdAcceptConfirm, Subnets};
use smc_proto::wire::types::{Chid, DmbToken, Eid, IsmGid, Mac, PeerId, PeerOs};

const CAPTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/vectors/linux612-smcd-v2-loopback.pcap.gz"
);
const DEVICE: DeviceId = DeviceId(3);
const NOW: Instant = Instant::from_nanos(1);
/// Four bytes of Accept and Confirm that are the sender's own affair.
const LINK_ID: std::ops::Range<usize> = 28..32;

/// The rendezvous of one connection.
struct Rendezvous {
    proposal: Vec<u8>,
    accept: (Vec<u8>, SmcdAcceptConfirm),
    confirm: (Vec<u8>, SmcdAcceptConfirm),
}

fn captured() -> Vec<Rendezvous> {
    let mut follower = Follower::default();
    let mut items = Vec::new();
    for frame in CaptureReader::open(Path::new(CAPTURE)).unwrap() {
        follower.push(&frame.unwrap(), &mut items);
    }
    follower.finish(&mut items);
    let mut all = Vec::new();
    let (mut proposal, mut accept) = (Vec::new(), None);
    for item in items.into_iter().filter(|item| !item.retransmission) {
        match item.content {
            Content::Clc(ClcMessage::Proposal(_)) => proposal = item.bytes,
            Content::Clc(ClcMessage::SmcdAccept(message)) => accept = Some((item.bytes, message)),
            Content::Clc(ClcMessage::SmcdConfirm(message)) => all.push(Rendezvous {
                proposal: std::mem::take(&mut proposal),
                accept: accept.take().expect("an Accept before the Confirm"),
                confirm: (item.bytes, message),
            }),
            _ => {}
        }
    }
    all
}

fn endpoint(all: &[Rendezvous]) -> Endpoint<Owned> {
    let mut config = Config::new(PeerId::new(1, Mac([2; 6])));
    config.offers = Offers::SMCD_V2;
    config.v2.os = PeerOs::LINUX;
    config.v2.hostname = all[0].accept.1.v2.unwrap().extension.hostname;
    let eid = Eid::user("MY.TEST.UEID").unwrap();
    config.v2.ueids.push(eid).unwrap();
    Endpoint::new(config, 1, Owned::new(Limits::for_connections(16)))
}

fn path(gid: IsmGid) -> IsmPath {
    let mut path = IsmPath::new(DEVICE, gid);
    // One kernel: the device reaches itself.
    path.reaches = Some(gid);
    path.attaches = true;
    path
}

fn feed(ours: &mut Endpoint<Owned>, conn: ConnId, bytes: &[u8]) -> Next {
    match ours.handle_clc(NOW, conn, bytes) {
        Ok(ClcProgress::Consumed { len, next }) => {
            assert_eq!(len, bytes.len());
            next
        }
        other => panic!("{other:?}"),
    }
}

/// The device does what is asked: a DMB of ours gets `own`, that of the peer must be
/// `theirs`.
fn serve(ours: &mut Endpoint<Owned>, own: DmbToken, theirs: &SmcdAcceptConfirm) -> u32 {
    let mut bound = 0;
    while let Some(command) = ours.poll_ism(NOW, DEVICE) {
        let answer = match command {
            IsmCommand::RegisterDmb {
                buffer,
                length,
                peer,
                ..
            } => {
                assert_eq!((length, peer), (65_536, theirs.device()));
                IsmCompletion::DmbRegistered { buffer, token: own }
            }
            IsmCommand::AttachDmb {
                buffer,
                peer,
                token,
                length,
                map: true,
            } => {
                assert_eq!((token, peer), (theirs.token, theirs.device()));
                assert_eq!(length, theirs.buffer_size.octets());
                bound += 1;
                IsmCompletion::DmbAttached { buffer }
            }
            other => panic!("{other:?}"),
        };
        ours.handle_ism(NOW, answer);
    }
    bound
}

/// Compares our next message, which must be what was captured but for the link ID.
fn compare(ours: &mut Endpoint<Owned>, captured: &[u8]) {
    let mut bytes = [0; MAX_LENGTH];
    let (_, length) = ours.poll_clc(NOW, &mut bytes).unwrap().expect("a message");
    let mut sent = bytes[..length].to_vec();
    sent[LINK_ID].copy_from_slice(&captured[LINK_ID]);
    let show = |bytes: &[u8]| ClcMessage::parse(bytes).unwrap().0.to_string();
    assert_eq!(show(&sent), show(captured));
    assert_eq!(sent, captured);
}

fn established(ours: &mut Endpoint<Owned>, conn: ConnId, new: bool) {
    let event = std::iter::from_fn(|| ours.poll_event()).find_map(|event| match event {
        Event::Established {
            conn,
            first_contact,
            ..
        } => Some((conn, first_contact)),
        _ => None,
    });
    assert_eq!(event, Some((conn, new)));
}

#[test]
fn our_server_serves_the_client_of_the_capture() {
    //= D-020 test
    //= D-022 test
    //= D-023 test
    //= D-024 test
    let all = captured();
    assert_eq!(all.len(), 8);
    let mut ours = endpoint(&all);
    for (number, one) in all.iter().enumerate() {
        let conn = ours
            .listen(NOW, ConnOptions::new(Subnets::default()))
            .unwrap();
        assert_eq!(feed(&mut ours, conn, &one.proposal), Next::Clc);
        let proposed = ours.proposal(conn).unwrap();
        let gid = proposed.ism_gids().next().unwrap();
        let ism = [path(gid)];
        let paths = Paths::new(&[], &ism);
        ours.accept(NOW, conn, paths).unwrap();
        let (accept, confirm) = (&one.accept, &one.confirm);
        assert_eq!(serve(&mut ours, accept.1.token, &confirm.1), 0);
        compare(&mut ours, &accept.0);
        let _ = feed(&mut ours, conn, &confirm.0);
        assert_eq!(serve(&mut ours, accept.1.token, &confirm.1), 1);
        established(&mut ours, conn, number == 0);
    }
    assert_eq!(ours.usage().groups, 1);
}

#[test]
fn our_client_is_served_by_the_server_of_the_capture() {
    //= D-013 test
    //= D-015 test
    //= D-016 test
    //= D-056 test
    let all = captured();
    let gid = all[0].accept.1.device();
    let mut ours = endpoint(&all);
    for (number, one) in all.iter().enumerate() {
        let ism = [path(gid)];
        let paths = Paths::new(&[], &ism);
        let options = ConnOptions::new(Subnets::default());
        let conn = ours.connect(NOW, options, paths).unwrap();
        let (accept, confirm) = (&one.accept, &one.confirm);
        compare(&mut ours, &one.proposal);
        assert_eq!(feed(&mut ours, conn, &accept.0), Next::MaybeDecline);
        assert_eq!(serve(&mut ours, confirm.1.token, &accept.1), 1);
        compare(&mut ours, &confirm.0);
        established(&mut ours, conn, number == 0);
    }
    assert_eq!(ours.usage().groups, 1);
}

/// Whether these bytes are a random UUID (RFC 9562: version 4 in byte 6, variant in 8).
fn is_random_uuid(first: [u8; 8], second: [u8; 8]) -> bool {
    first[6] >> 4 == 4 && second[0] >> 6 == 2
}

#[test]
fn the_halves_of_a_kernels_uuid_are_two_numbers_in_network_order() {
    //= D-001 test
    // Linux 6.12 copies the UUID into two numbers of its machine, which was little-endian,
    // and sends each in network order. (From 6.18 on they are big-endian halves.)
    let all = captured();
    for one in &all {
        let (ClcMessage::Proposal(proposal), _) = ClcMessage::parse(&one.proposal).unwrap() else {
            panic!("another message");
        };
        let offered: Vec<IsmGid> = proposal.ism_gids().collect();
        let [device] = offered[..] else {
            panic!("{offered:?}");
        };
        assert!(device.chid.is_emulated());
        assert!(is_random_uuid(
            device.gid.to_le_bytes(),
            device.gid_ext.to_le_bytes()
        ));
        assert!(!is_random_uuid(
            device.gid.to_be_bytes(),
            device.gid_ext.to_be_bytes()
        ));
        // One kernel: Accept and Confirm name the same device, in the same order of bytes.
        assert_eq!(one.accept.1.device(), device);
        assert_eq!(one.confirm.1.device(), device);
        let halves = [device.gid, device.gid_ext].map(u64::to_be_bytes);
        for bytes in [&one.proposal, &one.accept.0, &one.confirm.0] {
            for half in halves {
                let found = bytes.windows(8).any(|window| window == half);
                assert!(found, "{half:02x?} in {bytes:02x?}");
            }
        }
    }
}

#[test]
fn the_loopback_of_a_kernel_is_not_taken_for_our_device_with_the_same_channel() {
    //= D-030 test
    let all = captured();
    let mut ours = endpoint(&all);
    let conn = ours
        .listen(NOW, ConnOptions::new(Subnets::default()))
        .unwrap();
    assert_eq!(feed(&mut ours, conn, &all[0].proposal), Next::Clc);
    let theirs = ours.proposal(conn).unwrap().ism_gids().next().unwrap();
    assert_eq!(theirs.chid, Chid::LOOPBACK);
    // A device of ours has that channel, too, and reaches none but itself.
    let ism = [path(IsmGid {
        gid: !theirs.gid,
        ..theirs
    })];
    let paths = Paths::new(&[], &ism);
    ours.accept(NOW, conn, paths).unwrap();
    assert!(ours.poll_ism(NOW, DEVICE).is_none());
    let mut bytes = [0; MAX_LENGTH];
    let (_, length) = ours.poll_clc(NOW, &mut bytes).unwrap().expect("a message");
    let sent = ClcMessage::parse(&bytes[..length]).unwrap().0;
    let ClcMessage::Decline(decline) = sent else {
        panic!("{sent}");
    };
    assert!(!decline.out_of_sync, "{decline:?}");
    assert_eq!(ours.usage().groups, 0);
}
