//! Sockets and their transport between two cores, beside what else joins processes of
//! one host, and beside the least there can be.
//!
//! Every figure is the median of interleaved rounds: round one of each, then round
//! two of each, so that a busy moment meets all alike. A round's figure is the median
//! of its pieces, each well below a millisecond, so that a time slice of another process
//! is one slow piece and not a slow round; for all alike. Run on an idle
//! machine with two cores at least: `cargo bench -p conformance --bench shared_memory`. The number of
//! rounds may be given as an argument (odd, 11 by default), then a word that the
//! title of what is to be measured contains, and one that the name of the figure does: `view` for what
//! it costs that a process publishes its connections.

#[cfg(target_os = "linux")]
mod bare;
#[cfg(target_os = "linux")]
mod connections;
#[cfg(target_os = "linux")]
mod sockets;
#[cfg(target_os = "linux")]
mod transport;
#[cfg(target_os = "linux")]
mod views;

#[cfg(target_os = "linux")]
fn main() {
    if let [_, part, name] = &std::env::args().collect::<Vec<_>>()[..]
        && part == views::PART
    {
        return views::print(name);
    }
    let rounds = arguments().find_map(|arg| arg.parse().ok()).unwrap_or(11);
    let word = |at| words().nth(at).unwrap_or_default();
    let load = || std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("load {}", load().trim());
    type Measure = fn(&str, usize);
    let all: [(&str, Measure); 7] = [
        ("stream of 64 KiB writes, GB/s", stream),
        (
            "64-octet messages one after another, millions a second",
            pipelined,
        ),
        ("there and back by one thread, nanoseconds", alone),
        ("there and back while both poll, nanoseconds", ping_pong),
        ("there and back while both sleep, microseconds", asleep),
        (
            "connections made, accepted and closed, microseconds",
            connecting,
        ),
        ("beside processes without a view", views::measure),
    ];
    for (title, measure) in all.iter().filter(|(title, _)| title.contains(&word(0))) {
        measure(title, rounds);
    }
    println!("load {}", load().trim());
}

#[cfg(not(target_os = "linux"))]
fn main() {}

#[cfg(target_os = "linux")]
fn arguments() -> impl Iterator<Item = String> {
    // Cargo passes flags of its own.
    std::env::args().skip(1).filter(|arg| !arg.starts_with('-'))
}

#[cfg(target_os = "linux")]
fn words() -> impl Iterator<Item = String> {
    arguments().filter(|arg| arg.parse::<usize>().is_err())
}

/// One thing to measure.
#[cfg(target_os = "linux")]
type Measured<'a> = (&'a str, &'a dyn Fn() -> f64);

/// What one figure has to reach beside another of the same rounds.
#[cfg(target_os = "linux")]
enum Demand {
    AtLeast(&'static str, f64, &'static str),
    AtMost(&'static str, f64, &'static str),
}

/// What the ring of a round has to reach beside copying, or the round is void: another process
/// had the cores.
#[cfg(target_os = "linux")]
const VOID: Demand = Demand::AtLeast("bare ring", 0.2, "copying");

#[cfg(target_os = "linux")]
impl Demand {
    /// The ratio, and whether it is reached; `None` if not both were measured.
    fn judge(&self, of: impl Fn(&str) -> Option<f64>) -> Option<(f64, bool)> {
        let (Self::AtLeast(one, limit, two) | Self::AtMost(one, limit, two)) = self;
        let ratio = of(one)? / of(two)?;
        let reached = match self {
            Self::AtLeast(..) => ratio >= *limit,
            Self::AtMost(..) => ratio <= *limit,
        };
        Some((ratio, reached))
    }

    fn words(&self) -> String {
        match self {
            Self::AtLeast(one, limit, two) => format!("{one} at least {limit} of {two}"),
            Self::AtMost(one, limit, two) => format!("{one} at most {limit} of {two}"),
        }
    }
}

/// Prints the median of a figure with its least and its most; the median, if there is any round.
fn summarize(name: &str, mut of: Vec<f64>) -> Option<f64> {
    of.sort_by(f64::total_cmp);
    let (least, most) = (*of.first()?, *of.last()?);
    let median = of[of.len() / 2];
    println!("  {name:26} {median:10.3}  ({least:.3} to {most:.3})");
    Some(median)
}

