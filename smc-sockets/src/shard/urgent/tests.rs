//! Urgent bytes whose event was not handled when the stream is read.

use std::io::{ErrorKind, Write};

use crate::{SmcListener, SmcStream, Stack};

/// A thread that reads is ahead of the driver, which has received the message, and the peer's abort.
#[test]
fn a_read_or_a_peek_that_meets_an_urgent_byte_does_not_wait_for_its_event() {
    for (aborts, peeks) in [(false, false), (true, false), (false, true), (true, true)] {
        let (server, client) = (Stack::open().unwrap(), Stack::open().unwrap());
        let listener = SmcListener::bind_on(&server, "127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let near = SmcStream::connect_on(&client, address).unwrap();
        let (mut far, _) = listener.accept().unwrap();
        assert!(near.carrier().is_smc() && far.carrier().is_smc());
        // The client aborts, since it does not read this.
        far.write_all(b"?").unwrap();
        let (shard, socket) = far.socket_of(&server).unwrap();
        let read = {
            // The driver of the server handles no event meanwhile.
            let mut state = shard.lock_for(socket);
            let now = shard.now();
            assert_eq!(near.send_urgent(b"!").unwrap(), 1);
            state.receive_last(socket, now);
            if aborts {
                drop(near);
                state.receive_last(socket, now);
            }
            match peeks {
                true => state.peek(shard, socket, &mut [0; 8], now),
                false => state.read(shard, socket, &mut [0; 8], now),
            }
        };
        let error = read.map(|read| read.unwrap_err().kind());
        assert_eq!(error, aborts.then_some(ErrorKind::ConnectionReset));
        // As over TCP, a read steps over the byte that is next; a peek leaves it.
        assert_eq!(socket.is_marked(), peeks, "aborts: {aborts}");
        let kept = peeks.then_some(b'!');
        assert_eq!(socket.take_urgent(false), kept, "aborts: {aborts}");
    }
}
