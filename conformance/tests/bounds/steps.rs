//! Every entry of the engine by which the world reaches it does bounded work, whatever
//! its tables hold and whatever comes: steps are counted at full tables. Floods of messages
//! over a link are in `limits.rs` and `llc.rs`.

use conformance::script::{DEVICE, LIMITS, Peer, Script, path};
use conformance::smcd::hand;
use smc_proto::completion::{IsmCompletion, LinkFailure, RdmaCompletion};
use smc_proto::endpoint::TcpEvent;
use smc_proto::id::{ConnId, LinkId};
use smc_proto::path::PathEvent;
use smc_proto::time::Duration;
use smc_proto::version::SmcVersion;
use smc_proto::wire::types::{AlertToken, BufferSize, DmbToken, PeerId, Qpn};

/// Most connections of a group, by default.
const MEMBERS: usize = 255;

/// Steps of an input that concerns a group, its connections and all that wait for
/// what it frees: each connection once, and a few things besides.
const ONCE: u32 = LIMITS.connections as u32 + 64;

/// Steps of an input that concerns one connection, without a waiter to wake.
const FEW: u32 = 16;

/// The most steps that inputs of one kind have taken.
#[derive(Default)]
struct Most(u32);

impl Most {
    fn note(&mut self, s: &mut Script) {
        self.0 = self.0.max(s.endpoint.last_steps());
        s.pump();
        s.skip();
    }

    #[track_caller]
    fn at_most(self, what: &str, bound: u32) {
        println!("{what}: {} steps of at most {bound}", self.0);
        assert!(
            self.0 <= bound,
            "{what}: {} steps, more than {bound}",
            self.0
        );
    }
}

/// A client whose first group is full, with every connection left waiting for an Accept.
fn full() -> (Script, LinkId, Vec<ConnId>, Vec<ConnId>) {
    let mut s = Script::with(|config| config.receive_buffer = BufferSize::K16);
    let (first, _) = s.client_first_contact();
    let link = s.link();
    let mut members = vec![first];
    for rmb in 2..=MEMBERS as u32 {
        // One agreed RMB has room for several.
        let conn = s.connect();
        s.skip();
        s.accept(conn, s.peer.subsequent(rmb));
        while let Some(message) = s.poll_llc() {
            s.send(Peer::reply_to(&message));
        }
        s.skip();
        members.push(conn);
    }
    let waiting: Vec<ConnId> = (MEMBERS..LIMITS.connections).map(|_| s.connect()).collect();
    s.skip();
    assert_eq!(s.endpoint.usage().connections as usize, LIMITS.connections);
    (s, link, members, waiting)
}

#[test]
fn bytes_of_clc_take_a_bounded_number_of_steps() {
    let (s, _, _, waiting) = full();
    let mut most = Most::default();
    let accept = |s: &Script, rmb| {
        Peer::octets(&smc_proto::wire::clc::ClcMessage::Accept(
            s.peer.subsequent(rmb),
        ))
    };
    let long: Vec<u8> = (0..70_000u32).map(|n| (n % 251) as u8).collect();
    let attacks: Vec<Vec<u8>> = vec![
        accept(&s, 400),
        Peer::octets(&s.peer.decline()),
        Peer::octets(&s.peer.decline_with(true)),
        Peer::octets(&s.peer.proposal()),
        [&Peer::octets(&s.peer.proposal())[..7], &long].concat(),
        long,
    ];
    for attack in attacks {
        for piece in [1, 7, attack.len()] {
            let mut s = s.clone();
            for conn in &waiting {
                // A host shows all that is not consumed, each time it grows.
                for end in (1..=attack.len().min(80)).step_by(piece.min(80)) {
                    let _ = s.endpoint.handle_clc(s.now, *conn, &attack[..end]);
                    most.note(&mut s);
                }
                let _ = s.endpoint.handle_clc(s.now, *conn, &attack);
                most.note(&mut s);
            }
        }
    }
    // An Accept or a Decline may end a group, which all of its connections notice.
    most.at_most("handle_clc", ONCE);
}

#[test]
fn the_end_of_tcp_takes_a_bounded_number_of_steps() {
    for event in [TcpEvent::PeerFin, TcpEvent::PeerReset, TcpEvent::Failed] {
        let (mut s, _, members, waiting) = full();
        let mut most = Most::default();
        for conn in members.into_iter().chain(waiting) {
            s.endpoint.handle_tcp(s.now, conn, event);
            most.note(&mut s);
            // Once more, with a handle that may be stale.
            s.endpoint.handle_tcp(s.now, conn, event);
            most.note(&mut s);
        }
        most.at_most("handle_tcp", FEW);
    }
}

#[test]
fn a_link_that_breaks_under_a_full_group_takes_a_bounded_number_of_steps() {
    let (s, link, members, _) = full();
    let mut most = Most::default();
    for cause in [
        LinkFailure::RetriesExhausted,
        LinkFailure::RemoteAccess,
        LinkFailure::DeviceRemoved,
    ] {
        let mut s = s.clone();
        let conn = Some(members[MEMBERS / 2]);
        let failed = RdmaCompletion::LinkFailed { link, cause, conn };
        // Twice, as no adapter should.
        for _ in 0..2 {
            s.endpoint.handle_rdma(s.now, failed);
            most.note(&mut s);
        }
    }
    let damaged = RdmaCompletion::EyeCatcherDamaged { conn: members[9] };
    let mut s = s;
    s.endpoint.handle_rdma(s.now, damaged);
    most.note(&mut s);
    for token in 0..2_000 {
        let payload = Peer::cdc(AlertToken(token), token as u16, token, token).emit();
        let payload = &payload[..];
        let received = RdmaCompletion::Received { link, payload };
        s.endpoint.handle_rdma(s.now, received);
        most.note(&mut s);
    }
    most.at_most("handle_rdma", ONCE);
}

