//! Scenarios, one after another, between two guests.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

mod pair;
mod settings;

use self::pair::Pair;
use super::image::Image;
use super::machine::Blueprint;
use super::report::{self, Row};
use super::{Trouble, captures, console, failed, judge, modules, packages, programs};
use crate::orders::{Engagement, Family, Held, Role};
use crate::scenarios::{Campaign, SCENARIOS, Scenario, Setting};

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything is kept: packages, captures, results.
    pub directory: PathBuf,
    /// How much.
    pub campaign: Campaign,
    /// Only scenarios whose names contain this.
    pub only: Option<String>,
    /// A kernel's version, or the usual one.
    pub kernel: Option<String>,
    /// How often each is repeated.
    pub rounds: u32,
}

/// Runs a campaign; true if all passed.
///
/// # Errors
/// If it could not be run.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<bool, Trouble> {
    let say =
        |out: &mut dyn Write, line: &str| writeln!(out, "{line}").map_err(failed("the output"));
    let results = options.directory.join("results");
    let _ = fs::remove_dir_all(&results);
    fs::create_dir_all(&results).map_err(failed(results.display()))?;
    let blueprint = blueprint(options)?;
    say(
        out,
        &format!("guests run Linux {}", blueprint.software.release),
    )?;
    let mut laboratory = Laboratory {
        blueprint,
        results,
        pair: None,
        boots: 0,
    };
    let mut rows = Vec::new();
    for round in 0..options.rounds {
        for scenario in SCENARIOS.iter().filter(|scenario| options.wants(scenario)) {
            let row = laboratory.try_out(scenario, round)?;
            say(
                out,
                &report::table(std::slice::from_ref(&row))
                    .lines()
                    .skip(1)
                    .collect::<String>(),
            )?;
            rows.push(row);
        }
    }
    laboratory.end(&mut rows)?;
    let results = &laboratory.results;
    let write = |name: &str, text: String| {
        let path = results.join(name);
        fs::write(&path, text).map_err(failed(path.display()))
    };
    write("table.txt", report::table(&rows))?;
    write("junit.xml", report::junit(&rows))?;
    let failures = rows.iter().filter(|row| row.result.is_err()).count();
    say(out, &format!("\n{}\n", report::table(&rows)))?;
    say(
        out,
        &format!(
            "{} passed, {failures} failed; captures and transcripts: {}",
            rows.len() - failures,
            results.display()
        ),
    )?;
    Ok(failures == 0 && !rows.is_empty())
}

impl Options {
    fn wants(&self, scenario: &Scenario) -> bool {
        let named = self
            .only
            .as_ref()
            .is_none_or(|part| scenario.name.contains(part.as_str()));
        // Who names one has asked for it.
        named && (self.only.is_some() || scenario.campaign <= self.campaign)
    }
}

fn blueprint(options: &Options) -> Result<Blueprint, Trouble> {
    let directory = &options.directory;
    let software = packages::prepare(directory, options.kernel.as_deref())?;
    let guest = programs::guest(directory)?;
    let mut image = Image::default();
    image.file("init", &fs::read(&guest).map_err(failed(guest.display()))?);
    let mut order = String::new();
    for (name, octets) in modules::collect(&software.modules, None)? {
        image.file(&format!("modules/{name}"), &octets);
        order.push_str(&name);
        order.push('\n');
    }
    image.file("modules/order", order.as_bytes());
    let path = directory.join("image.cpio");
    fs::write(&path, image.finish()).map_err(failed(path.display()))?;
    let share = directory.join("share");
    fs::create_dir_all(&share).map_err(failed(share.display()))?;
    Ok(Blueprint {
        software,
        image: path,
        share,
        sockets: PathBuf::new(),
    })
}

struct Laboratory {
    blueprint: Blueprint,
    results: PathBuf,
    pair: Option<Pair>,
    boots: u32,
}

