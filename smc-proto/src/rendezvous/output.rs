//! CLC messages out, built from the state of the rendezvous.

use super::State;
use crate::connection_record::Phase;
use crate::engine::Engine;
use crate::id::{ConnId, ConnIdx, HandshakeIdx};
use crate::link_group::Role;
use crate::stats::count;
use crate::trace;
use crate::version::SmcVersion;
use crate::wire::BufferTooSmall;
use crate::wire::clc::{ClcMessage, Decline, PeerOs};

impl Engine<'_> {
    /// Writes the next CLC message into `buffer`: whose, and how long.
    pub(crate) fn next_clc(
        &mut self,
        buffer: &mut [u8],
    ) -> Result<Option<(ConnId, usize)>, BufferTooSmall> {
        while let Some(handshake) = self.groups.data.core.clc_out.first() {
            let message = self.clc_message(handshake);
            let Some((conn, message)) = message else {
                self.groups
                    .data
                    .core
                    .clc_out
                    .remove(&mut self.handshakes, handshake);
                continue;
            };
            let length = message.emit(buffer)?;
            self.groups
                .data
                .core
                .clc_out
                .remove(&mut self.handshakes, handshake);
            count(&mut self.groups.data.core.statistics.clc_sent);
            let id = self.groups.data.conn_id(conn);
            self.trace_conn(conn, || {
                trace::clc_sent(buffer.get(..length).unwrap_or_default(), &message)
            });
            self.on_clc_sent(conn, handshake);
            return Ok(Some((id, length)));
        }
        Ok(None)
    }

    fn clc_message(&self, handshake: HandshakeIdx) -> Option<(ConnIdx, ClcMessage)> {
        let h = self.handshakes.at(handshake).filter(|h| h.has_output())?;
        let message = match h.state {
            State::Proposing => ClcMessage::Proposal(self.proposal(h)),
            State::Accepting if h.smcd.is_some() => {
                ClcMessage::SmcdAccept(self.smcd_accept_confirm(h)?)
            }
            State::Confirming if h.smcd.is_some() => {
                ClcMessage::SmcdConfirm(self.smcd_accept_confirm(h)?)
            }
            State::Accepting => ClcMessage::Accept(self.accept_confirm(h)?),
            State::Confirming => ClcMessage::Confirm(self.accept_confirm(h)?),
            //= CLC-019
            State::Declining {
                code, out_of_sync, ..
            } => ClcMessage::Decline(Decline {
                //= V2-070
                version: h.version.clc(),
                out_of_sync,
                peer_id: self.groups.data.core.config.peer_id,
                diagnosis: code,
                os: match h.version {
                    SmcVersion::V1 => PeerOs::UNKNOWN,
                    SmcVersion::V2 => self.groups.data.core.config.v2.os,
                },
            }),
            _ => return None,
        };
        Some((h.conn, message))
    }

    fn on_clc_sent(&mut self, conn: ConnIdx, handshake: HandshakeIdx) {
        let wait = self
            .now()
            .after(self.groups.data.core.config.timeouts.clc_message);
        let Some(h) = self.handshakes.at_mut(handshake) else {
            return;
        };
        match h.state {
            State::Proposing => {
                h.deadline = Some(wait);
                self.set_state(handshake, State::AwaitingAccept);
            }
            State::Accepting => {
                h.deadline = Some(wait);
                self.set_state(handshake, State::AwaitingConfirm);
            }
            State::Confirming => {
                let first_contact = self
                    .groups
                    .data
                    .connections
                    .at(conn)
                    .is_some_and(|record| record.first_contact);
                if first_contact && h.smcd.is_none() {
                    h.deadline = None;
                    self.set_state(handshake, State::Forming);
                    self.groups.await_confirm_link(conn);
                } else {
                    //= RENDEZVOUS-048
                    //= RENDEZVOUS-052
                    //= CLC-056
                    //= RENDEZVOUS-041
                    //= RENDEZVOUS-047
                    self.establish(handshake);
                    return;
                }
            }
            State::Declining { code, crossing, .. } => {
                self.on_declined(conn, code, crossing);
                return;
            }
            _ => {}
        }
        self.arm_handshake(handshake);
    }

    /// Whether a connection is in rendezvous as `role`, and with which handshake.
    pub(crate) fn handshake_of(&self, conn: ConnIdx, role: Role) -> Option<HandshakeIdx> {
        match self.conn(conn)?.phase {
            Phase::Rendezvous(handshake) => {
                (self.handshakes.at(handshake)?.role == role).then_some(handshake)
            }
            _ => None,
        }
    }
}
