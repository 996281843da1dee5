//! What many runs were: tables, JSON, and the verdict.

use std::collections::BTreeSet;
use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, Table, presets};
use console::Style;
use serde_json::{Map, Value, json};
use smc_transport_sim::chaos::Coverage;
use smc_transport_sim::fault::{FaultKind, Phase};

use super::{Failed, Findings};
use crate::cli::{Seeds, SimArguments};
use crate::output::{Failure, Screen, grouped, size};

/// Failed runs that are printed in full, and lines of each.
const SHOWN: usize = 10;
const SENTENCES: usize = 5;

pub(super) fn text(
    findings: &Findings,
    arguments: &SimArguments,
    seconds: f64,
    screen: &Screen,
    out: &mut dyn Write,
) -> io::Result<()> {
    let coverage = &findings.coverage;
    let faults = coverage.effects.values().sum::<u64>();
    let mut summary = Table::new();
    summary.load_style(presets::UTF8_FULL_CONDENSED);
    let (failed, rate) = (findings.failed.len() as u64, coverage.runs as f64 / seconds);
    let mut lines = vec![
        (
            "Runs",
            format!(
                "{} in {seconds:.1} s, {rate:.1} a second; {} of SMC-D",
                grouped(coverage.runs),
                grouped(coverage.smcd_runs)
            ),
        ),
        (
            "Failed",
            if failed == 0 {
                "✓ none".to_owned()
            } else {
                format!("✗ {}", grouped(failed))
            },
        ),
        ("Faults that took effect", grouped(faults)),
        (
            "Link groups",
            format!(
                "{}, with {} links",
                grouped(coverage.groups),
                grouped(coverage.links)
            ),
        ),
        ("Octets read", size(coverage.bytes)),
        (
            "Conversations judged",
            format!("those of {} runs", grouped(findings.checked)),
        ),
    ];
    let outcomes = coverage.outcomes.iter();
    let outcomes = outcomes.map(|(outcome, count)| format!("{} {outcome}", grouped(*count)));
    lines.push(("Connections", outcomes.collect::<Vec<_>>().join(", ")));
    if let Some(path) = &arguments.pcap {
        lines.push(("Capture", path.display().to_string()));
    }
    for (name, value) in lines {
        summary.add_row([name, &value]);
    }
    let mut summary = summary.to_string();
    for (sign, style) in [('✓', Style::new().green()), ('✗', Style::new().red())] {
        let style = style.bold().force_styling(screen.colours);
        summary = summary.replacen(sign, &style.apply_to(sign).to_string(), 1);
    }
    writeln!(out, "{}\n\n{summary}", effects(coverage))?;
    for failed in findings.failed.iter().take(SHOWN) {
        print(failed, out)?;
    }
    let more = findings.failed.len().saturating_sub(SHOWN);
    if more > 0 {
        writeln!(out, "\n… and {more} more, which --json lists")?;
    }
    Ok(())
}

fn print(failed: &Failed, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "\nseed {} failed:", failed.seed)?;
    for sentence in failed.what.iter().take(SENTENCES) {
        writeln!(out, "  {sentence}")?;
    }
    let more = failed.what.len().saturating_sub(SENTENCES);
    if more > 0 {
        writeln!(out, "  … and {more} more")?;
    }
    writeln!(out, "  to see it: {}", failed.replay())
}

/// Faults by kind and by what their victims were doing.
fn effects(coverage: &Coverage) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_BORDERS_ONLY);
    let mut head = vec![Cell::new("fault \\ while")];
    for phase in Phase::ALL {
        let name = match phase {
            Phase::Handshake => "hand-\nshake".to_owned(),
            other => other.name().replacen(' ', "\n", 1),
        };
        head.push(Cell::new(name).set_alignment(CellAlignment::Right));
    }
    table.set_header(head);
    for kind in FaultKind::ALL {
        let mut row = vec![Cell::new(kind.name())];
        for phase in Phase::ALL {
            let text = match coverage.times(kind, phase) {
                0 if Coverage::impossible(kind, phase).is_some() => "–".to_owned(),
                0 => "·".to_owned(),
                times => grouped(times),
            };
            row.push(Cell::new(text).set_alignment(CellAlignment::Right));
        }
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_padding((1, 0));
    }
    table
}

pub(super) fn json(
    findings: &Findings,
    arguments: &SimArguments,
    seconds: f64,
    messages: Option<Vec<String>>,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let coverage = &findings.coverage;
    let mut faults = Map::new();
    for kind in FaultKind::ALL {
        let phases = Phase::ALL.into_iter().map(|phase| {
            let times = coverage.times(kind, phase);
            (format!("{phase:?}"), Value::from(times))
        });
        faults.insert(format!("{kind:?}"), Value::Object(phases.collect()));
    }
    let outcomes = coverage.outcomes.iter();
    let outcomes = outcomes.map(|(outcome, count)| (format!("{outcome:?}"), Value::from(*count)));
    let failures = findings.failed.iter().map(
        |failed| json!({ "seed": failed.seed, "what": failed.what, "replay": failed.replay() }),
    );
    let Seeds(seeds) = &arguments.seeds;
    let mut record = json!({
        "profile": "chaos",
        "first_seed": seeds.start,
        "last_seed": seeds.end - 1,
        "runs": coverage.runs,
        "judged": findings.checked,
        "smcd_runs": coverage.smcd_runs,
        "failed": findings.failed.len(),
        "failures": failures.collect::<Vec<_>>(),
        "connections": outcomes.collect::<Map<_, _>>(),
        "faults": faults,
        "groups": coverage.groups,
        "links": coverage.links,
        "octets": coverage.bytes,
        "steps": coverage.steps,
        "most_steps": coverage.most_steps,
        "seconds": seconds,
    });
    if let (Some(messages), Value::Object(record)) = (messages, &mut record) {
        record.insert("messages".to_owned(), messages.into());
    }
    let line =
        serde_json::to_string(&record).map_err(|error| Failure::Output(io::Error::other(error)))?;
    writeln!(out, "{line}")?;
    Ok(())
}

/// Success, unless a run failed.
pub(super) fn verdict(findings: &Findings) -> Result<(), Failure> {
    let seeds: BTreeSet<u64> = findings.failed.iter().map(|failed| failed.seed).collect();
    if seeds.is_empty() {
        return Ok(());
    }
    let first: Vec<_> = seeds.iter().take(SHOWN).map(u64::to_string).collect();
    let more = if seeds.len() > SHOWN { ", …" } else { "" };
    Err(Failure::Problem(format!(
        "{} of {} runs failed: seed {}{more}",
        grouped(seeds.len() as u64),
        grouped(findings.coverage.runs),
        first.join(", "),
    )))
}
