//! A copy of the sources, whose files may be changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Change, Problem};

/// The copy.
#[derive(Debug)]
pub struct Tree {
    root: PathBuf,
    /// What was copied. An earlier copy may have left other files behind.
    files: Vec<String>,
}

/// The files of a repository: those git knows of, and new ones.
///
/// # Errors
/// No git.
pub fn files(root: &Path) -> Result<Vec<String>, Problem> {
    let list = Command::new("git")
        .args([
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ])
        .current_dir(root)
        .output()
        .map_err(|error| Problem::new(format_args!("git: {error}")))?;
    let list = String::from_utf8(list.stdout).map_err(Problem::new)?;
    let names = list.split('\0').filter(|name| !name.is_empty());
    // A file that is removed, but not from the index yet, is none.
    let names = names.filter(|name| root.join(name).is_file());
    Ok(names.map(str::to_owned).collect())
}

impl Tree {
    /// Copies what git knows of, and what is new, as it is there now.
    ///
    /// # Errors
    /// No git, or files that cannot be copied.
    pub fn copy(from: &Path, to: &Path) -> Result<Self, Problem> {
        let files = files(from)?;
        for name in &files {
            let (source, target) = (from.join(name), to.join(name));
            let Ok(bytes) = fs::read(&source) else {
                continue; // Removed, but still in git's index.
            };
            // What is there already stays as old as it is, and needs no building.
            if fs::read(&target).is_ok_and(|there| there == bytes) {
                continue;
            }
            if let Some(folder) = target.parent() {
                fs::create_dir_all(folder).map_err(Problem::new)?;
            }
            fs::copy(&source, &target).map_err(Problem::new)?;
        }
        // The path as cargo reports it.
        let root = to.canonicalize().map_err(Problem::new)?;
        Ok(Self { root, files })
    }

    /// Where it is.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The files that were copied.
    #[must_use]
    pub fn files(&self) -> &[String] {
        &self.files
    }

    /// What is in a file.
    pub(super) fn read(&self, file: &str) -> Result<String, Problem> {
        fs::read_to_string(self.root.join(file)).map_err(Problem::new)
    }

    /// Writes something else to a file.
    pub(super) fn write(&self, file: &str, text: &str) -> Result<(), Problem> {
        fs::write(self.root.join(file), text).map_err(Problem::new)
    }

    /// Does something while a file is changed.
    pub(super) fn with<T>(
        &self,
        change: &Change,
        then: impl FnOnce() -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        let text = self.read(&change.file)?;
        let changed = change
            .of(&text)
            .ok_or_else(|| Problem::new(format_args!("{} is not there", change.name)))?;
        self.write(&change.file, &changed)?;
        let done = then();
        self.write(&change.file, &text)?;
        done
    }
}
