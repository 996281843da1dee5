//! How a run went, in a few lines.

use std::collections::BTreeMap;
use std::fmt;

use conformance::scripts::Outcome;

/// How many scripts passed, failed, and were not for a live peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Scripts that passed.
    pub passed: usize,
    /// Scripts that needed a second attempt with longer pauses.
    pub again: usize,
    /// Scripts that failed.
    pub failed: usize,
    /// Lines of these about what applications of sockets cannot see.
    pub left_out: usize,
    /// Scripts that are not for a live peer, by the reason.
    pub not_for_it: BTreeMap<String, usize>,
}

impl Summary {
    /// Whether a run is one to rely on: something was played, nothing failed, and at most a
    /// tenth of it passed only with longer pauses. More of these are no busy machine, but an
    /// engine that is late.
    #[must_use]
    pub const fn is_well(&self) -> bool {
        let played = self.passed + self.failed;
        played > 0 && self.failed == 0 && self.again * 10 <= played
    }

    /// Of a run.
    #[must_use]
    pub fn of(outcomes: &[Outcome]) -> Self {
        let mut summary = Self::default();
        for outcome in outcomes {
            summary.left_out += outcome.left_out;
            match (&outcome.problem, &outcome.skipped) {
                (Some(_), _) => summary.failed += 1,
                (None, None) => {
                    summary.passed += 1;
                    summary.again += usize::from(outcome.again);
                }
                (None, Some(why)) => {
                    *summary.not_for_it.entry(why.clone()).or_default() += 1;
                }
            }
        }
        summary
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            passed,
            again,
            failed,
            left_out,
            not_for_it,
        } = self;
        let others: usize = not_for_it.values().sum();
        write!(
            f,
            "{passed} passed ({again} with longer pauses), {failed} failed, \
             {others} not for a live peer"
        )?;
        for (why, count) in not_for_it {
            write!(f, "\n{count:>6}  {why}")?;
        }
        write!(
            f,
            "\n{left_out} lines about what no application sees were left out"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::Summary;

    #[test]
    fn a_run_with_failures_or_many_second_attempts_is_not_well() {
        let of = |passed, again, failed| Summary {
            passed,
            again,
            failed,
            ..Summary::default()
        };
        assert!(of(100, 0, 0).is_well() && of(100, 10, 0).is_well());
        assert!(!of(100, 11, 0).is_well());
        assert!(!of(100, 0, 1).is_well());
        assert!(!of(0, 0, 0).is_well());
    }
}
