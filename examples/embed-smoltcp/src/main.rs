//! SMC-R inside a user-space TCP stack.
//!
//! Two smoltcp stacks are joined by a cable in memory. Each embeds an SMC
//! engine; the CLC messages of the engines travel over smoltcp's TCP
//! connections, everything else over two RNICs in memory. Read in this order:
//!
//! - `driver.rs`, the loop every embedder writes: inputs, outputs;
//! - `world.rs`, two hosts: run both, and sleep when neither has anything to do;
//! - `application.rs`, reading and writing, whatever carries a connection;
//! - `stack.rs`, what the TCP stack contributes: one TCP option;
//! - `rnic.rs`, what an RDMA adapter contributes: commands and completions.
//!
//! `cargo run -p embed-smoltcp` runs four connections, one after the other.

mod application;
mod driver;
mod rnic;
mod stack;
mod world;

use core::fmt;

use driver::Transport;
use smc_proto::event::{CloseReason, FallbackReason};
use world::{CLIENT, SERVER, World};

/// Outcome of a connection.
#[derive(Debug)]
struct Outcome {
    transport: Transport,
    first_contact: bool,
    /// Reason of the fallback, as the client reported it.
    fell_back: Option<FallbackReason>,
    closed: Option<CloseReason>,
    /// Bytes of CLC messages, both directions.
    clc_bytes: usize,
    /// Bytes that reached the client together with the last CLC message, behind it.
    behind_clc: usize,
    /// Bytes of the application, both directions, each of them compared.
    bytes: usize,
}

/// Bytes by which it shows if one is missing, doubled or in the wrong place.
fn pattern(connection: usize, host: usize, length: usize) -> Vec<u8> {
    let start = connection * 7 + host * 3;
    (start..start + length).map(|i| (i % 251) as u8).collect()
}

/// Sends bytes in both directions at once and compares what arrives: how many.
fn exchange(world: &mut World, connection: usize, lengths: [usize; 2]) -> usize {
    let data = [CLIENT, SERVER].map(|host| pattern(connection, host, lengths[host]));
    let mut sent = [0; 2];
    let mut received = [Vec::new(), Vec::new()];
    world.run_until(|world| {
        let mut bytes = [0; 5000];
        for host in [CLIENT, SERVER] {
            sent[host] += world.write(host, connection, &data[host][sent[host]..]);
            let n = world.read(host, connection, &mut bytes);
            received[host].extend_from_slice(&bytes[..n]);
        }
        (0..2).all(|host| received[host].len() >= lengths[1 - host])
    });
    assert!(received[SERVER] == data[CLIENT], "octets of the client");
    assert!(received[CLIENT] == data[SERVER], "octets of the server");
    lengths.iter().sum()
}

fn close(world: &mut World, connection: usize) {
    world.close(CLIENT, connection);
    world.close(SERVER, connection);
    world.run_until(|world| {
        (0..2).all(|host| {
            world.end(host, connection).transport == Transport::Closed
                && world.is_tcp_closed(host, connection)
        })
    });
}

