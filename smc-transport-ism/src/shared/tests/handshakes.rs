//! CLC messages in shared memory: what a peer may write there, and what comes of it.

use std::time::{Duration, Instant};

use super::{HOSTILE, joined, joined_twice, memory, send_handshakes, with_hostile};
use crate::device::{DeviceEvent, IsmDevice, IsmReport};
use crate::memory::SharedRegion;
use crate::shared::handshakes::LENGTH;
use crate::shared::message::Message;
use crate::shared::pairing::Peer;
use crate::shared::socket::Received;
use crate::shared::{Device, HANDSHAKES};

/// Two devices that have met: each may announce connections to the other.
fn met() -> (Device, Device) {
    met_as(own())
}

/// Two devices that have met, each of which takes the other for one of this user's.
fn met_as(uid: u32) -> (Device, Device) {
    let (mut one, mut two) = joined();
    for device in [&mut one, &mut two] {
        device.channels.for_each(|at| at.uid = uid);
        offer(device);
    }
    receive(&mut one);
    receive(&mut two);
    (one, two)
}

/// Offers the peer the file for its messages, over the first channel.
fn offer(device: &mut Device) {
    let key = device.channels.iter().next().unwrap().0;
    device.offer_handshakes(key);
}

/// Receives what the peer has sent, of which nothing is reported.
#[track_caller]
fn receive(device: &mut Device) {
    device.note_readable();
    assert_eq!(device.poll(), None);
}

fn own() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The peer of a device.
fn peer(device: &Device) -> Peer {
    device.channels.iter().next().unwrap().1.owner()
}

/// The device reports once that the peer rang for handshakes.
fn is_rung(device: &mut Device) -> bool {
    let gid = peer(device).gid;
    let event = IsmReport::Event(DeviceEvent::software(gid, HANDSHAKES, 0));
    let report = device.poll();
    assert!(report.is_none() || report == Some(event));
    report.is_some()
}

//= SHM-066 test
//= SHM-067 test
#[test]
fn a_handshake_takes_two_messages_of_the_client_and_one_of_the_server() {
    for uid in [own(), own() + 1] {
        handshakes_with_a_peer_of(uid);
    }
}

fn handshakes_with_a_peer_of(uid: u32) {
    let (mut client, mut server) = met_as(uid);
    let to = peer(&client);
    for round in 1..=600 {
        assert!(!server.has_announcements());
        let id = client.announce(&to, round, b"proposal").unwrap();
        assert!(!is_rung(&mut server), "the process that accepts finds it");
        assert!(server.has_announcements());
        // The kernel reports the owner of the socket.
        assert!(server.take_announcement(round + 1, uid).is_none());
        if uid != 0 {
            // Root may speak for any user.
            assert!(server.take_announcement(round, uid + 1).is_none());
        }
        let announced = server.take_announcement(round, uid).unwrap();
        assert_eq!(announced.proposal, b"proposal");
        assert!(server.take_announcement(round, uid).is_none(), "once");
        assert_eq!(client.receive_clc(id), None);
        assert!(server.send_clc(announced.id, 7, b"accept"));
        assert!(is_rung(&mut client));
        assert!(!client.take_calls_to_accept());
        let accept = client.receive_clc(id).unwrap();
        assert_eq!((accept.cookie, &accept.bytes[..]), (7, &b"accept"[..]));
        assert!(!server.has_announcements());
        assert!(client.send_clc(id, round, b"confirm"));
        client.end_handshake(id);
        assert!(!client.send_clc(id, round, b"more"), "it has ended");
        assert!(is_rung(&mut server));
        server.take_calls_to_accept();
        assert_eq!(server.receive_clc(announced.id).unwrap().bytes, b"confirm");
        assert_eq!(server.receive_clc(announced.id), None);
        server.end_handshake(announced.id);
    }
}

/// A server that has not read the client's file from the channel yet could not answer.
//= SHM-065 test
#[test]
fn a_peer_that_cannot_answer_yet_is_announced_nothing() {
    let (mut client, mut server) = joined();
    offer(&mut client);
    offer(&mut server);
    client.note_readable();
    assert_eq!(client.poll(), None, "the client has the server's file");
    let to = peer(&client);
    assert!(!client.can_announce(&to));
    assert_eq!(client.announce(&to, 1, b"proposal"), None);
    server.note_readable();
    assert_eq!(server.poll(), None, "the server has the client's file");
    assert!(client.can_announce(&to));
    let id = client.announce(&to, 1, b"proposal").unwrap();
    let announced = server.take_announcement(1, own()).unwrap();
    assert!(server.send_clc(announced.id, 7, b"accept"));
    assert_eq!(client.receive_clc(id).unwrap().bytes, b"accept");
}

