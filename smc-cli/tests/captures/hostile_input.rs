//! Whatever the file is, `smcx decode` says one clear sentence and lives.

use crate::common;

use std::ffi::OsString;
use std::fs;
use std::io::{self, Write};
use std::path::Path;

use common::{CAPTURES, scratch, smcx, vector};
use flate2::read::GzDecoder;

fn decode(file: &Path) -> common::Outcome {
    smcx(["decode".as_ref(), file.as_os_str()])
}

/// The sentence about a file, behind its name.
fn complaint(file: &Path) -> String {
    let outcome = decode(file);
    assert_eq!(outcome.status, 1, "{}", outcome.stderr);
    assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
    let (_, sentence) = outcome
        .stderr
        .trim_end()
        .split_once(&format!("smcx: {}: ", file.display()))
        .unwrap_or_else(|| panic!("{}", outcome.stderr));
    sentence.to_owned()
}

fn uncompressed(name: &str) -> Vec<u8> {
    let mut octets = Vec::new();
    let file = fs::File::open(vector(name)).unwrap();
    io::Read::read_to_end(&mut GzDecoder::new(file), &mut octets).unwrap();
    octets
}

/// Numbers without a pattern that are the same in each run.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
}

#[test]
fn files_that_are_no_captures_are_named_as_such() {
    let folder = scratch("no-captures");
    let put = |name: &str, octets: &[u8]| {
        let file = folder.join(name);
        fs::write(&file, octets).unwrap();
        file
    };
    let sentence = complaint(&folder.join("missing"));
    assert_eq!(sentence, "cannot be read: no such file or directory");
    assert_eq!(complaint(&folder), "cannot be read: is a directory");
    assert_eq!(complaint(&put("empty", b"")), "the file is empty");
    let not = "not a pcap or pcapng capture";
    assert_eq!(complaint(&put("text", b"hello world\n")), not);
    assert_eq!(complaint(&put("one", b"\xd4")), not);
    let mut noise = Noise(1);
    let random: Vec<u8> = (0..4000).map(|_| noise.next() as u8).collect();
    assert_eq!(complaint(&put("random", &random)), not);
    let mut wlan = uncompressed(CAPTURES[1])[..24].to_vec();
    wlan[20] = 105;
    let sentence = complaint(&put("wlan", &wlan));
    assert!(
        sentence.starts_with("link type 105 is not supported"),
        "{sentence}"
    );
    let sentence = complaint(&put("header", &wlan[..10]));
    assert_eq!(sentence, "the capture is cut off inside frame 1");
    let sentence = complaint(&put("gzip", &[0x1f, 0x8b, 9, 9, 9, 9, 9, 9, 9, 9, 9, 9]));
    assert!(
        sentence.starts_with("the gzip data is damaged"),
        "{sentence}"
    );
    let mut block = vec![0x0a, 0x0d, 0x0d, 0x0a];
    block.extend([0xff; 40]);
    let sentence = complaint(&put("block", &block));
    assert!(
        sentence.starts_with("the capture is damaged at frame 1"),
        "{sentence}"
    );
}

#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_read_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let file = scratch("unreadable").join("secret.pcap");
    fs::write(&file, b"x").unwrap();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o0)).unwrap();
    // The superuser reads it all the same.
    if fs::read(&file).is_err() {
        assert_eq!(complaint(&file), "cannot be read: permission denied");
    }
}

#[test]
fn a_capture_that_ends_too_early_is_shown_as_far_as_it_goes() {
    let folder = scratch("cut");
    let whole = uncompressed(CAPTURES[1]);
    let file = folder.join("cut.pcap");
    // The sixth frame is the Accept; each record has 16 bytes before it.
    let accept = 24 + 2 * (16 + 82) + (16 + 66) + (16 + 158) + (16 + 66) + 16;
    fs::write(&file, &whole[..accept + 40]).unwrap();
    let outcome = decode(&file);
    assert_eq!(outcome.stdout.lines().count(), 3);
    assert_eq!(complaint(&file), "the capture is cut off inside frame 6");

    let zipped = fs::read(vector(CAPTURES[1])).unwrap();
    let file = folder.join("cut.pcap.gz");
    fs::write(&file, &zipped[..zipped.len() / 2]).unwrap();
    let outcome = decode(&file);
    assert!(outcome.stdout.lines().count() > 100);
    let sentence = complaint(&file);
    assert!(
        sentence.starts_with("the capture is cut off inside frame "),
        "{sentence}"
    );
}

