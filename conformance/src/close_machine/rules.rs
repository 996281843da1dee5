//! In what the engine differs from the abstract model.

/// In what the engine differs from the model: all of it at once is what the engine does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Rules {
    /// Nothing follows C: a side that waits too long after it, or receives an abort, sends no more.
    pub final_message: bool,
    /// An application may abort whenever it likes, and not only by closing too early.
    pub aborts: bool,
    /// Bytes that were written are sent before the close that follows them is announced; if
    /// that takes too long, it becomes an abort.
    pub lingers: bool,
    /// A peer that closed takes no bytes any more: those that are left are an abort, and
    /// none are added.
    pub early: bool,
    /// Bytes that wait leave together.
    pub together: bool,
    /// A message contains all that earlier ones contained, which have no effect any more
    /// if they arrive behind it.
    pub newest: bool,
    /// A side that loses the last link has nothing more to read.
    pub purges: bool,
}

impl Rules {
    /// The model.
    pub const NONE: Self = Self {
        final_message: false,
        aborts: false,
        lingers: false,
        early: false,
        together: false,
        newest: false,
        purges: false,
    };

    /// Each rule alone, as a sentence.
    pub const SINGLE: [(&'static str, Self); 7] = {
        let mut single = [
            ("nothing follows C", Self::NONE),
            ("applications abort whenever they like", Self::NONE),
            (
                "what was written is sent before a close is announced",
                Self::NONE,
            ),
            ("a peer that closed takes no octets", Self::NONE),
            ("octets leave together", Self::NONE),
            ("the newest message contains it all", Self::NONE),
            ("without a link nothing is left to read", Self::NONE),
        ];
        single[0].1.final_message = true;
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
        final_message: true,
        aborts: true,
        lingers: true,
        early: true,
        together: true,
        newest: true,
        purges: true,
    };
}
