//! What stacks with RNICs take from the process, they give back.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use super::alone;
use crate::common::rnics::Hosts;
use crate::common::{possessions, settles};
use smc_sockets::SmcStream;

#[test]
fn stacks_and_connections_leave_nothing_behind() {
    const LONG: Duration = Duration::from_secs(20);
    if !alone(&stacks_and_connections_leave_nothing_behind) {
        return;
    }
    // The first connection begins the view of this process, which stays until the process ends.
    let server = TcpListener::bind("127.0.0.1:0").unwrap();
    let tcp = TcpStream::connect(server.local_addr().unwrap()).unwrap();
    drop((SmcStream::from(tcp), server));
    let before = possessions();
    for _ in 0..5 {
        let hosts = Hosts::new();
        let listener = hosts.listener();
        let address = listener.local_addr().unwrap();
        let mut idle = None;
        for _ in 0..40 {
            let mut client = SmcStream::connect_on(&hosts.client, address).unwrap();
            assert_eq!(client.carrier().to_string(), "SMC-R v2.1");
            let (mut server, _) = listener.accept().unwrap();
            client.write_all(b"octets").unwrap();
            server.read_exact(&mut [0; 6]).unwrap();
            drop((client, server));
            // Later connections use the resources of the first one again.
            let fabric = &hosts.fabric;
            let (regions, links) = *idle.get_or_insert_with(|| fabric.usage());
            // A connection may begin before the last ones have ended, and a surplus link is
            // removed a little later.
            let (now, left) = fabric.usage();
            assert!(
                now <= regions + 16 && left <= links,
                "{regions} {links}: {now} {left}"
            );
        }
        // Of connections, nothing is left but the links that others will use.
        let fds = possessions().0;
        drop((listener, hosts));
        assert!(settles(LONG, || possessions().0 < fds));
    }
    let same = || {
        let now = possessions();
        now.0 == before.0 && now.2 == before.2
    };
    assert!(settles(LONG, same), "{before:?} {:?}", possessions());
}
