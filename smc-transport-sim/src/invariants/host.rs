//! What one engine did.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use smc_proto::command::BufferKind;
use smc_proto::event::{CloseReason, Event};
use smc_proto::id::{BufferId, ConnId, LinkId, WrId};
use smc_proto::time::Instant;
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::types::{RKey, RToken};

use super::connection::{ConnLedger, Element};
use super::ism::IsmBuffers;
use super::reading::Reading;
use crate::fabric::HostId;
use crate::tcp::{Side, TcpId};

#[derive(Clone, Debug, Default)]
pub(super) struct HostLedger {
    pub(super) links: BTreeMap<LinkId, LinkLedger>,
    pub(super) buffers: BTreeMap<BufferId, BufferLedger>,
    pub(super) conns: BTreeMap<ConnId, ConnLedger>,
    /// Connections by the token of this side, and by that of the peer.
    pub(super) by_token: BTreeMap<u32, ConnId>,
    pub(super) by_peer_token: BTreeMap<u32, ConnId>,
    /// Buffers of its ISM devices, and connections that aborted over them.
    pub(super) ism: IsmBuffers,
    pub(super) ism_aborted: BTreeSet<ConnId>,
    /// The last owner of a DMB, and whether that ended in order.
    pub(super) dmb_users: BTreeMap<u64, (ConnId, bool)>,
    /// The clock of the host went wrong: the waits of the host prove nothing.
    pub(super) wrong_clock: bool,
}

/// A queue pair.
#[derive(Clone, Debug, Default)]
pub(super) struct LinkLedger {
    /// A control command is in progress.
    pub(super) busy: bool,
    /// The engine was notified that it broke, or stopped it.
    pub(super) over: bool,
    /// Nothing is on its way any more.
    pub(super) drained: bool,
    pub(super) outstanding: VecDeque<WrId>,
    pub(super) reading: Vec<Reading>,
}

/// A buffer.
#[derive(Clone, Debug)]
pub(super) struct BufferLedger {
    pub(super) kind: BufferKind,
    pub(super) element_size: u32,
    pub(super) busy: bool,
    pub(super) registered: BTreeMap<LinkId, RToken>,
    /// The peer agreed not to write to it any more.
    pub(super) withdrawn: bool,
    /// Elements cleared while the peer could still write to them.
    pub(super) tainted: BTreeSet<u32>,
    /// Links on which it is being deregistered; the answer is to come.
    pub(super) leaving: BTreeSet<LinkId>,
}

impl HostLedger {
    pub(super) fn open(&mut self, conn: ConnId, tcp: TcpId, side: Side) {
        self.conns.insert(conn, ConnLedger::new(tcp, side));
    }

    /// Notes the element given to a connection; what is wrong with giving it.
    pub(super) fn clc_sent(&mut self, now: Instant, conn: ConnId, bytes: &[u8]) -> Option<String> {
        let own = match ClcMessage::parse(bytes) {
            Ok((ClcMessage::Accept(own) | ClcMessage::Confirm(own), _)) => own,
            Ok((ClcMessage::SmcdAccept(own) | ClcMessage::SmcdConfirm(own), _)) => {
                return self.gives_dmb(conn, own.token.0);
            }
            _ => return None,
        };
        let found = self
            .buffers
            .iter()
            .find(|(_, buffer)| buffer.registered.values().any(|known| *known == own.rtoken));
        let (buffer, ledger) = found?;
        let before = u32::from(own.rmbe_index.0).saturating_sub(1);
        let element = Element {
            buffer: *buffer,
            offset: before.saturating_mul(ledger.element_size),
            size: ledger.element_size,
        };
        let tainted = ledger.tainted.contains(&element.offset);
        let held = self.exposed(now, *buffer, Some(element.offset), None);
        self.conns.get_mut(&conn)?.own = Some(element);
        self.by_token.insert(own.alert_token.0, conn);
        match held {
            Some(other) if other != conn => Some(format!(
                "{conn} gets an element to which the peer of {other} may write"
            )),
            _ if tainted => Some(format!(
                "{conn} gets an element that was cleared while a peer could write to it"
            )),
            _ => None,
        }
    }

    /// Notes the DMB given to a connection; what is wrong with giving it.
    fn gives_dmb(&mut self, conn: ConnId, token: u64) -> Option<String> {
        let before = self.dmb_users.insert(token, (conn, false));
        let (other, in_order) = before.filter(|(other, _)| *other != conn)?;
        (!in_order)
            .then(|| format!("{conn} gets a DMB to which the peer of {other} may still write"))
    }

    /// A CLC message of a connection was sent or taken.
    pub(super) fn note_clc(&mut self, conn: ConnId, bytes: &[u8]) {
        if let Ok((message, _)) = ClcMessage::parse(bytes)
            && let Some(c) = self.conns.get_mut(&conn)
        {
            c.note_clc(&message);
        }
    }

    /// I12: a side that offered SMC-R falls back to TCP only by a Decline, its own or the
    /// peer's, or the peer would go on with SMC-R.
    pub(super) fn falls_back_silently(&self, conn: ConnId) -> bool {
        let c = self.conns.get(&conn);
        c.is_some_and(|c| c.spoke_clc && !c.declined)
    }

    /// The peer agreed not to write to these RMBs any more.
    pub(super) fn withdrawn(&mut self, rkeys: &[RKey]) {
        for buffer in self.buffers.values_mut() {
            let mut keys = buffer.registered.values();
            buffer.withdrawn |= keys.any(|known| rkeys.contains(&known.rkey));
        }
    }

    /// A CLC message arrived; `given` is the element in which the peer receives.
    /// Its RToken does not name it: it has one for each link.
    pub(super) fn clc_received(
        &mut self,
        conn: ConnId,
        bytes: &[u8],
        given: Option<(HostId, Element)>,
    ) {
        if let Ok((ClcMessage::Accept(peer) | ClcMessage::Confirm(peer), _)) =
            ClcMessage::parse(bytes)
        {
            self.by_peer_token.insert(peer.alert_token.0, conn);
            // A peer that gives its element to another connection is done with the
            // one that had it, whatever of its last messages is still on its way.
            for (other, ledger) in &mut self.conns {
                if *other == conn {
                    ledger.peer_own = given;
                } else if given.is_some() && ledger.peer_own == given {
                    ledger.peer_done = true;
                }
            }
        }
    }

    /// Bytes of the connection's ring.
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
            return Err(format!("{event:?} of a connection that was never opened"));
        };
        if c.terminal {
            return Err(format!("{event:?} after the last event"));
        }
        if matches!(event, Event::Established { .. }) && std::mem::replace(&mut c.established, true)
        {
            return Err(format!("{conn} is established twice"));
        }
        c.terminal = last;
        if let Event::Closed { reason, .. } = event
            && *reason == CloseReason::Normal
        {
            let users = self.dmb_users.values_mut();
            users.for_each(|(user, in_order)| *in_order |= *user == conn);
        }
        let over = match event {
            // It waited long enough (CLOSE-032).
            Event::Closed { reason, .. } => matches!(reason, CloseReason::CloseTimeout),
            _ => false,
        };
        if over {
            c.peer_done = true;
            if let Some(own) = c.own
                && let Some(buffer) = self.buffers.get_mut(&own.buffer)
            {
                // The engine decided that before it cleared the element.
                buffer.tainted.remove(&own.offset);
            }
        }
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
