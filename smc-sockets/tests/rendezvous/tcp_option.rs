//! The TCP option, in a network of its own: which side sends it, which side receives it, and that
//! no other segments have it.
//!
//! Without the rights for BPF the tests say so and are skipped.

use super::network;

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, SocketType, bind, connect, listen, socket};
use smc_sockets::tcp_option::{Marks, OptionError, TcpOption};

use super::network::{Seen, Wire, with_option};

/// A connection whose ends asked for the option or not: both verdicts, and what was on
/// the wire.
fn watched(marks: &Marks, local: SocketAddr, asked: (bool, bool)) -> (bool, bool, Seen) {
    let wire = Wire::tap();
    let (client, server, port) = verdicts(marks, local, asked);
    (client, server, wire.seen(port))
}

/// Both verdicts without a capture, and the listener's port.
fn verdicts(marks: &Marks, local: SocketAddr, asked: (bool, bool)) -> (bool, bool, u16) {
    let family = if local.is_ipv4() {
        AddressFamily::INET
    } else {
        AddressFamily::INET6
    };
    let listener = socket(family, SocketType::STREAM, None).unwrap();
    bind(&listener, &local).unwrap();
    if asked.1 {
        marks.opt_in(&listener).unwrap();
    }
    listen(&listener, 8).unwrap();
    let listener = TcpListener::from(listener);
    let client = socket(family, SocketType::STREAM, None).unwrap();
    if asked.0 {
        marks.opt_in(&client).unwrap();
    }
    connect(&client, &listener.local_addr().unwrap()).unwrap();
    let mut client = TcpStream::from(client);
    let (mut server, _) = listener.accept().unwrap();
    // The option takes no byte of data away.
    client.write_all(b"ping").unwrap();
    let mut octets = [0; 4];
    server.read_exact(&mut octets).unwrap();
    assert_eq!(&octets, b"ping");
    let verdicts = (
        marks.verdict(&client).unwrap(),
        marks.verdict(&server).unwrap(),
    );
    (
        verdicts.0,
        verdicts.1,
        listener.local_addr().unwrap().port(),
    )
}

fn four_cases(marks: &Marks, local: SocketAddr) {
    for asked in [(true, true), (true, false), (false, true), (false, false)] {
        let both = asked == (true, true);
        let (client, server, seen) = watched(marks, local, asked);
        assert_eq!((client, server), (both, both), "asked {asked:?} of {local}");
        assert_eq!(seen.syn, asked.0, "SYN, asked {asked:?} of {local}");
        assert_eq!(seen.syn_ack, both, "SYN-ACK, asked {asked:?} of {local}");
        assert!(!seen.later, "no later segment, asked {asked:?} of {local}");
    }
}

#[test]
fn both_sides_get_the_option_exactly_when_both_ask_over_ipv4() {
    with_option(|option| four_cases(option.marks(), (Ipv4Addr::LOCALHOST, 0).into()));
}

#[test]
fn both_sides_get_the_option_exactly_when_both_ask_over_ipv6() {
    with_option(|option| four_cases(option.marks(), (Ipv6Addr::LOCALHOST, 0).into()));
}

/// A listener that sends cookies forgets what the SYN said: the client must not believe
/// in a server that will not know.
#[test]
fn under_syn_cookies_neither_side_gets_the_option() {
    with_option(|option| {
        // That of this thread's network.
        std::fs::write("/proc/sys/net/ipv4/tcp_syncookies", "2").expect("a cookie for each SYN");
        for local in [
            SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            SocketAddr::from((Ipv6Addr::LOCALHOST, 0)),
        ] {
            let (client, server, seen) = watched(option.marks(), local, (true, true));
            assert!(seen.syn, "the SYN does not know of cookies");
            assert_eq!(
                (client, server, seen.syn_ack),
                (false, false, false),
                "{local}"
            );
        }
    });
}

/// Asking after `listen` changes nothing, for better or worse.
#[test]
fn a_listener_asked_for_after_listen_is_too_late_and_harmless() {
    with_option(|option| {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        option.marks().opt_in(&listener).unwrap();
        let client = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        option.marks().opt_in(&client).unwrap();
        connect(&client, &listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        assert!(!option.marks().verdict(&client).unwrap());
        assert!(!option.marks().verdict(&server).unwrap());
    });
}

/// Detached, no socket sends the option any more; a map outlives the program.
#[test]
fn without_the_program_nothing_is_sent() {
    with_option(|_| {
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        let option = TcpOption::attach().unwrap();
        let marks = Marks::try_from(copy(option.marks())).unwrap();
        let (client, server, _) = verdicts(&marks, local, (true, true));
        assert!(client && server);
        drop(option);
        let (client, server, seen) = watched(&marks, local, (true, true));
        assert_eq!((client, server, seen), (false, false, Seen::default()));
    });
}

/// A map that is handed on works without any right; only a map of this kind is taken.
#[test]
fn a_process_without_rights_asks_through_the_map() {
    with_option(|option| {
        let marks = Marks::try_from(copy(option.marks())).unwrap();
        network::give_up_rights();
        match TcpOption::attach() {
            Err(OptionError::MissingCapabilities(names)) => {
                assert_eq!(names, "CAP_BPF and CAP_NET_ADMIN");
            }
            other => panic!("attached without rights: {other:?}"),
        }
        let local = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
        for asked in [(true, true), (true, false), (false, true), (false, false)] {
            let both = asked == (true, true);
            let (client, server, _) = verdicts(&marks, local, asked);
            assert_eq!((client, server), (both, both), "asked {asked:?}");
        }
        let other = std::fs::File::open("/dev/null").unwrap();
        assert!(Marks::try_from(OwnedFd::from(other)).is_err());
    });
}

fn copy(marks: &Marks) -> OwnedFd {
    marks.as_fd().try_clone_to_owned().unwrap()
}
