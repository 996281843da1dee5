//! `smcx stats`: what the processes that there are have counted.

mod baseline;
mod entstat;
mod text;

use std::io::Write;
use std::time::SystemTime;

use serde_json::{Map, Value, json};
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
        writeln!(stdout, "{}", object(&sums))?;
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

fn object(sums: &Statistics) -> Value {
    let [client, server] = sums.tcp;
    let [client_errors, server_errors] = sums.handshake_errors;
    let fallbacks = sums.fallbacks.iter().map(|of| {
        let side = match of.side {
            Side::Client => "client",
            Side::Server => "server",
        };
        json!({"side": side, "code": format!("0x{:08x}", of.code), "count": of.count})
    });
    json!({
        "SMCD": keys(&sums.smc_d),
        "SMCR": keys(&sums.smc_r),
        "tcp": {"client": client, "server": server},
        "fallbacks": fallbacks.collect::<Vec<_>>(),
        "handshake_errors": {"client": client_errors, "server": server_errors},
        "link_moves": sums.link_moves,
    })
}

fn keys(traffic: &Traffic) -> Value {
    let values = KEYS.iter().zip(traffic.0);
    let values = values.map(|(key, value)| ((*key).to_owned(), json!(value)));
    Value::Object(values.collect::<Map<_, _>>())
}