/// Two processes that pair several times at once have several channels, of which each offers its
/// file over another one.
//= SHM-065 test
#[test]
fn two_channels_between_two_processes_are_as_good_as_one() {
    let (mut client, mut server) = joined_twice();
    offer(&mut client);
    offer(&mut server);
    for _ in 0..2 {
        receive(&mut client);
        receive(&mut server);
    }
    let to = peer(&client);
    let id = client.announce(&to, 1, b"proposal").unwrap();
    let announced = server.take_announcement(1, own()).unwrap();
    assert!(server.send_clc(announced.id, 7, b"accept"));
    assert_eq!(client.receive_clc(id).unwrap().bytes, b"accept");
    assert!(server.can_announce(&peer(&server)));
}

/// The server has taken the connection for one of this handshake, or for one that was not announced:
/// it expects CLC over TCP only in the latter case.
//= SHM-066 test
#[test]
fn a_client_that_gives_up_knows_whether_its_announcement_was_taken() {
    let (mut client, mut server) = met();
    let to = peer(&client);
    let taken = client.announce(&to, 1, b"proposal").unwrap();
    let announced = server.take_announcement(1, own()).unwrap();
    assert!(client.give_up_announcement(taken));
    assert!(client.send_clc(taken, 1, b"decline"));
    assert_eq!(server.receive_clc(announced.id).unwrap().bytes, b"decline");
    client.end_handshake(taken);
    server.end_handshake(announced.id);
    let waiting = client.announce(&to, 2, b"proposal").unwrap();
    assert!(server.has_announcements());
    assert!(!client.give_up_announcement(waiting));
    assert!(!server.has_announcements());
    // Also before the client has written its Decline.
    assert!(server.take_announcement(2, own()).is_none());
    assert!(client.send_clc(waiting, 2, b"decline"));
    client.end_handshake(waiting);
    assert!(server.take_announcement(2, own()).is_none());
}

/// The last message of a client stays until the server has read it.
//= SHM-066 test
#[test]
fn a_slot_is_used_again_only_when_the_server_has_ended_the_handshake() {
    let (mut client, mut server) = met();
    let to = peer(&client);
    let mut waiting = Vec::new();
    for cookie in 1..=256 {
        let id = client.announce(&to, cookie, b"proposal").unwrap();
        let announced = server.take_announcement(cookie, own()).unwrap();
        assert!(client.send_clc(id, cookie, &cookie.to_ne_bytes()));
        client.end_handshake(id);
        waiting.push((cookie, announced.id));
    }
    assert_eq!(client.announce(&to, 1000, b"proposal"), None);
    for (cookie, id) in waiting {
        assert_eq!(server.receive_clc(id).unwrap().bytes, cookie.to_ne_bytes());
        server.end_handshake(id);
        let again = client.announce(&to, 1000 + cookie, b"proposal").unwrap();
        assert_eq!(server.receive_clc(id), None, "of another handshake");
        assert!(server.take_announcement(1000 + cookie, own()).is_some());
        assert!(client.receive_clc(again).is_none());
    }
}

/// A handshake that its server never ends takes one slot for a while, and no further one.
//= SHM-066 test
#[test]
fn a_handshake_that_the_server_does_not_end_keeps_no_other_slot() {
    let (mut client, mut server) = met();
    let to = peer(&client);
    for cookie in 1..=20 {
        let id = client.announce(&to, cookie, b"proposal").unwrap();
        // The server never takes it.
        client.end_handshake(id);
    }
    for cookie in 100..1100 {
        let id = client.announce(&to, cookie, b"proposal").unwrap();
        let announced = server.take_announcement(cookie, own()).unwrap();
        client.end_handshake(id);
        server.end_handshake(announced.id);
    }
}

//= SHM-068 test
#[test]
fn a_client_that_is_not_accepted_asks_for_it() {
    let (mut client, mut server) = met();
    let to = peer(&client);
    let id = client.announce(&to, 1, b"proposal").unwrap();
    client.ask_to_accept(id);
    assert!(is_rung(&mut server));
    assert!(server.take_calls_to_accept());
    assert!(!server.take_calls_to_accept());
    client.end_handshake(id);
    assert!(!server.has_announcements(), "given up");
    assert!(server.take_announcement(1, own()).is_none());
}

