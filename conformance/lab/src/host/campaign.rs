//! Scenarios, one after another, between two guests.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

mod captured;
mod direction;
mod exits;
mod laboratory;
mod pair;
mod part;
mod perf;
mod redis;
mod scripted;
mod settings;
mod side;
mod views;

pub use self::direction::{Direction, End};
use self::laboratory::Laboratory;
pub(crate) use self::pair::UEID;
use self::side::Compare;
use super::image::Image;
use super::machine::Blueprint;
use super::programs::Files;
use super::report;
use super::{Trouble, failed, modules, packages, programs};
use crate::scenarios::{self, Campaign, Scenario};

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where everything is kept: packages, captures, results.
    pub directory: PathBuf,
    /// How much.
    pub campaign: Campaign,
    /// Only scenarios of this name, or whose names contain it if there is none, or of several
    /// with commas between.
    pub only: Option<String>,
    /// A kernel's version, or the usual one.
    pub kernel: Option<String>,
    /// How often each is repeated.
    pub rounds: u32,
    /// SMC-R version 1, with a kernel whose SMC was built to speak it over soft-RoCE.
    pub v1: bool,
    /// Only these directions, as in the table.
    pub direction: Option<Direction>,
    /// Scripts of the conformance suite whose names begin like this; all without one.
    pub scripts: Vec<String>,
}

/// Runs a campaign; true if all passed.
///
/// # Errors
/// If it could not be run.
pub fn run(options: &Options, out: &mut dyn Write) -> Result<bool, Trouble> {
    let print =
        |out: &mut dyn Write, line: &str| writeln!(out, "{line}").map_err(failed("the output"));
    let results = options.directory.join("results");
    let _ = fs::remove_dir_all(&results);
    fs::create_dir_all(&results).map_err(failed(results.display()))?;
    let (blueprint, peer, scripts) = blueprint(options)?;
    print(
        out,
        &format!("guests run Linux {}", blueprint.software.release),
    )?;
    if let Err(why) = &peer {
        print(out, &format!("SKIPPED: our own SMC in the guests: {why}"))?;
    }
    if let Err(why) = &scripts {
        print(out, &format!("SKIPPED: scripts in the guests: {why}"))?;
    }
    let wanted = |direction: &Direction| {
        let named = options.direction.is_none_or(|only| only == *direction);
        named && (peer.is_ok() || !direction.has_ours())
    };
    let mut laboratory = Laboratory::new(blueprint, results, options.v1);
    let mut rows = Vec::new();
    for round in 0..options.rounds {
        for direction in Direction::ALL.into_iter().filter(wanted) {
            let ours = |end| end == End::Ours;
            let fits = |scenario: &&Scenario| {
                let possible = scenario.is_for(ours(direction.client), ours(direction.server));
                possible && options.wants(scenario)
            };
            for scenario in scenarios::all().filter(fits) {
                let row = laboratory.try_out(scenario, direction, round)?;
                print(out, report::line(&row).trim_end())?;
                rows.push(row);
            }
        }
    }
    if peer.is_ok() && options.direction.is_none() && options.names(CONTRACT) && !options.v1 {
        let row = laboratory.contract(CONTRACT)?;
        print(out, report::line(&row).trim_end())?;
        rows.push(row);
    }
    if peer.is_ok() && options.direction.is_none() && options.names(VIEWS) && !options.v1 {
        let row = laboratory.views(VIEWS)?;
        print(out, report::line(&row).trim_end())?;
        rows.push(row);
    }
    for (name, compare) in PROGRAMS {
        if peer.is_err() || !options.wants_programs(name) {
            continue;
        }
        for direction in Direction::ALL.into_iter().filter(wanted) {
            let row = laboratory.programs(name, direction, compare)?;
            print(out, report::line(&row).trim_end())?;
            rows.push(row);
        }
    }
    for (name, against_ours) in SCRIPTED {
        if scripts.is_ok() && options.wants_scripts(name) {
            let row = laboratory.scripts(name, against_ours, &options.scripts)?;
            print(out, report::line(&row).trim_end())?;
            rows.push(row);
        }
    }
    laboratory.end(&mut rows)?;
    let results = laboratory.results();
    let write = |name: &str, text: String| {
        let path = results.join(name);
        fs::write(&path, text).map_err(failed(path.display()))
    };
    write("table.txt", report::table(&rows))?;
    write("junit.xml", report::junit(&rows))?;
    let failures = rows.iter().filter(|row| row.result.is_err()).count();
    let skipped = rows.iter().filter(|row| row.skipped).count();
    print(out, &format!("\n{}\n", report::table(&rows)))?;
    print(
        out,
        &format!(
            "{} passed, {failures} failed, {skipped} skipped; captures and transcripts: {}",
            rows.len() - failures - skipped,
            results.display()
        ),
    )?;
    Ok(failures == 0 && !rows.is_empty())
}

/// What is no conversation: our RNICs are held to the contract of adapters.
const CONTRACT: &str = "contract";
/// What `smcx` shows of a kernel's sockets is compared with the kernel's records.
const VIEWS: &str = "views";
/// Unmodified programs of Debian's over SMC-R.
const REDIS: &str = "redis";
/// Programs over SMC-R, in each direction: `smcx perf`, one that ends as soon as it has sent, and
/// redis.
const PROGRAMS: [(&str, Compare); 3] = [
    ("perf", perf::compare),
    ("exits", exits::compare),
    (REDIS, redis::compare),
];
/// The scripts of the conformance suite, and whether sockets of ours are under test.
const SCRIPTED: [(&str, bool); 2] = [("scripts-kernel", false), ("scripts-ours", true)];

