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

use super::pair::SERVER;
use super::side::{self, Compared, Side, Stage};
use crate::orders::EXITS;

/// How the sender ends.
const WAYS: [&str; 3] = ["return", "_exit", "close"];
/// Bytes of each connection.
const LENGTH: u64 = 1_000_000;

/// Runs the program, and compares.
pub(super) fn compare(stage: Stage<'_>) -> Compared<String> {
    let runs = WAYS.map(|way| [(way, true), (way, false)]).concat();
    let ports = runs.iter().map(|_| stage.pair.next_port().to_string());
    let ports: Vec<_> = ports.collect();
    let moved = stage.run_captured(side::over, |server, client| {
        run_all(server, client, &runs, &ports)
    });
    let ((), captured) = match moved? {
        Ok(moved) => moved,
        Err(difference) => return Ok(Err(difference)),
    };
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
) -> Compared<()> {
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
    side::both_carried(server, client, before, runs.len() as u64)
}
