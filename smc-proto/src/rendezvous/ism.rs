//! SMC-D: from the choice to a group of the device, and a DMB for each side.
//!
//! There is no LLC. A server takes the client's DMB after the Confirm, a client the
//! server's before it; then the connection is ready (D-035).

use super::State;
use super::progress::Prepared;
use super::version;
use crate::command::{BufferKind, ISM_VLAN_V2};
use crate::config::Offers;
use crate::connection::{Connection, ConnectionParams, Ring};
use crate::connection_record::{RemoteElement, Target};
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::{ConnIdx, GroupIdx, HandshakeIdx, Idx};
use crate::link_group::{
    Acquired, Fallback, IsmBuffer, IsmPeer, LinkGroup, Memory, PeerDmb, Role, same_device,
};
use crate::path::IsmPath;
use crate::version::{PeerHost, SmcVersion, Technology};
use crate::wire::cdc_ism::CDC_ISM_LENGTH;
use crate::wire::clc::{SmcdAcceptConfirm, SmcdAcceptConfirmV2};
use crate::wire::types::{AlertToken, DiagnosisCode, IsmGid};

/// What a rendezvous of SMC-D has decided.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SmcdEnds {
    /// The own device and the peer's.
    ism_peer: IsmPeer,
    /// How this side's device is named.
    own: IsmGid,
    /// The peer's DMB, once it was announced.
    dmb: Option<PeerDmb>,
}

impl SmcdEnds {
    //= D-034
    const fn new(version: SmcVersion, vlan: Option<u16>, path: &IsmPath, peer: IsmGid) -> Self {
        Self {
            ism_peer: IsmPeer {
                device: path.device,
                // Version 1 does not send the channel, which is the same at both ends.
                peer: IsmGid {
                    chid: path.gid.chid,
                    ..peer
                },
                vlan: match version {
                    SmcVersion::V1 => vlan,
                    SmcVersion::V2 => Some(ISM_VLAN_V2),
                },
                maps: path.attaches,
            },
            own: path.gid,
            dmb: None,
        }
    }
}

/// The sender's DMB, if its only element is meant.
//= D-020
fn dmb_of(message: &SmcdAcceptConfirm) -> Option<PeerDmb> {
    (message.dmbe_index == 0).then_some(PeerDmb {
        token: message.token,
        length: message.buffer_size.octets(),
    })
}

