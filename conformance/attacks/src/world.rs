//! One attack's network, users and processes.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cgroup::Cgroup;
use crate::network::Network;
use crate::process::Process;
use crate::roles::PATIENT;
use crate::roles::honest::Report;

/// Limits of a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    /// Open descriptors; what the test has if not given.
    pub descriptors: Option<u64>,
    /// Bytes of a file, as `ulimit -f` sets them (there in units of 1,024).
    pub file: Option<u64>,
    /// Bytes of memory of its cgroup.
    pub memory: Option<u64>,
}

/// A network namespace of its own, with users that no other test has.
#[derive(Debug)]
pub struct World {
    network: Network,
    program: PathBuf,
    folder: PathBuf,
    first_uid: u32,
    patient: bool,
}

/// What processes keep of the environment: of the change that `conformance drawn` tries.
const KEPT: [&str; 3] = ["SMC_CHANGE", "SMC_REACHED", "RUST_MIN_STACK"];

impl World {
    /// Makes a world whose processes are the program at `role`
    /// (`env!("CARGO_BIN_EXE_smc-attack-role")`); nothing without root.
    ///
    /// # Panics
    /// Without root if the environment has `CI=true`, or if the operating system fails.
    #[must_use]
    pub fn new(role: &str) -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        if !rustix::process::geteuid().is_root() {
            assert!(
                std::env::var_os("CI").is_none_or(|ci| ci != "true"),
                "attacks need root, which a check has to have"
            );
            eprintln!("SKIPPED: attacks by other users need root");
            return None;
        }
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let pid = std::process::id();
        let folder = std::env::temp_dir().join(format!("smc-attacks-{pid}-{next}"));
        fs::create_dir(&folder).expect("a folder for the program");
        // Other users cannot reach a program below a folder of root's.
        let program = folder.join("role");
        // By another process: a child that another test forks while this process has the copy
        // open for writing would keep it from being executed.
        let status = Command::new("cp").arg(role).arg(&program).status();
        assert!(status.expect("a copy of the program").success());
        for path in [&folder, &program] {
            fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("rights");
        }
        Some(Self {
            network: Network::new().expect("a network namespace"),
            program,
            folder,
            first_uid: 1_000_000 + (pid % 4_000_000) * 512 + (next % 32) * 16,
            patient: false,
        })
    }

    /// The world with processes that wait long for their peers: a connection over TCP is then not
    /// the doing of a busy machine. For tests in which honest processes answer each other.
    #[must_use]
    pub fn patient(mut self) -> Self {
        self.patient = true;
        self
    }

    /// The user of the program that is attacked.
    #[must_use]
    pub fn victim_uid(&self) -> u32 {
        self.first_uid
    }

    /// The user of honest clients.
    #[must_use]
    pub fn honest_uid(&self) -> u32 {
        self.first_uid + 1
    }

    /// The user of the attacker.
    #[must_use]
    pub fn attacker_uid(&self) -> u32 {
        self.first_uid + 2
    }

    /// A folder that every user can enter and none but root can write.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Runs `task` on a thread in this network.
    ///
    /// # Errors
    /// The task's.
    pub fn enter<T: Send>(&self, task: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        self.network.enter(task)
    }

    /// Starts the program in a role, as a user, in a memory cgroup of its own.
    ///
    /// # Panics
    /// If the operating system fails.
    #[must_use]
    pub fn start(&self, uid: u32, limits: Limits, role: &str, arguments: &[&str]) -> Process {
        self.start_with(uid, limits, role, arguments, |_| ())
    }

    /// Starts as [`Self::start`] does, after `prepare` has changed the command.
    ///
    /// # Panics
    /// If the operating system fails.
    #[must_use]
    pub fn start_with(
        &self,
        uid: u32,
        limits: Limits,
        role: &str,
        arguments: &[&str],
        prepare: impl FnOnce(&mut Command) + Send,
    ) -> Process {
        let cgroup = Cgroup::new(limits.memory).expect("a memory cgroup");
        let limit = |limit: Option<u64>| limit.map_or("-".to_owned(), |limit| limit.to_string());
        let limits = [limit(limits.descriptors), limit(limits.file)];
        let child = self.enter(|| {
            let mut command = Command::new(&self.program);
            command
                .args(limits)
                .arg(role)
                .args(arguments)
                .env_clear()
                .envs(
                    KEPT.iter()
                        .filter_map(|name| Some((name, std::env::var_os(name)?))),
                )
                .env("RUST_BACKTRACE", "1")
                .current_dir("/")
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .uid(uid)
                .gid(uid);
            if self.patient {
                command.env(PATIENT, "1");
            }
            prepare(&mut command);
            command.spawn()
        });
        let mut process = Process::new(role, child.expect("the program"));
        cgroup.admit(process.id()).expect("its cgroup");
        process.set_cgroup(cgroup);
        // It waits for this, so that all it takes is charged to its cgroup.
        process.command("begin");
        process
    }

    /// Starts an echo server of the victim's user; where it listens.
    #[must_use]
    pub fn victim(&self, limits: Limits) -> (Process, String) {
        let mut victim = self.start(self.victim_uid(), limits, "victim", &[]);
        let address = victim.line("listening");
        (victim, address)
    }

    /// Starts an echo server of the victim's user that accepts from a kernel listener by itself;
    /// where it listens.
    #[must_use]
    pub fn victim_that_accepts(&self, limits: Limits) -> (Process, String) {
        let mut victim = self.start(self.victim_uid(), limits, "victim", &["kernel"]);
        let address = victim.line("listening");
        (victim, address)
    }

    /// Starts honest clients of a server, `threads` at a time.
    #[must_use]
    pub fn honest(&self, address: &str, threads: u32) -> Process {
        let arguments = [address, &threads.to_string()];
        let mut honest = self.start(self.honest_uid(), Limits::default(), "honest", &arguments);
        // The attack meets clients that are connected.
        honest.line("connected");
        honest
    }

    /// Ends honest clients.
    ///
    /// # Panics
    /// If any of them saw a failure or a wrong byte.
    #[must_use]
    pub fn finish(&self, mut honest: Process) -> Report {
        let report = Report::parse(&honest.ask("finish", "report"));
        let status = honest.close().expect("honest clients end");
        assert!(status.success(), "honest clients: {status}");
        report
    }

    /// Starts an attacker: a function of [`attackers`](crate::attackers).
    #[must_use]
    pub fn attacker(&self, name: &str, arguments: &[&str]) -> Process {
        self.start(self.attacker_uid(), Limits::default(), name, arguments)
    }
}

impl Drop for World {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.folder);
    }
}
