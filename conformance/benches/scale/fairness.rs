//! Whether connections that are all busy carry the same: the RNIC takes a few
//! transmits at a time, and what was read is written again at once.

use conformance::direct::Pair;
use smc_proto::event::Event;

use super::{Scale, open};

/// Transmits of the RNIC before the applications do.
const TRANSMITS: usize = 64;
/// Bytes of a write: less than a ring, so that there is always more to send.
const WRITE: usize = 4 << 10;

/// The fewest and the most bytes a connection carried, of the mean, and that.
fn spread(connections: usize) -> [f64; 3] {
    let mut pair = Pair::new(connections);
    for host in &mut pair.hosts {
        host.without_memory();
    }
    let ends = open(&mut pair, connections);
    let top = ends.iter().map(|[_, b]| b.index()).max().unwrap_or(0);
    let mut writers = vec![None; top as usize + 1];
    let mut carried = vec![0_u64; ends.len()];
    let data = [0; WRITE];
    let mut into = [0; WRITE * 8];
    for (i, [a, b]) in ends.iter().enumerate() {
        writers[b.index() as usize] = Some((i, *a));
        while pair.hosts[0].write(pair.now, *a, &data) > 0 {}
    }
    let mut read_from = Vec::new();
    let mut transmits = 0;
    while transmits < 50 * connections {
        transmits += pair.pump_transmits(0, TRANSMITS).max(1);
        while let Some(event) = pair.hosts[1].endpoint.poll_event() {
            let Event::Readable { conn } = event else {
                continue;
            };
            let read = pair.hosts[1].read(pair.now, conn, &mut into);
            let (i, writer) = writers[conn.index() as usize].expect("one of ours");
            carried[i] += read as u64;
            read_from.push(writer);
        }
        pair.pump_data(1);
        while pair.hosts[0].endpoint.poll_event().is_some() {}
        for writer in read_from.drain(..) {
            while pair.hosts[0].write(pair.now, writer, &data) > 0 {}
        }
    }
    let mean = carried.iter().sum::<u64>() as f64 / carried.len() as f64;
    let least = carried.iter().min().map_or(0, |n| *n) as f64;
    let most = carried.iter().max().map_or(0, |n| *n) as f64;
    [least / mean, most / mean, mean]
}

pub(crate) fn measure(scale: Scale) {
    println!(
        "\nOctets per connection, all busy, {TRANSMITS} transmits at a time (aim: within 10 %)"
    );
    for connections in [255, 512, 10_000] {
        let connections = (connections / scale.divisor).max(1);
        let [least, most, mean] = spread(connections);
        println!(
            "  {connections:>6} connections: least {least:.2}, most {most:.2} of the mean ({:.0} KiB)",
            mean / 1024.0
        );
    }
}
