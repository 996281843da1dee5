//! Plays a script.

mod compare;
mod expect;
mod receive;
mod send;

use core::time::Duration;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::fmt;

use super::capture::{Record, Recorded};
use super::describe::describe;
use super::parsed::{Act, Kind, ParsedScript, Pattern, RnicAct, Step, Transmission, When, Where};
use super::peer::Peer;
use super::wire::{Host, Seen, Target, Wire};

/// Why a script failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Where, as `file:line`.
    pub place: String,
    /// The line.
    pub line: String,
    /// What was expected.
    pub expected: String,
    /// What came.
    pub came: String,
    /// Transcript until then.
    pub transcript: String,
    /// What went on in the engine's host.
    pub inside: String,
    /// The command that plays it again.
    pub replay: String,
}

impl Failure {
    /// A script that there is no bench for.
    #[must_use]
    pub fn of_bench(script: &ParsedScript, why: &impl fmt::Display) -> Self {
        Self {
            place: script.name.clone(),
            line: String::new(),
            expected: "a bench".to_owned(),
            came: why.to_string(),
            transcript: String::new(),
            inside: String::new(),
            replay: String::new(),
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}: {}", self.place, self.line)?;
        writeln!(f, "  expected: {}", self.expected)?;
        writeln!(f, "  came:     {}", self.came)?;
        writeln!(f, "  again:    {}", self.replay)?;
        writeln!(f, "the wire:\n{}", self.transcript)?;
        write!(f, "the engine's host:\n{}", self.inside)
    }
}

/// A script that was played.
#[derive(Clone, Debug)]
pub struct Played {
    /// How it failed, if it did.
    pub failure: Option<Failure>,
    /// What was on the wire.
    pub record: Vec<Record>,
    /// Time it took, virtual if the bench's is.
    pub time: Duration,
    /// Lines about what the host's applications cannot see, which were left out.
    pub left_out: usize,
}

/// What the engine sent over one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Channel {
    Tcp(u8),
    Link(u8),
}

#[derive(Clone, Debug)]
struct Item {
    at: Duration,
    what: Came,
}

#[derive(Clone, Debug)]
enum Came {
    Message(Kind, Vec<u8>),
    Bytes(Vec<u8>),
    Fin,
    Reset,
    Write {
        key: u64,
        address: u64,
        bytes: Vec<u8>,
    },
}

impl fmt::Display for Came {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Message(_, bytes) => f.write_str(&describe(bytes)),
            Self::Bytes(bytes) => write!(f, "octets {bytes:02x?}"),
            Self::Fin => f.write_str("TCP fin"),
            Self::Reset => f.write_str("TCP rst"),
            Self::Write {
                key,
                address,
                bytes,
            } => write!(f, "WRITE {} octets to {key:#x}@{address:#x}", bytes.len()),
        }
    }
}

/// What was expected, and what came.
struct Wrong {
    expected: String,
    came: String,
}

fn wrong<T>(expected: impl fmt::Display, came: impl fmt::Display) -> Result<T, Wrong> {
    Err(Wrong {
        expected: expected.to_string(),
        came: came.to_string(),
    })
}

impl From<String> for Wrong {
    fn from(came: String) -> Self {
        Self {
            expected: "that this can be done".to_owned(),
            came,
        }
    }
}

struct Run<'b, B> {
    bench: &'b mut B,
    peer: Peer,
    /// When the last line was done.
    mark: Duration,
    queues: BTreeMap<Channel, VecDeque<Item>>,
    seen: BTreeMap<u8, VecDeque<(Duration, Seen)>>,
    /// Events of links and groups; few scripts are about them.
    group_events: VecDeque<Seen>,
    ignored: Vec<Pattern>,
    variables: HashMap<String, u128>,
    transcript: Vec<String>,
    record: Vec<Record>,
    left_out: usize,
    /// Why the wire could not do what messages of the engine ask for.
    broken: Option<String>,
}

/// Plays a script on a bench that was set up for it.
pub fn play<B: Wire + Host>(script: &ParsedScript, bench: &mut B) -> Played {
    let mut run = Run {
        bench,
        peer: Peer::new(&script.setup),
        mark: Duration::ZERO,
        queues: BTreeMap::new(),
        seen: BTreeMap::new(),
        group_events: VecDeque::new(),
        ignored: Vec::new(),
        variables: HashMap::new(),
        transcript: Vec::new(),
        record: Vec::new(),
        left_out: 0,
        broken: None,
    };
    let failed = match run.steps(&script.steps) {
        Ok(()) => run.end().err().map(|wrong| (None, wrong)),
        Err(failed) => {
            let (step, wrong) = *failed;
            Some((Some(step), wrong))
        }
    };
    let failure = failed.map(|(step, wrong)| Failure {
        place: match &step {
            Some(step) => format!("{}:{}", step.at.file, step.at.line),
            None => format!("{} (the end)", script.name),
        },
        line: step.map_or_else(|| "the script is over".to_owned(), |step| step.text),
        expected: wrong.expected,
        came: wrong.came,
        transcript: run.transcript.join("\n"),
        inside: run.bench.inside().join("\n"),
        replay: format!("cargo run -p conformance -- scripts {}", script.name),
    });
    Played {
        failure,
        time: run.bench.now(),
        record: run.record,
        left_out: run.left_out,
    }
}

