//! The answer, for people and for programs.

use std::io::{self, Write};

use comfy_table::{ContentArrangement, Table, presets};
use serde_json::{Value, json};
use smc_sockets::Side;
use smc_sockets::why::{Condition, Expected, State, Why};

use super::{Attempt, is_expected};
use crate::output::{Failure, reason};

/// Columns of the table.
const WIDTH: u16 = 100;

pub(super) fn text(why: &Why, attempt: Option<&Attempt>, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "A connection to {} would be {}.", why.to, why.outcome)?;
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(WIDTH);
    table.set_header(["", "condition", "whose", "found"]);
    for at in &why.conditions {
        table.add_row([sign(at.state), at.name, whose(at.side), &at.found]);
    }
    writeln!(out, "{table}")?;
    let remedies = why.conditions.iter().filter(|at| at.state == State::Fails);
    for (condition, remedy) in remedies.filter_map(|at| Some((at.name, at.remedy.as_ref()?))) {
        writeln!(out, "{condition}: {remedy}")?;
    }
    match attempt {
        None => Ok(()),
        Some(Err(error)) => writeln!(out, "Connected: no, {}.", reason(error)),
        Some(Ok(stream)) => {
            writeln!(out, "Connected: {}", stream.carrier())?;
            let Some(why) = stream.carrier().why_tcp() else {
                return Ok(());
            };
            writeln!(out, "  decided by {}; {}", why.decided_by(), why.remedy())
        }
    }
}

pub(super) fn json(
    why: &Why,
    attempt: Option<&Attempt>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let conditions: Vec<_> = why.conditions.iter().map(condition).collect();
    let mut record = json!({
        "to": why.to.to_string(),
        "expected": match why.outcome {
            Expected::NoListener => "nobody",
            Expected::SharedMemory => "smc-d",
            Expected::Rdma => "smc-r",
            Expected::Tcp => "tcp",
        },
        "decisive": why.decisive().map(|at| at.name),
        "conditions": conditions,
    });
    if let (Some(attempt), Value::Object(record)) = (attempt, &mut record) {
        record.insert("connected".to_owned(), connected(attempt));
        record.insert("as_expected".to_owned(), is_expected(why, attempt).into());
    }
    let line =
        serde_json::to_string(&record).map_err(|error| Failure::Output(io::Error::other(error)))?;
    writeln!(out, "{line}")?;
    Ok(())
}

fn condition(of: &Condition) -> Value {
    json!({
        "name": of.name,
        "state": of.state.to_string(),
        "whose": side(of.side),
        "found": of.found,
        "remedy": of.remedy,
    })
}

fn connected(attempt: &Attempt) -> Value {
    let stream = match attempt {
        Ok(stream) => stream,
        Err(error) => return json!({ "error": reason(error) }),
    };
    let carrier = stream.carrier();
    match carrier.why_tcp() {
        None => json!({ "smc": true, "carrier": carrier.to_string() }),
        Some(why) => json!({
            "smc": false,
            "carrier": "TCP",
            "code": why.smcss(),
            "sentence": why.sentence(),
            "decided_by": side(why.decided_by()),
            "remedy": why.remedy(),
        }),
    }
}

const fn side(side: Side) -> &'static str {
    match side {
        Side::Here => "here",
        Side::Peer => "peer",
    }
}

const fn whose(side: Side) -> &'static str {
    match side {
        Side::Here => "ours",
        Side::Peer => "the peer's",
    }
}

const fn sign(state: State) -> &'static str {
    match state {
        State::Holds => "✓",
        State::Fails => "✗",
        State::Open => "?",
        State::Idle => "·",
    }
}
