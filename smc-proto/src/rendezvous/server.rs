//! The server: Proposal in, Accept out, Confirm in.

mod subsequent;

use super::State;
use crate::endpoint::AnswerError;
use crate::engine::Engine;
use crate::id::NONE;
use crate::link_group::{Formation, QpGoal, Role};
use crate::path::LocalPath;
use crate::wire::clc::AcceptConfirm;
use crate::wire::types::DiagnosisCode;

impl Engine<'_> {
    /// The embedder's answer to a Proposal: the ports that may serve it.
    pub(crate) fn accept(&mut self, conn: u32, paths: &[LocalPath]) -> Result<(), AnswerError> {
        let handshake = self.proposed(conn)?;
        if let Some(h) = self.handshakes.at_mut(handshake) {
            h.paths.clear();
            //= RENDEZVOUS-003
            for path in paths.iter().filter(|p| p.subnet_match && p.is_usable()) {
                let _ = h.paths.push(*path);
            }
        }
        for path in paths.iter().filter(|p| p.is_usable()) {
            self.core.ports.learn(*path);
        }
        let offers = self
            .handshakes
            .at(handshake)
            .and_then(|h| h.proposal.as_ref())
            .is_some_and(|proposal| proposal.v1.has_smcr());
        if paths.is_empty() {
            self.decline(handshake, DiagnosisCode::NO_SMCR_DEVICE, false);
        } else if !offers {
            self.decline(handshake, DiagnosisCode::PEER_NO_SMC, false);
        } else if self
            .handshakes
            .at(handshake)
            .is_some_and(|h| h.paths.is_empty())
        {
            //= RENDEZVOUS-006
            self.decline(handshake, DiagnosisCode::PREFIX_MISMATCH, false);
        } else {
            self.choose_group(conn, handshake);
        }
        Ok(())
    }

    /// The embedder's refusal of a Proposal.
    //= RENDEZVOUS-007
    pub(crate) fn refuse(&mut self, conn: u32, code: DiagnosisCode) -> Result<(), AnswerError> {
        let handshake = self.proposed(conn)?;
        self.decline(handshake, code, false);
        Ok(())
    }

    fn proposed(&self, conn: u32) -> Result<u32, AnswerError> {
        let handshake = self
            .handshake_of(conn, Role::Server)
            .ok_or(AnswerError::NotProposed)?;
        match self.handshakes.at(handshake).map(|h| h.state) {
            Some(State::Proposed) => Ok(handshake),
            _ => Err(AnswerError::NotProposed),
        }
    }

    /// Reuses a link group of the client, waits for one that is being formed, or
    /// starts one.
    //= RENDEZVOUS-001
    //= RENDEZVOUS-002
    pub(crate) fn choose_group(&mut self, conn: u32, handshake: u32) {
        match self.find_server_group(handshake) {
            Some(group) if self.groups.at(group).is_some_and(|g| g.is_active()) => {
                let link = self.link_for_connection(group, NONE, &[]);
                if let Some(h) = self.handshakes.at_mut(handshake) {
                    h.state = State::Preparing;
                }
                //= RENDEZVOUS-036
                //= RENDEZVOUS-035
                self.join(conn, handshake, link);
            }
            // A group that is being formed is worth waiting for (AMB-40): one
            // round trip later this is a subsequent contact.
            Some(group) => {
                let wait = self.now().after(self.core.config.timeouts.llc_reply);
                if let Some(h) = self.handshakes.at_mut(handshake) {
                    h.state = State::Queued;
                    h.queued_on = group;
                    h.deadline = Some(wait);
                }
                if let Some(g) = self.groups.at_mut(group) {
                    g.queued.push_back(&mut self.handshakes, handshake);
                }
                self.arm_handshake(handshake);
            }
            //= RENDEZVOUS-053
            //= RENDEZVOUS-057
            None => self.start_first_contact(handshake),
        }
    }

    /// Takes a handshake out of the queue of the group it waits for.
    pub(crate) fn unqueue(&mut self, handshake: u32) {
        let Some(h) = self.handshakes.at_mut(handshake) else {
            return;
        };
        let group = core::mem::replace(&mut h.queued_on, NONE);
        if let Some(g) = self.groups.at_mut(group) {
            g.queued.remove(&mut self.handshakes, handshake);
        }
    }

    //= RENDEZVOUS-009
    //= RENDEZVOUS-054
    //= CLC-031
    pub(crate) fn start_first_contact(&mut self, handshake: u32) {
        self.unqueue(handshake);
        let Some(h) = self.handshakes.at_mut(handshake) else {
            return;
        };
        let (Some(path), Some(proposal)) = (h.paths.first().copied(), h.proposal.as_ref()) else {
            return;
        };
        let (conn, peer_id, vlan) = (h.conn, proposal.peer_id, h.options.vlan);
        let proposed = Some((proposal.gid, proposal.mac));
        h.state = State::Preparing;
        h.deadline = None;
        let formation = Formation::Preparing;
        let Some(group) = self.new_group(Role::Server, peer_id, vlan, path, formation) else {
            self.decline(handshake, DiagnosisCode::MEMORY, false);
            return;
        };
        let link = self.groups.at(group).map_or(NONE, |g| g.first_link());
        if let Some(g) = self.groups.at_mut(group) {
            g.founder = conn;
            g.proposed = proposed;
        }
        if let Some(record) = self.connections.at_mut(conn) {
            record.first_contact = true;
        }
        self.offer_group(group);
        self.join(conn, handshake, link);
    }

    /// The client's Confirm.
    pub(crate) fn on_confirm(&mut self, conn: u32, handshake: u32, confirm: AcceptConfirm) {
        let Some(record) = self.connections.at(conn) else {
            return;
        };
        let (group, link, first_contact) = (record.group, record.link, record.first_contact);
        let usable = self.groups.at(group).is_some_and(|g| !g.is_ending());
        if let Some(h) = self.handshakes.at_mut(handshake) {
            h.peer = Some(confirm);
            h.deadline = None;
        }
        if first_contact {
            // From here on the client may decline as well, at the same time.
            if let Some(h) = self.handshakes.at_mut(handshake) {
                h.state = State::Forming;
            }
            //= CLC-052
            //= CLC-053
            if !usable {
                self.decline(handshake, DiagnosisCode::LINK_READY, false);
                return;
            }
            //= CLC-075
            if confirm.mtu.octets().is_none() || confirm.rmbe_index.0 == 0 {
                self.decline(handshake, DiagnosisCode::INTERNAL, false);
                return;
            }
            if !self.knows_rmb(handshake, group, link, &confirm) {
                self.decline(handshake, DiagnosisCode::RTOKEN, false);
                return;
            }
            //= RENDEZVOUS-020
            self.bind_link(link, &confirm, QpGoal::Rts);
            self.arm_handshake(handshake);
            self.start_confirm_link(group);
        } else {
            self.on_subsequent_confirm(conn, handshake, &confirm);
        }
    }
}
