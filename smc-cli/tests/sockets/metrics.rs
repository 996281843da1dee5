//! `smcx metrics`: text that a parser of others takes, sums that never fall, a server that no
//! request harms, and a dashboard of names that there are.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use smc_sockets::SmcStream;
use smc_view::{Fallback, Side, Statistics};
use smcx::metrics::counters::Counters;
use smcx::metrics::http::{self, Asked, Request};
use smcx::metrics::sums::{Levels, Seen, Sums};
use smcx::metrics::text;

use super::child::{Listener, User};
use super::top::terminal;
use crate::common::smcx;
use crate::stats::Ended;

/// The values by their names with labels.
fn samples(text: &str) -> BTreeMap<String, u64> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        (name.to_owned(), value.parse().unwrap())
    });
    samples.collect()
}

const SENT: &str = "smc_bytes_total{uid=\"7\",tech=\"smcd\",dir=\"tx\"}";

/// A process of user 7 that has sent bytes over SMC-D.
fn seen(process: u32, began: u64, sent: u64) -> Seen {
    let mut counters = Counters::default();
    let at = smc_view::KEYS.iter().position(|key| *key == "SMC_TX_BYTES");
    counters.traffic[0].0[at.unwrap()] = sent;
    Seen {
        process,
        started: 1,
        began,
        user: 7,
        counters,
        levels: Levels::default(),
    }
}

fn sent(sums: &Sums) -> u64 {
    samples(&text::of(sums))[SENT]
}

#[test]
fn sums_keep_what_processes_counted_that_have_ended() {
    let mut sums = Sums::new(7);
    assert_eq!(sent(&sums), 0);
    let gone = |_| None;
    sums.observe(&[seen(1, 1, 10), seen(2, 1, 5)], gone);
    assert_eq!(sent(&sums), 15);
    sums.observe(&[seen(2, 1, 6)], gone);
    assert_eq!(sent(&sums), 16);
    // The number is given to another process, and one that runs executes another program.
    sums.observe(
        &[
            Seen {
                started: 2,
                ..seen(1, 1, 3)
            },
            seen(2, 2, 1),
        ],
        gone,
    );
    assert_eq!(sent(&sums), 10 + 6 + 3 + 1);
    sums.observe(&[], gone);
    assert_eq!(sent(&sums), 20);
}

#[test]
fn a_process_that_is_not_seen_for_a_while_counts_once() {
    let mut sums = Sums::new(7);
    sums.observe(&[seen(1, 1, 10)], |_| None);
    sums.observe(&[], |_| Some(1));
    assert_eq!(sent(&sums), 10);
    sums.observe(&[seen(1, 1, 11)], |_| None);
    assert_eq!(sent(&sums), 11);
    // Another one has its number now.
    sums.observe(&[], |_| Some(2));
    sums.observe(&[seen(1, 1, 11)], |_| None);
    assert_eq!(sent(&sums), 22);
}

/// What a hostile process publishes makes no sum fall, and none of another user wrong.
#[test]
fn no_process_can_lower_a_sum_or_touch_that_of_another_user() {
    let mut sums = Sums::new(7);
    sums.observe(&[seen(1, 1, 10)], |_| None);
    sums.observe(&[seen(1, 1, 3)], |_| None);
    assert_eq!(sent(&sums), 10);
    let hostile = |began, sent| Seen {
        user: 8,
        ..seen(9, began, sent)
    };
    for (began, sent) in [(1, u64::MAX), (2, u64::MAX), (3, 5)] {
        sums.observe(&[hostile(began, sent), seen(1, 1, 10)], |_| None);
    }
    assert_eq!(sent(&sums), 10);
    let other = SENT.replace('7', "8");
    assert_eq!(samples(&text::of(&sums))[&other], u64::MAX);
}

#[test]
fn users_beyond_the_limit_are_added_together() {
    let mut sums = Sums::new(7);
    let all = (0..1000).map(|user| Seen {
        user: 1000 + user,
        ..seen(user + 1, 1, 1)
    });
    let all: Vec<_> = all.collect();
    sums.observe(&all, |_| None);
    let sum = |sums: &Sums| {
        let of: Vec<u64> = samples(&text::of(sums))
            .into_iter()
            .filter(|(name, _)| name.starts_with("smc_bytes_total") && name.contains("tx"))
            .map(|(_, value)| value)
            .collect();
        // Each user has samples of SMC-D and SMC-R.
        (of.len(), of.iter().sum::<u64>())
    };
    assert_eq!(sum(&sums), (2 * 257, 1000));
    sums.observe(&[], |_| None);
    assert_eq!(sum(&sums), (2 * 257, 1000));
    assert_eq!(samples(&text::of(&sums))[&SENT.replace('7', "other")], 745);
}

