//! Debian's redis over SMC-R: redis-server in one guest, redis-cli and redis-benchmark in the other
//! one, each of them with `smcx run` or with sockets of the kernel's AF_SMC.
//!
//! ```text
//!   client's guest                                   server's guest
//!   redis-cli -x set    ── a value of 1 MB      ──►  redis-server
//!   redis-cli get       ◄─ and back             ──
//!   redis-benchmark     ── SETs and GETs        ──►
//!   redis-cli info      ◄─ what it counted      ──
//!   redis-cli shutdown  ──                      ──►
//! ```
//!
//! The programs succeed over TCP as well. That SMC-R carried them is taken from the capture, which has
//! a CLC Confirm for each connection that the server counted and no Decline, and from each end: the
//! statistics of `smcx run`, or the counters and sockets of the kernel.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::time::Instant;

use super::super::failed;
use super::direction::End;
use super::pair::SERVER;
use super::side::{self, Compared, LIMIT, PAUSE, Side, Stage};

/// The package that has the programs, with what it depends on.
pub(super) const PACKAGE: &str = "redis-server";
/// The programs.
pub(super) const PROGRAMS: [&str; 3] = ["redis-server", "redis-cli", "redis-benchmark"];

/// Bytes of the value that is set and got.
const VALUE: usize = 1_000_000;
/// Runs of redis-benchmark: SETs and as many GETs, connections at a time, bytes of a value. The
/// connections are made all at once, and a kernel waits 6 s for the Accept of each: a server in an
/// emulated guest answers some seven a second when the machine is busy.
const RUNS: [(u64, u32, u32); 2] = [(2_000, 20, 100), (200, 5, 20_000)];
/// Of a record of `sock_diag`: the socket has a connection; and how it is carried.
const ACTIVE: u8 = 1;
const OVER_SMC_R: u8 = 0;

/// Runs the programs, and compares.
pub(super) fn compare(stage: Stage<'_>) -> Compared<String> {
    let (port, share) = (stage.pair.next_port().to_string(), stage.share);
    let served = stage.run_captured(side::over, |server, client| {
        serve(server, client, &port, share)
    });
    let (served, captured) = match served? {
        Ok(served) => served,
        Err(difference) => return Ok(Err(difference)),
    };
    let least = [VALUE as u64; 2];
    Ok(captured.judge(served.connections, least).map(|()| {
        let of_kernels = match served.of_kernels {
            0 => String::new(),
            most => format!("; {most} sockets of a kernel at a time, all over SMC-R"),
        };
        format!(
            "{VALUE} bytes set and got alike; {} SETs and {} GETs answered; {} connections, each \
             with a Confirm; {} and {} bytes written by RDMA{of_kernels}",
            served.sets, served.gets, served.connections, captured.sent, captured.received
        )
    }))
}

/// What the programs did, by the server's counters and the ends' own.
struct Served {
    connections: u64,
    sets: u64,
    gets: u64,
    /// The most sockets with connections that a kernel's list had.
    of_kernels: usize,
}

