//! DELETE LINK whose answer is overdue: is the link dead that carried it, or is the
//! answer late?
//!
//! ```text
//!   Given ── no answer in time ──► Doubted ── TEST LINK answered ──► Settled
//!                                     └────── not answered ────────► carrier lost, Due again
//! ```
//!
//! By RFC 7609 silence means that the carrying link is dead (C.7.1). But the peer may
//! have to wait for its own writes to fail on the link that is to go before it can
//! answer (Linux does), and then the carrier is the link that all connections have
//! moved to. It is asked, therefore: what arrives on a queue pair arrives in order, so
//! that an answer to TEST LINK says that DELETE LINK is there, too. With that the
//! deletion is complete as far as this side is concerned; an answer that comes after
//! all finds nothing that it could change.

use super::super::Link;
use super::super::standing::Word;
use super::Flow;
use crate::engine::Engine;
use crate::id::NONE;

impl Engine<'_> {
    /// The answer to DELETE LINK of `link` is overdue. The link that carries it is
    /// tested, or is lost if that is no use: it is the one to be deleted, it takes no
    /// messages, or the first contact is not through, in which nobody sends data before
    /// the answer (RENDEZVOUS-030).
    //= TIMER-023
    //= TIMER-024
    //= TIMER-027
    pub(super) fn doubt_carrier(&mut self, link: u32, carrier: u32) {
        let group = self.links.at(link).map_or(NONE, |l| l.group);
        let testable = carrier != link
            && self.groups.at(group).is_some_and(|g| g.is_active())
            && self.links.at(carrier).is_some_and(Link::is_usable);
        if !testable {
            self.set_word(link, Word::Due);
            self.lose_link(carrier);
            return;
        }
        self.set_word(link, Word::Doubted { carrier });
        // The test has its own deadline. This one is for a carrier that is not watched
        // any more because it leaves itself.
        let timeouts = self.core.config.timeouts;
        let wait = timeouts.send_slot.max(timeouts.test_link_reply);
        self.set_departure_deadline(link, Some(wait));
        self.test_link(carrier);
    }

    /// The peer answered TEST LINK: it has heard of the links whose deletion this one
    /// carried.
    pub(crate) fn settle_doubted(&mut self, carrier: u32) {
        let group = self.links.at(carrier).map_or(NONE, |l| l.group);
        for link in self.links_of(group) {
            let word = self.links.at(link).and_then(|l| l.standing.departure());
            if word.is_some_and(|d| d.word == Word::Doubted { carrier }) {
                self.quiet_link(link);
                self.conclude_deletion(group, link);
            }
        }
    }

    /// A deletion is over: the server's exchange with it, if it was that.
    pub(super) fn conclude_deletion(&mut self, group: u32, link: u32) {
        if let Some(g) = self.groups.at_mut(group)
            && matches!(g.flow, Flow::DeleteLink { link: of, .. } if of == link)
        {
            g.flow = Flow::Idle;
            g.flow_deadline = None;
            self.arm_group(group);
        }
        self.settle_departure(link);
        self.start_flow(group);
    }
}
