//! `smcx stats`: what the processes that there are have counted.

mod baseline;
mod entstat;
mod text;

use std::io::Write;
use std::time::SystemTime;

use serde::{Serialize, Serializer};
use smc_view::{Found, KEYS, Side, Statistics, Traffic};

use crate::cli::{StatsArguments, StatsFormat};
use crate::output::Failure;

/// Shows the statistics, or begins them anew.
///
/// # Errors
/// `/proc` or the state cannot be read, the state cannot be written, or the output.
pub fn run(arguments: &StatsArguments, stdout: &mut dyn Write) -> Result<(), Failure> {
    let found = crate::processes::all()?;
    let wanted = |found: &Found| arguments.process.is_none_or(|of| of == found.process);
    let mut first = None;
    let counted = found.filter(wanted).map(|found| {
        let began = found.view.began();
        first = Some(first.unwrap_or(began).min(began));
        let name = format!("{}-{began}", found.process);
        (name, found.view.read().statistics)
    });
    let counted: Vec<_> = counted.collect();
    let before = match arguments.absolute {
        true => baseline::Baseline::default(),
        false => baseline::read()?,
    };
    let mut sums = Statistics::default();
    for (name, statistics) in &counted {
        sums.add(&before.since(name, statistics));
    }
    if arguments.json {
        let text = serde_json::to_string(&Shown::of(&sums)).map_err(std::io::Error::from)?;
        writeln!(stdout, "{text}")?;
    } else if arguments.format == StatsFormat::Entstat {
        let since = first.map(|first| first.max(before.kept_at()));
        entstat::write(&sums, since, arguments.details, stdout)?;
    } else {
        text::write(&sums, arguments.details, stdout)?;
    }
    if arguments.reset {
        baseline::write(&counted)?;
    }
    Ok(())
}

/// A time in nanoseconds since 1970; 0 if it was before.
fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(SystemTime::UNIX_EPOCH);
    let since = since.unwrap_or_default().as_nanos();
    u64::try_from(since).unwrap_or(u64::MAX)
}

/// What `--json` shows, in the order of `smcr stats json`: keys of a map would be sorted.
#[derive(Serialize)]
struct Shown {
    #[serde(rename = "SMCD")]
    smc_d: Counted,
    #[serde(rename = "SMCR")]
    smc_r: Counted,
    tcp: Sides,
    fallbacks: Vec<Fallback>,
    handshake_errors: Sides,
    link_moves: u64,
}

/// The 65 counters of a technology by their names.
struct Counted(Traffic);

impl Serialize for Counted {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(KEYS.iter().zip(self.0.0))
    }
}

#[derive(Serialize)]
struct Sides {
    client: u64,
    server: u64,
}

impl Sides {
    const fn of([client, server]: [u64; 2]) -> Self {
        Self { client, server }
    }
}

/// Connections that are TCP for a reason.
#[derive(Serialize)]
struct Fallback {
    side: &'static str,
    code: String,
    count: u64,
}

impl Shown {
    fn of(sums: &Statistics) -> Self {
        let fallbacks = sums.fallbacks.iter().map(|of| Fallback {
            side: match of.side {
                Side::Client => "client",
                Side::Server => "server",
            },
            code: format!("0x{:08x}", of.code),
            count: of.count,
        });
        Self {
            smc_d: Counted(sums.smc_d),
            smc_r: Counted(sums.smc_r),
            tcp: Sides::of(sums.tcp),
            fallbacks: fallbacks.collect(),
            handshake_errors: Sides::of(sums.handshake_errors),
            link_moves: sums.link_moves,
        }
    }
}
