//! Receiving CDC messages, over a link of SMC-R or in a DMB: finds the connection, applies the
//! message, and returns what follows.
//!
//! ```text
//!  SMC-R  fast::fast_received ─ else ─► on_received ─► on_cdc ─► deliver_cdc ─► apply_message
//!  SMC-D  on_fast_signal ─ else ─► link_group/ism/answers ───────────────────► apply_message
//! ```

use super::{DataPath, Deferred};
use crate::config::ConnectionConfig;
use crate::connection::{CdcOutcome, Connection};
use crate::connection_record::{ConnectionRecord, Pending, Phase};
use crate::core::Core;
use crate::id::{ConnIdx, GroupIdx, LinkId};
use crate::link_group::{Link, LinkGroup};
use crate::slots::Pool;
use crate::stats::{Statistics, count};
use crate::time::Instant;
use crate::trace::{Subject, Tap, TraceEvent};
use crate::wire::cdc::{CDC_TYPE, Cdc, CdcOctets};
use crate::wire::types::AlertToken;

/// Outcome of [`DataPath::on_fast_signal`].
#[cfg(feature = "smc-d")]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum SignalOutcome {
    /// Bytes arrived, and nothing else follows. The application was not notified yet.
    Readable,
    /// No bytes arrived, or their event is queued. This is left to do.
    Deferred(Deferred),
}

impl DataPath<'_> {
    /// Handles a message received on a link of SMC-R, if it is a CDC message.
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

    /// Handles a CDC message. Any link of the group may bring it, and its alert token names the
    /// connection (CDC-032).
    //= CDC-032
    //= V2-215
    #[inline(always)]
    fn on_cdc(&mut self, group: GroupIdx, cdc: CdcOctets<'_>) -> Deferred {
        let core = &mut *self.core;
        // Most messages are for the same connection as the one before.
        let conn = core.last_receiver;
        let token = cdc.alert_token();
        if self
            .connections
            .at(conn)
            .is_some_and(|record| record.is_receiver(group, token))
        {
            return self.deliver_cdc(conn, cdc);
        }
        let (core, connections, links, groups, tap) = self.parts();
        find_and_deliver_cdc(core, connections, links, groups, tap, group, cdc)
    }

    /// Applies a CDC message of SMC-R to its connection.
    #[inline(always)]
    fn deliver_cdc(&mut self, conn: ConnIdx, cdc: CdcOctets<'_>) -> Deferred {
        self.apply_message(conn, |connection, now, config| {
            let cdc = cdc.read();
            (connection.on_cdc(now, config, &cdc), Some(cdc))
        })
    }

    /// Applies a message to a connection, and does or returns what follows. `apply` has the
    /// message, which came over SMC-R or was the head of a DMB. It returns the outcome, and the
    /// message if it is a CDC message.
    #[inline(always)]
    pub(crate) fn apply_message(
        &mut self,
        conn: ConnIdx,
        apply: impl FnOnce(&mut Connection, Instant, &ConnectionConfig) -> (CdcOutcome, Option<Cdc>),
    ) -> Deferred {
        let core = &mut *self.core;
        let Some(record) = self.connections.at_mut(conn) else {
            debug_assert!(false, "the receiver was found");
            return Deferred::Nothing;
        };
        let Some(connection) = record.connection.as_mut() else {
            return Deferred::Nothing;
        };
        let before = self.tap.marks_before(connection);
        let (outcome, cdc) = apply(connection, core.now, &core.config.connection);
        count_outcome(&mut core.statistics, outcome);
        let readable = connection.take_readable();
        let has_follow_up = connection.has_follow_up();
        if readable {
            record.notices |= Pending::READABLE;
            core.connection_events
                .push_back(&mut self.connections, conn);
        }
        self.trace_received(conn, before, cdc, outcome);
        if !has_follow_up {
            return Deferred::Nothing;
        }
        self.follow_up(conn)
    }

    /// Applies a CDC message that was received during the rendezvous. The caller has to call
    /// [`DataPath::follow_up`] afterwards.
    pub(crate) fn apply_early(&mut self, conn: ConnIdx, cdc: &Cdc) {
        let record = self.connections.at_mut(conn);
        if let Some(connection) = record.and_then(|record| record.connection.as_mut()) {
            let core = &mut *self.core;
            let before = self.tap.marks_before(connection);
            let outcome = connection.on_cdc(core.now, &core.config.connection, cdc);
            count_outcome(&mut core.statistics, outcome);
            self.trace_received(conn, before, Some(*cdc), outcome);
        }
    }
}

/// Handles a CDC message for another connection than the message before.
#[inline(never)]
fn find_and_deliver_cdc<'a>(
    core: &'a mut Core,
    connections: Pool<'a, ConnectionRecord>,
    links: Pool<'a, Link>,
    groups: Pool<'a, LinkGroup>,
    tap: Tap<'a>,
    group: GroupIdx,
    cdc: CdcOctets<'_>,
) -> Deferred {
    let mut path = DataPath {
        core,
        connections,
        links,
        groups,
        tap,
    };
    let connections = path.connections.reborrow();
    match find_receiver(path.core, connections, group, cdc.alert_token()) {
        Ok(conn) => path.deliver_cdc(conn, cdc),
        Err(deferred) => {
            if deferred == Deferred::Nothing {
                let token = Some(cdc.alert_token());
                path.trace(|| (Subject::Endpoint, TraceEvent::CdcUnknown { token }));
            }
            deferred
        }
    }
}

/// Finds the connection that a CDC message is for by its alert token, in the group of the link
/// that brought it.
///
/// # Errors
/// [`Deferred::EarlyCdc`] if the connection is still in rendezvous; [`Deferred::Nothing`] if
/// no connection has the token, or one that has ended.
//= CDC-005
#[inline]
fn find_receiver(
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
        // The message overtook the Confirm, or the last LLC message of the first contact. The
        // rendezvous keeps the newest such message, which includes what older ones had.
        //= RENDEZVOUS-033
        //= RENDEZVOUS-050
        (_, Some(record)) if record.token == token && record.group == group => match record.phase {
            Phase::Rendezvous(handshake) => Err(Deferred::EarlyCdc(handshake)),
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

/// Counts a CDC message by its outcome.
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
