//! Which faults took effect, and when.

use super::{FaultKind, Phase};

/// How often faults of one kind took effect in one phase.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Effect {
    /// What went wrong.
    pub kind: FaultKind,
    /// What the link group or the host was doing.
    pub phase: Phase,
    /// How often.
    pub times: u64,
}
