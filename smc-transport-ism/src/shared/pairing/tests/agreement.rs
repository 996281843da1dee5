//! Both ends of a connection come to the same.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd;

use super::{PATIENT, SOON, World, connect, is_plain, next, paired};
use crate::device::{IsmDevice, IsmReport};
use crate::shared::pairing::PairingTimeouts;

//= SHM-001 test
//= SHM-008 test
#[test]
fn both_ends_pair_whatever_the_address() {
    for (bound, called) in [
        ("127.0.0.1:0", "127.0.0.1"),
        ("0.0.0.0:0", "127.0.0.1"),
        ("0.0.0.0:0", "127.0.0.7"),
        ("[::]:0", "127.0.0.1"),
        ("[::]:0", "::1"),
        ("[::1]:0", "::1"),
        ("0.0.0.0:0", "::ffff:127.0.0.1"),
        ("[::]:0", "::ffff:127.0.0.1"),
        ("[::ffff:127.0.0.1]:0", "127.0.0.1"),
    ] {
        let mut world = World::new(bound);
        let to = SocketAddr::new(called.parse().unwrap(), world.address().port());
        let (tcp, call) = connect(to, world.client.facts().gid, PATIENT);
        let (_accepted, answer) = world.accept();
        let call = call.unwrap_or_else(|| panic!("{bound} {called}"));
        let [one, two] = world.settle(&tcp, call, answer.unwrap());
        world.client.admit(paired(one)).unwrap();
        world.server.admit(paired(two)).unwrap();

        let World {
            mut server,
            mut client,
            ..
        } = world;
        server
            .register_dmb(16384, client.facts().gid, None)
            .unwrap();
        let IsmReport::DmbRegistered { dmb, token } = next(&mut server) else {
            panic!()
        };
        let remote = client.attach_dmb(server.facts().gid, token, 16384).unwrap();
        client.move_cdc(remote, 0, 0, &[5; 32], true).unwrap();
        let signalled = IsmReport::Signalled {
            dmb,
            mask: 0x8000,
            cdc: [5; 32],
        };
        assert_eq!(next(&mut server), signalled);
    }
}

/// Both ends write what they came to, and read the same, whatever the order of
/// things: clients that call or not, servers that answer or not, and hurry.
//= SHM-001 test
#[test]
fn both_ends_always_agree() {
    let mut world = World::new("127.0.0.1:0");
    let address = world.address();
    let gid = world.client.facts().gid;
    let hasty = PairingTimeouts {
        accept: SOON,
        grace: SOON / 20,
        go: SOON / 20,
    };
    // A client that fails ends the test: nothing waits for the connections it does not make.
    let serving = std::thread::spawn(move || {
        let mut answers = Vec::new();
        for round in 0..240u64 {
            let mut accepted = world.listener.accept().unwrap().0;
            let timeouts = if round % 3 == 0 { hasty } else { PATIENT };
            let answer = world.rendezvous.answer(&accepted, |_| false, &timeouts);
            answers.push(std::thread::spawn(move || {
                let outcome = answer.map(|answer| answer.finish().unwrap());
                let smc = outcome.is_some_and(|at| !is_plain(&at));
                exchange(&mut accepted, smc);
                smc
            }));
        }
        let spoken = answers.into_iter().map(|answer| answer.join().unwrap());
        spoken.filter(|smc| *smc).count()
    });
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            scope.spawn(move || {
                for round in 0..60u64 {
                    let (mut tcp, call) = match (thread + round) % 3 {
                        0 => (TcpStream::connect(address).unwrap(), None),
                        _ => connect(address, gid, if round % 2 == 0 { PATIENT } else { hasty }),
                    };
                    let outcome = call.map(|call| call.finish(&tcp, |_| false).unwrap());
                    exchange(&mut tcp, outcome.is_some_and(|at| !is_plain(&at)));
                }
            });
        }
    });
    let spoken = serving.join().unwrap();
    assert!(spoken > 0 && spoken <= 160, "{spoken} of 240 connections");
}

fn exchange(tcp: &mut TcpStream, smc: bool) {
    tcp.write_all(&[u8::from(smc)]).unwrap();
    let mut byte = [0];
    tcp.read_exact(&mut byte).unwrap();
    assert_eq!(
        byte,
        [u8::from(smc)],
        "the other end came to something else"
    );
}

#[test]
fn the_descriptors_of_both_sides_are_pollable() {
    let mut world = World::new("127.0.0.1:0");
    let (_tcp, call) = world.connect(PATIENT);
    assert_eq!(call.as_ref().unwrap().sockets().len(), 1);
    let (_accepted, answer) = world.accept();
    assert_eq!(answer.as_ref().unwrap().sockets().len(), 1);
    let client = call.as_ref().unwrap().sockets()[0];
    let polled = &mut [rustix::event::PollFd::new(
        &client,
        rustix::event::PollFlags::IN,
    )];
    assert_eq!(
        rustix::event::poll(polled, Some(&Default::default())).unwrap(),
        1
    );
    let _ = world.server.as_fd();
}
