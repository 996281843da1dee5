//! When a group adds a further link: at once, or after a pause that grows with each failure.

use core::hash::{Hash, Hasher};

use crate::fingerprint::until;
use crate::id::GroupIdx;
use crate::link_group::Groups;
use crate::link_group::Role;
use crate::time::Instant;

/// When a group is to add a further link, if at all.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct AddLinkSchedule {
    /// Whether to add one as soon as no exchange is in progress.
    pub(crate) due: bool,
    /// When to try again after a failure.
    pub(crate) retry: Option<Instant>,
    /// Number of attempts that have failed in a row.
    pub(crate) failures: u8,
    /// Number of exchanges for connections that were started first, although a link was due.
    pub(crate) yielded: u8,
    /// Whether the client has announced a port while this side waited for the answer that ends the
    /// present addition.
    pub(crate) hinted: bool,
    /// Until this time the loss of a link that was added counts as a failed attempt.
    pub(crate) probation: Option<Instant>,
}

impl AddLinkSchedule {
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
    /// Schedules another attempt after a failed one.
    pub(crate) fn schedule_retry(&mut self, group: GroupIdx) {
        let now = self.now();
        let timeouts = self.data.core.config.timeouts;
        let wanted = self.has_room_for_link(group);
        let Some(g) = self.data.groups.at_mut(group) else {
            return;
        };
        // A port that came up during the attempt ends the pause at once, here or at
        // the client.
        //= LINK-050
        if core::mem::take(&mut g.add_schedule.hinted) {
            g.add_schedule.due = true;
            g.add_schedule.failures = 0;
        }
        if g.add_schedule.due {
            return;
        }
        let doublings = u32::from(g.add_schedule.failures.min(16));
        let pause = timeouts
            .add_link_retry
            .saturating_mul(1_u32.wrapping_shl(doublings))
            .min(timeouts.add_link_retry_most);
        g.add_schedule.failures = g.add_schedule.failures.saturating_add(1);
        g.add_schedule.retry = wanted.then(|| now.after(pause));
        self.arm_group(group);
    }

    /// Adds a link to a group that has lost one (LINK-042): at once, unless links are lost as fast as
    /// they are added (reliability H17).
    pub(crate) fn want_redundancy(&mut self, group: GroupIdx) {
        let now = self.now();
        let Some(g) = self.data.groups.at_mut(group) else {
            return;
        };
        if !g.is_active() {
            return;
        }
        let schedule = &mut g.add_schedule;
        if schedule.probation.is_none_or(|until| until <= now) {
            schedule.failures = 0;
        } else if schedule.failures > 0 {
            self.schedule_retry(group);
            return;
        } else {
            schedule.failures = 1;
        }
        self.try_for_link(group);
    }

    /// Tries to add a link now: the server starts the exchange, the client announces a port.
    pub(crate) fn try_for_link(&mut self, group: GroupIdx) {
        let Some(g) = self.data.groups.at_mut(group) else {
            return;
        };
        g.add_schedule.retry = None;
        match g.role {
            Role::Server => {
                g.add_schedule.due = true;
                self.arm_group(group);
                self.start_flow(group);
            }
            Role::Client => {
                self.arm_group(group);
                self.hint_spare_port(group);
            }
        }
    }

    /// Handles the end of the pause. A client repeats its announcement of a port, as that has no reply.
    pub(in super::super) fn on_retry(&mut self, group: GroupIdx) {
        self.try_for_link(group);
        if !self.is_server(group) && self.spare_port(group, None).is_some() {
            self.schedule_retry(group);
        }
    }
}
