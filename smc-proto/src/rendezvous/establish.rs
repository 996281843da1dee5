//! The end of a rendezvous: the connection gets the peer's element and goes on over
//! SMC-R.

use super::PeerEnd;
use crate::connection::{Connection, ConnectionParams, Ring};
use crate::connection_record::{Pending, Phase, RemoteElement, Target};
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::{ConnIdx, GroupIdx, HandshakeIdx, LinkIdx, RemoteRmbIdx};
use crate::stats::count;
use crate::trace::TraceEvent;
use crate::version::Technology;
use crate::wire::types::RToken;

impl Engine<'_> {
    /// The rendezvous is over: the connection is carried by SMC.
    //= CLOSE-001
    pub(crate) fn establish(&mut self, handshake: HandshakeIdx) {
        let Some(h) = self.handshakes.at(handshake) else {
            debug_assert!(false, "the caller has a live rendezvous");
            return;
        };
        let (conn, smcd) = (h.conn, h.smcd.is_some());
        let made = match smcd {
            true => self
                .smcd_connection(handshake)
                .ok_or(CloseReason::PeerMisbehaved),
            false => self.smcr_connection(handshake),
        };
        match made {
            Ok(made) => self.activate(conn, handshake, made),
            Err(reason) => self.reset(conn, reason),
        }
    }

    /// The protocol state of a connection of SMC-R, and where it writes to.
    fn smcr_connection(
        &mut self,
        handshake: HandshakeIdx,
    ) -> Result<(Connection, RemoteElement, Target), CloseReason> {
        let lost = CloseReason::LinksLost;
        let h = self.handshakes.at(handshake).ok_or(lost)?;
        let (conn, peer) = (h.conn, h.peer.ok_or(lost)?);
        let (nodelay, urgent_inline) = (h.options.nodelay, h.options.urgent_inline);
        let record = self.conn(conn).ok_or(lost)?;
        let group = record.group;
        let (rmb, send_buffer) = (record.rmb.buffer, record.send_buffer);
        // The peer may have withdrawn its RMB, or cannot be reached there any more.
        let (remote, target) = self.remote_element(group, conn, &peer).ok_or(lost)?;
        let base = self.group(group).map_or(0, |g| g.ring_base);
        let bytes = |index| self.groups.buffers.at(index).map_or(0, |b| b.size.octets());
        let rings = (
            Ring::new(base, bytes(rmb)),
            Ring::new(base, peer.buffer_size.octets()),
        );
        let (Some(receive), Some(peer_ring)) = rings else {
            return Err(CloseReason::PeerMisbehaved);
        };
        let params = ConnectionParams {
            alert_token_peer: peer.alert_token,
            receive,
            peer: peer_ring,
            send_buffer: bytes(send_buffer),
            nodelay,
            urgent_inline,
        };
        let connection = Connection::new(&params, &self.groups.data.core.config.connection);
        Ok((connection, remote, target))
    }

    /// Bytes may flow.
    fn activate(
        &mut self,
        conn: ConnIdx,
        handshake: HandshakeIdx,
        (connection, remote, target): (Connection, RemoteElement, Target),
    ) {
        let (Some(h), Some(record)) = (self.handshakes.at(handshake), self.conn(conn)) else {
            debug_assert!(false, "the caller has a live rendezvous");
            return;
        };
        let (early, first_contact) = (h.early, record.first_contact);
        let home = self.groups.group_id(record.group);
        let technology = match h.smcd {
            Some(_) => Technology::SmcD,
            None => Technology::SmcR,
        };
        self.drop_handshake(handshake);
        if let Some(record) = self.groups.data.connections.at_mut(conn) {
            record.connection = Some(connection);
            record.remote = remote;
            record.target = target;
            record.phase = Phase::Active;
            record.home = home;
        }
        count(&mut self.groups.data.core.statistics.established);
        if first_contact {
            count(&mut self.groups.data.core.statistics.first_contacts);
        }
        self.trace_conn(conn, || TraceEvent::Established {
            group: home,
            first_contact,
            technology,
        });
        //= TCPOPT-009
        self.groups
            .data
            .report(conn, Pending::ESTABLISHED | Pending::WRITABLE);
        //= RENDEZVOUS-050
        //= CDC-033
        for cdc in early.iter().flatten() {
            self.groups.data.apply_early(conn, cdc);
        }
        self.groups.follow_up(conn);
        let shutdown = self
            .groups
            .data
            .connections
            .at_mut(conn)
            .and_then(|r| r.shutdown.take());
        if let Some(how) = shutdown {
            self.groups.with_connection(conn, |c, now, config| {
                c.shutdown(now, &config.connection, how);
            });
        }
    }

    /// Finds or stores the peer's RMB as known on the link its Accept or Confirm
    /// names: whether that was possible.
    //= RENDEZVOUS-013
    pub(super) fn knows_rmb(
        &mut self,
        group: GroupIdx,
        link: LinkIdx,
        handshake: HandshakeIdx,
        peer: &PeerEnd,
    ) -> bool {
        let Some(position) = self.link(link).map(|l| l.position) else {
            return false;
        };
        let Some(rmb) = self.groups.learn_rtoken(group, position, peer.rtoken) else {
            return false;
        };
        let generation = self.groups.remote_rmbs.generation(rmb);
        self.set_remote_rmb(handshake, Some((rmb, generation)));
        true
    }

    /// Notes the peer's RMB that a rendezvous is about.
    pub(super) fn set_remote_rmb(
        &mut self,
        handshake: HandshakeIdx,
        rmb: Option<(RemoteRmbIdx, u32)>,
    ) {
        if let Some(h) = self.handshakes.at(handshake)
            && let Some(record) = self.groups.data.connections.at_mut(h.conn)
        {
            record.contact.remote_rmb = rmb;
        }
    }

    /// Claims an element of the peer's RMB for a connection, over its link or
    /// another one if that was lost meanwhile.
    //= RENDEZVOUS-013
    //= RENDEZVOUS-040
    //= RENDEZVOUS-042
    fn remote_element(
        &mut self,
        group: GroupIdx,
        conn: ConnIdx,
        peer: &PeerEnd,
    ) -> Option<(RemoteElement, Target)> {
        let rmb = self.groups.remote_rmb_of(conn);
        let (link, send_buffer) = self
            .conn(conn)
            .map(|record| (record.link, record.send_buffer))?;
        let position = |engine: &Self, link| engine.link(link).map(|l| l.position);
        let reachable = self.groups.remote_rmbs.at(rmb)?.links();
        let registered = self.groups.buffers.at(send_buffer)?.registered();
        let usable = self.link(link).is_some_and(|l| l.link_state.carries_data())
            && position(self, link).is_some_and(|p| reachable.and(registered).contains(p));
        if !usable {
            let other = self.groups.link_for_connection(group, rmb, &[send_buffer]);
            self.groups.assign_link(other, conn);
        }
        let link = self.conn(conn)?.link;
        let position = position(self, link)?;
        let RToken { rkey, address } = self.groups.remote_rmbs.at(rmb)?.rtoken(position)?;
        let index = peer.rmbe_index.0;
        if !self
            .groups
            .remote_rmbs
            .at_mut(rmb)?
            .elements()
            .insert(index)
        {
            //= RMB-023
            self.groups.abort_user_of(group, rmb, index, conn);
            self.groups
                .remote_rmbs
                .at_mut(rmb)?
                .elements()
                .insert(index);
        }
        //= RMB-012
        let offset = u64::from(index)
            .saturating_sub(1)
            .saturating_mul(u64::from(peer.buffer_size.octets()));
        let address = address.wrapping_add(offset);
        Some((RemoteElement { rmb, index }, Target { rkey, address }))
    }
}