impl Engine<'_> {
    /// Server: the group of a device and a peer is to carry the connection.
    pub(crate) fn choose_ism_group(
        &mut self,
        conn: ConnIdx,
        handshake: HandshakeIdx,
        path: IsmPath,
        peer: IsmGid,
    ) {
        if let Some(h) = self.handshakes.at_mut(handshake) {
            let version = h.agreed.terms.version;
            h.smcd = Some(SmcdEnds::new(version, h.options.vlan, &path, peer));
        }
        self.choose_group_of_ism(conn, handshake);
    }

    /// Server: uses a group that is there, waits for one that is being formed, or
    /// starts one.
    pub(super) fn choose_group_of_ism(&mut self, conn: ConnIdx, handshake: HandshakeIdx) {
        let Some(ends) = self.handshakes.at(handshake).and_then(|h| h.smcd) else {
            return;
        };
        match self.groups.find_ism_group(ends.ism_peer) {
            Some(group) if self.group(group).is_some_and(LinkGroup::is_active) => {
                self.enter_ism_group(group, conn, handshake);
            }
            Some(group) => self.queue_on(group, conn, handshake),
            None => self.start_ism_group(handshake, Role::Server, true),
        }
    }

    /// Starts a group. `first_contact`: the peer knows that it is a new one.
    pub(super) fn start_ism_group(
        &mut self,
        handshake: HandshakeIdx,
        role: Role,
        first_contact: bool,
    ) {
        let Some(h) = self.handshakes.at(handshake) else {
            return;
        };
        self.groups.unqueue(h.conn);
        let Some(h) = self.handshakes.at(handshake) else {
            return;
        };
        let (conn, terms) = (h.conn, h.agreed.terms);
        let Some(ends) = h.smcd else { return };
        let Some(group) = self.groups.new_ism_group(role, ends.ism_peer, terms) else {
            self.decline(handshake, DiagnosisCode::MEMORY, false);
            return;
        };
        if let Some(g) = self.groups.groups.at_mut(group) {
            g.founder = conn;
        }
        if let Some(record) = self.groups.data.connections.at_mut(conn) {
            record.first_contact = first_contact;
        }
        self.enter_ism_group(group, conn, handshake);
    }

    /// Makes a connection a member of a group and asks for its buffers.
    fn enter_ism_group(&mut self, group: GroupIdx, conn: ConnIdx, handshake: HandshakeIdx) {
        let Some(h) = self.handshakes.at_mut(handshake) else {
            return;
        };
        let config = &self.groups.data.core.config;
        let (now, wait) = (self.groups.data.core.now, config.timeouts.control_command);
        let fast = config.dmb.unwrap_or(config.receive_buffer);
        let receive = h.options.receive_buffer.unwrap_or(fast);
        let send = h.options.send_buffer.unwrap_or(config.send_buffer);
        let dmb = h.smcd.and_then(|ends| ends.dmb);
        self.prepare(handshake, now, wait);
        let link = self.group(group).map(LinkGroup::first_link);
        self.groups
            .enter_group(group, link.unwrap_or(Idx::NONE), conn);
        let acquired = self
            .groups
            .acquire_buffer(group, conn, BufferKind::Rmb, receive)
            == Acquired::Yes
            && self
                .groups
                .acquire_buffer(group, conn, BufferKind::Send, send)
                == Acquired::Yes;
        if !acquired {
            //= CLC-054
            self.decline(handshake, DiagnosisCode::MEMORY, false);
            return;
        }
        if let Some(dmb) = dmb {
            self.groups.bind_send_buffer(conn, dmb);
        }
        self.arm_handshake(handshake);
        self.groups.data.wake(conn);
    }

    /// How far the buffers of a connection are; with `bound` the send buffer must be
    /// bound to the peer's DMB.
    pub(super) fn ism_prepared(&self, conn: ConnIdx, bound: bool) -> Prepared {
        let Some(record) = self.conn(conn) else {
            return Prepared::NotYet;
        };
        if self.group(record.group).is_none_or(LinkGroup::is_ending) {
            return Prepared::No(DiagnosisCode::LINK_READY);
        }
        let buffers = (
            self.groups.buffers.at(record.rmb.buffer),
            self.groups.buffers.at(record.send_buffer),
        );
        let (Some(dmb), Some(send)) = buffers else {
            return Prepared::No(DiagnosisCode::MEMORY);
        };
        //= D-033
        if dmb.retired {
            return Prepared::No(DiagnosisCode::DMB_LIMIT);
        }
        if send.retired || send.memory == Memory::Gone {
            return Prepared::No(DiagnosisCode::MEMORY);
        }
        let mapped = matches!(send.ism, Some(IsmBuffer::Source { mapped: true, .. }));
        let ready = if bound {
            send.is_attached()
        } else {
            mapped || send.memory == Memory::Present
        };
        if ready && dmb.dmb_token().is_some() {
            Prepared::Yes
        } else {
            Prepared::NotYet
        }
    }

    /// The server's Accept of SMC-D.
    //= V2-130
    //= D-026
    pub(crate) fn on_smcd_accept(
        &mut self,
        conn: ConnIdx,
        handshake: HandshakeIdx,
        accept: &SmcdAcceptConfirm,
    ) {
        let Some(h) = self.handshakes.at_mut(handshake) else {
            return;
        };
        let (version, offer) = match accept.v2 {
            None => (SmcVersion::V1, Offers::SMCD_V1),
            Some(_) => (SmcVersion::V2, Offers::SMCD_V2),
        };
        //= V2-071
        h.version = version;
        if !h.offers.contains(offer) {
            self.decline(handshake, DiagnosisCode::MODE_MISMATCH, false);
            return;
        }
        let peer = accept.device();
        let offered = |path: &&IsmPath| match version {
            SmcVersion::V1 => path.pnet_match,
            SmcVersion::V2 => path.v2 && path.gid.chid == peer.chid,
        };
        let (Some(path), Some(dmb)) = (h.ism().iter().find(offered).copied(), dmb_of(accept))
        else {
            self.reset(conn, CloseReason::PeerMisbehaved);
            return;
        };
        if path.reaches.is_some_and(|only| !same_device(only, peer)) {
            self.decline(handshake, DiagnosisCode::NO_SMCD_DEVICE, false);
            return;
        }
        h.agreed.terms = crate::version::Terms::of(Technology::SmcD, version);
        if let Some(v2) = &accept.v2 {
            h.agreed.eid = v2.eid;
            if accept.first_contact {
                let extension = &v2.extension;
                match version::confirm_terms(
                    &self.groups.data.core.config,
                    Technology::SmcD,
                    extension,
                ) {
                    Ok(terms) => h.agreed.terms = terms,
                    Err(code) => return self.decline(handshake, code, false),
                }
            }
        }
        let ends = SmcdEnds {
            dmb: Some(dmb),
            ..SmcdEnds::new(version, h.options.vlan, &path, peer)
        };
        h.smcd = Some(ends);
        self.join_ism_group(conn, handshake, ends.ism_peer, accept.first_contact);
        if accept.first_contact {
            let host = accept
                .v2
                .as_ref()
                .map(|v2| PeerHost::of(v2.eid, &v2.extension));
            self.keep_host(conn, host);
        }
    }

    /// Client: the group of a device and a peer carries the connection.
    //= D-035
    //= D-056
    fn join_ism_group(
        &mut self,
        conn: ConnIdx,
        handshake: HandshakeIdx,
        ism_peer: IsmPeer,
        first_contact: bool,
    ) {
        let active = self
            .groups
            .find_ism_group(ism_peer)
            .filter(|group| self.group(*group).is_some_and(LinkGroup::is_active));
        match active {
            Some(group) if !first_contact => self.enter_ism_group(group, conn, handshake),
            // The server has lost its end of a group that is unused here, too.
            Some(stale) if self.group(stale).is_some_and(|g| g.connection_count == 0) => {
                self.groups
                    .end_group(stale, CloseReason::LinksLost, Fallback::Keep);
                self.start_ism_group(handshake, Role::Client, first_contact);
            }
            _ => self.start_ism_group(handshake, Role::Client, first_contact),
        }
    }

    /// The client's Confirm of SMC-D. There is no way back to TCP for it.
    pub(crate) fn on_smcd_confirm(
        &mut self,
        conn: ConnIdx,
        handshake: HandshakeIdx,
        confirm: &SmcdAcceptConfirm,
    ) {
        let Some(h) = self.handshakes.at(handshake) else {
            return;
        };
        let terms = h.agreed.terms;
        let Some(ends) = h.smcd else {
            self.reset(conn, CloseReason::PeerMisbehaved);
            return;
        };
        let record = self.conn(conn);
        let (group, first_contact) = record.map_or((Idx::NONE, false), |record| {
            (record.group, record.first_contact)
        });
        let fits = terms.is_v2() == confirm.v2.is_some()
            && same_device(confirm.device(), ends.ism_peer.peer);
        let (true, Some(dmb)) = (fits, dmb_of(confirm)) else {
            self.reset(conn, CloseReason::PeerMisbehaved);
            return;
        };
        //= V2-109
        if let (true, Some(v2)) = (first_contact, &confirm.v2) {
            match version::confirmed(terms, &v2.extension) {
                Ok(terms) => {
                    if let Some(g) = self.groups.groups.at_mut(group) {
                        g.terms = terms;
                        g.host = PeerHost::of(v2.eid, &v2.extension);
                    }
                }
                // What the client takes for agreed is not; and for it SMC-D has begun.
                Err(_) => return self.reset(conn, CloseReason::PeerMisbehaved),
            }
        }
        let wait = self
            .now()
            .after(self.groups.data.core.config.timeouts.control_command);
        if let Some(h) = self.handshakes.at_mut(handshake) {
            h.smcd = Some(SmcdEnds {
                dmb: Some(dmb),
                ..ends
            });
            h.deadline = Some(wait);
        }
        self.set_state(handshake, State::Forming);
        self.groups.bind_send_buffer(conn, dmb);
        self.arm_handshake(handshake);
        self.groups.data.wake(conn);
    }

    /// Server: the Confirm is here, and the client's DMB is being bound.
    pub(super) fn advance_binding(&mut self, conn: ConnIdx, handshake: HandshakeIdx) {
        match self.ism_prepared(conn, true) {
            Prepared::NotYet => {}
            Prepared::Yes => self.establish(handshake),
            Prepared::No(_) => self.reset(conn, CloseReason::LinksLost),
        }
    }

    /// The own half of the connection, as Accept or Confirm describes it.
    //= D-020
    //= D-022
    pub(super) fn smcd_accept_confirm(&self, h: &super::Handshake) -> Option<SmcdAcceptConfirm> {
        let ends = h.smcd?;
        let record = self.conn(h.conn)?;
        let dmb = self.groups.buffers.at(record.rmb.buffer)?;
        let first_contact = record.first_contact;
        let v2 = h.agreed.terms.is_v2().then(|| SmcdAcceptConfirmV2 {
            chid: ends.own.chid,
            eid: h.agreed.eid,
            gid_ext: ends.own.gid_ext,
            //= D-023
            extension: match first_contact {
                true => self.first_contact_extension(&h.agreed.terms),
                false => Default::default(),
            },
        });
        Some(SmcdAcceptConfirm {
            first_contact,
            gid: ends.own.gid,
            token: dmb.dmb_token()?,
            dmbe_index: 0,
            buffer_size: dmb.size,
            link_id: record.group.get().to_be_bytes(),
            v2,
        })
    }

    /// The protocol state of a connection whose buffers are ready.
    //= D-044
    pub(super) fn smcd_connection(
        &mut self,
        handshake: HandshakeIdx,
    ) -> Option<(Connection, RemoteElement, Target)> {
        const HEAD: u32 = CDC_ISM_LENGTH as u32;
        let h = self.handshakes.at(handshake)?;
        let ends = h.smcd?;
        let record = self.conn(h.conn)?;
        let own = self.groups.buffers.at(record.rmb.buffer)?.size.octets();
        let send = self.groups.buffers.at(record.send_buffer)?.size.octets();
        let ring = |length: u32| Ring::new(0, length.checked_sub(HEAD)?);
        let params = ConnectionParams {
            alert_token_peer: AlertToken(0),
            receive: ring(own)?,
            peer: ring(ends.dmb?.length)?,
            send_buffer: send,
            nodelay: h.options.nodelay,
            urgent_inline: h.options.urgent_inline,
        };
        let group = record.group;
        let connection =
            Connection::new(&params, &self.groups.data.core.config.connection).over_smcd();
        let (remote, target) = (RemoteElement::NONE, Target::within(u64::from(HEAD)));
        self.groups.ism_group_formed(group);
        Some(match ends.ism_peer.maps {
            true => (connection.attached(HEAD), remote, target),
            false => (connection, remote, target),
        })
    }
}
