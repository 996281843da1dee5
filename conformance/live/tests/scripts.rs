//! The scripts of `conformance/scripts` against our own sockets.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;

use conformance::scripts::{self, Outcome};
use smc_live::{Choice, Summary, run};

/// Scripts that have to be for live sockets as well.
const LEAST: usize = 240;

fn captured(outcome: &Outcome) -> std::path::PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("live-captures");
    outcome.keep_capture(&folder).expect("a capture")
}

#[test]
fn our_sockets_do_what_scripts_say() {
    let all = scripts::all(&scripts::folder()).expect("the folder of scripts");
    let outcomes = run(&all, &Choice::default());
    let mut problems = String::new();
    for outcome in &outcomes {
        if let Some(problem) = &outcome.problem {
            let capture = captured(outcome);
            problems += &format!("{problem}\ncapture: {}\n\n", capture.display());
        }
    }
    let summary = Summary::of(&outcomes);
    assert!(problems.is_empty(), "{problems}{summary}");
    assert!(summary.passed >= LEAST, "{summary}");
    assert!(summary.is_well(), "too many with longer pauses: {summary}");
    println!("{summary}");
}

/// Plays lines behind those that bring a server up, and returns how they fail.
fn failure_of(name: &str, lines: &str) -> String {
    // Each run of the tests, and each script, has a folder of its own.
    let folder = format!("live-{}-{name}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let (lib, chapter) = (folder.join("lib"), folder.join("failing"));
    for folder in [&lib, &chapter] {
        fs::create_dir_all(folder).expect("a folder");
    }
    for name in ["server_up", "server_accepts"] {
        let from = scripts::folder().join(format!("lib/{name}.smc"));
        fs::copy(from, lib.join(format!("{name}.smc"))).expect("a copy");
    }
    let path = chapter.join(format!("{name}.smc"));
    fs::write(&path, format!("# A script.\n{lines}")).expect("a file");
    let outcomes = run(&[(format!("failing/{name}"), path)], &Choice::default());
    fs::remove_dir_all(&folder).expect("the folder");
    let outcome = outcomes.first().expect("as many as scripts");
    match (&outcome.problem, &outcome.skipped) {
        (Some(problem), _) => problem.to_string(),
        (None, Some(why)) => why.clone(),
        (None, None) => "passed".to_owned(),
    }
}

#[test]
fn a_live_script_can_fail_and_reports_how() {
    let begin = "include server_up\napp > write \"hello\"\nengine > WRITE at=0 ";
    let played = |name: &str, end: &str| failure_of(name, &format!("{begin}{end}\n"));
    let well = "\"hello\"\nengine > CDC prod=0:5";
    assert_eq!(played("well", well), "passed");
    for (name, end, expected) in [
        ("other_octets", "\"help!\"", "5 octets: hello"),
        (
            "left_over",
            "\"hello\"",
            "expected: nothing more\n  came:     engine@1 > CDC seq 1 token 0xa0000001",
        ),
        (
            "too_much",
            "\"hello\"\nengine > CDC prod=0:5\nengine > CDC",
            "expected: CDC within",
        ),
        (
            "other_token",
            "\"hello\"\nengine > CDC prod=0:5 token=3",
            "token=3, not",
        ),
    ] {
        let found = played(name, end);
        assert!(found.contains(expected), "{name}\n{found}");
        let again = format!("cargo run -p smc-live -- failing/{name}");
        assert!(found.contains(&again), "{found}");
        assert!(found.contains("engine@1 > WRITE 5 octets"), "{found}");
    }
}

#[test]
fn scripts_that_live_sockets_cannot_play_are_skipped_by_their_content() {
    let up = "include server_up\n";
    for (name, lines, expected) in [
        (
            "smcd",
            "speaks smcd-v2\napp > listen",
            "SMC-D goes over no RNIC",
        ),
        (
            "setting",
            "config group_idle=5s\napp > listen",
            "no setting group_idle",
        ),
        ("rnics", "rnics 3\napp > listen", "the host has fewer RNICs"),
        (
            "refuse",
            "rnic refuse CreateQp\napp > listen",
            "made to fail as these",
        ),
        (
            "orders",
            "include server_up\napp > delete group",
            "such orders",
        ),
        ("option", "app > connect option=no", "no setting option"),
        (
            "clock",
            "include server_up\nnothing for 29s",
            "simulated clock",
        ),
        (
            "clock_again",
            "include server_up\nrepeat 10 {\nwait 1s\n}",
            "simulated clock",
        ),
        (
            "too_long",
            "include server_up\npeer > LLC TestLink append=\"x\"",
            "messages that are too long",
        ),
        (
            "nowhere",
            "include server_accepts\npeer > CLC Confirm rkey=0x999999\nengine > WRITE at=0 \"x\"",
            "memory that is not there",
        ),
        (
            "reset",
            "include server_up\npeer > TCP rst\nengine > TCP fin",
            "TCP that was reset",
        ),
    ] {
        let found = failure_of(name, &format!("{lines}\n"));
        assert!(found.contains(expected), "{name}\n{found}");
    }
    assert_eq!(
        failure_of("reset_and_no_more", &format!("{up}peer > TCP rst\n")),
        "passed"
    );
}
