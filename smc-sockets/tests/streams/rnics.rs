//! Streams over RNICs: what only they have, and the scenarios of `streams` for which the engine has
//! another path with them. What a program may rely on as with TCP is in `as_tcp`.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::rnics::{Hosts, rnics};
use crate::common::{octets, scenarios, settles};
use rustix::event::{PollFd, PollFlags};
use smc_proto::wire::types::DiagnosisCode;
use smc_sockets::{Cause, Limit, Rnics, Settings, Side, SmcListener, SmcStream, Stack};
use smc_transport_verbs::network::Network;
use smc_transport_verbs::paths::Surroundings;
use smc_transport_verbs::pnet::PnetTable;
use smc_transport_verbs::soft::{Fabric, SoftRnic};

const LONG: Duration = Duration::from_secs(10);

#[test]
fn octets_come_back_and_nothing_is_left() {
    let hosts = Hosts::new();
    let (client, server) = hosts.pair();
    scenarios::every_octet_comes_back(client, server, &octets(8 << 20));
    let fabric = hosts.fabric.clone();
    drop(hosts);
    // Each side notified the other that the links go; neither waits for a timer of its own.
    assert!(settles(LONG, || fabric.usage() == (0, 0)));
}

/// A program that ends right after it has written.
#[test]
fn who_waits_for_the_end_of_a_stack_leaves_nothing_on_the_way() {
    let hosts = Hosts::new();
    let (mut client, mut server) = hosts.pair();
    let sent = octets(100_000);
    client.write_all(&sent).unwrap();
    let Hosts {
        fabric,
        client: stack,
        server: peer,
    } = hosts;
    // A stream keeps the stack running.
    assert!(!stack.clone().end(Duration::from_millis(50)));
    drop(client);
    let mut received = Vec::new();
    server.read_to_end(&mut received).unwrap();
    assert!(received == sent);
    drop(server);
    assert!(stack.end(LONG));
    // The peer knows that the links go.
    assert!(peer.end(LONG));
    assert_eq!(fabric.usage(), (0, 0));
}

/// A program that ends right after it has written, and keeps its streams.
#[test]
fn a_stack_that_is_flushed_has_nothing_on_the_way() {
    let hosts = Hosts::new();
    let (mut client, mut server) = hosts.pair();
    assert!(hosts.client.flush(LONG));
    // More than the ring of the peer has room for.
    client.set_nonblocking(true).unwrap();
    let mut sent = Vec::new();
    let piece = octets(1 << 20);
    while let Ok(len) = client.write(&piece) {
        sent.extend_from_slice(&piece[..len]);
    }
    assert!(!hosts.client.flush(Duration::from_millis(50)));
    let reads = std::thread::spawn(move || {
        let mut received = Vec::new();
        server.read_to_end(&mut received).map(|_| received)
    });
    assert!(hosts.client.flush(LONG));
    // The end of the stream, of which no handle is left, is waited for as well.
    drop(client);
    assert!(hosts.client.flush(LONG));
    assert!(reads.join().unwrap().unwrap() == sent);
}

#[test]
fn after_half_a_close_the_other_half_goes_on() {
    let hosts = Hosts::new();
    let (client, server) = hosts.pair();
    scenarios::after_half_a_close_the_other_half_goes_on(client, server);
}

#[test]
fn who_drops_unread_octets_resets_the_peer() {
    let hosts = Hosts::new();
    let (client, server) = hosts.pair();
    scenarios::who_drops_unread_octets_resets_the_peer(client, server);
}

/// More connections than one link group holds, side by side, and then one after the other.
#[test]
fn hundreds_of_connections_share_links() {
    const MANY: usize = 300;
    let mut settings = Settings::default();
    settings.buffer = Some(16 << 10);
    let hosts = Hosts::with(1, settings);
    let listener = hosts.listener();
    let address = listener.local_addr().unwrap();
    let serving = std::thread::spawn(move || {
        let streams: Vec<_> = (0..MANY).map(|_| listener.accept().unwrap().0).collect();
        for mut stream in &streams {
            let mut text = [0; 8];
            stream.read_exact(&mut text).unwrap();
            stream.write_all(&text).unwrap();
        }
        for _ in 0..MANY {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"once").unwrap();
        }
    });
    let connect = || {
        let stream = SmcStream::connect_on(&hosts.client, address).unwrap();
        assert_eq!(stream.carrier().to_string(), "SMC-R v2.1");
        stream
    };
    let streams: Vec<_> = (0..MANY).map(|_| connect()).collect();
    for (at, mut stream) in streams.iter().enumerate() {
        stream.write_all(&(at as u64).to_be_bytes()).unwrap();
    }
    for (at, mut stream) in streams.iter().enumerate() {
        let mut text = [0; 8];
        stream.read_exact(&mut text).unwrap();
        assert_eq!(text, (at as u64).to_be_bytes());
    }
    // Two groups of one link each, at either side.
    let (regions, queue_pairs) = hosts.fabric.usage();
    assert_eq!(queue_pairs, 4);
    drop(streams);
    for _ in 0..MANY {
        let mut text = String::new();
        connect().read_to_string(&mut text).unwrap();
        assert_eq!(text, "once");
    }
    serving.join().unwrap();
    // Neither links nor memory grow with the number of connections that have ended.
    let (after, links) = hosts.fabric.usage();
    // A connection may begin before the last one has ended.
    assert!(
        after < regions + MANY / 4 && links == queue_pairs,
        "{regions} {after}"
    );
}