/// Measures all in turn, and prints medians, and whether the demands are reached.
#[cfg(target_os = "linux")]
fn interleaved(title: &str, rounds: usize, all: &[Measured<'_>], demands: &[Demand]) {
    let word = words().nth(1).unwrap_or_default();
    let wanted = |(name, _): &&Measured<'_>| name.contains(&word);
    let all: Vec<Measured<'_>> = all.iter().filter(wanted).copied().collect();
    let mut figures: Vec<Vec<f64>> = Vec::new();
    let mut void = 0;
    while figures.len() < rounds && void < 3 * rounds {
        let round: Vec<f64> = all.iter().map(|(_, measure)| measure()).collect();
        let of = |name: &str| Some(round[all.iter().position(|(at, _)| *at == name)?]);
        match VOID.judge(of) {
            Some((_, false)) => void += 1,
            _ => figures.push(round),
        }
    }
    println!("{title}: {} rounds, {void} void", figures.len());
    let mut medians = Vec::new();
    for (at, (name, _)) in all.iter().enumerate() {
        let of = figures.iter().map(|round| round[at]).collect();
        let Some(median) = summarize(name, of) else {
            return;
        };
        medians.push(median);
    }
    let of = |name: &str| Some(medians[all.iter().position(|(at, _)| *at == name)?]);
    for demand in demands {
        let Some((ratio, reached)) = demand.judge(of) else {
            continue;
        };
        let verdict = if reached { "reached" } else { "MISSED" };
        println!("  {:44} {ratio:10.3}  {verdict}", demand.words());
    }
}

#[cfg(target_os = "linux")]
fn stream(title: &str, rounds: usize) {
    let all: [Measured<'_>; 7] = [
        ("copying", &bare::copy),
        ("TCP loopback", &|| sockets::stream(sockets::tcp, 1 << 29)),
        ("Unix socket", &|| sockets::stream(sockets::unix, 1 << 29)),
        ("bare ring", &|| bare::stream(1 << 30)),
        ("DMB", &|| transport::stream(1 << 30, 65536, 1)),
        ("SMC socket", &|| sockets::stream(sockets::smc, 1 << 30)),
        ("SMC socket, 64 KiB", &|| {
            sockets::stream(sockets::smc_short, 1 << 30)
        }),
    ];
    let demands = [
        Demand::AtLeast("SMC socket", 0.85, "bare ring"),
        Demand::AtLeast("SMC socket", 1.5, "Unix socket"),
    ];
    interleaved(title, rounds, &all, &demands);
}

#[cfg(target_os = "linux")]
fn pipelined(title: &str, rounds: usize) {
    let million = |gigabytes: f64| gigabytes * 1000.0 / 64.0;
    let all: [Measured<'_>; 6] = [
        ("TCP loopback", &|| {
            million(sockets::messages(sockets::tcp, 300_000))
        }),
        ("Unix socket", &|| {
            million(sockets::messages(sockets::unix, 300_000))
        }),
        ("bare ring", &|| million(bare::messages(5_000_000))),
        ("DMB, a signal every 16", &|| {
            million(transport::stream(64 * 3_000_000, 64, 16))
        }),
        ("DMB, each signalled", &|| {
            million(transport::stream(64 * 3_000_000, 64, 1))
        }),
        ("SMC socket", &|| {
            million(sockets::messages(sockets::smc, 3_000_000))
        }),
    ];
    let demands = [Demand::AtLeast("SMC socket", 10.0, "Unix socket")];
    interleaved(title, rounds, &all, &demands);
}

#[cfg(target_os = "linux")]
fn ping_pong(title: &str, rounds: usize) {
    let all: [Measured<'_>; 4] = [
        ("bare cache lines", &|| bare::ping_pong(200_000)),
        ("DMB, CDC", &|| transport::ping_pong(200_000, 0, None)),
        ("DMB, 64 octets and CDC", &|| {
            transport::ping_pong(200_000, 64, None)
        }),
        ("SMC socket, 64 octets", &|| {
            sockets::ping_pong(sockets::smc, 200_000)
        }),
    ];
    let demands = [Demand::AtMost(
        "SMC socket, 64 octets",
        3.0,
        "bare cache lines",
    )];
    interleaved(title, rounds, &all, &demands);
}

#[cfg(target_os = "linux")]
fn alone(title: &str, rounds: usize) {
    let all: [Measured<'_>; 3] = [
        ("TCP loopback", &|| sockets::alone(sockets::tcp, 20_000)),
        ("Unix socket", &|| sockets::alone(sockets::unix, 20_000)),
        ("SMC socket", &|| sockets::alone(sockets::smc, 200_000)),
    ];
    interleaved(title, rounds, &all, &[]);
}

#[cfg(target_os = "linux")]
fn asleep(title: &str, rounds: usize) {
    let none = Some(std::time::Duration::ZERO);
    let all: [Measured<'_>; 4] = [
        ("TCP loopback", &|| {
            sockets::ping_pong(sockets::tcp, 5000) / 1000.0
        }),
        ("Unix socket", &|| {
            sockets::ping_pong(sockets::unix, 5000) / 1000.0
        }),
        ("DMB", &|| transport::ping_pong(5000, 64, none) / 1000.0),
        ("SMC socket", &|| {
            sockets::ping_pong(sockets::smc_asleep, 5000) / 1000.0
        }),
    ];
    let demands = [Demand::AtMost("SMC socket", 1.1, "Unix socket")];
    interleaved(title, rounds, &all, &demands);
}

#[cfg(target_os = "linux")]
fn connecting(title: &str, rounds: usize) {
    let all: [Measured<'_>; 5] = [
        ("plain TCP", &|| connections::plain(1000)),
        ("plain client", &|| connections::plain_client(1000)),
        ("plain server", &|| connections::plain_server(1000)),
        ("paired, first of its peer", &|| connections::first(500)),
        ("paired", &|| connections::paired(1000)),
    ];
    interleaved(title, rounds, &all, &[]);
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
