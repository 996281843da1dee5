//! `smcx decode -`: each message is shown as soon as the frame that completes it is there.

use crate::common;

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use common::{scratch, smcx, vector};

/// Longer than any machine takes to show a line.
const LONG: Duration = Duration::from_secs(30);

/// The command with an open input, and the lines that it has shown.
struct Decoder {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
}

impl Decoder {
    fn start() -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_smcx"))
            .args(["decode", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (shown, lines) = channel();
        std::thread::spawn(move || {
            for line in output.lines() {
                if shown.send(line.unwrap()).is_err() {
                    return;
                }
            }
        });
        let input = child.stdin.take().unwrap();
        Self {
            child,
            input,
            lines,
        }
    }
}

/// Lines that the command shows of a whole file.
fn lines_of(file: &Path) -> Vec<String> {
    let outcome = smcx(["decode".as_ref(), file.as_os_str()]);
    assert_eq!(outcome.status, 0, "{}", outcome.stderr);
    outcome.stdout.lines().map(str::to_owned).collect()
}

fn frame(line: &str) -> usize {
    line.split_whitespace().next().unwrap().parse().unwrap()
}

fn word(bytes: &[u8], at: usize) -> usize {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap()) as usize
}

/// Feeds a capture piece by piece and awaits what each frame completes.
fn feed(file: &Path, pieces: &[&[u8]], frames: &[usize]) {
    let expected = lines_of(file);
    assert!(expected.len() > 10, "{expected:?}");
    let mut decoder = Decoder::start();
    let mut at = 0;
    for (piece, frames) in pieces.iter().zip(frames) {
        decoder.input.write_all(piece).unwrap();
        while at < expected.len() && frame(&expected[at]) <= *frames {
            let line = decoder.lines.recv_timeout(LONG);
            let line = line.unwrap_or_else(|_| panic!("not shown: {}", expected[at]));
            assert_eq!(line, expected[at]);
            at += 1;
        }
    }
    assert_eq!(at, expected.len());
    drop(decoder.input);
    assert!(decoder.child.wait().unwrap().success());
}

#[test]
fn messages_of_a_pcap_are_shown_as_they_come() {
    let compressed = std::fs::File::open(vector("linux612-v1-onelink.pcap.gz")).unwrap();
    let mut bytes = Vec::new();
    flate2::read::MultiGzDecoder::new(compressed)
        .read_to_end(&mut bytes)
        .unwrap();
    let file = scratch("decode-stream").join("whole.pcap");
    std::fs::write(&file, &bytes).unwrap();
    // The header of the file, then records of a header and a frame each.
    let (mut pieces, mut frames, mut at) = (vec![&bytes[..24]], vec![0], 24);
    while at < bytes.len() {
        let end = at + 16 + word(&bytes, at + 8);
        // The last byte by itself: a frame is shown when it is whole, and not before.
        pieces.extend([&bytes[at..end - 1], &bytes[end - 1..end]]);
        frames.extend([frames[frames.len() - 1], frames[frames.len() - 1] + 1]);
        at = end;
    }
    feed(&file, &pieces, &frames);
}

#[test]
fn messages_of_a_pcapng_are_shown_as_they_come() {
    let file = scratch("decode-stream-ng").join("demo.pcapng");
    let demo = smcx(["demo", "--bytes", "100k", "--pcap", file.to_str().unwrap()]);
    assert_eq!(demo.status, 0, "{}", demo.stderr);
    let bytes = std::fs::read(&file).unwrap();
    let (mut pieces, mut frames, mut at) = (vec![], vec![], 0);
    let mut count = 0;
    while at < bytes.len() {
        let end = at + word(&bytes, at + 4);
        // An enhanced packet block.
        count += usize::from(word(&bytes, at) == 6);
        pieces.push(&bytes[at..end]);
        frames.push(count);
        at = end;
    }
    feed(&file, &pieces, &frames);
}

/// The reader of the output may go at any time: the command does not wait for input then.
#[test]
fn a_reader_that_goes_ends_the_command() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_smcx"))
        .args(["decode", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut input = child.stdin.take().unwrap();
    let capture = std::fs::read(vector("linux612-v1-onelink.pcap.gz")).unwrap();
    // All of it but the end.
    let _ = input.write_all(&capture[..capture.len() - 100]);
    let begin = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        assert!(begin.elapsed() < LONG, "it waits for more");
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(status.success(), "{status}");
}
