//! The scripts of the conformance suite: one guest has the peer, the other one the sockets.

use std::fs;
use std::path::Path;
use std::time::Duration;

use super::super::scripts::{Kept, Run};
use super::super::{Trouble, failed};
use super::pair::{Pair, SERVER};
use crate::orders::{Answer, LISTENING, Order, SCRIPTS};

/// A script may take so long: in the second attempt each message of a flood has its pause.
const SILENCE: Duration = Duration::from_secs(600);
/// A guest that sends nothing may have ended: its console is read this often.
const CONSOLE_INTERVAL: Duration = Duration::from_secs(5);
/// All of them.
const LIMIT: Duration = Duration::from_secs(3 * 3600);

/// Plays scripts against the kernel's sockets or ours; those whose names begin like this.
pub(super) fn play(
    pair: &mut Pair,
    against_ours: bool,
    v1: bool,
    names: &[String],
    place: &Path,
) -> Result<Result<String, String>, Trouble> {
    let kept = match against_ours {
        true => Kept::of_ours()?,
        false => Kept::of_linux()?,
    };
    let port = pair.next_port();
    let command = |task: &str| {
        let whose = if against_ours { "ours" } else { "kernel" };
        let version = if v1 { "v1" } else { "v2" };
        let (address, port) = (SERVER.to_string(), port.to_string());
        let words = [SCRIPTS, task, whose, version, &address, &port];
        words.map(str::to_owned).to_vec()
    };
    let order = |command| Order::Run {
        command,
        input: None,
        output: None,
        limit: LIMIT.as_millis() as u64,
    };
    pair.server.order(&order(command("serve")))?;
    match pair.server.answer(SILENCE)? {
        Answer::Printed(line) if line == LISTENING => {}
        other => return Err(pair.server.surprise(&other)),
    }
    let mut play = command("play");
    play.extend(names.iter().cloned());
    play.extend(kept.crashes().map(|name| format!("!{name}")));
    pair.client.order(&order(play))?;
    let (mut run, mut others) = (Run::default(), Vec::new());
    let mut silence = Duration::ZERO;
    let status = loop {
        let Some(answer) = pair.client.answer_within(CONSOLE_INTERVAL)? else {
            silence += CONSOLE_INTERVAL;
            if silence >= SILENCE || pair.alarm()?.is_some() {
                let begun = run.begun().unwrap_or("no script");
                let until_then = summary(&run, &kept);
                return Ok(Err(format!("{begun} has no end; until then {until_then}")));
            }
            continue;
        };
        silence = Duration::ZERO;
        match answer {
            Answer::Printed(line) if run.take(&line) => {
                // The file shows progress while the run goes on.
                let path = place.join("report.txt");
                fs::write(&path, run.report(&kept)).map_err(failed(path.display()))?;
            }
            Answer::Printed(line) => others.push(line),
            Answer::Ended(status) => break status,
            other => return Err(pair.client.surprise(&other)),
        }
    };
    if status == Some(0) {
        return Ok(run.judge(&kept));
    }
    // The serving end knows why, if the other end does not.
    while let Ok(Answer::Printed(line)) = pair.server.answer(Duration::from_secs(2)) {
        others.push(line);
    }
    Ok(Err(format!(
        "{status:?} {}; until then {}",
        others.join("; "),
        summary(&run, &kept)
    )))
}

/// Summary of a run, whether it is as it should be or not.
fn summary(run: &Run, kept: &Kept) -> String {
    match run.judge(kept) {
        Ok(summary) | Err(summary) => summary,
    }
}
