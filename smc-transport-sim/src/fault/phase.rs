//! What a link group was doing when a fault struck it.

use std::fmt;

/// What a link group, or a host, is doing, as seen from its wires: from the
/// messages that are on their way and from the states of its queue pairs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Phase {
    /// No message is on its way.
    Idle,
    /// CLC messages, and the queue pair they speak of.
    Handshake,
    /// The first CONFIRM LINK of a group.
    FirstContact,
    /// ADD LINK to the CONFIRM LINK of the new link.
    AddingLink,
    /// DELETE LINK.
    DeletingLink,
    /// CONFIRM RKEY or DELETE RKEY.
    Rkeys,
    /// RDMA WRITEs and CDC messages.
    Data,
    /// A link is lost and its connections move to another one.
    FailingOver,
    /// CDC messages that end a connection.
    Closing,
}

impl Phase {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Idle,
        Self::Handshake,
        Self::FirstContact,
        Self::AddingLink,
        Self::DeletingLink,
        Self::Rkeys,
        Self::Data,
        Self::FailingOver,
        Self::Closing,
    ];

    /// Short name for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Handshake => "handshake",
            Self::FirstContact => "first contact",
            Self::AddingLink => "adding a link",
            Self::DeletingLink => "deleting a link",
            Self::Rkeys => "rkeys",
            Self::Data => "data",
            Self::FailingOver => "failing over",
            Self::Closing => "closing",
        }
    }

    /// Of several groups, the one with the most significant phase: an exchange is more significant
    /// than data, data more than nothing.
    pub(crate) const fn weight(self) -> u8 {
        match self {
            Self::Idle => 0,
            Self::Data => 1,
            Self::Closing => 2,
            Self::Handshake => 3,
            Self::Rkeys => 4,
            Self::FirstContact => 5,
            Self::AddingLink => 6,
            Self::DeletingLink => 7,
            Self::FailingOver => 8,
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
