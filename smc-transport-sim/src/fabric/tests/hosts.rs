//! Ports, RNICs and hosts that go and come back.

use smc_proto::command::BufferKind;
use smc_proto::completion::LinkFailure;
use smc_proto::id::DeviceId;
use smc_proto::time::{Duration, Instant};

use super::world::*;
use crate::completion::Completion;
use crate::fabric::{BufferKey, Fabric, FabricConfig, HostEvent, HostId, QueuePairKey};
use crate::fault::{FaultAction, FaultPlan, Operation, PortSelector, TcpFate, Trigger};
use crate::tcp::{SmcOption, TcpNoticeKind};

const MILLISECOND: Duration = Duration::from_millis(1);
const DEVICE: DeviceId = DeviceId(0);

fn strike(world: &mut World, side: usize, action: FaultAction) {
    let at = Trigger::At(Instant::ZERO);
    let plan = FaultPlan::none().with(at, world.hosts[side], action);
    world.fabric.set_faults(plan);
    assert!(world.fabric.step());
}

fn events(fabric: &mut Fabric, host: HostId) -> Vec<HostEvent> {
    std::iter::from_fn(|| fabric.next_host_event(host)).collect()
}

const fn down() -> HostEvent {
    let (device, port) = (DEVICE, 1);
    HostEvent::PortDown { device, port }
}

#[test]
fn a_port_without_carrier_passes_nothing_and_its_host_is_notified() {
    let mut world = World::new();
    let (port, time) = (PortSelector::ANY, 100 * MILLISECOND);
    strike(&mut world, 1, FaultAction::PortDown { port, time });
    let host = world.hosts[1];
    assert_eq!(events(&mut world.fabric, host), [down()]);
    assert_eq!(events(&mut world.fabric, world.hosts[0]), []);
    assert_eq!(world.fabric.ports_up(host).count(), 0);
    world.send(0, 1, b"late");
    assert_eq!(world.run(), [vec![sent(1)], vec![received(b"late")]]);
    let config = *world.fabric.ports_up(host).next().unwrap();
    assert_eq!(events(&mut world.fabric, host), [HostEvent::PortUp(config)]);
    assert_eq!(world.fabric.faults().effective(), 1);
    // The engine may have given the link up because of the event.
    assert!(world.fabric.links()[0].harmed.is_some());
}

#[test]
fn a_flapping_port_is_down_so_often_and_up_in_the_end() {
    let mut world = World::new();
    let flap = FaultAction::PortFlap {
        port: PortSelector::ANY,
        times: 3,
        period: MILLISECOND,
    };
    strike(&mut world, 0, flap);
    world.run();
    let host = world.hosts[0];
    let config = *world.fabric.ports_up(host).next().unwrap();
    let once = [down(), HostEvent::PortUp(config)];
    assert_eq!(events(&mut world.fabric, host), [once, once, once].concat());
    assert_eq!(world.fabric.faults().effects().count(), 1);
    assert_eq!(world.fabric.faults().effects().next().unwrap().times, 3);
}

#[test]
fn a_removed_rnic_breaks_its_queue_pairs_and_still_answers_their_end() {
    let mut world = World::new();
    let (host, device) = (world.hosts[0], Some(DEVICE));
    let time = Duration::MAX;
    strike(&mut world, 0, FaultAction::RemoveDevice { device, time });
    let broken = failed(LinkFailure::DeviceRemoved, None);
    assert_eq!(completions(&mut world.fabric, host), [broken]);
    let removed = HostEvent::DeviceRemoved { device: DEVICE };
    assert_eq!(events(&mut world.fabric, host), [removed]);

    let other = QueuePairKey(2);
    world.fabric.create_queue_pair(host, other, DEVICE, 1, 44);
    let [near, _] = world.run();
    assert_eq!(near, [Completion::LinkRefused { link: other }]);

    world.fabric.queue_pair_to_error(host, LINK);
    world.fabric.deregister_buffer(host, RMB, LINK);
    world.fabric.register_buffer(host, RMB, LINK);
    let [near, _] = world.run();
    let deregistered = Completion::BufferDeregistered {
        buffer: RMB,
        link: LINK,
    };
    let refused = Completion::BufferRefused { buffer: RMB };
    let drained = Completion::QpDrained { link: LINK };
    assert_eq!(near, [drained, deregistered, refused]);
    world.fabric.destroy_queue_pair(host, LINK);
    let destroyed = Completion::QpDestroyed { link: LINK };
    assert_eq!(world.run()[0], [destroyed]);
    // None of it is the host's mistake.
    assert_eq!(world.fabric.violations(), []);

    world.fabric.end_faults();
    world.fabric.create_queue_pair(host, other, DEVICE, 1, 44);
    let [near, _] = world.run();
    assert!(matches!(near[..], [Completion::QpCreated { link, .. }] if link == other));
}

