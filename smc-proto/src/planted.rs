//! Mistakes put in on purpose, to see that tests find them. For tests only:
//! without the feature `planted-bugs` no configuration names one, and every hook
//! is a constant `false` that compiles to nothing.
//!
//! At least one for each invariant of the reliability goals, I1 to I13.

#![cfg_attr(
    not(feature = "planted-bugs"),
    expect(unreachable_pub, reason = "public with the feature only")
)]

#[cfg(feature = "planted-bugs")]
use crate::config::Config;
use crate::config::ConnectionConfig;
#[cfg(feature = "planted-bugs")]
use crate::version::Technology;

/// A mistake.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PlantedBug {
    /// I1: the peer's ring is taken for twice its size.
    DoubleRing,
    /// I2: a link fails, and what was lost on it is not written again.
    SkipRewind,
    /// I2: a failover validation that reports lost bytes is ignored.
    IgnoreValidation,
    /// I3: after an abort a failover writes again what the abort gave up.
    WriteAfterAbort,
    /// I4: an element is cleared while it is in use.
    ClearInUse,
    /// I4: an element is given back when this side closed, before the peer did.
    ReuseEarly,
    /// I4: buffers are given back before their queue pairs are drained.
    FreeBeforeDrained,
    /// I5: a SEND in flight is forgotten.
    ForgetSend,
    /// I6: a slot is freed while it is still in a list.
    FreeListedSlot,
    /// I7: links have no timer: neither TEST LINK nor DELETE LINK is waited for.
    NoLlcTimer,
    /// I8: a writer that found no space is not notified when there is some again.
    LoseWake,
    /// I9: a connection ends twice.
    EndTwice,
    /// I10: a cursor that has to wait behind other CDC messages is never sent.
    DropCdc,
    /// I11: a buffer of a group that ended is kept.
    LeakBuffer,
    /// I12: a side falls back to TCP without a Decline.
    SilentFallback,
    /// I13: the receiver of a CDC message is searched for among all connections.
    WalkAll,
    /// I2, SMC-D: what a device could not move is announced to the peer all the same.
    IgnoreFailedMove,
    /// I4, SMC-D: a DMB is given to the next connection while the peer may write to it.
    ReuseDmb,
    /// I10, SMC-D: a message that announces the peer's end is dropped.
    LoseSignal,
}

#[cfg(feature = "planted-bugs")]
impl PlantedBug {
    /// All of them.
    pub const ALL: [Self; 19] = [
        Self::DoubleRing,
        Self::SkipRewind,
        Self::IgnoreValidation,
        Self::WriteAfterAbort,
        Self::ClearInUse,
        Self::ReuseEarly,
        Self::FreeBeforeDrained,
        Self::ForgetSend,
        Self::FreeListedSlot,
        Self::NoLlcTimer,
        Self::LoseWake,
        Self::EndTwice,
        Self::DropCdc,
        Self::LeakBuffer,
        Self::SilentFallback,
        Self::WalkAll,
        Self::IgnoreFailedMove,
        Self::ReuseDmb,
        Self::LoseSignal,
    ];

    /// What it concerns; `None` if it is one and the same code for both.
    #[must_use]
    pub const fn technology(self) -> Option<Technology> {
        match self {
            Self::DoubleRing | Self::EndTwice => None,
            Self::LeakBuffer | Self::FreeListedSlot => None,
            Self::IgnoreFailedMove | Self::ReuseDmb | Self::LoseSignal => Some(Technology::SmcD),
            _ => Some(Technology::SmcR),
        }
    }
}

#[cfg(feature = "planted-bugs")]
impl Config {
    /// Makes an endpoint with this mistake.
    pub const fn plant(&mut self, bug: PlantedBug) {
        self.connection.planted = Some(bug);
    }
}

impl ConnectionConfig {
    /// Whether this mistake is to be made.
    #[cfg(feature = "planted-bugs")]
    #[inline]
    pub(crate) fn planted(&self, bug: PlantedBug) -> bool {
        self.planted == Some(bug)
    }

    /// No mistake is ever to be made.
    #[cfg(not(feature = "planted-bugs"))]
    #[expect(clippy::unused_self, reason = "the same call as with the feature")]
    #[inline(always)]
    pub(crate) const fn planted(&self, _bug: PlantedBug) -> bool {
        false
    }
}
