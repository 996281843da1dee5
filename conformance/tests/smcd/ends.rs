//! How connections and groups of SMC-D end: in order, in half, by aborts, with their
//! device, with their peer, for lack of DMBs.

use conformance::smcd::{DEVICE, Setup};
use conformance::world::World;
use smc_proto::command::{ISM_VLAN_V2, IsmCommand};
use smc_proto::completion::IsmCompletion;
use smc_proto::config::Offers;
use smc_proto::event::CloseReason;
use smc_proto::id::{DeviceId, LanId};
use smc_proto::path::{LocalPath, PathEvent};
use smc_proto::time::Duration;
use smc_proto::wire::cdc_ism::Endianness;
use smc_proto::wire::ism_event::{EventInfo, SHUTDOWN, TEST};
use smc_proto::wire::types::{Chid, DiagnosisCode, Gid, Mac};
use smc_transport_sim::fault::{Fault, FaultAction, FaultPlan, Operation, Trigger};
use smc_transport_sim::sim::{SocketId, Transport};

const SECOND: Duration = Duration::from_secs(1);
const IDLE: Duration = Duration::from_secs(601);

fn plan(fault: Fault) -> FaultPlan {
    let mut plan = FaultPlan::none();
    plan.push(fault);
    plan
}

fn strike(pair: &mut World, host: bool, operation: Operation, number: u64) {
    let host = if host { pair.server } else { pair.client };
    let fault = Fault {
        host: Some(host),
        trigger: Trigger::Nth { operation, number },
        action: FaultAction::Refuse,
    };
    pair.sim.fabric().set_faults(plan(fault));
}

fn closed(pair: &World, end: SocketId) -> Option<CloseReason> {
    pair.sim.state(end).unwrap().closed
}

#[test]
fn one_side_ends_while_the_other_goes_on() {
    for attaches in [true, false] {
        let mut pair = Setup::new(attaches).build();
        let [near, far] = pair.connect();
        pair.sim.write(near, b"last words");
        pair.sim.finish(near);
        pair.run(SECOND);
        assert_eq!(pair.sim.read(far), b"last words");
        let large: Vec<u8> = (0..100_000_u32).map(|n| (n % 253) as u8).collect();
        assert_eq!(pair.carry(far, near, &large), large);
        pair.sim.finish(far);
        pair.run(SECOND);
        for end in [near, far] {
            assert_eq!(closed(&pair, end), Some(CloseReason::Normal));
        }
        pair.run(IDLE);
        pair.assert_all_gone();
    }
}

#[test]
fn an_abort_reaches_the_peer_and_leaves_nothing() {
    for attaches in [true, false] {
        for (aborts, notified) in [(0, 1), (1, 0)] {
            let mut pair = Setup::new(attaches).build();
            let ends = pair.connect();
            pair.sim.write(ends[aborts], &[7; 40_000]);
            pair.sim.abort(ends[aborts]);
            pair.run(Duration::from_secs(10));
            assert_eq!(closed(&pair, ends[aborts]), Some(CloseReason::LocalAbort));
            assert_eq!(closed(&pair, ends[notified]), Some(CloseReason::PeerAbort));
            pair.run(IDLE);
            pair.assert_all_gone();
        }
    }
}

#[test]
fn the_end_of_a_group_is_reported_once_and_ends_the_other_side() {
    //= D-050 test
    //= D-051 test
    let mut pair = Setup::new(true).build();
    let [near, far] = pair.connect();
    let group = pair.sim.groups(pair.client)[0];
    let now = pair.sim.now();
    let engine = pair.sim.endpoint(pair.client).unwrap();
    engine.delete_group(now, group);
    pair.run(SECOND);
    for end in [near, far] {
        assert_eq!(closed(&pair, end), Some(CloseReason::LinksLost));
    }
    pair.assert_all_gone();
    let trace = pair.sim.trace().to_string();
    assert_eq!(trace.matches("group shutdown").count(), 1, "{trace}");
    // In version 2 the VLAN by which the peer knows the group is not ours to know.
    assert!(trace.contains("(group shutdown) vlan 0x0fff"), "{trace}");
}