impl<B: Wire + Host> Run<'_, B> {
    fn steps(&mut self, steps: &[Step]) -> Result<(), Box<(Step, Wrong)>> {
        for step in steps {
            if let Act::Repeat(count, inner) = &step.act {
                for index in 0..*count {
                    self.variables.insert("i".to_owned(), index.into());
                    self.steps(inner)?;
                }
                continue;
            }
            self.step(step)
                .map_err(|wrong| Box::new((step.clone(), wrong)))?;
            if let Some(fault) = self.bench.fault() {
                let came = fault.to_owned();
                let wrong = Wrong {
                    expected: "an engine that keeps the contract with its host".to_owned(),
                    came,
                };
                return Err(Box::new((step.clone(), wrong)));
            }
            self.mark = self.bench.now();
        }
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<(), Wrong> {
        match &step.act {
            Act::Engine(of, transmission) => self.expect(*of, step.when, transmission),
            Act::Seen(of, sees) => self.expect_seen(*of, step.when, sees),
            act => {
                if let Some(when) = step.when {
                    self.wait_until(self.mark + when.from);
                }
                self.act(act)
            }
        }
    }

    fn act(&mut self, act: &Act) -> Result<(), Wrong> {
        match act {
            Act::Peer(of, transmission) => self.send(*of, transmission)?,
            Act::App(of, act) => {
                let begins = match act {
                    super::parsed::AppAct::Connect(_) => Some(true),
                    super::parsed::AppAct::Listen(_) => Some(false),
                    _ => None,
                };
                let qpn = match act {
                    super::parsed::AppAct::DeleteLink(number) => self.peer.qpn(*number),
                    _ => None,
                };
                if let Some(engine_is_client) = begins {
                    self.peer.begins(of.conn);
                    self.queues.remove(&Channel::Tcp(of.conn));
                    self.put_down(Recorded::Open {
                        conn: of.conn,
                        engine_is_client,
                    });
                }
                self.note(format_args!("app.{} {act:?}", of.conn));
                self.bench.app(of.conn, act, qpn)?;
            }
            Act::Rnic(act) => {
                let qpn = match act {
                    RnicAct::Breaks(number, _) => self.peer.qpn(*number),
                    _ => None,
                };
                self.note(format_args!("rnic {act:?}"));
                self.bench.rnic(act, qpn)?;
            }
            Act::Wait(time) => self.wait_until(self.mark + *time),
            Act::Nothing(time) => return self.expect_nothing(*time),
            Act::Ignore(pattern) => self.ignored.push(*pattern),
            Act::Engine(..) | Act::Seen(..) | Act::Repeat(..) => {}
        }
        self.absorb();
        Ok(())
    }

    fn note(&mut self, line: impl fmt::Display) {
        // A flood needs no transcript of its own.
        if self.transcript.len() < 2_000 {
            let at = format!("{:?}", self.bench.now());
            self.transcript.push(format!("{at:>12}  {line}"));
        }
    }

    fn put_down(&mut self, what: Recorded) {
        if self.record.len() < 20_000 {
            let at = self.bench.now();
            self.record.push(Record { at, what });
        }
    }

    fn wait_until(&mut self, until: Duration) {
        loop {
            self.bench.pass(until);
            self.absorb();
            if self.bench.now() >= until {
                return;
            }
        }
    }

    fn end(&mut self) -> Result<(), Wrong> {
        // What is still on its way arrives.
        self.wait_until(self.bench.now() + self.bench.haste());
        if let Some(why) = self.broken.take() {
            return wrong("a wire", why);
        }
        if let Some(left) = self.left_over() {
            return wrong("nothing more", left);
        }
        match self.bench.run_out() {
            Ok(()) => Ok(()),
            Err(left) => wrong("everything runs out and nothing is left", left),
        }
    }

    /// Where a message of the peer goes.
    fn target(&self, of: Where) -> Result<Target, Wrong> {
        Ok(self.peer.target(of.conn, of.link)?)
    }

    fn channel(&self, of: Where, transmission: &Transmission) -> Channel {
        let tcp = match transmission {
            Transmission::Message(message) => matches!(message.kind, Kind::Clc(..)),
            Transmission::Raw { tcp, .. } => *tcp,
            Transmission::Fin | Transmission::Reset => true,
            Transmission::Write { .. } | Transmission::Breaks => false,
        };
        if tcp {
            Channel::Tcp(of.conn)
        } else if self.peer.is_ism() {
            Channel::Link(of.conn)
        } else {
            Channel::Link(of.link)
        }
    }
}

/// The span in which something has to come, with what is due at once.
const fn span(when: Option<When>) -> (Duration, Duration) {
    match when {
        Some(when) => (when.from, when.to),
        None => (Duration::ZERO, Duration::ZERO),
    }
}
