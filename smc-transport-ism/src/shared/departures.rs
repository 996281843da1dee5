//! What the device sends: the outcome of each offer, room to wait for, and time-outs.

use std::time::{Duration, Instant};

use rustix::event::epoll::{EventData, EventFlags};

use super::device::{Device, READABLE, pack};
use super::waiting::REPORTS;
use crate::device::{Dmb, IsmError, IsmReport};
use crate::slots::Key;

/// Pause before a channel is read again whose peer takes no messages.
const READ_AGAIN: Duration = Duration::from_millis(10);

impl Device {
    /// Handles the outcome of sending over a channel: to be called after each flush. Each DMB whose offer was sent or has failed is reported, not only the one
    /// that the caller is about.
    //= SHM-023
    pub(super) fn after_send(&mut self, key: Key) {
        let Some(channel) = self.channels.at_mut(key) else {
            return;
        };
        channel.drop_lost_page();
        let outcomes = channel.outbox.take_outcomes();
        let (is_full, broke) = (channel.outbox.is_full(), channel.outbox.take_breakage());
        let timeout = channel.outbox.timeout();
        let awaited = std::mem::replace(&mut channel.awaits_room, is_full);
        for (dmb, outcome) in outcomes {
            self.report_outcome(dmb, outcome);
        }
        if awaited != is_full {
            self.note_behind();
            let more = if is_full {
                EventFlags::OUT
            } else {
                EventFlags::empty()
            };
            self.interest(key, more);
        }
        if let Some(at) = timeout {
            self.alarm.set_by(at);
        }
        if broke {
            // What the peer sent before is read, then the channel ends.
            self.alarm.set_by(Instant::now());
        }
    }

    /// Notes whether polls have to check sockets for room: not where the descriptor is polled
    /// externally, as that poller reports the room.
    pub(super) fn note_behind(&mut self) {
        self.behind = !self.externally_polled && self.channels.iter().any(|(_, at)| at.awaits_room);
    }

    fn report_outcome(&mut self, key: Key, outcome: Result<(), IsmError>) {
        let dmb = Dmb(key);
        let report = match (outcome, self.dmbs.at(key)) {
            (_, None) => return,
            (Ok(()), Some(own)) => {
                let token = own.token;
                IsmReport::DmbRegistered { dmb, token }
            }
            (Err(error), Some(own)) => {
                let (channel, slot) = (own.channel, own.slot);
                if let Some(channel) = self.channels.at_mut(channel) {
                    channel.free_slot(slot);
                }
                self.dmbs.remove(key);
                IsmReport::Failed { dmb, error }
            }
        };
        self.reports.push_back(report);
    }

    /// Why a DMB failed, if that is about to be reported, which it then is not.
    pub(super) fn take_failure(&mut self, dmb: Dmb) -> Option<IsmError> {
        let failure = |report: &IsmReport| match report {
            IsmReport::Failed { dmb: of, error } if *of == dmb => Some(*error),
            _ => None,
        };
        let at = self.reports.iter().rposition(|at| failure(at).is_some())?;
        self.reports.remove(at).as_ref().and_then(failure)
    }

    /// Sends what waited for room.
    pub(super) fn catch_up(&mut self, key: Key) {
        if let Some(channel) = self.channels.at_mut(key) {
            channel.outbox.flush(&channel.socket);
        }
        self.after_send(key);
        self.extend_doorbells(key);
    }

    /// Makes the further pages of a channel's doorbells that this side is to ring in, as far as
    /// they can be sent at once. The others come when there is room, or with the next DMB that
    /// is attached.
    //= SHM-070
    pub(super) fn extend_doorbells(&mut self, key: Key) {
        loop {
            let Some(channel) = self.channels.at(key) else {
                return;
            };
            if !channel.wants_page() || self.check_in_flight(channel.uid).is_err() {
                return;
            }
            let Some(channel) = self.channels.at_mut(key) else {
                return;
            };
            let is_sent = channel.add_page();
            self.after_send(key);
            if !is_sent {
                return;
            }
        }
    }

    /// The alarm has gone off.
    pub(super) fn handle_alarm(&mut self) {
        self.alarm.take();
        let now = Instant::now();
        let keys: Vec<Key> = self.channels.iter().map(|(key, _)| key).collect();
        for key in keys {
            let Some(channel) = self.channels.at_mut(key) else {
                continue;
            };
            channel.outbox.handle_timeout(&channel.socket, now);
            let is_broken = channel.outbox.is_broken();
            if let Some(at) = channel.offers.expire(now) {
                self.alarm.set_by(at);
            }
            self.expire_finished(key, now);
            self.after_send(key);
            if is_broken {
                let room = REPORTS.saturating_sub(self.reports.len());
                self.read_channel(key, room, false);
                self.alarm.set_by(now + READ_AGAIN);
            }
        }
    }

    pub(super) fn interest(&self, key: Key, more: EventFlags) {
        if let Some(channel) = self.channels.at(key) {
            let flags = READABLE | more;
            let data = EventData::new_u64(pack(key));
            // It fails only for what was never added.
            let _ = rustix::event::epoll::modify(&*self.poller, channel, data, flags);
        }
    }
}
