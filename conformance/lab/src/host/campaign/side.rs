//! Programs in a guest over sockets of ours or of the kernel, and what a capture shows of the
//! connections of both guests.

use std::net::Ipv4Addr;
use std::path::Path;
use std::time::{Duration, Instant};

use smc_capture::follow::{self, Content, Path as Way};
use smc_capture::reader::CaptureReader;
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::types::Gid;

use super::super::machine::Guest;
use super::super::{Trouble, failed};
use super::direction::End;
use super::pair::{CLIENT, SERVER};
use crate::orders::{AF_SMC, Answer, Counts, Order, POLICY, SMCX};

/// The loader, which preloads a library without a variable of the environment.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
/// A program in a guest has ended, or has printed what is waited for.
pub(super) const LIMIT: Duration = Duration::from_secs(240);
/// How often it is looked whether a program has ended.
pub(super) const LOOK: Duration = Duration::from_secs(1);

/// Words before a program of TCP that make its sockets those of an end.
pub(super) fn over(end: End) -> &'static [&'static str] {
    match end {
        End::Ours => &[
            SMCX,
            "run",
            "--stats",
            "--require",
            "--policy",
            POLICY,
            "--",
        ],
        End::Kernel => &[LOADER, "--preload", AF_SMC],
    }
}

/// A guest with programs, one at a time.
pub(super) struct Side<'a> {
    guest: &'a mut Guest,
    pub(super) end: End,
    /// Words before each command.
    before: &'static [&'static str],
    /// All that was printed.
    pub(super) lines: Vec<String>,
    /// Where the output of the last program begins.
    begun: usize,
    /// How it ended: the status.
    status: Option<Option<i32>>,
}

