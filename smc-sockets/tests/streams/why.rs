//! What is expected of a connection, and what it becomes.
#![cfg(target_os = "linux")]

use crate::common;

use std::net::TcpListener;

use common::rnics::Hosts;
use common::{listener, stack};
use smc_sockets::SmcStream;
use smc_sockets::why::{Expected, Why};

#[test]
fn what_a_connection_becomes_is_compared_with_what_was_expected() {
    let (over_memory, address) = listener();
    let client = stack();
    let memory = Why::walk(&client, address);
    let near = SmcStream::connect_on(&client, address).unwrap();
    let _accepted = over_memory.accept().unwrap();

    let hosts = Hosts::new();
    let over_rnics = hosts.listener();
    let mut rdma = Why::walk(&hosts.client, over_rnics.local_addr().unwrap());
    // The kernel knows nothing of these RNICs.
    assert_eq!(rdma.outcome, Expected::Tcp);
    rdma.outcome = Expected::Rdma;
    let (far, _) = hosts.pair();

    let plain = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = plain.local_addr().unwrap();
    let tcp = Why::walk(&client, address);
    let other = SmcStream::connect_on(&client, address).unwrap();

    assert_eq!(memory.outcome, Expected::SharedMemory);
    assert_eq!(tcp.outcome, Expected::Tcp);
    let carriers = [&near, &far, &other].map(|stream| stream.carrier());
    for (why, expected) in [
        (memory, [true, false, false]),
        // What the peer decides was not to be known.
        (rdma, [false, true, true]),
        (tcp, [false, false, true]),
    ] {
        let met = carriers.map(|carrier| why.is_met_by(carrier));
        assert_eq!(met, expected, "{:?}", why.outcome);
    }
}
