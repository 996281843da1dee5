//! Violations that are known of some peers, and why they do no harm.

/// Systems known to do it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Whose {
    /// Linux kernels; this engine does not.
    Kernels,
    /// Linux kernels, and this engine as well.
    Both,
}

/// A known deviation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Deviation {
    /// Name of the deviation, unique.
    pub name: &'static str,
    /// The systems that do it.
    pub whose: Whose,
    /// What is done, and why it is taken.
    pub why: &'static str,
}

macro_rules! deviations {
    ($($konst:ident $name:literal $whose:ident $why:literal;)*) => {
        $(pub(crate) static $konst: Deviation = Deviation {
            name: $name,
            whose: Whose::$whose,
            why: $why,
        };)*
        /// All known deviations.
        pub static DEVIATIONS: &[&Deviation] = &[$(&$konst),*];
    };
}

deviations! {
    CONTINUATION_OF_CONNECTIONS "continuation-count" Kernels
        "Linux counts connections, not RMBs, in ADD LINK CONTINUATION, and fills up with pairs of zeros (deviations.md, LLC-036 and LLC-040)";
    ABORT_ON_OTHER_LINK "abort-on-other-link" Kernels
        "Linux answers a validation of what it did not get with an abort on the link that carried it (the connection is over either way)";
    VALIDATION_ONE_BEHIND "validation-one-behind" Kernels
        "Linux names in a validation the number before that of the message that was completed last, and resumes behind that message (its data has arrived either way)";
    ANNOUNCED_EARLY "urgent-announced-early" Kernels
        "Linux announces urgent data while earlier urgent data is unread, and a Linux peer then no longer knows the earlier one (deviations.md, URG-009)";
    ABORT_AT_THE_END "abort-at-the-end" Kernels
        "when a group ends Linux aborts every connection that it still has, also one whose own end was closed and not the peer's";
}
