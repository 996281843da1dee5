//! The Confirm of a connection on a group that exists, and the link it names.
//!
//! Links come and go while the client writes it: the Confirm travels over TCP, what
//! is announced of links over RDMA, and neither waits for the other.

use crate::command::QpAddress;
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::{ConnIdx, GroupIdx, HandshakeIdx, LinkIdx};
use crate::link_group::{LinkState, find_remote_rmb};
use crate::rendezvous::PeerEnd;

/// The link that a Confirm names.
enum Named {
    /// Of the group as both sides know it.
    Known(LinkIdx),
    /// Being confirmed, or gone since the Accept: its position in the group. The
    /// client may use it, or may have, when it wrote the Confirm.
    Passing(u8),
}

impl Engine<'_> {
    //= CLC-055
    //= RENDEZVOUS-043
    //= RENDEZVOUS-044
    pub(super) fn on_subsequent_confirm(
        &mut self,
        conn: ConnIdx,
        handshake: HandshakeIdx,
        confirm: &PeerEnd,
    ) {
        let Some(record) = self.conn(conn) else {
            return;
        };
        let (group, link) = (record.group, record.link);
        if self.group(group).is_none_or(|g| g.is_ending()) {
            self.reset(conn, CloseReason::RendezvousFailed);
            return;
        }
        let fault = match self.link_named(group, handshake, confirm) {
            _ if confirm.rmbe_index.0 == 0 => Some(CloseReason::PeerMisbehaved),
            // The link of our Accept may have failed since, and the client may have
            // chosen another one.
            Some(Named::Known(named)) if self.knows_rmb(group, named, handshake, confirm) => {
                if link != named && self.link(named).is_some_and(|l| l.is_active()) {
                    self.groups.assign_link(named, conn);
                }
                None
            }
            Some(Named::Passing(position)) => (!self
                .recalls_rmb(group, handshake, position, confirm))
            .then_some(CloseReason::LinksLost),
            Some(Named::Known(_)) | None => Some(CloseReason::PeerMisbehaved),
        };
        match fault {
            Some(reason) => self.reset(conn, reason),
            //= RENDEZVOUS-045
            //= RENDEZVOUS-051
            None => self.establish(handshake),
        }
    }

    fn link_named(
        &self,
        group: GroupIdx,
        handshake: HandshakeIdx,
        confirm: &PeerEnd,
    ) -> Option<Named> {
        // In version 2 the GID alone names the port.
        //= V2-210
        let v2 = self.group(group).is_some_and(|g| g.terms.is_v2());
        let is_named = |peer: &QpAddress| {
            peer.qpn == confirm.qpn && peer.gid == confirm.gid && (v2 || peer.mac == confirm.mac)
        };
        let present = self
            .groups
            .select_links(group, |l| {
                l.link_state != LinkState::Offered && l.peer.as_ref().is_some_and(is_named)
            })
            .next();
        if let Some((index, link)) = present {
            return Some(match link.is_known() {
                true => Named::Known(index),
                false => Named::Passing(link.position),
            });
        }
        let record = self.conn(self.handshakes.at(handshake)?.conn)?;
        self.group(group)?
            .smcr()?
            .former
            .since(record.contact.links_left)
            .find(|former| is_named(&former.peer))
            .map(|former| Named::Passing(former.position))
    }

    /// Finds the peer's RMB by its key on a link that no connection uses: whether it is
    /// known. What is announced of such a link is not new.
    fn recalls_rmb(
        &mut self,
        group: GroupIdx,
        handshake: HandshakeIdx,
        position: u8,
        confirm: &PeerEnd,
    ) -> bool {
        let Some(list) = self.group(group).map(|g| g.remote_rmbs) else {
            return false;
        };
        let (rtoken, steps) = (confirm.rtoken, &mut self.groups.data.core.steps);
        let rmb = find_remote_rmb(&mut self.groups.remote_rmbs, &list, position, rtoken, steps);
        let known = rmb.is_some();
        let generation = self.groups.remote_rmbs.generation(rmb);
        self.set_remote_rmb(handshake, known.then_some((rmb, generation)));
        known
    }
}
