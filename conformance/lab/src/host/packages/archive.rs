//! The archive that this machine is configured for, and its backports, through an apt
//! with directories of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::super::tools::{run, text};
use super::super::{Trouble, failed};

/// The series of kernels whose soft-RoCE carries SMC-R; that of 6.1 hangs.
const SERIES: &str = "6.12.";

/// An apt of our own.
#[derive(Debug)]
pub(super) struct Archive {
    directory: PathBuf,
    configuration: PathBuf,
    refreshed: bool,
}

impl Archive {
    pub(super) fn new(directory: &Path) -> Result<Self, Trouble> {
        if super::architecture()? != "amd64" {
            return Err(Trouble::Unable(
                "guests are amd64, and so must this machine be".into(),
            ));
        }
        let own = directory.join("apt");
        for part in ["lists/partial", "archives/partial", "parts"] {
            let part = own.join(part);
            fs::create_dir_all(&part).map_err(failed(part.display()))?;
        }
        let sources = own.join("sources.list");
        fs::write(&sources, sources_of_this_machine()?).map_err(failed(sources.display()))?;
        let status = own.join("status");
        fs::write(&status, status_without_qemu()?).map_err(failed(status.display()))?;
        let configuration = own.join("apt.conf");
        let path = |name: &str| own.join(name).display().to_string();
        let text = format!(
            "Dir::Etc::sourcelist \"{}\";\nDir::Etc::sourceparts \"{}\";\n\
             Dir::State::lists \"{}\";\nDir::State::status \"{}\";\n\
             Dir::State::extended_states \"{}\";\nDir::Cache \"{}\";\n\
             Dir::Cache::archives \"{}\";\nDebug::NoLocking \"true\";\n\
             APT::Sandbox::User \"\";\nAcquire::Languages \"none\";\n",
            path("sources.list"),
            path("parts"),
            path("lists"),
            path("status"),
            path("extended_states"),
            path(""),
            path("archives"),
        );
        fs::write(&configuration, text).map_err(failed(configuration.display()))?;
        Ok(Self {
            directory: own,
            configuration,
            refreshed: false,
        })
    }

    /// Fetches the lists of packages, once.
    pub(super) fn refresh(&mut self) -> Result<(), Trouble> {
        if !self.refreshed {
            run(self.apt("apt-get").args(["update", "-q"])).map_err(unreachable)?;
            self.refreshed = true;
        }
        Ok(())
    }

    /// The release of the kernel to take: one of that version, or the one that the
    /// package `linux-image-amd64` of some suite stands for.
    pub(super) fn kernel(&self, wanted: Option<&str>) -> Result<String, Trouble> {
        let names = text(
            self.apt("apt-cache")
                .args(["search", "--names-only", "^linux-image-6"]),
        )?;
        let releases: Vec<&str> = names
            .lines()
            .filter_map(|line| line.split_whitespace().next()?.strip_prefix("linux-image-"))
            .filter(|release| release.starts_with(SERIES) && is_plain(release))
            .collect();
        let version = match wanted {
            Some(version) => Some(version.to_owned()),
            None => self.usual_version()?,
        };
        let found = match version {
            Some(version) => {
                let of_it = |release: &&&str| release.split('+').next() == Some(version.as_str());
                releases.iter().find(of_it).copied()
            }
            None => releases
                .iter()
                .copied()
                .max_by_key(|release| numbers(release)),
        };
        found.map(str::to_owned).ok_or_else(|| {
            let what = wanted.unwrap_or("6.12");
            Trouble::Unable(format!("the package archive has no kernel {what}"))
        })
    }

    fn usual_version(&self) -> Result<Option<String>, Trouble> {
        let known = text(self.apt("apt-cache").args(["madison", "linux-image-amd64"]))?;
        let versions = known.lines().filter_map(|line| line.split('|').nth(1));
        let upstream = versions.filter_map(|version| version.trim().split('-').next());
        let upstream = upstream.filter(|version| version.starts_with(SERIES));
        Ok(upstream
            .max_by_key(|version| numbers(version))
            .map(str::to_owned))
    }

    /// Fetches one package and unpacks it.
    pub(super) fn unpack(&self, package: &str, root: &Path) -> Result<(), Trouble> {
        let place = self.directory.join("fetched").join(package);
        fs::create_dir_all(&place).map_err(failed(place.display()))?;
        run(self
            .apt("apt-get")
            .current_dir(&place)
            .args(["download", "-q", package]))
        .map_err(unreachable)?;
        for file in packages_in(&place)? {
            super::unpack(&file, root)?;
        }
        fs::remove_dir_all(&place).map_err(failed(place.display()))
    }

    /// The version of a package that the archive has.
    pub(super) fn version(&self, package: &str) -> Result<String, Trouble> {
        let shown = text(self.apt("apt-cache").args(["show", package]))?;
        let version = shown
            .lines()
            .find_map(|line| line.strip_prefix("Version: "));
        version
            .map(str::to_owned)
            .ok_or_else(|| Trouble::Unable(format!("the package archive has no {package}")))
    }

    /// Fetches a package and those that it needs and the machine has not, and unpacks
    /// them together.
    pub(super) fn unpack_with_dependencies(
        &self,
        package: &str,
        root: &Path,
    ) -> Result<(), Trouble> {
        let arguments = [
            "install",
            "-q",
            "-y",
            "--download-only",
            "--no-install-recommends",
            package,
        ];
        run(self.apt("apt-get").args(arguments)).map_err(unreachable)?;
        for file in packages_in(&self.directory.join("archives"))? {
            super::unpack(&file, root)?;
            fs::remove_file(&file).map_err(failed(file.display()))?;
        }
        Ok(())
    }

