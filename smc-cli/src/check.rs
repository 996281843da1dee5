//! `smcx check`: what in a capture breaks the rules.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use smc_capture::reader::CaptureReader;
use smc_checker::{Chapter, Finding, Report, Seen, check_frames, rules};

use crate::cli::CheckArguments;
use crate::output::{Failure, Screen, grouped, progress_of_bytes};
use crate::{decode, input};

/// Judges a capture, and prints the findings on `stdout`.
///
/// # Errors
/// [`Failure::Unusable`] if the capture cannot be read to its end,
/// [`Failure::Problem`] if there are findings, [`Failure::Output`] if they cannot be
/// shown.
pub fn run(
    arguments: &CheckArguments,
    screen: &Screen,
    stdout: &mut dyn Write,
    stderr: &mut dyn Write,
) -> Result<(), Failure> {
    let Some(file) = arguments.file.as_ref().filter(|_| !arguments.rules) else {
        return Ok(write!(stdout, "{}", tables())?);
    };
    let name = file.display().to_string();
    let unusable = |error| Failure::Unusable(format!("{name}: {}", decode::sentence(&error)));
    let input = input::open(file).map_err(|error| unusable(error.into()))?;
    let bar = progress_of_bytes(screen.progress, input.length);
    let report = CaptureReader::new(bar.wrap_read(input.bytes)).and_then(check_frames);
    bar.finish_and_clear();
    let report = report.map_err(unusable)?;
    match arguments.json {
        true => as_json(&report, stdout)?,
        false => text(&report, stdout)?,
    }
    stdout.flush()?;
    let seen = &report.seen;
    if seen.clc + seen.llc + seen.cdc == 0 {
        let _ = writeln!(stderr, "smcx: {name}: no SMC in {} frames", seen.frames);
    }
    match violations(&report) {
        0 => Ok(()),
        1 => Err(Failure::Problem(format!("{name}: 1 finding"))),
        count => Err(Failure::Problem(format!("{name}: {count} findings"))),
    }
}

fn violations(report: &Report) -> u64 {
    let found = report.findings.iter().filter(|f| f.is_violation()).count();
    report.dropped + found as u64
}

fn text(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for finding in &report.findings {
        let note = match finding.known {
            Some(_) => "note: ",
            None => "",
        };
        writeln!(out, "{note}{finding}")?;
    }
    if report.dropped > 0 {
        writeln!(out, "and {} more", grouped(report.dropped))?;
    }
    for (what, count) in counts(&report.seen) {
        if count > 0 {
            writeln!(out, "{:>12} {what}", grouped(count))?;
        }
    }
    for (rule, times) in &report.unjudged {
        let times = grouped(*times);
        writeln!(
            out,
            "{times:>12} times the capture has too little for {rule}"
        )?;
    }
    let notes = report.findings.len() as u64 + report.dropped - violations(report);
    let (findings, notes) = (grouped(violations(report)), grouped(notes));
    writeln!(out, "{findings:>12} findings, {notes} notes")
}

/// Numbers of what was judged, with their names.
fn counts(seen: &Seen) -> [(&'static str, u64); 10] {
    [
        ("frames", seen.frames),
        ("TCP connections with the SMC option", seen.tcp_connections),
        ("connections over SMC-R", seen.smcr_connections),
        (
            "connections over SMC-D, of which only CLC can be judged",
            seen.smcd_connections,
        ),
        ("link groups", seen.groups),
        ("CLC messages", seen.clc),
        ("LLC messages", seen.llc),
        ("CDC messages", seen.cdc),
        ("RDMA WRITEs", seen.writes),
        (
            "messages on links whose beginning is not in the capture, not judged",
            seen.strangers,
        ),
    ]
}

fn as_json(report: &Report, out: &mut dyn Write) -> io::Result<()> {
    for finding in &report.findings {
        writeln!(out, "{}", object(finding))?;
    }
    let seen = &report.seen;
    let unjudged: Map<String, Value> = report
        .unjudged
        .iter()
        .map(|(rule, times)| ((*rule).to_owned(), (*times).into()))
        .collect();
    let all = report.findings.len() as u64 + report.dropped;
    let summary = json!({
        "summary": {
            "findings": violations(report),
            "notes": all - violations(report),
            "not_told": report.dropped,
            "frames": seen.frames,
            "tcp_connections": seen.tcp_connections,
            "smcr_connections": seen.smcr_connections,
            "smcd_connections": seen.smcd_connections,
            "groups": seen.groups,
            "clc": seen.clc,
            "llc": seen.llc,
            "cdc": seen.cdc,
            "writes": seen.writes,
            "strangers": seen.strangers,
            "unjudged": unjudged,
        }
    });
    writeln!(out, "{summary}")
}

fn object(finding: &Finding) -> Value {
    json!({
        "frame": finding.frame,
        "time": finding.time as f64 / 1e9,
        "id": finding.rule.id,
        "rule": finding.rule.name,
        "chapter": finding.rule.chapter.title(),
        "sentence": finding.sentence,
        "known": finding.known.map(|known| known.name),
        "why": finding.known.map(|known| known.why),
        "early": finding.early,
    })
}

/// All rules, a table for each chapter.
fn tables() -> String {
    let mut text = String::new();
    for chapter in Chapter::ALL {
        let title = chapter.title();
        text += &format!(
            "## {title}\n\n| rule | requirement | what it says | what it needs |\n|---|---|---|---|\n"
        );
        for rule in rules().filter(|rule| rule.chapter == chapter) {
            let (name, id) = (rule.name, rule.id);
            text += &format!("| {name} | {id} | {} | {} |\n", rule.says, rule.needs);
        }
        text.push('\n');
    }
    text +=
        "## Known deviations\n\n| deviation | whose | what, and why it is taken |\n|---|---|---|\n";
    for known in smc_checker::DEVIATIONS {
        let whose = match known.whose {
            smc_checker::Whose::Kernels => "Linux",
            smc_checker::Whose::Both => "Linux and this engine",
        };
        text += &format!("| {} | {whose} | {} |\n", known.name, known.why);
    }
    text
}