#[test]
fn a_group_that_is_deleted_twice_notifies_the_peer_all_the_same() {
    //= D-051 test
    let mut pair = Setup::new(true).build();
    let [near, far] = pair.connect();
    let group = pair.sim.groups(pair.client)[0];
    let now = pair.sim.now();
    let engine = pair.sim.endpoint(pair.client).unwrap();
    // The second time the device has not yet polled what the first one has to send.
    engine.delete_group(now, group);
    engine.delete_group(now, group);
    pair.run(SECOND);
    for end in [near, far] {
        assert_eq!(closed(&pair, end), Some(CloseReason::LinksLost));
    }
    pair.assert_all_gone();
    let trace = pair.sim.trace().to_string();
    assert_eq!(trace.matches("group shutdown").count(), 1, "{trace}");
}

#[test]
fn a_group_has_no_link_and_gets_none_whatever_ports_there_are() {
    //= D-035 test
    let mut pair = Setup::new(true).build();
    let ends @ [near, far] = pair.connect();
    let now = pair.sim.now();
    // LANs are the embedder's numbers: each of them may be one.
    let ports = [LanId(0), LanId(u16::MAX)].map(|lan| {
        let mut port = LocalPath::new(DeviceId(0), 1, Gid([7; 16]), Mac([2, 0, 0, 0, 0, 7]));
        port.lan = lan;
        port
    });
    for (host, end) in [pair.client, pair.server].into_iter().zip(ends) {
        let (conn, group) = (pair.conn(end), pair.sim.groups(host)[0]);
        let engine = pair.sim.endpoint(host).unwrap();
        for port in ports {
            engine.handle_path(now, PathEvent::PortUp(port));
        }
        assert_eq!(engine.poll_rdma(now, DeviceId(0)), None);
        assert_eq!(engine.usage().links, 0);
        let at = engine.conn(conn).expect("a connection");
        assert_eq!(at.group_and_link(), Some((group, None)));
        assert_eq!(engine.vlan(group), Some(ISM_VLAN_V2));
    }
    assert_eq!(pair.carry(near, far, b"as before"), b"as before");
}

#[test]
fn a_device_that_reports_a_lost_peer_late_ends_what_was_begun_meanwhile() {
    //= D-052 test
    // The simulator's judge must know: what ended by this is no fault, what came
    // after it has no such excuse.
    let mut setup = Setup::new(true);
    setup.signal_latency = Duration::from_millis(50);
    let mut pair = setup.build();
    let before = pair.connect();
    let vanishes = Fault {
        host: Some(pair.server),
        trigger: Trigger::At(pair.sim.now()),
        action: FaultAction::PeerVanishes,
    };
    pair.sim.fabric().set_faults(plan(vanishes));
    pair.run(Duration::from_millis(1));
    // The device has seen it go, the engine has not: it joins the group that is to end.
    let meanwhile = pair.connect();
    assert_eq!(pair.sim.groups(pair.server).len(), 1);
    pair.run(SECOND);
    for [_, far] in [before, meanwhile] {
        assert_eq!(closed(&pair, far), Some(CloseReason::LinksLost));
    }
    let after = pair.connect();
    assert_eq!(pair.carry(after[0], after[1], b"again"), b"again");
    let excused = [before, meanwhile, after].map(|[near, far]| {
        let conduct = pair.sim.conduct((near, far), [0; 2], true);
        !conduct.expect("both ends").survivable
    });
    assert_eq!(excused, [true, true, false]);
}

#[test]
fn a_reader_is_notified_of_a_peer_that_drops_its_group_without_a_message() {
    //= D-059 test
    for attaches in [true, false] {
        let mut pair = Setup::new(attaches).build();
        let [near, far] = pair.connect();
        assert_eq!(pair.carry(far, near, b"and then"), b"and then");
        let vanishes = Fault {
            host: Some(pair.server),
            trigger: Trigger::At(pair.sim.now()),
            action: FaultAction::PeerVanishes,
        };
        pair.sim.fabric().set_faults(plan(vanishes));
        pair.run(SECOND);
        // The server has not sent a message, and the client not written one.
        let trace = pair.sim.trace().to_string();
        assert!(!trace.contains("group shutdown"), "{trace}");
        for end in [near, far] {
            assert_eq!(closed(&pair, end), Some(CloseReason::LinksLost));
        }
        pair.run(IDLE);
        pair.assert_all_gone();
    }
}