#[test]
fn reasons_without_a_name_are_one() {
    let fallback = |code, count| Fallback::new(code, Side::Server, count);
    let mut statistics = Statistics::default();
    statistics.tcp = [0, 12];
    // Two have found no entry among the reasons.
    statistics.fallbacks = vec![
        fallback(0x0301_0000, 4),
        fallback(0xdead_beef, 5),
        fallback(1, 1),
    ];
    let counters = Counters::of(&statistics);
    let named: Vec<_> = smcx::metrics::counters::reasons()
        .zip(counters.fallbacks[1])
        .filter(|(_, count)| *count != 0)
        .collect();
    assert_eq!(named, [("PEER_NO_SMC", 4), ("OTHER", 8)]);
}

/// The parser of Prometheus' client library, Debian's package python3-prometheus-client, which
/// is the one that OpenMetrics was written with.
const PARSER: &str = "
import sys, json
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse
for family in parse(sys.stdin.read()):
    print(json.dumps([family.name, family.type, family.unit, family.documentation,
        [[s.name, s.labels, s.value] for s in family.samples]]))
";

/// What the parser makes of a text, or what it says; `None` if it is not installed.
fn parsed(text: &str) -> Option<Result<Vec<Value>, String>> {
    // Debian's, whatever others there are.
    let mut command = Command::new("/usr/bin/python3");
    command
        .args(["-c", PARSER])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let child = command.spawn();
    let output = child.map(|mut child| {
        let mut input = child.stdin.take().unwrap();
        // It may have ended before it has read all.
        let _ = input.write_all(text.as_bytes());
        drop(input);
        child.wait_with_output().unwrap()
    });
    let errors = match &output {
        Ok(output) => String::from_utf8_lossy(&output.stderr).into_owned(),
        Err(error) => error.to_string(),
    };
    match output {
        Ok(output) if output.status.success() => {
            let lines = String::from_utf8(output.stdout).unwrap();
            let lines = lines.lines();
            Some(Ok(lines
                .map(|line| serde_json::from_str(line).unwrap())
                .collect()))
        }
        Ok(_) if !errors.contains("No module named") => Some(Err(errors)),
        _ => {
            assert!(
                std::env::var_os("CI").is_none(),
                "install the Debian package python3-prometheus-client before the tests: {errors}"
            );
            eprintln!("SKIPPED: python3-prometheus-client is missing, no other parser was asked");
            None
        }
    }
}

#[test]
fn the_text_is_open_metrics_to_its_own_parser() {
    let mut statistics = Statistics::default();
    statistics.tcp = [3, 4];
    statistics.fallbacks = vec![Fallback::new(0x0301_0000, Side::Client, 3)];
    statistics
        .smc_r
        .0
        .iter_mut()
        .zip(1..)
        .for_each(|(at, n)| *at = n);
    let counters = Counters::of(&statistics);
    let mut sums = Sums::new(7);
    let users = [(8, 7), (9, 0), (10, u32::MAX)];
    let all = users.map(|(process, user)| Seen {
        user,
        counters: counters.clone(),
        ..seen(process, 1, 0)
    });
    sums.observe(&all, |_| None);
    let shown = smcx(["metrics"]);
    assert_eq!((shown.status, shown.stderr.as_str()), (0, ""));
    for text in [text::of(&sums), shown.stdout] {
        let Some(families) = parsed(&text) else {
            return;
        };
        let families = families.unwrap_or_else(|error| panic!("{error}\n{text}"));
        let names: Vec<_> = families
            .iter()
            .map(|of| (of[0].as_str().unwrap(), of[1].as_str().unwrap()))
            .collect();
        let expected: Vec<_> = [("smc_exporter", "info")]
            .into_iter()
            .chain(text::families())
            .collect();
        assert_eq!(names, expected);
        let mut values = BTreeMap::new();
        for sample in families.iter().flat_map(|of| of[4].as_array().unwrap()) {
            let labels = sample[1].as_object().unwrap();
            let labels: BTreeMap<_, _> = labels.iter().collect();
            values.insert(
                format!("{} {labels:?}", sample[0].as_str().unwrap()),
                sample[2].as_f64().unwrap(),
            );
        }
        assert_eq!(values.len(), samples(&text).len());
        let of = |families: &[Value], name: &str| {
            let of = families.iter().find(|of| of[0] == name).unwrap();
            assert!(of[3].as_str().unwrap().ends_with('.'), "{of}");
        };
        names
            .iter()
            .skip(1)
            .for_each(|(name, _)| of(&families, name));
    }
    // It is strict: what OpenMetrics forbids is an error to it.
    let whole = text::of(&sums);
    for (right, wrong) in [
        ("# EOF\n", ""),
        ("smc_connections_total{", "smc_connections{"),
        ("# UNIT smc_bytes bytes", "# UNIT smc_bytes seconds"),
        ("le=\"8192.0\"", "le=\"9999999.0\""),
    ] {
        let broken = whole.replacen(right, wrong, 1);
        assert_ne!(broken, whole);
        assert!(parsed(&broken).unwrap().is_err(), "{wrong}");
    }
}

