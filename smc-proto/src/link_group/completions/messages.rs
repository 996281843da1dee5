//! SENDs: what peers sent, and what of ours completed.

use super::super::{Link, SendKind};
use crate::connection::{CdcOutcome, NotifyRecord};
use crate::connection_record::{ConnectionRecord, Pending, Phase};
use crate::core::Core;
use crate::data_path::{DataPath, Deferred};
use crate::id::{ConnIdx, GroupIdx, Idx, LinkId, LinkIdx, WrId};
use crate::link_group::Groups;
use crate::planted::PlantedBug;
use crate::slots::Pool;
use crate::stats::{Statistics, count};
use crate::trace::{Subject, Tap, TraceEvent};
use crate::wire::cdc::{CDC_TYPE, Cdc, CdcOctets};
use crate::wire::types::AlertToken;

impl DataPath<'_> {
    //= LLC-006
    #[inline(always)]
    pub(crate) fn on_received(&mut self, link: LinkId, payload: &[u8]) -> Deferred {
        let now = self.core.now;
        let Some(l) = self.links.live_mut(link.index, link.generation) else {
            return Deferred::Nothing;
        };
        l.last_received = now;
        let group = l.group;
        //= CLC-001
        if payload.first() != Some(&CDC_TYPE) {
            return Deferred::Llc(link.index);
        }
        match CdcOctets::of(payload) {
            Ok(cdc) => self.on_cdc(group, cdc),
            Err(_) => Deferred::Violation(link.index),
        }
    }

    /// A CDC message on any link of the group (CDC-032).
    //= CDC-032
    //= V2-215
    #[inline(always)]
    fn on_cdc(&mut self, group: GroupIdx, cdc: CdcOctets<'_>) -> Deferred {
        let core = &mut *self.core;
        if core.config.connection.planted(PlantedBug::WalkAll) {
            (0..self.connections.capacity()).for_each(|_| core.step());
        }
        // Most messages are for the same connection as the one before.
        let conn = core.last_receiver;
        let token = cdc.alert_token();
        if self
            .connections
            .at(conn)
            .is_some_and(|record| record.is_receiver(group, token))
        {
            return self.on_cdc_of(conn, cdc);
        }
        let (core, connections, links, tap) = self.parts();
        on_cdc_for_another(core, connections, links, tap, group, cdc)
    }

    /// A CDC message for this connection.
    #[inline(always)]
    fn on_cdc_of(&mut self, conn: ConnIdx, cdc: CdcOctets<'_>) -> Deferred {
        let Some(record) = self.connections.at_mut(conn) else {
            return Deferred::Nothing;
        };
        let Some(connection) = record.connection.as_mut() else {
            return Deferred::Nothing;
        };
        let core = &mut *self.core;
        let seen = self.tap.look(connection);
        let outcome = connection.on_cdc_bytes(core.now, &core.config.connection, cdc);
        count_outcome(&mut core.statistics, outcome);
        let readable = connection.take_readable();
        let settled = connection.is_settled();
        if readable {
            record.notices |= Pending::READABLE;
            self.core
                .connection_events
                .push_back(&mut self.connections, conn);
        }
        self.trace_received(conn, seen, || cdc.read(), outcome);
        if settled {
            return Deferred::Nothing;
        }
        self.after_connection(conn)
    }

    /// A SEND completed, and with it all before it on its link: most often none,
    /// and it was a CDC message.
    #[inline(always)]
    pub(crate) fn on_sent(&mut self, link: LinkId, wr_id: WrId) -> Deferred {
        let Some(l) = self.links.live_mut(link.index, link.generation) else {
            return Deferred::Nothing;
        };
        // A link that leaves may have become quiet.
        let Some(SendKind::Notify {
            index,
            generation,
            record,
        }) = l.in_flight.front(wr_id.0).filter(|_| l.is_active())
        else {
            return Deferred::Sends(link.index);
        };
        // A link with a free slot is on its device's list already if it wants to.
        let was_full = !l.has_free_slot();
        l.in_flight.pop();
        self.core.step();
        let deferred = self.on_notify_sent(index, generation, record);
        if was_full {
            self.schedule_link(link.index);
        }
        deferred
    }

    /// The CDC message of a connection completed.
    #[inline(always)]
    fn on_notify_sent(
        &mut self,
        index: ConnIdx,
        generation: u32,
        record: NotifyRecord,
    ) -> Deferred {
        let now = self.core.now;
        let Some(owner) = self.connections.live_mut(index, generation) else {
            return Deferred::Nothing;
        };
        let active = owner.phase == Phase::Active;
        let Some(connection) = owner.connection.as_mut() else {
            return Deferred::Nothing;
        };
        let seen = self.tap.look(connection);
        connection.on_notify_completed(now, &self.core.config.connection, record);
        let settled = active && connection.is_settled();
        self.compare(index, seen);
        if settled {
            return Deferred::Nothing;
        }
        match self.after_connection(index) {
            Deferred::Nothing if !active => Deferred::Idle(index),
            deferred => deferred,
        }
    }
}

