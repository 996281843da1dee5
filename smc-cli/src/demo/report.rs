//! What a demo was: tables, JSON, and the verdict.

mod links;

use std::io::{self, Write};

use comfy_table::{Cell, CellAlignment, Table, presets};
use console::Style;
use serde_json::{Map, Value, json};

use super::tally::{Family, Kind, Tally};
use super::{Outcome, bytes, hex, ladder};
use crate::cli::DemoArguments;
use crate::output::{Failure, Screen, grouped, size};

fn new_table() -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_FULL_CONDENSED);
    table
}

pub(super) fn tables(
    outcome: &Outcome,
    arguments: &DemoArguments,
    screen: &Screen,
    out: &mut dyn Write,
) -> io::Result<()> {
    let paint = |style: Style, text: &str| {
        let style = style.force_styling(screen.colours);
        style.apply_to(text).to_string()
    };
    let mut lines = vec![
        match &outcome.failure {
            None => ("Carried, and back", bytes(outcome.bytes)),
            Some(_) => ("Back at the client", bytes(outcome.back)),
        },
        (
            "SHA-256",
            if outcome.failure.is_some() {
                "✗ not everything came back".to_owned()
            } else if outcome.sha256_ok() {
                let digest = hex(outcome.sha256.first().unwrap_or(&[0; 32]));
                let short: String = digest.chars().take(16).collect();
                format!("✓ {short}… sent, at the server, and back at the client")
            } else {
                "✗ DIFFERS".to_owned()
            },
        ),
        (
            "Real time",
            format!(
                "{}, {} each way",
                time(outcome.seconds),
                rate(outcome.gbit_per_s())
            ),
        ),
        (
            "Virtual time",
            format!(
                "{}, {} each way while bytes flowed",
                time(outcome.virtual_seconds),
                rate(outcome.virtual_gbit_per_s())
            ),
        ),
        (
            if arguments.smc_d {
                "ISM moves"
            } else {
                "RDMA WRITEs"
            },
            writes(outcome),
        ),
        ("CDC messages", cdcs(outcome)),
        ("Window stalls", {
            let [client, server] = outcome.window_stalls.map(grouped);
            format!("{client} of the client, {server} of the server")
        }),
    ];
    let repeated = outcome.not_accepted.all();
    if repeated > 0 {
        lines.push(("Repeated, lost", format!("{} messages", grouped(repeated))));
    }
    let several = arguments.rnics > 1 || arguments.kill_link.is_some();
    if several {
        let [client, server] = outcome.failovers.map(grouped);
        let text = format!("{client} of the client, {server} of the server");
        lines.push(("Failovers", text));
    }
    if let Some(path) = &arguments.pcap {
        let (frames, path) = (grouped(outcome.frames), path.display());
        lines.push(("Capture", format!("{frames} frames in {path}")));
    }
    let mut summary = new_table();
    for (name, value) in lines {
        summary.add_row([name, &value]);
    }
    let summary = summary.to_string();
    let summary = if outcome.sha256_ok() {
        summary.replacen('✓', &paint(Style::new().green().bold(), "✓"), 1)
    } else {
        let loud = paint(Style::new().red().bold(), "✗ DIFFERS");
        let summary = summary.replacen("✗ DIFFERS", &loud, 1);
        summary.replacen("✗ not", &paint(Style::new().red().bold(), "✗ not"), 1)
    };
    writeln!(out, "{summary}\n")?;
    if several {
        writeln!(out, "{}\n", links::table(&outcome.links))?;
    }
    messages(outcome, screen, out)
}

fn time(seconds: f64) -> String {
    if seconds < 1.0 {
        format!("{:.3} ms", seconds * 1e3)
    } else {
        format!("{seconds:.3} s")
    }
}

fn rate(gbit_per_s: f64) -> String {
    if gbit_per_s < 1.0 {
        format!("{:.2} Mbit/s", gbit_per_s * 1e3)
    } else {
        format!("{gbit_per_s:.2} Gbit/s")
    }
}

