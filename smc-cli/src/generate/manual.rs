//! Manual pages: of each command one, in the sections that man-pages(7) names.

use clap::Command;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use crate::output::Failure;
use crate::status;

/// The pages by the names of their files.
pub(super) fn pages(command: Command) -> Result<Vec<(String, Vec<u8>)>, Failure> {
    // Pages for `help` and its copies of all commands have no content.
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut pages = Vec::new();
    below(&command, "", &mut pages)?;
    Ok(pages)
}

fn below(command: &Command, path: &str, pages: &mut Vec<(String, Vec<u8>)>) -> Result<(), Failure> {
    let visible = || command.get_subcommands().filter(|of| !of.is_hide_set());
    let mut siblings: Vec<String> = visible().map(file_name).collect();
    if !path.is_empty() {
        siblings.insert(0, "smcx".to_owned());
    }
    let mut text = Vec::new();
    page(command, path, &siblings, &mut text)?;
    pages.push((format!("{}.1", file_name(command)), text));
    for inner in visible() {
        let name = inner.get_name();
        match path {
            "" => below(inner, name, pages)?,
            path => below(inner, &format!("{path} {name}"), pages)?,
        }
    }
    Ok(())
}

fn file_name(command: &Command) -> String {
    let name = command.get_display_name();
    name.unwrap_or_else(|| command.get_name()).to_owned()
}

fn page(
    command: &Command,
    path: &str,
    see_also: &[String],
    out: &mut Vec<u8>,
) -> Result<(), Failure> {
    let version = env!("CARGO_PKG_VERSION");
    let man = Man::new(command.clone())
        .title(file_name(command).to_uppercase())
        .source(format!("smcx {version}"))
        .manual("Shared Memory Communications");
    man.render_title(out)?;
    man.render_name_section(out)?;
    man.render_synopsis_section(out)?;
    man.render_description_section(out)?;
    if command.get_arguments().any(|of| !of.is_hide_set()) {
        man.render_options_section(out)?;
    }
    if command.get_subcommands().any(|of| !of.is_hide_set()) {
        man.render_subcommands_section(out)?;
    }
    let mut rest = Roff::new();
    notes(command, &mut rest);
    rest.control("SH", ["EXIT STATUS"]);
    for (code, meaning) in status::of(path) {
        rest.control("TP", []);
        rest.text([bold(code)]);
        rest.text([roman(meaning)]);
    }
    environment(path, &mut rest);
    rest.control("SH", ["SEE ALSO"]);
    let last = see_also.len().saturating_sub(1);
    for (at, name) in see_also.iter().enumerate() {
        let behind = if at == last { "" } else { "," };
        rest.control("BR", [name.as_str(), format!("(1){behind}").as_str()]);
    }
    rest.to_writer(out)?;
    Ok(())
}

/// Examples, and what else is below the help.
fn notes(command: &Command, roff: &mut Roff) {
    let Some(help) = command.get_after_help() else {
        return;
    };
    let help = help.to_string();
    let (mut examples, mut others) = (Vec::new(), Vec::new());
    for paragraph in help.split("\n\n") {
        match paragraph.strip_prefix("Examples:\n") {
            Some(lines) => examples.extend(lines.lines()),
            // It has a section of its own.
            None if paragraph.starts_with("Exit status:") => {}
            None => others.push(paragraph),
        }
    }
    if !others.is_empty() {
        roff.control("SH", ["NOTES"]);
    }
    for (at, paragraph) in others.iter().enumerate() {
        if at > 0 {
            roff.control("PP", []);
        }
        verbatim_or_filled(paragraph, roff);
    }
    if !examples.is_empty() {
        roff.control("SH", ["EXAMPLES"]);
        verbatim(&examples, roff);
    }
}

/// Indented lines as they are, all others as running text.
fn verbatim_or_filled(paragraph: &str, roff: &mut Roff) {
    for line in paragraph.lines() {
        match line.starts_with("  ") {
            true => verbatim(&[line], roff),
            false => {
                roff.text([roman(line)]);
            }
        }
    }
}

fn verbatim(lines: &[&str], roff: &mut Roff) {
    roff.control("nf", []);
    for line in lines {
        roff.text([roman(line.strip_prefix("  ").unwrap_or(line))]);
    }
    roff.control("fi", []);
}

/// Variables, of those commands that go by them.
fn environment(path: &str, roff: &mut Roff) {
    let policy = (
        "SMC_POLICY",
        "Names the policy file; empty, it stands for no file at all.",
    );
    let colours = ("NO_COLOR", "If it is not empty, the output has no colours.");
    let run = [
        ("SMC_RCVBUF", "The size of receive buffers (-r)."),
        ("SMC_SNDBUF", "The size of send buffers (-t)."),
        ("SMC_DEBUG", "Lines about connections (-d)."),
    ];
    let view = (
        "SMC_VIEW",
        "If it is 0, other commands are shown nothing of the process.",
    );
    let state = (
        "XDG_STATE_HOME",
        "Where -r keeps what has been counted, in smc/stats.json; ~/.local/state without it.",
    );
    let mut all = match path {
        "" => vec![policy, view, colours],
        "demo" | "sim" | "top" => vec![colours],
        "connect" | "listen" | "perf" | "proxy" | "run" | "trace" => vec![policy, view],
        "why" | "devices" | "info" => vec![policy],
        "stats" => vec![state],
        _ => return,
    };
    if path == "run" {
        all.extend(run);
    }
    roff.control("SH", ["ENVIRONMENT"]);
    for (name, meaning) in all {
        roff.control("TP", []);
        roff.text([bold(name)]);
        roff.text([roman(meaning)]);
    }
    if path.is_empty() {
        roff.control("SH", ["FILES"]);
        for (name, meaning) in [
            ("$XDG_CONFIG_HOME/smc/policy.toml", "The policy of a user."),
            ("/etc/smc/policy.toml", "The policy of the system."),
        ] {
            roff.control("TP", []);
            roff.text([bold(name)]);
            roff.text([roman(meaning)]);
        }
    }
}
