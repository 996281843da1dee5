//! Policy files that are missing, unreadable, no files, or wrong: no program stops, hangs or
//! grows because of one that it did not name itself.

use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use smc_sockets::why::Why;
use smc_sockets::{Policy, SmcListener, SmcStream, Stack};

const ROLE: &str = "SMC_SOCKETS_POLICY_ROLE";
const SOON: Duration = Duration::from_secs(20);

/// A directory of its own, removed with the value.
struct Directory(PathBuf);

impl Directory {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("smc-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    /// A home whose policy file is made by `make`.
    fn home(&self, name: &str, make: impl FnOnce(&Path)) -> PathBuf {
        let home = self.0.join(name);
        fs::create_dir_all(home.join(".config/smc")).unwrap();
        make(&home.join(".config/smc/policy.toml"));
        home
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn fifo(path: &Path) {
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mkfifoat(rustix::fs::CWD, path, mode).unwrap();
}

fn link(to: &str) -> impl FnOnce(&Path) {
    move |path| std::os::unix::fs::symlink(to, path).unwrap()
}

/// Copies a program by another process: a child that another test forks while this process has
/// the copy open for writing would keep it from being executed.
fn copy_program(from: &Path, to: &Path) {
    let status = Command::new("cp").arg(from).arg(to).status();
    assert!(status.unwrap().success());
}

/// Runs one of the roles below in a process of its own, which may not take long.
fn run(role: &str, set: impl FnOnce(&mut Command)) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["policy_files::role", "--exact", "--nocapture"])
        .env(ROLE, role)
        .env_remove("SMC_POLICY")
        .env_remove("XDG_CONFIG_HOME")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    set(&mut command);
    let mut child = command.spawn().unwrap();
    let end = Instant::now() + SOON;
    while child.try_wait().unwrap().is_none() {
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("{command:?} hangs");
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    child.wait_with_output().unwrap()
}

/// What the processes do; nothing in the test run itself.
#[test]
fn role() {
    match std::env::var(ROLE).as_deref() {
        // A server and a client that use what is found, like any program.
        Ok("connection") => {
            let listener = SmcListener::bind("127.0.0.1:0").unwrap();
            let address = listener.local_addr().unwrap();
            let mut client = SmcStream::connect(address).unwrap();
            let (mut server, _) = listener.accept().unwrap();
            client.write_all(b"octets").unwrap();
            server.read_exact(&mut [0; 6]).unwrap();
            println!("\ncarrier: {}", client.carrier());
        }
        Ok("find") => match Policy::find() {
            Ok(policy) => println!(
                "\nfound: enabled {}, warning {:?}, listening {:?}",
                policy.enabled,
                policy.warning(),
                policy.listening(1)
            ),
            Err(error) => println!("\nerror: {error}"),
        },
        Ok("why") => {
            let to = ([127, 0, 0, 1], 1).into();
            let why = Why::walk(&Stack::of_process().unwrap(), to);
            let policy = why.conditions.iter().find(|at| at.name == "policy");
            let policy = policy.unwrap();
            println!(
                "\nfound: {:?} {} {:?}",
                policy.state, policy.found, policy.remedy
            );
        }
        Ok(other) => panic!("{other}"),
        Err(_) => {}
    }
}

fn line(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8_lossy(&output.stdout);
    let is_line = |line: &&str| {
        ["carrier: ", "found: ", "error: "]
            .iter()
            .any(|of| line.starts_with(of))
    };
    text.lines().find(is_line).expect(&text).to_owned()
}

#[test]
fn places_that_cannot_be_read_count_as_empty() {
    let directory = Directory::new("places");
    let homes = [
        PathBuf::from("/dev/null"),
        PathBuf::from("/proc/self/mem"),
        directory.0.join("missing"),
        PathBuf::from("/".to_owned() + &"long".repeat(2000)),
        directory.home("fifo", fifo),
        directory.home("directory", |path| fs::create_dir(path).unwrap()),
        directory.home("zero", link("/dev/zero")),
        directory.home("terminal", link("/dev/tty")),
        directory.home("loop", link("policy.toml")),
        directory.home("dangling", link("nowhere")),
    ];
    for home in homes {
        let output = run("find", |command| {
            command.env("HOME", &home);
        });
        let found = line(&output);
        // A system that has a policy of its own decides otherwise.
        if !Path::new("/etc/smc/policy.toml").exists() {
            assert_eq!(
                found,
                "found: enabled true, warning None, listening Ok(())",
                "{}",
                home.display()
            );
        }
        let output = run("connection", |command| {
            command.env("HOME", &home);
        });
        assert!(line(&output).starts_with("carrier: "));
    }
}

#[test]
fn a_file_that_is_named_must_be_one() {
    let directory = Directory::new("named");
    let path = |name: &str, make: &dyn Fn(&Path)| {
        let path = directory.0.join(name);
        make(&path);
        path
    };
    let large = |path: &Path| fs::write(path, "#".repeat((1 << 20) + 1)).unwrap();
    for (path, what) in [
        (path("fifo", &fifo), "not a regular file"),
        (PathBuf::from("/dev/zero"), "not a regular file"),
        (PathBuf::from("/"), "not a regular file"),
        (path("large", &large), "larger than 1 MiB"),
        (
            path("text", &|path| fs::write(path, [0xff]).unwrap()),
            "UTF-8",
        ),
    ] {
        let begin = Instant::now();
        let error = Policy::read(&path).unwrap_err().to_string();
        assert!(error.contains(what), "{error}");
        assert!(error.starts_with(path.to_str().unwrap()), "{error}");
        assert!(begin.elapsed() < Duration::from_secs(2));
        let output = run("find", |command| {
            command.env("SMC_POLICY", &path);
        });
        assert_eq!(line(&output), format!("error: {error}"));
    }
    // The largest file that is permitted.
    let most = path("most", &|path| {
        fs::write(path, "#".repeat(1 << 20)).unwrap()
    });
    assert_eq!(Policy::read(&most).unwrap(), Policy::default());
    let missing = Policy::read(&directory.0.join("missing")).unwrap_err();
    assert_eq!(std::io::Error::from(missing).kind(), ErrorKind::NotFound);
}

#[test]
fn a_mistake_in_a_file_that_nothing_named_means_tcp_with_a_warning() {
    let directory = Directory::new("mistake");
    type Content<'a> = (&'a str, Vec<u8>, &'a str);
    let contents: [Content<'_>; 3] = [
        ("typo", b"\nenabeld = false".to_vec(), "line 2"),
        ("binary", vec![0xff; 10], "UTF-8"),
        ("large", vec![b'#'; (1 << 20) + 1], "larger than 1 MiB"),
    ];
    for (name, content, what) in contents {
        let home = directory.home(name, |path| fs::write(path, content).unwrap());
        let file = home.join(".config/smc/policy.toml");
        let output = run("connection", |command| {
            command.env("HOME", &home);
        });
        assert!(
            line(&output).contains("This side's policy keeps it on TCP: its file has a mistake."),
            "{}",
            line(&output)
        );
        let warning = String::from_utf8_lossy(&output.stderr);
        let begin = format!("smc-sockets: policy: {}: ", file.display());
        let lines: Vec<_> = warning
            .lines()
            .filter(|at| at.starts_with(&begin))
            .collect();
        // For each process once, however many connections there are.
        let [line] = &lines[..] else {
            panic!("{warning}");
        };
        assert!(line.contains(what), "{line}");
    }
}

#[test]
fn a_policy_that_is_unusable_permits_nothing_and_why_shows_the_mistake() {
    let directory = Directory::new("why");
    let home = directory.home("typo", |path| fs::write(path, "permit = 1").unwrap());
    let file = home.join(".config/smc/policy.toml");
    let set = |command: &mut Command| {
        command.env("HOME", &home);
    };
    let found = line(&run("find", set));
    assert!(found.contains("line 1: permit"), "{found}");
    assert!(found.ends_with("listening Err(Unusable)"), "{found}");
    let why = line(&run("why", set));
    let begin = format!(
        "found: Fails everything is TCP, because of a mistake: {}: line 1: permit",
        file.display()
    );
    assert!(why.starts_with(&begin), "{why}");
    assert!(why.contains("Correct the policy file"), "{why}");
}

/// Whether this process may make programs that gain rights. Without root the test is skipped,
/// and fails where `CI=true` promises root.
fn is_root() -> bool {
    if rustix::process::geteuid().is_root() {
        return true;
    }
    assert!(std::env::var("CI").as_deref() != Ok("true"), "no root");
    eprintln!("skipped: set-uid programs take root");
    false
}

/// Programs of one user, run by another one.
#[test]
fn a_program_that_gained_rights_ignores_its_environment() {
    use std::os::unix::fs::{PermissionsExt, chown};
    use std::os::unix::process::CommandExt;
    const OWNER: u32 = 61_111;
    const CALLER: u32 = 61_112;
    if !is_root() {
        return;
    }
    let directory = Directory::new("secure");
    let home = directory.home("off", |path| fs::write(path, "enabled = false").unwrap());
    let file = home.join(".config/smc/policy.toml");
    let program = directory.0.join("program");
    copy_program(&std::env::current_exe().unwrap(), &program);
    chown(&program, Some(OWNER), None).unwrap();
    for (name, value) in [
        ("HOME", &home),
        ("XDG_CONFIG_HOME", &home.join(".config")),
        ("SMC_POLICY", &file),
        ("SMC_POLICY", &directory.0.join("missing")),
    ] {
        let found = |mode: u32| {
            fs::set_permissions(&program, fs::Permissions::from_mode(mode)).unwrap();
            let output = run("find", |command| {
                let mut of_program = Command::new(&program);
                of_program
                    .args(["policy_files::role", "--exact", "--nocapture"])
                    .env_clear()
                    .env(ROLE, "find")
                    .env(name, value)
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .uid(CALLER)
                    .gid(CALLER);
                *command = of_program;
            });
            line(&output)
        };
        let with_rights = found(0o4755);
        let without = found(0o755);
        assert!(
            without.starts_with("found: enabled false") || without.starts_with("error: "),
            "{name}: {without}"
        );
        if !Path::new("/etc/smc/policy.toml").exists() {
            assert!(
                with_rights.starts_with("found: enabled true"),
                "{name}: {with_rights}"
            );
        }
        assert_ne!(with_rights, without, "{name}");
    }
}
