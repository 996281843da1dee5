//! The transport between two cores, beside what else joins processes of one host.
//!
//! Every figure is the median of interleaved rounds: round one of each, then round
//! two of each, so that a busy moment meets all alike. A round's figure is the median
//! of its pieces, each well below a millisecond, so that a time slice that somebody
//! else had is one slow piece and not a slow round; for all alike. Run on an idle
//! machine with two cores at least: `cargo bench -p smc-transport-ism`. The number of
//! rounds may be given as an argument (odd, 11 by default), and a word that the
//! title of what is to be measured contains.

#[cfg(target_os = "linux")]
mod bare;
#[cfg(target_os = "linux")]
mod connections;
#[cfg(target_os = "linux")]
mod rivals;
#[cfg(target_os = "linux")]
mod transport;

#[cfg(target_os = "linux")]
fn main() {
    // Cargo passes flags of its own.
    let arguments = || std::env::args().skip(1).filter(|arg| !arg.starts_with('-'));
    let rounds = arguments().find_map(|arg| arg.parse().ok()).unwrap_or(11);
    let word = arguments()
        .find(|arg| arg.parse::<usize>().is_err())
        .unwrap_or_default();
    let load = || std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load {}", load().trim());
    type Measure = fn(&str, usize);
    let all: [(&str, Measure); 5] = [
        ("stream of 64 KiB writes, GB/s", stream),
        (
            "64-octet messages one after another, millions a second",
            pipelined,
        ),
        ("there and back while both look, nanoseconds", ping_pong),
        ("there and back while both sleep, microseconds", asleep),
        (
            "connections made, accepted and closed, microseconds",
            connecting,
        ),
    ];
    for (title, measure) in all.iter().filter(|(title, _)| title.contains(&word)) {
        measure(title, rounds);
    }
    println!("load {}", load().trim());
}

#[cfg(not(target_os = "linux"))]
fn main() {}

/// One thing to measure.
#[cfg(target_os = "linux")]
type Measured<'a> = (&'a str, &'a dyn Fn() -> f64);

/// Measures all in turn, and prints medians and the ratio of the last to each other.
#[cfg(target_os = "linux")]
fn interleaved(title: &str, rounds: usize, all: &[Measured<'_>]) {
    let mut figures = vec![Vec::new(); all.len()];
    for _ in 0..rounds {
        for (figures, (_, measure)) in figures.iter_mut().zip(all) {
            figures.push(measure());
        }
    }
    println!("{title}");
    let medians: Vec<f64> = figures
        .iter_mut()
        .map(|figures| {
            figures.sort_by(f64::total_cmp);
            figures[figures.len() / 2]
        })
        .collect();
    let last = medians.last().copied().unwrap_or(1.0);
    for ((name, _), (figures, median)) in all.iter().zip(figures.iter().zip(&medians)) {
        let (least, most) = (figures[0], figures[figures.len() - 1]);
        println!(
            "  {name:26} {median:10.3}  ({least:.3} to {most:.3})  x{:.2}",
            last / median
        );
    }
}

#[cfg(target_os = "linux")]
fn stream(title: &str, rounds: usize) {
    interleaved(
        title,
        rounds,
        &[
            ("TCP loopback", &|| rivals::stream(rivals::tcp, 1 << 29)),
            ("Unix socket", &|| rivals::stream(rivals::unix, 1 << 29)),
            ("bare ring, 1 MiB", &|| bare::stream(1 << 30)),
            ("DMB, 1 MiB", &|| transport::stream(1 << 30, 65536, 1)),
        ],
    );
}

#[cfg(target_os = "linux")]
fn pipelined(title: &str, rounds: usize) {
    let million = |gigabytes: f64| gigabytes * 1000.0 / 64.0;
    interleaved(
        title,
        rounds,
        &[
            ("TCP loopback", &|| {
                million(rivals::messages(rivals::tcp, 300_000))
            }),
            ("Unix socket", &|| {
                million(rivals::messages(rivals::unix, 300_000))
            }),
            ("bare ring", &|| million(bare::messages(5_000_000))),
            ("DMB, a signal every 16", &|| {
                million(transport::stream(64 * 3_000_000, 64, 16))
            }),
            ("DMB, each signalled", &|| {
                million(transport::stream(64 * 3_000_000, 64, 1))
            }),
        ],
    );
}

#[cfg(target_os = "linux")]
fn ping_pong(title: &str, rounds: usize) {
    interleaved(
        title,
        rounds,
        &[
            ("bare cache lines", &|| bare::ping_pong(200_000)),
            ("DMB, 64 octets and CDC", &|| {
                transport::ping_pong(200_000, 64, None)
            }),
            ("DMB, CDC", &|| transport::ping_pong(200_000, 0, None)),
        ],
    );
}

#[cfg(target_os = "linux")]
fn asleep(title: &str, rounds: usize) {
    let none = Some(std::time::Duration::ZERO);
    interleaved(
        title,
        rounds,
        &[
            ("TCP loopback", &|| {
                rivals::ping_pong(rivals::tcp, 5000) / 1000.0
            }),
            ("Unix socket", &|| {
                rivals::ping_pong(rivals::unix, 5000) / 1000.0
            }),
            ("DMB, 64 octets and CDC", &|| {
                transport::ping_pong(5000, 64, none) / 1000.0
            }),
        ],
    );
}

#[cfg(target_os = "linux")]
fn connecting(title: &str, rounds: usize) {
    interleaved(
        title,
        rounds,
        &[
            ("plain TCP", &|| connections::plain(1000)),
            ("plain client", &|| connections::plain_client(1000)),
            ("plain server", &|| connections::plain_server(1000)),
            ("paired, first of its peer", &|| connections::first(500)),
            ("paired", &|| connections::paired(1000)),
        ],
    );
}

/// Times of equal pieces of work.
#[cfg(target_os = "linux")]
struct Pieces {
    last: std::time::Instant,
    nanoseconds: Vec<f64>,
}

#[cfg(target_os = "linux")]
impl Pieces {
    fn begin() -> Self {
        Self {
            last: std::time::Instant::now(),
            nanoseconds: Vec::new(),
        }
    }

    /// A piece is done.
    fn done(&mut self) {
        let now = std::time::Instant::now();
        self.nanoseconds.push((now - self.last).as_nanos() as f64);
        self.last = now;
    }

    /// Nanoseconds of the median piece.
    fn median(mut self) -> f64 {
        self.nanoseconds.sort_by(f64::total_cmp);
        self.nanoseconds[self.nanoseconds.len() / 2]
    }
}

/// Runs two functions on two cores and waits for both.
#[cfg(target_os = "linux")]
fn apart<T: Send>(one: impl FnOnce() -> T + Send, two: impl FnOnce() + Send) -> T {
    let pin = |core| {
        let mut cores = rustix::thread::CpuSet::new();
        cores.set(core);
        // Refused in a machine with one core: then it is measured unpinned.
        let _ = rustix::thread::sched_setaffinity(None, &cores);
    };
    std::thread::scope(|scope| {
        scope.spawn(move || {
            pin(1);
            two();
        });
        scope
            .spawn(move || {
                pin(0);
                one()
            })
            .join()
            .expect("the measured thread")
    })
}
