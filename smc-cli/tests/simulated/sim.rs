//! `smcx sim`: runs drawn from seeds.

use crate::common;

use clap::Parser;
use common::{Outcome, have_tshark, scratch, smcx, tshark_fields};
use serde_json::Value;
use smc_transport_sim::chaos::Coverage;
use smc_transport_sim::fault::{FaultKind, Phase};
use smcx::Screen;
use smcx::cli::{Cli, Command, SimArguments};
use smcx::sim::{Failed, Findings};

fn sim(arguments: &[&str]) -> Outcome {
    smcx([&["sim"], arguments].concat())
}

fn json(arguments: &[&str]) -> Value {
    let outcome = sim(&[&["--json"], arguments].concat());
    assert_eq!(outcome.stdout.lines().count(), 1, "{}", outcome.stderr);
    let record: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let failed = record["failed"].as_u64().unwrap() > 0;
    assert_eq!(outcome.status, u8::from(failed), "{record}");
    record
}

#[test]
fn json_has_the_promised_fields_whatever_the_number_of_jobs() {
    let run = |jobs| {
        let mut record = json(&["--seeds", "100..110", "--jobs", jobs]);
        assert!(record["seconds"].as_f64().unwrap() > 0.0);
        record["seconds"] = Value::Null;
        record
    };
    let record = run("1");
    assert_eq!(
        (&record["runs"], &record["profile"]),
        (&10.into(), &"chaos".into())
    );
    assert_eq!(
        (&record["first_seed"], &record["last_seed"]),
        (&100.into(), &109.into())
    );
    assert!(record["octets"].as_u64().unwrap() > 1 << 20);
    let faults = record["faults"].as_object().unwrap();
    assert_eq!(faults.len(), FaultKind::ALL.len());
    let phases = faults.values().map(|phases| phases.as_object().unwrap());
    let counts = phases.flat_map(|phases| phases.values().map(|count| count.as_u64().unwrap()));
    // At least three faults took effect in each run.
    assert!(counts.sum::<u64>() >= 30, "{record}");
    assert_eq!(
        faults["PortDown"].as_object().unwrap().len(),
        Phase::ALL.len()
    );
    assert_eq!(run("3"), record);
    assert_eq!(run("64"), record);
}

#[test]
fn the_text_has_a_table_of_faults_and_phases() {
    let outcome = sim(&["--seeds", "0..5"]);
    for line in outcome.stdout.lines().take(24) {
        assert!(line.chars().count() <= 100, "{line}");
    }
    for words in [
        "failing",
        "over",
        "port flaps",
        "TCP reset",
        "Runs",
        "5 in ",
        "complete",
    ] {
        assert!(
            outcome.stdout.contains(words),
            "{words}: {}",
            outcome.stdout
        );
    }
    assert!(!outcome.stdout.contains('\x1b'));
}

fn arguments(more: &[&str]) -> SimArguments {
    let cli = Cli::try_parse_from([&["smcx", "sim"], more].concat()).unwrap();
    match cli.command {
        Some(Command::Sim(arguments)) => arguments,
        other => panic!("{other:?}"),
    }
}

#[test]
fn conversations_are_judged_if_not_declined() {
    for (check, judged) in [(None, 3), (Some("--check"), 3), (Some("--no-check"), 0)] {
        let arguments = ["sim", "--seeds", "7..10", "--json"];
        let outcome = smcx(arguments.into_iter().chain(check));
        assert_eq!(outcome.status, 0, "{}", outcome.stderr);
        let record: Value = serde_json::from_str(&outcome.stdout).unwrap();
        assert_eq!(record["judged"], judged);
    }
}

#[test]
fn a_link_that_a_client_has_asked_to_delete_needs_no_rkey_of_a_new_connection() {
    //= RENDEZVOUS-056 test
    for seeds in ["16501..16502", "18661..18662"] {
        let outcome = smcx(["sim", "--seeds", seeds, "--quiet"]);
        assert_eq!(outcome.status, 0, "{}{}", outcome.stdout, outcome.stderr);
    }
}