impl Laboratory {
    /// One scenario. Guests that it left in doubt are replaced.
    fn try_out(&mut self, scenario: &Scenario, round: u32) -> Result<Row, Trouble> {
        if self.pair.is_none() {
            self.boots += 1;
            self.pair = Some(Pair::start(&self.blueprint, &self.results, self.boots)?);
        }
        let Some(pair) = &mut self.pair else {
            return Err(Trouble::Failed("no guests".into()));
        };
        let name = match round {
            0 => format!("{}.kernel-kernel.v2", scenario.name),
            round => format!("{}.kernel-kernel.v2.{round}", scenario.name),
        };
        let place = self.results.join(name);
        fs::create_dir_all(&place).map_err(failed(place.display()))?;
        let began = Instant::now();
        let result = match converse(pair, scenario, &place) {
            Ok(result) => result,
            Err(trouble) => Err(trouble.to_string()),
        };
        let alarms = pair.alarms()?;
        let result = match alarms.first() {
            Some(line) => Err(format!("a kernel's log: {line}")),
            None => result,
        };
        if result.is_err() {
            self.pair = None;
        }
        Ok(Row {
            scenario: scenario.name,
            direction: "kernel to kernel".into(),
            version: "v2".into(),
            result,
            took: began.elapsed(),
        })
    }

    /// Switches off, and looks at the logs for the last time.
    fn end(&mut self, rows: &mut Vec<Row>) -> Result<(), Trouble> {
        let Some(pair) = self.pair.take() else {
            return Ok(());
        };
        let consoles = pair.consoles();
        let began = Instant::now();
        drop(pair);
        let mut result = Ok("kernels' logs without alarms".to_owned());
        for path in consoles {
            let log = fs::read(&path).map_err(failed(path.display()))?;
            if let Some(line) = console::alarms(&String::from_utf8_lossy(&log)).first() {
                result = Err(format!("a kernel's log: {line}"));
            }
        }
        rows.push(Row {
            scenario: "switched-off",
            direction: "both".into(),
            version: "v2".into(),
            result,
            took: began.elapsed(),
        });
        Ok(())
    }
}

/// Carries a scenario out; what carried it, or the first difference.
fn converse(
    pair: &mut Pair,
    scenario: &Scenario,
    place: &Path,
) -> Result<Result<String, String>, Trouble> {
    settings::apply(pair, scenario.setting)?;
    let capture = place.join("client.pcap");
    pair.start_captures(&capture, &place.join("server.pcap"))?;
    let patience = Duration::from_secs(scenario.patience);
    let port = pair.next_port();
    let engagement = |role, family, buffers| Engagement {
        role,
        family,
        address: pair::SERVER,
        port,
        connections: scenario.connections,
        buffers,
        steps: match role {
            Role::Client => scenario.client.to_vec(),
            Role::Server => scenario.server.to_vec(),
        },
        patience: scenario.patience * 1_000,
    };
    let (client_family, server_family) = match scenario.setting {
        Setting::TcpClient => (Family::Tcp, Family::Smc),
        Setting::TcpServer => (Family::Smc, Family::Tcp),
        _ => (Family::Smc, Family::Smc),
    };
    let (client_buffers, server_buffers) = match scenario.setting {
        Setting::Buffers(client, server) => (Some(client), Some(server)),
        _ => (None, None),
    };
    let held = pair.hold(
        engagement(Role::Client, client_family, client_buffers),
        engagement(Role::Server, server_family, server_buffers),
        patience,
    );
    pair.stop_captures()?;
    settings::undo(pair, scenario.setting)?;
    let (client, server) = held?;
    transcript(place, "client", &client)?;
    transcript(place, "server", &server)?;
    match (
        judge::difference(scenario, &client, &server),
        scenario.linux_fails,
    ) {
        (Some(difference), Some(known)) if difference.contains(known) => {
            return Ok(Ok(format!("as known of Linux: {difference}")));
        }
        (Some(difference), _) => return Ok(Err(difference)),
        (None, Some(known)) => return Ok(Err(format!("Linux no longer does this: {known}"))),
        (None, None) => {}
    }
    if let Err(difference) = captures::judge(&capture)? {
        return Ok(Err(difference));
    }
    Ok(Ok(summary(&client)))
}

/// What carried it, and how fast.
fn summary(client: &[Held]) -> String {
    let carried = client.first().and_then(|held| held.view.as_ref());
    let carried = carried.map_or("TCP".to_owned(), |view| view.carried.to_string());
    let octets: u64 = client.iter().map(|held| held.moved.0 + held.moved.1).sum();
    let micros: u64 = client.iter().map(|held| held.micros).sum();
    let rate = octets as f64 * 8.0 / micros.max(1) as f64;
    format!("{carried}, {octets} octets, {rate:.1} Mbit/s")
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
