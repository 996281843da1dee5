//! CDC messages that arrive, over an RNIC or in a DMB: whom they are for, and what follows.

use super::{DataPath, Deferred};
use crate::config::ConnectionConfig;
use crate::connection::{CdcOutcome, Connection};
use crate::connection_record::{ConnectionRecord, Pending, Phase};
use crate::core::Core;
use crate::id::{ConnIdx, GroupIdx, LinkId};
use crate::link_group::Link;
use crate::planted::PlantedBug;
use crate::slots::Pool;
use crate::stats::{Statistics, count};
use crate::time::Instant;
use crate::trace::{Subject, Tap, TraceEvent};
use crate::wire::cdc::{CDC_TYPE, Cdc, CdcOctets};
use crate::wire::cdc_ism::{CDC_ISM_LENGTH, CdcIsm, Endianness};
use crate::wire::types::AlertToken;

/// What follows from a message that moves cursors.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Follows {
    /// The application has to be notified of bytes.
    Readable,
    /// Work for the engine.
    Deferred(Deferred),
}

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
        self.on_message(conn, |connection, now, config| {
            let cdc = cdc.read();
            (connection.on_cdc(now, config, &cdc), Some(cdc))
        })
    }

    /// Applies a message to a connection and draws the consequences: a CDC message of SMC-R,
    /// or the head of a DMB. `apply` returns the outcome, and the message unless it is none.
    #[inline(always)]
    pub(crate) fn on_message(
        &mut self,
        conn: ConnIdx,
        apply: impl FnOnce(&mut Connection, Instant, &ConnectionConfig) -> (CdcOutcome, Option<Cdc>),
    ) -> Deferred {
        let core = &mut *self.core;
        let Some(record) = self.connections.at_mut(conn) else {
            return Deferred::Nothing;
        };
        let Some(connection) = record.connection.as_mut() else {
            return Deferred::Nothing;
        };
        let seen = self.tap.look(connection);
        let (outcome, cdc) = apply(connection, core.now, &core.config.connection);
        count_outcome(&mut core.statistics, outcome);
        let readable = connection.take_readable();
        let settled = connection.is_settled();
        if readable {
            record.notices |= Pending::READABLE;
            core.connection_events
                .push_back(&mut self.connections, conn);
        }
        self.trace_received(conn, seen, cdc, outcome);
        if settled {
            return Deferred::Nothing;
        }
        self.after_connection(conn)
    }

    /// Applies a message that was kept to its connection; the caller draws the consequences.
    pub(crate) fn apply_kept(&mut self, conn: ConnIdx, cdc: &Cdc) {
        let record = self.connections.at_mut(conn);
        if let Some(connection) = record.and_then(|record| record.connection.as_mut()) {
            let core = &mut *self.core;
            let seen = self.tap.look(connection);
            let outcome = connection.on_cdc(core.now, &core.config.connection, cdc);
            count_outcome(&mut core.statistics, outcome);
            self.trace_received(conn, seen, Some(*cdc), outcome);
        }
    }

    /// Receives the message in the DMB of this connection, if the connection is active and
    /// the message moves cursors only; returns what follows. Otherwise nothing is done yet.
    //= D-043
    #[inline(always)]
    pub(crate) fn on_fast_signal(
        &mut self,
        index: ConnIdx,
        bytes: &[u8; CDC_ISM_LENGTH],
    ) -> Option<Follows> {
        let (now, config) = (self.core.now, &self.core.config.connection);
        let record = self.connections.at_mut(index)?;
        if record.phase != Phase::Active {
            return None;
        }
        let connection = record.connection.as_mut()?;
        let cdc = CdcIsm::parse(bytes, Endianness::NATIVE).ok()?;
        let readable = connection.on_fast_cdc_ism(now, config, &cdc)?;
        count(&mut self.core.statistics.cdc_received);
        if connection.is_settled() {
            return Some(match readable {
                true => Follows::Readable,
                false => Follows::Deferred(Deferred::Nothing),
            });
        }
        if readable {
            connection.note_readable();
        }
        Some(Follows::Deferred(self.after_connection(index)))
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
