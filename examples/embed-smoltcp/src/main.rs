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
//! `cargo run -p embed-smoltcp` tells the story of four connections.

mod application;
mod driver;
mod rnic;
mod stack;
mod world;

use core::fmt;

use driver::Carrier;
use smc_proto::event::{CloseReason, FallbackReason};
use world::{CLIENT, SERVER, World};

/// What became of a connection.
#[derive(Debug)]
struct Outcome {
    carrier: Carrier,
    first_contact: bool,
    /// As the client was told it.
    fell_back: Option<FallbackReason>,
    closed: Option<CloseReason>,
    /// Octets of CLC messages, both directions.
    clc_octets: usize,
    /// Octets that reached the client together with the last CLC message, behind it.
    behind_clc: usize,
    /// Octets of the application, both directions, each of them compared.
    octets: usize,
}

/// Octets by which it shows if one is missing, doubled or in the wrong place.
fn pattern(connection: usize, host: usize, length: usize) -> Vec<u8> {
    let start = connection * 7 + host * 3;
    (start..start + length).map(|i| (i % 251) as u8).collect()
}

/// Sends octets in both directions at once and compares what arrives: how many.
fn exchange(world: &mut World, connection: usize, lengths: [usize; 2]) -> usize {
    let data = [CLIENT, SERVER].map(|host| pattern(connection, host, lengths[host]));
    let mut sent = [0; 2];
    let mut received = [Vec::new(), Vec::new()];
    world.run_until(|world| {
        let mut octets = [0; 5000];
        for host in [CLIENT, SERVER] {
            sent[host] += world.write(host, connection, &data[host][sent[host]..]);
            let n = world.read(host, connection, &mut octets);
            received[host].extend_from_slice(&octets[..n]);
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
            world.end(host, connection).carrier == Carrier::Closed
                && world.is_tcp_closed(host, connection)
        })
    });
}

/// The outcome of each connection, and how many octets RDMA carried.
fn story() -> (Vec<Outcome>, u64) {
    let mut world = World::new();
    let mut carried = Vec::new();

    println!("1. Both hosts have an RNIC: first contact makes a link group.");
    let first = world.open();
    world.run_until(|world| world.carriers(first) == [Carrier::Smc; 2]);
    let octets = exchange(&mut world, first, [300_000, 500_000]);
    carried.push((world.end(CLIENT, first).carrier, octets));
    let (writes, _) = world.octets_written(SERVER);
    println!(
        "  300 kB there and 500 kB back, the latter by {writes} RDMA WRITEs; TCP carried {} octets.",
        world.end(CLIENT, first).clc_octets + world.end(SERVER, first).clc_octets
    );

    println!("\n2. Another connection joins the link group: no queue pair, no new link.");
    let second = world.open();
    world.run_until(|world| world.carriers(second) == [Carrier::Smc; 2]);
    let octets = exchange(&mut world, second, [100_000, 1]);
    carried.push((world.end(CLIENT, second).carrier, octets));
    let written = [CLIENT, SERVER].map(|host| world.octets_written(host).1);

    println!("\n   Both are closed by SMC-R, then their TCP connections by FIN.");
    close(&mut world, first);
    close(&mut world, second);

    println!("\n3. The server has no RNIC any more: Decline, and plain TCP goes on.");
    world.withhold_rnic(SERVER);
    let third = world.open();
    // The server's application is quick: its first octets leave in the same
    // segment as the Decline. The engine takes the Decline and not one octet more.
    world.run_until(|world| world.end(SERVER, third).carrier == Carrier::Tcp);
    let octets = exchange(&mut world, third, [100_000, 200_000]);
    carried.push((world.end(CLIENT, third).carrier, octets));
    println!("  100 kB there and 200 kB back over TCP, from the first octet to the last.");
    close(&mut world, third);

    println!("\n4. The server's SYN-ACK lacks the SMC option: not even a Proposal.");
    world.speak_plain_tcp(SERVER);
    let fourth = world.open();
    let octets = exchange(&mut world, fourth, [1000, 1000]);
    carried.push((world.end(CLIENT, fourth).carrier, octets));
    close(&mut world, fourth);

    let outcome = |(number, (carrier, octets))| {
        let ends = [CLIENT, SERVER].map(|host| world.end(host, number));
        Outcome {
            carrier,
            first_contact: ends[CLIENT].first_contact,
            fell_back: ends[CLIENT].fell_back,
            closed: ends[CLIENT].closed,
            clc_octets: ends.iter().map(|end| end.clc_octets).sum(),
            behind_clc: ends[CLIENT].behind_clc,
            octets,
        }
    };
    let outcomes = (first..).zip(carried).map(outcome).collect();
    (outcomes, written.iter().sum())
}

fn main() {
    let (outcomes, written) = story();
    println!();
    for (number, outcome) in (1..).zip(outcomes) {
        println!("{number}: {outcome}");
    }
    println!("RDMA carried {written} octets.");
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} octets over {:?}", self.octets, self.carrier)?;
        write!(f, ", {} octets of CLC messages", self.clc_octets)?;
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
    fn the_story_ends_well() {
        let (outcomes, written) = story();
        let [first, second, third, fourth] = &outcomes[..] else {
            panic!("{outcomes:?}");
        };
        // Over SMC-R all octets of the application go by RDMA; TCP carries
        // Proposal, Accept and Confirm.
        for (outcome, octets) in [(first, 800_000), (second, 100_001)] {
            assert_eq!(outcome.carrier, Carrier::Smc);
            assert_eq!(outcome.octets, octets);
            assert_eq!(outcome.clc_octets, CLC_OCTETS);
            assert_eq!(outcome.closed, Some(CloseReason::Normal));
        }
        assert!(first.first_contact && !second.first_contact);
        assert_eq!(written, 900_001);

        assert_eq!((third.carrier, third.octets), (Carrier::Tcp, 300_000));
        assert!(third.behind_clc > 0, "the Decline came alone");
        let why = third.fell_back.expect("it was declined");
        assert_eq!(why.code, DiagnosisCode::PEER_DECLINED);
        assert_eq!(why.peer_diagnosis, Some(DiagnosisCode::NO_SMCR_DEVICE));

        assert_eq!((fourth.carrier, fourth.octets), (Carrier::Tcp, 2000));
        assert_eq!(fourth.clc_octets, 0);
        assert!(fourth.fell_back.is_some());
    }
}
