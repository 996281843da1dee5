//! The program: where it is, and what executes it.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::fs::{Access, AtFlags, CWD};

use super::Refusal;

/// Directories to search for programs without `PATH`, as in execvp(3).
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// Most interpreters in a row that the kernel takes.
const INTERPRETERS: usize = 4;

/// Most bytes of a script's first line that the kernel reads.
const FIRST_LINE: u64 = 256;

/// A program that was found, and its arguments.
#[derive(Debug)]
pub(crate) struct Program {
    name: OsString,
    arguments: Vec<OsString>,
    path: PathBuf,
}

impl Program {
    /// Finds the program that the first argument names, as execvp(3) does.
    pub(super) fn find(parts: &[OsString]) -> Result<Self, Refusal> {
        let [name, arguments @ ..] = parts else {
            let none = io::Error::from(io::ErrorKind::NotFound);
            return Err(Refusal::of(&"no program", &none));
        };
        let path = search(name).map_err(|error| Refusal::of(&name.display(), &error))?;
        Ok(Self {
            name: name.clone(),
            arguments: arguments.to_vec(),
            path,
        })
    }

    /// The command that executes it.
    pub(super) fn command(&self) -> Command {
        // By the name that was given, which programs see as their own.
        let mut command = Command::new(&self.name);
        command.args(&self.arguments);
        command
    }

    /// Name of the program as it was given.
    pub(super) fn display(&self) -> impl std::fmt::Display {
        self.name.display()
    }

    /// Name of the program, for a title.
    pub(crate) fn name(&self) -> String {
        self.name.to_string_lossy().into_owned()
    }

    /// The refusal after an attempt to execute it.
    pub(crate) fn refusal(&self, error: &io::Error) -> Refusal {
        Refusal::of(&self.display(), error)
    }

    /// The file that the kernel executes: the interpreter if the program is a script, the
    /// program that env(1) starts if that is the interpreter.
    pub(super) fn executed(&self) -> PathBuf {
        let mut path = self.path.clone();
        for _ in 0..INTERPRETERS {
            match interpreter(&path) {
                Some(next) => path = next,
                None => break,
            }
        }
        path
    }
}

/// Searches a program in `PATH`, unless its name has a slash.
fn search(name: &OsStr) -> io::Result<PathBuf> {
    if name.is_empty() {
        return Err(io::ErrorKind::NotFound.into());
    }
    if name.as_bytes().contains(&b'/') {
        return executable(Path::new(name));
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| DEFAULT_PATH.into());
    let mut failure = io::Error::from(io::ErrorKind::NotFound);
    for directory in std::env::split_paths(&path) {
        match executable(&directory.join(name)) {
            Ok(found) => return Ok(found),
            // A file without the right is reported only if no other is found.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => failure = error,
            Err(_) => {}
        }
    }
    Err(failure)
}

/// The path, if it is a file that this process may execute.
fn executable(path: &Path) -> io::Result<PathBuf> {
    let metadata = path.metadata()?;
    rustix::fs::accessat(CWD, path, Access::EXEC_OK, AtFlags::EACCESS)?;
    if !metadata.is_file() {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(path.to_owned())
}

/// The interpreter of a script.
fn interpreter(path: &Path) -> Option<PathBuf> {
    let mut line = Vec::new();
    let file = File::open(path).ok()?;
    let mut file = BufReader::new(file.take(FIRST_LINE));
    file.read_until(b'\n', &mut line).ok()?;
    let line = line.strip_prefix(b"#!")?.trim_ascii();
    let mut parts = line
        .split(u8::is_ascii_whitespace)
        .filter(|part| !part.is_empty());
    let interpreter = PathBuf::from(OsStr::from_bytes(parts.next()?));
    if interpreter.file_name() != Some(OsStr::new("env")) {
        return Some(interpreter);
    }
    let mut started = parts.skip_while(|part| part.starts_with(b"-") || part.contains(&b'='));
    let found = started.next().map(|name| search(OsStr::from_bytes(name)));
    Some(found.and_then(Result::ok).unwrap_or(interpreter))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(program: &str) -> Vec<OsString> {
        vec![program.into(), "argument".into()]
    }

    #[test]
    fn a_name_is_looked_up_and_a_path_is_not() {
        let found = Program::find(&parts("sh")).unwrap();
        assert_eq!(found.path.file_name(), Some(OsStr::new("sh")));
        assert!(found.path.is_absolute());
        assert_eq!(
            Program::find(&parts("/bin/sh")).unwrap().path,
            Path::new("/bin/sh")
        );
    }

    #[test]
    fn what_is_not_there_has_the_status_of_env() {
        for name in [
            "",
            "no-such-program",
            "/no/such/program",
            "./no-such-program",
        ] {
            let Refusal(status, sentence) = Program::find(&parts(name)).unwrap_err();
            assert_eq!(status, 127, "{name}: {sentence}");
        }
        for name in ["/", "/etc/passwd", "/dev/null"] {
            let Refusal(status, sentence) = Program::find(&parts(name)).unwrap_err();
            assert_eq!(status, 126, "{name}: {sentence}");
        }
    }

    #[test]
    fn scripts_are_followed_to_what_executes_them() {
        let directory = std::env::temp_dir().join(format!("smcx-run-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        let sh = search(OsStr::new("sh")).unwrap();
        let script = |name: &str, first: &[u8]| {
            let path = directory.join(name);
            std::fs::write(&path, first).unwrap();
            path
        };
        let plain = script("plain", b"#!/bin/sh\necho\n");
        let spaced = script("spaced", b"#!  /bin/sh  -e\n");
        let env = script("env", b"#!/usr/bin/env sh\n");
        let split = script("split", b"#!/usr/bin/env -S A=b sh -e\n");
        assert_eq!(interpreter(&plain), Some("/bin/sh".into()));
        assert_eq!(interpreter(&spaced), Some("/bin/sh".into()));
        assert_eq!(interpreter(&env), Some(sh.clone()));
        assert_eq!(interpreter(&split), Some(sh));
        let lost = script("lost", b"#!/usr/bin/env no-such-program\n");
        assert_eq!(interpreter(&lost), Some("/usr/bin/env".into()));
        for (name, first) in [
            ("none", b"#!\n".as_slice()),
            ("empty", b""),
            ("text", b"echo\n"),
            ("short", b"#"),
        ] {
            assert_eq!(interpreter(&script(name, first)), None, "{name}");
        }
        // Scripts that execute each other in a circle are followed a few times only.
        let circle = directory.join("circle");
        std::fs::write(&circle, format!("#!{}\n", circle.display())).unwrap();
        let program = Program {
            name: circle.clone().into(),
            arguments: Vec::new(),
            path: circle.clone(),
        };
        assert_eq!(program.executed(), circle);
        std::fs::remove_dir_all(&directory).unwrap();
    }
}
