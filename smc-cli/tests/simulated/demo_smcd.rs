//! `smcx demo --smc-d`: a file over SMC-D and back.

use serde_json::Value;

/// Exit status, standard output and error output of a demo.
fn run(more: &[&str]) -> (u8, String, String) {
    let (mut out, mut error) = (Vec::new(), Vec::new());
    let arguments = ["smcx", "demo"].iter().chain(more);
    let status = smcx::run(arguments.map(Into::into), &mut out, &mut error);
    let text = |octets| String::from_utf8(octets).unwrap();
    (status, text(out), text(error))
}

fn demo(more: &[&str]) -> String {
    let (status, text, error) = run(&[&["--bytes", "300000", "--smc-d"], more].concat());
    assert_eq!((status, error.as_str()), (0, ""));
    text
}

#[test]
fn a_file_is_carried_in_place_and_by_moves() {
    for more in [&["--json"][..], &["--json", "--moves"]] {
        let record: Value = serde_json::from_str(&demo(more)).unwrap();
        assert_eq!(record["sha256_ok"], true);
        assert_eq!(record["technology"], "SMC-D");
        assert_eq!(record["rdma_write_bytes"], 600_000);
        assert_eq!(record["rdma_writes"], 0);
        assert!(record["ism_moves"].as_u64() > Some(0));
        assert_eq!(record["clc"], 3);
        assert_eq!(record["llc"], 0);
        let messages = &record["messages"];
        assert_eq!(messages["IsmEvent"], 1, "the end of the group");
        assert_eq!(record["not_accepted"], 0);
    }
}

#[test]
fn the_ladder_shows_devices_and_dmbs() {
    let text = demo(&["--moves"]);
    for line in [
        "over SMC-D (seed 1, rings of 64 KiB)",
        "ISM devices of one machine, bytes moved by the devices",
        "CLC Accept SMC-D v2 first-contact",
        "ISM MOVE",
        "to DMB + 32",
        "CDC: written 0+",
        "ISM EVENT 0x80 (group shutdown)",
        "ISM moves",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
    assert!(!text.contains("RDMA"), "{text}");
    assert!(demo(&[]).contains("written in place"));
}

#[test]
fn what_belongs_to_rnics_is_refused() {
    for wrong in [
        &["--smc-d", "--rnics", "2"][..],
        &["--smc-d", "--kill-link", "50"],
        &["--moves"],
    ] {
        assert_eq!(run(wrong).0, 2, "{wrong:?}");
    }
}
