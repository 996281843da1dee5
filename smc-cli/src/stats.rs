//! `smcx stats`: what the processes that there are have counted.

mod baseline;
mod text;

use std::io::Write;

use serde_json::{Map, Value, json};
use smc_view::{Found, KEYS, Side, Statistics, Traffic};

use crate::cli::StatsArguments;
use crate::output::Failure;

/// Shows the statistics, or begins them anew.
///
/// # Errors
/// `/proc` or the state cannot be read, the state cannot be written, or the output.
pub fn run(arguments: &StatsArguments, stdout: &mut dyn Write) -> Result<(), Failure> {
    let found = crate::processes::all()?;
    let wanted = |found: &Found| arguments.process.is_none_or(|of| of == found.process);
    let counted = found.filter(wanted).map(|found| {
        let began = found.view.began();
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
    } else {
        text::write(&sums, stdout)?;
    }
    if arguments.reset {
        baseline::write(&counted)?;
    }
    Ok(())
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
