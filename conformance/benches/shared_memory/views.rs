//! Sockets in a process that publishes a view of itself, and the same in one that does not.
//!
//! A process publishes from its first connection on or never: each figure is that of a process of its
//! own, which is this program again.

use std::process::Command;

use crate::sockets;

/// Word by which this program is one of those processes.
pub(crate) const PART: &str = "part";

/// Variable that keeps a process from publishing, by the value `0`.
const VARIABLE: &str = "SMC_VIEW";

type Figure = (&'static str, fn() -> f64);

const FIGURES: [Figure; 5] = [
    ("stream of 64 KiB writes, GB/s", || {
        sockets::stream(sockets::smc, 1 << 30)
    }),
    ("the same in buffers of 64 KiB, GB/s", || {
        sockets::stream(sockets::smc_short, 1 << 29)
    }),
    ("64-octet messages, millions a second", || {
        sockets::messages(sockets::smc, 3_000_000) * 1000.0 / 64.0
    }),
    ("there and back by one thread, ns", || {
        sockets::alone(sockets::smc, 200_000)
    }),
    ("there and back, both poll, ns", || {
        sockets::ping_pong(sockets::smc, 200_000)
    }),
];

/// Prints the figure of this name, as one of the processes.
pub(crate) fn print(name: &str) {
    let figure = FIGURES.iter().find(|(of, _)| *of == name);
    let (_, measure) = figure.expect("the name of a figure");
    let figure = measure();
    // A comparison of the same with itself would say nothing.
    let is_off = std::env::var_os(VARIABLE).is_some_and(|value| value == "0");
    assert_eq!(publishes(), !is_off, "{VARIABLE}");
    println!("{figure}");
}

/// Whether this process has published a view of itself.
fn publishes() -> bool {
    let descriptors = std::fs::read_dir("/proc/self/fd").expect("the own descriptors");
    let names = descriptors.filter_map(|entry| std::fs::read_link(entry.ok()?.path()).ok());
    let mut names = names.map(|name| name.to_string_lossy().into_owned());
    names.any(|name| name.starts_with("/memfd:smc-view"))
}

fn of_process(name: &str, publishes: bool) -> f64 {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args([PART, name]);
    match publishes {
        true => command.env_remove(VARIABLE),
        false => command.env(VARIABLE, "0"),
    };
    let output = command.stderr(std::process::Stdio::inherit()).output();
    let output = output.expect("this program again");
    assert!(output.status.success(), "{name}: {}", output.status);
    let text = String::from_utf8_lossy(&output.stdout);
    text.trim().parse().expect("a figure")
}

/// Measures each figure in pairs, with the view first in every other pair, and prints the medians and
/// the median of the ratios within pairs.
pub(crate) fn measure(title: &str, rounds: usize) {
    let word = crate::words().nth(1).unwrap_or_default();
    println!("{title}: {rounds} rounds");
    for (name, _) in FIGURES.iter().filter(|(name, _)| name.contains(&word)) {
        let mut figures = [Vec::new(), Vec::new(), Vec::new()];
        for round in 0..rounds {
            let first = round % 2 == 0;
            let pair = [first, !first].map(|publishes| (publishes, of_process(name, publishes)));
            let of = |publishes| pair.iter().find(|(at, _)| *at == publishes);
            let [with, without] = [true, false].map(|at| of(at).map_or(f64::NAN, |pair| pair.1));
            let values = [with, without, with / without];
            figures
                .iter_mut()
                .zip(values)
                .for_each(|(to, value)| to.push(value));
        }
        println!("  {name}");
        for (what, of) in ["with a view", "without", "ratio"].iter().zip(figures) {
            crate::summarize(&format!("  {what}"), of);
        }
    }
}
