//! Manual pages and completions.

use std::fs;

use crate::common::{scratch, smcx};

/// Names of all commands that the help lists, with dashes between.
fn commands(command: &clap::Command, name: &str, into: &mut Vec<String>) {
    into.push(name.to_owned());
    for inner in command.get_subcommands().filter(|of| !of.is_hide_set()) {
        commands(inner, &format!("{name}-{}", inner.get_name()), into);
    }
}

#[test]
fn each_command_has_a_manual_page_with_its_exit_statuses() {
    let place = scratch("manual-pages");
    let outcome = smcx(["generate".as_ref(), "man".as_ref(), place.as_os_str()]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    let mut names = Vec::new();
    commands(&smcx::cli::command(), "smcx", &mut names);
    assert!(names.len() > 10, "{names:?}");
    assert_eq!(fs::read_dir(&place).unwrap().count(), names.len());
    for name in names {
        let page = fs::read_to_string(place.join(format!("{name}.1"))).unwrap();
        let title = format!(".TH {} 1", name.to_uppercase().replace('-', "\\-"));
        assert!(
            page.contains(&title) || page.contains(&title.replace("\\-", "-")),
            "{name}: {page}"
        );
        for section in [
            "NAME",
            "SYNOPSIS",
            "DESCRIPTION",
            "\"EXIT STATUS\"",
            "\"SEE ALSO\"",
        ] {
            assert!(
                page.contains(&format!(".SH {section}\n")),
                "{name}: {section}: {page}"
            );
        }
        // Each is in the place of its own.
        assert!(!page.contains("Exit status:"), "{name}: {page}");
        assert!(page.contains("wrong usage"), "{name}: {page}");
    }
}

/// Variables that a command goes by are in its page.
#[test]
fn pages_name_the_variables_of_their_commands() {
    let place = scratch("manual-variables");
    let outcome = smcx(["generate".as_ref(), "man".as_ref(), place.as_os_str()]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    for (name, variables) in [
        ("smcx", &["SMC_POLICY", "SMC_VIEW", "NO_COLOR"][..]),
        (
            "smcx-run",
            &[
                "SMC_POLICY",
                "SMC_VIEW",
                "SMC_RCVBUF",
                "SMC_SNDBUF",
                "SMC_DEBUG",
            ],
        ),
        ("smcx-stats", &["XDG_STATE_HOME"]),
        ("smcx-top", &["NO_COLOR"]),
        ("smcx-trace", &["SMC_POLICY", "SMC_VIEW"]),
        ("smcx-why", &["SMC_POLICY"]),
    ] {
        let page = fs::read_to_string(place.join(format!("{name}.1"))).unwrap();
        let (_, section) = page.split_once(".SH ENVIRONMENT\n").unwrap();
        let section = section.split(".SH ").next().unwrap();
        for variable in variables {
            let line = format!("\\fB{variable}\\fR");
            assert!(section.contains(&line), "{name}: {variable}: {section}");
        }
    }
}

/// The table of the package's description has every command.
#[test]
fn the_readme_has_every_command() {
    let readme = concat!(env!("CARGO_MANIFEST_DIR"), "/README.md");
    let readme = fs::read_to_string(readme).unwrap();
    let table: String = readme
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    for command in smcx::cli::command().get_subcommands() {
        if command.is_hide_set() || command.get_name() == "help" {
            continue;
        }
        let name = command.get_name();
        let found = table.contains(&format!("`{name}`")) || table.contains(&format!("`{name} "));
        assert!(found, "{name} is not in README.md");
    }
}

#[test]
fn completions_are_written_by_the_names_that_shells_look_for() {
    let place = scratch("completions");
    let outcome = smcx([
        "generate".as_ref(),
        "completions".as_ref(),
        place.as_os_str(),
    ]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    for name in ["smcx", "_smcx", "smcx.fish"] {
        let script = fs::read_to_string(place.join(name)).unwrap();
        for part in ["decode", "retransmissions", "completions"] {
            assert!(script.contains(part), "{name}: {part}");
        }
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let outcome = smcx(["generate", "man", "/dev/null/man"]);
    assert_eq!(outcome.status, 1);
    assert!(
        outcome.stderr.starts_with("smcx: /dev/null/man: "),
        "{}",
        outcome.stderr
    );
}
