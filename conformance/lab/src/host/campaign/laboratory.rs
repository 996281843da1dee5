//! Scenarios carried out, one after another.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::super::console::Alarm;
use super::super::machine::{Blueprint, Guest};
use super::super::report::Row;
use super::super::{Trouble, captures, failed, judge, windows};
use super::direction::{Direction, End};
use super::pair::{self, Pair};
use super::side::{Compare, Stage};
use super::{part, scripted, settings, views};
use crate::orders::{Answer, Held, Order, PEER};
use crate::scenarios::Scenario;

/// The guests, and where results go.
pub(super) struct Laboratory {
    blueprint: Blueprint,
    results: PathBuf,
    pair: Option<Pair>,
    boots: u32,
    v1: bool,
}

impl Laboratory {
    pub(super) fn new(blueprint: Blueprint, results: PathBuf, v1: bool) -> Self {
        Self {
            blueprint,
            results,
            pair: None,
            boots: 0,
            v1,
        }
    }

    pub(super) fn results(&self) -> &Path {
        &self.results
    }

    /// Guests, those that are there or new ones.
    fn guests(&mut self) -> Result<(), Trouble> {
        if self.pair.is_none() {
            self.boots += 1;
            let pair = Pair::start(&self.blueprint, &self.results, self.boots, self.v1)?;
            self.pair = Some(pair);
        }
        Ok(())
    }

    /// Our RNICs are held to the contract of adapters, by our program in a guest.
    pub(super) fn contract(&mut self, name: &'static str) -> Result<Row, Trouble> {
        self.guests()?;
        self.by_programs(name, "ours", |pair, place| {
            let (lines, result) = run_contract(&mut pair.client)?;
            let path = place.with_extension("txt");
            fs::write(&path, lines.join("\n")).map_err(failed(path.display()))?;
            Ok(result)
        })
    }

    /// What `smcx` shows of the kernel's sockets is compared with the kernel's own records.
    pub(super) fn views(&mut self, name: &'static str) -> Result<Row, Trouble> {
        self.guests()?;
        let share = self.blueprint.share.clone();
        self.by_programs(name, "kernel-kernel", |pair, place| {
            let mut shown = String::new();
            let result = views::compare(pair, &share, &place.with_extension("pcap"), &mut shown);
            let path = place.with_extension("txt");
            fs::write(&path, shown).map_err(failed(path.display()))?;
            Ok(result.unwrap_or_else(|trouble| Err(trouble.to_string())))
        })
    }

    /// Programs in guests of their own; what they print is kept.
    pub(super) fn programs(
        &mut self,
        name: &'static str,
        direction: Direction,
        compare: Compare,
    ) -> Result<Row, Trouble> {
        // What the kernels have counted so far is not asked for.
        self.pair = None;
        self.guests()?;
        let (v1, share) = (self.v1, self.blueprint.share.clone());
        self.by_programs(name, &direction.to_string(), |pair, place| {
            let place = place.with_extension(format!("{direction}.{}", version(v1)));
            fs::create_dir_all(&place).map_err(failed(place.display()))?;
            let mut shown = String::new();
            let result = compare(Stage {
                pair,
                direction,
                share: &share,
                place: &place,
                shown: &mut shown,
            });
            let path = place.join("output.txt");
            fs::write(&path, shown).map_err(failed(path.display()))?;
            Ok(result.unwrap_or_else(|trouble| Err(trouble.to_string())))
        })
    }

    /// Scripts of the conformance suite, against the kernel's sockets or ours: those whose
    /// names begin like this.
    pub(super) fn scripts(
        &mut self,
        name: &'static str,
        against_ours: bool,
        names: &[String],
    ) -> Result<Row, Trouble> {
        // There is no link group yet.
        self.pair = None;
        self.guests()?;
        let direction = if against_ours { "ours-ours" } else { "both" };
        let v1 = self.v1;
        self.by_programs(name, direction, |pair, place| {
            fs::create_dir_all(place).map_err(failed(place.display()))?;
            match scripted::play(pair, against_ours, v1, names, place) {
                Ok(result) => Ok(result),
                Err(trouble) => Ok(Err(trouble.to_string())),
            }
        })
    }

    /// Our programs do something in guests that are not used again: devices may be left with
    /// queue pairs that repeat for ever.
    fn by_programs(
        &mut self,
        name: &'static str,
        direction: &str,
        run: impl FnOnce(&mut Pair, &Path) -> Result<Result<String, String>, Trouble>,
    ) -> Result<Row, Trouble> {
        let Some(mut pair) = self.pair.take() else {
            return Err(Trouble::Failed("no guests".into()));
        };
        let began = Instant::now();
        let version = version(self.v1);
        let result = run(&mut pair, &self.results.join(format!("{name}.{version}")))?;
        let result = match (pair.alarm()?, result) {
            (None, result) => result,
            (Some(alarm), Ok(_)) => Err(alarm.to_string()),
            (Some(alarm), Err(why)) => Err(format!("{alarm}; {why}")),
        };
        Ok(Row {
            scenario: name,
            direction: direction.to_owned(),
            version: version.to_owned(),
            result,
            skipped: false,
            took: began.elapsed(),
        })
    }

