use conformance::direct::Pair;
use std::time::Instant;
fn main() {
    use smc_proto::storage::*;
    println!(
        "conn {} hs {} group {} link {} buffer {} remote {}",
        size_of::<Slot<ConnectionRecord>>(),
        size_of::<Slot<Handshake>>(),
        size_of::<Slot<LinkGroup>>(),
        size_of::<Slot<Link>>(),
        size_of::<Slot<Buffer>>(),
        size_of::<Slot<RemoteRmb>>()
    );
    for size in [64usize, 65536] {
        let mut pair = Pair::new(4);
        let (a, b) = pair.open();
        let data = vec![7u8; size];
        let mut buf = vec![0u8; size];
        let n = if size == 64 { 1_000_000 } else { 100_000 };
        let t = Instant::now();
        for _ in 0..n {
            let now = pair.now;
            if size == 64 {
                pair.hosts[0].write(now, a, &data);
                pair.pump_data(0);
                while pair.hosts[1].endpoint.poll_event().is_some() {}
                let m = pair.hosts[1].read(now, b, &mut buf);
                assert_eq!(m, 64);
                pair.hosts[1].write(now, b, &buf[..m]);
                pair.pump_data(1);
                while pair.hosts[0].endpoint.poll_event().is_some() {}
                let m = pair.hosts[0].read(now, a, &mut buf);
                assert_eq!(m, 64);
            } else {
                let mut sent = 0;
                while sent < size {
                    let k = pair.hosts[0].write(now, a, &data[sent..]);
                    sent += k;
                    pair.pump_data(0);
                    while pair.hosts[1].endpoint.poll_event().is_some() {}
                    while pair.hosts[1].read(now, b, &mut buf) > 0 {}
                    pair.pump_data(1);
                    while pair.hosts[0].endpoint.poll_event().is_some() {}
                }
            }
        }
        let e = t.elapsed();
        println!(
            "{size}: {:?} per round, {:.1} Gbit/s",
            e / n,
            (size as f64 * n as f64 * 8.0) / e.as_nanos() as f64
        );
    }
}
