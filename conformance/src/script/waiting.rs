//! The states in which an endpoint waits for its peer during the rendezvous.

use smc_proto::config::Config;
use smc_proto::id::ConnId;

use super::Script;

/// What the endpoint waits for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Waiting {
    /// Client, without a group.
    Accept,
    /// Client, with a group.
    SubsequentAccept,
    /// Client.
    ConfirmLink,
    /// Client.
    AddLink,
    /// Server.
    Proposal,
    /// Server, founding a group.
    Confirm,
    /// Server, with a group.
    SubsequentConfirm,
    /// Server.
    ConfirmLinkReply,
    /// Server.
    AddLinkReply,
}

impl Waiting {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Accept,
        Self::SubsequentAccept,
        Self::ConfirmLink,
        Self::AddLink,
        Self::Proposal,
        Self::Confirm,
        Self::SubsequentConfirm,
        Self::ConfirmLinkReply,
        Self::AddLinkReply,
    ];
    /// States in which a CLC message is due.
    pub const FOR_CLC: [Self; 5] = [
        Self::Accept,
        Self::SubsequentAccept,
        Self::Proposal,
        Self::Confirm,
        Self::SubsequentConfirm,
    ];
    /// States of the LLC phase of a first contact.
    pub const FOR_LLC: [Self; 4] = [
        Self::ConfirmLink,
        Self::AddLink,
        Self::ConfirmLinkReply,
        Self::AddLinkReply,
    ];

    /// Whether the connection joins a group that exists.
    #[must_use]
    pub const fn is_subsequent(self) -> bool {
        matches!(self, Self::SubsequentAccept | Self::SubsequentConfirm)
    }

    /// An endpoint with default settings in this state.
    #[must_use]
    #[track_caller]
    pub fn reach(self) -> (Script, ConnId) {
        self.reach_with(|_| {})
    }

    /// An endpoint with these settings in this state, nothing left to expect.
    #[must_use]
    #[track_caller]
    pub fn reach_with(self, configure: impl FnOnce(&mut Config)) -> (Script, ConnId) {
        let mut s = Script::with(configure);
        let conn = match self {
            Self::Accept => Self::proposed(&mut s),
            Self::SubsequentAccept => {
                s.client_first_contact();
                Self::proposed(&mut s)
            }
            Self::ConfirmLink => s.client_confirms().0,
            Self::AddLink => s.client_confirms_link().0,
            Self::Proposal => s.listen(),
            Self::Confirm => s.server_accepts().0,
            Self::SubsequentConfirm => {
                s.server_first_contact();
                s.server_accepts().0
            }
            Self::ConfirmLinkReply => s.server_asks_to_confirm().0,
            Self::AddLinkReply => s.server_adds_link().0,
        };
        s.skip();
        s.note(format_args!("{conn} waits for {self:?}"));
        (s, conn)
    }

    #[track_caller]
    fn proposed(s: &mut Script) -> ConnId {
        let conn = s.connect();
        s.expect_proposal(conn);
        conn
    }
}
