//! `smcx decode --live`: frames of the loopback, as they pass.
//!
//! Without the right to capture, what the command says about that is tested instead.
#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use crate::common;
use serde_json::Value;
use smc_capture::frame::{Frame, parse_frame};
use smc_capture::reader::CaptureReader;

/// Whence the packets of this test come: others may be on the loopback, too.
const OWN: &str = "127.0.0.77";
/// The port of RoCE version 2.
const ROCE: u16 = 4791;

fn live(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_smcx"))
        .args(["decode", "--live"])
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

/// Payloads of UDP, as RoCE has them, in a capture of kernels.
fn payloads() -> Vec<Vec<u8>> {
    let capture = CaptureReader::open(common::vector(common::CAPTURES[0])).unwrap();
    let udp = capture.filter_map(|frame| {
        let frame = frame.unwrap();
        let is_roce = matches!(parse_frame(frame.link, &frame.bytes), Frame::Roce(_));
        // Ethernet, IPv4 without options and UDP.
        let is_v4 = frame.bytes.get(12..14) == Some(&[8, 0]);
        (is_roce && is_v4).then(|| frame.bytes[42..].to_vec())
    });
    udp.take(12).collect()
}

#[test]
fn messages_are_shown_as_they_pass_each_once_until_a_signal_comes() {
    for interface in ["lo", "any"] {
        let mut child = live(&[interface, "--json", "--retransmissions"]);
        let stdout = child.stdout.take().unwrap();
        let (send, lines) = mpsc::channel();
        let reading = thread::spawn(move || {
            for line in BufReader::new(stdout).lines() {
                let record: Value = serde_json::from_str(&line.unwrap()).unwrap();
                if record["source"] == OWN {
                    send.send(record).unwrap();
                }
            }
        });
        let socket = UdpSocket::bind((OWN, 0)).unwrap();
        let payloads = payloads();
        assert_eq!(payloads.len(), 12);
        let first = &payloads[0];
        // It captures when the first is shown.
        let mut sent = 0;
        let shown = loop {
            if let Some(status) = child.try_wait().unwrap() {
                let mut said = String::new();
                child
                    .stderr
                    .take()
                    .unwrap()
                    .read_to_string(&mut said)
                    .unwrap();
                assert!(!rustix::process::geteuid().is_root(), "{status}: {said}");
                assert_eq!(status.code(), Some(1));
                assert!(said.contains("CAP_NET_RAW"), "{said}");
                reading.join().unwrap();
                return;
            }
            socket.send_to(first, ("127.0.0.1", ROCE)).unwrap();
            sent += 1;
            if let Ok(record) = lines.recv_timeout(Duration::from_millis(50)) {
                break record;
            }
            assert!(sent < 400, "nothing is shown");
        };
        assert_eq!(shown["destination"], "127.0.0.1", "{shown}");
        // The rest of the first ones.
        while lines.recv_timeout(Duration::from_millis(300)).is_ok() {}
        // Other tests send over the loopback, too, and the kernel may drop frames.
        let (mut types, mut rounds) = (Vec::new(), 0);
        while !types.iter().any(|of| of == "\"ConfirmLink\"") {
            assert!(rounds < 20, "{types:?}");
            rounds += 1;
            for payload in &payloads {
                socket.send_to(payload, ("127.0.0.1", ROCE)).unwrap();
            }
            while let Ok(record) = lines.recv_timeout(Duration::from_secs(1)) {
                types.push(record["type"].to_string());
            }
        }
        // The loopback has each frame twice, of which one counts.
        assert!(types.len() <= rounds * payloads.len(), "{types:?}");
        let process = rustix::process::Pid::from_child(&child);
        rustix::process::kill_process(process, rustix::process::Signal::INT).unwrap();
        let mut said = String::new();
        child
            .stderr
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        let status = child.wait().unwrap();
        assert!(said.contains(&format!("smcx: {interface}: ")), "{said}");
        assert!(said.contains("lost by the kernel"), "{said}");
        assert!(status.code().is_some(), "{status}: {said}");
        reading.join().unwrap();
    }
}

#[test]
fn an_interface_that_is_not_there_is_named() {
    let output = live(&["nosuch0"]).wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(stderr.starts_with("smcx: nosuch0: "), "{stderr}");
    for wrong in [&["lo", "file.pcap"][..], &["lo", "--count", "0"]] {
        let output = live(wrong).wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{wrong:?}");
    }
}
