//! The rendezvous of SMC-D: a link group through an ISM device, a DMB of each side, and the
//! send buffers attached to them.
//!
//! ```text
//!  server: begin_smcd ─► choose_ism_group ─► own DMB ─► Accept … Confirm ─► attach ─► active
//!  client: Accept ─► enter_or_start_ism_group ─► own DMB, attach ─► Confirm ─► active
//! ```
//!
//! There is no LLC: the exchange of Accept and Confirm names both DMBs. The client attaches
//! its send buffer to the server's DMB before the Confirm, the server to the client's after
//! it (D-035).
//!
//! Called by the CLC input ([`input`](super::input)), by the server's choice
//! ([`server`](super::server)) and, when a buffer or group changed, by
//! [`progress`](super::progress).

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
    Acquired, Buffer, Fallback, IsmBuffer, IsmPeer, LinkGroup, Memory, PeerDmb, Role, same_device,
};
use crate::path::IsmPath;
use crate::version::{PeerHost, SmcVersion, Technology, Terms};
use crate::wire::cdc_ism::CDC_ISM_LENGTH;
use crate::wire::clc::{SmcdAcceptConfirm, SmcdAcceptConfirmV2};
use crate::wire::types::{AlertToken, DiagnosisCode, IsmGid};

/// Both ends of an SMC-D connection that is being made, as far as they are known.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct SmcdEnds {
    /// Devices of both sides: the key of the link group.
    ism_peer: IsmPeer,
    /// GID and channel of this side's device, for Accept or Confirm.
    own_gid: IsmGid,
    /// DMB that the peer's Accept or Confirm named.
    peer_dmb: Option<PeerDmb>,
}

impl SmcdEnds {
    //= D-034
    const fn new(version: SmcVersion, vlan: Option<u16>, path: &IsmPath, peer: IsmGid) -> Self {
        Self {
            ism_peer: IsmPeer {
                device: path.device,
                // An Accept of version 1 has no channel. Both ends are on the same one.
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
            own_gid: path.gid,
            peer_dmb: None,
        }
    }
}

/// DMB that the sender of an Accept or Confirm receives in. `None` if the message names another
/// element than the first: a DMB has one.
//= D-020
fn peer_dmb(message: &SmcdAcceptConfirm) -> Option<PeerDmb> {
    (message.dmbe_index == 0).then_some(PeerDmb {
        token: message.token,
        length: message.buffer_size.octets(),
    })
}

impl Engine<'_> {
    /// Server: goes on with SMC-D between two devices, which
    /// [`version::choose`] has chosen.
    pub(super) fn begin_smcd(
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
        self.choose_ism_group(conn, handshake);
    }

