//! DELETE LINK for links that leave: the server's exchange and the client's request.

use super::super::Role;
use super::super::link::FreeFlowing;
use super::super::standing::{Departure, LinkTold, Standing, Word};
use super::Flow;
use crate::engine::Engine;
use crate::id::NONE;
use crate::time::Duration;
use crate::wire::llc::{DeleteLink, DeleteLinkFlags, LlcMessage};
use crate::wire::types::LinkNumber;

impl Engine<'_> {
    /// Server: starts DELETE LINK for the next link that leaves; whether there was
    /// one.
    //= FAILOVER-024
    //= LINK-024
    //= LLC-045
    pub(super) fn start_delete_link(&mut self, group: u32) -> bool {
        if self.groups.at(group).is_none_or(|g| g.role == Role::Client) {
            return false;
        }
        let Some((link, departure)) = self.next_departure(group) else {
            return false;
        };
        let carrier = self.departure_carrier(group, link);
        if carrier == NONE {
            return false;
        }
        self.set_word(
            link,
            Word::Given {
                carrier,
                posted: false,
            },
        );
        if let Some(g) = self.groups.at_mut(group) {
            g.flow = Flow::DeleteLink { link, carrier };
        }
        let number = self.links.at(link).map_or(LinkNumber(0), |l| l.number);
        self.request(carrier, &delete_link(number, departure));
        true
    }

    /// Client: asks the server to delete links that leave. That needs no exchange.
    //= FAILOVER-003
    //= LLC-051
    //= LLCSER-001
    pub(crate) fn start_departures(&mut self, group: u32) {
        if self.groups.at(group).is_none_or(|g| g.role == Role::Server) {
            return;
        }
        while let Some((link, _)) = self.next_departure(group) {
            let carrier = self.departure_carrier(group, link);
            let Some(l) = self.links.at_mut(carrier) else {
                return;
            };
            l.free_flowing |= FreeFlowing::DELETE_LINK;
            let word = Word::Given {
                carrier,
                posted: false,
            };
            self.set_word(link, word);
            self.poke_link(carrier);
        }
    }

    /// The link to be deleted next. A link that was never confirmed comes first: its
    /// deletion ends the exchange that was to add it, which the peer may still answer.
    //= LLCSER-003
    fn next_departure(&self, group: u32) -> Option<(u32, Departure)> {
        self.select_links(group, |_| true)
            .filter_map(|(index, link)| {
                let departure = link.standing.departure()?;
                // A server that deletes in order lets its data complete first.
                let waits = departure.orderly && departure.quieting && !link.is_free_of_data();
                let due = departure.word == Word::Due && !waits;
                due.then_some((link.told != LinkTold::Nothing, index, departure))
            })
            .min_by_key(|(confirmed, ..)| *confirmed)
            .map(|(_, index, departure)| (index, departure))
    }

    /// A link that works: another one, or the one to be deleted itself.
    //= LLC-012
    fn departure_carrier(&self, group: u32, link: u32) -> u32 {
        match self.carrier(group, link) {
            NONE if self
                .links
                .at(link)
                .is_some_and(super::super::Link::is_usable) =>
            {
                link
            }
            carrier => carrier,
        }
    }

    pub(super) fn set_word(&mut self, link: u32, word: Word) {
        if let Some(l) = self.links.at_mut(link)
            && let Standing::Leaving(departure) = &mut l.standing
        {
            departure.word = word;
        }
    }

    pub(crate) fn set_departure_deadline(&mut self, link: u32, wait: Option<Duration>) {
        let deadline = wait.map(|wait| self.now().after(wait));
        if let Some(l) = self.links.at_mut(link)
            && let Standing::Leaving(departure) = &mut l.standing
        {
            departure.deadline = deadline;
        }
        self.arm_link(link);
    }

    /// The client's DELETE LINK that this link is to carry. The server must answer
    /// with its own (TIMER-023).
    pub(super) fn next_delete_request(&mut self, group: u32, carrier: u32) -> Option<LlcMessage> {
        let waits = |link: &super::super::Link| {
            link.standing.departure().filter(|d| {
                d.word
                    == Word::Given {
                        carrier,
                        posted: false,
                    }
            })
        };
        let (link, number, departure) = self
            .select_links(group, |_| true)
            .find_map(|(index, link)| Some((index, link.number, waits(link)?)))?;
        let word = Word::Given {
            carrier,
            posted: true,
        };
        self.set_word(link, word);
        let wait = self.core.config.timeouts.llc_reply;
        self.set_departure_deadline(link, Some(wait));
        let more = self
            .select_links(group, |link| waits(link).is_some())
            .next()
            .is_some();
        if more && let Some(l) = self.links.at_mut(carrier) {
            l.free_flowing |= FreeFlowing::DELETE_LINK;
        }
        Some(delete_link(number, departure))
    }

    /// Client: an exchange of the server is over, behind which it had to queue what
    /// this side asked for. Only now can it answer, so the waits start anew.
    //= LLCSER-009
    //= LLCSER-014
    pub(crate) fn restart_departure_waits(&mut self, group: u32) {
        let wait = self.core.config.timeouts.llc_reply;
        for link in self.links_of(group) {
            let departure = self.links.at(link).and_then(|l| l.standing.departure());
            if departure.is_some_and(|d| matches!(d.word, Word::Given { posted: true, .. })) {
                self.set_departure_deadline(link, Some(wait));
            }
        }
    }

    /// The deadline of a link that leaves passed: the server owes its answer, or
    /// the link did not become quiet.
    //= TIMER-023
    pub(crate) fn on_departure_timeout(&mut self, link: u32, departure: Departure) {
        self.set_departure_deadline(link, None);
        let group = self.links.at(link).map_or(NONE, |l| l.group);
        match departure.word {
            // The server adds a link and answers afterwards; how long that takes is
            // bounded by the timers of the addition.
            //= LLCSER-009
            Word::Given { posted: true, .. } if !self.addition(group).is_idle() => {
                let wait = self.core.config.timeouts.llc_reply;
                self.set_departure_deadline(link, Some(wait));
            }
            Word::Given {
                carrier,
                posted: true,
            } => {
                if carrier == link {
                    // Nothing else carries it: the group keeps no link to nobody.
                    self.settle_departure(link);
                    self.close_link(link);
                } else {
                    self.doubt_carrier(link, carrier);
                }
            }
            Word::Doubted { carrier } => self.lose_link(carrier),
            Word::Settled => self.close_link(link),
            Word::Owed { carrier } => self.answer_when_quiet(link, carrier),
            // A server's data does not complete: the link is broken.
            Word::Due
                if self
                    .links
                    .at(link)
                    .is_some_and(|l| departure.orderly && !l.is_free_of_data()) =>
            {
                self.close_link(link);
            }
            Word::Due | Word::Given { .. } => {}
        }
    }
}

fn delete_link(number: LinkNumber, departure: Departure) -> LlcMessage {
    let mut flags = DeleteLinkFlags::empty();
    flags.set(DeleteLinkFlags::ORDERLY, departure.orderly);
    LlcMessage::DeleteLink(DeleteLink {
        reply: false,
        flags,
        link: number,
        reason: departure.reason,
    })
}
