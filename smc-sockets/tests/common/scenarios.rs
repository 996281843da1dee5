//! Stories of a connection, whatever carries it.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;

use smc_sockets::SmcStream;

/// Octets go to an end that sends them back, and come back as they were.
pub(crate) fn every_octet_comes_back(mut client: SmcStream, server: SmcStream, sent: &[u8]) {
    let serving = std::thread::spawn(move || {
        let mut chunk = vec![0; 70_001];
        loop {
            match (&server).read(&mut chunk).unwrap() {
                0 => break,
                len => (&server).write_all(&chunk[..len]).unwrap(),
            }
        }
    });
    let mut received = Vec::new();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            (&client).write_all(sent).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        });
        (&client).read_to_end(&mut received).unwrap();
    });
    assert!(received == sent);
    serving.join().unwrap();
    assert_eq!(client.read(&mut [0; 1]).unwrap(), 0);
}

/// A side that has closed its half still receives what the peer sends.
pub(crate) fn after_half_a_close_the_other_half_goes_on(
    mut client: SmcStream,
    mut server: SmcStream,
) {
    client.write_all(b"question").unwrap();
    client.shutdown(Shutdown::Write).unwrap();
    let error = client.write(b"more").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
    let mut text = String::new();
    server.read_to_string(&mut text).unwrap();
    assert_eq!(text, "question");
    server.write_all(b"answer").unwrap();
    drop(server);
    let mut text = String::new();
    client.read_to_string(&mut text).unwrap();
    assert_eq!(text, "answer");
}

/// Octets that an application never saw are no orderly end.
pub(crate) fn who_drops_unread_octets_resets_the_peer(mut client: SmcStream, server: SmcStream) {
    client.write_all(b"this is not read").unwrap();
    // Bytes that arrived and were not read cause a reset.
    while (&server).read(&mut [0; 1]).unwrap() == 0 {}
    drop(server);
    let error = client.read(&mut [0; 1]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    // As with TCP, the error is reported once.
    let error = client.write(b"x").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BrokenPipe);
}