/// The exporter as a process, which ends with this.
pub(crate) struct Exporter {
    child: Child,
    pub(crate) at: SocketAddr,
}

impl Exporter {
    pub(crate) fn start() -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_smcx"));
        command.args(["metrics", "--listen", "0", "--verbose"]);
        let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let errors = child.stderr.as_mut().unwrap();
        BufReader::new(errors).read_line(&mut line).unwrap();
        let at = line.strip_prefix("smcx: metrics: http://");
        let at = at.and_then(|at| at.strip_suffix("/metrics\n"));
        let at = at.unwrap_or_else(|| panic!("{line}")).parse().unwrap();
        Self { child, at }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.at).unwrap();
        let most = Some(Duration::from_secs(30));
        stream.set_read_timeout(most).unwrap();
        stream
    }

    /// The answer to what is sent: its head, and what follows it.
    fn answer(&self, request: &[u8]) -> (String, String) {
        let mut stream = self.connect();
        stream.write_all(request).unwrap();
        answer(&mut stream)
    }

    fn scrape(&self) -> BTreeMap<String, u64> {
        let (head, text) = self.answer(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        let kind = "\r\nContent-Type: application/openmetrics-text; version=1.0.0; charset=utf-8\r";
        assert!(head.contains(kind), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r", text.len())));
        assert!(text.ends_with("\n# EOF\n"));
        samples(&text)
    }
}

fn answer(stream: &mut TcpStream) -> (String, String) {
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap_or((text.as_str(), ""));
    (head.to_owned(), body.to_owned())
}

impl Drop for Exporter {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Bytes that this user's processes received over SMC-D.
fn received(samples: &BTreeMap<String, u64>) -> u64 {
    let user = rustix::process::geteuid().as_raw();
    samples[&format!("smc_bytes_total{{uid=\"{user}\",tech=\"smcd\",dir=\"rx\"}}")]
}

/// On a terminal, commands that only wait show where they listen.
#[test]
fn a_terminal_shows_where_a_server_listens() {
    for (arguments, begin) in [
        (
            &["metrics", "--listen", "0"][..],
            "smcx: metrics: http://127.0.0.1:",
        ),
        (
            &["proxy", "127.0.0.1:0", "127.0.0.1:9"],
            "smcx: proxy: 127.0.0.1:",
        ),
        (&["listen", "127.0.0.1:0"], "smcx: listening on 127.0.0.1:"),
    ] {
        let (near, far) = terminal();
        let mut command = Command::new("timeout");
        command
            .args(["--foreground", "60", env!("CARGO_BIN_EXE_smcx")])
            .args(arguments)
            .env("SMC_POLICY", "")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(far);
        let child = Ended(command.spawn().unwrap());
        // The other end of the terminal is the child's alone.
        drop(command);
        let mut line = String::new();
        // A terminal whose last user has gone is an error.
        let _ = BufReader::new(File::from(near)).read_line(&mut line);
        let id = rustix::process::Pid::from_child(&child.0);
        let _ = rustix::process::kill_process(id, rustix::process::Signal::TERM);
        assert!(line.starts_with(begin), "{arguments:?}: {line:?}");
    }
}

#[test]
fn what_a_process_counted_stays_when_it_has_ended() {
    // More than all that other tests carry meanwhile, so that a loss of it shows.
    const BYTES: usize = 64 << 20;
    let mut exporter = Exporter::start();
    let before = received(&exporter.scrape());
    let listener = Listener::start(&User::Own, &["--exec", "cat > /dev/null"]);
    let mut stream = SmcStream::connect(listener.address.as_str()).unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    let piece = vec![7; 1 << 20];
    (0..BYTES / piece.len()).for_each(|_| stream.write_all(&piece).unwrap());
    let wait = |what: &dyn Fn(u64) -> bool| {
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let now = received(&exporter.scrape());
            if what(now) {
                return now;
            }
            assert!(Instant::now() < deadline, "{before}, then {now}");
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    let with = wait(&|now| now >= before + BYTES as u64);
    // Of this process, too: everything is published while it runs.
    drop((stream, listener));
    let deadline = Instant::now() + Duration::from_secs(3);
    while Instant::now() < deadline {
        let all = exporter.scrape();
        assert!(received(&all) >= with, "{with}, then {}", received(&all));
        std::thread::sleep(Duration::from_millis(200));
    }
    let id = rustix::process::Pid::from_child(&exporter.child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    assert_eq!(exporter.child.wait().unwrap().code(), Some(0));
}

#[test]
fn requests_of_any_content_have_an_answer() {
    let status = |request: &[u8]| Request::of(request);
    let refused = |request: &[u8]| match Request::of(request).asked {
        Asked::Refused(status, _) => status.split(' ').next().unwrap().to_owned(),
        other => panic!("{other:?}"),
    };
    let asked = |asked, body| Request { asked, body };
    let body = |body| asked(Asked::Metrics, body);
    assert_eq!(status(b"GET /metrics HTTP/1.1\r\n\r\n"), body(true));
    assert_eq!(status(b"HEAD /metrics?x=1 HTTP/1.0\n\n"), body(false));
    let index = |body| asked(Asked::Index, body);
    assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), index(true));
    assert_eq!(status(b"HEAD / HTTP/1.1\r\n\r\n"), index(false));
    for (request, code) in [
        (&b"POST /metrics HTTP/1.1\r\n\r\n"[..], "405"),
        (b"GET /metricsx HTTP/1.1\r\n\r\n", "404"),
        (b"GET /../etc/passwd HTTP/1.1\r\n\r\n", "404"),
        (b"GET http://x/metrics HTTP/1.1\r\n\r\n", "400"),
        (b"GET  /metrics HTTP/1.1\r\n\r\n", "400"),
        (b"GET /metrics HTTP/2\r\n\r\n", "400"),
        (b"GET /metrics\r\n\r\n", "400"),
        (b"\xff\xfe\x00 / HTTP/1.1\r\n\r\n", "400"),
        (b"\r\n\r\n", "400"),
        (b"", "400"),
    ] {
        assert_eq!(refused(request), code, "{request:?}");
    }
}

/// What answers HEAD is what answers GET, without the body.
#[test]
fn no_answer_to_head_has_a_body() {
    let answer = |head: &str, metrics: Result<&'static str, &str>| {
        let metrics = metrics.map_err(str::to_owned);
        let answer = http::answer(Request::of(head.as_bytes()), || metrics);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.to_owned(), body.to_owned())
    };
    for (target, metrics) in [
        ("/metrics", Ok("# EOF\n")),
        ("/metrics", Err("why")),
        ("/", Ok("")),
        ("/nothing", Ok("")),
    ] {
        let (head, body) = answer(&format!("GET {target} HTTP/1.1\r\n\r\n"), metrics);
        let length = format!("Content-Length: {}\r\n", body.len());
        assert!(!body.is_empty() && head.contains(&length), "{head}");
        let of_head = answer(&format!("HEAD {target} HTTP/1.1\r\n\r\n"), metrics);
        assert_eq!(of_head, (head, String::new()));
    }
    // Nor has one to a head that is not whole.
    let late = Request::refused(b"HEAD /met", "408 Request Timeout");
    assert!(http::answer(late, || Ok("")).ends_with("\r\n\r\n"));
}