    fn apt(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("APT_CONFIG", &self.configuration)
            .env("DEBIAN_FRONTEND", "noninteractive");
        command
    }
}

fn unreachable(trouble: Trouble) -> Trouble {
    Trouble::Unable(format!("packages cannot be fetched: {trouble}"))
}

fn packages_in(directory: &Path) -> Result<Vec<PathBuf>, Trouble> {
    let entries = fs::read_dir(directory).map_err(failed(directory.display()))?;
    let paths = entries.flatten().map(|entry| entry.path());
    Ok(paths
        .filter(|path| path.extension().is_some_and(|extension| extension == "deb"))
        .collect())
}

/// Neither for real-time nor for clouds, whose configurations lack soft-RoCE.
fn is_plain(release: &str) -> bool {
    let mut parts = release.split('-');
    parts.next().is_some() && parts.next() == Some("amd64") && parts.next().is_none()
}

/// The numbers of a version, for comparison.
fn numbers(version: &str) -> Vec<u32> {
    version
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok())
        .collect()
}

/// What dpkg knows as installed, without packages of QEMU's: those of another suite
/// would forbid the one that is unpacked beside them.
fn status_without_qemu() -> Result<String, Trouble> {
    let all = fs::read_to_string("/var/lib/dpkg/status").map_err(failed("dpkg's status"))?;
    let others = all
        .split("\n\n")
        .filter(|entry| !entry.trim_start().starts_with("Package: qemu-"));
    Ok(others.collect::<Vec<_>>().join("\n\n"))
}

/// The Debian archives of this machine's configuration, and their backports.
fn sources_of_this_machine() -> Result<String, Trouble> {
    let system = fs::read_to_string("/etc/os-release").map_err(failed("/etc/os-release"))?;
    let codename = system
        .lines()
        .find_map(|line| line.strip_prefix("VERSION_CODENAME="));
    let codename = codename.ok_or_else(|| Trouble::Unable("this is not Debian".into()))?;
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    let texts = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok());
    let sources = sources(texts, codename);
    if sources.is_empty() {
        return Err(Trouble::Unable(format!(
            "apt knows no archive of {codename}"
        )));
    }
    Ok(sources)
}

/// One-line entries of all suites of `codename` in both formats of apt's.
fn sources(texts: impl Iterator<Item = String>, codename: &str) -> String {
    let mut lines = String::new();
    for text in texts {
        for paragraph in text.split("\n\n") {
            let field = |name: &str| {
                let mut fields = paragraph.lines().filter_map(|line| line.split_once(':'));
                fields
                    .find(|(found, _)| *found == name)
                    .map(|(_, value)| value.trim())
            };
            let key = field("Signed-By")
                .map(|key| format!("[signed-by={key}] "))
                .unwrap_or_default();
            for suite in field("Suites").unwrap_or_default().split_whitespace() {
                let uri = field("URIs").unwrap_or_default();
                entry(&mut lines, &key, uri, suite, codename);
            }
            for line in paragraph
                .lines()
                .filter_map(|line| line.strip_prefix("deb "))
            {
                let (key, rest) = match line.split_once(']') {
                    Some((key, rest)) => (format!("{key}] "), rest),
                    None => (String::new(), line),
                };
                if let [uri, suite, ..] = rest.split_whitespace().collect::<Vec<_>>()[..] {
                    entry(&mut lines, &key, uri, suite, codename);
                }
            }
        }
    }
    lines
}

fn entry(lines: &mut String, key: &str, uri: &str, suite: &str, codename: &str) {
    if suite.split('-').next() != Some(codename) {
        return;
    }
    lines.push_str(&format!("deb {key}{uri} {suite} main\n"));
    // The series came to this release through its backports.
    if suite == codename && codename == "bookworm" {
        lines.push_str(&format!("deb {key}{uri} {suite}-backports main\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::{is_plain, numbers, sources};

    #[test]
    fn both_formats_of_sources_are_read() {
        let deb822 = "Types: deb\nURIs: http://archive.test/debian\nSuites: bookworm bookworm-updates\n\
                      Components: main\nSigned-By: /k.gpg\n\nTypes: deb\nURIs: http://other.test\nSuites: x\n";
        let line = "# a comment\ndeb [signed-by=/j.gpg] http://archive.test/security bookworm-security main\n";
        let found = sources([deb822.to_owned(), line.to_owned()].into_iter(), "bookworm");
        assert_eq!(
            found,
            "deb [signed-by=/k.gpg] http://archive.test/debian bookworm main\n\
             deb [signed-by=/k.gpg] http://archive.test/debian bookworm-backports main\n\
             deb [signed-by=/k.gpg] http://archive.test/debian bookworm-updates main\n\
             deb [signed-by=/j.gpg] http://archive.test/security bookworm-security main\n"
        );
    }

    #[test]
    fn kernels_are_ordered_by_number_and_are_plain() {
        assert!(numbers("6.12.117+deb12") > numbers("6.12.95+deb12"));
        assert!(is_plain("6.12.95+deb12-amd64"));
        assert!(!is_plain("6.12.95+deb12-rt-amd64"));
        assert!(!is_plain("6.12-amd64-dbg"));
    }
}
