//! A program that ends as soon as it has sent, over SMC-R: nothing that it has written is lost.
//!
//! ```text
//!   client's guest                      server's guest
//!   exits send WAY connect   ── 1 MB ──►  exits receive listen
//!   exits receive connect   ◄── 1 MB ──   exits send WAY listen
//! ```
//!
//! The receiver begins to read late, so that much is not sent yet when the sender ends: `smcx run` has to
//! wait in the process. Each way to end is tried at each end. A kernel announces the end of the stream
//! before the rest if a process ends without `close` (L13 of `docs/linux-findings.md`): of such a sender
//! the beginning has to be read, followed by the end of the stream, and the row says how much was not.

use super::direction::End;
use super::pair::SERVER;
use super::side::{self, Compared, Side, Stage};
use crate::orders::EXITS;

/// The way to end that closes the connection before the process ends.
const CLOSE: &str = "close";
/// How the sender ends.
const WAYS: [&str; 3] = ["return", "_exit", CLOSE];
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
    let (received, captured) = match moved? {
        Ok(moved) => moved,
        Err(difference) => return Ok(Err(difference)),
    };
    let by = |client_sends| {
        let of = runs.iter().zip(&received);
        let of = of.filter(move |((_, by_client), _)| *by_client == client_sends);
        of.map(|(_, bytes)| *bytes).sum::<u64>()
    };
    let judged = captured.judge(runs.len() as u64, [by(true), by(false)]);
    let lacks = |((way, client_sends), bytes): (&(&str, bool), &u64)| {
        let sender = sender(*client_sends);
        (*bytes < LENGTH).then(|| {
            format!(
                "; {} of them were not read, as the kernel announced the end first ({sender}, {way})",
                LENGTH - bytes
            )
        })
    };
    let lacks: String = runs.iter().zip(&received).filter_map(lacks).collect();
    Ok(judged.map(|()| {
        format!(
            "{LENGTH} bytes each, of a client and of a server that ended by {}; {} connections, each with \
             a Confirm; {} and {} bytes written by RDMA{lacks}",
            WAYS.join(", "),
            runs.len(),
            captured.sent,
            captured.received
        )
    }))
}

/// The end that sends.
const fn sender(client_sends: bool) -> &'static str {
    match client_sends {
        true => "client",
        false => "server",
    }
}

/// Makes a connection for each way, and whether the client or the server sends. Returns the bytes that
/// arrived over each.
fn run_all<'a>(
    server: &mut Side<'a>,
    client: &mut Side<'a>,
    runs: &[(&str, bool)],
    ports: &[String],
) -> Compared<Vec<u64>> {
    let before = [server.counts()?, client.counts()?];
    let address = SERVER.to_string();
    let mut all = Vec::new();
    for (&(way, client_sends), port) in runs.iter().zip(ports) {
        let role = |sends| match sends {
            true => vec![EXITS, "send", way],
            false => vec![EXITS, "receive"],
        };
        let failed = |who: &str, difference| {
            let sender = sender(client_sends);
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
        client.begin(&[role(client_sends), connect].concat(), [None; 2])?;
        let (writer, receiver) = match client_sends {
            true => (&mut *client, &mut *server),
            false => (&mut *server, &mut *client),
        };
        if let Err(difference) = writer.ended()? {
            return failed("sender", difference);
        }
        let may_lack = writer.end == End::Kernel && way != CLOSE;
        match received(receiver, may_lack)? {
            Ok(bytes) => all.push(bytes),
            Err(difference) => return failed("receiver", difference),
        }
    }
    let carried = side::both_carried(server, client, before, runs.len() as u64)?;
    Ok(carried.map(|()| all))
}

/// Waits for the receiver's end. Returns the bytes that it got before the end of the stream: all that were
/// sent, or the beginning of them if some `may_lack`.
fn received(receiver: &mut Side<'_>, may_lack: bool) -> Compared<u64> {
    let ended = receiver.ended()?;
    let count = |line: &String| line.strip_suffix(" bytes and the end")?.parse::<u64>().ok();
    let count = receiver.output().iter().find_map(count);
    Ok(match (ended, count) {
        (Ok(_), Some(LENGTH)) => Ok(LENGTH),
        (Err(_), Some(bytes)) if may_lack && bytes < LENGTH => Ok(bytes),
        (Ok(output), _) => Err(format!("{output:?}")),
        (Err(difference), _) => Err(difference),
    })
}
