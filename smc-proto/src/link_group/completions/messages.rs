//! SENDs: what peers sent, and what of ours completed.

use super::super::SendKind;
use crate::connection::CdcOutcome;
use crate::connection_record::Phase;
use crate::engine::Engine;
use crate::id::{LinkId, NONE, WrId};
use crate::stats::count;
use crate::wire::cdc::{CDC_TYPE, Cdc};

impl Engine<'_> {
    //= LLC-006
    #[inline]
    pub(crate) fn on_received(&mut self, link: LinkId, payload: &[u8]) {
        let Some(index) = self.live_link(link) else {
            return;
        };
        let now = self.core.now;
        let Some(l) = self.links.at_mut(index) else {
            return;
        };
        l.last_received = now;
        let group = l.group;
        if payload.first() == Some(&CDC_TYPE) {
            match Cdc::parse(payload) {
                Ok(cdc) => self.on_cdc(group, &cdc),
                Err(_) => self.violation(index),
            }
        } else {
            self.on_llc(index, payload);
        }
    }

    /// A CDC message on any link of the group (CDC-032).
    //= CDC-032
    #[inline]
    pub(crate) fn on_cdc(&mut self, group: u32, cdc: &Cdc) {
        //= CDC-004
        let Some(conn) = self.conn_by_token(cdc.alert_token, group) else {
            count(&mut self.core.statistics.cdc_unknown);
            return;
        };
        match self.connections.at(conn).map(|record| record.phase) {
            Some(Phase::Active) => {
                self.apply_cdc(conn, cdc);
                self.after_connection(conn);
            }
            // The data outran the Confirm, or the last answer of the first
            // contact: the newest message says all that the older ones said.
            //= RENDEZVOUS-033
            //= RENDEZVOUS-050
            Some(Phase::Rendezvous(handshake)) => {
                if let Some(h) = self.handshakes.at_mut(handshake) {
                    h.keep_early(cdc);
                }
            }
            _ => count(&mut self.core.statistics.cdc_unknown),
        }
    }

    /// Gives a CDC message to its connection; the caller draws the consequences.
    #[inline]
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

    /// A SEND completed, and with it all before it on its link.
    #[inline]
    pub(crate) fn on_sent(&mut self, link: LinkId, wr_id: WrId) {
        let Some(index) = self.live_link(link) else {
            return;
        };
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
                    if self.connections.is_live(index, generation) {
                        self.with_connection(index, |connection, now, config| {
                            connection.on_notify_completed(now, &config.connection, record);
                        });
                        if self
                            .connections
                            .at(index)
                            .is_some_and(|record| record.phase != Phase::Active)
                        {
                            self.release(index);
                        }
                    }
                }
                SendKind::Request => self.on_request_sent(index),
                SendKind::Llc => {
                    let group = self.links.at(index).map_or(NONE, |l| l.group);
                    self.on_llc_sent(index, group);
                }
            }
            if number == wr_id.0 {
                break;
            }
        }
        self.close_if_quiet(index);
        self.poke_link(index);
    }
}