    /// Runs one scenario, once more if the emulator broke a guest: that proves nothing about what
    /// runs in it.
    pub(super) fn try_out(
        &mut self,
        scenario: &Scenario,
        direction: Direction,
        round: u32,
    ) -> Result<Row, Trouble> {
        let software = &self.blueprint.software;
        if let Some(name) = settings::lacking(scenario.setting, &self.blueprint.smc) {
            return Ok(Row {
                scenario: scenario.name,
                direction: direction.to_string(),
                version: version(self.v1).to_owned(),
                result: Ok(format!("Linux {} has no {name}", software.release)),
                skipped: true,
                took: Duration::ZERO,
            });
        }
        let (row, alarm) = self.try_once(scenario, direction, round)?;
        let Some(alarm) = alarm.filter(Alarm::is_the_emulators) else {
            return Ok(row);
        };
        let (mut row, _) = self.try_once(scenario, direction, round)?;
        row.result = row
            .result
            .map(|first| format!("{first}; the first time {alarm}"));
        Ok(row)
    }

    /// One scenario, and what is wrong in a log. Guests that it left in doubt are replaced.
    fn try_once(
        &mut self,
        scenario: &Scenario,
        direction: Direction,
        round: u32,
    ) -> Result<(Row, Option<Alarm>), Trouble> {
        if scenario.own_guests {
            self.pair = None;
        }
        self.guests()?;
        let Some(pair) = &mut self.pair else {
            return Err(Trouble::Failed("no guests".into()));
        };
        let version = version(self.v1);
        let name = match round {
            0 => format!("{}.{direction}.{version}", scenario.name),
            round => format!("{}.{direction}.{version}.{round}", scenario.name),
        };
        let place = self.results.join(name);
        fs::create_dir_all(&place).map_err(failed(place.display()))?;
        let began = Instant::now();
        let result = match converse(pair, scenario, direction, self.v1, &place) {
            Ok(result) => result,
            Err(trouble) => Err(trouble.to_string()),
        };
        let alarm = pair.alarm()?;
        let result = match &alarm {
            Some(alarm) => Err(alarm.to_string()),
            None => result,
        };
        if result.is_err() || scenario.own_guests {
            self.pair = None;
        }
        let row = Row {
            scenario: scenario.name,
            direction: direction.to_string(),
            version: version.to_owned(),
            result,
            skipped: false,
            took: began.elapsed(),
        };
        Ok((row, alarm))
    }

    /// Switches off, and checks the logs for the last time.
    pub(super) fn end(&mut self, rows: &mut Vec<Row>) -> Result<(), Trouble> {
        let Some(pair) = self.pair.take() else {
            return Ok(());
        };
        let consoles = pair.consoles();
        let began = Instant::now();
        drop(pair);
        let mut result = Ok("kernels' logs without alarms".to_owned());
        for path in consoles {
            let log = fs::read(&path).map_err(failed(path.display()))?;
            if let Some(alarm) = Alarm::of(&String::from_utf8_lossy(&log)) {
                result = Err(alarm.to_string());
            }
        }
        rows.push(Row {
            scenario: "switched-off",
            direction: "both".into(),
            version: version(self.v1).to_owned(),
            result,
            skipped: false,
            took: began.elapsed(),
        });
        Ok(())
    }
}

/// Has a guest run the contract: its output, and how many rules were kept or which ones
/// were not.
fn run_contract(guest: &mut Guest) -> Result<(Vec<String>, Result<String, String>), Trouble> {
    let limit = Duration::from_secs(900);
    guest.order(&Order::Run {
        command: vec![PEER.to_owned(), "contract".to_owned()],
        input: None,
        output: None,
        limit: limit.as_millis() as u64,
    })?;
    let mut lines = Vec::new();
    loop {
        match guest.answer(limit + Duration::from_secs(10))? {
            Answer::Printed(line) => lines.push(line),
            Answer::Ended(status) => {
                let of = |verdict: &str| {
                    let lines = lines.iter().filter(|line| line.contains(verdict));
                    lines.map(String::as_str).collect::<Vec<_>>()
                };
                let result = match status {
                    Some(0) => {
                        let (kept, known) = (of(" kept ").len(), of(" known ").len());
                        Ok(format!("{kept} rules kept, {known} known not to be"))
                    }
                    _ => Err(format!("{status:?} {}", of(" BROKEN ").join(", "))),
                };
                return Ok((lines, result));
            }
            other => return Err(guest.surprise(&other)),
        }
    }
}

