//! The end of a group: connections first, then queue pairs, then memory.
//!
//! ```text
//!   end_group ─► connections aborted, handshakes woken, goal of links = Gone
//!       QpDrained ─► work in flight counts as lost, buffers retired
//!           all deregistered ─► DestroyQp      all freed ─► group slot freed
//! ```

use super::{Agreement, GroupNotified, GroupState, LinkGroup, Memory, QpState, SendKind};
use crate::connection::FatalCause;
use crate::connection_record::Phase;
use crate::event::CloseReason;
use crate::id::{BufferIdx, GroupIdx, Idx, LinkIdx};
use crate::link_group::Groups;
use crate::stats::count;
use crate::trace::{GroupStep, TraceEvent};
use crate::wire::types::DiagnosisCode;

/// What becomes of a connection whose group ends while it is being formed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fallback {
    /// Decline with this code where that is still possible, else reset.
    Decline(DiagnosisCode),
    /// Decline with the code the group has for it, if it has one.
    Keep,
    /// Reset.
    Reset,
}

impl Groups<'_> {
    /// Takes a group down. `fallback` says what becomes of a connection whose
    /// rendezvous is forming it.
    //= LINK-036
    //= CLOSE-040
    //= FAILOVER-025
    pub(crate) fn end_group(&mut self, group: GroupIdx, reason: CloseReason, fallback: Fallback) {
        self.withdraw_group(group);
        let Some(g) = self.data.groups.at_mut(group) else {
            return;
        };
        if g.is_ending() {
            return;
        }
        let was_active = g.is_active();
        g.decline = match (g.decline, fallback) {
            // Past the point of no return no Decline is left to send.
            (None, _) | (_, Fallback::Reset) => None,
            (Some(_), Fallback::Decline(code)) => Some(code),
            (allowed, Fallback::Keep) => allowed,
        };
        let old = core::mem::replace(&mut g.state, GroupState::Ending(reason));
        g.flow_deadline = None;
        g.idle_deadline = None;
        g.founder = Idx::NONE;
        g.addition = super::Addition::IDLE;
        g.add_schedule = super::AddLinkSchedule::NONE;
        let links = g.links;
        if was_active && g.connection_count > 0 {
            count(&mut self.data.core.statistics.groups_lost);
        }
        self.trace_group(group, || TraceEvent::GroupMoved {
            old: old.into(),
            new: GroupStep::Ending,
            reason: Some(reason),
        });
        self.set_group_deadline(group, None);
        self.conclude_all(group);
        for link in links {
            self.unhash_link(link);
            if let Some(l) = self.data.links.at_mut(link) {
                l.shut();
            }
        }
        self.close_smcd(group);
        self.each_member(group, |groups, conn| {
            match groups.conn(conn).map(|record| record.phase) {
                Some(Phase::Rendezvous(_)) => groups.data.wake(conn),
                // One that ended may still wait to send its last CDC message.
                Some(Phase::Active | Phase::Ended) => {
                    #[cfg(feature = "smc-d")]
                    groups.lose_if_lent(conn);
                    groups.with_connection(conn, |connection, now, config| {
                        connection.on_fatal(now, &config.connection, FatalCause::LinkLost);
                    });
                    groups.release(conn);
                    // Where its application may still read, or has it lent, the links go earlier.
                    let phase = groups.conn(conn).map(|record| record.phase);
                    if phase == Some(Phase::Active) {
                        groups.stop_transmits(group, conn);
                    }
                }
                _ => groups.release(conn),
            }
        });
        self.wake_queued(group);
        self.complete_last_transmit(group);
        for link in links {
            self.drop_absent_link(link);
            self.data.schedule_link(link);
        }
        self.retire_buffers_if_drained(group);
        self.try_free_group(group);
    }

    /// Gives the buffers of a group that ends back, once no queue pair can touch
    /// them any more.
    pub(crate) fn retire_buffers_if_drained(&mut self, group: GroupIdx) {
        let ending = self.data.groups.at(group).is_some_and(LinkGroup::is_ending);
        let alive = self
            .select_links(group, |link| {
                link.state < QpState::Drained && link.state != QpState::Absent
            })
            .next()
            .is_some();
        let creating = self
            .select_links(group, |link| link.pending == Some(QpState::Init))
            .next()
            .is_some();
        if ending && !alive && !creating {
            self.retire_buffers(group);
            self.try_free_group(group);
        }
    }

    /// Nothing posted on the link is in flight any more: what was not reported
    /// as sent was not sent.
    pub(crate) fn on_drained(&mut self, link: LinkIdx) {
        let Some(group) = self.link(link).map(|l| l.group) else {
            return;
        };
        if self.data.groups.at(group).is_some_and(|g| !g.is_ending()) {
            if let Some(l) = self.data.links.at_mut(link) {
                l.in_flight.clear();
            }
            self.move_connections(link);
            self.announce_lost_rmbs(group);
            // No answer comes on it any more, however it came to an end.
            self.restart_exchanges_via(group, link);
            self.data.schedule_link(link);
            return;
        }
        while let Some((_, kind)) = self.data.links.at_mut(link).and_then(|l| l.in_flight.pop()) {
            self.step();
            if let SendKind::Notify {
                index,
                generation,
                record,
            } = kind
                && self.data.connections.is_live(index, generation)
            {
                self.with_connection(index, |connection, now, config| {
                    connection.on_notify_completed(now, &config.connection, record);
                });
                self.release(index);
            }
        }
        self.schedule_group_buffers(group);
        self.retire_buffers_if_drained(group);
        self.data.schedule_link(link);
    }

    pub(crate) fn retire_buffers(&mut self, group: GroupIdx) {
        self.each_buffer(group, |groups, index| {
            if let Some(buffer) = groups.buffers.at_mut(index) {
                buffer.retired = true;
                // The peer's keys end with the links.
                buffer.agreement = Agreement::None;
                groups.set_buffer_deadline(index, None);
            }
            groups.list_spare(index);
            groups.drop_absent_buffer(index);
            groups.schedule_buffer(index);
        });
    }

    /// Removes a buffer that never got memory, or gave it back.
    pub(crate) fn drop_absent_buffer(&mut self, index: BufferIdx) {
        if let Some(buffer) = self.buffers.at(index)
            && buffer.retired
            && buffer.users == 0
            && !buffer.is_busy()
            && buffer.memory != Memory::Present
        {
            self.remove_buffer(index);
        }
    }

    /// Frees the slot of a group of which nothing is left.
    pub(crate) fn try_free_group(&mut self, group: GroupIdx) {
        let Some(g) = self.data.groups.at_mut(group) else {
            return;
        };
        if !g.is_ending() || !g.has_left_peer() || !g.members.is_empty() || !g.buffers.is_empty() {
            return;
        }
        while let Some(rmb) = self
            .data
            .groups
            .at(group)
            .and_then(|g| g.remote_rmbs.first())
        {
            self.step();
            self.remove_remote_rmb(group, rmb);
        }
        // Only a group that was reported up is reported down.
        match self.data.groups.at(group).map(|g| g.notified) {
            Some(GroupNotified::Up) => self
                .data
                .core
                .groups_down
                .push_back(&mut self.data.groups, group),
            Some(GroupNotified::Nothing) => {
                self.trace_group(group, || TraceEvent::GroupFreed);
                self.data.groups.remove(group);
            }
            _ => {}
        }
    }
}
