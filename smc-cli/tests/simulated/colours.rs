//! Colours: on a terminal only, and not there if `NO_COLOR` says so.
#![cfg(target_os = "linux")]

use std::fs::File;
use std::io::Read;
use std::process::{Command, Stdio};

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// What a command writes to a terminal.
fn on_terminal(arguments: &[&str], no_color: Option<&str>) -> String {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let slave = rustix::fs::open(name, OFlags::RDWR | OFlags::NOCTTY, Mode::empty()).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_smcx"));
    command
        .args(arguments)
        .env_remove("NO_COLOR")
        .envs(no_color.map(|value| ("NO_COLOR", value)))
        .env("TERM", "xterm-256color")
        .stdin(Stdio::null())
        .stdout(Stdio::from(slave))
        .stderr(Stdio::null());
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
        let text = on_terminal(arguments, Some("1"));
        assert!(
            !text.is_empty() && !text.contains('\x1b'),
            "{arguments:?}: {text:?}"
        );
    }
    for no_color in [None, Some("")] {
        let text = on_terminal(&["sim", "--seeds", "0..1"], no_color);
        assert!(text.contains('\x1b'), "{text:?}");
    }
}
