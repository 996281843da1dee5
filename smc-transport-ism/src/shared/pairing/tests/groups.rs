//! Several listeners of one port.

use super::{PATIENT, World, listening, paired};
use crate::device::IsmDevice;

//= SHM-005 test
#[test]
fn a_group_with_a_plain_member_is_plain() {
    let mut world = World::new("127.0.0.1:0");
    let plain = listening(&world.address().to_string());
    let (_tcp, call) = world.connect(PATIENT);
    assert!(call.is_none());
    drop(plain);
    world.listener.set_nonblocking(true).unwrap();
    while world.listener.accept().is_ok() {}
    world.listener.set_nonblocking(false).unwrap();
    world.pair();
}

//= SHM-005 test
#[test]
fn any_member_of_a_group_may_be_the_one() {
    let mut one = World::new("127.0.0.1:0");
    let mut two = World::new(&one.address().to_string());
    let mut accepted = [0; 2];
    for _ in 0..40 {
        let (tcp, call) = one.connect(PATIENT);
        let end = [tcp.peer_addr().unwrap(), tcp.local_addr().unwrap()];
        let mine = |world: &World| {
            world.listener.set_nonblocking(true).unwrap();
            let polled = &mut [rustix::event::PollFd::new(
                &world.listener,
                rustix::event::PollFlags::IN,
            )];
            rustix::event::poll(polled, Some(&Default::default())).unwrap() == 1
        };
        let at = usize::from(!mine(&one));
        let world = if at == 0 { &mut one } else { &mut two };
        let (stream, answer) = world.accept();
        assert_eq!(
            [stream.local_addr().unwrap(), stream.peer_addr().unwrap()],
            end
        );
        let [client, server] = world.settle(&tcp, call.unwrap(), answer.unwrap());
        assert_eq!(paired(client).peer.gid, world.server.facts().gid);
        paired(server);
        accepted[at] += 1;
    }
    assert!(accepted.iter().all(|count| *count > 0), "{accepted:?}");
}
