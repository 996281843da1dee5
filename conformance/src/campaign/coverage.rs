//! Which regions of the engine's code the corpora reach.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use super::tools::{Problem, cargo_fuzz, corpus, directory, output, target_dir, triple};
use super::workspace;
use crate::ledger::repository;

/// How much of a file was reached.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FileCoverage {
    /// The file, from the repository's top.
    pub file: String,
    /// Regions of its code.
    pub regions: u64,
    /// Regions that were executed.
    pub reached: u64,
}

/// How much of each file below `under`, a directory of the repository, the targets'
/// corpora reach together, and what earlier rounds found beyond them.
///
/// # Errors
/// If there is no nightly toolchain with llvm-tools or no cargo-fuzz, or a target does
/// not build.
pub fn coverage(
    targets: &[&str],
    under: &str,
    mut report: impl FnMut(&str),
) -> Result<Vec<FileCoverage>, Problem> {
    let tools = llvm_tools()?;
    let triple = triple()?;
    // Not where the targets are that are to be run: these are instrumented otherwise.
    let built = target_dir().join("coverage");
    let mut profiles = Vec::new();
    let mut programs = Vec::new();
    for target in targets {
        report(target);
        let grown = directory(target_dir().join("grown").join(target))?;
        let command = &mut cargo_fuzz("coverage", &built);
        output(command.arg(target).arg(corpus(target)).arg(grown))?;
        let directory = workspace().join("coverage").join(target);
        profiles.push(directory.join("coverage.profdata"));
        programs.push(built.join(&triple).join("release").join(target));
    }
    report("all");
    let merged = target_dir().join("all.profdata");
    let mut merge = Command::new(tools.join("llvm-profdata"));
    output(merge.arg("merge").args(&profiles).arg("-o").arg(&merged))?;
    let mut export = Command::new(tools.join("llvm-cov"));
    export.args(["export", "-summary-only", "-instr-profile"]);
    export.arg(&merged);
    for program in &programs {
        export.arg("-object").arg(program);
    }
    let export = output(&mut export)?;
    let unexpected = || Problem::Unexpected {
        command: "llvm-cov export".into(),
    };
    let export: Value = serde_json::from_str(&export).map_err(|_| unexpected())?;
    let files = export.pointer("/data/0/files").and_then(Value::as_array);
    let files = files.ok_or_else(unexpected)?;
    let top = repository();
    Ok(files
        .iter()
        .filter_map(|file| read(file, &top))
        .filter(|file| file.file.starts_with(under))
        .collect())
}

fn read(file: &Value, top: &Path) -> Option<FileCoverage> {
    let path = Path::new(file.get("filename")?.as_str()?);
    let path = path.strip_prefix(top).ok()?;
    let regions = file.pointer("/summary/regions")?;
    Some(FileCoverage {
        file: path.display().to_string(),
        regions: regions.get("count")?.as_u64()?,
        reached: regions.get("covered")?.as_u64()?,
    })
}

/// Where the nightly toolchain keeps llvm-cov.
fn llvm_tools() -> Result<PathBuf, Problem> {
    let mut command = Command::new("rustc");
    command.args(["+nightly", "--print", "target-libdir"]);
    command.env_remove("RUSTUP_TOOLCHAIN");
    let libraries = PathBuf::from(output(&mut command)?.trim());
    Ok(libraries.with_file_name("bin"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_file_of_the_repository_is_named_from_its_top() {
        let regions = json!({"count": 40, "covered": 39});
        let file = json!({
            "filename": "/somewhere/smc-proto/src/wire/cdc.rs",
            "summary": {"regions": regions},
        });
        let expected = FileCoverage {
            file: "smc-proto/src/wire/cdc.rs".into(),
            regions: 40,
            reached: 39,
        };
        assert_eq!(read(&file, Path::new("/somewhere")), Some(expected));
        assert_eq!(read(&file, Path::new("/elsewhere")), None);
    }
}
