//! Where a policy lies.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

use super::{Policy, PolicyError};

/// The environment variable that names a file; empty, it stands for no file at all.
pub const ENVIRONMENT: &str = "SMC_POLICY";

/// The file's place below a directory of configuration.
const BELOW: &str = "smc/policy.toml";

/// Where a policy is looked for if no variable names it, in this order.
#[must_use]
pub fn places() -> Vec<PathBuf> {
    below(|name| env::var_os(name))
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
    /// first of [`places`] that has one, or else the default. A file that is named and
    /// missing is an error, and so is one that says what cannot be.
    ///
    /// # Errors
    /// [`PolicyError`]: the file, and what is wrong with it.
    pub fn find() -> Result<Self, PolicyError> {
        Self::find_in(env::var_os(ENVIRONMENT), &places())
    }

    fn find_in(named: Option<OsString>, places: &[PathBuf]) -> Result<Self, PolicyError> {
        match named {
            Some(path) if path.is_empty() => return Ok(Self::default()),
            Some(path) => return Self::read(Path::new(&path)),
            None => {}
        }
        for path in places {
            match fs::read_to_string(path) {
                Ok(text) => return Self::parse(&text).map_err(|error| error.of_file(path)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(PolicyError::unreadable(path, error)),
            }
        }
        Ok(Self::default())
    }

    /// The policy of a file.
    ///
    /// # Errors
    /// [`PolicyError`]: what is wrong with it.
    pub fn read(path: &Path) -> Result<Self, PolicyError> {
        let text = fs::read_to_string(path);
        let text = text.map_err(|error| PolicyError::unreadable(path, error))?;
        Self::parse(&text).map_err(|error| error.of_file(path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
        // What is wrong is never passed over in silence.
        let error = found(Some(&none), &[&on]).unwrap_err().to_string();
        assert!(error.contains("none: "), "{error}");
        let error = found(None, &[&wrong, &on]).unwrap_err().to_string();
        assert!(error.contains("wrong: line 2: enabled: "), "{error}");
        let empty = Policy::find_in(Some(OsString::new()), std::slice::from_ref(&off));
        assert_eq!(empty.unwrap(), Policy::default());
        fs::remove_dir_all(&directory).unwrap();
    }
}
