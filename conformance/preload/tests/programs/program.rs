//! A compiled program and its cases.

use std::path::{Path, PathBuf};
use std::process::Command;

/// A program of `programs/`.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) name: String,
    pub(crate) path: PathBuf,
    /// Variables that it gets.
    pub(crate) variables: Vec<(&'static str, String)>,
}

impl Program {
    /// Compiles the program with the checks of `_FORTIFY_SOURCE`, whose variants of calls
    /// the library has to serve, too.
    pub(crate) fn compile(name: &str) -> Self {
        Self::compile_as(name, name)
    }

    /// Compiles the program as a file of this name, which no other test has.
    pub(crate) fn compile_as(name: &str, output: &str) -> Self {
        Self::compile_with(name, output, &["-O2", "-D_FORTIFY_SOURCE=2"])
    }

    /// Compiles the program with the address sanitizer, which detects leaks, too. Its runtime has
    /// to come before other libraries, also before preloaded ones: it is linked into the program.
    pub(crate) fn with_addresses(name: &str) -> Self {
        let flags = ["-O1", "-g", "-fsanitize=address", "-static-libasan"];
        Self {
            variables: vec![("ASAN_OPTIONS", "detect_leaks=1".to_owned())],
            ..Self::compile_with(name, &format!("{name}-addresses"), &flags)
        }
    }

    /// Compiles the program with the thread sanitizer. It has to ignore what the library does, which
    /// was not compiled with it: the locks of Rust are no functions that it knows. A child after a
    /// fork may start threads, as the library does when the child connects.
    pub(crate) fn with_threads(name: &str) -> Self {
        let flags = ["-O1", "-g", "-fsanitize=thread", "-static-libtsan"];
        Self {
            variables: vec![(
                "TSAN_OPTIONS",
                "ignore_noninstrumented_modules=1:die_after_fork=0".to_owned(),
            )],
            ..Self::compile_with(name, &format!("{name}-threads"), &flags)
        }
    }

    fn compile_with(name: &str, output: &str, flags: &[&str]) -> Self {
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(output);
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("programs");
        let output = Command::new("cc")
            .args(["-std=gnu11", "-pthread", "-w"])
            .args(flags)
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
            variables: Vec::new(),
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