    /// Server: uses the active link group of both devices, waits for one that is being
    /// formed, or starts one. [`Engine::choose_group`] calls this again after the wait.
    pub(super) fn choose_ism_group(&mut self, conn: ConnIdx, handshake: HandshakeIdx) {
        let Some(ends) = self.handshakes.at(handshake).and_then(|h| h.smcd) else {
            debug_assert!(false, "the rendezvous has decided for SMC-D");
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

    /// Makes a link group for both devices and enters it. Declines if there is no room.
    ///
    /// `first_contact` is the flag that Accept and Confirm have. A client that has lost its end
    /// of a group makes a new one without it.
    pub(super) fn start_ism_group(
        &mut self,
        handshake: HandshakeIdx,
        role: Role,
        first_contact: bool,
    ) {
        let Some(h) = self.handshakes.at(handshake) else {
            debug_assert!(false, "the caller has a live rendezvous");
            return;
        };
        let (conn, terms) = (h.conn, h.agreed.terms);
        let smcd = h.smcd;
        self.groups.unqueue(conn);
        let Some(ends) = smcd else {
            debug_assert!(false, "the rendezvous has decided for SMC-D");
            return;
        };
        let Some(group) = self.groups.new_ism_group(role, ends.ism_peer, terms) else {
            self.decline(handshake, DiagnosisCode::MEMORY, false);
            return;
        };
        if let Some(g) = self.groups.data.groups.at_mut(group) {
            g.founder = conn;
        }
        if let Some(record) = self.groups.data.connections.at_mut(conn) {
            record.first_contact = first_contact;
        }
        self.enter_ism_group(group, conn, handshake);
    }

    /// Makes a connection a member of a link group and requests its buffers, a DMB and a send
    /// buffer. Attaches the latter if the peer's DMB is known. Declines if there is no memory.
    fn enter_ism_group(&mut self, group: GroupIdx, conn: ConnIdx, handshake: HandshakeIdx) {
        let Some(h) = self.handshakes.at_mut(handshake) else {
            debug_assert!(false, "the caller has a live rendezvous");
            return;
        };
        let config = &self.groups.data.core.config;
        let (now, wait) = (self.groups.data.core.now, config.timeouts.control_command);
        let default_dmb = config.dmb.unwrap_or(config.receive_buffer);
        let receive = h.options.receive_buffer.unwrap_or(default_dmb);
        let send = h.options.send_buffer.unwrap_or(config.send_buffer);
        let peer_dmb = h.smcd.and_then(|ends| ends.peer_dmb);
        self.prepare(handshake, now, wait);
        self.groups.enter_group(group, Idx::NONE, conn);
        let mut acquire = |kind, size| {
            let acquired = self.groups.acquire_buffer(group, conn, kind, size);
            acquired == Acquired::Yes
        };
        let acquired = acquire(BufferKind::Rmb, receive) && acquire(BufferKind::Send, send);
        if !acquired {
            //= CLC-054
            self.decline(handshake, DiagnosisCode::MEMORY, false);
            return;
        }
        if let Some(dmb) = peer_dmb {
            self.groups.attach_send_buffer(conn, dmb);
        }
        self.arm_handshake(handshake);
        self.groups.data.wake(conn);
    }

    /// How far the buffers of a connection are for Accept or Confirm. Both name this side's
    /// DMB. A client confirms only when its send buffer is attached to the server's DMB; a
    /// server does not know the client's yet.
    pub(super) fn smcd_prepared(&self, conn: ConnIdx, role: Role) -> Prepared {
        match role {
            Role::Client => self.smcd_attached(conn),
            Role::Server => self.smcd_buffers(conn, |send| {
                let is_dmb_itself =
                    matches!(send.ism, Some(IsmBuffer::Source { mapped: true, .. }));
                is_dmb_itself || send.memory == Memory::Present
            }),
        }
    }

    /// How far the buffers of a connection are for bytes to flow: the send buffer has to be
    /// attached to the peer's DMB.
    fn smcd_attached(&self, conn: ConnIdx) -> Prepared {
        self.smcd_buffers(conn, Buffer::is_attached)
    }

    /// How far the buffers of a connection are, where `is_ready` judges the send buffer.
    fn smcd_buffers(&self, conn: ConnIdx, is_ready: impl FnOnce(&Buffer) -> bool) -> Prepared {
        let Some(record) = self.conn(conn) else {
            debug_assert!(false, "a connection outlives its rendezvous");
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
        if is_ready(send) && dmb.dmb_token().is_some() {
            Prepared::Yes
        } else {
            Prepared::NotYet
        }
    }

    /// Client: handles the server's Accept of SMC-D. Declines what this side did not offer or
    /// cannot do, and resets the connection if the Accept names a device or an element that
    /// cannot be meant.
    //= V2-130
    //= D-026
    pub(crate) fn on_smcd_accept(
        &mut self,
        conn: ConnIdx,
        handshake: HandshakeIdx,
        accept: &SmcdAcceptConfirm,
    ) {
        let Some(h) = self.handshakes.at_mut(handshake) else {
            debug_assert!(false, "the caller has a live rendezvous");
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
        let (Some(path), Some(dmb)) = (accepted_path(h.ism(), version, peer), peer_dmb(accept))
        else {
            self.reset(conn, CloseReason::PeerMisbehaved);
            return;
        };
        if path.reaches.is_some_and(|only| !same_device(only, peer)) {
            self.decline(handshake, DiagnosisCode::NO_SMCD_DEVICE, false);
            return;
        }
        h.agreed.terms = Terms::of(Technology::SmcD, version);
        if let Some(v2) = &accept.v2 {
            h.agreed.eid = v2.eid;
            if accept.first_contact {
                let config = &self.groups.data.core.config;
                match version::confirm_terms(config, Technology::SmcD, &v2.extension) {
                    Ok(terms) => h.agreed.terms = terms,
                    Err(code) => return self.decline(handshake, code, false),
                }
            }
        }
        let ends = SmcdEnds {
            peer_dmb: Some(dmb),
            ..SmcdEnds::new(version, h.options.vlan, &path, peer)
        };
        h.smcd = Some(ends);
        self.enter_or_start_ism_group(conn, handshake, ends.ism_peer, accept.first_contact);
        if accept.first_contact {
            let v2 = accept.v2.as_ref();
            let host = v2.map(|v2| PeerHost::of(v2.eid, &v2.extension));
            self.keep_host(conn, host);
        }
    }

    /// Client: enters the active link group of both devices. Starts a group if there is none,
    /// or if the Accept has the flag of a first contact.
    //= D-035
    //= D-056
    fn enter_or_start_ism_group(
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
            Some(group) if !first_contact => {
                return self.enter_ism_group(group, conn, handshake);
            }
            // The server has lost its end of this group. Nothing uses it here either.
            Some(lost) if self.group(lost).is_some_and(|g| g.connection_count == 0) => {
                self.groups
                    .end_group(lost, CloseReason::LinksLost, Fallback::Keep);
            }
            _ => {}
        }
        self.start_ism_group(handshake, Role::Client, first_contact);
    }

    /// Server: handles the client's Confirm of SMC-D. The client sends its bytes over SMC-D from
    /// here on, so that every failure resets the connection: TCP is no fallback any more.
    pub(crate) fn on_smcd_confirm(
        &mut self,
        conn: ConnIdx,
        handshake: HandshakeIdx,
        confirm: &SmcdAcceptConfirm,
    ) {
        let Some(h) = self.handshakes.at(handshake) else {
            debug_assert!(false, "the caller has a live rendezvous");
            return;
        };
        let terms = h.agreed.terms;
        let Some(ends) = h.smcd else {
            self.reset(conn, CloseReason::PeerMisbehaved);
            return;
        };
        let repeats_accept = terms.is_v2() == confirm.v2.is_some()
            && same_device(confirm.device(), ends.ism_peer.peer);
        let (true, Some(dmb)) = (repeats_accept, peer_dmb(confirm)) else {
            self.reset(conn, CloseReason::PeerMisbehaved);
            return;
        };
        let record = self.conn(conn);
        let founded = record.and_then(|record| record.first_contact.then_some(record.group));
        //= V2-109
        if let (Some(group), Some(v2)) = (founded, &confirm.v2) {
            match version::confirmed(terms, &v2.extension) {
                Ok(terms) => {
                    if let Some(g) = self.groups.data.groups.at_mut(group) {
                        g.terms = terms;
                        g.host = PeerHost::of(v2.eid, &v2.extension);
                    }
                }
                Err(_) => return self.reset(conn, CloseReason::PeerMisbehaved),
            }
        }
        let attached_by = self
            .now()
            .after(self.groups.data.core.config.timeouts.control_command);
        if let Some(h) = self.handshakes.at_mut(handshake) {
            h.smcd = Some(SmcdEnds {
                peer_dmb: Some(dmb),
                ..ends
            });
            h.deadline = Some(attached_by);
        }
        self.set_state(handshake, State::Forming);
        self.groups.attach_send_buffer(conn, dmb);
        self.arm_handshake(handshake);
        self.groups.data.wake(conn);
    }

    /// Server, after the Confirm: establishes the connection once its send buffer is attached
    /// to the client's DMB. Resets it if that cannot be.
    pub(super) fn advance_attaching(&mut self, conn: ConnIdx, handshake: HandshakeIdx) {
        match self.smcd_attached(conn) {
            Prepared::NotYet => {}
            Prepared::Yes => self.establish(handshake),
            Prepared::No(_) => self.reset(conn, CloseReason::LinksLost),
        }
    }

    /// The body of Accept or Confirm, which names this side's device and DMB. `None` if the DMB
    /// is not registered.
    //= D-020
    //= D-022
    pub(super) fn smcd_accept_confirm(&self, h: &super::Handshake) -> Option<SmcdAcceptConfirm> {
        let ends = h.smcd?;
        let record = self.conn(h.conn)?;
        let dmb = self.groups.buffers.at(record.rmb.buffer)?;
        let first_contact = record.first_contact;
        let v2 = h.agreed.terms.is_v2().then(|| SmcdAcceptConfirmV2 {
            chid: ends.own_gid.chid,
            eid: h.agreed.eid,
            gid_ext: ends.own_gid.gid_ext,
            //= D-023
            extension: match first_contact {
                true => self.first_contact_extension(&h.agreed.terms),
                false => Default::default(),
            },
        });
        Some(SmcdAcceptConfirm {
            first_contact,
            gid: ends.own_gid.gid,
            token: dmb.dmb_token()?,
            dmbe_index: 0,
            buffer_size: dmb.size,
            link_id: record.group.get().to_be_bytes(),
            v2,
        })
    }

    /// Makes the connection of a rendezvous whose buffers are attached. Its rings lie behind the
    /// CDC message at the head of each DMB. `None` if a DMB has no room for a ring.
    //= D-044
    pub(super) fn smcd_connection(
        &mut self,
        handshake: HandshakeIdx,
    ) -> Option<(Connection, RemoteElement, Target)> {
        const HEAD: u32 = CDC_ISM_LENGTH as u32;
        let h = self.handshakes.at(handshake)?;
        let ends = h.smcd?;
        let record = self.conn(h.conn)?;
        let group = record.group;
        let own_dmb = self.groups.buffers.at(record.rmb.buffer)?.size.octets();
        let send_buffer = self.groups.buffers.at(record.send_buffer)?.size.octets();
        let ring_in = |length: u32| Ring::new(0, length.checked_sub(HEAD)?);
        let params = ConnectionParams {
            // A DMB is one connection's: its messages need no token.
            alert_token_peer: AlertToken(0),
            receive: ring_in(own_dmb)?,
            peer: ring_in(ends.peer_dmb?.length)?,
            send_buffer,
            nodelay: h.options.nodelay,
            urgent_inline: h.options.urgent_inline,
        };
        let config = &self.groups.data.core.config.connection;
        let mut connection = Connection::new(&params, config).over_smcd();
        if ends.ism_peer.maps {
            connection = connection.attached(HEAD);
        }
        self.groups.ism_group_formed(group);
        let target = Target::within(u64::from(HEAD));
        Some((connection, RemoteElement::NONE, target))
    }
}

/// The device of this side that a server's Accept means, of those that were offered.
fn accepted_path(offered: &[IsmPath], version: SmcVersion, peer: IsmGid) -> Option<IsmPath> {
    let is_meant = |path: &&IsmPath| match version {
        SmcVersion::V1 => path.pnet_match,
        SmcVersion::V2 => path.v2 && path.gid.chid == peer.chid,
    };
    offered.iter().find(is_meant).copied()
}
