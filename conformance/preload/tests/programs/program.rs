//! A compiled program and its cases.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of `programs/`.
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
}

impl Program {
    /// Compiles the program with the checks of `_FORTIFY_SOURCE`, whose variants of calls
    /// the library has to serve, too.
    pub(crate) fn compile(name: &str) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
        let output = Command::new("cc")
            .args(["-std=gnu11", "-O2", "-D_FORTIFY_SOURCE=2", "-pthread", "-w"])
            .arg("-o")
            .arg(&path)
            .arg(source.join(format!("{name}.c")))
            .output();
        let output = output.expect("a C compiler, cc");
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{complaint}");
        Self {
            name: name.to_owned(),
            path,
        }
    }

    /// The names of its cases.
    pub(crate) fn cases(&self) -> Vec<String> {
        let output = Command::new(&self.path).arg("list").output().unwrap();
        assert!(output.status.success());
        let names = String::from_utf8(output.stdout).unwrap();
        names.lines().map(str::to_owned).collect()
    }
}
