//! Which programs of tests a campaign over drawn changes builds.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use super::draw::Area;
use super::{Problem, Program, Tree};

/// End of the name of the suite that has others of its package as modules.
const TOGETHER: &str = "_together";

/// The programs that test areas. Suites of one file are modules of one program: it is built,
/// and linked with all changes, once.
pub(super) fn programs(tree: &Tree, areas: &[Area]) -> Result<BTreeSet<Program>, Problem> {
    let mut all = BTreeSet::new();
    for area in areas {
        let units = area.units.iter().map(|package| (*package).to_owned());
        all.extend(units.map(Program::Units));
    }
    let packages: BTreeSet<&str> = areas.iter().flat_map(|area| area.suites).copied().collect();
    for package in packages {
        let (together, alone) = suites(&tree.root().join(package).join("tests"))?;
        let suite = |name: String| Program::Suite(package.to_owned(), name);
        all.extend(alone.into_iter().map(suite));
        if !together.is_empty() {
            let modules = together
                .iter()
                .map(|name| format!("#[path = \"{name}.rs\"]\nmod {name};\n"));
            let text: String = modules.collect();
            let name = format!("{}{TOGETHER}", package.replace('-', "_"));
            tree.write(&format!("{package}/tests/{name}.rs"), &text)?;
            all.insert(suite(name));
        }
    }
    Ok(all)
}

/// Suites by name, of the packages that test areas.
pub(super) fn some(
    tree: &Tree,
    areas: &[Area],
    names: &[String],
) -> Result<BTreeSet<Program>, Problem> {
    let packages = areas.iter().flat_map(|area| area.suites);
    let suite = |name: &String| {
        let folder = |package: &&&str| tree.root().join(package).join("tests");
        let has = |package: &&&str| {
            let folder = folder(package);
            let files = [format!("{name}.rs"), format!("{name}/main.rs")];
            files.iter().any(|file| folder.join(file).is_file())
        };
        let package = packages.clone().find(has);
        let package = package.ok_or_else(|| Problem::new(format_args!("{name}: no such suite")))?;
        Ok(Program::Suite((*package).to_owned(), name.clone()))
    };
    names.iter().map(suite).collect()
}

/// Names of the suites in a folder: those that can be modules of one program, and those that
/// start themselves once more by the names of their tests, or have an allocator of their own.
fn suites(folder: &Path) -> Result<(BTreeSet<String>, BTreeSet<String>), Problem> {
    let (mut together, mut alone) = (BTreeSet::new(), BTreeSet::new());
    for entry in fs::read_dir(folder).map_err(Problem::new)? {
        let path = entry.map_err(Problem::new)?.path();
        let Some(name) = path.file_stem().and_then(|name| name.to_str()) else {
            continue;
        };
        if path.join("main.rs").is_file() {
            alone.insert(name.to_owned());
        } else if path.extension().is_some_and(|end| end == "rs") && !name.ends_with(TOGETHER) {
            let text = fs::read_to_string(&path).map_err(Problem::new)?;
            let own = ["global_allocator", "current_exe"];
            match own.iter().any(|own| text.contains(own)) {
                true => alone.insert(name.to_owned()),
                false => together.insert(name.to_owned()),
            };
        }
    }
    Ok((together, alone))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::repository;

    #[test]
    fn all_suites_of_a_package_are_in_programs() {
        let of = |package: &str| suites(&repository().join(package).join("tests")).unwrap();
        let (together, alone) = of("conformance");
        assert!(together.is_empty() && alone.contains("links"), "folders");
        assert!(alone.contains("no_allocation"), "an allocator of its own");
        let (together, alone) = of("smc-transport-ism");
        assert!(alone.contains("contract"), "a folder");
        assert!(alone.contains("processes") && !together.contains("processes"));
        let (together, alone) = of("conformance/attacks");
        assert!(together.is_empty() && alone.contains("attacks"));
        let (together, alone) = of("smc-sockets");
        assert!(alone.contains("tokio") && !alone.contains("common"));
        assert!(together.is_empty(), "folders");
    }
}