#[test]
fn captures_with_flipped_octets_never_end_in_a_panic() {
    let folder = scratch("flipped");
    let mut noise = Noise(0x5eed);
    let file = folder.join("flipped");
    let written = folder.join("written.pcapng");
    common::written::write_everything(&written);
    let sources = [
        uncompressed(CAPTURES[1])[..60_000].to_vec(),
        fs::read(written).unwrap(),
        fs::read(vector(CAPTURES[1])).unwrap()[..30_000].to_vec(),
    ];
    for round in 0..150 {
        let mut octets = sources[round % sources.len()].clone();
        for _ in 0..1 + noise.next() % 200 {
            let place = noise.next() as usize % octets.len();
            octets[place] = noise.next() as u8;
        }
        octets.truncate(octets.len() - noise.next() as usize % 5000);
        fs::write(&file, &octets).unwrap();
        let outcome = decode(&file);
        assert!(outcome.status < 2);
        assert!(outcome.stderr.lines().count() <= 2, "{}", outcome.stderr);
    }
}

#[test]
fn malformed_messages_are_shown_counted_and_end_in_status_1() {
    let file = scratch("malformed").join("malformed.pcap");
    let mut octets = uncompressed(CAPTURES[1]);
    let accept = 24 + 2 * (16 + 82) + (16 + 66) + (16 + 158) + (16 + 66) + 16;
    // The type of the CLC message of frame 6.
    octets[accept + 66 + 4] = 7;
    fs::write(&file, &octets).unwrap();
    let outcome = decode(&file);
    assert_eq!(outcome.status, 1);
    assert!(
        outcome.stderr.ends_with(": 1 malformed message\n"),
        "{}",
        outcome.stderr
    );
    let line = outcome.stdout.lines().nth(3).unwrap();
    assert!(line.contains("malformed at octet 4: CLC type 7"), "{line}");
    assert!(outcome.stdout.lines().count() > 280);
    let json = smcx(["decode".as_ref(), file.as_os_str(), "--json".as_ref()]);
    let line = json.stdout.lines().nth(3).unwrap();
    let record: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(record["type"], "Malformed");
    assert_eq!(
        (&record["frame"], &record["offset"]),
        (&6.into(), &4.into())
    );
}

#[test]
fn a_capture_without_smc_is_no_failure() {
    let file = scratch("plain").join("plain.pcap");
    fs::write(&file, &uncompressed(CAPTURES[1])[..24]).unwrap();
    let outcome = decode(&file);
    assert_eq!((outcome.status, outcome.stdout.as_str()), (0, ""));
    assert!(
        outcome.stderr.ends_with("no SMC in 0 frames\n"),
        "{}",
        outcome.stderr
    );
}

/// Takes some bytes and then fails.
struct Failing(usize, io::ErrorKind);

impl Write for Failing {
    fn write(&mut self, octets: &[u8]) -> io::Result<usize> {
        self.0 = self.0.checked_sub(octets.len()).ok_or(self.1)?;
        Ok(octets.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_closed_pipe_is_no_failure_and_a_full_disk_is() {
    let capture = vector(CAPTURES[0]);
    let arguments: [&[OsString]; 4] = [
        &["decode".into(), capture.into()],
        &["check".into(), "--rules".into()],
        &["completions".into(), "bash".into()],
        // The shortest of the texts that are shown in place of a command.
        &["decode".into(), "--help".into()],
    ];
    for arguments in arguments {
        let run = |kind| {
            let mut stderr = Vec::new();
            let all = [&["smcx".into()], arguments].concat();
            let status = smcx::run(all, &mut Failing(500, kind), &mut stderr);
            (status, String::from_utf8(stderr).unwrap())
        };
        assert_eq!(run(io::ErrorKind::BrokenPipe), (0, String::new()));
        let (status, stderr) = run(io::ErrorKind::StorageFull);
        assert_eq!(status, 1, "{arguments:?}");
        assert!(
            stderr.starts_with("smcx: cannot write the output: "),
            "{stderr}"
        );
    }
}

#[test]
fn wrong_usage_is_status_2_and_help_has_examples() {
    assert_eq!(smcx(["decode"]).status, 2);
    assert_eq!(smcx(["frobnicate"]).status, 2);
    for arguments in [
        &["--help"][..],
        &["decode", "--help"],
        &["completions", "--help"],
    ] {
        let outcome = smcx(arguments);
        assert_eq!((outcome.status, outcome.stderr.as_str()), (0, ""));
        assert!(outcome.stdout.contains("Examples:"), "{arguments:?}");
    }
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let outcome = smcx(["completions", shell]);
        assert_eq!(outcome.status, 0);
        assert!(outcome.stdout.contains("decode"), "{shell}");
    }
}
