//! Bytes of the TCP connection: CLC messages, and what else may come.

use core::fmt;

use super::{Proposed, Side, State};
use crate::command::TcpCommand;
use crate::connection::FatalCause;
use crate::connection_record::{End, Pending, Phase};
use crate::engine::Engine;
use crate::event::{CloseReason, FallbackReason};
use crate::id::{ConnIdx, GroupIdx, HandshakeIdx};
use crate::link_group::Fallback;
use crate::stats::count;
use crate::trace::{self, TraceEvent};
use crate::wire::clc::{
    ClcHeader, ClcKind, ClcMessage, ClcParseError, Decline, EYE_CATCHER, EYE_CATCHER_SMCD,
    HEADER_LENGTH, Proposal,
};
use crate::wire::types::DiagnosisCode;

/// What to do with the bytes shown to `handle_clc`.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClcProgress {
    /// Nothing was used: call again with at least `total` bytes.
    NeedMore {
        /// Bytes needed, counted from the first one shown.
        total: usize,
    },
    /// The first `len` bytes were a CLC message; drop them.
    Consumed {
        /// Bytes of the message.
        len: usize,
        /// What the next bytes are.
        next: Next,
    },
    /// All of the bytes shown belong to the application.
    NotClc,
}

/// What the bytes behind a CLC message are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// Another CLC message.
    Clc,
    /// Perhaps a Decline, until the connection is established or handed over.
    MaybeDecline,
    /// Bytes of the application, or of no use: show no more.
    Stop,
}

/// Why bytes ended the rendezvous; the connection is being reset.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum ClcError {
    /// The bytes are not a CLC message where one is due (CLC-070).
    Parse(ClcParseError),
    /// A CLC message of another kind than the one that is due (CLC-073).
    Unexpected {
        /// Kind of the message that came.
        kind: ClcKind,
    },
    /// Bytes came while it was this side's turn.
    OutOfTurn,
}

impl fmt::Display for ClcError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse(error) => error.fmt(f),
            Self::Unexpected { kind } => write!(f, "{kind} where another message is due"),
            Self::OutOfTurn => f.write_str("bytes from the peer while it was not its turn"),
        }
    }
}

impl core::error::Error for ClcError {}