/// Everything that a peer can write is tried: nothing is read beyond a slot, and what is no
/// message is none.
//= SHM-065 test
#[test]
fn what_a_peer_writes_at_random_is_no_announcement() {
    let (mut device, far, _doorbells) = with_hostile();
    offer(&mut device);
    let Received::Message(Message::Handshakes { .. }, Some(file)) = far.receive() else {
        panic!("no file")
    };
    let region = SharedRegion::open(&file, LENGTH).unwrap();
    for fill in [0xff, 0x01, 0x80] {
        region.copy_in(0, &vec![fill; LENGTH as usize]).unwrap();
        assert!(device.has_announcements());
        let cookie = u64::from_ne_bytes([fill; 8]);
        assert!(device.take_announcement(cookie, own()).is_none());
        assert!(device.take_announcement(1, own()).is_none());
    }
    // A message with a length greater than its slot's.
    region.copy_in(0, &vec![0; LENGTH as usize]).unwrap();
    for (at, word) in [(0, 1_u64), (8, 1), (16, 5)] {
        region.copy_in(at, &word.to_ne_bytes()).unwrap();
    }
    for (at, word) in [(4096, (1_u64 << 32) | 1), (4104, 5), (4112, 489)] {
        region.copy_in(at, &word.to_ne_bytes()).unwrap();
    }
    assert!(device.take_announcement(5, own()).is_none());
    region.copy_in(4112, &488_u64.to_ne_bytes()).unwrap();
    // A peer that has sent no file could not be answered.
    assert!(device.take_announcement(5, own()).is_none());
    let file = memory(LENGTH);
    send_handshakes(&far, &file);
    receive(&mut device);
    let announced = device.take_announcement(5, own()).unwrap();
    assert_eq!(
        (announced.proposal.len(), announced.peer.gid),
        (488, HOSTILE)
    );
    assert!(device.send_clc(announced.id, 5, b"accept"));
    // A peer that has not mapped this side's file could not answer.
    assert_eq!(device.announce(&announced.peer, 1, b"proposal"), None);
}

/// A peer sends the file once, and one of the right kind.
//= SHM-065 test
#[test]
fn a_peer_has_one_file_for_handshakes() {
    let files = |count: usize, len: u32| -> Vec<_> { (0..count).map(|_| memory(len)).collect() };
    for (files, ends) in [
        (files(1, LENGTH), false),
        (files(2, LENGTH), true),
        (files(1, LENGTH + 4096), true),
    ] {
        for uid in [own(), own() + 1] {
            let (mut device, far, _doorbells) = with_hostile();
            device.channels.for_each(|at| at.uid = uid);
            offer(&mut device);
            offer(&mut device);
            let offered = far.receive();
            let is_file = |at| matches!(at, Received::Message(Message::Handshakes { .. }, Some(_)));
            assert!(is_file(offered) && matches!(far.receive(), Received::Nothing));
            files.iter().for_each(|file| send_handshakes(&far, file));
            device.note_readable();
            let vanished = IsmReport::Event(DeviceEvent::vanished(HOSTILE));
            assert_eq!(device.poll(), ends.then_some(vanished));
        }
    }
}

/// What this side has written to a stranger's file, and read of its own, is freed by a thread when
/// the channel ends, though the peer keeps both files.
//= SHM-051 test
//= SHM-056 test
#[test]
fn files_for_handshakes_are_empty_after_the_channel() {
    let (mut device, far, _doorbells) = with_hostile();
    device.channels.for_each(|at| at.uid = own() + 1);
    offer(&mut device);
    let Received::Message(Message::Handshakes { .. }, Some(ours)) = far.receive() else {
        panic!("no file")
    };
    let theirs = memory(LENGTH);
    send_handshakes(&far, &theirs);
    receive(&mut device);
    assert!(!device.has_announcements());
    let region = SharedRegion::open(&ours, LENGTH).unwrap();
    region.copy_in(0, &vec![1; LENGTH as usize]).unwrap();
    let taken = |file| rustix::fs::fstat(file).unwrap().st_blocks;
    assert!(taken(&ours) > 0 && taken(&theirs) > 0);
    drop(far);
    device.note_readable();
    while device.poll().is_some() {}
    let end = Instant::now() + Duration::from_secs(10);
    while taken(&ours) > 0 || taken(&theirs) > 0 {
        assert!(Instant::now() < end, "pages stay");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A process of a stranger's may have more connections under way than offers that are kept for
/// nothing.
//= SHM-041 test
#[test]
fn each_connection_that_a_stranger_announces_may_bring_an_offer() {
    let (mut client, mut server) = met_as(own() + 1);
    let to = peer(&client);
    let (at_server, at_client) = (peer(&client).gid, peer(&server).gid);
    let mut offers = Vec::new();
    for cookie in 1..=100 {
        client.announce(&to, cookie, b"proposal").unwrap();
        server.take_announcement(cookie, own() + 1).unwrap();
        // The server offers its DMB with the Accept, the client with the Confirm.
        let of_server = server.register_dmb(1 << 16, at_client, None).unwrap();
        let of_client = client.register_dmb(1 << 16, at_server, None).unwrap();
        client.note_readable();
        server.note_readable();
        let mut tokens = [None; 2];
        for (device, token) in [&mut server, &mut client].into_iter().zip(&mut tokens) {
            while let Some(report) = device.poll() {
                if let IsmReport::DmbRegistered { token: of, .. } = report {
                    *token = Some(of);
                }
            }
        }
        offers.push((tokens.map(Option::unwrap), of_server, of_client));
    }
    for ([of_server, of_client], ..) in offers {
        client.attach_dmb(at_server, of_server, 1 << 16).unwrap();
        server.attach_dmb(at_client, of_client, 1 << 16).unwrap();
    }
}