#[test]
fn ports_that_come_and_go_take_a_bounded_number_of_steps() {
    let (s, ..) = full();
    let mut most = Most::default();
    let mut other = path(2);
    other.device = smc_proto::id::DeviceId(1);
    for events in [
        vec![PathEvent::PortDown {
            device: DEVICE,
            port: 1,
        }],
        vec![PathEvent::PortUp(other), PathEvent::PortUp(path(1))],
        vec![PathEvent::DeviceRemoved { device: DEVICE }; 2],
    ] {
        let mut s = s.clone();
        for event in events {
            for _ in 0..20 {
                s.endpoint.handle_path(s.now, event);
                most.note(&mut s);
            }
        }
    }
    most.at_most("handle_path", ONCE);
}

#[test]
fn deadlines_that_are_all_due_at_once_take_a_bounded_number_of_steps() {
    let (mut s, _, members, _) = full();
    for conn in members {
        if let Some(mut c) = s.endpoint.conn(conn) {
            c.abort(s.now);
        }
    }
    s.pump();
    s.skip();
    let mut most = Most::default();
    // The driver of the engine was asleep for a day.
    for _ in 0..400 {
        s.now = s.now.after(Duration::from_secs(86_400));
        s.endpoint.handle_timeout(s.now);
        most.note(&mut s);
        if s.endpoint.poll_timeout().is_none() {
            break;
        }
    }
    assert_eq!(s.endpoint.poll_timeout(), None, "timers end");
    // All connections of a group, and all that wait for a peer.
    most.at_most("handle_timeout", 2 * ONCE);
}

#[test]
fn whatever_an_ism_device_reports_takes_a_bounded_number_of_steps() {
    for version in [SmcVersion::V1, SmcVersion::V2] {
        let mode = hand::Mode::new(version, false);
        let (mut h, first) = hand::Hand::connected(mode, true);
        for token in 2..8 {
            h.client(false, token);
        }
        let connections = h.endpoint.usage().connections;
        assert!(connections >= 7, "{connections}");
        let peer = mode.device(2);
        let (device, buffer) = (hand::DEVICE, h.dmb());
        let buffers: Vec<_> = h.buffers().collect();
        let mut reports = vec![
            IsmCompletion::MoveFailed { conn: first },
            IsmCompletion::Event {
                device,
                peer,
                code: 0x80,
                info: u64::MAX,
            },
            IsmCompletion::Signalled {
                buffer,
                cdc: [0xff; 32],
            },
            IsmCompletion::Signalled {
                buffer,
                cdc: [0; 32],
            },
            IsmCompletion::DmbRegistered {
                buffer,
                token: DmbToken(u64::MAX),
            },
        ];
        for buffer in buffers {
            reports.push(IsmCompletion::Refused { buffer });
            reports.push(IsmCompletion::DmbFailed { buffer });
            reports.push(IsmCompletion::DmbCleared { buffer });
        }
        for _ in 0..2 {
            reports.push(IsmCompletion::PeerVanished { device, peer });
        }
        let mut most = 0;
        for report in reports {
            let mut branch = h.clone();
            for _ in 0..50 {
                branch.endpoint.handle_ism(branch.now, report);
                most = most.max(branch.endpoint.last_steps());
                branch.pump();
            }
        }
        // Eight connections, each with a DMB and a send buffer.
        let bound = 2 * 8 * 6;
        println!("handle_ism: {most} steps of at most {bound}");
        assert!(most > 0 && most <= bound, "{most} steps, more than {bound}");
    }
}

#[test]
fn handles_that_name_nothing_cost_nothing() {
    let (mut s, link, members, _) = full();
    let conn = members[0];
    let removed = PathEvent::DeviceRemoved { device: DEVICE };
    s.path(removed);
    s.wait(core::time::Duration::from_secs(600));
    s.skip();
    s.give_up();
    s.peer.id = PeerId::new(9, s.peer.mac);
    let mut most = 0;
    let payload = &Peer::test_link(1, false)
        .emit_short(SmcVersion::V1)
        .unwrap()[..];
    for completion in [
        RdmaCompletion::QpCreated {
            link,
            qpn: Qpn::new(1),
        },
        RdmaCompletion::Received { link, payload },
        RdmaCompletion::LinkFailed {
            link,
            cause: LinkFailure::Other,
            conn: Some(conn),
        },
        RdmaCompletion::EyeCatcherDamaged { conn },
    ] {
        s.endpoint.handle_rdma(s.now, completion);
        most = most.max(s.endpoint.last_steps());
    }
    let _ = s.endpoint.handle_clc(s.now, conn, &[0; 4096]);
    most = most.max(s.endpoint.last_steps());
    s.endpoint.handle_tcp(s.now, conn, TcpEvent::PeerReset);
    most = most.max(s.endpoint.last_steps());
    s.endpoint.handle_timeout(s.now);
    most = most.max(s.endpoint.last_steps());
    assert!(most <= 8, "{most} steps");
}
