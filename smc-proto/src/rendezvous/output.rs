//! CLC messages out, built from the state of the rendezvous.

use super::State;
use crate::config::ProposalVersion;
use crate::connection_record::Phase;
use crate::engine::Engine;
use crate::id::ConnId;
use crate::link_group::Role;
use crate::stats::count;
use crate::wire::BufferTooSmall;
use crate::wire::clc::{
    AcceptConfirm, ClcMessage, ClcVersion, Decline, OfferedPath, PeerOs, Proposal,
};
use crate::wire::types::RmbeIndex;

impl Engine<'_> {
    /// Writes the next CLC message into `buffer`: whose, and how long.
    pub(crate) fn next_clc(
        &mut self,
        buffer: &mut [u8],
    ) -> Result<Option<(ConnId, usize)>, BufferTooSmall> {
        while let Some(handshake) = self.core.clc_out.first() {
            let message = self.clc_message(handshake);
            let Some((conn, message)) = message else {
                self.core.clc_out.remove(&mut self.handshakes, handshake);
                continue;
            };
            let length = message.emit(buffer)?;
            self.core.clc_out.remove(&mut self.handshakes, handshake);
            count(&mut self.core.statistics.clc_sent);
            let id = self.conn_id(conn);
            self.on_clc_sent(handshake, conn);
            return Ok(Some((id, length)));
        }
        Ok(None)
    }

    fn clc_message(&self, handshake: u32) -> Option<(u32, ClcMessage)> {
        let h = self.handshakes.at(handshake).filter(|h| h.has_output())?;
        let message = match h.state {
            State::Proposing => ClcMessage::Proposal(self.proposal(handshake)?),
            State::Accepting => ClcMessage::Accept(self.accept_confirm(h.conn)?),
            State::Confirming => ClcMessage::Confirm(self.accept_confirm(h.conn)?),
            //= CLC-019
            State::Declining {
                code, out_of_sync, ..
            } => ClcMessage::Decline(Decline {
                version: ClcVersion::V1,
                out_of_sync,
                peer_id: self.core.config.peer_id,
                diagnosis: code,
                os: PeerOs(0),
            }),
            _ => return None,
        };
        Some((h.conn, message))
    }

    //= CLC-021
    //= CLC-029
    fn proposal(&self, handshake: u32) -> Option<Proposal> {
        let h = self.handshakes.at(handshake)?;
        let path = h.paths.first()?;
        Some(Proposal {
            version: match self.core.config.proposal_version {
                ProposalVersion::V1 => ClcVersion::V1,
                ProposalVersion::V2OffersV1 => ClcVersion::V2,
            },
            v1: OfferedPath::SmcR,
            peer_id: self.core.config.peer_id,
            gid: path.gid,
            mac: path.mac,
            ism: None,
            subnets: h.options.subnets.clone(),
            v2_offer: None,
        })
    }

    /// This side's half of the connection, as Accept or Confirm tells it.
    //= CLC-032
    //= CLC-034
    //= RENDEZVOUS-036
    fn accept_confirm(&self, conn: u32) -> Option<AcceptConfirm> {
        let record = self.connections.at(conn)?;
        let link = self.links.at(record.link)?;
        let rmb = self.buffers.at(record.rmb.buffer)?;
        Some(AcceptConfirm {
            first_contact: record.first_contact,
            peer_id: self.core.config.peer_id,
            gid: link.path.gid,
            mac: link.path.mac,
            qpn: link.qpn,
            rtoken: rmb.rtoken(link.position)?,
            rmbe_index: RmbeIndex(record.rmb.index),
            alert_token: record.token,
            buffer_size: rmb.size,
            mtu: link.mtu,
            psn: link.psn,
            v2: None,
        })
    }

    fn on_clc_sent(&mut self, handshake: u32, conn: u32) {
        let wait = self.now().after(self.core.config.timeouts.clc_message);
        let Some(h) = self.handshakes.at_mut(handshake) else {
            return;
        };
        match h.state {
            State::Proposing => {
                h.state = State::AwaitingAccept;
                h.deadline = Some(wait);
            }
            State::Accepting => {
                h.state = State::AwaitingConfirm;
                h.deadline = Some(wait);
            }
            State::Confirming => {
                let first_contact = self
                    .connections
                    .at(conn)
                    .is_some_and(|record| record.first_contact);
                if first_contact {
                    h.state = State::Forming;
                    h.deadline = None;
                    self.await_confirm_link(conn);
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
    pub(crate) fn handshake_of(&self, conn: u32, role: Role) -> Option<u32> {
        match self.connections.at(conn)?.phase {
            Phase::Rendezvous(handshake) => {
                (self.handshakes.at(handshake)?.role == role).then_some(handshake)
            }
            _ => None,
        }
    }
}
