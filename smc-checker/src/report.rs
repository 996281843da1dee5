//! What was found.

use core::fmt;
use std::collections::BTreeMap;

use crate::deviation::{Deviation, Whose};
use crate::rule::Rule;
use crate::state::group::GroupNumber;
use crate::state::link::LinkIndex;
use crate::state::side::Side;

/// Findings that are kept; further ones are only counted.
const MAX_FINDINGS: usize = 10_000;

/// A rule that was violated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// The frame that did it.
    pub frame: u64,
    /// Time of that frame, in nanoseconds.
    pub time: u64,
    /// The rule.
    pub rule: &'static Rule,
    /// What happened, in a sentence.
    pub sentence: String,
    /// The reason, if it is a known deviation of a peer.
    pub known: Option<&'static Deviation>,
    /// Whether a timer that ran out would explain it, and only the clock of the capture
    /// shows that none can have.
    pub early: bool,
    /// The link group that it is about.
    pub(crate) group: Option<u64>,
    /// The link that was left out, if that is what was found.
    pub(crate) omission: Option<Omission>,
}

/// A link of its group that a message leaves out. The sender may have lost it, which DELETE
/// LINK over another link announces in a moment, or never if no other link is left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Omission {
    pub(crate) group: GroupNumber,
    pub(crate) link: LinkIndex,
    pub(crate) by: Side,
}

impl Finding {
    /// Whether it is a violation, and not a deviation that is known of kernels.
    #[must_use]
    pub const fn is_violation(&self) -> bool {
        self.known.is_none()
    }

    /// Whether it is one for this project's engine, which does not share all of the
    /// deviations of kernels.
    #[must_use]
    pub fn is_ours_to_answer(&self) -> bool {
        self.known.is_none_or(|known| known.whose == Whose::Kernels)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {}: {}: {}", self.frame, self.rule, self.sentence)?;
        self.known
            .map_or(Ok(()), |known| write!(f, " [known: {}]", known.why))
    }
}

/// How much was checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Seen {
    /// Frames.
    pub frames: u64,
    /// TCP connections whose SYN has the SMC option.
    pub tcp_connections: u64,
    /// Connections that were carried by SMC-R.
    pub smcr_connections: u64,
    /// Connections that were carried by SMC-D, of which only CLC is seen.
    pub smcd_connections: u64,
    /// Link groups.
    pub groups: u64,
    /// CLC messages.
    pub clc: u64,
    /// LLC messages.
    pub llc: u64,
    /// CDC messages.
    pub cdc: u64,
    /// RDMA WRITEs.
    pub writes: u64,
    /// LLC and CDC messages and RDMA WRITEs on links whose beginning is not in the
    /// capture, so that they could not be judged.
    pub strangers: u64,
}

/// Result of a capture.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Report {
    /// Findings in the order of the frames, the first 10,000.
    pub findings: Vec<Finding>,
    /// Findings beyond those.
    pub dropped: u64,
    /// How much was checked.
    pub seen: Seen,
    /// How often rules had to pass, by name, as the capture does not contain enough.
    pub unjudged: BTreeMap<&'static str, u64>,
}

impl Report {
    pub(crate) fn add(&mut self, finding: Finding) {
        if self.findings.len() < MAX_FINDINGS {
            self.findings.push(finding);
        } else {
            self.dropped += 1;
        }
    }

    /// Takes back what was found in a group from a frame on: messages are missing
    /// there that might explain it.
    pub(crate) fn withdraw(&mut self, group: u64, since: u64) {
        self.withdraw_if(|finding| finding.group == Some(group) && finding.frame >= since);
    }

    /// Takes back that a side left out a link which it had lost, as it turns out: since
    /// this time.
    pub(crate) fn excuse(&mut self, omission: Omission, since: u64) {
        self.withdraw_if(|finding| finding.omission == Some(omission) && finding.time >= since);
    }

    /// Takes back findings that cannot be judged after all.
    pub(crate) fn withdraw_if(&mut self, doubtful: impl Fn(&Finding) -> bool) {
        let unjudged = &mut self.unjudged;
        self.findings.retain(|finding| {
            let doubtful = doubtful(finding);
            if doubtful {
                *unjudged.entry(finding.rule.name).or_default() += 1;
            }
            !doubtful
        });
    }

    /// Whether nothing was found that has no explanation.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.dropped == 0 && !self.findings.iter().any(Finding::is_violation)
    }

    /// Findings for which this project's engine has to answer. If `clocks_jumped` it is unknown
    /// which of its timers had run out.
    pub fn for_our_engine(&self, clocks_jumped: bool) -> impl Iterator<Item = &Finding> {
        let early = move |finding: &&Finding| finding.early && clocks_jumped;
        self.findings
            .iter()
            .filter(|finding| finding.is_ours_to_answer())
            .filter(move |finding| !early(finding))
    }
}
