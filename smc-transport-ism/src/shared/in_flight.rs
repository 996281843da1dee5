//! Limits of the descriptors in flight: sent over a channel, and not received by the peer yet.
//!
//! The kernel counts descriptors in flight against RLIMIT_NOFILE of the user that has sent them,
//! over all processes of that user. A peer that never reads could use them up, so that no program of
//! this user could pass a descriptor. So a channel's socket has a window of messages, and the number
//! in flight to peers of strangers, that is of users other than root and this process's own, is
//! bounded over all channels. Channels that have ended here count too: what is in the queue of a
//! peer's socket stays there.

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

/// Most descriptors in flight to peers of one stranger.
pub(super) const OF_A_USER: usize = 64;

/// Most descriptors in flight to peers of all strangers together.
pub(super) const OF_ALL: usize = 256;

/// Pause before the kernel is asked again what a user's peers have received.
const RETRY: Duration = Duration::from_millis(10);

/// How long a channel that may be made counts, until its first message is sent.
const GREETING: Duration = Duration::from_secs(2);

/// Descriptors in flight beside those that the channels of a device count.
#[derive(Debug, Default)]
pub(super) struct InFlight {
    /// Sockets of ended channels whose peers have not received everything, with the peers' users.
    ended: Vec<(u32, Socket)>,
    /// Channels that may be made: user of the peer, and since when.
    handshakes: Vec<(u32, Instant)>,
    /// Users whose peers have too many descriptors in flight.
    over_limit: BTreeMap<u32, OverLimit>,
}

/// State of a user whose peers have too many descriptors in flight.
#[derive(Clone, Copy, Debug)]
struct OverLimit {
    since: Instant,
    /// When the kernel was last asked what the peers have received.
    asked: Instant,
}

impl InFlight {
    /// Closes sockets of ended channels whose peers have received everything, or have gone.
    pub(super) fn sweep(&mut self) {
        self.ended.retain(|(_, socket)| socket.unread() > 0);
    }

    /// Whether sockets of ended channels are kept.
    pub(super) fn has_ended_sockets(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Number of sockets of ended channels that are kept.
    #[cfg(test)]
    pub(super) fn ended_sockets(&self) -> usize {
        self.ended.len()
    }

    /// Notes that a channel that might be made with a peer of this user was made, or given up.
    pub(super) fn remove_handshake(&mut self, uid: u32) {
        if let Some(place) = self.handshakes.iter().position(|(of, _)| *of == uid) {
            self.handshakes.swap_remove(place);
        }
    }

    /// Number of channels that may be made with peers of this user.
    fn count_handshakes(&mut self, uid: u32, now: Instant) -> usize {
        self.handshakes
            .retain(|(_, since)| now.duration_since(*since) < GREETING);
        self.handshakes.iter().filter(|(of, _)| *of == uid).count()
    }
}

impl Device {
    /// What pairing has to know of a peer. If a channel may be made, it counts as one of the channels
    /// that the peer's user can have, until [`Self::admit`] or [`Self::abandon`].
    //= SHM-042
    pub fn reach(&mut self, peer: &Peer) -> Reach {
        let joined = self.is_joined(peer);
        let uid = peer.uid;
        if !is_stranger(uid) {
            return joined.into();
        }
        let now = Instant::now();
        let channels = self.channels.iter().filter(|(_, at)| at.uid == uid).count();
        let room = channels + self.in_flight.count_handshakes(uid, now) < OF_A_STRANGER;
        let may_greet = room && self.has_room_in_flight(uid);
        if may_greet {
            self.in_flight.handshakes.push((uid, now));
        }
        Reach { joined, may_greet }
    }

    /// Gives up a pairing whose connection has ended, with its channel. Descriptors that were sent to
    /// the peer count as in flight until the peer has received them, or has gone.
    //= SHM-042
    pub fn abandon(&mut self, paired: Paired) {
        let uid = paired.peer.uid;
        self.in_flight.remove_handshake(uid);
        let made = paired.channel.map(|channel| channel.socket);
        for socket in paired.left.into_iter().chain(made) {
            self.keep_ended_socket(uid, socket);
        }
    }

    /// Checks that one more descriptor can be sent to a peer of this user.
    ///
    /// # Errors
    /// [`IsmError::Busy`] if too many are in flight; [`IsmError::Unreachable`] if that has been so
    /// for [`STALLED`].
    //= SHM-042
    pub(super) fn check_in_flight(&mut self, uid: u32) -> Result<(), IsmError> {
        if !is_stranger(uid) {
            return Ok(());
        }
        let now = Instant::now();
        let known = self.in_flight.over_limit.get(&uid).copied();
        let may_ask = known.is_none_or(|known| now.duration_since(known.asked) >= RETRY);
        if may_ask && self.has_room_in_flight(uid) {
            self.in_flight.over_limit.remove(&uid);
            return Ok(());
        }
        let since = known.map_or(now, |known| known.since);
        let asked = known.filter(|_| !may_ask).map_or(now, |known| known.asked);
        self.in_flight
            .over_limit
            .insert(uid, OverLimit { since, asked });
        if now.duration_since(since) >= STALLED {
            return Err(IsmError::Unreachable);
        }
        // No socket becomes readable when a peer receives something.
        self.alarm.set_by(now + RETRY);
        Err(IsmError::Busy)
    }

    /// Whether one more descriptor to a peer of stranger `uid` is within the limits. Asks the kernel
    /// what peers have received if it is not by the numbers known.
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

    /// Upper bound of the descriptors in flight to peers of these users, or queued for them.
    pub(super) fn in_flight_to(&self, is_of: impl Fn(u32) -> bool) -> usize {
        let channels = self.channels.iter().filter(|(_, at)| is_of(at.uid));
        let sent: usize = channels.map(|(_, at)| at.outbox.in_flight()).sum();
        let ended = self.in_flight.ended.iter();
        let ended = ended.filter(|(uid, _)| is_of(*uid));
        sent + ended.map(|(_, socket)| socket.unread()).sum::<usize>()
    }

    /// Keeps the socket of an ended channel open until the peer has received everything, if the peer
    /// is a stranger's: the kernel can be asked only by an open socket what is unread.
    pub(super) fn keep_ended_socket(&mut self, uid: u32, socket: Socket) {
        let has_others = self
            .channels
            .iter()
            .any(|(_, at): (_, &Channel)| at.uid == uid);
        if !has_others {
            self.in_flight.over_limit.remove(&uid);
        }
        if !is_stranger(uid) || socket.unread() == 0 {
            return;
        }
        socket.finish();
        let data = EventData::new_u64(LEFT);
        let flags = EventFlags::OUT | EventFlags::ET;
        // The socket of a channel that was admitted is in the poller already.
        let added = rustix::event::epoll::modify(&*self.poller, &socket, data, flags)
            .or_else(|_| rustix::event::epoll::add(&*self.poller, &socket, data, flags));
        if added.is_ok() {
            self.in_flight.ended.push((uid, socket));
        }
    }
}
