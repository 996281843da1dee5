//! SENDs: what peers sent, and what of ours completed.

use super::super::SendKind;
use crate::connection::{CdcOutcome, NotifyRecord};
use crate::connection_record::Phase;
use crate::data_path::{DataPath, Rest};
use crate::engine::Engine;
use crate::id::{LinkId, NONE, WrId};
use crate::stats::count;
use crate::wire::cdc::{CDC_TYPE, Cdc};

impl DataPath<'_> {
    //= LLC-006
    #[inline(always)]
    pub(crate) fn on_received(&mut self, link: LinkId, payload: &[u8]) -> Rest {
        let now = self.core.now;
        let Some(l) = self.links.live_mut(link.index, link.generation) else {
            return Rest::Nothing;
        };
        l.last_received = now;
        let group = l.group;
        if payload.first() != Some(&CDC_TYPE) {
            return Rest::Llc { link: link.index };
        }
        match Cdc::parse(payload) {
            Ok(cdc) => self.on_cdc(group, &cdc),
            Err(_) => Rest::Violation { link: link.index },
        }
    }

    /// A CDC message on any link of the group (CDC-032).
    //= CDC-032
    #[inline(always)]
    fn on_cdc(&mut self, group: u32, cdc: &Cdc) -> Rest {
        //= CDC-004
        let Some(conn) = self.conn_by_token(cdc.alert_token, group) else {
            count(&mut self.core.statistics.cdc_unknown);
            return Rest::Nothing;
        };
        match self.connections.at(conn).map(|record| record.phase) {
            Some(Phase::Active) => {
                self.apply_cdc(conn, cdc);
                self.after_connection(conn)
            }
            // The data outran the Confirm, or the last answer of the first
            // contact: the newest message says all that the older ones said.
            //= RENDEZVOUS-033
            //= RENDEZVOUS-050
            Some(Phase::Rendezvous(handshake)) => Rest::Early { handshake },
            _ => {
                count(&mut self.core.statistics.cdc_unknown);
                Rest::Nothing
            }
        }
    }

    /// Gives a CDC message to its connection; the caller draws the consequences.
    #[inline(always)]
    pub(crate) fn apply_cdc(&mut self, conn: u32, cdc: &Cdc) {
        let now = self.core.now;
        let Some(connection) = self
            .connections
            .at_mut(conn)
            .and_then(|record| record.connection.as_mut())
        else {
            return;
        };
        let statistics = &mut self.core.statistics;
        match connection.on_cdc(now, &self.core.config.connection, cdc) {
            CdcOutcome::Stale => count(&mut statistics.cdc_stale),
            CdcOutcome::Misbehaved(_) => count(&mut statistics.violations),
            CdcOutcome::BackwardCursor => {
                count(&mut statistics.backward_cursors);
                count(&mut statistics.cdc_received);
            }
            _ => count(&mut statistics.cdc_received),
        }
    }

    /// A SEND completed, and with it all before it on its link: most often none,
    /// and it was a CDC message.
    #[inline(always)]
    pub(crate) fn on_sent(&mut self, link: LinkId, wr_id: WrId) -> Rest {
        let Some(l) = self.links.live_mut(link.index, link.generation) else {
            return Rest::Nothing;
        };
        let Some(SendKind::Notify {
            index,
            generation,
            record,
        }) = l.in_flight.front(wr_id.0)
        else {
            return Rest::Sends { link: link.index };
        };
        l.in_flight.pop();
        self.core.step();
        let rest = self.on_notify_sent(index, generation, record);
        self.poke_link(link.index);
        rest
    }

    /// The CDC message of a connection completed.
    #[inline(always)]
    fn on_notify_sent(&mut self, index: u32, generation: u32, record: NotifyRecord) -> Rest {
        let now = self.core.now;
        let Some(owner) = self.connections.live_mut(index, generation) else {
            return Rest::Nothing;
        };
        let active = owner.phase == Phase::Active;
        let Some(connection) = owner.connection.as_mut() else {
            return Rest::Nothing;
        };
        connection.on_notify_completed(now, &self.core.config.connection, record);
        match self.after_connection(index) {
            Rest::Nothing if !active => Rest::Idle { index },
            rest => rest,
        }
    }
}

impl Engine<'_> {
    /// Does what the data path left of a message received.
    pub(crate) fn finish_received(&mut self, rest: Rest, payload: &[u8]) {
        match (rest, Cdc::parse(payload)) {
            (Rest::Llc { link }, _) => self.on_llc(link, payload),
            (Rest::Violation { link }, _) => self.violation(link),
            (Rest::Early { handshake }, Ok(cdc)) => {
                if let Some(h) = self.handshakes.at_mut(handshake) {
                    h.keep_early(&cdc);
                }
            }
            _ => self.carry_out(rest),
        }
    }

    /// Does what the data path left of a SEND that completed.
    pub(crate) fn finish_sent(&mut self, rest: Rest, wr_id: WrId) {
        match rest {
            Rest::Sends { link } => self.on_sent(link, wr_id),
            _ => self.carry_out(rest),
        }
    }

    /// A SEND completed, and with it all before it on its link.
    fn on_sent(&mut self, index: u32, wr_id: WrId) {
        if !self
            .links
            .at(index)
            .is_some_and(|l| l.in_flight.contains(wr_id.0))
        {
            return;
        }
        while let Some((number, kind)) = self.links.at_mut(index).and_then(|l| l.in_flight.pop()) {
            self.step();
            match kind {
                SendKind::Notify {
                    index,
                    generation,
                    record,
                } => {
                    let rest = self.data_path().on_notify_sent(index, generation, record);
                    self.carry_out(rest);
                }
                SendKind::Request => self.on_request_sent(index),
                SendKind::Llc => {
                    let group = self.links.at(index).map_or(NONE, |l| l.group);
                    self.on_llc_sent(group);
                }
            }
            if number == wr_id.0 {
                break;
            }
        }
        self.poke_link(index);
    }
}
