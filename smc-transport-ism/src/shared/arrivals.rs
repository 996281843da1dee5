//! What the sockets of channels bring, in its order among what rang.
//!
//! ```text
//!   socket    ── EVENT ────► reports
//!             ── WITHDRAW ─► rings of that peer so far, then the withdrawal ─► reports
//!             ── (end) ────► rings of that peer so far, then its end ────────► reports
//!   doorbells ── ring ─────► reported when it is seen, or behind what waits already
//! ```

use super::channel::{Arrival, Channel};
use super::device::{Attached, Device};
use super::handshakes::RUNG;
use super::waiting::REPORTS;
use crate::device::{DeviceEvent, DmbToken, IsmError, IsmReport, RemoteDmb};
use crate::slots::Key;

/// What one read of a socket has taken.
enum Taken {
    Some,
    /// A wake: the peer rang while this side was parked.
    Wake,
    /// Nothing now, or ever.
    Last,
}

impl Device {
    /// Takes at most `most` messages from a channel's socket: a peer that sends
    /// without end is not read without end. Returns whether nothing is left in it; unless
    /// `drains`, a wake is taken for the last message, as seldom anything follows one.
    pub(super) fn read_channel(&mut self, key: Key, most: usize, drains: bool) -> bool {
        for _ in 0..most {
            // A withdrawal brings the rings before it along.
            if self.reports.len() >= REPORTS {
                return false;
            }
            match self.take_message(key) {
                Taken::Some => {}
                Taken::Wake if drains => {}
                Taken::Wake => return false,
                Taken::Last => return true,
            }
        }
        false
    }

    /// Takes one message from a channel's socket; whether there may be more.
    pub(super) fn read_message(&mut self, key: Key) -> bool {
        !matches!(self.take_message(key), Taken::Last)
    }

    fn take_message(&mut self, key: Key) -> Taken {
        let Some(channel) = self.channels.at_mut(key) else {
            return Taken::Last;
        };
        let peer = channel.peer;
        match channel.receive() {
            Arrival::Nothing => return Taken::Last,
            Arrival::Wake => return Taken::Wake,
            Arrival::Inner => {}
            Arrival::Offer {
                token,
                len,
                ring,
                fd,
            } => {
                if !self.take_offer(key, (token, len), ring, &fd) {
                    self.close(key);
                    return Taken::Last;
                }
            }
            Arrival::Handshakes { ring, fd } => {
                if !self.take_handshakes(key, ring, fd) {
                    self.close(key);
                    return Taken::Last;
                }
            }
            Arrival::Event { code, info } => {
                let event = DeviceEvent::software(peer, code, info);
                self.reports.push_back(IsmReport::Event(event));
            }
            Arrival::Withdrawn(token) => self.withdrawn(key, token),
            Arrival::End if self.may_be_claimed(key) => return Taken::Last,
            //= SHM-029
            Arrival::End | Arrival::Breach => {
                self.close(key);
                return Taken::Last;
            }
        }
        Taken::Some
    }

    /// Whether to leave the end of a peer for later, as it offered a DMB that is not
    /// attached: over TCP it may have named the connection of that DMB, which the external
    /// poller has not read yet. It has once it reports a second event after the end.
    //= SHM-037
    fn may_be_claimed(&mut self, key: Key) -> bool {
        let (externally_polled, readable_events) = (self.externally_polled, self.readable_events);
        let Some(channel) = self.channels.at_mut(key) else {
            return false;
        };
        let first = *channel.ended.get_or_insert(readable_events);
        externally_polled && channel.offers.len() > 0 && readable_events.wrapping_sub(first) < 2
    }

    /// Handles a DMB that the peer took back: reported after everything that it did before.
    //= SHM-035
    fn withdrawn(&mut self, key: Key, token: DmbToken) {
        let of_it = |at: &Attached| match at {
            Attached::Live {
                channel, token: of, ..
            } => *channel == key && *of == token,
            _ => false,
        };
        self.end_attached(key, of_it, || Attached::Withdrawn);
    }

    /// Ends attachments over a channel, and reports that behind what their peer rang before.
    fn end_attached(
        &mut self,
        key: Key,
        ends: impl Fn(&Attached) -> bool,
        now: impl Fn() -> Attached,
    ) {
        let all = self.attached.iter().filter(|(_, at)| ends(at));
        let all: Vec<_> = all.map(|(remote, _)| remote).collect();
        if all.is_empty() {
            return;
        }
        self.take_rings(key);
        if let Some(channel) = self.channels.at_mut(key) {
            channel.attached = channel.attached.saturating_sub(all.len() as u32);
        }
        for remote in all {
            if let Some(at) = self.attached.at_mut(remote) {
                at.end(now());
            }
            let remote = RemoteDmb(remote);
            self.reports.push_back(IsmReport::Withdrawn { remote });
        }
    }

    /// Queues the signals of a channel's peer so far, of all channels to that peer.
    fn take_rings(&mut self, key: Key) {
        // A peer that need not ring has not.
        //= SHM-075
        if self.suppresses_rings {
            self.poll_heads();
        }
        let Some(peer) = self.channels.at(key).map(Channel::owner) else {
            return;
        };
        let of_peer = self.channels.iter().filter(|(_, at)| at.owner() == peer);
        let of_peer: Vec<_> = of_peer.map(|(key, _)| key).collect();
        for key in of_peer {
            // A peer that broke the rules may still ring without end.
            let most = self.channels.at(key).map_or(0, Channel::most_rings);
            for _ in 0..most {
                let Some(channel) = self.channels.at_mut(key) else {
                    break;
                };
                let Some(ring) = channel.next_ring() else {
                    break;
                };
                let dmb = channel.rung(ring);
                let signal = match dmb {
                    Some(RUNG) => self.rung_for_handshakes(key),
                    dmb => dmb.and_then(|dmb| self.signalled(dmb)),
                };
                self.queue_signal(signal);
            }
        }
    }

    /// Queues the report of a signal, unless one of the same DMB is queued: that has the
    /// head as it is when it is taken.
    pub(super) fn queue_signal(&mut self, signal: Option<IsmReport>) {
        let is_new = match signal {
            Some(IsmReport::Signalled { dmb, .. }) => {
                let own = self.dmbs.at_mut(dmb.0);
                own.is_some_and(|own| !std::mem::replace(&mut own.is_queued, true))
            }
            // Of handshakes: reported once until they are received.
            _ => true,
        };
        if is_new {
            self.reports.extend(signal);
        }
    }

    /// Ends a channel, after everything it brought.
    pub(super) fn close(&mut self, key: Key) {
        self.take_rings(key);
        if let Some(channel) = self.channels.at_mut(key) {
            channel.outbox.fail_offers(IsmError::Unreachable);
        }
        self.after_send(key);
        let Some(mut channel) = self.channels.remove(key) else {
            return;
        };
        channel.kept.discard_all();
        self.note_behind();
        let peer = channel.owner();
        self.keep_ended_socket(channel.uid, channel.socket);
        if self.is_joined(&peer) {
            // What was offered over this one is gone all the same.
            self.end_attached(key, |at| at.is_over(key), || Attached::Vanished(peer));
        } else {
            self.attached.for_each(|at| {
                if at.is_over(key) {
                    at.end(Attached::Vanished(peer));
                }
            });
            let vanished = DeviceEvent::vanished(peer.gid);
            self.reports.push_back(IsmReport::Event(vanished));
            self.departed.push(peer);
        }
    }
}
