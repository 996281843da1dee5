//! Messages by kind and direction.

use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::llc::LlcMessage;

/// Kinds of messages, in the order in which they are shown.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "named as RFC 7609 names them")]
pub enum Kind {
    TcpOption,
    Proposal,
    Accept,
    Confirm,
    Decline,
    ConfirmLink,
    AddLink,
    AddLinkContinuation,
    RequestAddLink,
    DeleteLink,
    ConfirmRkey,
    ConfirmRkeyContinuation,
    TestLink,
    DeleteRkey,
    Cdc,
    Write,
    Move,
    IsmEvent,
}

/// To which family a kind belongs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs, reason = "named as RFC 7609 names them")]
pub enum Family {
    Tcp,
    Clc,
    Llc,
    Cdc,
    Write,
    Event,
}

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 18] = [
        Self::TcpOption,
        Self::Proposal,
        Self::Accept,
        Self::Confirm,
        Self::Decline,
        Self::ConfirmLink,
        Self::AddLink,
        Self::AddLinkContinuation,
        Self::RequestAddLink,
        Self::DeleteLink,
        Self::ConfirmRkey,
        Self::ConfirmRkeyContinuation,
        Self::TestLink,
        Self::DeleteRkey,
        Self::Cdc,
        Self::Write,
        Self::Move,
        Self::IsmEvent,
    ];

    /// The name in `smcx decode --json`, and the one for people.
    #[must_use]
    pub const fn names(self) -> (&'static str, &'static str) {
        match self {
            Self::TcpOption => ("TcpOption", "TCP SYN with SMC option"),
            Self::Proposal => ("Proposal", "CLC Proposal"),
            Self::Accept => ("Accept", "CLC Accept"),
            Self::Confirm => ("Confirm", "CLC Confirm"),
            Self::Decline => ("Decline", "CLC Decline"),
            Self::ConfirmLink => ("ConfirmLink", "LLC CONFIRM LINK"),
            Self::AddLink => ("AddLink", "LLC ADD LINK"),
            Self::AddLinkContinuation => ("AddLinkContinuation", "LLC ADD LINK CONTINUATION"),
            Self::RequestAddLink => ("RequestAddLink", "LLC REQUEST ADD LINK"),
            Self::DeleteLink => ("DeleteLink", "LLC DELETE LINK"),
            Self::ConfirmRkey => ("ConfirmRkey", "LLC CONFIRM RKEY"),
            Self::ConfirmRkeyContinuation => {
                ("ConfirmRkeyContinuation", "LLC CONFIRM RKEY CONTINUATION")
            }
            Self::TestLink => ("TestLink", "LLC TEST LINK"),
            Self::DeleteRkey => ("DeleteRkey", "LLC DELETE RKEY"),
            Self::Cdc => ("Cdc", "CDC"),
            Self::Write => ("Write", "RDMA WRITE"),
            Self::Move => ("Move", "ISM MOVE"),
            Self::IsmEvent => ("IsmEvent", "ISM EVENT"),
        }
    }

    /// Family of the kind.
    #[must_use]
    pub const fn family(self) -> Family {
        match self {
            Self::TcpOption => Family::Tcp,
            Self::Proposal | Self::Accept | Self::Confirm | Self::Decline => Family::Clc,
            Self::Cdc => Family::Cdc,
            Self::Write | Self::Move => Family::Write,
            Self::IsmEvent => Family::Event,
            _ => Family::Llc,
        }
    }
}

impl From<&ClcMessage> for Kind {
    fn from(message: &ClcMessage) -> Self {
        match message {
            ClcMessage::Proposal(_) => Self::Proposal,
            ClcMessage::Accept(_) | ClcMessage::SmcdAccept(_) => Self::Accept,
            ClcMessage::Confirm(_) | ClcMessage::SmcdConfirm(_) => Self::Confirm,
            ClcMessage::Decline(_) => Self::Decline,
        }
    }
}

impl From<&LlcMessage<'_>> for Kind {
    fn from(message: &LlcMessage<'_>) -> Self {
        match message {
            LlcMessage::ConfirmLink(_) => Self::ConfirmLink,
            LlcMessage::AddLink(_) => Self::AddLink,
            LlcMessage::AddLinkContinuation(_) => Self::AddLinkContinuation,
            LlcMessage::DeleteLink(_) => Self::DeleteLink,
            LlcMessage::RequestAddLink(_) => Self::RequestAddLink,
            LlcMessage::ConfirmRkey(_) => Self::ConfirmRkey,
            LlcMessage::ConfirmRkeyContinuation(_) => Self::ConfirmRkeyContinuation,
            LlcMessage::TestLink(_) => Self::TestLink,
            LlcMessage::DeleteRkey(_) => Self::DeleteRkey,
        }
    }
}

/// How many messages went from client to server, and how many back.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tally {
    counts: [[u64; 2]; Kind::ALL.len()],
    write_bytes: [u64; 2],
}

impl Tally {
    pub(super) const NONE: Self = Self {
        counts: [[0; 2]; Kind::ALL.len()],
        write_bytes: [0; 2],
    };

    pub(super) fn add(&mut self, kind: Kind, to_server: bool) {
        if let Some([there, back]) = self.counts.get_mut(kind as usize) {
            *if to_server { there } else { back } += 1;
        }
    }

    /// Adds a WRITE of SMC-R or a move of SMC-D.
    pub(super) fn add_write(&mut self, kind: Kind, bytes: u64, to_server: bool) {
        self.add(kind, to_server);
        let [there, back] = &mut self.write_bytes;
        *if to_server { there } else { back } += bytes;
    }

    /// Messages of a kind: to the server, and to the client.
    #[must_use]
    pub fn of(&self, kind: Kind) -> [u64; 2] {
        self.counts.get(kind as usize).copied().unwrap_or_default()
    }

    /// Bytes of all WRITEs and moves: to the server, and to the client.
    #[must_use]
    pub const fn write_bytes(&self) -> [u64; 2] {
        self.write_bytes
    }

    /// All messages of a kind.
    #[must_use]
    pub fn total(&self, kind: Kind) -> u64 {
        self.of(kind).iter().sum()
    }

    /// All messages of a family.
    #[must_use]
    pub fn family(&self, family: Family) -> u64 {
        let mine = Kind::ALL.iter().filter(|kind| kind.family() == family);
        mine.map(|kind| self.total(*kind)).sum()
    }

    /// Messages of all kinds.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.counts.iter().flatten().sum()
    }

    /// What was added since an earlier state.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let mut since = *self;
        for (now, before) in since.counts.iter_mut().zip(earlier.counts) {
            *now = [now[0] - before[0], now[1] - before[1]];
        }
        let ([now, before], bytes) = (
            [self.write_bytes, earlier.write_bytes],
            &mut since.write_bytes,
        );
        *bytes = [now[0] - before[0], now[1] - before[1]];
        since
    }
}