#[test]
fn a_link_that_its_sender_has_lost_needs_no_rkey() {
    //= LLC-069 test
    for seeds in ["20324..20325", "23896..23897", "34549..34550"] {
        let outcome = smcx(["sim", "--seeds", seeds, "--quiet"]);
        assert_eq!(outcome.status, 0, "{}{}", outcome.stdout, outcome.stderr);
    }
}

#[test]
fn an_rmb_whose_owner_has_not_read_the_answer_yet_need_not_be_in_add_link() {
    //= LLC-018 test
    let outcome = smcx(["sim", "--seeds", "23997..23998", "--quiet"]);
    assert_eq!(outcome.status, 0, "{}{}", outcome.stdout, outcome.stderr);
}

#[test]
fn what_seeds_have_found_stays_mended() {
    //= LLCSER-003 test
    //= LLC-066 test
    //= LLC-080 test
    for seeds in [
        "65842..65843",
        "54720..54721",
        "36557..36558",
        "49541..49542",
        "88316..88317",
    ] {
        let outcome = smcx(["sim", "--seeds", seeds, "--quiet"]);
        assert_eq!(outcome.status, 0, "{}{}", outcome.stdout, outcome.stderr);
    }
}

fn failing() -> Findings {
    let failed = |seed, what: &[&str]| Failed {
        seed,
        what: what.iter().map(ToString::to_string).collect(),
    };
    Findings {
        coverage: Coverage {
            runs: 1000,
            failed: vec![7, 19],
            ..Coverage::default()
        },
        checked: 125,
        failed: vec![
            failed(7, &["bytes changed"]),
            failed(19, &["a", "b", "c", "d", "e", "f"]),
        ],
    }
}

#[test]
fn a_failed_seed_is_reported_with_the_command_that_replays_it() {
    let replay = "smcx sim --seeds 7..8 --pcap seed-7.pcapng --trace";
    for form in [&[][..], &["--quiet"], &["--json"]] {
        let mut shown = Vec::new();
        let screen = Screen::default();
        let failure =
            smcx::sim::report(&failing(), &arguments(form), 1.5, None, &screen, &mut shown);
        let sentence = failure.unwrap_err().to_string();
        assert_eq!(sentence, "2 of 1,000 runs failed: seed 7, 19");
        let shown = String::from_utf8(shown).unwrap();
        assert!(
            shown.contains(replay) && shown.contains("bytes changed"),
            "{shown}"
        );
        if form == ["--json"] {
            let record: Value = serde_json::from_str(&shown).unwrap();
            assert_eq!(
                (&record["failed"], &record["runs"]),
                (&2.into(), &1000.into())
            );
            assert_eq!(record["failures"][0]["seed"], 7);
            assert_eq!(record["failures"][1]["what"].as_array().unwrap().len(), 6);
        } else {
            assert!(shown.contains("… and 1 more"), "{shown}");
        }
    }
    // The command that is shown can be given, and judges.
    let words: Vec<_> = replay.split(' ').skip(2).collect();
    let arguments = arguments(&words);
    assert!(arguments.trace && arguments.judges() && arguments.check().is_ok());
}

#[test]
fn all_is_well_in_silence() {
    let well = Findings::default();
    let mut shown = Vec::new();
    let arguments = arguments(&["--quiet"]);
    smcx::sim::report(&well, &arguments, 1.0, None, &Screen::default(), &mut shown).unwrap();
    assert_eq!(shown, b"");
}