#[test]
fn connecting_takes_no_thread_and_its_end_is_reported() {
    let hosts = Hosts::new();
    let listener = hosts.listener();
    let address = listener.local_addr().unwrap();
    let mut first = Duration::ZERO;
    for _ in 0..20 {
        let connecting = SmcStream::begin_connect(&hosts.client, address).unwrap();
        let begin = Instant::now();
        let mut client = loop {
            match connecting.finish() {
                Ok(stream) => break stream,
                Err(error) => assert_eq!(error.kind(), ErrorKind::WouldBlock),
            }
            let mut polled = [PollFd::new(&connecting, PollFlags::IN)];
            rustix::event::poll(&mut polled, None).unwrap();
        };
        first = first.max(begin.elapsed());
        assert_eq!(client.carrier().to_string(), "SMC-R v2.1");
        let (mut server, _) = listener.accept().unwrap();
        client.write_all(b"x").unwrap();
        server.read_exact(&mut [0; 1]).unwrap();
    }
    assert!(first < LONG);
}

#[test]
fn one_that_is_given_up_leaves_nothing_to_accept() {
    let hosts = Hosts::new();
    let listener = hosts.listener();
    let address = listener.local_addr().unwrap();
    // Of the first contact and of later ones.
    for _ in 0..10 {
        let connecting = SmcStream::begin_connect(&hosts.client, address).unwrap();
        let _ = connecting.finish();
        drop(connecting);
    }
    let mut client = SmcStream::connect_on(&hosts.client, address).unwrap();
    client.write_all(b"here").unwrap();
    // What was given up late was there for a moment, and ends.
    loop {
        let (mut server, _) = listener.accept().unwrap();
        let mut text = [0; 4];
        if server.read_exact(&mut text).is_ok() {
            assert_eq!(&text, b"here");
            break;
        }
    }
}

