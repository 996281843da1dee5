use smc_transport_sim::chaos;
fn main() {
    let a: Vec<u64> = std::env::args()
        .skip(1)
        .map(|s| s.parse().unwrap())
        .collect();
    let started = std::time::Instant::now();
    let mut failed = 0;
    let mut coverage = chaos::Coverage::default();
    let mut links = 0usize;
    let mut fo = 0u64;
    let mut steps = 0;
    if a.len() == 3 {
        let (report, ladder) = chaos::replay::<std::fs::File>(a[0], a[2] as usize, None).unwrap();
        println!("{ladder}\n{report}");
        return;
    }
    for seed in a[0]..a[1] {
        let r = std::panic::catch_unwind(|| chaos::run(seed));
        let r = match r {
            Ok(r) => r,
            Err(_) => {
                println!("seed {seed} PANIC");
                failed += 1;
                continue;
            }
        };
        coverage.add(&r);
        links += r.links;
        steps = steps.max(r.most_steps);
        fo += r.statistics.iter().map(|s| s.failovers).sum::<u64>();
        if !r.is_well() {
            failed += 1;
            println!(
                "seed {seed}: {}",
                r.failures.join(" | ").chars().take(400).collect::<String>()
            );
        }
    }
    println!(
        "failed {failed} links {links} failovers {fo} most steps {steps} in {:?}",
        started.elapsed()
    );
}
