//! Lines that processes of the soak write for its supervisor.

use std::fmt;
use std::str::FromStr;

use rustix::time::{ClockId, clock_gettime};

/// Microseconds of the clock that all processes of a host share.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) struct Moment(pub(crate) u64);

impl Moment {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Monotonic);
        Self(now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000)
    }

    pub(crate) fn micros_since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// What a process reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Report {
    /// A server accepts connections.
    Listening,
    /// A connection is established, over SMC or not.
    Connected { smc: bool },
    /// A request was answered; bytes of both.
    Answered { bytes: u64 },
    /// A request had no progress between these moments.
    Stalled {
        server: usize,
        from: Moment,
        to: Moment,
        /// What happens next was not waited for by the moment it is reported.
        goes_on: bool,
    },
    /// A connection failed.
    Failed {
        server: usize,
        at: Moment,
        why: String,
    },
    /// A wrong byte was read.
    Wrong { server: usize, what: String },
    /// A thread of the process got no CPU between these moments.
    Starved { from: Moment, to: Moment },
    /// A forked child ended.
    Forked { status: i32 },
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Listening => write!(f, "listening"),
            Self::Connected { smc } => write!(f, "connected {smc}"),
            Self::Answered { bytes } => write!(f, "answered {bytes}"),
            Self::Stalled {
                server,
                from,
                to,
                goes_on,
            } => write!(f, "stalled {server} {} {} {goes_on}", from.0, to.0),
            Self::Failed { server, at, why } => write!(f, "failed {server} {} {why}", at.0),
            Self::Wrong { server, what } => write!(f, "wrong {server} {what}"),
            Self::Starved { from, to } => write!(f, "starved {} {}", from.0, to.0),
            Self::Forked { status } => write!(f, "forked {status}"),
        }
    }
}

impl FromStr for Report {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let parsed = || {
            let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
            let mut fields = rest.splitn(3, ' ');
            let mut field = || fields.next();
            let moment = |field: Option<&str>| Some(Moment(field?.parse().ok()?));
            Some(match name {
                "listening" => Self::Listening,
                "connected" => Self::Connected {
                    smc: field()?.parse().ok()?,
                },
                "answered" => Self::Answered {
                    bytes: field()?.parse().ok()?,
                },
                "stalled" => {
                    let server = field()?.parse().ok()?;
                    let from = moment(field())?;
                    let (to, goes_on) = field()?.split_once(' ')?;
                    Self::Stalled {
                        server,
                        from,
                        to: moment(Some(to))?,
                        goes_on: goes_on.parse().ok()?,
                    }
                }
                "failed" => Self::Failed {
                    server: field()?.parse().ok()?,
                    at: moment(field())?,
                    why: field()?.to_owned(),
                },
                "wrong" => {
                    let (server, what) = rest.split_once(' ')?;
                    Self::Wrong {
                        server: server.parse().ok()?,
                        what: what.to_owned(),
                    }
                }
                "starved" => Self::Starved {
                    from: moment(field())?,
                    to: moment(field())?,
                },
                "forked" => Self::Forked {
                    status: field()?.parse().ok()?,
                },
                _ => return None,
            })
        };
        parsed().ok_or_else(|| line.to_owned())
    }
}

impl Report {
    /// Writes the line. A process whose supervisor is gone has nothing to report.
    pub(crate) fn send(&self) {
        use std::io::Write;
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{self}").and_then(|()| out.flush()).is_err() {
            std::process::exit(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Moment, Report};

    #[test]
    fn each_line_is_read_as_it_was_written() {
        let (from, to) = (Moment(3), Moment(u64::MAX));
        for report in [
            Report::Listening,
            Report::Connected { smc: true },
            Report::Answered { bytes: 9 },
            Report::Stalled {
                server: 2,
                from,
                to,
                goes_on: true,
            },
            Report::Failed {
                server: 1,
                at: from,
                why: "Connection reset by peer (os error 104)".into(),
            },
            Report::Wrong {
                server: 0,
                what: "3 of 9".into(),
            },
            Report::Starved { from, to },
            Report::Forked { status: 256 },
        ] {
            assert_eq!(report.to_string().parse(), Ok(report));
        }
        assert_eq!("Panicked at".parse::<Report>(), Err("Panicked at".into()));
    }
}
