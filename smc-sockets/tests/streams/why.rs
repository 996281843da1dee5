//! What is expected of a connection, and what it becomes.
#![cfg(target_os = "linux")]

use std::net::TcpListener;
use std::time::Duration;

use crate::common::rnics::Hosts;
use crate::common::{listener, stack};
use smc_sockets::why::{Expected, State, Why};
use smc_sockets::{Policy, Settings, SmcStream, Stack};

#[test]
fn what_a_connection_becomes_is_compared_with_what_was_expected() {
    let (over_memory, address) = listener();
    let client = stack();
    let memory = Why::walk(&client, address);
    let near = SmcStream::connect_on(&client, address).unwrap();
    let unspecified = Why::walk(&client, ([0, 0, 0, 0], address.port()).into());
    assert_eq!(unspecified.outcome, Expected::SharedMemory);
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

#[test]
fn the_grace_of_the_policy_is_shown_and_comes_before_the_programs() {
    for (text, expected) in [("pairing-grace = 35", "35 ms"), ("", "7 ms")] {
        let mut settings = Settings::default();
        settings.policy = Policy::parse(text).unwrap();
        settings.pairing_timeouts.grace = Duration::from_millis(7);
        let (over_memory, address) = listener();
        let why = Why::walk(&Stack::with(settings).unwrap(), address);
        let grace = why.conditions.iter().find(|at| at.name == "pairing grace");
        let grace = grace.unwrap();
        assert!(grace.found.contains(expected), "{}", grace.found);
        assert_eq!(grace.found.contains("by `pairing-grace`"), !text.is_empty());
        assert_eq!(grace.state, State::Holds);
        drop(over_memory);
    }
}
