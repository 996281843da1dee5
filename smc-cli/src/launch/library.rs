//! The library that is preloaded: where it is, and whether it can be trusted.
//!
//! The library lies beside this command, or where an installation puts it, and no variable
//! names another place. It becomes part of every program that is run, so only those may be
//! able to change it who may change this command, too.

use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Where the library lies, seen from the directory of the command: as Cargo builds it, by
/// itself and for another package, and as it is installed.
const PLACES: [&str; 4] = [
    "libsmc_preload.so",
    "libsmc-preload.so",
    "deps/libsmc_preload.so",
    "../lib/smcx/libsmc-preload.so",
];

/// Rights of others than the owner and the group to write.
const OTHERS_WRITE: u32 = 0o002;
/// Rights of the group to write.
const GROUP_WRITES: u32 = 0o020;

/// Finds the library.
///
/// # Errors
/// A sentence: the library is not there, or others could have changed it.
pub(super) fn find() -> Result<PathBuf, String> {
    let command = std::env::current_exe()
        .map_err(|error| format!("the path of this command is unknown: {error}"))?;
    find_beside(&command)
}

fn find_beside(command: &Path) -> Result<PathBuf, String> {
    let directory = command.parent().unwrap_or(Path::new("/"));
    let Some(path) = PLACES
        .iter()
        .find_map(|place| fs::canonicalize(directory.join(place)).ok())
    else {
        return Err(format!(
            "the library to preload is missing: {} is neither in {directory} nor in \
             {directory}/../lib/smcx; build it with `cargo build -p smc-preload`",
            PLACES[1],
            directory = directory.display()
        ));
    };
    if let Err(sentence) = check(&path, command) {
        return Err(format!(
            "the library {} is not used: {sentence}",
            path.display()
        ));
    }
    Ok(path)
}

/// Whether the library is as safe as the command.
fn check(path: &Path, command: &Path) -> Result<(), String> {
    // The dynamic linker takes these for the end of a path.
    let is_separator = |byte: &u8| matches!(byte, b' ' | b':' | b'\t' | b'\n');
    if path.as_os_str().as_bytes().iter().any(is_separator) {
        return Err("LD_PRELOAD takes no path with a blank or a colon".to_owned());
    }
    let command = read(command)?;
    let library = read(path)?;
    if !library.is_file() {
        return Err("it is no file".to_owned());
    }
    let parent = path.parent().unwrap_or(Path::new("/"));
    // A user that can write a directory can put another file in the place of the library.
    for (of, metadata) in [("it", library), ("its directory", read(parent)?)] {
        trust(&metadata, &command).map_err(|who| format!("{who} may change {of}"))?;
    }
    Ok(())
}

fn read(path: &Path) -> Result<Metadata, String> {
    fs::metadata(path).map_err(|error: io::Error| format!("{}: {error}", path.display()))
}

/// Whether those who may write a file may write this command as well.
///
/// # Errors
/// Which other users may.
fn trust(of: &Metadata, command: &Metadata) -> Result<(), String> {
    let own = rustix::process::geteuid().as_raw();
    if ![0, own, command.uid()].contains(&of.uid()) {
        return Err(format!("user {}", of.uid()));
    }
    let mode = of.permissions().mode();
    if mode & OTHERS_WRITE != 0 {
        return Err("any user".to_owned());
    }
    let group_has_command =
        command.gid() == of.gid() && command.permissions().mode() & GROUP_WRITES != 0;
    if mode & GROUP_WRITES != 0 && of.gid() != 0 && !group_has_command {
        return Err(format!("group {}", of.gid()));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with a command and the library beside it.
    struct Installation(PathBuf);

    impl Installation {
        fn new(name: &str) -> Self {
            let name = format!("smcx-library-{}-{name}", std::process::id());
            let place = std::env::temp_dir().join(name);
            fs::create_dir_all(place.join("bin")).unwrap();
            let this = Self(place);
            this.mode("bin", 0o755);
            this.put("bin/smcx", 0o755);
            this
        }

        fn put(&self, path: &str, mode: u32) {
            let full = self.0.join(path);
            fs::create_dir_all(full.parent().unwrap()).unwrap();
            fs::write(full, "").unwrap();
            self.mode(path, mode);
        }

        fn mode(&self, path: &str, mode: u32) {
            fs::set_permissions(self.0.join(path), fs::Permissions::from_mode(mode)).unwrap();
        }

        fn find(&self) -> Result<PathBuf, String> {
            find_beside(&self.0.join("bin/smcx"))
        }
    }

    impl Drop for Installation {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn the_library_is_found_where_cargo_and_an_installation_put_it() {
        let all = Installation::new("places");
        for place in PLACES.iter().rev() {
            all.put(&format!("bin/{place}"), 0o644);
            let found = all.find().unwrap();
            assert_eq!(
                found,
                fs::canonicalize(all.0.join("bin").join(place)).unwrap()
            );
            // `deps` was made with the rights that the umask leaves.
            for directory in ["bin/deps", "lib", "lib/smcx"] {
                if all.0.join(directory).exists() {
                    all.mode(directory, 0o755);
                }
            }
        }
    }

    #[test]
    fn without_the_library_the_sentence_says_where_it_belongs() {
        let none = Installation::new("none");
        let sentence = none.find().unwrap_err();
        assert!(
            sentence.contains("libsmc-preload.so is neither in"),
            "{sentence}"
        );
        assert!(
            sentence.contains("cargo build -p smc-preload"),
            "{sentence}"
        );
    }

    #[test]
    fn a_library_that_others_may_change_is_not_used() {
        let shared = Installation::new("shared");
        shared.put("bin/libsmc-preload.so", 0o646);
        assert!(
            shared
                .find()
                .unwrap_err()
                .ends_with("any user may change it")
        );
        shared.mode("bin/libsmc-preload.so", 0o644);
        assert!(shared.find().is_ok());
        shared.mode("bin", 0o777);
        let sentence = shared.find().unwrap_err();
        assert!(
            sentence.ends_with("any user may change its directory"),
            "{sentence}"
        );
    }

    /// Cargo builds so with a umask of 002.
    #[test]
    fn a_group_may_change_the_library_if_it_may_change_the_command() {
        let group = Installation::new("group");
        group.put("bin/libsmc_preload.so", 0o664);
        let own = fs::metadata(group.0.join("bin/smcx")).unwrap().gid();
        let refused = group.find();
        assert_eq!(refused.is_err(), own != 0, "{refused:?}");
        group.mode("bin/smcx", 0o775);
        group.mode("bin", 0o775);
        assert!(group.find().is_ok());
    }

    #[test]
    fn a_path_that_the_dynamic_linker_would_split_is_refused() {
        let blank = Installation::new("with blank");
        blank.put("bin/libsmc-preload.so", 0o644);
        assert!(blank.find().unwrap_err().contains("a blank or a colon"));
    }
}