/// Carries a scenario out; what carried it, or the first difference.
fn converse(
    pair: &mut Pair,
    scenario: &Scenario,
    direction: Direction,
    v1: bool,
    place: &Path,
) -> Result<Result<String, String>, Trouble> {
    settings::apply(pair, scenario.setting)?;
    let capture = place.join("client.pcap");
    let other = place.join("server.pcap");
    pair.start_captures(&capture, &other)?;
    let part = part::of(scenario, v1, pair.next_port());
    let held = part::hold(pair, &part, scenario, direction, &capture);
    pair.stop_captures()?;
    let (held, then) = held?;
    let (client, server) = (&held.client, &held.server);
    transcript(place, "client", client)?;
    transcript(place, "server", server)?;
    settings::undo(pair, scenario.setting)?;
    let ours = |end| end == End::Ours;
    let expected = scenario.expected(ours(direction.client), ours(direction.server));
    let difference = match (scenario.dies, then) {
        (None, _) => judge::difference(scenario, expected, client, server),
        (Some((_, role)), Some(then)) => {
            transcript(place, "client-then", &then.client)?;
            transcript(place, "server-then", &then.server)?;
            judge::death(role, client, server)
                .or_else(|| judge::difference(scenario, expected, &then.client, &then.server))
        }
        (Some(_), None) => Some("no end came back".to_owned()),
    };
    match scenario
        .linux_fails
        .filter(|_| direction.server == End::Kernel)
    {
        Some(known) if judge::differs_as_known(server, known) => {
            return Ok(Ok(format!("as known of Linux: {known}")));
        }
        Some(known) => return Ok(Err(format!("Linux no longer does this: {known}"))),
        None => {}
    }
    if let Some(difference) = difference.or(held.early) {
        return Ok(Err(difference));
    }
    let unjudged = match captures::judge(&capture, version(v1), !scenario.keeps_rules())? {
        Ok(unjudged) => unjudged,
        Err(difference) => return Ok(Err(difference)),
    };
    let (least, most) = scenario.groups;
    let groups = captures::groups(&capture)?;
    if most > 0 && !(least..=most).contains(&groups) {
        return Ok(Err(format!("{groups} link groups")));
    }
    let mut report = summary(client);
    if let Some(unjudged) = unjudged {
        report.push_str("; ");
        report.push_str(&unjudged);
    }
    if scenario.windows {
        match used_windows(direction, [&capture, &other])? {
            Ok(delays) => report.push_str(&delays),
            Err(difference) => return Ok(Err(difference)),
        }
    }
    Ok(Ok(report))
}

/// How the senders use the windows that the peers give them; those of kernels are reported
/// only.
fn used_windows(
    direction: Direction,
    captures: [&Path; 2],
) -> Result<Result<String, String>, Trouble> {
    let ends = [
        ("client", direction.client, pair::CLIENT),
        ("server", direction.server, pair::SERVER),
    ];
    let mut report = String::new();
    for ((name, end, address), capture) in ends.into_iter().zip(captures) {
        let delays = windows::of(capture, address)?;
        if delays.is_empty() {
            continue;
        }
        if end == End::Ours
            && let Err(difference) = delays.judge()
        {
            return Ok(Err(format!("{name}: {difference}")));
        }
        report.push_str(&format!("; {name}: {delays}"));
    }
    Ok(Ok(report))
}

/// Returns the version as the table and `smcx decode` have it.
fn version(v1: bool) -> &'static str {
    if v1 { "v1" } else { "v2" }
}

/// What carried it, and how fast.
fn summary(client: &[Held]) -> String {
    let carried = client.first().and_then(|held| held.view.as_ref());
    let carried = carried.map_or("TCP".to_owned(), |view| view.carried.to_string());
    let bytes: u64 = client.iter().map(|held| held.moved.0 + held.moved.1).sum();
    let micros: u64 = client.iter().map(|held| held.micros).sum();
    let rate = bytes as f64 * 8.0 / micros.max(1) as f64;
    format!("{carried}, {bytes} octets, {rate:.1} Mbit/s")
}

fn transcript(place: &Path, end: &str, all: &[Held]) -> Result<(), Trouble> {
    let path = place.join(format!("{end}.txt"));
    let mut text = String::new();
    for (number, held) in all.iter().enumerate() {
        let carried = held
            .view
            .as_ref()
            .map_or("no SMC socket".to_owned(), |view| view.carried.to_string());
        let (sent, received) = held.moved;
        text.push_str(&format!(
            "connection {number}: {carried}, sent {sent}, received {received}, {} us\n",
            held.micros
        ));
        for line in &held.transcript {
            text.push_str(&format!("  {line}\n"));
        }
        if let Some(difference) = &held.difference {
            text.push_str(&format!("  DIFFERENCE: {difference}\n"));
        }
    }
    fs::write(&path, text).map_err(failed(path.display()))
}
