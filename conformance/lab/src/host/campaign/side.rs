//! Programs in guests over sockets of ours or of the kernel.

use std::path::Path;
use std::time::{Duration, Instant};

use super::super::Trouble;
use super::super::machine::Guest;
use super::captured::{Captured, captured};
use super::direction::{Direction, End};
use super::pair::Pair;
use crate::orders::{AF_SMC, Answer, Counts, Order, POLICY, SMCX};

/// A figure or a finding of programs; otherwise how they differ from what is due.
pub(super) type Compared<T> = Result<Result<T, String>, Trouble>;

/// The loader, which preloads a library without a variable of the environment.
const LOADER: &str = "/lib64/ld-linux-x86-64.so.2";
/// A program in a guest has ended, or has printed what is waited for.
pub(super) const LIMIT: Duration = Duration::from_secs(240);
/// Time between two checks whether a program has ended.
pub(super) const PAUSE: Duration = Duration::from_secs(1);

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
    ) -> Compared<Vec<String>> {
        self.begin(command, files)?;
        self.ended()
    }

    /// Waits for the end of the program; its output.
    pub(super) fn ended(&mut self) -> Compared<Vec<String>> {
        let end = Instant::now() + LIMIT;
        while !self.has_ended(PAUSE)? {
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
    pub(super) fn until(&mut self, text: &str) -> Compared<()> {
        let end = Instant::now() + LIMIT;
        loop {
            if self.output().iter().any(|line| line.contains(text)) {
                return Ok(Ok(()));
            }
            if self.has_ended(PAUSE.min(Duration::from_millis(100)))? || Instant::now() > end {
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
    fn carried(&mut self, before: Counts, connections: u64) -> Compared<()> {
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

/// Whether SMC-R carried all connections since the kernels had `before`, as the server and the client
/// counted them.
pub(super) fn both_carried<'a>(
    server: &mut Side<'a>,
    client: &mut Side<'a>,
    before: [Counts; 2],
    connections: u64,
) -> Compared<()> {
    let ends = [("server", server), ("client", client)];
    for ((name, side), before) in ends.into_iter().zip(before) {
        if let Err(difference) = side.carried(before, connections)? {
            return Ok(Err(format!("{name}: {difference}")));
        }
    }
    Ok(Ok(()))
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

/// Two guests in which programs run, whose sockets each has, and where the row's files are.
pub(super) struct Stage<'a> {
    pub(super) pair: &'a mut Pair,
    pub(super) direction: Direction,
    /// A directory that this machine and both guests have.
    pub(super) share: &'a Path,
    /// The directory for captures.
    pub(super) place: &'a Path,
    /// What the programs print.
    pub(super) shown: &'a mut String,
}

/// Runs programs on a stage, and compares: a line of figures.
pub(super) type Compare = fn(Stage<'_>) -> Compared<String>;

impl Stage<'_> {
    /// Captures while programs run, each behind the words that `over` has for its end: what they
    /// returned, and what was on the wire.
    pub(super) fn run_captured<T>(
        self,
        over: fn(End) -> &'static [&'static str],
        programs: impl for<'s> FnOnce(&mut Side<'s>, &mut Side<'s>) -> Compared<T>,
    ) -> Compared<(T, Captured)> {
        let (pair, direction) = (self.pair, self.direction);
        let capture = self.place.join("client.pcap");
        pair.start_captures(&capture, &self.place.join("server.pcap"))?;
        let mut server = Side::new(&mut pair.server, direction.server, over(direction.server));
        let mut client = Side::new(&mut pair.client, direction.client, over(direction.client));
        let returned = programs(&mut server, &mut client);
        for (name, side) in [("server", &server), ("client", &client)] {
            let lines = side.lines.join("\n");
            self.shown.push_str(&format!("== {name}\n{lines}\n"));
        }
        pair.stop_captures()?;
        match returned? {
            Ok(returned) => Ok(Ok((returned, captured(&capture)?))),
            Err(difference) => Ok(Err(difference)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::by_statistics;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
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
