//! Every workload with what it has to reach.

use crate::parts::{Flavor, Tracer, Workload, round, round_of_threads};
use crate::plot;
use crate::report::{Goal, interleave, interleave_rounds, print_load, ratio};
use crate::transport::Transport;

/// Where the sweep is drawn unless a file is named.
const PICTURE: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../docs/requests-by-connections.svg"
);

/// Connections of the sweep.
const SWEEP: [usize; 8] = [1, 2, 8, 50, 200, 512, 2_000, 10_000];
/// Of more connections, so many are active.
const ACTIVE: usize = 100;

/// A workload of two tokio programs.
struct Tokio {
    title: &'static str,
    workload: Workload,
    flavor: Flavor,
    hog: bool,
    goal: Goal,
}

const HOT: Workload = Workload::Ping {
    bytes: 64,
    pause: 0,
    count: 20_000,
};
const ASLEEP: Workload = Workload::Ping {
    bytes: 64,
    pause: 1_000,
    count: 300,
};
const GETS: Workload = Workload::KeepAlive { count: 5_000 };
const CROWD: Workload = Workload::Crowd {
    clients: 200,
    gets: 20,
};

const fn tokio(
    title: &'static str,
    workload: Workload,
    flavor: Flavor,
    hog: bool,
    goal: Goal,
) -> Tokio {
    Tokio {
        title,
        workload,
        flavor,
        hog,
        goal,
    }
}

/// Times of TCP's: `1 / n` for a throughput of `n`.
const TOKIO: [Tokio; 17] = [
    tokio(
        "ping hot, current thread, spawned, us",
        HOT,
        Flavor::CURRENT,
        false,
        Goal::time(0.15, 0.04),
    ),
    tokio(
        "ping hot, current thread, root, us",
        HOT,
        Flavor::CURRENT_ROOT,
        false,
        Goal::time(0.15, 0.04),
    ),
    tokio(
        "ping hot, multi thread, spawned, us",
        HOT,
        Flavor::MULTI,
        false,
        Goal::time(0.15, 0.04),
    ),
    tokio(
        "ping hot, multi thread, root, us",
        HOT,
        Flavor::MULTI_ROOT,
        false,
        Goal::time(1.0, 0.2),
    ),
    tokio(
        "ping asleep, current thread, us",
        ASLEEP,
        Flavor::CURRENT,
        false,
        Goal::time(1.0, 0.75),
    ),
    tokio(
        "ping asleep, multi thread, us",
        ASLEEP,
        Flavor::MULTI,
        false,
        Goal::time(1.0, 0.75),
    ),
    tokio(
        "5,000 GETs, current thread, ms",
        GETS,
        Flavor::CURRENT,
        false,
        Goal::time(1.0 / 2.5, 1.0 / 8.0),
    ),
    tokio(
        "5,000 GETs, multi thread, ms",
        GETS,
        Flavor::MULTI,
        false,
        Goal::time(1.0 / 2.5, 1.0 / 8.0),
    ),
    tokio(
        "5,000 GETs, multi thread, root, ms",
        GETS,
        Flavor::MULTI_ROOT,
        false,
        Goal::time(1.0 / 1.2, 1.0 / 2.0),
    ),
    tokio(
        "200 x 20 GETs, new connections, current thread, ms",
        CROWD,
        Flavor::CURRENT,
        false,
        Goal::time(1.0 / 1.2, 1.0 / 2.0),
    ),
    tokio(
        "200 x 20 GETs, new connections, multi thread, ms",
        CROWD,
        Flavor::MULTI,
        false,
        Goal::time(1.0 / 1.2, 1.0 / 2.0),
    ),
    tokio(
        "ping hot beside a hog, current thread, us",
        HOT,
        Flavor::CURRENT,
        true,
        Goal::time(1.2, 1.0),
    ),
    tokio(
        "ping hot beside a hog, multi thread, us",
        HOT,
        Flavor::MULTI,
        true,
        Goal::time(1.2, 1.0),
    ),
    tokio(
        "ping hot beside a hog, multi thread, root, us",
        HOT,
        Flavor::MULTI_ROOT,
        true,
        Goal::time(1.2, 1.0),
    ),
    tokio(
        "5,000 GETs beside a hog, multi thread, ms",
        GETS,
        Flavor::MULTI,
        true,
        Goal::time(1.2, 1.0),
    ),
    tokio(
        "5,000 GETs beside a hog, current thread, ms",
        GETS,
        Flavor::CURRENT,
        true,
        Goal::time(1.2, 1.0),
    ),
    tokio(
        "200 x 20 GETs beside a hog, current thread, ms",
        CROWD,
        Flavor::CURRENT,
        true,
        Goal::time(1.2, 1.0),
    ),
];

