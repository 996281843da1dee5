//! When a further link is tried: at once, or after a pause.

use core::hash::{Hash, Hasher};

use crate::fingerprint::until;
use crate::id::GroupIdx;
use crate::link_group::Groups;
use crate::link_group::Role;
use crate::time::Instant;

/// Whether and when a further link is to be tried.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AddWish {
    /// At the next opportunity.
    pub(crate) due: bool,
    /// Not before this time.
    pub(crate) retry: Option<Instant>,
    /// Attempts that failed since something changed.
    pub(crate) failures: u8,
    /// Exchanges of connections that went before it.
    pub(crate) yielded: u8,
    /// The client announced a port while this side waited for the answer that ends
    /// the present addition.
    pub(crate) hinted: bool,
    /// Until then a link that was added and is lost again counts as one of them.
    pub(crate) probation: Option<Instant>,
}

impl AddWish {
    pub(crate) const NONE: Self = Self {
        due: false,
        retry: None,
        failures: 0,
        yielded: 0,
        hinted: false,
        probation: None,
    };

    pub(crate) fn fingerprint<H: Hasher>(&self, now: Instant, hasher: &mut H) {
        (self.due, until(self.retry, now), self.failures).hash(hasher);
        (self.yielded, self.hinted).hash(hasher);
        until(self.probation, now).hash(hasher);
    }
}

impl Groups<'_> {
    /// Tries again after a pause that grows with each failure.
    pub(crate) fn schedule_retry(&mut self, group: GroupIdx) {
        let now = self.now();
        let timeouts = self.data.core.config.timeouts;
        let wanted = self.has_room_for_link(group);
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        // A port that came up during the attempt ends the pause at once, here or at
        // the client.
        //= LINK-050
        if core::mem::take(&mut g.add_wish.hinted) {
            g.add_wish.due = true;
            g.add_wish.failures = 0;
        }
        if g.add_wish.due {
            return;
        }
        let doublings = u32::from(g.add_wish.failures.min(16));
        let pause = timeouts
            .add_link_retry
            .saturating_mul(1_u32.wrapping_shl(doublings))
            .min(timeouts.add_link_retry_most);
        g.add_wish.failures = g.add_wish.failures.saturating_add(1);
        g.add_wish.retry = wanted.then(|| now.after(pause));
        self.arm_group(group);
    }

    /// A group that lost a link wants another one (LINK-042): at once, unless
    /// links are lost as fast as they are added (reliability H17).
    pub(crate) fn want_redundancy(&mut self, group: GroupIdx) {
        let now = self.now();
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        if !g.is_active() {
            return;
        }
        let wish = &mut g.add_wish;
        if wish.probation.is_none_or(|until| until <= now) {
            wish.failures = 0;
        } else if wish.failures > 0 {
            self.schedule_retry(group);
            return;
        } else {
            wish.failures = 1;
        }
        self.try_for_link(group);
    }

    /// A further link is worth a try now.
    pub(crate) fn try_for_link(&mut self, group: GroupIdx) {
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        g.add_wish.retry = None;
        match g.role {
            Role::Server => {
                g.add_wish.due = true;
                self.arm_group(group);
                self.start_flow(group);
            }
            Role::Client => {
                self.arm_group(group);
                self.hint_spare_port(group);
            }
        }
    }

    /// The pause is over. A client repeats its announcement, which has no reply.
    pub(in super::super) fn on_retry(&mut self, group: GroupIdx) {
        self.try_for_link(group);
        if !self.is_server(group) && self.spare_port(group, None).is_some() {
            self.schedule_retry(group);
        }
    }
}
