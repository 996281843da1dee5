//! Links that leave: taken out of use, agreed on with the peer, closed.

use super::standing::{Departure, LinkTold, Standing, Word};
use super::{Link, QpGoal};
use crate::engine::Engine;
use crate::wire::types::DeleteLinkReason;

impl Engine<'_> {
    /// A link is not wanted any more though it works.
    //= LINK-046
    //= LINK-047
    pub(crate) fn retire_link(&mut self, link: u32, reason: DeleteLinkReason) {
        let Some(group) = self.links.at(link).map(|l| l.group) else {
            return;
        };
        self.depart(link, reason, true);
        // The server tells of it once nothing of its own is under way; a client
        // only asks.
        //= LLC-052
        if self.is_server(group) {
            self.quiet_link(link);
        }
        self.start_departures(group);
        self.start_flow(group);
    }

    /// No new data on a link that is about to be deleted in order; for what is
    /// under way there is time enough.
    pub(crate) fn quiet_link(&mut self, link: u32) {
        if let Some(l) = self.links.at_mut(link)
            && let Standing::Leaving(departure) = &mut l.standing
        {
            departure.quieting = true;
        }
        let wait = self.core.config.timeouts.llc_reply;
        // A client's answer must be there before the server stops waiting.
        self.set_departure_deadline(link, wait.checked_div(2));
    }

    /// Takes a link out of use; DELETE LINK is due.
    pub(crate) fn depart(&mut self, link: u32, reason: DeleteLinkReason, orderly: bool) {
        let Some(l) = self.links.at_mut(link) else {
            return;
        };
        let group = l.group;
        l.standing = Standing::Leaving(Departure {
            reason,
            orderly,
            quieting: !orderly,
            word: Word::Due,
            deadline: None,
        });
        self.arm_link(link);
        if let Some(g) = self.groups.at_mut(group) {
            g.lost_links = true;
        }
        self.review_symmetry(group);
        self.rewrite_announcement(group, link);
        self.move_handshakes(link);
        if !orderly {
            self.close_link(link);
        }
    }

    /// Takes the queue pair down; its connections move once it is drained.
    //= FAILOVER-004
    pub(crate) fn close_link(&mut self, link: u32) {
        if let Some(l) = self.links.at_mut(link) {
            let group = l.group;
            let first = l.goal != QpGoal::Gone;
            l.shut();
            let mut owed = None;
            if let Standing::Leaving(departure) = &mut l.standing {
                departure.orderly = false;
                departure.quieting = true;
                if let Word::Owed { carrier } = departure.word {
                    owed = Some(carrier);
                }
            }
            // Nothing of it completes any more.
            if let Some(carrier) = owed {
                self.answer_when_quiet(link, carrier);
            }
            self.arm_link(link);
            self.drop_absent_link(link);
            self.poke_link(link);
            if first {
                self.restart_carried(group, link);
            }
        }
    }

    /// Something on a link completed. One that leaves in order is talked of when
    /// no data is under way on it, and closes when both sides agreed and nothing
    /// is.
    //= LLC-049
    pub(crate) fn close_if_quiet(&mut self, link: u32) {
        if let Some(l) = self.links.at(link)
            && let Some(departure) = l.standing.departure()
            && departure.orderly
            && departure.quieting
            && l.is_free_of_data()
        {
            match departure.word {
                Word::Due => self.start_flow(l.group),
                Word::Owed { carrier } => self.answer_when_quiet(link, carrier),
                _ => {}
            }
        }
        let quiet = self.links.at(link).is_some_and(|l| {
            l.is_quiet()
                && l.goal != QpGoal::Gone
                && l.standing
                    .departure()
                    .is_some_and(|d| d.orderly && d.word == Word::Settled)
        });
        if quiet {
            self.close_link(link);
        }
    }

    /// Both sides agree that a link is gone.
    pub(crate) fn settle_departure(&mut self, link: u32) {
        let Some(l) = self.links.at_mut(link) else {
            return;
        };
        let group = l.group;
        // For one that never came up the pause after a failure holds (LINK-049);
        // one that an operator deleted is not to come back at once.
        //= LINK-049
        let mut missed = l.told != LinkTold::Nothing;
        if let Standing::Leaving(departure) = &mut l.standing {
            departure.word = Word::Settled;
            missed &= departure.reason != DeleteLinkReason::OPERATOR;
        }
        // If it does not become quiet in time it is cut off.
        let wait = self.core.config.timeouts.llc_reply;
        let orderly = self
            .links
            .at(link)
            .and_then(|l| l.standing.departure())
            .is_some_and(|d| d.orderly);
        self.set_departure_deadline(link, orderly.then_some(wait));
        self.restart_departure_waits(group);
        self.close_if_quiet(link);
        self.drop_absent_link(link);
        self.settle_formation(group);
        if missed {
            self.want_redundancy(group);
        }
    }
}

impl Link {
    /// Whether the peers have still to agree that it is gone.
    pub(crate) const fn is_unsettled(&self) -> bool {
        match self.standing {
            Standing::Leaving(departure) => !matches!(departure.word, Word::Settled),
            _ => false,
        }
    }
}