/// Measures what the arguments ask for.
pub(crate) fn run(arguments: &[String]) {
    let rounds = arguments
        .iter()
        .find_map(|at| at.parse().ok())
        .unwrap_or(11);
    let plot = arguments.iter().find_map(|at| match at.as_str() {
        "plot" => Some(PICTURE),
        at => at.strip_prefix("plot="),
    });
    let is_plot = |at: &str| at == "plot" || at.starts_with("plot=");
    let is_word = |at: &&String| at.parse::<usize>().is_err() && !is_plot(at);
    let word = arguments.iter().find(is_word).map_or("", String::as_str);
    print_load();
    for at in TOKIO.iter().filter(|at| at.title.contains(word)) {
        let measure = |transport| round(at.workload, transport, at.flavor, at.hog);
        let all = interleave_rounds(at.title, rounds, at.workload.connections(), measure);
        at.goal.judge("time of TCP's", ratio(&all));
    }
    if "requests".contains(word) {
        sweep(rounds, plot);
    }
    if "setup".contains(word) {
        setup(rounds);
    }
    if "threads".contains(word) {
        threads(rounds);
    }
    if "system calls".contains(word) {
        calls();
    }
    print_load();
}

fn sweep(rounds: usize, plot: Option<&str>) {
    let mut lines: Vec<plot::Line> = Transport::ALL.map(|at| (at, Vec::new())).to_vec();
    for connections in SWEEP {
        let workload = Workload::Requests {
            connections,
            active: connections.min(ACTIVE),
        };
        let measure = |transport| round(workload, transport, Flavor::CURRENT, false);
        let title = format!("requests a second, {connections} connections");
        let all = interleave_rounds(&title, rounds, connections, measure);
        let goal = if connections >= 50 {
            Goal::rate(4.0, 12.0)
        } else {
            Goal::rate(0.95, 12.0)
        };
        goal.judge("of TCP's", ratio(&all));
        for ((_, line), (_, figures)) in lines.iter_mut().zip(&all) {
            line.push((connections, figures.median()));
        }
    }
    if let Some(file) = plot {
        std::fs::write(file, plot::draw(&lines)).expect("the picture");
        println!("  drawn: {file}");
    }
}

fn setup(rounds: usize) {
    for (title, pause, count, goal) in [
        ("setup asleep, us", 2_000, 200, Goal::time(2.5, 1.5)),
        ("setup hot, us", 0, 2_000, Goal::time(1.5, 1.0)),
    ] {
        let workload = Workload::Setup { pause, count };
        let measure = |transport| round(workload, transport, Flavor::CURRENT, false);
        let all = interleave_rounds(title, rounds, workload.connections(), measure);
        goal.judge("time of TCP's", ratio(&all));
    }
}

fn threads(rounds: usize) {
    for bytes in [64, 16 << 10] {
        let one = interleave(
            &format!("one thread, messages of {bytes} bytes a second"),
            rounds,
            &Transport::ALL,
            |transport| round_of_threads(1, bytes, transport),
        );
        let two = interleave(
            &format!("two threads, messages of {bytes} bytes a second"),
            rounds,
            &Transport::ALL,
            |transport| round_of_threads(2, bytes, transport),
        );
        for ((transport, one), (_, two)) in one.iter().zip(&two) {
            let ratio = two.median() / one.median();
            if *transport == Transport::Smc {
                Goal::rate(1.8, 1.95).judge("SMC-D, two threads beside one", ratio);
            } else {
                println!("  {transport}, two threads beside one: {ratio:.3}");
            }
        }
    }
}

/// System calls of both processes together, per round trip: of long runs less short ones.
fn calls() {
    let Some(tracer) = Tracer::find() else {
        println!("system calls a round trip: not counted, neither perf nor strace works");
        return;
    };
    println!("system calls a round trip, by {tracer:?}");
    let ping = |pause, count| Workload::Ping {
        bytes: 64,
        pause,
        count,
    };
    for (title, pause, few, many) in [("hot", 0, 10_000, 110_000), ("asleep", 1_000, 100, 300)] {
        let counts = Transport::ALL.map(|transport| {
            let of = |count| tracer.system_calls(ping(pause, count), transport, Flavor::CURRENT);
            // A tenth more round trips warm up.
            let trips = (many - few) as f64 * 1.1;
            of(many).saturating_sub(of(few)) as f64 / trips
        });
        for (transport, count) in Transport::ALL.iter().zip(counts) {
            println!("  {title:8} {transport:8} {count:8.3}");
        }
        let [smc, tcp, _] = counts;
        match title {
            "hot" => Goal::time(0.1, 0.02).judge("SMC-D", smc),
            _ => Goal::time(1.0, 1.0).judge("SMC-D beyond TCP's", smc - tcp),
        }
    }
}
