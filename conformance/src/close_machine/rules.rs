//! In what the engine differs from the abstract model.

/// In what the engine differs from the model: all of it at once is what the engine does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// Nothing follows C: who waits too long after it, or hears of an abort, says no more.
    pub last_word: bool,
    /// An application may abort whenever it likes, and not only by closing too early.
    pub aborts: bool,
    /// Octets that were written are sent before the close that follows them is told; if
    /// that takes too long, it becomes an abort.
    pub lingers: bool,
    /// A peer that closed takes no octets any more: those that are left are an abort, and
    /// none are added.
    pub early: bool,
    /// Octets that wait leave together.
    pub together: bool,
    /// A message says all that earlier ones said, which say nothing any more if they arrive
    /// behind it.
    pub newest: bool,
    /// Who loses the last link has nothing more to read.
    pub purges: bool,
}

impl Rules {
    /// The model.
    pub const NONE: Self = Self {
        last_word: false,
        aborts: false,
        lingers: false,
        early: false,
        together: false,
        newest: false,
        purges: false,
    };

    /// Each rule alone, and what it says.
    pub const SINGLE: [(&'static str, Self); 7] = {
        let mut single = [
            ("nothing follows C", Self::NONE),
            ("applications abort whenever they like", Self::NONE),
            (
                "what was written is sent before a close is told",
                Self::NONE,
            ),
            ("a peer that closed takes no octets", Self::NONE),
            ("octets leave together", Self::NONE),
            ("the newest message says it all", Self::NONE),
            ("without a link nothing is left to read", Self::NONE),
        ];
        single[0].1.last_word = true;
        single[1].1.aborts = true;
        single[2].1.lingers = true;
        single[3].1.early = true;
        single[4].1.together = true;
        single[5].1.newest = true;
        single[6].1.purges = true;
        single
    };

    /// The engine.
    pub const ALL: Self = Self {
        last_word: true,
        aborts: true,
        lingers: true,
        early: true,
        together: true,
        newest: true,
        purges: true,
    };
}
