//! What `smcx` shows of a kernel's sockets, compared with the kernel's own records, byte for byte.
//!
//! ```text
//!   client's guest ── two connections over SMC-R, one over TCP ──► server's guest
//!                         all of them wait                           sock_diag ─► records
//!                                                                    smcx ss   ─► lines
//! ```
//!
//! The lines are made from the records by code of its own ([`row`]), by the columns of `smcss` of
//! smc-tools 1.8.5. If `smcss` itself is in the share, it runs besides: it is not in Debian, and the
//! project does not have its source.

mod counted;
mod row;

use std::path::Path;
use std::time::{Duration, Instant};

use self::row::Columns;
use super::super::Trouble;
use super::super::machine::Guest;
use super::pair::{CLIENT, Pair, SERVER, UEID};
use crate::conversation::Step;
use crate::orders::{Answer, Family, Order, Role, SMCX, Session};
use crate::scenarios::Connections;

/// For this time the connections do nothing: everything is read meanwhile.
const PAUSE: Duration = Duration::from_secs(90);
/// A program in a guest has ended.
const LIMIT: Duration = Duration::from_secs(60);
/// Readings until nothing changes between two of them.
const ATTEMPTS: usize = 10;

const CLIENT_STEPS: &[Step] = &[
    Step::Send(5_000),
    Step::Receive(70_000),
    Step::Pause(PAUSE.as_millis() as u64),
    Step::Shutdown,
    Step::End,
];
const SERVER_STEPS: &[Step] = &[
    Step::Receive(5_000),
    Step::Send(70_000),
    Step::End,
    Step::Shutdown,
];

/// Connections over SMC-R, and others over TCP.
const OVER_SMC: u32 = 2;
const OVER_TCP: u32 = 1;

/// What `smcx ss` and `smcss` are asked for.
const LISTS: [&[&str]; 7] = [
    &[],
    &["-a"],
    &["-l"],
    &["-a", "-W"],
    &["-R"],
    &["-d", "-R"],
    &["-a", "-d", "-D"],
];

/// Other lists of the kernel's SMC, with what they have to contain.
const OTHERS: [(&[&str], &[&str]); 7] = [
    (&["links"], &["SMC-R link groups", "eth0", "LINK_ACTIVE"]),
    (&["links", "-d"], &["Peer-OS", "rxe0", UEID]),
    (
        &["links", "-dd", "-R"],
        &["Peer-GID", "0000:ffff:0a54:0001"],
    ),
    (&["devices", "-d"], &["rxe0", "ACTIVE"]),
    (&["info"], &["net.smc.", UEID]),
    (&["stats"], &["SMC connections"]),
    (&["stats", "--json"], &["SMC_INT_TX_BUF_8K"]),
];

/// Programs of smc-tools in the share, whose output is only kept.
const KEPT: [&[&str]; 8] = [
    &["smcr", "linkgroup"],
    &["smcr", "linkgroup", "link-show"],
    &["smcr", "-d", "linkgroup"],
    &["smcr", "-dd", "linkgroup", "link-show"],
    &["smcr", "-d", "device"],
    &["smcr", "info"],
    &["smcr", "ueid"],
    &["smcd", "seid"],
];

/// Holds the connections, and compares the lists. `shown` gets all that was shown.
pub(super) fn compare(
    pair: &mut Pair,
    share: &Path,
    capture: &Path,
    shown: &mut String,
) -> Result<Result<String, String>, Trouble> {
    for (port, client, count) in [
        (pair.next_port(), Family::Smc, OVER_SMC),
        (pair.next_port(), Family::Tcp, OVER_TCP),
    ] {
        let order = |role, family| Order::Hold(session(role, family, port, count));
        let server = order(Role::Server, Family::Smc);
        if let Some(held) = pair.begin(&order(Role::Client, client), &server, LIMIT)? {
            return Ok(Err(format!("{held:?}")));
        }
    }
    let listed = lists(&mut pair.server, share, shown)?;
    if let Err(difference) = ended(pair, 2)? {
        return Ok(Err(difference));
    }
    let listed = match listed {
        Ok(listed) => listed,
        Err(differences) => return Ok(Err(differences)),
    };
    let counted = counted::compare(pair, capture, shown)?;
    Ok(counted.map(|counted| format!("{listed}; {counted}")))
}

/// `sessions` sessions of each role end; the first difference, if there is one.
fn ended(pair: &mut Pair, sessions: usize) -> Result<Result<(), String>, Trouble> {
    for role in [Role::Client, Role::Server] {
        for _ in 0..sessions {
            let (held, _) = pair.held(role, 0, PAUSE)?;
            if let Some(difference) = held.iter().find_map(|at| at.difference.as_ref()) {
                return Ok(Err(difference.clone()));
            }
        }
    }
    Ok(Ok(()))
}

