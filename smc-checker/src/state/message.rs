//! One representation of the LLC messages of SMC-R versions 1 and 2, for the rules that hold for
//! both. The checker converts each parsed message by [`Message::of`].

use smc_proto::version::SmcVersion;
use smc_proto::wire::llc::{
    AddLink, AddLinkContinuation, ConfirmLink, ConfirmRkey, ConfirmRkeyContinuation, DeleteLink,
    DeleteLinkFlags, LlcMessage, RTokenPair, RkeyFlags, TestLink,
};
use smc_proto::wire::types::{LinkNumber, RKey};

/// An LLC message of either version.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    ConfirmLink(ConfirmLink),
    /// ADD LINK, with the RToken pairs of its extension in version 2; `None` in version 1.
    AddLink(AddLink<'static>, Option<Vec<RTokenPair>>),
    Continuation(AddLinkContinuation),
    DeleteLink(DeleteLink),
    RequestAddLink {
        reply: bool,
    },
    ConfirmRkey(ConfirmRkey),
    ConfirmRkeyContinuation(ConfirmRkeyContinuation),
    TestLink(TestLink),
    DeleteRkey {
        reply: bool,
        flags: RkeyFlags,
        rkeys: Vec<RKey>,
        /// Whether the reply repeats the RKeys, which is so in version 1.
        echoes: bool,
    },
}

/// Type of an LLC message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    ConfirmLink,
    AddLink,
    Continuation,
    DeleteLink,
    RequestAddLink,
    ConfirmRkey,
    ConfirmRkeyContinuation,
    TestLink,
    DeleteRkey,
}

impl Kind {
    /// Name of the type in RFC 7609.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::ConfirmLink => "CONFIRM LINK",
            Self::AddLink => "ADD LINK",
            Self::Continuation => "ADD LINK CONTINUATION",
            Self::DeleteLink => "DELETE LINK",
            Self::RequestAddLink => "REQUEST ADD LINK",
            Self::ConfirmRkey => "CONFIRM RKEY",
            Self::ConfirmRkeyContinuation => "CONFIRM RKEY CONTINUATION",
            Self::TestLink => "TEST LINK",
            Self::DeleteRkey => "DELETE RKEY",
        }
    }
}

impl Message {
    /// Type of the message.
    pub(crate) fn kind(&self) -> Kind {
        match self {
            Self::ConfirmLink(_) => Kind::ConfirmLink,
            Self::AddLink(..) => Kind::AddLink,
            Self::Continuation(_) => Kind::Continuation,
            Self::DeleteLink(_) => Kind::DeleteLink,
            Self::RequestAddLink { .. } => Kind::RequestAddLink,
            Self::ConfirmRkey(_) => Kind::ConfirmRkey,
            Self::ConfirmRkeyContinuation(_) => Kind::ConfirmRkeyContinuation,
            Self::TestLink(_) => Kind::TestLink,
            Self::DeleteRkey { .. } => Kind::DeleteRkey,
        }
    }

    /// Whether the message is a reply.
    pub(crate) fn is_reply(&self) -> bool {
        match self {
            Self::ConfirmLink(m) => m.reply,
            Self::AddLink(m, _) => m.reply,
            Self::Continuation(m) => m.reply,
            Self::DeleteLink(m) => m.reply,
            Self::RequestAddLink { reply } | Self::DeleteRkey { reply, .. } => *reply,
            Self::ConfirmRkey(m) => m.reply,
            Self::ConfirmRkeyContinuation(m) => m.reply,
            Self::TestLink(m) => m.reply,
        }
    }

    /// Number of the link that an ADD LINK adds.
    pub(crate) fn adds(&self) -> Option<LinkNumber> {
        match self {
            Self::AddLink(m, _) => Some(m.link),
            _ => None,
        }
    }

    /// Whether the message is a DELETE LINK request for all links, which ends the link group.
    pub(crate) fn ends_group(&self) -> bool {
        matches!(self, Self::DeleteLink(m) if !m.reply && m.flags.contains(DeleteLinkFlags::ALL))
    }
}

impl Message {
    /// Converts a parsed message of `version`.
    pub(crate) fn of(message: &LlcMessage<'_>, version: SmcVersion) -> Self {
        let v2 = version == SmcVersion::V2;
        match message {
            LlcMessage::ConfirmLink(m) => Self::ConfirmLink(*m),
            LlcMessage::AddLink(m) => {
                let pairs = m.extension.iter().flat_map(|e| e.rtokens).collect();
                let extension = None;
                Self::AddLink(AddLink { extension, ..*m }, v2.then_some(pairs))
            }
            LlcMessage::AddLinkContinuation(m) => Self::Continuation(m.clone()),
            LlcMessage::DeleteLink(m) => Self::DeleteLink(*m),
            LlcMessage::RequestAddLink(m) => Self::RequestAddLink { reply: m.reply },
            LlcMessage::ConfirmRkey(m) => Self::ConfirmRkey(m.clone()),
            LlcMessage::ConfirmRkeyContinuation(m) => Self::ConfirmRkeyContinuation(m.clone()),
            LlcMessage::TestLink(m) => Self::TestLink(*m),
            LlcMessage::DeleteRkey(m) => Self::DeleteRkey {
                reply: m.reply,
                flags: m.flags,
                rkeys: m.rkeys.iter().collect(),
                echoes: !v2,
            },
        }
    }
}
