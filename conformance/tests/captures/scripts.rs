//! The scripts of `conformance/scripts`, and that they can fail.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use conformance::scripts::{
    self, Act, Direct, Outcome, ParsedScript, Problem, Step, play, script, shape, write_capture,
};

/// Number of scripts that there have to be.
const LEAST: usize = 300;
/// Most scripts that may differ in values alone.
const MOST_OF_A_SHAPE: usize = 8;

fn all() -> Vec<(String, PathBuf)> {
    scripts::all(&scripts::folder()).expect("the folder of scripts")
}

fn parsed() -> Vec<ParsedScript> {
    let read = |(name, path): (String, PathBuf)| match script(&name, &path) {
        Ok(script) => script,
        Err(unclear) => panic!("{unclear}"),
    };
    all().into_iter().map(read).collect()
}

fn captured(outcome: &Outcome) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    outcome.keep_capture(folder).expect("a capture")
}

#[test]
fn the_engine_follows_every_script() {
    let outcomes: Vec<Outcome> = all()
        .iter()
        .map(|(name, path)| scripts::run(name, path))
        .collect();
    let mut problems = String::new();
    for outcome in &outcomes {
        if let Some(problem) = &outcome.problem {
            let capture = captured(outcome);
            problems += &format!("{problem}\ncapture: {}\n\n", capture.display());
        }
    }
    assert!(problems.is_empty(), "{problems}");
    assert!(outcomes.len() >= LEAST, "{} scripts", outcomes.len());
}

#[test]
fn no_two_scripts_have_the_same_messages() {
    let mut known: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut shapes: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for script in parsed() {
        let same = known.entry(scripts::messages(&script)).or_default();
        same.push(script.name.clone());
        shapes.entry(shape(&script)).or_default().push(script.name);
    }
    let same: Vec<_> = known.values().filter(|same| same.len() > 1).collect();
    assert!(same.is_empty(), "the same messages: {same:#?}");
    let alike = shapes
        .values()
        .filter(|alike| alike.len() > MOST_OF_A_SHAPE);
    let alike: Vec<_> = alike.collect();
    assert!(alike.is_empty(), "too much alike: {alike:#?}");
}

#[test]
fn every_script_names_its_subject_in_sentences() {
    for script in parsed() {
        let (name, sentence) = (&script.name, &script.sentence);
        let well = sentence.ends_with(['.', '?']) && sentence.len() > 20;
        assert!(well, "{name}: {sentence}");
        // A test proves a few things at most.
        assert!(script.cites.len() <= 6, "{name}: {:?}", script.cites);
    }
}

/// Without its last message of the engine a script must fail: something is left over.
#[test]
fn a_script_that_asks_for_less_than_the_engine_sends_fails() {
    let (mut tried, mut passed) = (0, Vec::new());
    for mut script in parsed() {
        // (What is due later does not come if it is not waited for.)
        let at_once = |step: &Step| step.when.is_none() && matches!(step.act, Act::Engine(..));
        let Some(at) = script.steps.iter().rposition(at_once) else {
            continue;
        };
        script.steps.remove(at);
        let mut bench = Direct::new(&script.setup).expect("it was understood before");
        let played = play(&script, &mut bench);
        if played.failure.is_none() {
            passed.push(script.name);
        }
        tried += 1;
    }
    assert!(passed.is_empty(), "these still pass: {passed:?}");
    assert!(tried > LEAST / 2, "{tried} scripts");
}

/// Plays lines behind those that bring a server up, and returns how they fail.
fn failure_of(lines: &str) -> String {
    // Each run of the tests, and each script, has a folder of its own.
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = format!("failing-{}-{next}", std::process::id());
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(folder);
    let (lib, chapter) = (folder.join("lib"), folder.join("failing"));
    for folder in [&lib, &chapter] {
        fs::create_dir_all(folder).expect("a folder");
    }
    for name in ["server_up", "server_accepts"] {
        let from = scripts::folder().join(format!("lib/{name}.smc"));
        fs::copy(from, lib.join(format!("{name}.smc"))).expect("a copy");
    }
    let path = chapter.join("x.smc");
    fs::write(&path, format!("# A script.\ninclude server_up\n{lines}")).expect("a file");
    let problem = scripts::run("failing/x", &path).problem;
    fs::remove_dir_all(&folder).expect("the folder");
    match problem {
        None => "passed".to_owned(),
        Some(Problem::Unclear(unclear)) => unclear.to_string(),
        Some(Problem::Failed(failure)) => format!("{}, not {}", failure.expected, failure.came),
    }
}

