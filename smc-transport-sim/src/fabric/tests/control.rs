//! Control commands: what they answer, and mistakes a driver would refuse.

use smc_proto::command::{BufferKind, EYE_CATCHER, Segment};
use smc_proto::id::WrId;
use smc_proto::wire::types::Mtu;

use super::world::*;
use crate::completion::Completion;
use crate::fabric::{BufferKey, FabricConfig, QueuePairKey};

#[test]
fn everything_can_be_given_back() {
    let mut world = World::new();
    let host = world.hosts[0];
    assert_eq!(world.fabric.in_use(host), [2, 1, 2]);
    world.fabric.queue_pair_to_error(host, LINK);
    assert_eq!(world.run()[0], [Completion::QpDrained { link: LINK }]);
    world.fabric.deregister_buffer(host, RMB, LINK);
    world.fabric.destroy_queue_pair(host, LINK);
    world.fabric.free_buffer(host, RMB);
    world.fabric.free_buffer(host, SEND);
    let answers = [
        Completion::BufferDeregistered {
            buffer: RMB,
            link: LINK,
        },
        Completion::QpDestroyed { link: LINK },
        Completion::BufferFreed { buffer: RMB },
        Completion::BufferFreed { buffer: SEND },
    ];
    assert_eq!(world.run()[0], answers);
    assert_eq!(world.fabric.in_use(host), [0, 0, 0]);
    assert_eq!(world.fabric.violations(), []);
}

#[test]
fn mistakes_are_refused_and_recorded() {
    let mut world = World::new();
    let host = world.hosts[0];
    let (unknown, nothing) = (QueuePairKey(9), BufferKey(9));
    let fabric = &mut world.fabric;
    fabric.free_buffer(host, RMB);
    fabric.free_buffer(host, nothing);
    fabric.allocate_buffer(host, RMB, BufferKind::Rmb, 1, 64);
    fabric.register_buffer(host, RMB, LINK);
    fabric.register_buffer(host, nothing, LINK);
    fabric.deregister_buffer(host, RMB, unknown);
    fabric.clear_element(host, RMB, 2 * ELEMENT - 3, 4, false);
    fabric.destroy_queue_pair(host, LINK);
    fabric.destroy_queue_pair(host, unknown);
    fabric.create_queue_pair(host, LINK, smc_proto::id::DeviceId(0), 1, 44);
    fabric.create_queue_pair(host, unknown, smc_proto::id::DeviceId(1), 1, 44);
    fabric.post_send(host, unknown, WrId(1), b"x");
    let refused = world.run()[0]
        .iter()
        .filter(|c| {
            matches!(
                c,
                Completion::LinkRefused { .. } | Completion::BufferRefused { .. }
            )
        })
        .count();
    assert_eq!(refused, 11);
    assert_eq!(
        world.fabric.violations().len(),
        12,
        "{:#?}",
        world.fabric.violations()
    );
    assert_eq!(world.fabric.in_use(host), [2, 1, 2]);
}

#[test]
fn states_come_in_order() {
    let mut world = World::created(FabricConfig::default(), 1);
    let (host, psn) = (world.hosts[0], first_psn(0));
    world.fabric.activate_queue_pair(host, LINK, psn);
    world.fabric.post_send(host, LINK, WrId(1), b"early");
    world
        .fabric
        .connect_queue_pair(host, LINK, world.address_of(1), Mtu::from_code(0));
    assert_eq!(world.fabric.violations().len(), 3);
    world.connect(0, world.address_of(1));
    world.connect(0, world.address_of(1));
    assert_eq!(world.fabric.violations().len(), 5);
}

#[test]
fn a_drained_queue_pair_has_nothing_on_the_wire() {
    let mut world = World::new();
    world.write(0, &[3; 8000], world.rmb[1]);
    world.write(0, &[4; 8000], world.rmb[1]);
    world.send(0, 1, b"never");
    // The first write is on the wire now, the others wait.
    world.fabric.queue_pair_to_error(world.hosts[0], LINK);
    world.send(0, 2, b"flushed");
    let [near, far] = world.run();
    assert_eq!(near, [Completion::QpDrained { link: LINK }]);
    assert_eq!(far, []);
    assert_eq!(world.read(1, 0, 8000), vec![3; 8000]);
    world.fabric.destroy_queue_pair(world.hosts[0], LINK);
    assert_eq!(world.run()[0], [Completion::QpDestroyed { link: LINK }]);
    assert_eq!(world.fabric.violations(), []);
}

#[test]
fn elements_are_cleared_and_marked_and_damage_is_seen() {
    let mut world = World::new();
    world.write(0, &[1; 100], world.rmb[1]);
    world.run();
    let host = world.hosts[1];
    world.fabric.clear_element(host, RMB, 0, ELEMENT, true);
    world
        .fabric
        .clear_element(host, RMB, ELEMENT, ELEMENT, false);
    world.run();
    assert_eq!(world.read(1, 0, 4), EYE_CATCHER);
    assert_eq!(world.read(1, 4, 96), [0; 96]);
    assert_eq!(world.read(1, ELEMENT, 4), [0; 4]);
    let marked = |world: &mut World, offset| {
        let memory = world.fabric.memory_mut(host).unwrap();
        memory.has_eye_catcher(RMB, offset)
    };
    assert!(marked(&mut world, 0) && !marked(&mut world, ELEMENT));
    assert!(!marked(&mut world, 2 * ELEMENT - 3) && !marked(&mut world, u32::MAX));
    world.write(0, &[1; 4], world.rmb[1]);
    world.run();
    assert!(!marked(&mut world, 0));
}

#[test]
fn spans_must_stand_in_their_buffer() {
    let mut world = World::new();
    let host = world.hosts[0];
    let span = |offset, length| Segment { offset, length };
    let fabric = &mut world.fabric;
    let mut fill = |spans, bytes: &[u8]| fabric.fill_buffer(host, SEND, spans, bytes).is_ok();
    assert!(fill([span(ELEMENT - 2, 2), span(0, 1)], b"abc"));
    assert!(!fill([span(ELEMENT - 2, 3), span(0, 0)], b"abc"));
    assert!(!fill([span(u32::MAX, u32::MAX), span(0, 0)], b"abc"));
    assert!(!fill([span(0, 2), span(2, 2)], b"abc"));
    assert!(!fill([span(0, 1), span(2, 1)], b"abc"));
    let mut bytes = Vec::new();
    fabric
        .copy_buffer(host, SEND, [span(ELEMENT - 2, 2), span(0, 1)], &mut bytes)
        .unwrap();
    assert_eq!(bytes, b"abc");
}