#[test]
fn a_connection_survives_one_of_two_links_and_not_the_last() {
    let hosts = Hosts::with(2, Settings::default());
    let (mut client, mut server) = hosts.pair();
    client.write_all(b"first").unwrap();
    server.read_exact(&mut [0; 5]).unwrap();
    // The second link is added behind the connection's back.
    assert!(settles(LONG, || hosts.fabric.usage().1 == 4));
    std::thread::sleep(Duration::from_millis(100));
    let sent = octets(4 << 20);
    std::thread::scope(|scope| {
        scope.spawn(|| (&client).write_all(&sent).unwrap());
        let mut received = vec![0; sent.len()];
        let (before, after) = received.split_at_mut(100_000);
        server.read_exact(before).unwrap();
        hosts.fabric.cut(0);
        server.read_exact(after).unwrap();
        assert!(received == sent);
    });
    for rnic in 0..4 {
        hosts.fabric.cut(rnic);
    }
    for end in [&mut client, &mut server] {
        let error = end.read(&mut [0; 1]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    }
}

/// A stack that is dropped ends its link groups, also those that the peer would keep.
#[test]
fn the_peers_links_go_with_a_stack() {
    for client_goes in [true, false] {
        let hosts = Hosts::new();
        drop(hosts.pair());
        assert!(hosts.fabric.usage().1 > 0, "an idle group stays");
        let Hosts {
            fabric,
            client,
            server,
        } = hosts;
        let (goes, stays) = match client_goes {
            true => (client, server),
            false => (server, client),
        };
        drop(goes);
        assert!(settles(LONG, || fabric.usage() == (0, 0)));
        drop(stays);
    }
}

#[test]
fn too_little_memory_to_lock_is_tcp_with_the_limit_named() {
    let hosts = Hosts::new();
    hosts.fabric.lock_at_most(200_000);
    let (mut client, mut server) = hosts.connection();
    let whys = [&client, &server].map(|end| *end.carrier().why_tcp().unwrap());
    for why in whys {
        let code = why.reason().peer_diagnosis.unwrap_or(why.reason().code);
        assert_eq!(code, DiagnosisCode::MEMORY, "{why}");
    }
    let limit = Cause::Limit(Limit::LockedMemory(200_000));
    let here = whys.iter().filter(|why| why.cause() == limit);
    assert!(here.clone().count() > 0, "{whys:?}");
    assert!(here.clone().all(|why| why.decided_by() == Side::Here));
    assert!(
        here.clone().all(|why| why.sentence().contains("200000")),
        "{whys:?}"
    );
    cross(&mut client, &mut server);
}

/// Octets cross both ways, each exactly once.
fn cross(client: &mut SmcStream, server: &mut SmcStream) {
    let sent = octets(100_000);
    std::thread::scope(|scope| {
        scope.spawn(|| (&*client).write_all(&sent).unwrap());
        scope.spawn(|| (&*server).write_all(&sent).unwrap());
        for mut end in [&*client, &*server] {
            let mut received = vec![0; sent.len()];
            end.read_exact(&mut received).unwrap();
            assert!(received == sent);
        }
    });
}

/// A stack that speaks SMC and has nothing to speak it over.
fn without_rnics() -> Stack {
    let surroundings = Surroundings::new(Network::read().unwrap(), PnetTable::default());
    let none = Rnics::new(Vec::<SoftRnic>::new(), surroundings).unwrap();
    Stack::with_rnics(Settings::default(), none.assuming_smc().alone()).unwrap()
}

#[test]
fn who_has_no_rnic_falls_back_and_not_one_octet_is_lost() {
    for client_has_none in [true, false] {
        let mut hosts = Hosts::new();
        if client_has_none {
            hosts.client = without_rnics();
        } else {
            hosts.server = without_rnics();
        }
        let listener = hosts.listener();
        let address = listener.local_addr().unwrap();
        let serving = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            // The server sends first, and overtakes what is left of the CLC messages.
            stream.write_all(b"220 ready\n").unwrap();
            stream
        });
        let mut client = SmcStream::connect_on(&hosts.client, address).unwrap();
        let mut text = [0; 10];
        client.read_exact(&mut text).unwrap();
        assert_eq!(&text, b"220 ready\n");
        let mut server = serving.join().unwrap();
        for end in [&client, &server] {
            assert!(!end.carrier().is_smc(), "{}", end.carrier());
        }
        cross(&mut client, &mut server);
        assert!(settles(LONG, || hosts.fabric.usage() == (0, 0)));
    }
}

#[test]
fn processes_of_one_host_prefer_shared_memory() {
    let fabric = Fabric::default();
    let timeouts = common::settings();
    let stack = |host| Stack::with_rnics(timeouts.clone(), rnics(&fabric, host, 1)).unwrap();
    let (client, server) = (stack(1), stack(2));
    for stack in [&client, &server] {
        assert_eq!(stack.rdma(), Ok(()));
    }
    let listener = SmcListener::on(&server, TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
    let stream = SmcStream::connect_on(&client, listener.local_addr().unwrap()).unwrap();
    let (served, _) = listener.accept().unwrap();
    assert_eq!(stream.carrier().to_string(), "SMC-D v2.1");
    scenarios::every_octet_comes_back(stream, served, &octets(100_000));
    assert_eq!(fabric.usage(), (0, 0));
}

#[test]
fn a_machine_without_rnics_says_so_and_goes_on() {
    let stack = Stack::open().unwrap();
    if let Err(why) = stack.rdma() {
        assert!(why.to_lowercase().contains("rdma"), "{why}");
    }
}

/// A port reports its carrier though no link has failed.
#[test]
fn a_port_without_carrier_has_no_link_and_one_with_carrier_gets_one() {
    let hosts = Hosts::with(2, Settings::default());
    let (mut client, mut server) = hosts.pair();
    let links = |count: usize| settles(LONG, || hosts.fabric.usage().1 == 2 * count);
    assert!(links(2));
    for (carrier, count) in [(false, 1), (true, 2), (false, 1), (true, 2)] {
        // The second RNICs of both hosts.
        for rnic in [1, 3] {
            hosts.fabric.set_carrier(rnic, carrier);
        }
        assert!(links(count));
        client.write_all(b"first").unwrap();
        server.read_exact(&mut [0; 5]).unwrap();
    }
}
