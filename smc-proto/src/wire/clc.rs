//! CLC messages (RFC 7609 A.2): the rendezvous over the TCP connection, in
//! version 1 and 2, for SMC-R and SMC-D.
//!
//! Read [`HEADER_LENGTH`] octets, ask [`ClcHeader::parse`] for the length,
//! read exactly the rest, then [`ClcMessage::parse`]. The octet behind a
//! message belongs to the next message or, after a fallback, to the
//! application.
//!
//! ```
//! use smc_proto::wire::clc::{ClcHeader, ClcMessage, ClcVersion, Decline, MAX_LENGTH, PeerOs};
//! use smc_proto::wire::types::{DiagnosisCode, PeerId};
//!
//! let decline = ClcMessage::Decline(Decline {
//!     version: ClcVersion::V1,
//!     out_of_sync: false,
//!     peer_id: PeerId::default(),
//!     diagnosis: DiagnosisCode::NO_DEVICE,
//!     os: PeerOs::UNKNOWN,
//! });
//! let mut buffer = [0; MAX_LENGTH];
//! let sent = decline.emit(&mut buffer)?;
//!
//! let header = ClcHeader::parse(&buffer[..8])?;
//! assert_eq!(usize::from(header.length), sent);
//! let (received, taken) = ClcMessage::parse(&buffer)?;
//! assert_eq!((received, taken), (decline, sent));
//! # Ok::<(), Box<dyn core::error::Error>>(())
//! ```

use core::fmt;

use super::BufferTooSmall;

mod accept_confirm;
mod decline;
mod error;
mod first_contact;
mod gid_list;
mod header;
mod parts;
mod proposal;
mod smcd_accept_confirm;

pub use super::types::PeerOs;
pub use accept_confirm::{AcceptConfirm, AcceptConfirmV2};
pub use decline::Decline;
pub use error::ClcParseError;
pub use first_contact::FirstContactExtension;
pub use gid_list::GidList;
pub use header::{ClcHeader, ClcKind, ClcVersion, EYE_CATCHER, EYE_CATCHER_SMCD, HEADER_LENGTH};
pub use proposal::{
    Ipv6Prefix, IsmArea, IsmGidEntry, IsmGidList, IsmGids, OfferedPath, Proposal, SmcdOffer,
    Subnets, V2Offer,
};
pub use smcd_accept_confirm::{SmcdAcceptConfirm, SmcdAcceptConfirmV2};

/// Length of an Accept and of a Confirm of SMC-R in version 1, in octets.
pub const ACCEPT_CONFIRM_LENGTH: usize = 68;
/// The least length of an Accept and of a Confirm of SMC-R in version 2, in
/// octets: that of a subsequent contact.
pub const ACCEPT_CONFIRM_V2_LENGTH: usize = 108;
/// Length of an Accept and of a Confirm of SMC-D in version 1, in octets.
pub const SMCD_ACCEPT_CONFIRM_LENGTH: usize = 48;
/// The least length of an Accept and of a Confirm of SMC-D in version 2, in
/// octets: that of a subsequent contact.
pub const SMCD_ACCEPT_CONFIRM_V2_LENGTH: usize = 78;
/// Length of a Decline in version 1, in octets.
pub const DECLINE_LENGTH: usize = 28;
/// Length of a Decline in version 2, in octets.
pub const DECLINE_V2_LENGTH: usize = 44;
/// The longest message there is, in octets: a version-2 Proposal with eight
/// prefixes, eight EIDs and eight GIDs. A buffer of this size takes every
/// message.
pub const MAX_LENGTH: usize = 652;

/// A CLC message.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
// A Proposal is the largest; there is no allocator to box it with, and one
// message is in hand at a time.
#[allow(clippy::large_enum_variant)]
pub enum ClcMessage {
    /// The client opens the rendezvous.
    Proposal(Proposal),
    /// The server takes part, with SMC-R.
    Accept(AcceptConfirm),
    /// The client agrees to SMC-R.
    Confirm(AcceptConfirm),
    /// The server takes part, with SMC-D.
    SmcdAccept(SmcdAcceptConfirm),
    /// The client agrees to SMC-D.
    SmcdConfirm(SmcdAcceptConfirm),
    /// Either side withdraws; the connection goes on as TCP.
    Decline(Decline),
}

