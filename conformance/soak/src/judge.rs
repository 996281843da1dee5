//! Whether what processes reported follows from what was done to them.

use crate::report::{Moment, Report};

/// Microseconds before and after an intervention in which it may have consequences.
const BEFORE: u64 = 20_000;
const AFTER: u64 = 200_000;

/// Microseconds after a server was killed within which its connections fail, and new ones
/// are refused.
const FAILING: u64 = 3_000_000;

/// A process of the soak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    Server(usize),
    Client(usize),
}

/// What was done to a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Done {
    Killed,
    /// Stopped from then on until this moment.
    Stopped {
        until: Moment,
    },
    /// Forked, which takes a moment in which all its memory is write-protected.
    Forked,
}

/// An intervention, or a moment in which a process got no CPU.
#[derive(Clone, Copy, Debug)]
struct Excuse {
    which: Which,
    from: Moment,
    to: Moment,
    killed: bool,
}

/// Collects what happened and finds what follows from nothing.
#[derive(Debug, Default)]
pub(crate) struct Judge {
    excuses: Vec<Excuse>,
    reports: Vec<(usize, Report)>,
    pub(crate) smc: u64,
    pub(crate) tcp: u64,
    pub(crate) requests: u64,
    pub(crate) bytes: u64,
    pub(crate) stalls_explained: u64,
    pub(crate) failures_explained: u64,
    findings: Vec<String>,
}

impl Judge {
    /// Notes an intervention.
    pub(crate) fn intervene(&mut self, which: Which, at: Moment, done: Done) {
        let to = match done {
            Done::Stopped { until } => until,
            Done::Killed | Done::Forked => at,
        };
        self.excuses.push(Excuse {
            which,
            from: at,
            to,
            killed: done == Done::Killed,
        });
    }

    /// Takes what a process reported.
    pub(crate) fn take(&mut self, which: Which, report: Report) {
        match (which, report) {
            (_, Report::Listening) => {}
            (_, Report::Connected { smc: true }) => self.smc += 1,
            (_, Report::Connected { smc: false }) => self.tcp += 1,
            (_, Report::Answered { bytes }) => {
                self.requests += 1;
                self.bytes += bytes;
            }
            (_, Report::Wrong { server, what }) => {
                self.findings.push(format!(
                    "wrong bytes over server {server}, at {which:?}: {what}"
                ));
            }
            (_, Report::Starved { from, to }) => self.excuses.push(Excuse {
                which,
                from,
                to,
                killed: false,
            }),
            (_, Report::Forked { status: 0 }) => {}
            (_, Report::Forked { status }) => {
                self.findings
                    .push(format!("a forked child of {which:?} ended with {status}"));
            }
            (Which::Client(client), report) => self.reports.push((client, report)),
            (Which::Server(_), report) => self.findings.push(format!("{which:?}: {report}")),
        }
    }

    /// A line that is none of the soak's.
    pub(crate) fn stray(&mut self, which: Which, line: &str) {
        self.findings.push(format!("{which:?}: {line}"));
    }

    /// A finding of the supervisor.
    pub(crate) fn find(&mut self, finding: String) {
        self.findings.push(finding);
    }

    /// Everything that follows from no intervention, in words.
    pub(crate) fn findings(&mut self) -> Vec<String> {
        let mut findings = std::mem::take(&mut self.findings);
        for (client, report) in std::mem::take(&mut self.reports) {
            let explained = self.explains(client, &report);
            match report {
                Report::Stalled { .. } if explained => self.stalls_explained += 1,
                Report::Failed { .. } if explained => self.failures_explained += 1,
                _ => findings.push(format!("client {client}: {report}")),
            }
        }
        findings
    }

    fn explains(&self, client: usize, report: &Report) -> bool {
        let (server, from, to, failed) = match *report {
            Report::Stalled {
                server, from, to, ..
            } => (server, from, to, false),
            Report::Failed { server, at, .. } => (server, at, at, true),
            _ => return false,
        };
        let of = |which| which == Which::Server(server) || which == Which::Client(client);
        self.excuses.iter().any(|excuse| {
            let after = if excuse.killed { FAILING } else { AFTER };
            of(excuse.which)
                && (!failed || excuse.killed)
                && excuse.from.0.saturating_sub(BEFORE) <= to.0
                && from.0 <= excuse.to.0.saturating_add(after)
                // A stall does not go on after its reason.
                && (excuse.killed || to.0 <= excuse.to.0.saturating_add(after))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Done, Judge, Which};
    use crate::report::{Moment, Report};

    const SECOND: u64 = 1_000_000;

    fn stalled(server: usize, from: u64, to: u64) -> Report {
        Report::Stalled {
            server,
            from: Moment(from),
            to: Moment(to),
            goes_on: false,
        }
    }

    fn findings(interventions: &[(Which, u64, Done)], report: Report) -> usize {
        let mut judge = Judge::default();
        for (which, at, done) in interventions {
            judge.intervene(*which, Moment(*at), *done);
        }
        judge.take(Which::Client(0), report);
        judge.findings().len()
    }

    #[test]
    fn a_stall_is_explained_by_a_process_that_was_stopped_then() {
        let until = Moment(2 * SECOND);
        let stop = |which| [(which, SECOND, Done::Stopped { until })];
        let stall = stalled(1, SECOND - 5_000, 2 * SECOND + 90_000);
        assert_eq!(findings(&stop(Which::Server(1)), stall.clone()), 0);
        assert_eq!(findings(&stop(Which::Client(0)), stall.clone()), 0);
        // Another process, or none.
        assert_eq!(findings(&stop(Which::Server(2)), stall.clone()), 1);
        assert_eq!(findings(&stop(Which::Client(1)), stall.clone()), 1);
        assert_eq!(findings(&[], stall), 1);
        // It went on after its server did.
        let longer = stalled(1, SECOND, 3 * SECOND);
        assert_eq!(findings(&stop(Which::Server(1)), longer), 1);
    }

    #[test]
    fn a_connection_fails_only_if_its_server_was_killed() {
        let failed = |at| Report::Failed {
            server: 1,
            at: Moment(at),
            why: "reset".into(),
        };
        let killed = [(Which::Server(1), SECOND, Done::Killed)];
        assert_eq!(findings(&killed, failed(SECOND + 1)), 0);
        assert_eq!(findings(&killed, failed(9 * SECOND)), 1);
        let until = Moment(2 * SECOND);
        let stopped = [(Which::Server(1), SECOND, Done::Stopped { until })];
        assert_eq!(findings(&stopped, failed(SECOND + 1)), 1);
    }

    #[test]
    fn wrong_bytes_are_a_finding_whatever_was_done() {
        let killed = [(Which::Server(1), SECOND, Done::Killed)];
        let (server, what) = (1, String::new());
        assert_eq!(findings(&killed, Report::Wrong { server, what }), 1);
    }
}
