//! What a rule is.

use core::fmt;

use crate::deviation::Deviation;
use crate::state::link::LinkIndex;
use crate::state::side::Side;

/// What a rule is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Chapter {
    /// CLC messages, one by one and in order.
    Clc,
    /// What both sides agree on: version, release, limits, EIDs.
    Version,
    /// First and subsequent contact.
    Contact,
    /// The TCP connection behind the CLC messages.
    Tcp,
    /// LLC messages: form, requests and replies.
    Llc,
    /// Links and their making and ending.
    Links,
    /// RTokens, and which side may write where.
    Rkeys,
    /// CDC messages and cursors.
    Cdc,
    /// Windows.
    Window,
    /// Urgent data.
    Urgent,
    /// Ends of connections.
    Close,
    /// Changes of link.
    Failover,
}

impl Chapter {
    /// All of them, in order.
    pub const ALL: [Self; 12] = [
        Self::Clc,
        Self::Version,
        Self::Contact,
        Self::Tcp,
        Self::Llc,
        Self::Links,
        Self::Rkeys,
        Self::Cdc,
        Self::Window,
        Self::Urgent,
        Self::Close,
        Self::Failover,
    ];

    /// Title of the chapter.
    #[must_use]
    pub const fn title(self) -> &'static str {
        match self {
            Self::Clc => "CLC messages",
            Self::Version => "Versions and what is agreed on",
            Self::Contact => "First and subsequent contact",
            Self::Tcp => "The TCP connection",
            Self::Llc => "LLC messages",
            Self::Links => "Links",
            Self::Rkeys => "RTokens and RDMA WRITEs",
            Self::Cdc => "CDC messages and cursors",
            Self::Window => "Windows",
            Self::Urgent => "Urgent data",
            Self::Close => "Close and abort",
            Self::Failover => "Failover",
        }
    }
}

/// One rule: what it asks for, and what has to be known for that.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Rule {
    /// Name of the rule, unique.
    pub name: &'static str,
    /// Chapter of the rule.
    pub chapter: Chapter,
    /// The requirement: of RFC 7609, `docs/smc-v2.md` or `docs/smc-d.md`.
    pub id: &'static str,
    /// What the capture must hold for it to be judged.
    pub needs: &'static str,
    /// The rule as a sentence.
    pub says: &'static str,
}

impl Rule {
    /// Whether the rule can be trusted in a group of which messages are missing: it reads
    /// the message alone, or knows which messages of a connection it misses.
    pub(crate) fn bears_gaps(&self) -> bool {
        let alone = self.needs == "the message" || self.needs.starts_with("the message, ");
        let of_connections = matches!(
            self.chapter,
            Chapter::Cdc | Chapter::Window | Chapter::Urgent | Chapter::Close | Chapter::Failover
        );
        alone || of_connections
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.id, self.name)
    }
}

/// The judgement of a rule about something seen.
pub(crate) enum Judgement {
    /// The message keeps the rule, or the rule does not apply to it.
    Fine,
    /// The capture does not contain enough.
    Unknown,
    /// A violation, in a sentence.
    Wrong(String),
    /// A violation unless a timer has run out, which it cannot have by the clock of the
    /// capture.
    Early(String),
    /// A violation unless the sender has lost the link that it leaves out.
    Omits {
        link: LinkIndex,
        by: Side,
        sentence: String,
    },
    /// A violation that is known of some peers, and why.
    Known(&'static Deviation, String),
}

/// A violation in these words.
macro_rules! wrong {
    ($($words:tt)*) => { $crate::rule::Judgement::Wrong(format!($($words)*)) };
}
pub(crate) use wrong;

/// A violation in these words, unless a clock runs ahead.
macro_rules! early {
    ($($words:tt)*) => { $crate::rule::Judgement::Early(format!($($words)*)) };
}
pub(crate) use early;

/// A rule and how it judges what `J` takes.
pub(crate) struct Row<J> {
    pub(crate) rule: Rule,
    pub(crate) judge: J,
}

/// A table of rules of one chapter; the judges are functions of that name.
macro_rules! rules {
    ($(#[$meta:meta])* $table:ident: $view:ident, $chapter:ident;
     $($judge:ident $id:literal $name:literal needs $needs:literal says $says:literal;)*) => {
        $(#[$meta])*
        pub(crate) static $table: &[$crate::rule::Row<for<'a> fn(&$view<'a>) -> $crate::rule::Judgement>] = &[
            $($crate::rule::Row {
                rule: $crate::rule::Rule {
                    name: $name,
                    chapter: $crate::rule::Chapter::$chapter,
                    id: $id,
                    needs: $needs,
                    says: $says,
                },
                judge: $judge,
            },)*
        ];
    };
}
pub(crate) use rules;
