//! Connections closed and opened again while many others exist. Buffers have no
//! memory, because 100,000 connections would need 3.2 GiB at each end: a buffer
//! is allocated, registered and cleared by its completion alone. The time is that of both
//! ends, CLC messages of both included.

use conformance::direct::{Host, Pair};
use smc_proto::connection::Shutdown;
use smc_proto::event::Event;

use super::{Ends, RING, Scale, median, nanos, open_one, shuffled, timed};

/// Connections closed and opened again in one round.
const AMOUNT: usize = 40;
/// Connections of a group. One with 255 RMBs takes no connection until some of
/// them went unused for long enough, so that nothing would be used again.
const GROUP: u8 = 250;

fn close(pair: &mut Pair, ends: Ends) {
    let now = pair.now;
    for (host, conn) in pair.hosts.iter_mut().zip(ends) {
        let connection = host.endpoint.conn(conn);
        connection
            .expect("it is open")
            .shutdown(now, Shutdown::Both);
    }
    pair.pump();
    for host in &mut pair.hosts {
        assert!(matches!(host.events.last(), Some(Event::Closed { .. })));
        host.events.clear();
        host.tcp.clear();
    }
}

/// Connections between two hosts, or between a server and many clients.
struct World {
    pair: Pair,
    /// Clients but the first; the one at work changes place with the first.
    clients: Vec<Host>,
    /// A client and a connection of it.
    ends: Vec<(usize, Ends)>,
    /// The order in which they are closed, and where that is.
    order: Vec<usize>,
    at: usize,
}

fn host(number: usize, connections: usize) -> Host {
    let number = u16::try_from(number).expect("few hosts");
    let mut host = Host::new(number, connections, &|config| {
        config.connections_per_group = GROUP;
    });
    host.without_memory();
    host
}

impl World {
    fn new(peers: usize, connections: usize) -> Self {
        let numbers: Vec<usize> = (0..connections).collect();
        let mut world = Self {
            pair: Pair::of([host(1, connections / peers), host(2, connections)]),
            // An only client stays in its place.
            clients: (1..peers)
                .map(|i| host(i + 2, connections / peers))
                .collect(),
            ends: Vec::new(),
            order: shuffled(&numbers),
            at: 0,
        };
        for i in numbers {
            let ends = world.with(i % peers, |pair| open_one(pair, RING));
            world.ends.push((i % peers, ends));
        }
        world
    }

    fn with<R>(&mut self, client: usize, run: impl FnOnce(&mut Pair) -> R) -> R {
        let Some(client) = client.checked_sub(1) else {
            return run(&mut self.pair);
        };
        std::mem::swap(&mut self.pair.hosts[0], &mut self.clients[client]);
        let result = run(&mut self.pair);
        std::mem::swap(&mut self.pair.hosts[0], &mut self.clients[client]);
        result
    }

    /// Nanoseconds for a connection.
    fn churn(&mut self) -> f64 {
        let time = timed(|| {
            for _ in 0..AMOUNT {
                let i = self.order[self.at % self.order.len()];
                self.at += 1;
                let (client, ends) = self.ends[i];
                let ends = self.with(client, |pair| {
                    close(pair, ends);
                    open_one(pair, RING)
                });
                self.ends[i].1 = ends;
            }
        });
        nanos(time, AMOUNT)
    }
}

pub(crate) fn measure(scale: Scale) {
    println!("\nA connection closed and one set up, subsequent contact (aim: ratio at most 2)");
    println!("  buffers without memory; both ends; any of the connections, in mixed order");
    let shapes = [(1, 1_000), (1, 10_000), (1, 100_000), (1_000, 10_000)];
    let shapes = shapes.map(|(peers, connections)| {
        (
            (peers / scale.divisor).max(1),
            (connections / scale.divisor).max(1),
        )
    });
    let mut worlds = shapes.map(|(peers, connections)| World::new(peers, connections));
    let mut times = shapes.map(|_| Vec::new());
    for _ in 0..scale.rounds * 10 {
        for (world, times) in worlds.iter_mut().zip(&mut times) {
            times.push(world.churn());
        }
    }
    let base = times[0].clone();
    for ((peers, connections), times) in shapes.into_iter().zip(times) {
        let ratios = times.iter().zip(&base).map(|(t, few)| t / few).collect();
        let (time, ratio) = (median(times), median(ratios));
        println!(
            "  {connections:>6} connections, {peers:>4} peers {:>8.2} us   ratio {ratio:.2}",
            time / 1e3
        );
    }
}