impl Engine<'_> {
    /// Parses the bytes a connection received over TCP.
    pub(crate) fn on_clc(&mut self, index: ConnIdx, bytes: &[u8]) -> Result<ClcProgress, ClcError> {
        self.step();
        let Some(record) = self.conn(index) else {
            return Ok(ClcProgress::NotClc);
        };
        if bytes.is_empty() {
            return Ok(match record.phase {
                Phase::Rendezvous(_) | Phase::Watching => ClcProgress::NeedMore {
                    total: HEADER_LENGTH,
                },
                Phase::Active | Phase::Ended => ClcProgress::NotClc,
            });
        }
        match record.phase {
            //= CLC-077
            Phase::Ended => Ok(ClcProgress::NotClc),
            Phase::Watching => Ok(self.watch(index, bytes)),
            Phase::Active => {
                // TCP carries nothing once SMC-R does (AMB-35).
                self.trace_conn(index, || TraceEvent::ClcUnsolicited {
                    length: shown(bytes),
                });
                self.fail_active(index);
                Err(ClcError::OutOfTurn)
            }
            Phase::Rendezvous(handshake) => self.on_clc_in_rendezvous(index, handshake, bytes),
        }
    }

    fn on_clc_in_rendezvous(
        &mut self,
        index: ConnIdx,
        handshake: HandshakeIdx,
        bytes: &[u8],
    ) -> Result<ClcProgress, ClcError> {
        let Some(state) = self.handshakes.at(handshake).map(|h| h.state) else {
            return Ok(ClcProgress::NotClc);
        };
        let due = match state {
            State::AwaitingProposal => Some(ClcKind::Proposal),
            State::AwaitingAccept => Some(ClcKind::Accept),
            State::AwaitingConfirm => Some(ClcKind::Confirm),
            //= CLC-064
            State::Forming => None,
            // Our Decline was decided but not yet sent: the peer's may cross it.
            State::Declining { crossing: true, .. } => None,
            // This side has the word. A Decline is understood all the same: the
            // peer gave up, and expects plain TCP (CLC-047).
            _ if begins_like_decline(bytes) => None,
            _ => {
                self.trace_conn(index, || TraceEvent::ClcUnsolicited {
                    length: shown(bytes),
                });
                self.reset(index, CloseReason::PeerMisbehaved);
                return Err(ClcError::OutOfTurn);
            }
        };
        match self.read_message(bytes) {
            Ok(None) => Ok(ClcProgress::NeedMore {
                total: needed(bytes),
            }),
            Ok(Some((message, len))) => {
                count(&mut self.groups.data.core.statistics.clc_received);
                self.trace_conn(index, || {
                    trace::clc_received(bytes.get(..len).unwrap_or_default(), &message)
                });
                self.on_message(index, handshake, due, message)
                    .map(|next| ClcProgress::Consumed { len, next })
            }
            Err(error) => {
                //= CLC-070
                //= CLC-071
                //= CLC-072
                //= SEC-007
                //= V2-271
                self.trace_conn(index, || TraceEvent::ClcMalformed {
                    length: shown(bytes),
                });
                self.reset(index, CloseReason::PeerMisbehaved);
                Err(ClcError::Parse(error))
            }
        }
    }

    /// Reads a message once all of it is there.
    //= CLC-014
    //= CLC-015
    //= V2-080
    fn read_message(&self, bytes: &[u8]) -> Result<Option<(ClcMessage, usize)>, ClcParseError> {
        if bytes.len() < HEADER_LENGTH {
            return Ok(None);
        }
        let header = ClcHeader::parse(bytes)?;
        match bytes.get(..usize::from(header.length)) {
            Some(message) => ClcMessage::parse(message).map(Some),
            None => Ok(None),
        }
    }

    fn on_message(
        &mut self,
        index: ConnIdx,
        handshake: HandshakeIdx,
        due: Option<ClcKind>,
        message: ClcMessage,
    ) -> Result<Next, ClcError> {
        let kind = message.kind();
        match message {
            // A Decline may be in place of any message (CLC-047).
            //= CLC-047
            //= V2-074
            ClcMessage::Decline(decline) => {
                self.on_decline(index, &decline);
                Ok(Next::Stop)
            }
            ClcMessage::Proposal(proposal) if due == Some(kind) => {
                self.on_proposal(index, handshake, &proposal);
                Ok(Next::Clc)
            }
            ClcMessage::Accept(accept) if due == Some(kind) => {
                self.on_accept(index, handshake, &accept);
                Ok(self.next_after(index))
            }
            ClcMessage::Confirm(confirm) if due == Some(kind) => {
                self.on_confirm(index, handshake, &confirm);
                Ok(self.next_after(index))
            }
            ClcMessage::SmcdAccept(accept) if due == Some(kind) => {
                self.on_smcd_accept(index, handshake, &accept);
                Ok(self.next_after(index))
            }
            ClcMessage::SmcdConfirm(confirm) if due == Some(kind) => {
                self.on_smcd_confirm(index, handshake, &confirm);
                Ok(self.next_after(index))
            }
            _ => {
                //= CLC-073
                self.trace_conn(index, || TraceEvent::ClcUnexpected { message: kind });
                self.reset(index, CloseReason::PeerMisbehaved);
                Err(ClcError::Unexpected { kind })
            }
        }
    }

    fn next_after(&self, index: ConnIdx) -> Next {
        match self.conn(index).map(|record| record.phase) {
            Some(Phase::Rendezvous(_)) => Next::MaybeDecline,
            _ => Next::Stop,
        }
    }

    /// The peer declined: plain TCP from the byte behind the Decline.
    //= CLC-050
    //= CLC-051
    //= V2-270
    fn on_decline(&mut self, index: ConnIdx, decline: &Decline) {
        let group = self.conn(index).map(|record| record.group);
        //= CLC-045
        //= CLC-046
        if decline.out_of_sync
            && let Some(group) = group
            && self.is_lost_with(group)
        {
            self.groups
                .end_group(group, CloseReason::LinksLost, Fallback::Keep);
        }
        //= CLC-044
        let why = FallbackReason {
            code: DiagnosisCode::PEER_DECLINED,
            peer_diagnosis: Some(decline.diagnosis),
        };
        self.fall_back(index, why, false);
    }

    /// Whether the message of one connection in rendezvous is enough to give its group up.
    /// The owner of a device of SMC-D cannot be known, so that connections which are
    /// carried are not ended by it.
    //= D-056
    fn is_lost_with(&self, group: GroupIdx) -> bool {
        self.groups.ism_peer_of(group).is_none()
            || self.group(group).is_some_and(|g| g.connection_count <= 1)
    }

    /// After our Decline: swallows one Decline that crossed it, and nothing else.
    ///
    /// Only bytes that begin like a Decline are held back, and only until it is
    /// whole or they have waited long enough for the rest; everything else is the
    /// application's at once.
    //= CLC-064
    fn watch(&mut self, index: ConnIdx, bytes: &[u8]) -> ClcProgress {
        let progress = match ClcHeader::parse(bytes) {
            Err(ClcParseError::TooShort { .. }) if begins_like_decline(bytes) => {
                return self.hold_back(index, HEADER_LENGTH);
            }
            Ok(header) if header.kind == ClcKind::Decline => {
                let length = usize::from(header.length);
                match bytes.get(..length).map(ClcMessage::parse) {
                    None => return self.hold_back(index, length),
                    Some(Ok((message @ ClcMessage::Decline(_), len))) => {
                        count(&mut self.groups.data.core.statistics.clc_received);
                        self.trace_conn(index, || {
                            trace::clc_received(bytes.get(..len).unwrap_or_default(), &message)
                        });
                        ClcProgress::Consumed {
                            len,
                            next: Next::Stop,
                        }
                    }
                    Some(_) => ClcProgress::NotClc,
                }
            }
            _ => ClcProgress::NotClc,
        };
        self.stop_watching(index);
        progress
    }

    /// Waits for the rest of what may be a Decline. The time for that begins with
    /// its first byte, and no further one prolongs it.
    fn hold_back(&mut self, index: ConnIdx, total: usize) -> ClcProgress {
        if self.groups.data.connections.deadline(index).is_none() {
            let until = self
                .now()
                .after(self.groups.data.core.config.timeouts.crossing_decline);
            self.groups.data.set_conn_deadline(index, Some(until));
        }
        ClcProgress::NeedMore { total }
    }

    /// No Decline will come any more. Bytes held back because they began like
    /// one are the application's, which the embedder learns by a second
    /// `HandOver`.
    //= CLC-051
    pub(crate) fn give_up_watching(&mut self, index: ConnIdx) {
        self.groups.data.command_tcp(
            index,
            TcpCommand::HandOver {
                watch_for_decline: false,
            },
        );
        self.stop_watching(index);
    }

    pub(crate) fn stop_watching(&mut self, index: ConnIdx) {
        if let Some(record) = self.groups.data.connections.at_mut(index)
            && record.phase == Phase::Watching
        {
            record.phase = Phase::Ended;
            self.groups.data.set_conn_deadline(index, None);
            self.groups.release(index);
        }
    }

    /// Resets a connection in rendezvous: neither SMC-R nor plain TCP.
    pub(crate) fn reset(&mut self, index: ConnIdx, reason: CloseReason) {
        if reason == CloseReason::PeerMisbehaved {
            count(&mut self.groups.data.core.statistics.violations);
        }
        self.groups.data.command_tcp(index, TcpCommand::Reset);
        self.leave_founded_group(index, reason);
        self.end(index, End::Closed(reason));
    }

    fn fail_active(&mut self, index: ConnIdx) {
        count(&mut self.groups.data.core.statistics.violations);
        self.groups
            .with_connection(index, |connection, now, config| {
                connection.on_fatal(now, &config.connection, FatalCause::TcpData);
            });
    }

    pub(crate) fn on_proposal(
        &mut self,
        index: ConnIdx,
        handshake: HandshakeIdx,
        proposal: &Proposal,
    ) {
        let proposed = Proposed::new(proposal, &self.groups.data.core.config.v2);
        if let Some(h) = self.handshakes.at_mut(handshake) {
            //= V2-071
            h.version = proposed.version;
            h.side = Side::Server(Some(proposed));
            h.deadline = None;
        }
        self.set_state(handshake, State::Proposed);
        self.arm_handshake(handshake);
        self.groups.data.report(index, Pending::PROPOSED);
    }
}

/// Bytes a message takes, as far as the ones at hand show.
fn needed(bytes: &[u8]) -> usize {
    ClcHeader::parse(bytes).map_or(HEADER_LENGTH, |header| usize::from(header.length))
}

/// Bytes shown, as an event says it.
fn shown(bytes: &[u8]) -> u16 {
    u16::try_from(bytes.len()).unwrap_or(u16::MAX)
}

/// Whether bytes may be the beginning of a Decline, with either eye catcher.
//= V2-004
fn begins_like_decline(bytes: &[u8]) -> bool {
    [EYE_CATCHER, EYE_CATCHER_SMCD].iter().any(|eye_catcher| {
        let pattern = eye_catcher.iter().chain(&[ClcKind::Decline as u8]);
        bytes.iter().zip(pattern).all(|(have, want)| have == want)
    })
}