#[test]
fn the_server_is_bounded_whoever_asks() {
    let exporter = Exporter::start();
    let code = |answer: &str| answer.split(' ').nth(1).unwrap_or_default().to_owned();
    let (head, text) = exporter.answer(b"HEAD /metrics HTTP/1.1\r\n\r\n");
    assert_eq!((code(&head).as_str(), text.as_str()), ("200", ""));
    let (head, text) = exporter.answer(b"HEAD / HTTP/1.1\r\n\r\n");
    assert_eq!((code(&head).as_str(), text.as_str()), ("200", ""));
    let (head, text) = exporter.answer(b"HEAD /nothing HTTP/1.1\r\n\r\n");
    assert_eq!((code(&head).as_str(), text.as_str()), ("404", ""));
    let (head, _) = exporter.answer(b"DELETE /metrics HTTP/1.1\r\n\r\n");
    assert_eq!(code(&head), "405");
    assert!(head.contains("\r\nAllow: GET, HEAD"), "{head}");

    // A head without end: what is more than fits is not read, and the answer arrives.
    let mut stream = exporter.connect();
    stream.write_all(&[b'a'; 9000]).unwrap();
    assert_eq!(code(&answer(&mut stream).0), "431");

    // Those that send nothing, or half a request, more than there are places: they keep no one
    // out, and the oldest are closed for further ones.
    let silent: Vec<_> = (0..200).map(|_| exporter.connect()).collect();
    for mut at in &silent {
        let _ = at.write_all(b"GET /met");
    }
    exporter.scrape();
    let mut first = &silent[0];
    assert!(!matches!(first.read(&mut [0]), Ok(1..)));
    let late = Instant::now();
    let mut last = silent.last().unwrap();
    let mut text = String::new();
    last.read_to_string(&mut text).unwrap();
    assert_eq!(code(&text), "408", "{text}");
    assert!(late.elapsed() < Duration::from_secs(15));

    // A body, and requests behind the first one, are passed over.
    let mut stream = exporter.connect();
    let twice = b"GET / HTTP/1.1\r\n\r\n".repeat(1000);
    stream.write_all(&twice).unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let (head, text) = answer(&mut stream);
    assert_eq!(code(&head), "200");
    assert_eq!(text.matches("HTTP").count(), 0);
    exporter.scrape();
}

