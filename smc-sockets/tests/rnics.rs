//! Streams over RNICs: what is theirs alone. What they have in common with those over
//! shared memory is in `streams` and `as_tcp`.
#![cfg(target_os = "linux")]

mod common;

use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::Duration;

use common::rnics::Hosts;
use common::{octets, settles};

#[test]
fn octets_cross_and_nothing_is_left() {
    let hosts = Hosts::new();
    let (mut client, mut server) = hosts.pair();
    let sent = octets(300_000);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            client.write_all(&sent).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        });
        let mut received = Vec::new();
        server.read_to_end(&mut received).unwrap();
        assert!(received == sent);
    });
    drop((client, server));
    let fabric = hosts.fabric.clone();
    drop(hosts);
    assert!(settles(Duration::from_secs(5), || fabric.usage() == (0, 0)));
}
