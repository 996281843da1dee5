//! Urgent bytes: each test runs over TCP and over RNICs, too.
#![cfg(target_os = "linux")]

use std::io::{self, ErrorKind};
use std::time::{Duration, Instant};

use crate::common;
use common::Random;
use common::ends::{End, LONG, is_readable, over_all};
use smc_sockets::SmcStream;

over_all! {
    an_urgent_octet_is_ahead_of_the_others
    an_urgent_byte_that_is_not_taken_is_left_out
    an_urgent_octet_is_read_in_its_place_by_who_wants_that
    without_an_urgent_octet_there_is_none
    an_urgent_octet_by_itself_is_nothing_to_read
    looking_ends_at_the_mark
    looking_at_the_urgent_byte_leaves_it
    an_urgent_byte_that_was_received_is_read_in_its_place_later
    a_stream_that_is_dropped_at_the_mark_is_reset
    urgent_octets_anywhere_cost_no_other
}

/// Whether the stream is at the urgent mark, for which std has no call.
trait Marked {
    fn is_at_mark(&self) -> bool;
}

impl Marked for SmcStream {
    fn is_at_mark(&self) -> bool {
        self.at_mark().unwrap()
    }
}

impl Marked for common::ends::OverRnics {
    fn is_at_mark(&self) -> bool {
        self.stream().at_mark().unwrap()
    }
}

impl Marked for std::net::TcpStream {
    fn is_at_mark(&self) -> bool {
        // A stream of this crate that has never been SMC.
        SmcStream::from(self.try_clone().unwrap()).is_at_mark()
    }
}

/// Waits for the urgent byte and returns it.
fn urgent(end: &impl End) -> io::Result<u8> {
    let begin = Instant::now();
    loop {
        match end.receive_urgent() {
            Err(_) if begin.elapsed() < LONG => std::thread::sleep(Duration::from_millis(1)),
            outcome => return outcome,
        }
    }
}

/// Reads once, into a buffer that is large enough for everything.
fn read(end: &impl End) -> String {
    let mut octets = [0; 64];
    let len = end.get(&mut octets).unwrap();
    String::from_utf8(octets[..len].to_vec()).unwrap()
}

/// Reads this number of bytes.
fn read_all(end: &impl End, len: usize) -> String {
    let mut all = String::new();
    while all.len() < len {
        all += &read(end);
    }
    all
}

/// A connection with `abc` before and `ef` behind an urgent `!`, when all has come that
/// comes before something is read.
fn marked<E: End + Marked>() -> (E, E) {
    let (client, server) = E::pair();
    client.put(b"ab").unwrap();
    assert_eq!(client.send_urgent(b"c!").unwrap(), 2);
    client.put(b"ef").unwrap();
    assert!(is_readable(&server, LONG));
    std::thread::sleep(Duration::from_millis(50));
    (client, server)
}

fn an_urgent_octet_is_ahead_of_the_others<E: End + Marked>() {
    let (_client, server) = marked::<E>();
    assert!(!server.is_at_mark());
    assert_eq!(urgent(&server).unwrap(), b'!');
    let error = server.receive_urgent().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(read_all(&server, 3), "abc");
    assert!(server.is_at_mark());
    assert_eq!(read_all(&server, 2), "ef");
    assert!(!server.is_at_mark());
}

fn an_urgent_byte_that_is_not_taken_is_left_out<E: End + Marked>() {
    let (_client, server) = marked::<E>();
    assert_eq!(read_all(&server, 3), "abc");
    assert!(server.is_at_mark());
    assert_eq!(read_all(&server, 2), "ef");
    let error = server.receive_urgent().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}

fn an_urgent_octet_is_read_in_its_place_by_who_wants_that<E: End + Marked>() {
    let (client, server) = E::pair();
    server.set_urgent_inline(true).unwrap();
    client.put(b"abc").unwrap();
    client.send_urgent(b"!").unwrap();
    client.put(b"ef").unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let error = server.receive_urgent().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(read_all(&server, 3), "abc");
    assert!(server.is_at_mark());
    assert_eq!(read_all(&server, 3), "!ef");
    assert!(!server.is_at_mark());
}

fn without_an_urgent_octet_there_is_none<E: End + Marked>() {
    let (client, server) = E::pair();
    client.put(b"abc").unwrap();
    assert!(is_readable(&server, LONG));
    let error = server.receive_urgent().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(!server.is_at_mark());
}

fn an_urgent_octet_by_itself_is_nothing_to_read<E: End + Marked>() {
    let (client, server) = E::pair();
    client.send_urgent(b"!").unwrap();
    assert_eq!(urgent(&server).unwrap(), b'!');
    server.set_nonblocking(true).unwrap();
    let error = server.get(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock);
    assert!(!is_readable(&server, Duration::from_millis(20)));
    client.put(b"x").unwrap();
    assert!(is_readable(&server, LONG));
    assert_eq!(read(&server), "x");
}

fn looking_ends_at_the_mark<E: End + Marked>() {
    let (_client, server) = marked::<E>();
    let mut octets = [0; 64];
    assert_eq!(server.peek(&mut octets).unwrap(), 3);
    assert_eq!(&octets[..3], b"abc");
    assert!(!server.is_at_mark());
    assert_eq!(read_all(&server, 3), "abc");
    assert!(is_readable(&server, LONG));
    assert!(server.is_at_mark());
    assert_eq!(server.peek(&mut octets).unwrap(), 2);
    assert!(server.is_at_mark());
}

fn looking_at_the_urgent_byte_leaves_it<E: End + Marked>() {
    let (_client, server) = marked::<E>();
    for _ in 0..2 {
        assert_eq!(server.peek_urgent().unwrap(), b'!');
    }
    assert_eq!(server.receive_urgent().unwrap(), b'!');
    let error = server.peek_urgent().unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert_eq!(read_all(&server, 5), "abcef");
}

fn an_urgent_byte_that_was_received_is_read_in_its_place_later<E: End + Marked>() {
    let (_client, server) = marked::<E>();
    assert_eq!(urgent(&server).unwrap(), b'!');
    server.set_urgent_inline(true).unwrap();
    assert_eq!(read_all(&server, 3), "abc");
    assert!(server.is_at_mark());
    assert_eq!(read_all(&server, 3), "!ef");
}

fn a_stream_that_is_dropped_at_the_mark_is_reset<E: End + Marked>() {
    let (client, server) = E::pair();
    client.send_urgent(b"!").unwrap();
    assert_eq!(urgent(&server).unwrap(), b'!');
    drop(server);
    let error = client.get(&mut [0; 8]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
}

fn urgent_octets_anywhere_cost_no_other<E: End + Marked>() {
    const ROUNDS: u64 = 60;
    let (client, server) = E::pair();
    // In step, so that each is taken before the next: one is all that TCP keeps.
    let mut random = Random::new(7);
    let (mut sent, mut got) = (0u64, 0u64);
    let mut octets = vec![0; 1 << 20];
    for round in 0..ROUNDS {
        let before = random.below(40_000) as usize;
        let body: Vec<u8> = (0..before).map(|at| (sent + at as u64) as u8).collect();
        client.put(&body).unwrap();
        sent += before as u64;
        client.send_urgent(&[round as u8]).unwrap();
        assert_eq!(urgent(&server).unwrap(), round as u8);
        while got < sent {
            let len = server.get(&mut octets).unwrap();
            let expected = |(at, octet): (usize, &u8)| *octet == (got + at as u64) as u8;
            assert!(octets[..len].iter().enumerate().all(expected));
            got += len as u64;
        }
        assert!(server.is_at_mark());
    }
}