/// The outcome of each connection, and how many bytes RDMA carried.
fn run() -> (Vec<Outcome>, u64) {
    let mut world = World::new();
    let mut carried = Vec::new();

    println!("1. Both hosts have an RNIC: first contact makes a link group.");
    let first = world.open();
    world.run_until(|world| world.transports(first) == [Transport::Smc; 2]);
    let bytes = exchange(&mut world, first, [300_000, 500_000]);
    carried.push((world.end(CLIENT, first).transport, bytes));
    let (writes, _) = world.bytes_written(SERVER);
    println!(
        "  300 kB there and 500 kB back, the latter by {writes} RDMA WRITEs; TCP carried {} octets.",
        world.end(CLIENT, first).clc_bytes + world.end(SERVER, first).clc_bytes
    );

    println!("\n2. Another connection joins the link group: no queue pair, no new link.");
    let second = world.open();
    world.run_until(|world| world.transports(second) == [Transport::Smc; 2]);
    let bytes = exchange(&mut world, second, [100_000, 1]);
    carried.push((world.end(CLIENT, second).transport, bytes));
    let written = [CLIENT, SERVER].map(|host| world.bytes_written(host).1);

    println!("\n   Both are closed by SMC-R, then their TCP connections by FIN.");
    close(&mut world, first);
    close(&mut world, second);

    println!("\n3. The server has no RNIC any more: Decline, and plain TCP goes on.");
    world.withhold_rnic(SERVER);
    let third = world.open();
    // The server's application is quick: its first bytes leave in the same
    // segment as the Decline. The engine takes the Decline and not one byte more.
    world.run_until(|world| world.end(SERVER, third).transport == Transport::Tcp);
    let bytes = exchange(&mut world, third, [100_000, 200_000]);
    carried.push((world.end(CLIENT, third).transport, bytes));
    println!("  100 kB there and 200 kB back over TCP, from the first octet to the last.");
    close(&mut world, third);

    println!("\n4. The server's SYN-ACK lacks the SMC option: not even a Proposal.");
    world.speak_plain_tcp(SERVER);
    let fourth = world.open();
    let bytes = exchange(&mut world, fourth, [1000, 1000]);
    carried.push((world.end(CLIENT, fourth).transport, bytes));
    close(&mut world, fourth);

    let outcome = |(number, (transport, bytes))| {
        let ends = [CLIENT, SERVER].map(|host| world.end(host, number));
        Outcome {
            transport,
            first_contact: ends[CLIENT].first_contact,
            fell_back: ends[CLIENT].fell_back,
            closed: ends[CLIENT].closed,
            clc_bytes: ends.iter().map(|end| end.clc_bytes).sum(),
            behind_clc: ends[CLIENT].behind_clc,
            bytes,
        }
    };
    let outcomes = (first..).zip(carried).map(outcome).collect();
    (outcomes, written.iter().sum())
}

fn main() {
    let (outcomes, written) = run();
    println!();
    for (number, outcome) in (1..).zip(outcomes) {
        println!("{number}: {outcome}");
    }
    println!("RDMA carried {written} octets.");
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} octets over {:?}", self.bytes, self.transport)?;
        write!(f, ", {} octets of CLC messages", self.clc_bytes)?;
        if self.first_contact {
            f.write_str(", first contact")?;
        }
        if let Some(why) = self.fell_back {
            write!(f, "; {why}")?;
        }
        if self.behind_clc > 0 {
            write!(f, "; {} octets came with the last one", self.behind_clc)?;
        }
        if let Some(reason) = self.closed {
            write!(f, "; {reason}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smc_proto::wire::clc::ACCEPT_CONFIRM_LENGTH;
    use smc_proto::wire::types::DiagnosisCode;

    /// Proposal, Accept and Confirm.
    const CLC_OCTETS: usize = 92 + 2 * ACCEPT_CONFIRM_LENGTH;

    #[test]
    fn every_connection_ends_as_expected() {
        let (outcomes, written) = run();
        let [first, second, third, fourth] = &outcomes[..] else {
            panic!("{outcomes:?}");
        };
        // Over SMC-R all bytes of the application go by RDMA; TCP carries
        // Proposal, Accept and Confirm.
        for (outcome, bytes) in [(first, 800_000), (second, 100_001)] {
            assert_eq!(outcome.transport, Transport::Smc);
            assert_eq!(outcome.bytes, bytes);
            assert_eq!(outcome.clc_bytes, CLC_OCTETS);
            assert_eq!(outcome.closed, Some(CloseReason::Normal));
        }
        assert!(first.first_contact && !second.first_contact);
        assert_eq!(written, 900_001);

        assert_eq!((third.transport, third.bytes), (Transport::Tcp, 300_000));
        assert!(third.behind_clc > 0, "the Decline came alone");
        let why = third.fell_back.expect("it was declined");
        assert_eq!(why.code, DiagnosisCode::PEER_DECLINED);
        assert_eq!(why.peer_diagnosis, Some(DiagnosisCode::NO_SMCR_DEVICE));

        assert_eq!((fourth.transport, fourth.bytes), (Transport::Tcp, 2000));
        assert_eq!(fourth.clc_bytes, 0);
        assert!(fourth.fell_back.is_some());
    }
}
