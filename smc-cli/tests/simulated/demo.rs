//! `smcx demo`: what it carries, what it says, and what it refuses to say.

use crate::common;

use std::fs;
use std::io;
use std::path::Path;

use clap::Parser;
use common::{Outcome, have_tshark, records, scratch, smcx, tshark_fields};
use serde_json::Value;
use smc_transport_sim::tcp::SmcOption;
use smcx::Screen;
use smcx::cli::{Cli, Command, DemoArguments};
use smcx::demo::{self, Hooks, Kind, Place, Setup, Source};

fn demo(arguments: &[&str]) -> Outcome {
    smcx([&["demo"], arguments].concat())
}

fn json(arguments: &[&str]) -> Value {
    let outcome = demo(&[&["--json"], arguments].concat());
    assert_eq!(
        (outcome.status, outcome.stderr.as_str()),
        (0, ""),
        "{arguments:?}"
    );
    assert_eq!(outcome.stdout.lines().count(), 1);
    let record: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!(record["sha256_ok"], true);
    record
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// The only sentence of a run that failed.
fn complaint(arguments: &[&str]) -> String {
    let outcome = demo(arguments);
    assert_eq!(outcome.status, 1, "{}", outcome.stderr);
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    let sentence = outcome.stderr.trim_end().strip_prefix("smcx: ");
    sentence.unwrap().to_owned()
}

#[test]
fn json_has_the_promised_fields() {
    let record = json(&["--bytes", "300000"]);
    assert_eq!(record["bytes"], 300_000);
    assert!(record["seconds"].as_f64().unwrap() > 0.0);
    assert!(record["gbit_per_s"].as_f64().unwrap() > 0.0);
    assert_eq!(record["clc"], 3);
    assert!(record["llc"].as_u64().unwrap() >= 3);
    assert!(record["cdc"].as_u64().unwrap() > 10);
    assert!(record["rdma_writes"].as_u64().unwrap() >= 10);
    assert_eq!(record["rdma_write_bytes"], 600_000);
    assert_eq!(record["not_accepted"], 0);
    let sum = |names: &[&str]| sum(&record["messages"], names);
    assert_eq!(sum(&["Proposal", "Accept", "Confirm", "Decline"]), 3);
    assert_eq!(record["llc"], sum(&LLC));
    assert_eq!(record["cdc"], sum(&["Cdc"]));
    assert_eq!(record["rdma_writes"], sum(&["Write"]));
}

fn sum(counts: &Value, names: &[&str]) -> u64 {
    let counts = names.iter().map(|name| counts[name].as_u64().unwrap());
    counts.sum()
}

const LLC: [&str; 8] = [
    "ConfirmLink",
    "AddLink",
    "AddLinkContinuation",
    "DeleteLink",
    "ConfirmRkey",
    "ConfirmRkeyContinuation",
    "TestLink",
    "DeleteRkey",
];

#[test]
fn files_of_any_size_come_back() {
    let folder = scratch("demo-files");
    for length in [0, 1, (1 << 20) + 1] {
        let file = folder.join("file");
        let octets: Vec<u8> = (0..length).map(|place| (place % 251) as u8).collect();
        fs::write(&file, octets).unwrap();
        for ring in ["16", "64", "512"] {
            let record = json(&["--file", text(&file), "--ring", ring]);
            assert_eq!(record["bytes"], length, "{ring}");
            assert_eq!(record["rdma_write_bytes"], 2 * length, "{ring}");
        }
    }
    // As sha256sum says.
    fs::write(folder.join("abc"), "abc").unwrap();
    let record = json(&["--file", text(&folder.join("abc"))]);
    assert_eq!(
        record["sha256"],
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
    );
}

#[test]
fn the_text_has_a_ladder_and_tables_of_100_columns() {
    let outcome = demo(&["--bytes", "4m"]);
    assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
    for line in outcome.stdout.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
    // From the first message to the last one, in this order.
    let mut rest = outcome.stdout.as_str();
    for words in [
        "TCP SYN with the SMC option",
        "TCP SYN-ACK with the SMC option",
        "CLC Proposal",
        "CLC Accept",
        "CLC Confirm",
        "LLC CONFIRM LINK request",
        "LLC CONFIRM LINK reply",
        "RDMA WRITE 65,536 bytes to ring + 0",
        "CDC 1: written 1+0, read 0+0, writer blocked",
        " messages in ",
        "sending done",
        "closed",
        "LLC DELETE LINK",
        "TCP FIN",
        "4,194,304 bytes (4 MiB)",
        "✓",
        "Gbit/s",
        "Window stalls",
        "CLC Proposal",
        "LLC CONFIRM LINK",
        "RDMA WRITE",
    ] {
        let found = rest.find(words);
        let found = found.unwrap_or_else(|| panic!("{words} is missing in\n{rest}"));
        rest = &rest[found + words.len()..];
    }
    // However much there is, the ladder is short, and has no colours in a file.
    assert!(outcome.stdout.lines().count() < 90);
    assert!(!outcome.stdout.contains('\x1b'));
    let bare = demo(&["--bytes", "4m", "--no-ladder"]);
    assert!(!bare.stdout.contains('▶') && bare.stdout.contains('✓'));
    let quiet = demo(&["--bytes", "4m", "--quiet"]);
    assert_eq!(quiet.stdout, "");
}

#[test]
fn bad_input_gets_one_clear_sentence() {
    let folder = scratch("demo-bad");
    let missing = folder.join("missing");
    assert_eq!(
        complaint(&["--file", text(&missing)]),
        format!(
            "{}: cannot be read: no such file or directory",
            missing.display()
        )
    );
    let sentence = complaint(&["--file", text(&folder)]);
    assert!(
        sentence.ends_with("cannot be read: is a directory"),
        "{sentence}"
    );
    let nowhere = folder.join("no/such.pcapng");
    let sentence = complaint(&["--bytes", "1k", "--pcap", text(&nowhere)]);
    assert!(
        sentence.ends_with("the capture cannot be written: no such file or directory"),
        "{sentence}"
    );
    let own = folder.join("own");
    fs::write(&own, "precious").unwrap();
    let sentence = complaint(&["--file", text(&own), "--pcap", text(&own)]);
    assert!(
        sentence.contains("would overwrite the file to be carried"),
        "{sentence}"
    );
    assert_eq!(fs::read(&own).unwrap(), b"precious");
    for wrong in [
        &["--bytes", "many"][..],
        &["--bytes", "-1"],
        &["--bytes", "99999999999g"],
        &["--ring", "65"],
        &["--seed", "x"],
        &["--file", "a", "--bytes", "1"],
        &["--snap", "1"],
    ] {
        let outcome = demo(wrong);
        assert_eq!(
            (outcome.status, outcome.stdout.as_str()),
            (2, ""),
            "{wrong:?}"
        );
    }
    let outcome = demo(&["--bytes", "many"]);
    assert!(
        outcome.stderr.contains("a number of bytes is wanted"),
        "{}",
        outcome.stderr
    );
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_reported_early_or_late() {
    let full = "/dev/full: the capture cannot be written: no space left on device";
    // Before anything is flushed, and in the middle of a run that would take long.
    assert_eq!(complaint(&["--bytes", "1k", "--pcap", "/dev/full"]), full);
    let long = [
        "--bytes",
        "900g",
        "--pcap",
        "/dev/full",
        "--snap",
        "100000",
        "--json",
    ];
    assert_eq!(complaint(&long), full);
}

#[test]
fn a_seed_says_everything() {
    let folder = scratch("demo-seed");
    let run = |name: &str, seed: &str| {
        let capture = folder.join(name);
        let arguments = ["--bytes", "500001", "--seed", seed, "--pcap"];
        let mut record = json(&[&arguments[..], &[text(&capture)]].concat());
        for real in ["seconds", "gbit_per_s", "pcap"] {
            record[real] = Value::Null;
        }
        (fs::read(capture).unwrap(), record)
    };
    let first = run("first", "7");
    assert_eq!(first, run("second", "7"));
    assert_ne!(first.0, run("other", "8").0);
}

/// Messages of a capture by kind, as `smcx decode` sees them.
fn decoded(capture: &Path) -> serde_json::Map<String, Value> {
    let mut counts = serde_json::Map::new();
    for kind in Kind::ALL {
        counts.insert(kind.names().0.to_owned(), 0.into());
    }
    for record in records(capture) {
        assert_eq!(record["retransmission"], false, "{record}");
        let count = &mut counts[record["type"].as_str().unwrap()];
        *count = (count.as_u64().unwrap() + 1).into();
    }
    counts
}

#[test]
fn decode_finds_all_messages_in_the_capture() {
    let folder = scratch("demo-decode");
    // Whole, and with cut payload.
    for more in [&["--bytes", "1m"][..], &["--bytes", "3m", "--snap", "16"]] {
        let capture = folder.join("demo.pcapng");
        let record = json(&[more, &["--pcap", text(&capture)]].concat());
        assert_eq!(
            Value::Object(decoded(&capture)),
            record["messages"],
            "{more:?}"
        );
    }
}

#[test]
fn tshark_finds_all_messages_in_the_capture_and_no_fault() {
    if !have_tshark() {
        return;
    }
    let folder = scratch("demo-tshark");
    let failover = ["--bytes", "3m", "--rnics", "2", "--kill-link", "30,60"];
    for more in [
        &["--bytes", "1m"][..],
        &["--bytes", "3m", "--snap", "16"],
        &[&failover[..], &["--revive", "45"]].concat(),
        &[
            "--bytes",
            "3m",
            "--rnics",
            "3",
            "--kill-link",
            "20,80",
            "--seed",
            "2",
        ],
    ] {
        let capture = folder.join("demo.pcapng");
        let record = json(&[more, &["--pcap", text(&capture)]].concat());
        // Those that were lost or repeated are on the wires as well.
        let others = |names: &[&str]| sum(&record["not_accepted_messages"], names);
        let frames = tshark_fields(
            &capture,
            &[
                "smc.clc_msg",
                "smc.llc_msg",
                "infiniband.reth.r_key",
                "_ws.malformed",
                "tcp.analysis.flags",
            ],
        );
        let count = |name: &str, fits: &dyn Fn(&str) -> bool| -> usize {
            let values = frames.values().filter_map(|fields| fields.get(name));
            values.flatten().filter(|value| fits(value)).count()
        };
        let cdc = (0xfe).to_string();
        assert_eq!(count("_ws.malformed", &|_| true), 0);
        assert_eq!(count("tcp.analysis.flags", &|_| true), 0);
        assert_eq!(record["clc"], count("smc.clc_msg", &|_| true));
        let all = |family: &str, names: &[&str]| {
            (record[family].as_u64().unwrap() + others(names)) as usize
        };
        let cdcs = count("smc.llc_msg", &|kind| kind == cdc);
        assert_eq!(all("cdc", &["Cdc"]), cdcs, "{more:?}");
        let llcs = count("smc.llc_msg", &|kind| kind != cdc);
        assert_eq!(all("llc", &LLC), llcs, "{more:?}");
        let writes = count("infiniband.reth.r_key", &|_| true);
        assert_eq!(all("rdma_writes", &["Write"]), writes, "{more:?}");
        let moved = record["failovers"].as_u64().unwrap();
        assert_eq!(moved > 0, more.contains(&"--kill-link"), "{more:?}");
    }
}

fn setup() -> Setup {
    Setup::default()
}

fn arguments(more: &[&str]) -> DemoArguments {
    let cli = Cli::try_parse_from([&["smcx", "demo"], more].concat()).unwrap();
    match cli.command {
        Some(Command::Demo(arguments)) => arguments,
        other => panic!("{other:?}"),
    }
}

#[test]
fn one_changed_bit_fails_loudly() {
    for place in [Place::Server, Place::Client] {
        let mut seen = 0;
        let outcome = demo::carry(
            &setup(),
            &mut Source::seeded(1, 200_000),
            None,
            &mut Hooks {
                progress: &mut |_| {},
                on_read: &mut |at, octets| {
                    if at == place {
                        if let Some(octet) = 150_000_usize
                            .checked_sub(seen)
                            .and_then(|i| octets.get_mut(i))
                        {
                            *octet ^= 1;
                        }
                        seen += octets.len();
                    }
                },
            },
        )
        .unwrap();
        assert!(!outcome.sha256_ok());
        let [sent, there, back] = &outcome.sha256;
        assert_eq!(sent == there, place == Place::Client);
        assert_ne!(sent, back);
        for (form, sign) in [(&["--no-ladder"][..], "✗ DIFFERS"), (&["--json"], "false")] {
            let mut shown = Vec::new();
            let failure = demo::report(&outcome, &arguments(form), &Screen::default(), &mut shown)
                .unwrap_err()
                .to_string();
            assert!(
                failure.starts_with("BYTES CHANGED ON THE WAY: "),
                "{failure}"
            );
            assert!(String::from_utf8(shown).unwrap().contains(sign), "{sign}");
        }
    }
}

#[test]
fn a_connection_without_smc_fails_loudly() {
    let option = SmcOption {
        client_offers: true,
        server_answers: false,
    };
    let failure = run_with(Setup { option, ..setup() }, Source::seeded(1, 1000));
    assert!(
        failure.starts_with("the connection fell back to TCP"),
        "{failure}"
    );
}

#[test]
fn a_file_that_cannot_be_read_to_its_end_fails() {
    struct Broken(usize);
    impl io::Read for Broken {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            let length = into.len().min(self.0);
            self.0 -= length;
            if length == 0 {
                return Err(io::Error::from_raw_os_error(5));
            }
            Ok(length)
        }
    }
    let failure = run_with(setup(), Source::new(Broken(100_000), None));
    assert!(failure.contains("cannot be read: "), "{failure}");
}

fn run_with(setup: Setup, mut source: Source) -> String {
    let mut hooks = Hooks {
        progress: &mut |_| {},
        on_read: &mut |_, _| {},
    };
    let failure = demo::carry(&setup, &mut source, None, &mut hooks).unwrap_err();
    failure.to_string()
}

#[test]
fn help_and_completions_know_the_demo() {
    let help = demo(&["--help"]);
    assert_eq!((help.status, help.stderr.as_str()), (0, ""));
    assert!(help.stdout.contains("Examples:") && help.stdout.contains("--pcap"));
    assert!(smcx(["completions", "bash"]).stdout.contains("demo"));
    let json = smcx(["completions", "bash", "--json"]).stdout;
    let object: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(object["shell"], "bash");
    assert!(object["script"].as_str().unwrap().contains("demo"));
    // The command without a command is the demo with its defaults.
    let bare = arguments(&[]);
    let default = DemoArguments::default();
    assert_eq!(format!("{bare:?}"), format!("{default:?}"));
}
