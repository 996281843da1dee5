//! The exit statuses of all commands: `--help`, the manual pages and the tests have them
//! from here.

use clap::Command;

/// An exit status as it is written, and what it means.
type Status = (&'static str, &'static str);

/// Success, of commands without a list of their own.
const SUCCESS: Status = ("0", "success");
/// A problem, of commands without a list of their own.
const PROBLEM: Status = (
    "1",
    "a problem, which the last line of the standard error names",
);
/// Wrong usage, of every command.
const USAGE: Status = ("2", "wrong usage");

/// Commands with statuses of their own, by their path below `smcx`.
const OF_COMMANDS: &[(&str, &[Status])] = &[
    (
        "check",
        &[
            ("0", "there is no finding; notes are none"),
            ("1", "there are findings"),
            ("2", "wrong usage, or the file cannot be read to its end"),
        ],
    ),
    (
        "connect",
        &[
            ("0", "the connection was ended by both sides"),
            ("1", "the connection broke, or there was none"),
            USAGE,
        ],
    ),
    (
        "decode",
        &[
            ("0", "every message was well-formed"),
            (
                "1",
                "a message was malformed, or the capture cannot be read to its end",
            ),
            USAGE,
        ],
    ),
    (
        "demo",
        &[
            ("0", "every byte arrived"),
            ("1", "the transfer ended early, or another problem"),
            USAGE,
        ],
    ),
    (
        "listen",
        &[
            ("0", "the connection was ended by both sides"),
            ("1", "the connection broke, or there was none"),
            USAGE,
        ],
    ),
    (
        "metrics",
        &[
            ("0", "the metrics were written, or a signal ended --listen"),
            (
                "1",
                "/proc cannot be read, or the address cannot be listened at",
            ),
            USAGE,
        ],
    ),
    (
        "perf",
        &[
            ("0", "the measurement is complete"),
            (
                "1",
                "a connection could not be made or broke, or the server refused or was busy",
            ),
            USAGE,
        ],
    ),
    (
        "policy check",
        &[
            ("0", "the policy has no mistake; notes are none"),
            ("1", "the policy has a mistake"),
            ("2", "wrong usage, or the file cannot be read"),
        ],
    ),
    (
        "policy learn",
        &[
            ("0", "there is a proposal"),
            (
                "1",
                "nothing was seen that a proposal could be made of, or /proc cannot be read",
            ),
            USAGE,
        ],
    ),
    (
        "proxy",
        &[
            (
                "0",
                "ended by SIGINT or SIGTERM, with all connections closed",
            ),
            (
                "1",
                "the proxy cannot listen, or connections were cut off at the end",
            ),
            USAGE,
        ],
    ),
    (
        "run",
        &[
            (
                "any",
                "that of the program; 128 and its number for a signal",
            ),
            (
                "123",
                "--require, and a connection that the policy permits to be SMC was TCP",
            ),
            ("125", "smcx cannot run programs over SMC"),
            ("126", "the program cannot be executed"),
            ("127", "there is no program of this name"),
            USAGE,
        ],
    ),
    (
        "sim",
        &[
            ("0", "every run kept every invariant"),
            ("1", "a run failed; the output says how to run it again"),
            USAGE,
        ],
    ),
    (
        "ss",
        &[
            ("0", "the connections were listed; there may be none"),
            (
                "1",
                "/proc cannot be read, or the kernel refuses the list of its own SMC's sockets",
            ),
            USAGE,
        ],
    ),
    (
        "top",
        &[
            ("0", "ended by a key or a signal"),
            ("1", "/proc cannot be read, or the terminal is gone"),
            ("2", "wrong usage, or there is no terminal"),
        ],
    ),
    (
        "trace",
        &[
            (
                "0",
                "the process has ended, or a signal or a limit ended the trace",
            ),
            ("1", "the process cannot be traced"),
            (
                "any",
                "with a program, that of the program, or those of \"smcx run\"",
            ),
            USAGE,
        ],
    ),
    (
        "why",
        &[
            (
                "0",
                "there is an answer; with --connect, the connection is what was expected",
            ),
            (
                "1",
                "the host is unknown, the policy is wrong, or with --connect, the connection \
                 differs from what was expected",
            ),
            USAGE,
        ],
    ),
];

/// The exit statuses of a command, by its path below `smcx`.
pub(crate) fn of(path: &str) -> Vec<Status> {
    let own = OF_COMMANDS.iter().find(|(of, _)| *of == path);
    own.map_or_else(|| vec![SUCCESS, PROBLEM, USAGE], |(_, list)| list.to_vec())
}

/// The statuses as they are listed below the help of a command.
fn text(path: &str) -> String {
    let lines = of(path);
    let width = lines.iter().map(|(code, _)| code.len()).max().unwrap_or(0);
    let mut text = "Exit status:".to_owned();
    for (code, meaning) in lines {
        text += &format!("\n  {code:<width$}  {meaning}");
    }
    text
}

/// Adds the exit statuses to the help of a command and of all below it.
pub(crate) fn documented(command: Command) -> Command {
    below(command, "")
}

fn below(mut command: Command, path: &str) -> Command {
    let names: Vec<String> = command
        .get_subcommands()
        .map(|of| of.get_name().to_owned())
        .collect();
    for name in names {
        let inner = match path {
            "" => name.clone(),
            path => format!("{path} {name}"),
        };
        command = command.mut_subcommand(name, |of| below(of, &inner));
    }
    let mut help = command
        .get_after_help()
        .map_or_else(String::new, |help| format!("{help}\n\n"));
    help += &text(path);
    command.after_help(help)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::{OF_COMMANDS, documented, of};
    use crate::cli::Cli;

    /// Paths of all commands below one.
    fn paths(command: &clap::Command, path: &str, into: &mut Vec<(String, String)>) {
        for inner in command.get_subcommands() {
            let name = inner.get_name();
            let path = match path {
                "" => name.to_owned(),
                path => format!("{path} {name}"),
            };
            let help = inner.get_after_help().unwrap().to_string();
            paths(inner, &path, into);
            into.push((path, help));
        }
    }

    #[test]
    fn every_list_belongs_to_a_command_and_every_command_shows_its_list() {
        let mut all = Vec::new();
        paths(&documented(Cli::command()), "", &mut all);
        for (path, _) in OF_COMMANDS {
            assert!(all.iter().any(|(of, _)| of == path), "no command: {path}");
        }
        for (path, help) in all {
            let statuses = of(&path);
            assert!(statuses.iter().any(|(code, _)| *code == "2"), "{path}");
            assert_eq!(help.matches("Exit status:").count(), 1, "{path}: {help}");
            assert!(!help.contains("exit status is"), "{path}: {help}");
            for (code, meaning) in statuses {
                assert!(help.contains(meaning) && help.contains(code), "{path}");
            }
        }
    }
}
