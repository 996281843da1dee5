//! The processes of a round: a server, a client, and whatever burns a core beside them.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use smc_sockets::Stack;

use crate::transport::{Transport, carried_by_smc};
use crate::{epoll, http, ping, setup, threads};

/// What a round measures; the client's part takes the numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Workload {
    /// Round trips of so many bytes with so many microseconds in between; microseconds each.
    Ping {
        bytes: usize,
        pause: u64,
        count: usize,
    },
    /// GETs one after another over one connection; milliseconds for all.
    KeepAlive { count: usize },
    /// `clients` clients at once, each with a new connection and `gets` GETs; milliseconds.
    Crowd { clients: usize, gets: usize },
    /// Requests a second by epoll, so many connections, some of them active.
    Requests { connections: usize, active: usize },
    /// Open, one byte each way, close; microseconds each, with a pause in between.
    Setup { pause: u64, count: usize },
}

/// How the tokio programs of a round run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Flavor {
    pub(crate) multi_thread: bool,
    /// The client's work is the future given to `block_on`, not a spawned task.
    pub(crate) root: bool,
}

impl Flavor {
    pub(crate) const CURRENT: Self = Self {
        multi_thread: false,
        root: false,
    };
    pub(crate) const CURRENT_ROOT: Self = Self {
        multi_thread: false,
        root: true,
    };
    pub(crate) const MULTI: Self = Self {
        multi_thread: true,
        root: false,
    };
    pub(crate) const MULTI_ROOT: Self = Self {
        multi_thread: true,
        root: true,
    };

    /// Runs a program's only future to its end.
    pub(crate) fn run<T: Send + 'static>(
        self,
        program: impl Future<Output = T> + Send + 'static,
    ) -> T {
        let mut builder = if self.multi_thread {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            builder.worker_threads(2);
            builder
        } else {
            tokio::runtime::Builder::new_current_thread()
        };
        let runtime = builder.enable_all().build().expect("a runtime");
        if self.root {
            runtime.block_on(program)
        } else {
            runtime.block_on(async { tokio::spawn(program).await.expect("the program") })
        }
    }

    fn name(self) -> String {
        format!("{}{}", u8::from(self.multi_thread), u8::from(self.root))
    }

    fn parse(name: &str) -> Self {
        let flags: Vec<_> = name.chars().map(|flag| flag == '1').collect();
        Self {
            multi_thread: flags[0],
            root: flags[1],
        }
    }
}

impl Workload {
    /// Connections that a client opens.
    pub(crate) fn connections(self) -> usize {
        match self {
            Self::Ping { .. } | Self::KeepAlive { .. } => 1,
            // One before the others.
            Self::Crowd { clients, .. } => clients + 1,
            Self::Requests { connections, .. } => connections,
            Self::Setup { count, .. } => count + count / 10,
        }
    }

    fn words(self) -> Vec<String> {
        let (name, numbers): (_, Vec<usize>) = match self {
            Self::Ping {
                bytes,
                pause,
                count,
            } => ("ping", vec![bytes, pause as usize, count]),
            Self::KeepAlive { count } => ("keep-alive", vec![count]),
            Self::Crowd { clients, gets } => ("crowd", vec![clients, gets]),
            Self::Requests {
                connections,
                active,
            } => ("requests", vec![connections, active]),
            Self::Setup { pause, count } => ("setup", vec![pause as usize, count]),
        };
        let numbers = numbers.iter().map(ToString::to_string);
        std::iter::once(name.to_owned()).chain(numbers).collect()
    }

    fn parse(words: &[String]) -> Self {
        let number = |at: usize| words[at].parse::<usize>().expect("a number");
        match words[0].as_str() {
            "ping" => Self::Ping {
                bytes: number(1),
                pause: number(2) as u64,
                count: number(3),
            },
            "keep-alive" => Self::KeepAlive { count: number(1) },
            "crowd" => Self::Crowd {
                clients: number(1),
                gets: number(2),
            },
            "requests" => Self::Requests {
                connections: number(1),
                active: number(2),
            },
            "setup" => Self::Setup {
                pause: number(1) as u64,
                count: number(2),
            },
            other => panic!("no workload {other}"),
        }
    }
}