impl<'a> Side<'a> {
    pub(super) fn new(guest: &'a mut Guest, end: End, before: &'static [&'static str]) -> Self {
        Self {
            guest,
            end,
            before,
            lines: Vec::new(),
            begun: 0,
            status: None,
        }
    }

    /// Starts a program, behind the words that its sockets need; with files for its standard input and
    /// output.
    pub(super) fn begin(
        &mut self,
        command: &[&str],
        files: [Option<&str>; 2],
    ) -> Result<(), Trouble> {
        let words = self.before.iter().chain(command);
        let command: Vec<_> = words.map(|&word| word.to_owned()).collect();
        self.lines.push(format!("$ {}", command.join(" ")));
        self.begun = self.lines.len();
        self.status = None;
        let [input, output] = files.map(|file| file.map(str::to_owned));
        self.guest.order(&Order::Run {
            command,
            input,
            output,
            limit: 10 * LIMIT.as_millis() as u64,
        })
    }

    /// Runs a program to its end; its output.
    pub(super) fn run(
        &mut self,
        command: &[&str],
        files: [Option<&str>; 2],
    ) -> Result<Result<Vec<String>, String>, Trouble> {
        self.begin(command, files)?;
        self.ended()
    }

    /// Waits for the end of the program; its output.
    pub(super) fn ended(&mut self) -> Result<Result<Vec<String>, String>, Trouble> {
        let end = Instant::now() + LIMIT;
        while !self.has_ended(LOOK)? {
            if Instant::now() > end {
                return Ok(Err(format!("does not end: {:?}", self.output())));
            }
        }
        Ok(match self.status {
            Some(Some(0)) => Ok(self.output().to_vec()),
            status => Err(format!("{status:?} {:?}", self.output())),
        })
    }

    /// Whether it ended within this time.
    pub(super) fn has_ended(&mut self, time: Duration) -> Result<bool, Trouble> {
        let end = Instant::now() + time;
        while self.status.is_none() {
            let left = end.saturating_duration_since(Instant::now());
            match self.guest.answer_within(left)? {
                Some(answer) => {
                    self.take(answer)?;
                }
                None => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Waits until the program has printed this.
    pub(super) fn until(&mut self, text: &str) -> Result<Result<(), String>, Trouble> {
        let end = Instant::now() + LIMIT;
        loop {
            if self.output().iter().any(|line| line.contains(text)) {
                return Ok(Ok(()));
            }
            if self.has_ended(LOOK.min(Duration::from_millis(100)))? || Instant::now() > end {
                return Ok(Err(format!("{:?} {:?}", self.status, self.output())));
            }
        }
    }

    pub(super) fn output(&self) -> &[String] {
        self.lines.get(self.begun..).unwrap_or_default()
    }

    /// Takes what programs send; gives another answer back.
    fn take(&mut self, answer: Answer) -> Result<Option<Answer>, Trouble> {
        match answer {
            Answer::Printed(line) => self.lines.push(line),
            Answer::Ended(status) => self.status = Some(status),
            answer @ (Answer::Counted(_) | Answer::Sockets(_)) => return Ok(Some(answer)),
            other => return Err(self.guest.surprise(&other)),
        }
        Ok(None)
    }

    /// Asks for something while a program runs.
    fn ask(&mut self, order: &Order) -> Result<Answer, Trouble> {
        self.guest.order(order)?;
        loop {
            let answer = self.guest.answer(LIMIT)?;
            if let Some(answer) = self.take(answer)? {
                return Ok(answer);
            }
        }
    }

    /// What the kernel's SMC counted.
    pub(super) fn counts(&mut self) -> Result<Counts, Trouble> {
        match self.ask(&Order::Count)? {
            Answer::Counted(counts) => counts.map_err(Trouble::Failed),
            other => Err(self.guest.surprise(&other)),
        }
    }

    /// The records of all SMC sockets of the kernel.
    pub(super) fn sockets(&mut self) -> Result<Vec<Vec<u8>>, Trouble> {
        match self.ask(&Order::Sockets)? {
            Answer::Sockets(records) => records.map_err(Trouble::Failed),
            other => Err(self.guest.surprise(&other)),
        }
    }

    /// Whether SMC-R carried all connections since the kernel had `before`, as this end counted them.
    pub(super) fn carried(
        &mut self,
        before: Counts,
        connections: u64,
    ) -> Result<Result<(), String>, Trouble> {
        let after = self.counts()?;
        Ok(match self.end {
            End::Ours => match by_statistics(&self.lines) {
                Ok(count) if count == connections => Ok(()),
                other => Err(format!("smcx run: {other:?} of {connections}")),
            },
            End::Kernel => {
                let same = before.fallbacks == after.fallbacks
                    && before.handshake_errors == after.handshake_errors;
                match same {
                    true => Ok(()),
                    false => Err(format!("the kernel: {before:?}, then {after:?}")),
                }
            }
        })
    }
}

/// Connections over SMC-R by the statistics of `smcx run`; no other ones may be there.
fn by_statistics(lines: &[String]) -> Result<u64, String> {
    let mut sum = 0;
    for line in lines.iter().filter(|line| line.starts_with("smcx: ")) {
        let carried = line.rsplit(": ").next().unwrap_or_default();
        let carried = carried.split(';').next().unwrap_or_default();
        let count = carried.strip_suffix(" SMC-R");
        let count = count.and_then(|count| count.replace(',', "").parse::<u64>().ok());
        sum += count.ok_or_else(|| line.clone())?;
    }
    Ok(sum)
}

/// What was on the wire.
#[derive(Debug, Default)]
pub(super) struct Captured {
    confirms: u64,
    declines: u64,
    /// Bytes of RDMA WRITEs to the server and from it.
    pub(super) sent: u64,
    pub(super) received: u64,
}

impl Captured {
    /// Whether all of these connections are SMC-R, and at least so many bytes went to the server and
    /// came from it by RDMA.
    pub(super) fn judge(&self, connections: u64, least: [u64; 2]) -> Result<(), String> {
        match self.declines == 0
            && self.confirms == connections
            && self.sent >= least[0]
            && self.received >= least[1]
        {
            true => Ok(()),
            false => Err(format!("{connections} connections, the capture: {self:?}")),
        }
    }
}

pub(super) fn captured(capture: &Path) -> Result<Captured, Trouble> {
    let doing = || failed(capture.display());
    let gid = |address: Ipv4Addr| Gid(address.to_ipv6_mapped().octets());
    let mut captured = Captured::default();
    for item in follow::items(CaptureReader::open(capture).map_err(doing())?) {
        let item = item.map_err(doing())?;
        match (&item.content, &item.path) {
            _ if item.retransmission => {}
            (Content::Clc(ClcMessage::Confirm(_)), _) => captured.confirms += 1,
            (Content::Clc(ClcMessage::Decline(_)), _) => captured.declines += 1,
            (Content::Write(write), Way::Roce(way)) if way.source == gid(CLIENT) => {
                captured.sent += u64::from(write.length);
            }
            (Content::Write(write), Way::Roce(way)) if way.source == gid(SERVER) => {
                captured.received += u64::from(write.length);
            }
            _ => {}
        }
    }
    Ok(captured)
}

#[cfg(test)]
mod tests {
    use super::{Captured, by_statistics};

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn each_connection_needs_its_confirm() {
        let captured = |confirms, declines, sent| Captured {
            confirms,
            declines,
            sent,
            received: 7,
        };
        let least = [5, 7];
        assert!(captured(3, 0, 5).judge(3, least).is_ok());
        assert!(captured(2, 0, 5).judge(3, least).is_err());
        assert!(captured(3, 1, 5).judge(3, least).is_err());
        assert!(captured(3, 0, 4).judge(3, least).is_err());
        assert!(captured(3, 0, 5).judge(3, [5, 8]).is_err());
    }

    #[test]
    fn statistics_with_anything_but_smc_r_are_no_proof() {
        let all = "OK\nsmcx: redis-server (7): 1,051 SMC-R; 5 bytes sent and 5 received over SMC\n\
                   smcx: redis-cli (8): 1 SMC-R; 5 bytes sent and 5 received over SMC";
        assert_eq!(by_statistics(&lines(all)), Ok(1_052));
        for other in [
            "smcx: redis-server (7): 2 SMC-R, 1 TCP; 1 bytes sent and 1 received over SMC",
            "smcx: redis-server (7): 2 SMC-D; 1 bytes sent and 1 received over SMC",
            "smcx: redis-server (7): 1 TCP",
            "smcx:   1 over TCP: the peer does not use SMC",
            "smcx: no TCP connection was made or accepted",
        ] {
            assert!(by_statistics(&lines(other)).is_err(), "{other}");
        }
    }
}
