//! TEST LINK: whether a silent link still reaches the peer's SMC layer.

use super::link::TestLinkState;
use crate::id::LinkIdx;
use crate::link_group::Groups;
use crate::time::Instant;
use crate::wire::llc::{LLC_LENGTH, LlcMessage, TestLink};

impl Groups<'_> {
    /// Starts watching a link.
    pub(crate) fn arm_keepalive(&mut self, link: LinkIdx) {
        let now = self.now();
        if let Some(l) = self.data.links.at_mut(link) {
            l.last_received = now;
        }
        self.arm_link(link);
    }

    pub(crate) fn arm_link(&mut self, link: LinkIdx) {
        let deadline = self.link_deadline(link);
        self.set_link_deadline(link, deadline);
    }

    fn link_deadline(&self, link: LinkIdx) -> Option<Instant> {
        let l = self.link(link)?;
        if let Some(removal) = l.link_state.removal() {
            return removal.deadline;
        }
        match l.test {
            _ if !l.is_usable() => None,
            //= KEEPALIVE-002
            TestLinkState::Idle => Some(
                l.last_received
                    .after(self.data.core.config.timeouts.keepalive),
            ),
            TestLinkState::Due { deadline } | TestLinkState::Sent { deadline, .. } => {
                Some(deadline)
            }
        }
    }

    /// The deadline of a link passed, or what it counts from has moved since.
    //= KEEPALIVE-001
    //= KEEPALIVE-006
    pub(crate) fn on_link_timeout(&mut self, link: LinkIdx) {
        let now = self.now();
        let due = self
            .link_deadline(link)
            .is_some_and(|deadline| deadline <= now);
        let Some(l) = self.link(link) else {
            return;
        };
        if !due {
            self.arm_link(link);
            return;
        }
        if let Some(removal) = l.link_state.removal() {
            self.on_removal_timeout(link, removal);
            self.arm_link(link);
            return;
        }
        match l.test {
            TestLinkState::Idle => self.test_link(link),
            //= KEEPALIVE-004
            //= KEEPALIVE-005
            //= TIMER-029
            // A request that cannot even be posted counts as unanswered.
            TestLinkState::Sent { .. } | TestLinkState::Due { .. } => self.lose_link(link),
        }
    }

    /// Asks the peer for a sign of life on a link, unless that is being done.
    pub(super) fn test_link(&mut self, link: LinkIdx) {
        let now = self.now();
        let wait = self.data.core.config.timeouts.test_link_reply;
        if let Some(l) = self.data.links.at_mut(link)
            && l.test == TestLinkState::Idle
        {
            l.test = TestLinkState::Due {
                deadline: now.after(wait),
            };
        }
        self.arm_link(link);
        self.data.schedule_link(link);
    }

    /// The TEST LINK that is due, with data no other one carries.
    //= LLC-074
    pub(super) fn next_test_link(&mut self, link: LinkIdx) -> Option<[u8; LLC_LENGTH]> {
        if !self.link(link)?.test.is_due() {
            return None;
        }
        let (a, b) = (self.data.core.random.next(), self.data.core.random.next());
        let user_data = (u128::from(a) << 64 | u128::from(b)).to_be_bytes();
        let deadline = self
            .now()
            .after(self.data.core.config.timeouts.test_link_reply);
        self.data.links.at_mut(link)?.test = TestLinkState::Sent {
            user_data,
            deadline,
        };
        self.arm_link(link);
        let message = LlcMessage::TestLink(TestLink {
            reply: false,
            user_data,
        });
        self.encode(link, &message)
    }

    //= LLC-075
    //= KEEPALIVE-007
    //= LLCSER-006
    //= LLC-009
    //= LLCSER-001
    pub(super) fn on_test_link(&mut self, link: LinkIdx, message: TestLink) {
        self.reply(
            link,
            &LlcMessage::TestLink(TestLink {
                reply: true,
                ..message
            }),
        );
    }

    //= KEEPALIVE-003
    //= LLC-076
    pub(super) fn on_test_link_reply(&mut self, link: LinkIdx, reply: &TestLink) {
        match self.link(link).map(|l| l.test) {
            Some(TestLinkState::Sent { user_data, .. }) if user_data == reply.user_data => {
                if let Some(l) = self.data.links.at_mut(link) {
                    l.test = TestLinkState::Idle;
                }
                self.arm_link(link);
                self.complete_overdue(link);
            }
            Some(TestLinkState::Sent { .. }) => self.violation(link),
            // No request is open, or the reply is late: dropped (AMB-38).
            _ => {}
        }
    }
}