/// Runs the part that the arguments name and prints what it is asked for.
pub(crate) fn run(arguments: &[String]) {
    if arguments[0] == "hog" {
        burn();
    }
    if arguments[0] == "threads" {
        let number = |at: usize| arguments[at].parse().expect("a number");
        let figure = threads::round(number(1), number(2), Transport::parse(&arguments[3]));
        println!("figure {figure}");
        return;
    }
    let transport = Transport::parse(&arguments[1]);
    let flavor = Flavor::parse(&arguments[2]);
    let stack = (transport == Transport::Smc).then(crate::transport::stack);
    if arguments[0] == "server" {
        std::thread::spawn(|| {
            let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
            std::process::exit(0)
        });
        serve(Workload::parse(&arguments[3..]), transport, flavor, stack);
    } else {
        let workload = Workload::parse(&arguments[4..]);
        let (figure, smc) = client(workload, transport, flavor, stack, arguments[3].clone());
        println!("figure {figure} {smc}");
    }
}

fn serve(workload: Workload, transport: Transport, flavor: Flavor, stack: Option<Stack>) {
    match workload {
        Workload::Ping { bytes, .. } => flavor.run(ping::serve(transport, stack, bytes)),
        Workload::KeepAlive { .. } | Workload::Crowd { .. } => {
            flavor.run(http::serve(transport, stack));
        }
        Workload::Requests { .. } | Workload::Setup { .. } => epoll::serve(transport, stack),
    }
}

/// The figure, and how many connections were SMC.
fn client(
    workload: Workload,
    transport: Transport,
    flavor: Flavor,
    stack: Option<Stack>,
    address: String,
) -> (f64, usize) {
    let figure = match workload {
        Workload::Ping {
            bytes,
            pause,
            count,
        } => {
            let pause = Duration::from_micros(pause);
            flavor.run(ping::client(transport, stack, address, bytes, pause, count))
        }
        Workload::KeepAlive { count } => {
            flavor.run(http::keep_alive(transport, stack, address, count))
        }
        Workload::Crowd { clients, gets } => {
            flavor.run(http::crowd(transport, stack, address, clients, gets))
        }
        Workload::Requests {
            connections,
            active,
        } => {
            return epoll::requests(transport, stack.as_ref(), &address, connections, active);
        }
        Workload::Setup { pause, count } => {
            let pause = Duration::from_micros(pause);
            return setup::client(transport, stack.as_ref(), &address, pause, count);
        }
    };
    (figure, carried_by_smc())
}

/// Uses a core up, for a minute at most.
fn burn() -> ! {
    let begin = std::time::Instant::now();
    let mut number = 1_u64;
    while begin.elapsed() < Duration::from_secs(60) {
        for _ in 0..1_000_000 {
            number = std::hint::black_box(number.wrapping_mul(6_364_136_223_846_793_005));
        }
    }
    std::process::exit(0)
}

/// A process of a round, ended when dropped.
struct Part {
    child: Child,
    /// The process ends by itself when its input does, as its tracer has to write down what it
    /// counted.
    traced: bool,
}

impl Drop for Part {
    fn drop(&mut self) {
        if self.traced {
            drop(self.child.stdin.take());
        } else {
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }
}

impl Part {
    fn start(mut command: Command, words: &[String]) -> (Self, BufReader<ChildStdout>) {
        let traced = command.get_program() != this().get_program();
        let child = command
            .arg("part")
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut child = child.expect("a process of this program");
        let lines = BufReader::new(child.stdout.take().expect("its output"));
        (Self { child, traced }, lines)
    }
}

fn line(lines: &mut BufReader<ChildStdout>, key: &str) -> String {
    let mut line = String::new();
    let read = lines.read_line(&mut line).expect("a line");
    assert!(read > 0, "the process ended before its line {key:?}");
    let rest = line.trim().strip_prefix(key);
    rest.unwrap_or_else(|| panic!("{line:?} instead of {key:?}"))
        .trim()
        .to_owned()
}

fn this() -> Command {
    Command::new(std::env::current_exe().expect("this program"))
}

/// What a round came out at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Figure {
    pub(crate) value: f64,
    /// Connections that were SMC.
    pub(crate) smc: usize,
}