#[test]
fn a_dmb_taken_back_behind_the_last_message_changes_nothing() {
    //= D-059 test
    // The server closes first, and its DMB is gone long before the client closes.
    let mut pair = Setup::new(true).build();
    let [near, far] = pair.connect();
    pair.sim.write(far, b"the end");
    pair.sim.close(far);
    pair.run(Duration::from_secs(60));
    assert_eq!(pair.sim.read(near), b"the end");
    assert_eq!(closed(&pair, near), None);
    pair.sim.close(near);
    pair.run(SECOND);
    assert_eq!(closed(&pair, near), Some(CloseReason::Normal));
}

#[test]
fn a_group_does_not_take_another_one_along() {
    //= D-055 test
    let mut pair = Setup::new(true).build();
    // Both sides connect at once: each server starts a group of its own.
    let (one, _) = pair.sim.connect(pair.client, pair.server);
    let (other, _) = pair.sim.connect(pair.server, pair.client);
    pair.run(SECOND);
    let transports = [one, other].map(|end| pair.transport(end));
    assert_eq!(transports, [Transport::Smc; 2]);
    assert_eq!(pair.sim.groups(pair.client).len(), 2);
    let group = pair.sim.groups(pair.client)[0];
    let now = pair.sim.now();
    pair.sim
        .endpoint(pair.client)
        .unwrap()
        .delete_group(now, group);
    pair.run(SECOND);
    let trace = pair.sim.trace().to_string();
    assert!(!trace.contains("group shutdown"), "{trace}");
    let ended = [one, other].map(|end| closed(&pair, end).is_some());
    assert_eq!(ended.iter().filter(|ended| **ended).count(), 1);
}

#[test]
fn events_of_a_peer_are_understood() {
    //= D-054 test
    let mut pair = Setup::new(true).build();
    let [near, far] = pair.connect();
    assert_eq!(pair.carry(far, near, b"all is well"), b"all is well");
    let peer = pair.sim.wires().ism_devices(pair.client)[0].gid;
    let event = |code, vlan, kind| {
        let info = EventInfo {
            group: *b"abcd",
            vlan,
            kind,
        };
        IsmCompletion::Event {
            device: DEVICE,
            peer,
            code,
            info: info.bits(Endianness::NATIVE),
        }
    };
    let now = pair.sim.now();
    let server = pair.server;
    let engine = pair.sim.endpoint(server).unwrap();
    // A test is answered, once even if it is asked twice, and an answer is not.
    for kind in [EventInfo::REQUEST, EventInfo::REQUEST, EventInfo::RESPONSE] {
        engine.handle_ism(now, event(TEST, 0x1fff, kind));
    }
    let Some(IsmCommand::SignalEvent { code, info, .. }) = engine.poll_ism(now, DEVICE) else {
        panic!("no answer");
    };
    let info = EventInfo::from_bits(info, Endianness::NATIVE);
    assert_eq!((code, info.kind), (TEST, EventInfo::RESPONSE));
    assert_eq!(info.group, *b"abcd");
    assert_eq!(engine.poll_ism(now, DEVICE), None);
    // Other codes are nothing to us.
    engine.handle_ism(now, event(0x42, 0x1fff, EventInfo::REQUEST));
    pair.run(SECOND);
    assert_eq!(closed(&pair, far), None);
    // A group of version 2 has no VLAN; its peer names that of a TCP connection.
    let engine = pair.sim.endpoint(server).unwrap();
    engine.handle_ism(now, event(SHUTDOWN, 7, EventInfo::REQUEST));
    pair.run(Duration::from_secs(61));
    assert_eq!(closed(&pair, far), Some(CloseReason::LinksLost));
    let trace = pair.sim.trace().to_string();
    assert!(!trace.contains("group shutdown"), "it began it: {trace}");
    // The client, which ended nothing, is notified that the server's DMB is gone.
    assert_eq!(closed(&pair, near), Some(CloseReason::LinksLost));
}

