//! Changes drawn from the sources of an area with a fixed seed.
//!
//! Each possible change has a rank that depends on the seed, its file, its function and its
//! text, not on its line: the draw stays as it is where the code does.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use super::Problem;
use super::sites::{Site, sites};

/// What ranks all changes.
const SEED: u64 = 7609;
/// Changes drawn from each area that can be compiled.
pub const OF_AREA: usize = 100;
/// Changes of an area have numbers of their own, less than this apart.
pub(super) const APART: usize = 1000;

/// A part of the workspace that changes are drawn from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Area {
    /// Name of the area.
    pub name: &'static str,
    /// The package it is in.
    pub package: &'static str,
    /// Files that belong to it: below this folder, and this folder's module.
    folder: &'static str,
    /// Folders of the packages whose suites test it.
    pub suites: &'static [&'static str],
    /// Packages whose unit tests test it.
    pub units: &'static [&'static str],
}

/// All areas.
pub const AREAS: [Area; 4] = [
    Area {
        name: "rendezvous",
        package: "smc-proto",
        folder: "smc-proto/src/rendezvous",
        suites: &["conformance"],
        units: &["smc-proto", "smc-transport-sim"],
    },
    Area {
        name: "link_group",
        package: "smc-proto",
        folder: "smc-proto/src/link_group",
        suites: &["conformance"],
        units: &["smc-proto", "smc-transport-sim"],
    },
    Area {
        name: "smc-transport-ism",
        package: "smc-transport-ism",
        folder: "smc-transport-ism/src",
        suites: &["smc-transport-ism", "smc-sockets", "conformance/attacks"],
        units: &["smc-transport-ism", "smc-sockets"],
    },
    Area {
        name: "smc-sockets",
        package: "smc-sockets",
        folder: "smc-sockets/src",
        suites: &["smc-sockets", "conformance/attacks"],
        units: &["smc-sockets"],
    },
];

impl Area {
    /// Whether a file is part of it, and not only of its tests.
    fn has(&self, file: &str) -> bool {
        let module = format!("{}.rs", self.folder);
        let below = file
            .strip_prefix(self.folder)
            .filter(|rest| rest.starts_with('/'));
        let tests = file
            .split('/')
            .any(|part| part == "tests" || part == "tests.rs" || part.ends_with("_tests.rs"));
        file.ends_with(".rs") && (file == module || below.is_some()) && !tests
    }
}

/// A change that was drawn.
#[derive(Clone, Debug)]
pub struct Drawn {
    /// Number of its switch.
    pub number: usize,
    /// The area it is in.
    pub area: Area,
    /// From the root of the repository.
    pub file: String,
    /// What is changed; equal for equal code.
    pub name: String,
    pub(super) site: Site,
}

impl Drawn {
    /// Where it is, and what is changed.
    #[must_use]
    pub fn place(&self) -> String {
        let (line, column) = self.site.at;
        format!("{}:{line}:{column}: {}", self.file, self.site.what)
    }
}

/// All changes of an area's files in the order of their ranks, and how many there are. Only those of
/// the first ranks have a number.
///
/// # Errors
/// Sources that cannot be read.
pub fn ranked(root: &Path, files: &[String], area: Area) -> Result<(Vec<Drawn>, usize), Problem> {
    let files: BTreeSet<&String> = files.iter().filter(|file| area.has(file)).collect();
    let mut all = Vec::new();
    for file in files {
        let text = fs::read_to_string(root.join(file)).map_err(Problem::new)?;
        let sites = sites(&text).map_err(|error| Problem::new(format_args!("{file}: {error}")))?;
        all.extend(names(file, sites));
    }
    let total = all.iter().filter(|(_, _, site)| !site.off).count();
    all.sort_by_cached_key(|(_, name, _)| (rank(name), name.clone()));
    let place = AREAS
        .iter()
        .position(|each| *each == area)
        .unwrap_or_default();
    let first = place * APART;
    let drawn = all.into_iter().take(APART - 1).enumerate();
    let drawn = drawn.map(|(rank, (file, name, site))| Drawn {
        number: first + rank + 1,
        area,
        file,
        name,
        site,
    });
    Ok((drawn.filter(|each| !each.site.off).collect(), total))
}

