//! Which scripts no live peer can be asked to follow, by their content.

use std::fmt;
use std::time::Duration;

use conformance::scripts::{
    Act, AppAct, AppSees, Kind, ParsedScript, RnicAct, Setting, Step, Transmission, Value, names,
};

/// Bytes of a message of version 1.
const MESSAGE: usize = 44;

/// What the stack under test, and the bench, can be made to do.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// What its RNICs can be made to do.
    pub rnic: fn(&RnicAct) -> bool,
    /// What its applications can do.
    pub app: fn(&AppAct) -> bool,
    /// Settings it has.
    pub takes: fn(&Setting) -> bool,
    /// RNICs of its host.
    pub rnics: u8,
    /// Longest that a script may wait in all.
    pub longest: Duration,
}

/// Why a script is not for a live peer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Unfit {
    /// The script uses SMC-D.
    SharedMemory,
    /// The engine of the script has this setting, which sockets do not have.
    Setting(String),
    /// The script needs more RNICs.
    Rnics,
    /// RNICs are made to fail in ways that these cannot be.
    Faults,
    /// The engine gets orders that no application of sockets can give.
    Orders,
    /// The peer announces memory that it does not have, and the engine writes there: an RNIC
    /// would refuse that.
    Nowhere,
    /// The peer sends more bytes than there is room for: an RNIC would refuse that.
    TooLong,
    /// The peer has reset TCP and waits for what comes over it.
    AfterReset,
    /// The script waits too long for timers: that needs the simulated clock.
    Clock,
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::SharedMemory => f.write_str("SMC-D goes over no RNIC"),
            Self::Setting(name) => write!(f, "sockets have no setting {name}"),
            Self::Rnics => f.write_str("the host has fewer RNICs"),
            Self::Faults => f.write_str("RNICs are made to fail as these cannot be"),
            Self::Orders => f.write_str("sockets cannot give the engine such orders"),
            Self::Nowhere => f.write_str("an RNIC refuses writes to memory that is not there"),
            Self::TooLong => f.write_str("an RNIC refuses messages that are too long"),
            Self::AfterReset => f.write_str("nothing arrives over TCP that was reset"),
            Self::Clock => f.write_str("its timers need the simulated clock"),
        }
    }
}

/// Why a script is not for such a stack, if it is not.
#[must_use]
pub fn unfit(script: &ParsedScript, abilities: &Abilities) -> Option<Unfit> {
    if script.setup.form.is_ism() {
        return Some(Unfit::SharedMemory);
    }
    let mut settings = script.setup.settings.iter();
    if let Some(setting) = settings.find(|setting| !(abilities.takes)(setting)) {
        return Some(Unfit::Setting(setting.name.clone()));
    }
    if script.setup.rnics > abilities.rnics {
        return Some(Unfit::Rnics);
    }
    let mut course = Course {
        rnic: abilities.rnic,
        app: abilities.app,
        v2: script.setup.form.is_v2(),
        waits: Duration::ZERO,
        nowhere: false,
        reset: Vec::new(),
    };
    let found = course.steps(&script.steps);
    found.or_else(|| (course.waits > abilities.longest).then_some(Unfit::Clock))
}

/// State of the conversation so far.
struct Course {
    rnic: fn(&RnicAct) -> bool,
    app: fn(&AppAct) -> bool,
    v2: bool,
    waits: Duration,
    /// The peer has announced memory it does not have.
    nowhere: bool,
    /// TCP connections that it has reset.
    reset: Vec<u8>,
}

impl Course {
    fn steps(&mut self, steps: &[Step]) -> Option<Unfit> {
        steps.iter().find_map(|step| {
            self.waits += step.when.map_or(Duration::ZERO, |when| when.from);
            self.act(&step.act)
        })
    }

    fn act(&mut self, act: &Act) -> Option<Unfit> {
        match act {
            Act::Wait(time) | Act::Nothing(time) => {
                self.waits += *time;
                None
            }
            Act::Repeat(count, inner) => {
                let before = std::mem::take(&mut self.waits);
                let found = self.steps(inner);
                let count = u32::try_from(*count).unwrap_or(u32::MAX);
                self.waits = before + self.waits.saturating_mul(count);
                found
            }
            Act::Rnic(act) => (!(self.rnic)(act)).then_some(Unfit::Faults),
            Act::Peer(of, sent) => self.peer(of.conn, sent),
            Act::Engine(of, sent) => match sent {
                Transmission::Write { .. } if self.nowhere => Some(Unfit::Nowhere),
                Transmission::Fin | Transmission::Reset if self.reset.contains(&of.conn) => {
                    Some(Unfit::AfterReset)
                }
                _ => None,
            },
            Act::App(_, act) if !(self.app)(act) => Some(Unfit::Orders),
            Act::App(_, act) => of_act(act),
            Act::Seen(_, AppSees::Proposed) => Some(Unfit::Orders),
            Act::Seen(..) | Act::Ignore(_) => None,
        }
    }

    fn peer(&mut self, conn: u8, sent: &Transmission) -> Option<Unfit> {
        match sent {
            Transmission::Breaks if !(self.rnic)(&of_peer()) => return Some(Unfit::Faults),
            Transmission::Breaks => {}
            Transmission::Reset => self.reset.push(conn),
            Transmission::Raw { tcp: false, bytes } if !self.v2 && bytes.len() > MESSAGE => {
                return Some(Unfit::TooLong);
            }
            Transmission::Message(message) => {
                let names_memory = matches!(message.kind, Kind::Clc(..));
                let mut fields = message.fields.iter();
                self.nowhere |= names_memory && fields.any(is_nowhere);
                let over_link = !matches!(message.kind, Kind::Clc(..));
                let longer = |setting: &Setting| {
                    let name = setting.name.as_str();
                    name == "append" || name.starts_with("insert")
                };
                if over_link && !self.v2 && message.fields.iter().any(longer) {
                    return Some(Unfit::TooLong);
                }
            }
            Transmission::Raw { .. } | Transmission::Fin | Transmission::Write { .. } => {}
        }
        None
    }
}

/// What happens to the engine's RNIC when the peer's queue pair breaks.
fn of_peer() -> RnicAct {
    RnicAct::Breaks(1, "retries".to_owned())
}

/// Whether it is a key or an address that no memory of the peer has.
fn is_nowhere(setting: &Setting) -> bool {
    let Value::Number(value, _) = setting.value else {
        return false;
    };
    match setting.name.as_str() {
        "rkey" => names::rmb_of(value).is_none(),
        "address" => (1..=3)
            .all(|link| (1..=u8::MAX).all(|conn| names::offset_of(link, conn, value).is_none())),
        _ => false,
    }
}

fn of_act(act: &AppAct) -> Option<Unfit> {
    match act {
        // The state of a TCP connection comes from the kernel, and not from the script.
        AppAct::Connect(options) | AppAct::Listen(options) => {
            let mut named = options.iter().map(|setting| setting.name.clone());
            named.next().map(Unfit::Setting)
        }
        AppAct::Accept | AppAct::Decline(_) | AppAct::DeleteGroup | AppAct::DeleteLink(_) => {
            Some(Unfit::Orders)
        }
        AppAct::Write(_)
        | AppAct::Urgent(_)
        | AppAct::Shutdown
        | AppAct::ShutdownRead
        | AppAct::Close
        | AppAct::Abort => None,
    }
}
