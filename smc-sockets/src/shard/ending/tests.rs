//! Resets whose event was not handled when a call finds them.

use std::io::{ErrorKind, Read, Write};
use std::time::Duration;

use crate::{SmcListener, SmcStream, Stack};

/// A call that comes to a reset before its event is handled reports the error as the only one.
#[test]
fn an_error_is_reported_once_by_what_finds_it_before_the_event() {
    for reads in [false, true] {
        let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
        let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
        let near = SmcStream::connect_on(&client, listener.local_addr().unwrap()).unwrap();
        let (far, _) = listener.accept().unwrap();
        assert!(near.carrier().is_smc() && far.carrier().is_smc());
        let (shard, socket) = far.socket_of(&server).unwrap();
        let found = {
            // The driver of the server handles no event meanwhile.
            let mut state = shard.lock_for(socket);
            let now = shard.now();
            near.set_linger(Some(Duration::ZERO)).unwrap();
            drop(near);
            state.receive_last(socket, now);
            match reads {
                true => state.read(shard, socket, &mut [0; 8], now),
                false => state.write(shard, socket, b"x", now),
            }
        };
        let error = found.map(|found| found.unwrap_err().kind());
        assert_eq!(error, Some(ErrorKind::ConnectionReset), "reads: {reads}");
        assert!(far.take_error().unwrap().is_none(), "reads: {reads}");
        let again = (&far).write(b"x").unwrap_err().kind();
        assert_eq!(again, ErrorKind::BrokenPipe, "reads: {reads}");
    }
}

/// A peer that closes while this side writes does not answer the abort that follows: until the time for
/// the answer is over, there is no event.
#[test]
fn a_reset_that_this_side_decides_is_reported_once() {
    let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
    let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
    let near = SmcStream::connect_on(&client, listener.local_addr().unwrap()).unwrap();
    let (mut far, _) = listener.accept().unwrap();
    assert!(near.carrier().is_smc() && far.carrier().is_smc());
    let (shard, socket) = far.socket_of(&server).unwrap();
    let found = {
        // The driver of the server handles no event meanwhile.
        let mut state = shard.lock_for(socket);
        let now = shard.now();
        drop(near);
        let written = state.write(shard, socket, b"x", now);
        assert_eq!(written.map(Result::unwrap), Some(1));
        state.receive_last(socket, now);
        state.write(shard, socket, b"x", now)
    };
    let error = found.map(|found| found.unwrap_err().kind());
    assert_eq!(error, Some(ErrorKind::ConnectionReset));
    let again = (&far).write(b"x").unwrap_err().kind();
    assert_eq!(again, ErrorKind::BrokenPipe);
    assert_eq!(far.read(&mut [0; 8]).unwrap(), 0);
    assert!(far.take_error().unwrap().is_none());
}