impl Options {
    /// A whole name selects that one, not others that begin alike.
    fn names(&self, name: &str) -> bool {
        let whole = |part| scenarios::all().any(|scenario| scenario.name == part);
        let means = |part| match whole(part) {
            true => name == part,
            false => name.contains(part),
        };
        let only = self.only.as_ref();
        only.is_none_or(|parts| parts.split(',').any(means))
    }

    /// The scripts take long.
    fn wants_scripts(&self, name: &str) -> bool {
        let asked_for = self.only.is_some() || self.campaign == Campaign::Full;
        asked_for && self.names(name) && self.direction.is_none()
    }

    /// The programs take long, and the relaxed kernel adds nothing to them.
    fn wants_programs(&self, name: &str) -> bool {
        let asked_for = self.only.is_some() || self.campaign == Campaign::Full;
        asked_for && self.names(name) && !self.v1
    }

    fn wants_any_programs(&self) -> bool {
        PROGRAMS.iter().any(|(name, _)| self.wants_programs(name))
    }

    /// Whether anything is wanted that our sockets, or the contract, are needed for.
    fn wants_peer(&self) -> bool {
        let program = |name| self.names(name) && !self.v1;
        let programs = program(CONTRACT) || program(VIEWS) || self.wants_any_programs();
        programs || scenarios::all().any(|scenario| self.wants(scenario))
    }

    fn wants(&self, scenario: &Scenario) -> bool {
        let named = self.names(scenario.name);
        // A name selects it explicitly.
        let in_version = match self.v1 {
            true => !scenario.setting.is_of_version_2(),
            false => !scenario.setting.is_of_version_1(),
        };
        named && in_version && (self.only.is_some() || scenario.campaign <= self.campaign)
    }
}

/// Whether something of ours is in a guest, or why it is not.
type Added = Result<(), String>;

/// What guests are made of; and whether our sockets, and the player of scripts, are in it.
fn blueprint(options: &Options) -> Result<(Blueprint, Added, Added), Trouble> {
    let directory = &options.directory;
    let software = packages::prepare(directory, options.kernel.as_deref(), options.v1)?;
    let guest = programs::guest(directory)?;
    let mut image = Image::default();
    image.file("init", &fs::read(&guest).map_err(failed(guest.display()))?);
    let mut added = |files: Result<Files, String>| match files {
        Ok(files) => add(&mut image, &files).map(Ok),
        Err(why) => Ok(Err(why)),
    };
    let peer = match options.wants_peer() {
        true => added(programs::peer(directory)?)?,
        false => Ok(()),
    };
    if peer.is_ok() {
        let (names, unpacked) = match options.wants_programs(REDIS) {
            true => {
                let unpacked = packages::programs(directory, redis::PACKAGE, &redis::PROGRAMS)?;
                (&redis::PROGRAMS[..], unpacked)
            }
            false => (&[][..], None),
        };
        if options.wants_any_programs() {
            let files = programs::preloaded(directory, names, unpacked.as_deref())?;
            added(Ok(files))?.map_err(Trouble::Failed)?;
        }
    }
    let scripts = match SCRIPTED.iter().any(|(name, _)| options.wants_scripts(name)) {
        true => added(programs::scripts(directory)?)?,
        false => Ok(()),
    };
    let mut order = String::new();
    let mut smc = Vec::new();
    for (name, bytes) in modules::collect(&software.modules, software.relaxed.as_deref())? {
        image.file(&format!("modules/{name}"), &bytes);
        order.push_str(&name);
        order.push('\n');
        if name == "smc.ko" {
            smc = bytes;
        }
    }
    if smc.is_empty() {
        let release = &software.release;
        return Err(Trouble::Unable(format!("Linux {release} has no SMC")));
    }
    image.file("modules/order", order.as_bytes());
    let path = directory.join("image.cpio");
    fs::write(&path, image.finish()).map_err(failed(path.display()))?;
    let share = directory.join("share");
    fs::create_dir_all(&share).map_err(failed(share.display()))?;
    let blueprint = Blueprint {
        software,
        image: path,
        share,
        sockets: PathBuf::new(),
        smc,
    };
    Ok((blueprint, peer, scripts))
}

fn add(image: &mut Image, files: &Files) -> Result<(), Trouble> {
    for (file, place) in files {
        let bytes = fs::read(file).map_err(failed(file.display()))?;
        let place = place.to_string_lossy();
        image.file(place.trim_start_matches('/'), &bytes);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::Options;
    use crate::scenarios::{self, Campaign};

    #[test]
    fn a_whole_name_is_one_scenario_and_a_part_is_all_that_have_it() {
        let named = |only: &str| {
            let options = Options {
                directory: PathBuf::new(),
                campaign: Campaign::Quick,
                only: Some(only.to_owned()),
                kernel: None,
                rounds: 1,
                v1: false,
                direction: None,
                scripts: Vec::new(),
            };
            let wanted = scenarios::all().filter(|scenario| options.wants(scenario));
            wanted.map(|scenario| scenario.name).collect::<Vec<_>>()
        };
        assert_eq!(named("in-turn-1000"), ["in-turn-1000"]);
        assert_eq!(named("in-turn-100"), ["in-turn-10000", "in-turn-1000"]);
        assert_eq!(named("soak,slow-reader"), ["slow-reader", "soak-100"]);
    }
}
