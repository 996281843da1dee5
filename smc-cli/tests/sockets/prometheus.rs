//! A Prometheus of Debian's package, which takes what `smcx metrics --listen` answers, and answers
//! each query of the dashboard and of the guide.

use std::fs;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use smc_sockets::SmcStream;

use super::child::{Listener, User};
use super::metrics::{Exporter, document, strings};
use crate::common::scratch;
use crate::stats::Ended;
use smcx::metrics::text;

/// How long the server may take to begin, and to have what it is to show.
const LIMIT: Duration = Duration::from_secs(60);

/// The program: that of `PROMETHEUS`, or the one that is installed.
fn program() -> Option<PathBuf> {
    let named = std::env::var_os("PROMETHEUS").map(PathBuf::from);
    let path = std::env::var_os("PATH").unwrap_or_default();
    let installed = std::env::split_paths(&path).map(|at| at.join("prometheus"));
    named.into_iter().chain(installed).find(|at| at.is_file())
}

/// A server that scrapes an exporter each second.
struct Prometheus {
    _server: Ended,
    at: SocketAddr,
}

impl Prometheus {
    fn start(program: &PathBuf, exporter: SocketAddr) -> Self {
        let place = scratch("prometheus");
        let path = |name: &str| place.join(name).display().to_string();
        let configuration = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: smc\n    \
             static_configs:\n      - targets: [\"{exporter}\"]\n"
        );
        fs::write(path("prometheus.yml"), configuration).unwrap();
        // It takes no port of the kernel's choice: one that is free now.
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let at = free.local_addr().unwrap();
        drop(free);
        let log = fs::File::create(path("log")).unwrap();
        let mut command = Command::new(program);
        command
            .arg(format!("--config.file={}", path("prometheus.yml")))
            .arg(format!("--storage.tsdb.path={}", path("data")))
            .arg(format!("--web.listen-address={at}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log);
        let mut server = Ended(command.spawn().unwrap());
        let end = Instant::now() + LIMIT;
        while TcpStream::connect(at).is_err() {
            let log = || fs::read_to_string(path("log")).unwrap();
            assert_eq!(server.0.try_wait().unwrap(), None, "{}", log());
            assert!(Instant::now() < end, "{}", log());
            std::thread::sleep(Duration::from_millis(50));
        }
        Self {
            _server: server,
            at,
        }
    }

    /// What the interface of HTTP answers, and that it is no error.
    fn get(&self, target: &str) -> Value {
        let mut stream = TcpStream::connect(self.at).unwrap();
        stream.set_read_timeout(Some(LIMIT)).unwrap();
        // An answer to HTTP/1.0 comes in one piece.
        write!(stream, "GET {target} HTTP/1.0\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        let answer: Value = serde_json::from_str(body)
            .unwrap_or_else(|error| panic!("{target}: {error}: {head}\n{body}"));
        assert_eq!(answer["status"], "success", "{target}: {body}");
        answer["data"].clone()
    }

    /// The samples of a query: their labels and values.
    fn query(&self, query: &str) -> Vec<(Value, f64)> {
        let escape = |byte: u8| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'_' => char::from(byte).to_string(),
            byte => format!("%{byte:02x}"),
        };
        let query: String = query.bytes().map(escape).collect();
        let data = self.get(&format!("/api/v1/query?query={query}"));
        let samples = data["result"].as_array().unwrap();
        let samples = samples.iter().map(|of| {
            let value = of["value"][1].as_str().unwrap();
            (of["metric"].clone(), value.parse().unwrap())
        });
        samples.collect()
    }

    /// Waits until a query has a sample that is wanted.
    fn wait(&self, query: &str, is_wanted: impl Fn(f64) -> bool) {
        let end = Instant::now() + LIMIT;
        loop {
            let samples = self.query(query);
            if samples.iter().any(|(_, value)| is_wanted(*value)) {
                return;
            }
            assert!(Instant::now() < end, "{query}: {samples:?}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// Queries of the guide: the first words of lines in blocks of text that ask for our metrics.
fn queries_of_the_guide() -> Vec<String> {
    let page = document("guide/src/observe.md");
    let lines = page.lines().filter(|line| line.starts_with("sum "));
    let query = |line: &str| line.split("  ").next().unwrap().to_owned();
    lines.map(query).collect()
}

#[test]
fn a_server_takes_the_metrics_and_answers_the_queries_of_the_dashboard() {
    let Some(program) = program() else {
        assert!(
            std::env::var_os("CI").is_none(),
            "no prometheus: install the Debian package, or name the program by PROMETHEUS"
        );
        eprintln!("SKIPPED: there is no prometheus that could be asked");
        return;
    };
    const BYTES: u32 = 1_000_000;
    let exporter = Exporter::start();
    let server = Prometheus::start(&program, exporter.at);
    let listener = Listener::start(&User::Own, &["--exec", "cat > /dev/null", "--keep-open"]);
    let mut stream = SmcStream::connect(listener.address.as_str()).unwrap();
    assert!(stream.carrier().is_smc(), "{}", stream.carrier());
    stream.write_all(&vec![1; BYTES as usize]).unwrap();

    server.wait("up{job=\"smc\"}", |up| up == 1.0);
    let user = rustix::process::geteuid().as_raw();
    let sent = format!("smc_bytes_total{{uid=\"{user}\",tech=\"smcd\",dir=\"tx\"}}");
    server.wait(&sent, |sent| sent >= f64::from(BYTES));

    // The kinds and the descriptions of all metrics, as the server has read them.
    let target = "/api/v1/targets/metadata?match_target=%7Bjob=%22smc%22%7D";
    let known = server.get(target);
    let known = known.as_array().unwrap();
    for (name, kind) in text::families() {
        let of = known.iter().find(|of| of["metric"] == name);
        let of = of.unwrap_or_else(|| panic!("{name} is unknown to the server: {known:?}"));
        assert_eq!(of["type"], kind, "{name}");
        assert!(of["help"].as_str().unwrap().ends_with('.'), "{of}");
    }

    let dashboard: Value = serde_json::from_str(&document("grafana-smc.json")).unwrap();
    let mut queries = queries_of_the_guide();
    assert!(queries.len() >= 3, "{queries:?}");
    strings(&dashboard, "expr", &mut queries);
    assert!(queries.len() > 10, "{queries:?}");
    for query in &queries {
        let asked = query
            .replace("$__rate_interval", "1m")
            .replace("$__range", "1h")
            .replace("$instance", ".*")
            .replace("$uid", ".*");
        assert!(!asked.contains('$'), "{query}");
        server.query(&asked);
    }
    // Rates need two samples: the panels have something to show, then.
    server.wait("sum by (tech, dir) (rate(smc_bytes_total[1m]))", |rate| {
        rate >= 0.0
    });
    drop(stream);
}