fn session(role: Role, family: Family, port: u16, count: u32) -> Session {
    let (local, steps) = match role {
        Role::Client => (CLIENT, CLIENT_STEPS),
        Role::Server => (SERVER, SERVER_STEPS),
    };
    Session {
        role,
        family,
        local,
        v1: false,
        ueids: vec![UEID.to_owned()],
        address: SERVER,
        port,
        connections: Connections::AtOnce(count),
        unprivileged: false,
        by_hand: None,
        memory: None,
        buffers: None,
        steps: steps.to_vec(),
        timeout: 2 * PAUSE.as_millis() as u64,
    }
}

/// All lists of a guest.
fn lists(
    guest: &mut Guest,
    share: &Path,
    shown: &mut String,
) -> Result<Result<String, String>, Trouble> {
    let records = established(guest)?;
    if row::active(&records) != (OVER_SMC + OVER_TCP) as usize {
        return Ok(Err(format!("{} records: {records:?}", records.len())));
    }
    let (mut lines, mut differences) = (0, Vec::new());
    let has_smcss = share.join("smcss").exists();
    for options in LISTS {
        let (list, records) = unchanged(guest, &[&[SMCX, "ss"], options].concat(), shown)?;
        let expected = Columns::of(options).list(&records);
        lines += expected.len();
        let ours: Vec<_> = list
            .iter()
            .filter_map(|line| without_process(line))
            .collect();
        if ours != expected {
            differences.push(format!("smcx ss {options:?}: {ours:?} for {expected:?}"));
        }
        if has_smcss {
            let (theirs, _) = unchanged(guest, &[&["/share/smcss"], options].concat(), shown)?;
            let theirs = sorted(theirs.iter().map(|line| line.trim_end()));
            if theirs != sorted(ours.iter().map(|line| line.trim_end())) {
                differences.push(format!("smcss {options:?}: {theirs:?} beside {ours:?}"));
            }
        }
    }
    for (command, parts) in OTHERS {
        let list = run(guest, &[&[SMCX], command].concat(), shown)?.join("\n");
        let missing = parts.iter().filter(|part| !list.contains(*part));
        differences.extend(missing.map(|part| format!("smcx {command:?}: no {part}")));
    }
    for command in KEPT {
        if let [program, arguments @ ..] = command
            && share.join(program).exists()
        {
            let program = format!("/share/{program}");
            run(guest, &[&[program.as_str()], arguments].concat(), shown)?;
        }
    }
    let beside = if has_smcss { ", and beside smcss" } else { "" };
    Ok(match differences.is_empty() {
        true => Ok(format!("{lines} lines equal the records{beside}")),
        false => Err(differences.join("; ")),
    })
}

/// The order of the kernel's list is that of its hash table.
fn sorted<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    let mut lines: Vec<_> = lines.collect();
    lines.sort_unstable();
    lines
}

/// The line without the column that `smcss` does not have.
fn without_process(line: &str) -> Option<&str> {
    line.strip_suffix("kernel").or(line.strip_suffix("Process"))
}

/// The records, when all connections are there and nothing moves any more.
fn established(guest: &mut Guest) -> Result<Vec<Vec<u8>>, Trouble> {
    let end = Instant::now() + LIMIT;
    let mut before = Vec::new();
    loop {
        let records = records(guest)?;
        let all = row::active(&records) == (OVER_SMC + OVER_TCP) as usize;
        if (all && records == before) || Instant::now() > end {
            return Ok(records);
        }
        before = records;
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// Runs a program until the records are the same before and after it.
fn unchanged(
    guest: &mut Guest,
    command: &[&str],
    shown: &mut String,
) -> Result<(Vec<String>, Vec<Vec<u8>>), Trouble> {
    let mut before = records(guest)?;
    for _ in 0..ATTEMPTS {
        let list = run(guest, command, shown)?;
        let after = records(guest)?;
        if before == after {
            return Ok((list, after));
        }
        before = after;
    }
    Err(Trouble::Failed("the sockets change all the time".into()))
}

fn records(guest: &mut Guest) -> Result<Vec<Vec<u8>>, Trouble> {
    guest.order(&Order::Sockets)?;
    match guest.answer(LIMIT)? {
        Answer::Sockets(records) => records.map_err(Trouble::Failed),
        other => Err(guest.surprise(&other)),
    }
}

fn run(guest: &mut Guest, command: &[&str], shown: &mut String) -> Result<Vec<String>, Trouble> {
    guest.order(&Order::Run {
        command: command.iter().map(|&word| word.to_owned()).collect(),
        input: None,
        output: None,
        limit: LIMIT.as_millis() as u64,
    })?;
    shown.push_str(&format!("$ {}\n", command.join(" ")));
    let mut lines = Vec::new();
    loop {
        match guest.answer(LIMIT)? {
            Answer::Printed(line) => {
                shown.push_str(&line);
                shown.push('\n');
                lines.push(line);
            }
            Answer::Ended(Some(0)) => return Ok(lines),
            Answer::Ended(status) => {
                return Err(Trouble::Failed(format!(
                    "{command:?}: {status:?} {lines:?}"
                )));
            }
            other => return Err(guest.surprise(&other)),
        }
    }
}
