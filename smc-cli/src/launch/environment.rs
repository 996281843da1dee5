//! The variables by which the library is loaded and configured.

use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::Path;
use std::process::Command;

use smc_run::variables;

use super::warn;
use crate::cli::{RunArguments, Size};

/// By which the dynamic linker loads libraries before those of a program.
const PRELOAD: &str = "LD_PRELOAD";

/// File names of the library: this project's as Cargo names it, and the installed one's,
/// which is also that of the library of `smc_run`. Two that swap sockets cannot share them.
const OURS: [&str; 2] = ["libsmc_preload.so", "libsmc-preload.so"];

/// Sets the variables of the arguments; the library checks the variables that were set before.
pub(super) fn apply(command: &mut Command, arguments: &RunArguments, stderr: &mut dyn Write) {
    if let Some(policy) = &arguments.policy.policy {
        // The program may change its directory before the library reads the file.
        let path = std::path::absolute(policy).unwrap_or_else(|_| policy.clone());
        command.env(smc_sockets::policy::ENVIRONMENT, path);
    }
    let sizes = [
        (variables::RECEIVE_BUFFER, arguments.receive_buffer),
        (variables::SEND_BUFFER, arguments.send_buffer),
    ];
    for (name, size) in sizes {
        match size {
            Some(Size(bytes)) => drop(command.env(name, bytes.to_string())),
            None => complain(name, stderr),
        }
    }
    if arguments.debug {
        command.env(variables::DEBUG, "1");
    }
    command.env_remove(variables::PRELOAD);
}

/// Names a variable whose value is no size, which the library ignores.
fn complain(name: &str, stderr: &mut dyn Write) {
    let Some(value) = std::env::var_os(name) else {
        return;
    };
    if value.to_str().and_then(variables::size).is_none() {
        let value = value.display();
        warn(
            stderr,
            format_args!("{name}={value} is not a size and is ignored"),
        );
    }
}

/// Adds the library to those that are preloaded.
pub(super) fn preload(command: &mut Command, library: &Path) {
    let others = std::env::var_os(PRELOAD).unwrap_or_default();
    command.env(PRELOAD, preloaded(&others, library));
}

/// The table in which the processes count.
pub(super) fn count(command: &mut Command, table: &Path) {
    command.env(variables::STATISTICS, table);
}

/// The libraries of others as they are, and this one behind them: they stay between the
/// program and the sockets, as they would be without it, and call it as they would call
/// the C library.
fn preloaded(others: &OsStr, library: &Path) -> OsString {
    let separator = |byte: &u8| matches!(byte, b' ' | b':');
    let mut value = Vec::new();
    for other in others.as_bytes().split(separator) {
        let name = Path::new(OsStr::from_bytes(other)).file_name();
        let is_ours = OURS.iter().any(|ours| name == Some(OsStr::new(ours)));
        if !other.is_empty() && !is_ours {
            value.extend_from_slice(other);
            value.push(b':');
        }
    }
    value.extend_from_slice(library.as_os_str().as_bytes());
    OsString::from_vec(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_others_stay_in_front_and_ours_is_there_once() {
        let library = Path::new("/opt/lib/smcx/libsmc-preload.so");
        let with = |others: &str| {
            preloaded(OsStr::new(others), library)
                .into_string()
                .unwrap()
        };
        let alone = "/opt/lib/smcx/libsmc-preload.so";
        assert_eq!(with(""), alone);
        assert_eq!(with(" :: "), alone);
        assert_eq!(
            with("libjemalloc.so.2"),
            format!("libjemalloc.so.2:{alone}")
        );
        assert_eq!(
            with("/a/x.so /b/y.so:z.so"),
            format!("/a/x.so:/b/y.so:z.so:{alone}")
        );
        // As a program that was run like this runs another one.
        assert_eq!(with(&with("x.so")), format!("x.so:{alone}"));
        assert_eq!(with("/tree/target/debug/libsmc_preload.so"), alone);
    }
}