#[test]
fn a_failure_names_what_was_expected_and_what_came() {
    for (lines, expected) in [
        (
            "app > write \"a\"\nengine > WRITE at=0 \"a\"\nengine > CDC prod=0:1",
            "passed",
        ),
        (
            "app > write \"b\"\nengine > WRITE at=0 \"c\"",
            "Text([99]), not 1 octets: b",
        ),
        (
            "app > write \"d\"",
            "nothing more, not engine@1 > WRITE 1 octets",
        ),
        ("engine > CDC", "CDC within 0ns, not nothing"),
        (
            "peer > LLC TestLink data=7\nengine > LLC TestLink reply data=8",
            "data=8, not 7",
        ),
        (
            "peer > LLC TestLink\nengine > LLC ConfirmLink",
            "LLC ConfirmLink, not LLC TEST LINK",
        ),
        (
            "peer > LLC TestLink\n+1s engine > LLC TestLink reply",
            "LLC TestLink reply after 1s",
        ),
        ("app < read \"x\"", "1 octets, not 0 octets can be read"),
        ("app < room 65536", "passed"),
        ("app < room 1", "1 octets of room, not 65536"),
        (
            "nothing for 31s",
            "nothing for 31s, not engine@1 > LLC TEST LINK request",
        ),
        ("app > close\nengine > CDC", "C=0, not 1"),
        (
            "peer > LLC TestLink data=$x",
            "$x, bound by a line above, not nothing",
        ),
        (
            "peer > LLC ConfirmRkey link1=256",
            "8 bits for link1, not 256",
        ),
        (
            "peer@3 > LLC TestLink",
            "the engine has announced no link 3",
        ),
    ] {
        let found = failure_of(lines);
        assert!(found.contains(expected), "{lines}\n{found}");
    }
}

#[test]
fn a_run_is_reported_as_junit_and_as_a_table() {
    let path = scripts::folder().join("clc/first_contact_server.smc");
    let passed = scripts::run("clc/first_contact_server", &path);
    let mut failed = passed.clone();
    failed.name = "cdc/<odd>".to_owned();
    let unclear = script("x", Path::new("/nowhere/x.smc")).expect_err("no such file");
    failed.problem = Some(Problem::Unclear(unclear));
    let outcomes = [failed, passed];
    let xml = scripts::junit(&outcomes, Vec::new()).expect("memory takes it all");
    let xml = String::from_utf8(xml).expect("text");
    for part in [
        "<testsuites name=\"scripts\" tests=\"2\" failures=\"1\" skipped=\"0\">",
        "<testsuite name=\"clc\" tests=\"1\" failures=\"0\" skipped=\"0\">",
        "name=\"cdc/&lt;odd&gt;\"",
        "the file cannot be read",
    ] {
        assert!(xml.contains(part), "{part}\n{xml}");
    }
    let table = scripts::table(&outcomes);
    assert!(table.contains("cdc") && table.contains("all"), "{table}");
}

/// The capture of a script contains what the script names.
#[test]
fn a_capture_holds_what_was_on_the_wire() {
    use smc_capture::{follow::Follower, reader::CaptureReader};
    let path = scripts::folder().join("clc/first_contact_server.smc");
    let outcome = scripts::run("clc/first_contact_server", &path);
    let bytes = write_capture(&outcome.record, Vec::new()).expect("memory takes it all");
    let mut follower = Follower::default();
    let mut items = Vec::new();
    for frame in CaptureReader::new(bytes.as_slice()).expect("a capture") {
        follower.push(&frame.expect("a frame"), &mut items);
    }
    follower.finish(&mut items);
    let text = format!("{items:?}");
    for part in ["Proposal", "Accept", "Confirm", "ConfirmLink", "AddLink"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}