impl ClcMessage {
    /// Reads the message at the start of `octets` and returns how many octets
    /// it took, which is the Length of its header.
    ///
    /// Nothing behind that length is read. Reserved fields are ignored.
    ///
    /// # Errors
    /// [`ClcParseError`]; `TooShort` if `octets` ends before the message does.
    //= CLC-006
    pub fn parse(octets: &[u8]) -> Result<(Self, usize), ClcParseError> {
        let header = ClcHeader::parse(octets)?;
        let length = usize::from(header.length);
        //= CLC-014
        //= CLC-015
        let Some(message) = octets.get(..length) else {
            return Err(ClcParseError::TooShort {
                have: octets.len(),
                needed: length,
            });
        };
        //= CLC-003
        //= CLC-004
        if let Some(found) = message.last_chunk::<4>()
            && !header::is_eye_catcher(*found)
        {
            return Err(ClcParseError::EyeCatcher {
                offset: length.saturating_sub(4),
                found: *found,
            });
        }
        let message = match header.kind {
            ClcKind::Proposal => Self::Proposal(Proposal::parse_body(&header, message)?),
            ClcKind::Accept if header.is_smcd() => {
                Self::SmcdAccept(SmcdAcceptConfirm::parse_body(&header, message)?)
            }
            ClcKind::Confirm if header.is_smcd() => {
                Self::SmcdConfirm(SmcdAcceptConfirm::parse_body(&header, message)?)
            }
            ClcKind::Accept => Self::Accept(AcceptConfirm::parse_body(&header, message)?),
            ClcKind::Confirm => Self::Confirm(AcceptConfirm::parse_body(&header, message)?),
            ClcKind::Decline => Self::Decline(Decline::parse_body(&header, message)?),
        };
        Ok((message, length))
    }

    /// The kind of the message.
    #[must_use]
    pub const fn kind(&self) -> ClcKind {
        match self {
            Self::Proposal(_) => ClcKind::Proposal,
            Self::Accept(_) | Self::SmcdAccept(_) => ClcKind::Accept,
            Self::Confirm(_) | Self::SmcdConfirm(_) => ClcKind::Confirm,
            Self::Decline(_) => ClcKind::Decline,
        }
    }

    /// Octets [`emit`](Self::emit) writes, at most [`MAX_LENGTH`].
    #[must_use]
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Proposal(proposal) => proposal.encoded_len(),
            Self::Accept(message) => message.encoded_len(ClcKind::Accept),
            Self::Confirm(message) => message.encoded_len(ClcKind::Confirm),
            Self::SmcdAccept(message) | Self::SmcdConfirm(message) => message.encoded_len(),
            Self::Decline(decline) => decline.encoded_len(),
        }
    }

    /// Writes the message to the start of `buffer` and returns its length.
    /// Reserved fields are zero.
    ///
    /// # Errors
    /// [`BufferTooSmall`] if `buffer` is shorter than
    /// [`encoded_len`](Self::encoded_len).
    pub fn emit(&self, buffer: &mut [u8]) -> Result<usize, BufferTooSmall> {
        match self {
            Self::Proposal(proposal) => proposal.emit(buffer),
            Self::Accept(message) => message.emit(ClcKind::Accept, buffer),
            Self::Confirm(message) => message.emit(ClcKind::Confirm, buffer),
            Self::SmcdAccept(message) => message.emit(ClcKind::Accept, buffer),
            Self::SmcdConfirm(message) => message.emit(ClcKind::Confirm, buffer),
            Self::Decline(decline) => decline.emit(buffer),
        }
    }
}

impl fmt::Display for ClcMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Proposal(proposal) => write!(f, "CLC {proposal}"),
            Self::Accept(message) => write!(f, "CLC Accept {message}"),
            Self::Confirm(message) => write!(f, "CLC Confirm {message}"),
            Self::SmcdAccept(message) => write!(f, "CLC Accept {message}"),
            Self::SmcdConfirm(message) => write!(f, "CLC Confirm {message}"),
            Self::Decline(decline) => write!(f, "CLC {decline}"),
        }
    }
}

#[cfg(test)]
mod tests;
