//! DMBs that connections with the same process use one after another.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, Instant};

use super::alone;
use crate::common::children::{become_user, can_become_others, fork};
use crate::common::{listener, settles, stack};
use smc_sockets::{SmcListener, SmcStream, Stack};

/// Lengths of DMBs.
const DMB: u64 = 1 << 20;

/// The files of DMBs that this process has mapped.
fn dmbs() -> BTreeSet<u64> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let file = |line: &str| {
        let mut words = line.split_whitespace();
        let (begin, end) = words.next()?.split_once('-')?;
        let [begin, end] = [begin, end].map(|at| u64::from_str_radix(at, 16).unwrap());
        let is_dmb = line.contains("memfd:smc-d") && end - begin == DMB;
        words.nth(3).filter(|_| is_dmb)?.parse().ok()
    };
    maps.lines().filter_map(file).collect()
}

fn pair(client: &Stack, listener: &SmcListener, address: SocketAddr) -> (SmcStream, SmcStream) {
    let near = SmcStream::connect_on(client, address).unwrap();
    let (far, _) = listener.accept().unwrap();
    assert!(near.carrier().is_smc(), "{}", near.carrier());
    (near, far)
}

/// Bytes are sent in both directions, then both sides close.
fn use_and_close((mut near, mut far): (SmcStream, SmcStream)) {
    let mut bytes = [0; 5];
    near.write_all(b"there").unwrap();
    far.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"there");
    far.write_all(b"and b").unwrap();
    near.read_exact(&mut bytes).unwrap();
    assert_eq!(&bytes, b"and b");
    drop(near);
    assert_eq!(far.read(&mut bytes).unwrap(), 0);
}

//= SHM-057 test
#[test]
fn connections_one_after_another_use_the_same_dmbs() {
    if !alone(&connections_one_after_another_use_the_same_dmbs) {
        return;
    }
    let (listener, address) = listener();
    let client = stack();
    let first = pair(&client, &listener, address);
    let files = dmbs();
    assert_eq!(files.len(), 2, "one of each side");
    use_and_close(first);
    for _ in 0..20 {
        // The end of the one before is taken in by the drivers.
        std::thread::sleep(Duration::from_millis(5));
        use_and_close(pair(&client, &listener, address));
    }
    let after = dmbs();
    assert!(
        after.len() <= 4 && files.is_subset(&after),
        "{files:?}: {after:?}"
    );
    assert!(settles(Duration::from_secs(10), || dmbs().is_empty()));
}

/// The DMBs of connections that end at about the same time are kept for the next ones, as few
/// bytes were received in each, and none for long.
//= SHM-057 test
#[test]
fn the_dmbs_of_many_connections_are_used_again_within_a_second() {
    if !alone(&the_dmbs_of_many_connections_are_used_again_within_a_second) {
        return;
    }
    let (listener, address) = listener();
    let client = stack();
    let crowd = || -> Vec<_> { (0..20).map(|_| pair(&client, &listener, address)).collect() };
    let first = crowd();
    let files = dmbs();
    assert_eq!(files.len(), 40, "one of each side of each");
    let begin = Instant::now();
    first.into_iter().for_each(use_and_close);
    // The ends of the last ones are handled by the drivers.
    std::thread::sleep(Duration::from_millis(50));
    let second = crowd();
    let took = begin.elapsed();
    let again = dmbs().intersection(&files).count();
    assert!(
        again >= 30 || took > Duration::from_millis(900),
        "{again} of 40 after {took:?}"
    );
    second.into_iter().for_each(use_and_close);
    assert!(settles(Duration::from_secs(10), || dmbs().is_empty()));
}

/// A worker that has become a user of its own, as those of nginx do, and clients of that user, of
/// another one and of root. Each connection but the first is announced, and each uses the same DMBs.
//= SHM-057 test
//= SHM-065 test
#[test]
fn processes_of_different_users_use_the_same_dmbs() {
    const CONNECTIONS: usize = 20;
    if !can_become_others() || !alone(&processes_of_different_users_use_the_same_dmbs) {
        return;
    }
    let server = stack();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    server.announce_listener(&listener).unwrap();
    let address = listener.local_addr().unwrap();
    let users = [0, 2_123_001, 2_123_002];
    let worker = fork(|| {
        become_user(2_123_001);
        for _ in 0..users.len() * CONNECTIONS {
            let (tcp, _) = listener.accept().unwrap();
            let mut stream = server.accepted(tcp).unwrap().wait().unwrap();
            let mut bytes = [0; 5];
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes).unwrap();
            assert_eq!(stream.read(&mut bytes).unwrap(), 0);
        }
    });
    for uid in users {
        let client = fork(|| {
            if uid > 0 {
                become_user(uid);
            }
            let (client, mut used) = (stack(), BTreeSet::new());
            for _ in 0..CONNECTIONS {
                let mut stream = SmcStream::connect_on(&client, address).unwrap();
                assert!(stream.carrier().is_smc(), "{}", stream.carrier());
                used.append(&mut dmbs());
                let mut bytes = [0; 5];
                stream.write_all(b"there").unwrap();
                stream.read_exact(&mut bytes).unwrap();
                assert_eq!(&bytes, b"there");
                drop(stream);
                // The end is taken in by the drivers.
                std::thread::sleep(Duration::from_millis(5));
            }
            assert!(used.len() <= 6, "user {uid}: {} DMBs", used.len());
        });
        client.succeeds();
    }
    worker.succeeds();
}