#[test]
fn an_rnic_that_no_host_has_is_no_fault() {
    let mut world = World::new();
    let (device, time) = (Some(DeviceId(9)), MILLISECOND);
    strike(&mut world, 0, FaultAction::RemoveDevice { device, time });
    assert_eq!(events(&mut world.fabric, world.hosts[0]), []);
    assert_eq!(world.fabric.faults().effective(), 0);
}

#[test]
fn a_key_is_good_on_its_own_link_only() {
    let mut world = World::new();
    let host = world.hosts[1];
    let other = QueuePairKey(2);
    world.fabric.create_queue_pair(host, other, DEVICE, 1, 44);
    world.fabric.register_buffer(host, RMB, other);
    let [_, far] = world.run();
    let key = far.into_iter().find_map(|completion| match completion {
        Completion::BufferRegistered { rtoken, .. } => Some(rtoken),
        _ => None,
    });
    let key = key.unwrap();
    assert_ne!(key, world.rmb[1]);
    world.write(0, b"wrong link", key);
    let refused = failed(LinkFailure::RemoteAccess, Some(OWNER));
    let torn = failed(LinkFailure::Other, None);
    assert_eq!(world.run(), [vec![refused], vec![torn]]);
    assert_eq!(world.read(1, 0, 10), [0; 10]);
}

#[test]
fn a_host_that_crashes_leaves_its_peers_in_the_dark() {
    for fate in [TcpFate::Reset, TcpFate::TimeOut(5 * MILLISECOND)] {
        let mut world = World::new();
        let [peer, host] = world.hosts;
        let tcp = world.fabric.tcp_open(peer, host, SmcOption::BOTH);
        while world.fabric.step() {}
        while world.fabric.next_tcp_notice(peer).is_some() {}
        world.fabric.clear_element(host, RMB, 0, 8, false);
        let down = 2 * MILLISECOND;
        strike(&mut world, 1, FaultAction::Restart { down, tcp: fate });
        let crashed = world.at();
        assert!(world.fabric.is_away(host));
        assert_eq!(events(&mut world.fabric, host), [HostEvent::Restarted]);
        assert_eq!(world.fabric.in_use(host), [0, 0, 0]);

        world.send(0, 1, b"anybody there?");
        let [near, far] = world.run();
        assert_eq!(near, [failed(LinkFailure::RetriesExhausted, None)]);
        // The answer to the command of the old instance is dropped.
        assert_eq!(far, []);
        assert!(!world.fabric.is_away(host));
        let notice = world.fabric.next_tcp_notice(peer).unwrap();
        let expected = match fate {
            TcpFate::Reset => TcpNoticeKind::Reset,
            TcpFate::TimeOut(_) => TcpNoticeKind::TimedOut,
        };
        assert_eq!((notice.tcp, notice.kind), (tcp, expected));
        let excused = world.fabric.harmed_hosts();
        assert!(excused.iter().any(|harm| harm.from == crashed));
        assert_eq!(world.fabric.faults().effective(), 1);
        // It can begin anew.
        world.fabric.create_queue_pair(host, LINK, DEVICE, 1, 44);
        assert!(matches!(world.run()[1][..], [Completion::QpCreated { .. }]));
    }
}

#[test]
fn a_host_that_is_away_resets_who_calls() {
    let mut world = World::connected(FabricConfig::default(), 3);
    let [peer, host] = world.hosts;
    let (down, tcp) = (MILLISECOND, TcpFate::Reset);
    strike(&mut world, 1, FaultAction::Restart { down, tcp });
    world.fabric.tcp_open(peer, host, SmcOption::BOTH);
    while world.fabric.step() {}
    let notices: Vec<_> = std::iter::from_fn(|| world.fabric.next_tcp_notice(peer)).collect();
    assert_eq!(notices.len(), 1);
    assert_eq!(notices[0].kind, TcpNoticeKind::Reset);
}

#[test]
fn what_a_link_was_refused_before_it_came_up_harms_it_all_the_same() {
    let mut world = World::created(FabricConfig::default(), 1);
    let (host, further) = (world.hosts[0], BufferKey(30));
    let kind = BufferKind::Send;
    world
        .fabric
        .allocate_buffer(host, further, kind, 1, ELEMENT);
    world.run();
    let refused = Trigger::Nth {
        operation: Operation::RegisterBuffer,
        number: 1,
    };
    let plan = FaultPlan::none().with(refused, host, FaultAction::Refuse);
    world.fabric.set_faults(plan);
    world.fabric.register_buffer(host, further, LINK);
    world.run();
    for side in [0, 1] {
        world.connect(side, world.address_of(1 - side));
    }
    world.run();
    let [link] = world.fabric.links() else {
        panic!("{:?}", world.fabric.links());
    };
    assert!(link.harmed.is_some_and(|at| at < link.up));
}
