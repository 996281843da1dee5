//! A program that ends as soon as it has sent, over SMC-R: nothing that it has written is lost.
//!
//! ```text
//!   client's guest                      server's guest
//!   exits send WAY connect   ── 1 MB ──►  exits receive listen
//!   exits receive connect   ◄── 1 MB ──   exits send WAY listen
//! ```
//!
//! The receiver begins to read late, so that much is not sent yet when the sender ends: a kernel goes on
//! after a process, and `smcx run` has to wait in the process. Each way to end is tried at each end.

use std::path::Path;

use super::super::Trouble;
use super::direction::Direction;
use super::pair::{Pair, SERVER};
use super::side::{self, Side};
use crate::orders::EXITS;

/// How the sender ends.
const WAYS: [&str; 3] = ["return", "_exit", "close"];
/// Bytes of each connection.
const LENGTH: u64 = 1_000_000;

/// Runs the program, and compares.
pub(super) fn compare(
    pair: &mut Pair,
    direction: Direction,
    place: &Path,
    shown: &mut String,
) -> Result<Result<String, String>, Trouble> {
    let capture = place.join("client.pcap");
    pair.start_captures(&capture, &place.join("server.pcap"))?;
    let runs = WAYS.map(|way| [(way, true), (way, false)]).concat();
    let ports: Vec<_> = runs.iter().map(|_| pair.next_port().to_string()).collect();
    let over = side::over;
    let mut server = Side::new(&mut pair.server, direction.server, over(direction.server));
    let mut client = Side::new(&mut pair.client, direction.client, over(direction.client));
    let moved = run_all(&mut server, &mut client, &runs, &ports);
    for (name, side) in [("server", &server), ("client", &client)] {
        shown.push_str(&format!("== {name}\n{}\n", side.lines.join("\n")));
    }
    pair.stop_captures()?;
    if let Err(difference) = moved? {
        return Ok(Err(difference));
    }
    let captured = side::captured(&capture)?;
    let least = [LENGTH * WAYS.len() as u64; 2];
    Ok(captured.judge(runs.len() as u64, least).map(|()| {
        format!(
            "{LENGTH} bytes each, of a client and of a server that ended by {}; {} connections, each with \
             a Confirm; {} and {} bytes written by RDMA",
            WAYS.join(", "),
            runs.len(),
            captured.sent,
            captured.received
        )
    }))
}

/// Makes a connection for each way, and whether the client or the server sends.
fn run_all<'a>(
    server: &mut Side<'a>,
    client: &mut Side<'a>,
    runs: &[(&str, bool)],
    ports: &[String],
) -> Result<Result<(), String>, Trouble> {
    let before = [server.counts()?, client.counts()?];
    let address = SERVER.to_string();
    for (&(way, client_sends), port) in runs.iter().zip(ports) {
        let role = |sends| match sends {
            true => vec![EXITS, "send", way],
            false => vec![EXITS, "receive"],
        };
        let failed = |who: &str, difference| {
            let sender = if client_sends { "client" } else { "server" };
            Ok(Err(format!("{sender} sends, {way}: {who}: {difference}")))
        };
        server.begin(
            &[role(!client_sends), vec!["listen", port]].concat(),
            [None; 2],
        )?;
        if let Err(difference) = server.until("listening")? {
            return failed("server", difference);
        }
        let connect = vec!["connect", &address, port];
        // Each fails unless it got what was sent.
        if let Err(difference) = client.run(&[role(client_sends), connect].concat(), [None; 2])? {
            return failed("client", difference);
        }
        if let Err(difference) = server.ended()? {
            return failed("server", difference);
        }
    }
    let ends = [("server", server), ("client", client)];
    for ((name, side), before) in ends.into_iter().zip(before) {
        if let Err(difference) = side.carried(before, runs.len() as u64)? {
            return Ok(Err(format!("{name}: {difference}")));
        }
    }
    Ok(Ok(()))
}
