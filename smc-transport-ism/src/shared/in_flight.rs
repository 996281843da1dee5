//! Descriptors in flight: sent, and not received by the peer yet.
//!
//! The kernel counts them against RLIMIT_NOFILE of the user that sent them, in all its
//! processes together: a peer that never reads would take the passing of descriptors away
//! from every program of this user. So a channel's socket takes a window of messages, and
//! what peers of one other user leave unread is bounded over all channels, also those that
//! have ended here: what lies in the queue of a peer's socket stays there.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use rustix::event::epoll::{EventData, EventFlags};

use super::channel::Channel;
use super::device::{Device, LEFT, OF_A_STRANGER, is_stranger};
use super::outbox::STALLED;
use super::own_user::own_user;
use super::pairing::{Paired, Peer, Reach};
use super::socket::Socket;
use crate::device::IsmError;

/// Descriptors in flight to peers of one user that is neither root nor this process's own.
pub(super) const OF_A_USER: usize = 64;

/// Descriptors in flight to peers of all such users together.
pub(super) const OF_ALL: usize = 256;

/// Pause before the kernel is asked again what a user's peers have received.
const RETRY: Duration = Duration::from_millis(10);

/// Longest time from the leave to make a channel to its first message.
const GREETING: Duration = Duration::from_secs(2);

/// What is in flight besides the messages of channels.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Sockets of channels that have ended, with something unread, and their peers' users.
    left: Vec<(u32, Socket)>,
    /// Channels that are about to be made: with peers of which users, since when.
    greeting: Vec<(u32, Instant)>,
    /// Users with too much in flight.
    crowded: BTreeMap<u32, Crowded>,
}

/// A user with too much in flight.
#[derive(Clone, Copy, Debug)]
struct Crowded {
    since: Instant,
    asked: Instant,
}

impl InFlight {
    /// Closes sockets whose peers have received all, or gone.
    pub(super) fn sweep(&mut self) {
        self.left.retain(|(_, socket)| socket.unread() > 0);
    }

    /// Whether sockets are kept of channels that have ended.
    pub(super) fn has_left(&self) -> bool {
        !self.left.is_empty()
    }

    /// Sockets that are kept of channels that have ended.
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.left.len()
    }

    /// A channel that was about to be made with a peer of this user is made, or given up.
    pub(super) fn greeted(&mut self, uid: u32) {
        if let Some(at) = self.greeting.iter().position(|(of, _)| *of == uid) {
            self.greeting.swap_remove(at);
        }
    }

    fn greeting(&mut self, uid: u32, now: Instant) -> usize {
        self.greeting
            .retain(|(_, since)| now.duration_since(*since) < GREETING);
        self.greeting.iter().filter(|(of, _)| *of == uid).count()
    }
}

impl Device {
    /// What pairing has to know of a peer. If a channel may be made, one of those that the
    /// peer's user can have is kept for it until [`Self::admit`].
    //= SHM-042
    pub fn reach(&mut self, peer: &Peer) -> Reach {
        let joined = self.is_joined(peer);
        let uid = peer.uid;
        if !is_stranger(uid) {
            return joined.into();
        }
        let now = Instant::now();
        let channels = self.channels.iter().filter(|(_, at)| at.uid == uid).count();
        let room = channels + self.in_flight.greeting(uid, now) < OF_A_STRANGER;
        let may_greet = room && self.has_room_in_flight(uid);
        if may_greet {
            self.in_flight.greeting.push((uid, now));
        }
        Reach { joined, may_greet }
    }

    /// Gives up a pairing whose connection has ended: no channel comes of it. Descriptors that
    /// were sent to its peer count as in flight until the peer has received them or gone.
    //= SHM-042
    pub fn abandon(&mut self, paired: Paired) {
        let uid = paired.peer.uid;
        self.in_flight.greeted(uid);
        let made = paired.channel.map(|channel| channel.socket);
        for socket in paired.left.into_iter().chain(made) {
            self.bury(uid, socket);
        }
    }

    /// Whether one more descriptor can be sent to a peer of this user.
    ///
    /// # Errors
    /// [`IsmError::Busy`], or [`IsmError::Unreachable`] if its peers have left too much
    /// unread for [`STALLED`].
    //= SHM-042
    pub(super) fn check_in_flight(&mut self, uid: u32) -> Result<(), IsmError> {
        if !is_stranger(uid) {
            return Ok(());
        }
        let now = Instant::now();
        let known = self.in_flight.crowded.get(&uid).copied();
        let is_new = known.is_none_or(|at| now.duration_since(at.asked) >= RETRY);
        if is_new && self.has_room_in_flight(uid) {
            self.in_flight.crowded.remove(&uid);
            return Ok(());
        }
        let since = known.map_or(now, |at| at.since);
        let asked = known.filter(|_| !is_new).map_or(now, |at| at.asked);
        self.in_flight.crowded.insert(uid, Crowded { since, asked });
        if now.duration_since(since) >= STALLED {
            return Err(IsmError::Unreachable);
        }
        // No socket becomes readable by it.
        self.alarm.set_by(now + RETRY);
        Err(IsmError::Busy)
    }

    fn has_room_in_flight(&mut self, uid: u32) -> bool {
        let own = own_user();
        let is_stranger = |uid: u32| uid != 0 && uid != own;
        let room = |device: &Self| {
            device.in_flight_to(|of| of == uid) < OF_A_USER
                && device.in_flight_to(is_stranger) < OF_ALL
        };
        if room(self) {
            return true;
        }
        self.channels.for_each(|at| {
            if is_stranger(at.uid) {
                at.outbox.count_unread(&at.socket);
            }
        });
        self.in_flight.sweep();
        room(self)
    }

    /// Descriptors in flight to peers of these users, or waiting to be sent: at most.
    pub(super) fn in_flight_to(&self, is_of: impl Fn(u32) -> bool) -> usize {
        let channels = self.channels.iter().filter(|(_, at)| is_of(at.uid));
        let sent: usize = channels.map(|(_, at)| at.outbox.in_flight()).sum();
        let left = self.in_flight.left.iter().filter(|(uid, _)| is_of(*uid));
        sent + left.map(|(_, socket)| socket.unread()).sum::<usize>()
    }

    /// Keeps what is left of a channel as long as its peer has something unread: else it
    /// could not be counted.
    pub(super) fn bury(&mut self, uid: u32, socket: Socket) {
        let has_others = self
            .channels
            .iter()
            .any(|(_, at): (_, &Channel)| at.uid == uid);
        if !has_others {
            self.in_flight.crowded.remove(&uid);
        }
        if !is_stranger(uid) || socket.unread() == 0 {
            return;
        }
        socket.finish();
        let data = EventData::new_u64(LEFT);
        let flags = EventFlags::OUT | EventFlags::ET;
        // It has been added as a channel, or not at all.
        let added = rustix::event::epoll::modify(&*self.poller, &socket, data, flags)
            .or_else(|_| rustix::event::epoll::add(&*self.poller, &socket, data, flags));
        if added.is_ok() {
            self.in_flight.left.push((uid, socket));
        }
    }
}