/// One round in two new processes.
pub(crate) fn round(workload: Workload, transport: Transport, flavor: Flavor, hog: bool) -> Figure {
    round_by(workload, transport, flavor, hog, &this)
}

/// One round whose programs are started as `program` says.
pub(crate) fn round_by(
    workload: Workload,
    transport: Transport,
    flavor: Flavor,
    hog: bool,
    program: &dyn Fn() -> Command,
) -> Figure {
    let _hog = hog.then(|| Part::start(this(), &["hog".to_owned()]));
    let mut words = vec!["server".to_owned(), transport.to_string(), flavor.name()];
    words.extend(workload.words());
    let (server, mut lines) = Part::start(program(), &words);
    let address = line(&mut lines, "listening");
    words[0] = "client".to_owned();
    words.insert(3, address.clone());
    let (client, mut lines) = Part::start(program(), &words);
    let figure = line(&mut lines, "figure");
    drop((client, server));
    if transport == Transport::Unix {
        let _ = std::fs::remove_file(address);
    }
    let (value, smc) = figure.split_once(' ').expect("two numbers");
    Figure {
        value: value.parse().expect("a number"),
        smc: smc.parse().expect("a number"),
    }
}

/// One round of threads that have both ends each, in a new process.
pub(crate) fn round_of_threads(threads: usize, bytes: usize, transport: Transport) -> f64 {
    let words = [
        "threads".to_owned(),
        threads.to_string(),
        bytes.to_string(),
        transport.to_string(),
    ];
    let (_part, mut lines) = Part::start(this(), &words);
    line(&mut lines, "figure").parse().expect("a number")
}

/// What counts system calls. `perf` lets the processes run at their speed; `strace` stops them
/// at each call, so that their timing is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tracer {
    Perf,
    Strace,
}

impl Tracer {
    /// The best one that works here.
    pub(crate) fn find() -> Option<Self> {
        let works = |tracer: &Self| {
            let probe = tracer.command(Path::new("/dev/null")).arg("true").output();
            probe.is_ok_and(|probe| probe.status.success())
        };
        [Self::Perf, Self::Strace].into_iter().find(works)
    }

    /// The beginning of a command that counts the calls of the program that follows.
    fn command(self, file: &Path) -> Command {
        let (program, arguments): (_, &[_]) = match self {
            Self::Perf => ("perf", &["stat", "-x,", "-e", "raw_syscalls:sys_enter"]),
            Self::Strace => ("strace", &["-f", "-qq"]),
        };
        let mut command = Command::new(program);
        command.args(arguments).arg("-o").arg(file);
        command
    }

    /// The calls that a file names.
    fn count(self, text: &str) -> u64 {
        match self {
            Self::Perf => {
                let line = text.lines().find(|line| line.contains("raw_syscalls"));
                let number = line.and_then(|line| line.split(',').next());
                number.and_then(|at| at.parse().ok()).expect("a number")
            }
            Self::Strace => text.lines().filter(|line| line.contains('(')).count() as u64,
        }
    }

    /// System calls of both processes in one round.
    pub(crate) fn system_calls(
        self,
        workload: Workload,
        transport: Transport,
        flavor: Flavor,
    ) -> u64 {
        let folder =
            std::env::temp_dir().join(format!("smc-event-loops-{}.calls", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        let counter = std::cell::Cell::new(0);
        let program = || {
            counter.set(counter.get() + 1);
            let mut command = self.command(&folder.join(counter.get().to_string()));
            command.arg(std::env::current_exe().expect("this program"));
            command
        };
        round_by(workload, transport, flavor, false, &program);
        let files = std::fs::read_dir(&folder).expect("the folder");
        let text = files.map(|file| std::fs::read_to_string(file.expect("a file").path()));
        let count = text.map(|text| self.count(&text.expect("its text"))).sum();
        let _ = std::fs::remove_dir_all(&folder);
        count
    }
}
