//! Calls that are drawn from a seed (`programs/drawn.c`) do over SMC what they do over TCP.
//!
//! Each seed runs over TCP first, whose transcripts are what the ends expect when they run with the
//! library: an end waits for what it expects, for a bounded time, and ends at the first line that
//! differs.
//!
//! `DRAWN_SEEDS=FROM..TO` chooses the seeds, for campaigns and to replay one.

use std::fmt::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use smc_run::statistics::Counts;

use crate::process::{Role, Transcript};
use crate::program::Program;

/// Seeds of a run that chooses none.
const SEEDS: Range<u64> = 1..61;
/// Time after which no further seed of those begins. A campaign takes as long as it takes.
const MOST: Duration = Duration::from_secs(15);
/// Seeds that a machine with little time has to run nevertheless.
const LEAST: usize = 10;
/// Runs of a seed, of which one has to be as over TCP. A machine with no time to spare may leave a
/// connection on TCP, or keep a process from running for longer than it waits for.
const ATTEMPTS: usize = 4;
/// One run of so many may differ from that over TCP, and some more by chance.
const SELDOM: usize = 10;
const SOME: usize = 3;
/// Connections of a run (`CONNECTIONS` of `drawn_ends.h`).
const CONNECTIONS: u64 = 2;
/// Lines before the one that differs that are shown.
const CONTEXT: usize = 12;

/// The ends of a run, the server first.
type Ends = [Transcript; 2];

const ROLES: [&str; 2] = ["server", "client"];

/// The seeds of `DRAWN_SEEDS`, if it is set.
fn chosen() -> Option<Range<u64>> {
    let text = std::env::var("DRAWN_SEEDS").ok()?;
    let (from, to) = text.split_once("..").expect("DRAWN_SEEDS=FROM..TO");
    let number = |text: &str| text.parse().expect("a number in DRAWN_SEEDS");
    Some(number(from)..number(to))
}

/// Where the transcripts over TCP are, without the name of the role.
fn expected() -> PathBuf {
    let name = format!("drawn-expected-{}", std::process::id());
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(name)
}

/// Runs a seed over TCP, or with the library and the transcripts that are expected.
fn run(program: &Program, seed: u64, preloaded: bool) -> (Ends, [Vec<Counts>; 2]) {
    let of = |role: &str| {
        let mut program = program.clone();
        program.variables.push(("DRAWN_SEED", seed.to_string()));
        if preloaded {
            let file = expected().with_extension(role);
            let file = file.to_str().unwrap().to_owned();
            program.variables.push(("DRAWN_EXPECTED", file));
        }
        program
    };
    let mut server = Role::start(&of("server"), &["drawn", "server"], preloaded);
    let port = server.port();
    let client = Role::start(&of("client"), &["drawn", "client", &port], preloaded);
    let (client, of_client) = client.finish();
    let (server, of_server) = server.finish();
    ([server, client], [of_server, of_client])
}

/// What an end did otherwise than over TCP, with what came before: `None` if nothing.
fn difference(role: &str, plain: &Transcript, found: &Transcript) -> Option<String> {
    if plain == found {
        return None;
    }
    let (plain, found) = (plain.to_string(), found.to_string());
    let (plain, found): (Vec<_>, Vec<_>) = (plain.lines().collect(), found.lines().collect());
    let same = plain.iter().zip(&found).take_while(|(a, b)| a == b).count();
    // The other end ends as well, with a part of its transcript.
    let is_cut = same + 1 == found.len() && found.len() < plain.len();
    if is_cut && found.last() == plain.last() {
        return None;
    }
    let mut text = format!("  the {role}:\n");
    for line in plain.iter().take(same).skip(same.saturating_sub(CONTEXT)) {
        let _ = writeln!(text, "  {line}");
    }
    let line = |of: &[&str]| {
        of.get(same)
            .map_or("nothing", |line| line.trim())
            .to_owned()
    };
    let _ = writeln!(
        text,
        "    over TCP: {}\n    over SMC: {}",
        line(&plain),
        line(&found)
    );
    Some(text)
}

/// Why a seed is not as over TCP, or not over SMC. Counts the runs that differ.
fn compare(program: &Program, seed: u64, differing: &mut usize) -> Result<(), String> {
    let mut failure = String::new();
    for _ in 0..ATTEMPTS {
        let (plain, _) = run(program, seed, false);
        for (role, transcript) in ROLES.iter().zip(&plain) {
            std::fs::write(expected().with_extension(role), transcript.text()).unwrap();
        }
        let (found, counts) = run(program, seed, true);
        if plain != found {
            failure = (0..2)
                .filter_map(|at| difference(ROLES[at], &plain[at], &found[at]))
                .collect();
            println!("seed {seed}, a run that differs:\n{failure}");
            *differing += 1;
            continue;
        }
        let over_smc = |end: &Vec<Counts>| end.iter().map(Counts::smc).sum::<u64>();
        if counts.iter().all(|end| over_smc(end) == CONNECTIONS) {
            return Ok(());
        }
        failure = format!("  not over SMC: {:?}\n", counts.each_ref().map(over_smc));
    }
    Err(format!(
        "seed {seed}:\n{failure}  again: DRAWN_SEEDS={seed}..{} cargo test -p smc-preload-programs \
         --test programs drawn\n",
        seed + 1
    ))
}

#[test]
fn drawn_calls_do_over_smc_what_they_do_over_tcp() {
    let program = Program::compile("drawn");
    let (chosen, began) = (chosen(), Instant::now());
    let (mut count, mut differing, mut failures) = (0, 0, Vec::new());
    for seed in chosen.clone().unwrap_or(SEEDS) {
        if chosen.is_none() && count >= LEAST && began.elapsed() > MOST {
            break;
        }
        count += 1;
        failures.extend(compare(&program, seed, &mut differing).err());
    }
    for role in ROLES {
        let _ = std::fs::remove_file(expected().with_extension(role));
    }
    println!(
        "{count} seeds, {} of them and {differing} runs differ",
        failures.len()
    );
    assert!(failures.is_empty(), "{}", failures.concat());
    assert!(
        differing <= count / SELDOM + SOME,
        "{differing} runs of {count} seeds differ"
    );
}
