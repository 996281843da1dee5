//! The server: Proposal in, Accept out, Confirm in.

mod subsequent;

use super::version::{self, Choice};
use super::{PeerEnd, State};
use crate::endpoint::AnswerError;
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::{ConnIdx, GroupIdx, HandshakeIdx, Idx};
use crate::link_group::{Formation, QpGoal, Role, peer_bucket};
use crate::path::{LocalPath, Paths, Route};
use crate::version::{Negotiated, PeerHost, SERVES_V2, SmcVersion};
use crate::wire::clc::AcceptConfirm;
use crate::wire::types::{DiagnosisCode, Mac};

impl Engine<'_> {
    /// The embedder's answer to a Proposal: the ports that may serve it.
    pub(crate) fn accept(&mut self, conn: ConnIdx, paths: Paths<'_>) -> Result<(), AnswerError> {
        let handshake = self.proposed(conn)?;
        let paths = paths.served();
        self.learn_ports(paths.rnics);
        let proposed = self
            .handshakes
            .at(handshake)
            .and_then(super::Handshake::proposal);
        let Some(proposed) = proposed else {
            return Err(AnswerError::NotProposed);
        };
        match version::choose(&self.groups.data.core.config, proposed, paths) {
            Ok(Choice::SmcR(negotiated)) => {
                self.keep_choice(handshake, negotiated, paths.rnics);
                self.choose_group(conn, handshake);
            }
            Ok(Choice::SmcD {
                negotiated,
                path,
                peer,
            }) => {
                self.keep_choice(handshake, negotiated, &[]);
                self.begin_smcd(conn, handshake, path, peer);
            }
            Err(code) => self.decline(handshake, code, false),
        }
        Ok(())
    }

    /// Keeps what was chosen, and of the ports those that serve it.
    //= RENDEZVOUS-003
    //= V2-105
    fn keep_choice(
        &mut self,
        handshake: HandshakeIdx,
        negotiated: Negotiated,
        paths: &[LocalPath],
    ) {
        let Some(h) = self.handshakes.at_mut(handshake) else {
            debug_assert!(false, "the caller has a live rendezvous");
            return;
        };
        let terms = negotiated.terms;
        h.agreed = negotiated;
        h.paths.clear();
        //= CLC-033
        let ism_peer = |path: &LocalPath| match terms.version {
            SmcVersion::V1 => path.subnet_match,
            SmcVersion::V2 => path.route != Route::None,
        };
        for path in paths {
            if path.is_usable() && path.serves(terms.version) && ism_peer(path) {
                let _ = h.paths.push(*path);
            }
        }
    }

    /// The embedder's refusal of a Proposal.
    //= RENDEZVOUS-007
    pub(crate) fn refuse(&mut self, conn: ConnIdx, code: DiagnosisCode) -> Result<(), AnswerError> {
        let handshake = self.proposed(conn)?;
        self.decline(handshake, code, false);
        Ok(())
    }

    fn proposed(&self, conn: ConnIdx) -> Result<HandshakeIdx, AnswerError> {
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
    //= V2-107
    pub(crate) fn choose_group(&mut self, conn: ConnIdx, handshake: HandshakeIdx) {
        if self
            .handshakes
            .at(handshake)
            .is_some_and(|h| h.smcd.is_some())
        {
            return self.choose_ism_group(conn, handshake);
        }
        match self.find_server_group(handshake) {
            Some(group) if self.group(group).is_some_and(|g| g.is_active()) => {
                //= RENDEZVOUS-037
                let link = self.groups.link_for_connection(group, Idx::NONE, &[]);
                self.set_state(handshake, State::Preparing);
                //= RENDEZVOUS-036
                //= RENDEZVOUS-035
                self.join(link, conn, handshake);
            }
            Some(group) => self.queue_on(group, conn, handshake),
            //= RENDEZVOUS-053
            //= RENDEZVOUS-057
            None => self.start_first_contact(handshake),
        }
    }

    /// The group of a Proposal's client with room for one more connection, on the LAN
    /// of a port that the embedder found in the client's subnet (AMB-08).
    //= RENDEZVOUS-001
    //= LINK-004
    //= LINK-023
    //= V2-210
    //= V2-211
    //= SEC-002
    fn find_server_group(&mut self, handshake: HandshakeIdx) -> Option<GroupIdx> {
        let h = self.handshakes.at(handshake)?;
        let proposal = h.proposal()?;
        let (peer_id, vlan) = (proposal.peer_id, h.options.vlan);
        let version = h.agreed.terms.version;
        let port = proposal.port(version);
        let list = *self.groups.data.core.joinable.get(peer_bucket(peer_id))?;
        let mut forming = None;
        let mut next = list.first();
        while let Some(index) = next {
            self.groups.data.core.steps = self.groups.data.core.steps.wrapping_add(1);
            if let Some(g) = self.group(index)
                && g.is_with(peer_id)
                && g.vlan == vlan
                && g.terms.version == version
                && self.groups.is_group_of(index, &h.paths, port)
            {
                if g.is_active() {
                    return Some(index);
                }
                forming = forming.or(Some(index));
            }
            next = list.next(&mut self.groups.data.groups, index);
        }
        forming
    }

    /// A group that is being formed is worth waiting for (AMB-40): one round trip
    /// later this is a subsequent contact.
    pub(super) fn queue_on(&mut self, group: GroupIdx, conn: ConnIdx, handshake: HandshakeIdx) {
        let (now, timeouts) = (self.now(), self.groups.data.core.config.timeouts);
        if let Some(h) = self.handshakes.at_mut(handshake) {
            let most = h.prepare_by(now, timeouts.control_command);
            h.deadline = Some(now.after(timeouts.llc_reply).min(most));
        }
        self.set_state(handshake, State::Queued);
        if let Some(record) = self.groups.data.connections.at_mut(conn) {
            record.contact.queued_on = group;
        }
        if let Some(g) = self.groups.data.groups.at_mut(group) {
            g.queued.push_back(&mut self.groups.data.connections, conn);
        }
        self.arm_handshake(handshake);
    }

    //= RENDEZVOUS-009
    //= RENDEZVOUS-054
    //= CLC-031
    pub(crate) fn start_first_contact(&mut self, handshake: HandshakeIdx) {
        if self
            .handshakes
            .at(handshake)
            .is_some_and(|h| h.smcd.is_some())
        {
            return self.start_ism_group(handshake, Role::Server, true);
        }
        let Some(h) = self.handshakes.at_mut(handshake) else {
            debug_assert!(false, "the caller has a live rendezvous");
            return;
        };
        let conn = h.conn;
        self.groups.unqueue(conn);
        let Some(h) = self.handshakes.at_mut(handshake) else {
            debug_assert!(false, "the caller has a live rendezvous");
            return;
        };
        let (Some(path), Some(proposal)) = (h.paths.first().copied(), h.proposal()) else {
            return;
        };
        let (peer_id, vlan) = (proposal.peer_id, h.options.vlan);
        let terms = h.agreed.terms;
        let proposed = Some(proposal.port(terms.version));
        h.deadline = None;
        self.set_state(handshake, State::Preparing);
        let formation = Formation::Preparing;
        let Some(group) =
            self.groups
                .new_group(Role::Server, peer_id, vlan, path, terms, formation)
        else {
            self.decline(handshake, DiagnosisCode::MEMORY, false);
            return;
        };
        let link = self.group(group).map_or(Idx::NONE, |g| g.first_link());
        if let Some(g) = self.groups.data.groups.at_mut(group) {
            g.founder = conn;
            if let Some(smcr) = g.smcr_mut() {
                smcr.proposed = proposed;
            }
        }
        if let Some(record) = self.groups.data.connections.at_mut(conn) {
            record.first_contact = true;
        }
        self.groups.offer_group(group);
        self.join(link, conn, handshake);
    }

    /// The client's Confirm.
    pub(crate) fn on_confirm(
        &mut self,
        conn: ConnIdx,
        handshake: HandshakeIdx,
        confirm: &AcceptConfirm,
    ) {
        let Some(record) = self.conn(conn) else {
            return;
        };
        let (group, link, first_contact) = (record.group, record.link, record.first_contact);
        let usable = self.group(group).is_some_and(|g| !g.is_ending());
        let Some(h) = self.handshakes.at_mut(handshake) else {
            debug_assert!(false, "the caller has a live rendezvous");
            return;
        };
        let terms = h.agreed.terms;
        // The version was settled by the Accept.
        if h.smcd.is_some() || terms.is_v2() != confirm.v2.is_some() {
            self.reset(conn, CloseReason::PeerMisbehaved);
            return;
        }
        let mut end = PeerEnd::new(confirm);
        if terms.is_v2()
            && first_contact
            && let Some(proposal) = h.proposal()
        {
            //= V2-110
            let (gid, mac) = proposal.port(terms.version);
            end.gid = gid;
            // A client without SMC-R of version 1 may have left it out there.
            //= V2-230
            if mac != Mac::default() {
                end.mac = mac;
            }
        }
        let extension = confirm.v2.filter(|_| SERVES_V2).map(|v2| v2.extension);
        let host = confirm
            .v2
            .as_ref()
            .map(|v2| PeerHost::of(v2.eid, &v2.extension));
        let confirm = end;
        h.peer = Some(confirm);
        h.deadline = None;
        if first_contact {
            // From here on the client may decline as well, at the same time.
            self.set_state(handshake, State::Forming);
            //= CLC-052
            //= CLC-053
            if !usable {
                self.decline(handshake, DiagnosisCode::LINK_READY, false);
                return;
            }
            //= V2-109
            if let Some(extension) = &extension {
                match version::confirmed(terms, extension) {
                    Ok(terms) => {
                        if let Some(g) = self.groups.data.groups.at_mut(group) {
                            g.terms = terms;
                            g.host = host.unwrap_or(g.host);
                        }
                    }
                    Err(code) => return self.decline(handshake, code, false),
                }
            }
            //= CLC-075
            if confirm.mtu.octets().is_none() || confirm.rmbe_index.0 == 0 {
                self.decline(handshake, DiagnosisCode::INTERNAL, false);
                return;
            }
            if !self.knows_rmb(group, link, handshake, &confirm) {
                self.decline(handshake, DiagnosisCode::RTOKEN, false);
                return;
            }
            //= RENDEZVOUS-020
            self.bind_link(link, &confirm, QpGoal::Rts);
            self.arm_handshake(handshake);
            self.groups.start_confirm_link(group);
        } else {
            self.on_subsequent_confirm(conn, handshake, &confirm);
        }
    }
}