#[test]
fn one_seed_shows_its_messages_and_writes_its_frames() {
    let capture = scratch("sim-single").join("seed.pcapng");
    let path = capture.to_str().unwrap();
    let outcome = sim(&["--seeds", "6..7", "--trace", "--pcap", path]);
    let text = &outcome.stdout;
    for words in [
        "anna",
        "bert",
        "CLC Proposal",
        "CONFIRM LINK",
        "RDMA WRITE",
        path,
        "1 in ",
    ] {
        assert!(text.contains(words), "{words}");
    }
    // Peers that crashed or had no room may have spoken plain TCP.
    let decoded = smcx(["decode", path, "--json"]).stdout;
    let found: Vec<Value> = decoded
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    for kind in ["Proposal", "AddLink", "Cdc", "Write"] {
        assert!(found.iter().any(|record| record["type"] == kind), "{kind}");
    }
    let record = json(&["--seeds", "6..7", "--trace"]);
    let messages = record["messages"].as_array().unwrap();
    let proposal = |message: &Value| message.as_str().unwrap().contains(": CLC Proposal");
    assert!(messages.iter().any(proposal));
    // With and without a trace the run is the same.
    let plain = json(&["--seeds", "6..7"]);
    assert_eq!(
        (&plain["steps"], &plain["faults"]),
        (&record["steps"], &record["faults"])
    );
    assert_eq!(plain["messages"], Value::Null);
    if have_tshark() {
        // tshark reads the number of RTokens of an ADD LINK of version 2 big-endian.
        let all = smcx(["decode", path, "--json", "--retransmissions"]).stdout;
        let offers: Vec<_> = all
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .filter(|record| record["type"] == "AddLink")
            .filter_map(|record| record["frame"].as_u64())
            .collect();
        let mut malformed = tshark_fields(&capture, &["_ws.malformed"]);
        malformed.retain(|frame, _| !offers.contains(frame));
        assert!(malformed.is_empty(), "{malformed:?}");
    }
}

#[test]
fn every_fourth_seed_is_of_smcd() {
    let outcome = sim(&["--seeds", "3..4", "--trace"]);
    for words in ["CLC Proposal", "CDC SMC-D", "1 of SMC-D"] {
        assert!(outcome.stdout.contains(words), "{words}");
    }
    assert!(!outcome.stdout.contains("RDMA WRITE"));
    let record = json(&["--seeds", "0..8"]);
    assert_eq!(record["smcd_runs"], 2);
}

#[test]
fn bad_arguments_get_one_clear_sentence() {
    for (wrong, sentence) in [
        (
            &["--seeds", "7"][..],
            "two numbers are wanted, such as 0..1000",
        ),
        (
            &["--seeds", "a..b"],
            "two numbers are wanted, such as 0..1000",
        ),
        (
            &["--seeds", "+1..2"],
            "two numbers are wanted, such as 0..1000",
        ),
        (
            &["--seeds", "7..7"],
            "the second number must be greater than the first",
        ),
        (
            &["--seeds", "9..7"],
            "the second number must be greater than the first",
        ),
        (&["--jobs", "0"], "a number of jobs is wanted, at least 1"),
        (
            &["--jobs", "many"],
            "a number of jobs is wanted, at least 1",
        ),
        (&["--profile", "calm"], "[possible values: chaos]"),
        (
            &["--trace"],
            "--trace is for one seed, such as --seeds 0..1",
        ),
        (
            &["--seeds", "3..9", "--pcap", "x"],
            "--pcap is for one seed, such as --seeds 3..4",
        ),
        (&["--json", "--quiet"], "cannot be used with"),
    ] {
        let outcome = sim(wrong);
        assert_eq!(
            (outcome.status, outcome.stdout.as_str()),
            (2, ""),
            "{wrong:?}"
        );
        assert!(outcome.stderr.contains(sentence), "{}", outcome.stderr);
    }
    let outcome = sim(&["--seeds", "1..2", "--pcap", "/no/such/folder/x.pcapng"]);
    assert_eq!(outcome.status, 1);
    assert_eq!(
        outcome.stderr,
        "smcx: /no/such/folder/x.pcapng: the capture cannot be written: no such file or directory\n"
    );
    let help = sim(&["--help"]).stdout;
    assert!(help.contains("Examples:") && help.contains("--jobs") && help.contains("--trace"));
    assert!(smcx(["--help"]).stdout.contains("smcx sim --seeds"));
}
