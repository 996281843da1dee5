//! Completions, and what of them concerns connections in rendezvous.

#[cfg(feature = "smc-d")]
use crate::completion::IsmCompletion;
use crate::completion::RdmaCompletion;
use crate::data_path::Deferred;
use crate::engine::Engine;
#[cfg(feature = "smc-d")]
use crate::link_group::IsmFollowUp;
use crate::trace::TraceEvent;
use crate::wire::cdc::Cdc;

impl Engine<'_> {
    /// Any completion of an RNIC; for those of SENDs, `deferred` is what the data path left.
    pub(crate) fn on_rdma(&mut self, completion: &RdmaCompletion<'_>, deferred: Deferred) {
        if let (Deferred::EarlyCdc(handshake), RdmaCompletion::Received { payload, .. }) =
            (deferred, completion)
        {
            if let Some(h) = self.handshakes.at_mut(handshake)
                && let Ok(cdc) = Cdc::parse(payload)
            {
                h.keep_early(&cdc);
                let (conn, sequence) = (h.conn, cdc.sequence);
                self.trace_conn(conn, || TraceEvent::CdcEarly { sequence });
            }
            return;
        }
        if let Some(useless) = self.groups.on_completion(completion, deferred) {
            self.run_wakes();
            self.groups.drop_useless(useless);
        }
    }

    /// Any report of an ISM device.
    #[cfg(feature = "smc-d")]
    pub(crate) fn on_ism_report(&mut self, completion: &IsmCompletion) {
        match self.groups.on_ism(completion) {
            IsmFollowUp::Nothing => {}
            IsmFollowUp::Early(handshake, cdc) => {
                if let Some(h) = self.handshakes.at_mut(handshake) {
                    h.keep_early_ism(&cdc);
                    let conn = h.conn;
                    self.trace_conn(conn, || TraceEvent::CdcEarly { sequence: 0 });
                }
            }
            IsmFollowUp::Useless(useless) => {
                self.run_wakes();
                self.groups.drop_useless(useless);
            }
        }
    }
}