#[test]
fn a_group_of_version_1_ends_with_its_own_vlan_only() {
    //= D-054 test
    for (vlan, ends) in [(7, false), (0x1fff, false), (0, true), (0x0fff, true)] {
        let mut pair = Setup {
            chid: Chid(0x07c1),
            offers: Offers::SMCD_V1,
            ..Setup::new(true)
        }
        .build();
        let [_, far] = pair.connect();
        let peer = pair.sim.wires().ism_devices(pair.client)[0].gid;
        let info = EventInfo {
            group: *b"abcd",
            vlan,
            kind: EventInfo::REQUEST,
        };
        let shutdown = IsmCompletion::Event {
            device: DEVICE,
            peer,
            code: SHUTDOWN,
            info: info.bits(Endianness::NATIVE),
        };
        let now = pair.sim.now();
        let server = pair.server;
        pair.sim.endpoint(server).unwrap().handle_ism(now, shutdown);
        pair.run(Duration::from_secs(61));
        let expected = ends.then_some(CloseReason::LinksLost);
        assert_eq!(closed(&pair, far), expected, "{vlan:04x}");
    }
}

#[test]
fn a_device_that_vanishes_ends_what_went_through_it() {
    //= D-052 test
    for attaches in [true, false] {
        let mut pair = Setup::new(attaches).build();
        let [near, far] = pair.connect();
        pair.sim.write(near, &[1; 100_000]);
        pair.sim.fabric().remove_ism(pair.client, DEVICE);
        pair.run(SECOND);
        for end in [near, far] {
            assert_eq!(closed(&pair, end), Some(CloseReason::LinksLost));
        }
        pair.assert_all_gone();
    }
}

#[test]
fn a_move_that_fails_is_an_abnormal_end() {
    //= D-053 test
    for attaches in [true, false] {
        for number in 1..=4 {
            let mut pair = Setup::new(attaches).build();
            let [near, far] = pair.connect();
            strike(&mut pair, false, Operation::Move, number);
            pair.sim.write(near, &[1; 100_000]);
            pair.run(Duration::from_secs(10));
            assert_eq!(
                closed(&pair, near),
                Some(CloseReason::LinksLost),
                "{number}"
            );
            assert_eq!(closed(&pair, far), Some(CloseReason::PeerAbort), "{number}");
            pair.run(IDLE);
            pair.assert_all_gone();
        }
    }
}

#[test]
fn a_peer_that_cannot_be_notified_is_given_up_at_once() {
    //= D-053 test
    let mut pair = Setup::new(false).build();
    let [near, _] = pair.connect();
    let fault = Fault {
        host: Some(pair.client),
        trigger: Trigger::Chance {
            operation: Operation::Move,
            per_million: 1_000_000,
        },
        action: FaultAction::Refuse,
    };
    pair.sim.fabric().set_faults(plan(fault));
    pair.sim.write(near, b"this gets lost");
    pair.run(Duration::from_millis(100));
    assert_eq!(closed(&pair, near), Some(CloseReason::LinksLost));
}

#[test]
fn without_dmbs_the_connection_stays_on_tcp() {
    //= D-033 test
    for server in [true, false] {
        let mut pair = Setup::new(true).build();
        strike(&mut pair, server, Operation::RegisterDmb, 1);
        let (near, far) = pair.sim.connect(pair.client, pair.server);
        pair.run(SECOND);
        let why = [near, far].map(|end| pair.sim.state(end).unwrap().fell_back.unwrap());
        let declines = usize::from(server);
        assert_eq!(why[declines].code, DiagnosisCode::DMB_LIMIT);
        let received = why[1 - declines].peer_diagnosis;
        assert_eq!(received, Some(DiagnosisCode::DMB_LIMIT));
        assert_eq!(pair.carry(near, far, b"over TCP"), b"over TCP");
        pair.run(IDLE);
        let usage = pair.sim.endpoint(pair.client).unwrap().usage();
        assert_eq!((usage.groups, usage.buffers), (0, 0));
    }
    // The limit of the device itself.
    let mut pair = Setup {
        most_dmbs: 1,
        ..Setup::new(true)
    }
    .build();
    let _ = pair.connect();
    let (near, _) = pair.sim.connect(pair.client, pair.server);
    pair.run(SECOND);
    let why = pair.sim.state(near).unwrap().fell_back.unwrap();
    assert_eq!(why.peer_diagnosis, Some(DiagnosisCode::DMB_LIMIT));
}