#[test]
fn an_address_that_cannot_be_listened_at_is_named() {
    let exporter = Exporter::start();
    let address = exporter.at.to_string();
    let outcome = smcx(["metrics", "--listen", &address]);
    assert_eq!(outcome.status, 1);
    let expected = format!("smcx: {address}: address already in use");
    assert!(outcome.stderr.starts_with(&expected), "{}", outcome.stderr);
    for wrong in ["localhost", "+1", "65536", "1.2.3.4", "::1:x", ""] {
        assert_eq!(smcx(["metrics", "--listen", wrong]).status, 2, "{wrong}");
    }
    assert_eq!(exporter.at.ip(), Ipv4Addr::LOCALHOST);
}

pub(crate) fn document(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../docs")
        .join(name);
    std::fs::read_to_string(path).unwrap()
}

/// All strings by this key, however deep.
pub(crate) fn strings(value: &Value, key: &str, found: &mut Vec<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|at| strings(at, key, found)),
        Value::Object(all) => {
            for (name, at) in all {
                match at.as_str().filter(|_| name == key) {
                    Some(text) => found.push(text.to_owned()),
                    None => strings(at, key, found),
                }
            }
        }
        _ => {}
    }
}

/// Words of a query that are names: of metrics, labels or functions.
fn words(query: &str) -> impl Iterator<Item = &str> {
    query.split(|at: char| !(at.is_ascii_alphanumeric() || at == '_'))
}

#[test]
fn the_dashboard_asks_for_metrics_and_labels_that_there_are() {
    let text = text::of(&Sums::new(7));
    let exported: BTreeSet<String> = samples(&text)
        .into_keys()
        .map(|name| name.split('{').next().unwrap().to_owned())
        .chain(["smc_fallbacks_total".to_owned()])
        .collect();
    let labels: BTreeSet<&str> = ["side", "reason", "instance", "job"]
        .into_iter()
        .chain(
            text.split(['{', ','])
                .filter_map(|at| at.split_once("=\""))
                .map(|at| at.0),
        )
        .collect();
    let dashboard: Value = serde_json::from_str(&document("grafana-smc.json")).unwrap();
    let mut queries = Vec::new();
    strings(&dashboard, "expr", &mut queries);
    strings(&dashboard, "query", &mut queries);
    assert!(queries.len() > 10, "{queries:?}");
    let mut asked = BTreeSet::new();
    for query in &queries {
        let names = words(query).filter(|word| word.starts_with("smc_"));
        for name in names {
            assert!(exported.contains(name), "{name}: {query}");
            asked.insert(name.to_owned());
        }
        // By which labels, and with which.
        for part in query.split("by (").skip(1) {
            for label in part.split(')').next().unwrap().split(", ") {
                assert!(label == "le" || labels.contains(label), "{label}: {query}");
            }
        }
        for part in query.split('{').skip(1) {
            for matcher in part.split('}').next().unwrap().split(',') {
                let label = words(matcher.trim()).next().unwrap();
                assert!(labels.contains(label), "{label}: {query}");
            }
        }
    }
    // Each metric has a panel, and a row of the documentation.
    let table = document("operate.md");
    for (name, kind) in text::families() {
        let is_asked = asked.iter().any(|at| at.starts_with(name));
        assert!(is_asked, "no panel has {name}");
        let shown = match kind {
            "counter" => format!("| `{name}_total` |"),
            _ => format!("| `{name}` |"),
        };
        assert!(table.contains(&shown), "docs/operate.md lacks {shown}");
    }
}
