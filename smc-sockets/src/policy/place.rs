//! Where a policy lies.

use std::env;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::reading::{self, ReadError};
use super::{Policy, PolicyError};
use crate::system;

/// The environment variable that names a file; empty, it stands for no file at all. A
/// process that gained rights when it was executed ignores it (see [`places`]).
pub const ENVIRONMENT: &str = "SMC_POLICY";

/// The file's place below a directory of configuration.
const BELOW: &str = "smc/policy.toml";

/// Places where a policy is searched for if no variable names it, in this order.
///
/// A process that gained rights when it was executed (set-user-ID, set-group-ID, file
/// capabilities: `AT_SECURE` of getauxval(3)) searches below `/etc` only: its environment is
/// under the control of a user without these rights.
#[must_use]
pub fn places() -> Vec<PathBuf> {
    below(trusted)
}

/// An environment variable, if this process may go by it.
fn trusted(name: &str) -> Option<OsString> {
    match system::is_secure() {
        true => None,
        false => env::var_os(name),
    }
}

fn below(variable: impl Fn(&str) -> Option<OsString>) -> Vec<PathBuf> {
    // What is not absolute is not taken, as the specification of the directories says.
    let directory = |name| {
        let path = PathBuf::from(variable(name)?);
        path.is_absolute().then_some(path)
    };
    let home = || directory("HOME").map(|home| home.join(".config"));
    let of_user = directory("XDG_CONFIG_HOME").or_else(home);
    let system = PathBuf::from("/etc");
    of_user
        .into_iter()
        .chain([system])
        .map(|at| at.join(BELOW))
        .collect()
}

impl Policy {
    /// The policy of this process: of the file that `SMC_POLICY` names, or else of the
    /// first of [`places`] that has one, or else the default. A file that the variable names
    /// and that is missing or wrong is an error.
    ///
    /// A place without a regular file that can be read counts as empty. A file at a place
    /// that is wrong keeps every connection on TCP, see [`Self::warning`]: a mistake in it
    /// stops no program.
    ///
    /// # Errors
    /// [`PolicyError`]: the file that the variable names, and what is wrong with it.
    pub fn find() -> Result<Self, PolicyError> {
        Self::find_in(trusted(ENVIRONMENT), &places())
    }

    fn find_in(named: Option<OsString>, places: &[PathBuf]) -> Result<Self, PolicyError> {
        match named {
            Some(path) if path.is_empty() => return Ok(Self::default()),
            Some(path) => return Self::read(Path::new(&path)),
            None => {}
        }
        for path in places {
            let policy = match reading::read(path) {
                Ok(text) => Self::parse(&text).map_err(|error| error.of_file(path)),
                Err(ReadError::Invalid(error)) => Err(PolicyError::unreadable(path, error)),
                Err(ReadError::Unreadable(_)) => continue,
            };
            return Ok(policy.unwrap_or_else(|error| Self::unusable(&error)));
        }
        Ok(Self::default())
    }

    /// The policy of a file: a regular file of at most 1 MiB.
    ///
    /// # Errors
    /// [`PolicyError`]: what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let text = reading::read(path).map_err(ReadError::into_io);
        let text = text.map_err(|error| PolicyError::unreadable(path, error))?;
        Self::parse(&text).map_err(|error| error.of_file(path))
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::policy::Rule;

    #[test]
    fn the_users_directory_comes_before_the_systems() {
        let of = |all: &'static [(&str, &str)]| {
            let found = below(|name| {
                let (_, value) = all.iter().find(|(of, _)| *of == name)?;
                Some((*value).into())
            });
            found
                .iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
        };
        let system = "/etc/smc/policy.toml";
        assert_eq!(of(&[]), [system]);
        assert_eq!(
            of(&[("HOME", "/home/a")]),
            ["/home/a/.config/smc/policy.toml", system]
        );
        assert_eq!(
            of(&[("HOME", "/home/a"), ("XDG_CONFIG_HOME", "/c")]),
            ["/c/smc/policy.toml", system]
        );
        assert_eq!(
            of(&[("HOME", "/home/a"), ("XDG_CONFIG_HOME", "here")]),
            ["/home/a/.config/smc/policy.toml", system]
        );
    }

    #[test]
    fn the_first_file_counts_and_a_named_one_before_all() {
        let directory = env::temp_dir().join(format!("smc-policy-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let at = |name: &str, text: &str| {
            let path = directory.join(name);
            fs::write(&path, text).unwrap();
            path
        };
        let (none, off) = (directory.join("none"), at("off", "enabled = false"));
        let (on, wrong) = (at("on", ""), at("wrong", "\nenabled = 1"));
        let found = |named: Option<&PathBuf>, places: &[&PathBuf]| {
            let places: Vec<_> = places.iter().map(|path| (*path).clone()).collect();
            Policy::find_in(named.map(|path| path.clone().into()), &places)
                .map(|policy| policy.enabled)
        };
        assert!(found(None, &[]).unwrap());
        assert!(!found(None, &[&none, &off, &on]).unwrap());
        assert!(found(Some(&on), &[&off]).unwrap());
        // A file that is named and wrong is an error.
        let error = found(Some(&none), &[&on]).unwrap_err().to_string();
        assert!(error.contains("none: "), "{error}");
        let error = found(Some(&wrong), &[&on]).unwrap_err().to_string();
        assert!(error.contains("wrong: line 2: enabled: "), "{error}");
        // The first place counts, with its mistake.
        let policy = Policy::find_in(None, &[wrong, on.clone()]).unwrap();
        let warning = policy.warning().unwrap();
        assert!(warning.contains("wrong: line 2: enabled: "), "{warning}");
        assert_eq!(policy.listening(1), Err(Rule::Unusable));
        let empty = Policy::find_in(Some(OsString::new()), std::slice::from_ref(&off));
        assert_eq!(empty.unwrap(), Policy::default());
        fs::remove_dir_all(&directory).unwrap();
    }
}
