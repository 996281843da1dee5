//! Colours and progress: on a terminal only, and colours not there if `NO_COLOR` says so.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// Which stream of a command is a terminal.
enum Terminal {
    Output,
    Errors,
}

/// What a command writes to a terminal.
fn on_terminal(arguments: &[&str], which: &Terminal, no_color: Option<&str>) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    // One that waits for ever fails.
    let mut command = Command::new("timeout");
    command
        .args(["--foreground", "100", env!("CARGO_BIN_EXE_smcx")])
        .args(arguments)
        .env_remove("NO_COLOR")
        .envs(no_color.map(|value| ("NO_COLOR", value)))
        .env("TERM", "xterm-256color")
        .stdin(Stdio::null());
    match which {
        Terminal::Output => command.stdout(slave).stderr(Stdio::null()),
        Terminal::Errors => command.stdout(Stdio::null()).stderr(slave),
    };
    let mut child = command.spawn().unwrap();
    // The other end of the terminal is the child's alone, so that its end is seen.
    drop(command);
    let mut text = Vec::new();
    let mut chunk = [0; 4096];
    let mut master = File::from(master);
    // A terminal whose last user has gone is an error.
    while let Ok(len @ 1..) = master.read(&mut chunk) {
        text.extend(&chunk[..len]);
    }
    assert!(child.wait().unwrap().success());
    String::from_utf8(text).unwrap()
}

#[test]
fn colours_are_for_terminals_that_may_have_them() {
    for arguments in [
        &["sim", "--seeds", "0..1"][..],
        &["demo", "--bytes", "100k"],
        &["demo", "--help"],
    ] {
        let text = on_terminal(arguments, &Terminal::Output, Some("1"));
        assert!(
            !text.is_empty() && !text.contains('\x1b'),
            "{arguments:?}: {text:?}"
        );
    }
    for no_color in [None, Some("")] {
        let text = on_terminal(&["sim", "--seeds", "0..1"], &Terminal::Output, no_color);
        assert!(text.contains('\x1b'), "{text:?}");
    }
}

/// What takes long with much input shows on a terminal how far it is, from whichever thread.
#[test]
fn progress_is_for_terminals() {
    let capture = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../conformance/vectors/linux612-v1-twolinks.pcap.gz"
    );
    for arguments in [
        &["check", capture][..],
        &["sim", "--seeds", "0..3"],
        &["demo", "--bytes", "1m"],
    ] {
        let text = on_terminal(arguments, &Terminal::Errors, Some("1"));
        assert!(
            text.contains('%') && text.contains('\r'),
            "{arguments:?}: {text:?}"
        );
        assert!(
            !text.contains("\x1b[3"),
            "a colour: {arguments:?}: {text:?}"
        );
    }
    let outcome = crate::common::smcx(["check", capture]);
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
}