fn writes(outcome: &Outcome) -> String {
    let kinds = [Kind::Write, Kind::Move].map(|kind| outcome.tally.of(kind));
    let [there, back] = [0, 1].map(|way| kinds.iter().map(|of| of[way]).sum::<u64>());
    let bytes: u64 = outcome.tally.write_bytes().iter().sum();
    let text = format!("{} there, {} back", grouped(there), grouped(back));
    match bytes.checked_div(there + back) {
        Some(mean) => format!("{text}, {} each on average", size(mean)),
        None => text,
    }
}

fn cdcs(outcome: &Outcome) -> String {
    let [there, back] = outcome.tally.of(Kind::Cdc).map(grouped);
    format!("{there} there, {back} back")
}

fn messages(outcome: &Outcome, screen: &Screen, out: &mut dyn Write) -> io::Result<()> {
    let mut table = new_table();
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let head = ["Messages", "to server", "to client", "together"];
    table.set_header(head);
    let present = Kind::ALL
        .into_iter()
        .filter(|kind| outcome.tally.total(*kind) > 0);
    for kind in present.clone() {
        let [there, back] = outcome.tally.of(kind);
        let (_, name) = kind.names();
        table.add_row(vec![
            Cell::new(name),
            right(grouped(there)),
            right(grouped(back)),
            right(grouped(there + back)),
        ]);
    }
    let mut text = table.to_string();
    for kind in present {
        let (_, name) = kind.names();
        let style = ladder::colour(kind.family()).force_styling(screen.colours);
        let painted = style.apply_to(name).to_string();
        text = text.replacen(&format!("│ {name} "), &format!("│ {painted} "), 1);
    }
    writeln!(out, "{text}")
}

pub(super) fn json(
    outcome: &Outcome,
    arguments: &DemoArguments,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let tally = &outcome.tally;
    let messages = |tally: &Tally| {
        let count = |kind: Kind| (kind.names().0.to_owned(), Value::from(tally.total(kind)));
        Kind::ALL.into_iter().map(count).collect::<Map<_, _>>()
    };
    let [sent, there, back] = outcome.sha256.each_ref().map(hex);
    let record = json!({
        "bytes": outcome.bytes,
        "sha256_ok": outcome.sha256_ok(),
        "sha256": sent,
        "sha256_at_server": there,
        "sha256_back_at_client": back,
        "seconds": outcome.seconds,
        "gbit_per_s": outcome.gbit_per_s(),
        "virtual_seconds": outcome.virtual_seconds,
        "virtual_gbit_per_s": outcome.virtual_gbit_per_s(),
        "clc": tally.family(Family::Clc),
        "llc": tally.family(Family::Llc),
        "cdc": tally.family(Family::Cdc),
        "technology": super::carrier(arguments).name(),
        "rdma_writes": tally.total(Kind::Write),
        "ism_moves": tally.total(Kind::Move),
        "rdma_write_bytes": tally.write_bytes().iter().sum::<u64>(),
        "window_stalls": outcome.window_stalls.iter().sum::<u64>(),
        "not_accepted": outcome.not_accepted.all(),
        "messages": messages(&outcome.tally),
        "not_accepted_messages": messages(&outcome.not_accepted),
        "failovers": outcome.failovers.iter().sum::<u64>(),
        "links": outcome.links.iter().map(links::json).collect::<Vec<_>>(),
        "error": outcome.failure,
        "back": outcome.back,
        "rnics": arguments.rnics,
        "smc_version": arguments.smc_version,
        "seed": arguments.seed,
        "pcap": arguments.pcap.as_ref().map(|path| path.display().to_string()),
        "frames": arguments.pcap.as_ref().map(|_| outcome.frames),
    });
    let line =
        serde_json::to_string(&record).map_err(|error| Failure::Output(io::Error::other(error)))?;
    writeln!(out, "{line}")?;
    Ok(())
}

/// Success, unless the transfer ended early or bytes changed on the way.
pub(super) fn verdict(outcome: &Outcome) -> Result<(), Failure> {
    if let Some(sentence) = &outcome.failure {
        return Err(Failure::Problem(sentence.clone()));
    }
    if outcome.sha256_ok() {
        return Ok(());
    }
    let [sent, there, back] = outcome.sha256.each_ref().map(hex);
    Err(Failure::Problem(format!(
        "BYTES CHANGED ON THE WAY: SHA-256 {sent} was sent, {there} arrived at the server, \
         {back} came back"
    )))
}