/// A CDC message for another connection than the one before.
#[inline(never)]
fn on_cdc_for_another<'a>(
    core: &'a mut Core,
    connections: Pool<'a, ConnectionRecord>,
    links: Pool<'a, Link>,
    tap: Tap<'a>,
    group: GroupIdx,
    cdc: CdcOctets<'_>,
) -> Deferred {
    let mut path = DataPath {
        core,
        connections,
        links,
        tap,
    };
    let connections = path.connections.reborrow();
    match receiver(path.core, connections, group, cdc.alert_token()) {
        Ok(conn) => path.on_cdc_of(conn, cdc),
        Err(deferred) => {
            if deferred == Deferred::Nothing {
                let token = Some(cdc.alert_token());
                path.trace(|| (Subject::Endpoint, TraceEvent::CdcUnknown { token }));
            }
            deferred
        }
    }
}

/// The connection in the group of the link that brought a CDC message, by its
/// token; if it takes none yet or none any more, what is left to do.
//= CDC-005
#[inline]
fn receiver(
    core: &mut Core,
    connections: Pool<'_, ConnectionRecord>,
    group: GroupIdx,
    token: AlertToken,
) -> Result<ConnIdx, Deferred> {
    let found = core.tokens.as_ref().map(|tokens| tokens.open(token));
    let record = found.and_then(|index| connections.at(index));
    //= CDC-004
    match (found, record) {
        (Some(index), Some(record)) if record.is_receiver(group, token) => {
            core.last_receiver = index;
            Ok(index)
        }
        // The data outran the Confirm, or the last answer of the first
        // contact: the newest message says all that the older ones said.
        //= RENDEZVOUS-033
        //= RENDEZVOUS-050
        (_, Some(record)) if record.token == token && record.group == group => match record.phase {
            Phase::Rendezvous(handshake) => Err(Deferred::Early(handshake)),
            _ => {
                count(&mut core.statistics.cdc_unknown);
                Err(Deferred::Nothing)
            }
        },
        _ => {
            count(&mut core.statistics.cdc_unknown);
            Err(Deferred::Nothing)
        }
    }
}

/// Counts what a CDC message did to its connection.
#[inline(always)]
fn count_outcome(statistics: &mut Statistics, outcome: CdcOutcome) {
    match outcome {
        CdcOutcome::Stale => count(&mut statistics.cdc_stale),
        CdcOutcome::Misbehaved(_) => count(&mut statistics.violations),
        CdcOutcome::BackwardCursor => {
            count(&mut statistics.backward_cursors);
            count(&mut statistics.cdc_received);
        }
        _ => count(&mut statistics.cdc_received),
    }
}

impl Groups<'_> {
    /// Gives a CDC message that was kept to its connection; the caller draws the
    /// consequences.
    pub(crate) fn apply_cdc(&mut self, conn: ConnIdx, cdc: &Cdc) {
        let record = self.data.connections.at_mut(conn);
        if let Some(connection) = record.and_then(|record| record.connection.as_mut()) {
            let core = &mut *self.data.core;
            let seen = self.data.tap.look(connection);
            let outcome = connection.on_cdc(core.now, &core.config.connection, cdc);
            count_outcome(&mut core.statistics, outcome);
            self.data.trace_received(conn, seen, || *cdc, outcome);
        }
    }

    /// Does what the data path left of a message received.
    pub(super) fn finish_received(&mut self, deferred: Deferred, payload: &[u8]) {
        match deferred {
            Deferred::Llc(link) => self.on_llc(link, payload),
            Deferred::Violation(link) => self.violation(link),
            _ => self.execute(deferred),
        }
    }

    /// Does what the data path left of a SEND that completed.
    pub(super) fn finish_sent(&mut self, deferred: Deferred, wr_id: WrId) {
        match deferred {
            Deferred::Sends(link) => self.on_sent(link, wr_id),
            _ => self.execute(deferred),
        }
    }

    /// A SEND completed, and with it all before it on its link.
    fn on_sent(&mut self, link: LinkIdx, wr_id: WrId) {
        if !self
            .link(link)
            .is_some_and(|l| l.in_flight.contains(wr_id.0))
        {
            return;
        }
        while let Some((number, kind)) =
            self.data.links.at_mut(link).and_then(|l| l.in_flight.pop())
        {
            self.step();
            match kind {
                SendKind::Notify {
                    index,
                    generation,
                    record,
                } => {
                    let deferred = self.data.on_notify_sent(index, generation, record);
                    self.execute(deferred);
                }
                SendKind::Request => self.on_request_sent(link),
                SendKind::Llc => {
                    let group = self.link(link).map_or(Idx::NONE, |l| l.group);
                    self.on_llc_sent(group, link);
                }
                SendKind::Large { reply } => {
                    let group = self.link(link).map_or(Idx::NONE, |l| l.group);
                    if reply {
                        self.on_llc_sent(group, link);
                    } else {
                        self.on_request_sent(link);
                    }
                    self.schedule_large(group);
                }
            }
            if number == wr_id.0 {
                break;
            }
        }
        self.close_if_drained(link);
        self.data.schedule_link(link);
    }
}
