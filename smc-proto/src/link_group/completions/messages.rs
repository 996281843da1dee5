//! SENDs: what the data path leaves of those that peers sent, and of ours that completed.

use super::super::SendKind;
use crate::data_path::Deferred;
use crate::id::{Idx, LinkIdx, WrId};
use crate::link_group::Groups;

impl Groups<'_> {
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
            Deferred::Sent(link) => self.on_sent(link, wr_id),
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
