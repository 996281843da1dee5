//! What one engine did.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use smc_proto::command::BufferKind;
use smc_proto::event::Event;
use smc_proto::id::{BufferId, ConnId, LinkId, WrId};
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::types::RToken;

use super::connection::{ConnLedger, Element};
use crate::tcp::{Side, TcpId};

#[derive(Clone, Debug, Default)]
pub(super) struct HostLedger {
    pub(super) links: BTreeMap<LinkId, LinkLedger>,
    pub(super) buffers: BTreeMap<BufferId, BufferLedger>,
    pub(super) conns: BTreeMap<ConnId, ConnLedger>,
    /// Connections by the token of this side, and by that of the peer.
    pub(super) by_token: BTreeMap<u32, ConnId>,
    pub(super) by_peer_token: BTreeMap<u32, ConnId>,
}

/// A queue pair.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkLedger {
    /// A control command is under way.
    pub(super) busy: bool,
    /// The engine was told that it broke, or told it to stop.
    pub(super) over: bool,
    /// Nothing is on its way any more.
    pub(super) drained: bool,
    pub(super) outstanding: VecDeque<WrId>,
}

/// A buffer.
#[derive(Clone, Debug)]
pub(super) struct BufferLedger {
    pub(super) kind: BufferKind,
    pub(super) element_size: u32,
    pub(super) busy: bool,
    pub(super) registered: BTreeMap<LinkId, RToken>,
    /// Links on which it was told to be deregistered; the answer is to come.
    pub(super) leaving: BTreeSet<LinkId>,
}

impl HostLedger {
    pub(super) fn open(&mut self, conn: ConnId, tcp: TcpId, side: Side) {
        self.conns.insert(conn, ConnLedger::new(tcp, side));
    }

    pub(super) fn clc_sent(&mut self, conn: ConnId, octets: &[u8]) {
        let Ok((ClcMessage::Accept(own) | ClcMessage::Confirm(own), _)) = ClcMessage::parse(octets)
        else {
            return;
        };
        let found = self
            .buffers
            .iter()
            .find(|(_, buffer)| buffer.registered.values().any(|known| *known == own.rtoken));
        let (Some(c), Some((buffer, ledger))) = (self.conns.get_mut(&conn), found) else {
            return;
        };
        let before = u32::from(own.rmbe_index.0).saturating_sub(1);
        c.own = Some(Element {
            buffer: *buffer,
            offset: before.saturating_mul(ledger.element_size),
            size: ledger.element_size,
        });
        self.by_token.insert(own.alert_token.0, conn);
    }

    pub(super) fn clc_received(&mut self, conn: ConnId, octets: &[u8]) {
        if let Ok((ClcMessage::Accept(peer) | ClcMessage::Confirm(peer), _)) =
            ClcMessage::parse(octets)
        {
            self.by_peer_token.insert(peer.alert_token.0, conn);
        }
    }

    /// Octets of the connection's ring.
    pub(super) fn ring(&self, conn: ConnId) -> Option<u32> {
        Some(self.conns.get(&conn)?.own?.size)
    }

    pub(super) fn event(&mut self, event: &Event) -> Result<(), String> {
        let (conn, last) = match *event {
            Event::FellBack { conn, .. } | Event::Closed { conn, .. } => (conn, true),
            Event::Proposed { conn }
            | Event::Established { conn, .. }
            | Event::Readable { conn }
            | Event::Writable { conn }
            | Event::Urgent { conn } => (conn, false),
            _ => return Ok(()),
        };
        let Some(c) = self.conns.get_mut(&conn) else {
            return Err(format!("{event:?} of a connection nobody opened"));
        };
        if c.terminal {
            return Err(format!("{event:?} after the last event"));
        }
        if matches!(event, Event::Established { .. }) && std::mem::replace(&mut c.established, true)
        {
            return Err(format!("{conn} is established twice"));
        }
        c.terminal = last;
        Ok(())
    }

    pub(super) fn unfinished(&self) -> Vec<ConnId> {
        let conns = self.conns.iter();
        conns
            .filter(|(_, c)| !c.terminal)
            .map(|(conn, _)| *conn)
            .collect()
    }
}
