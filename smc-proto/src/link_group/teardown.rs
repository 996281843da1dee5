//! The end of a group: connections first, then queue pairs, then memory.
//!
//! ```text
//!   end_group ─► connections aborted, handshakes woken, goal of links = Gone
//!       QpDrained ─► work under way counts as lost, buffers retired
//!           all deregistered ─► DestroyQp      all freed ─► group slot freed
//! ```

use super::{GroupState, Memory, QpGoal, SendKind, Told};
use crate::connection::FatalCause;
use crate::connection_record::Phase;
use crate::engine::Engine;
use crate::event::CloseReason;
use crate::id::NONE;
use crate::path::PathEvent;
use crate::stats::count;
use crate::wire::types::DiagnosisCode;

impl Engine<'_> {
    /// Takes a group down. `decline` names the code for a connection whose
    /// rendezvous may still fall back; without it that one is reset.
    //= LINK-036
    //= CLOSE-040
    //= FAILOVER-025
    pub(crate) fn end_group(
        &mut self,
        group: u32,
        reason: CloseReason,
        decline: Option<DiagnosisCode>,
    ) {
        self.withdraw_group(group);
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        if g.is_ending() {
            return;
        }
        let was_active = g.is_active();
        g.decline = match (g.decline, decline) {
            // Past the point of no return no Decline is left to send.
            (None, _) => None,
            // Silence that the configuration answers with a reset.
            (Some(_), None) if reason == CloseReason::RendezvousFailed => None,
            (allowed, code) => code.or(allowed),
        };
        g.state = GroupState::Ending(reason);
        g.flow_deadline = None;
        g.idle_deadline = None;
        g.founder = NONE;
        let (members, first, second) = (g.members, g.link, g.second_link);
        if was_active && g.connection_count > 0 {
            count(&mut self.core.statistics.groups_lost);
        }
        self.groups.set_deadline(group, None);
        for link in [first, second] {
            self.unhash_link(link);
            if let Some(l) = self.links.at_mut(link) {
                l.goal = QpGoal::Gone;
                l.replies.clear();
                l.request = None;
                self.links.set_deadline(link, None);
            }
        }
        let mut next = members.first();
        while let Some(conn) = next {
            self.step();
            next = members.next(&mut self.connections, conn);
            match self.connections.at(conn).map(|record| record.phase) {
                Some(Phase::Rendezvous(_)) => self.wake(conn),
                // One that ended may still wait to send its last CDC message.
                Some(Phase::Active | Phase::Ended) => {
                    self.with_connection(conn, |connection, now, config| {
                        connection.on_fatal(now, &config.connection, FatalCause::LinkLost);
                    });
                    self.release(conn);
                }
                _ => self.release(conn),
            }
        }
        while let Some(handshake) = self.groups.at(group).and_then(|g| g.queued.first()) {
            self.unqueue(handshake);
            self.core.wakes.push_back(&mut self.handshakes, handshake);
        }
        for link in [first, second] {
            self.drop_absent_link(link);
            self.poke_link(link);
        }
        let drained = self.groups.at(group).is_some_and(|g| g.link == NONE);
        if drained {
            self.retire_buffers(group);
        }
        self.try_free_group(group);
    }

    /// Nothing posted on the link is under way any more: what was not reported
    /// as sent was not sent.
    pub(crate) fn on_drained(&mut self, link: u32) {
        let Some(group) = self.links.at(link).map(|l| l.group) else {
            return;
        };
        while let Some((_, kind)) = self.links.at_mut(link).and_then(|l| l.in_flight.pop()) {
            self.step();
            if let SendKind::Notify {
                index,
                generation,
                record,
            } = kind
                && self.connections.is_live(index, generation)
            {
                self.with_connection(index, |connection, now, config| {
                    connection.on_notify_completed(now, &config.connection, record);
                });
                self.release(index);
            }
        }
        let first = self
            .groups
            .at(group)
            .is_some_and(|g| g.link == link && g.is_ending());
        if first {
            self.retire_buffers(group);
        }
        self.poke_link(link);
    }

    pub(crate) fn retire_buffers(&mut self, group: u32) {
        let Some(list) = self.groups.at(group).map(|g| g.buffers) else {
            return;
        };
        let mut next = list.first();
        while let Some(index) = next {
            self.step();
            next = list.next(&mut self.buffers, index);
            if let Some(buffer) = self.buffers.at_mut(index) {
                buffer.retired = true;
                self.buffers.set_deadline(index, None);
            }
            self.list_spare(index);
            self.drop_absent_buffer(index);
            self.poke_buffer(index);
        }
    }

    /// Removes a buffer that never got memory, or gave it back.
    pub(crate) fn drop_absent_buffer(&mut self, index: u32) {
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
    pub(crate) fn try_free_group(&mut self, group: u32) {
        let Some(g) = self.groups.at_mut(group) else {
            return;
        };
        if !g.is_ending()
            || g.link != NONE
            || g.second_link != NONE
            || !g.members.is_empty()
            || !g.buffers.is_empty()
        {
            return;
        }
        while let Some(rmb) = self.groups.at(group).and_then(|g| g.remote_rmbs.first()) {
            self.step();
            self.remove_remote_rmb(group, rmb);
        }
        // Only a group that was told to be up is told to be down.
        match self.groups.at(group).map(|g| g.told) {
            Some(Told::Up) => self.core.groups_down.push_back(&mut self.groups, group),
            Some(Told::Nothing) => {
                self.groups.remove(group);
            }
            _ => {}
        }
    }

    /// A port or an RNIC is gone: so are the links on it.
    pub(crate) fn on_path(&mut self, event: PathEvent) {
        let (device, port) = match event {
            PathEvent::PortUp(_) => return,
            PathEvent::PortDown { device, port } => (device, Some(port)),
            PathEvent::DeviceRemoved { device } => (device, None),
        };
        self.forget_paths(device, port);
        for index in 0..self.groups.capacity() {
            let hit = self
                .groups
                .at(index)
                .and_then(|g| self.links.at(g.link))
                .is_some_and(|l| l.path.device == device && port.is_none_or(|p| l.path.port == p));
            if hit {
                self.step();
                self.end_group(
                    index,
                    CloseReason::LinksLost,
                    Some(DiagnosisCode::LINK_READY),
                );
            }
        }
    }
}
