//! Two stacks, as if they were two processes, and octets to send.
#![allow(dead_code)]

use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use smc_sockets::{Patience, Settings, SmcListener, SmcStream, Stack};

/// A stack that takes its time: tests run on busy machines.
pub(crate) fn stack() -> Stack {
    const LONG: Duration = Duration::from_secs(30);
    let mut settings = Settings::default();
    settings.patience = Patience {
        accept: LONG,
        grace: LONG,
        go: LONG,
    };
    Stack::with(settings).unwrap()
}

/// A listener with a stack of its own.
pub(crate) fn listener() -> (SmcListener, SocketAddr) {
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let listener = SmcListener::on(&stack(), tcp).unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

/// Both ends of an SMC connection.
pub(crate) fn pair() -> (SmcStream, SmcStream) {
    let (listener, address) = listener();
    let client = SmcStream::connect_on(&stack(), address).unwrap();
    let (server, _) = listener.accept().unwrap();
    for end in [&client, &server] {
        assert_eq!(end.carrier().to_string(), "SMC-D v2.1");
    }
    (client, server)
}

/// Octets that look random and tell their place.
pub(crate) fn octets(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    (0..len)
        .map(|_| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state as u8
        })
        .collect()
}
