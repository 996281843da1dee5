//! `smcx stats`: what a process counts is what was sent to it, and relative figures begin anew.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use smc_sockets::SmcStream;

use crate::common::{scratch, smcx};

/// A process that is ended with the test.
pub(crate) struct Ended(pub(crate) Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn stats(state: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_smcx"));
    let command = command.arg("stats").args(arguments);
    let output = command.env("XDG_STATE_HOME", state).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Waits until a process has received so many bytes, by the figures with these arguments.
fn received(state: &Path, arguments: &[&str], bytes: u64) -> Value {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let object: Value = serde_json::from_str(&stats(state, arguments)).unwrap();
        if object["SMCD"]["SMC_RX_BYTES"] == bytes {
            return object;
        }
        assert!(Instant::now() < deadline, "not {bytes}: {object}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The keys of `smcr stats json` and `smcd stats json` of smc-tools 1.8.5, in their order.
fn keys() -> Vec<String> {
    const SIZES: [&str; 9] = [
        "8K", "16K", "32K", "64K", "128K", "256K", "512K", "1024K", "G_1024K",
    ];
    const BUFFERS: [&str; 7] = [
        "SIZE_SM_PEER_CNT",
        "SIZE_SM_CNT",
        "FULL_PEER_CNT",
        "FULL_CNT",
        "REUSE_CNT",
        "ALLOC_CNT",
        "DGRADE_CNT",
    ];
    let (mut buffers, mut requests, mut counts) = (Vec::new(), Vec::new(), Vec::new());
    for way in ["TX", "RX"] {
        buffers.extend(SIZES.map(|size| format!("SMC_INT_{way}_BUF_{size}")));
        requests.extend(SIZES.map(|size| format!("SMC_USR_{way}_BUF_{size}")));
        counts.extend(BUFFERS.map(|what| format!("SMC_INT_{way}_BUF_{what}")));
    }
    let others = [
        "SMC_CLNT_V1_SUCC_CNT",
        "SMC_CLNT_V2_SUCC_CNT",
        "SMC_SRV_V1_SUCC_CNT",
        "SMC_SRV_V2_SUCC_CNT",
        "SMC_SENDPAGE_CNT",
        "SMC_URG_DATA_CNT",
        "SMC_SPLICE_CNT",
        "SMC_CORK_CNT",
        "SMC_NDLY_CNT",
        "SMC_RX_BYTES",
        "SMC_TX_BYTES",
        "SMC_RX_CNT",
        "SMC_TX_CNT",
        "SMC_RX_RMB_USAGE",
        "SMC_TX_RMB_USAGE",
    ];
    let others = others.map(str::to_owned);
    [buffers, requests, counts, others.to_vec()].concat()
}

#[test]
fn keys_are_one_line_in_the_order_of_smc_tools() {
    let text = stats(&scratch("stats-keys"), &["--json"]);
    assert_eq!(text.lines().count(), 1, "{text}");
    let technologies = text.split("\"SMCR\":");
    let technologies: Vec<_> = technologies.collect();
    assert!(technologies[0].starts_with("{\"SMCD\":{"), "{text}");
    assert_eq!((technologies.len(), keys().len()), (2, 65));
    for technology in technologies {
        let end = technology.find('}').unwrap();
        let words = technology[..end].split('"').skip(1).step_by(2);
        let shown: Vec<_> = words.filter(|word| word.starts_with("SMC_")).collect();
        assert_eq!(shown, keys());
    }
}

#[test]
fn counts_are_those_of_the_process_and_begin_anew() {
    let state = scratch("stats");
    let mut server = Command::new(env!("CARGO_BIN_EXE_smcx"));
    server.args(["listen", "127.0.0.1:0", "--verbose"]);
    server
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    let mut server = Ended(server.spawn().unwrap());
    // The port is the server's own from the beginning: one that is chosen before, and free for a
    // moment, may become that of another test.
    let mut lines = BufReader::new(server.0.stderr.take().unwrap());
    let mut line = String::new();
    lines.read_line(&mut line).unwrap();
    let address = line.trim_end().strip_prefix("smcx: listening on ");
    let address: SocketAddr = address.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
    std::thread::spawn(move || std::io::copy(&mut lines, &mut std::io::sink()));
    let mut stream = SmcStream::connect(address).unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    let process = server.0.id().to_string();
    let (of, absolute) = (["--json", "-p", &process], ["--json", "-a", "-p", &process]);
    stream.write_all(&[1; 100_000]).unwrap();
    let object = received(&state, &of, 100_000);
    assert_eq!(object["SMCD"].as_object().unwrap().len(), 65);
    assert_eq!(object["SMCD"]["SMC_SRV_V2_SUCC_CNT"], 1);
    assert_eq!(object["SMCR"]["SMC_SRV_V2_SUCC_CNT"], 0);
    let text = stats(&state, &["-p", &process]);
    assert!(
        text.starts_with("SMC-D Connections Summary\n  Total connections handled             1\n"),
        "{text}"
    );
    assert!(
        text.contains("\n  Data transmitted (Bytes)         100000 (100.0K)\n"),
        "{text}"
    );

    let details = stats(&state, &["-d", "-p", &process]);
    let sides = "\n  SMC connections                       1 (client 0, server 1)\n";
    assert!(details.contains(sides), "{details}");
    let entstat = ["--format", "entstat", "-p", &process];
    let text = stats(&state, &entstat);
    let (_, smc_d) = text.split_once("SMC-D STATISTICS (smc_d0) :\n").unwrap();
    assert!(smc_d.contains("  Bytes: 100000\n"), "{text}");
    // The process is younger than the test.
    assert!(smc_d.contains("\nElapsed Time: 0 days 0 hours "), "{text}");

    stats(&state, &["-r"]);
    let text = stats(&state, &entstat);
    assert!(!text.contains("Bytes: 100000"), "{text}");
    let object = received(&state, &of, 0);
    assert_eq!(object["SMCD"]["SMC_SRV_V2_SUCC_CNT"], 0);
    // Memory in use is what it is.
    assert_ne!(object["SMCD"]["SMC_RX_RMB_USAGE"], 0);
    stream.write_all(&[1; 7]).unwrap();
    received(&state, &of, 7);
    received(&state, &absolute, 100_007);

    // Another process of the same number is another one.
    let kept = state.join("smc/stats.json");
    let text = std::fs::read_to_string(&kept).unwrap();
    std::fs::write(&kept, text.replace(&format!("\"{process}-"), "\"1-")).unwrap();
    received(&state, &of, 100_007);
    std::fs::write(&kept, "{").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_smcx"));
    let output = command
        .arg("stats")
        .env("XDG_STATE_HOME", &*state)
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("stats.json"));
    drop((stream, server));
    assert_eq!(smcx(["stats", "--absolute", "--reset"]).status, 2);
    assert_eq!(smcx(["stats", "--json", "--format", "entstat"]).status, 2);
}