/// Each change of a file with its name: equal ones of a function are counted.
fn names(file: &str, sites: Vec<Site>) -> Vec<(String, String, Site)> {
    let mut counts = BTreeMap::new();
    let name = |site: Site| {
        let name = format!("{file} {}: {}", site.function, site.what);
        let count = counts.entry(name.clone()).or_insert(0);
        *count += 1;
        let name = match count {
            1 => name,
            _ => format!("{name} ({count})"),
        };
        (file.to_owned(), name, site)
    };
    sites.into_iter().map(name).collect()
}

/// FNV-1a of the seed and the name, mixed once more, as similar names have similar sums.
fn rank(name: &str) -> u64 {
    let bytes = SEED.to_le_bytes().into_iter().chain(name.bytes());
    let mut sum = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| {
        (sum ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    sum = (sum ^ (sum >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    sum = (sum ^ (sum >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    sum ^ (sum >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::repository;
    use crate::mutants::switches::Switches;

    #[test]
    fn an_area_has_its_module_and_what_is_below_but_no_tests() {
        let [rendezvous, _, ism, _] = AREAS;
        assert!(rendezvous.has("smc-proto/src/rendezvous.rs"));
        assert!(rendezvous.has("smc-proto/src/rendezvous/version/server.rs"));
        assert!(!rendezvous.has("smc-proto/src/rendezvous/version/tests.rs"));
        assert!(!rendezvous.has("smc-proto/src/engine.rs"));
        assert!(ism.has("smc-transport-ism/src/lib.rs"));
        assert!(!ism.has("smc-transport-ism/src/doorbell/loom_tests.rs"));
        assert!(!ism.has("smc-transport-ism/src/shared/tests/ends.rs"));
    }

    #[test]
    fn the_draw_of_a_source_is_fixed_and_moves_with_its_code() {
        let source = "fn a(b: u8) -> bool { b < 3 && c() }\n";
        let order = |text: &str| {
            let mut all = names("d.rs", sites(text).unwrap());
            all.sort_by_key(|(_, name, _)| rank(name));
            all.into_iter().map(|(_, name, _)| name).collect::<Vec<_>>()
        };
        let drawn = ["d.rs a: b < 3 => b <= 3", "d.rs a: 3 => 3 + 1"];
        assert_eq!(order(source)[..2], drawn);
        assert_eq!(order(&format!("// Above.\n\n{source}")), order(source));
        let more = order(&format!("{source}fn e() -> bool {{ !f() }}\n"));
        let kept: Vec<String> = more
            .into_iter()
            .filter(|name| name.contains(" a: "))
            .collect();
        assert_eq!(kept, order(source));
    }

    #[test]
    fn equal_changes_of_a_function_have_different_names() {
        let all = names("d.rs", sites("fn a() { b(); b(); }\n").unwrap());
        let names: BTreeSet<&str> = all.iter().map(|(_, name, _)| name.as_str()).collect();
        assert_eq!(names.len(), all.len());
        assert!(names.contains("d.rs a: left out: b(); (2)"));
    }

    /// All four areas of this tree: enough to draw from, and sources that still parse.
    #[test]
    fn the_sources_take_switches() {
        let root = repository();
        let all = crate::mutants::files(&root).unwrap();
        for area in AREAS {
            let (drawn, total) = ranked(&root, &all, area).unwrap();
            assert!(drawn.len() >= 3 * OF_AREA, "{}: {total}", area.name);
            let numbers: BTreeSet<usize> = drawn.iter().map(|each| each.number).collect();
            assert_eq!(numbers.len(), drawn.len());
            let files: BTreeSet<&str> = drawn.iter().map(|each| each.file.as_str()).collect();
            for file in files {
                let text = fs::read_to_string(root.join(file)).unwrap();
                let changes = drawn.iter().filter(|each| each.file == file);
                let changes: Vec<_> = changes.map(|each| (each.number, &each.site)).collect();
                let switched = Switches::of(&text, &changes);
                let switched = switched
                    .unwrap_or_else(|error| panic!("{file}: {error}"))
                    .text;
                for (number, site) in changes {
                    let asked = switched.matches(&format!("::is({number})")).count();
                    assert_eq!(asked, 1, "{file}: {}", site.what);
                }
            }
        }
    }
}