#[test]
fn a_dmb_that_cannot_be_bound_ends_the_attempt() {
    //= D-058 test
    for attaches in [true, false] {
        // The client has not confirmed yet, and declines.
        let mut pair = Setup::new(attaches).build();
        strike(&mut pair, false, Operation::AttachDmb, 1);
        let (near, far) = pair.sim.connect(pair.client, pair.server);
        pair.run(SECOND);
        let why = pair.sim.state(far).unwrap().fell_back.unwrap();
        assert_eq!(why.peer_diagnosis, Some(DiagnosisCode::MEMORY));
        assert_eq!(pair.carry(near, far, b"over TCP"), b"over TCP");
        // For the server it is too late to.
        let mut pair = Setup::new(attaches).build();
        strike(&mut pair, true, Operation::AttachDmb, 1);
        let (near, far) = pair.sim.connect(pair.client, pair.server);
        pair.run(Duration::from_secs(120));
        assert_eq!(closed(&pair, far), Some(CloseReason::LinksLost));
        // Before the reset the client is notified that the server's DMB is gone.
        assert_eq!(closed(&pair, near), Some(CloseReason::LinksLost));
        pair.run(IDLE);
        pair.assert_all_gone();
    }
}

#[test]
fn a_device_that_cannot_clear_gives_another_dmb() {
    //= D-057 test
    let mut pair = Setup::new(false).build();
    let [near, far] = pair.connect();
    strike(&mut pair, true, Operation::ClearDmb, 1);
    pair.sim.finish(near);
    pair.sim.finish(far);
    pair.run(SECOND);
    assert_eq!(pair.sim.wires().ism_in_use(pair.server), [0, 0]);
    let [near, far] = pair.connect();
    assert_eq!(pair.carry(near, far, b"again"), b"again");
}

#[test]
fn signals_that_come_late_and_merged_lose_nothing() {
    for attaches in [true, false] {
        let mut pair = Setup {
            signal_latency: Duration::from_millis(3),
            ..Setup::new(attaches)
        }
        .build();
        let [near, far] = pair.connect();
        let mut all = Vec::new();
        for round in 0..40_u8 {
            let bytes = vec![round; 900];
            pair.sim.write(near, &bytes);
            all.extend_from_slice(&bytes);
            pair.run(Duration::from_micros(300));
        }
        // The last message merges with the last bytes.
        pair.sim.finish(near);
        pair.run(SECOND);
        assert_eq!(pair.sim.read(far), all);
        assert!(closed(&pair, near).is_none());
    }
}

#[test]
fn a_host_that_restarts_is_gone_for_its_peer() {
    let mut pair = Setup::new(true).build();
    let [_, far] = pair.connect();
    let fault = Fault {
        host: Some(pair.client),
        trigger: Trigger::At(pair.sim.now().after(Duration::from_millis(1))),
        action: FaultAction::Restart {
            down: Duration::from_millis(50),
            tcp: smc_transport_sim::fault::TcpFate::Reset,
        },
    };
    pair.sim.fabric().set_faults(plan(fault));
    pair.run(SECOND);
    assert_eq!(closed(&pair, far), Some(CloseReason::LinksLost));
    let [near, far] = pair.connect();
    assert!(pair.sim.state(near).unwrap().first_contact);
    assert_eq!(pair.carry(near, far, b"anew"), b"anew");
}