fn serve<'a>(
    server: &mut Side<'a>,
    client: &mut Side<'a>,
    port: &str,
    share: &Path,
) -> Compared<Served> {
    let before = [server.counts()?, client.counts()?];
    let address = SERVER.to_string();
    server.begin(
        &[
            "/usr/bin/redis-server",
            "--bind",
            &address,
            "--port",
            port,
            "--save",
            "",
            "--appendonly",
            "no",
            "--protected-mode",
            "no",
            "--dir",
            "/tmp",
        ],
        [None, None],
    )?;
    if let Err(difference) = server.until("Ready to accept connections")? {
        return Ok(Err(difference));
    }
    let cli = ["/usr/bin/redis-cli", "-h", &address, "-p", port];
    let cli = |words: &[&'static str]| [&cli[..], words].concat();

    // A value of random bytes, which arrives as it went.
    let mut value = vec![0; VALUE];
    let mut random = fs::File::open("/dev/urandom").map_err(failed("/dev/urandom"))?;
    random
        .read_exact(&mut value)
        .map_err(failed("/dev/urandom"))?;
    let (there, back) = (share.join("redis-value"), share.join("redis-got"));
    fs::write(&there, &value).map_err(failed(there.display()))?;
    let _ = fs::remove_file(&back);
    let set = cli(&["-x", "set", "value"]);
    match client.run(&set, [Some("/share/redis-value"), None])? {
        Ok(lines) if lines.iter().any(|line| line == "OK") => {}
        Ok(lines) => return Ok(Err(format!("set: {lines:?}"))),
        Err(difference) => return Ok(Err(difference)),
    }
    let get = cli(&["--raw", "get", "value"]);
    if let Err(difference) = client.run(&get, [None, Some("/share/redis-got")])? {
        return Ok(Err(difference));
    }
    // redis-cli ends what it prints with a newline of its own.
    value.push(b'\n');
    let got = fs::read(&back).map_err(failed(back.display()))?;
    if got != value {
        let same = got
            .iter()
            .zip(&value)
            .take_while(|(one, other)| one == other);
        let (same, length) = (same.count(), got.len());
        return Ok(Err(format!(
            "the value: {length} bytes, different from byte {same}"
        )));
    }

    let mut of_kernels = 0;
    for (requests, connections, size) in RUNS {
        let words = [
            requests.to_string(),
            connections.to_string(),
            size.to_string(),
        ];
        let [requests, connections, size] = words.each_ref().map(String::as_str);
        client.begin(
            &[
                "/usr/bin/redis-benchmark",
                "-h",
                &address,
                "-p",
                port,
                "-t",
                "set,get",
                "-n",
                requests,
                "-c",
                connections,
                "-d",
                size,
                "--csv",
            ],
            [None, None],
        )?;
        let end = Instant::now() + LIMIT;
        while !client.has_ended(PAUSE)? {
            if Instant::now() > end {
                return Ok(Err("redis-benchmark does not end".to_owned()));
            }
            for side in [&mut *server, &mut *client] {
                match smc_r_connections(side)? {
                    Ok(most) => of_kernels = of_kernels.max(most),
                    Err(difference) => return Ok(Err(difference)),
                }
            }
        }
        match client.ended()? {
            Ok(lines) if ["SET", "GET"].iter().all(|test| has_row(&lines, test)) => {}
            Ok(lines) => return Ok(Err(format!("redis-benchmark: {lines:?}"))),
            Err(difference) => return Ok(Err(difference)),
        }
    }

    let info = match client.run(&cli(&["info", "all"]), [None, None])? {
        Ok(lines) => lines,
        Err(difference) => return Ok(Err(difference)),
    };
    // The server ends while its answer may be under way: it tells how, not the client.
    client.begin(&cli(&["shutdown", "nosave"]), [None, None])?;
    if let Err(difference) = server.ended()? {
        return Ok(Err(format!("redis-server: {difference}")));
    }
    let _ = client.ended()?;
    let asked: u64 = RUNS.iter().map(|(requests, ..)| requests).sum();
    let (sets, gets) = (calls(&info, "set"), calls(&info, "get"));
    // One of each is that of the value.
    if (sets, gets) != (Some(asked + 1), Some(asked + 1)) {
        return Ok(Err(format!(
            "{sets:?} SETs and {gets:?} GETs, of {asked} each and one"
        )));
    }
    if let Some(error) = info.iter().find(|line| line.starts_with("errorstat_")) {
        return Ok(Err(format!("answered with errors: {error}")));
    }
    // The last one shut the server down.
    let connections = field(&info, "total_connections_received:").map(|count| count + 1);
    let Some(connections) = connections else {
        return Ok(Err(format!("no count of connections: {info:?}")));
    };
    if let Err(difference) = side::both_carried(server, client, before, connections)? {
        return Ok(Err(difference));
    }
    Ok(Ok(Served {
        connections,
        sets: asked,
        gets: asked,
        of_kernels,
    }))
}

/// How many connections the kernel of an end has over SMC-R; none if the end is ours.
fn smc_r_connections(side: &mut Side<'_>) -> Compared<usize> {
    if side.end == End::Ours {
        return Ok(Ok(0));
    }
    let records = side.sockets()?;
    Ok(over_smc_r(&records))
}

/// How many records are of connections, all of which SMC-R has to carry.
fn over_smc_r(records: &[Vec<u8>]) -> Result<usize, String> {
    let mut count = 0;
    for record in records {
        match record.get(1..3) {
            Some(&[ACTIVE, OVER_SMC_R]) => count += 1,
            Some(&[ACTIVE, mode]) => return Err(format!("a socket of mode {mode}: {record:?}")),
            _ => {}
        }
    }
    Ok(count)
}

/// A row of redis-benchmark's CSV: the test's name and its rate, quoted.
fn has_row(lines: &[String], test: &str) -> bool {
    let begin = format!("\"{test}\",\"");
    let rates = lines.iter().filter_map(|line| line.strip_prefix(&begin));
    let mut rates = rates.filter_map(|rest| rest.split('"').next()?.parse::<f64>().ok());
    rates.any(|rate| rate > 0.0)
}

/// How often a command was called, by `info commandstats`.
fn calls(info: &[String], command: &str) -> Option<u64> {
    field(info, &format!("cmdstat_{command}:calls="))
}

/// The number behind this beginning of a line.
fn field(info: &[String], begin: &str) -> Option<u64> {
    let rest = info.iter().find_map(|line| line.strip_prefix(begin))?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next()?;
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{calls, field, has_row, over_smc_r};

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn a_socket_of_the_kernel_that_fell_back_is_seen() {
        let record = |state, mode| vec![43, state, mode, 0];
        let listening = record(10, 0);
        assert_eq!(over_smc_r(&[listening.clone(), record(1, 0)]), Ok(1));
        assert!(over_smc_r(&[listening, record(1, 0), record(1, 1)]).is_err());
    }

    #[test]
    fn rows_and_counters_are_read() {
        let csv = lines("\"test\",\"rps\",\"avg\"\n\"SET\",\"812.35\",\"50.1\"\n\"GET\",\"0.00\"");
        assert!(has_row(&csv, "SET"));
        assert!(!has_row(&csv, "GET"));
        let info = lines("total_connections_received:107\r\ncmdstat_set:calls=2201,usec=9\r\n");
        assert_eq!(calls(&info, "set"), Some(2_201));
        assert_eq!(calls(&info, "get"), None);
        assert_eq!(field(&info, "total_connections_received:"), Some(107));
    }
}
