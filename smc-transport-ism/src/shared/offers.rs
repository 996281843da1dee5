//! DMBs that peers have offered and that no connection has attached yet.
//!
//! ```text
//!   OFFER ──► mapped, unclaimed ── attach ────► the connection's, as long as it lives
//!                    ├─ WITHDRAW, end of the peer ─► unmapped
//!                    ├─ 25 s ──────────────────────► unmapped
//!                    └─ more than fit ─────────────► the oldest is unmapped
//! ```
//!
//! Each is a mapping, of which a process has a limited number (`vm.max_map_count`): a peer
//! that offers without end must not use them up. So there are bounds for each peer, each
//! user and the device, and whatever exceeds one costs the peer or user that exceeds it.

use std::collections::{BTreeMap, VecDeque};
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::channel::Channel;
use super::device::{Device, is_own_user, is_stranger};
use super::facts;
use crate::device::{DmbToken, IsmError};
use crate::doorbell::{Ring, SLOTS};
use crate::memory::SharedRegion;
use crate::slots::Key;

/// How long an offer may stay unclaimed: longer than a rendezvous of CLC takes at most.
const UNCLAIMED_FOR: Duration = Duration::from_secs(25);

/// Offers that a peer of another user may have unclaimed beyond the rendezvous that are
/// pending with it: of connections that were given up, and whose withdrawal is to come.
pub(super) const SPARE: usize = 16;

/// Unclaimed offers of one user that is neither root nor this process's own.
pub(super) const OF_A_USER: usize = 2048;

/// Unclaimed offers of all peers together: an eighth of the mappings that a process has by
/// default.
pub(super) const OF_ALL: usize = 8192;

/// A DMB that a peer offers, mapped.
#[derive(Debug)]
pub(super) struct Offer {
    pub(super) region: Arc<SharedRegion>,
    pub(super) ring: Ring,
    since: Instant,
}

/// The unclaimed offers of one channel.
#[derive(Debug, Default)]
pub(super) struct Offers {
    /// The oldest first.
    unclaimed: VecDeque<(DmbToken, Offer)>,
    /// When rendezvous with the peer began that may still claim an offer, the oldest first.
    expected: VecDeque<Instant>,
}

impl Offers {
    /// Offers that no connection has attached.
    pub(super) fn len(&self) -> usize {
        self.unclaimed.len()
    }

    /// The offer with this token.
    pub(super) fn get(&self, token: DmbToken) -> Option<&Offer> {
        let mut all = self.unclaimed.iter();
        all.find(|(of, _)| *of == token).map(|(_, offer)| offer)
    }

    /// Takes an offer out, for whatever becomes of it.
    pub(super) fn remove(&mut self, token: DmbToken) -> Option<Offer> {
        let at = self.unclaimed.iter().position(|(of, _)| *of == token)?;
        self.unclaimed.remove(at).map(|(_, offer)| offer)
    }

    /// A rendezvous with the peer has begun: it will claim one offer, or none.
    pub(super) fn expect(&mut self, now: Instant) {
        self.forget_old(now);
        // A peer has no more DMBs than that.
        if self.expected.len() < SLOTS as usize {
            self.expected.push_back(now);
        }
    }

    /// A rendezvous has claimed its offer; whether one was pending.
    pub(super) fn claim(&mut self) -> bool {
        self.expected.pop_front().is_some()
    }

    fn expected(&mut self, now: Instant) -> usize {
        self.forget_old(now);
        self.expected.len()
    }

    fn forget_old(&mut self, now: Instant) {
        let is_old = |since: &Instant| now.duration_since(*since) >= UNCLAIMED_FOR;
        while self.expected.front().is_some_and(is_old) {
            self.expected.pop_front();
        }
    }

    /// When the oldest offer came.
    fn oldest(&self) -> Option<Instant> {
        self.unclaimed.front().map(|(_, offer)| offer.since)
    }

    /// Unmaps the offers that were not claimed in time; when the next one is due.
    pub(super) fn expire(&mut self, now: Instant) -> Option<Instant> {
        let is_old = |since: Instant| now.duration_since(since) >= UNCLAIMED_FOR;
        while self.oldest().is_some_and(is_old) {
            self.unclaimed.pop_front();
        }
        self.oldest().map(|since| since + UNCLAIMED_FOR)
    }
}

impl Device {
    /// Maps a DMB that a peer offers; whether the offer keeps to the rules of the channel.
    ///
    /// Mapping happens at once: descriptors that were kept could be made to run out sooner.
    //= SHM-022
    pub(super) fn take_offer(
        &mut self,
        key: Key,
        (token, len): (DmbToken, u32),
        ring: Ring,
        fd: &OwnedFd,
    ) -> bool {
        let Some(channel) = self.channels.at_mut(key) else {
            return true;
        };
        let fits = crate::device::check_len(len, &facts(channel.peer, SLOTS)).is_ok();
        if !fits || ring.slot >= SLOTS || channel.offers.get(token).is_some() {
            return false;
        }
        let region = match SharedRegion::open(fd, len) {
            Ok(mut region) => {
                if is_stranger(channel.uid) {
                    region.discard_by(self.reapers.of(channel.uid));
                } else if is_own_user(channel.uid) {
                    region.leave_to_owner();
                }
                Arc::new(region)
            }
            // A want of memory here is no fault of the peer's: the token stays unknown.
            Err(IsmError::System { .. }) => return true,
            Err(_) => return false,
        };
        let since = Instant::now();
        let offer = Offer {
            region,
            ring,
            since,
        };
        channel.offers.unclaimed.push_back((token, offer));
        self.alarm.set_by(since + UNCLAIMED_FOR);
        self.limit_offers(key, since);
        true
    }

    /// Notes that a rendezvous over a channel has begun, in which the peer offers a DMB.
    pub(super) fn expect_offer(&mut self, key: Key) {
        if let Some(channel) = self.channels.at_mut(key) {
            channel.offers.expect(Instant::now());
        }
    }

    /// Unmaps what exceeds a bound behind a new offer over this channel.
    //= SHM-041
    fn limit_offers(&mut self, key: Key, now: Instant) {
        let Some(channel) = self.channels.at(key) else {
            return;
        };
        let (peer, uid) = (channel.owner(), channel.uid);
        if is_stranger(uid) {
            let of_peer = |at: &Channel| at.owner() == peer;
            let mut expected = 0;
            self.channels.for_each(|at| {
                if of_peer(at) {
                    expected += at.offers.expected(now);
                }
            });
            while self.unclaimed(of_peer) > expected + SPARE {
                self.drop_oldest(of_peer);
            }
            if self.unclaimed(|at| at.uid == uid) > OF_A_USER {
                self.drop_of_fullest(uid);
            }
        }
        if self.unclaimed(|_| true) > OF_ALL {
            let mut users = BTreeMap::<u32, usize>::new();
            for (_, at) in self.channels.iter() {
                *users.entry(at.uid).or_default() += at.offers.len();
            }
            let has_any = users.into_iter().filter(|(_, count)| *count > 0);
            // Strangers first; of these the one that has most.
            let fullest = has_any.max_by_key(|(uid, count)| (is_stranger(*uid), *count));
            if let Some((uid, _)) = fullest {
                self.drop_of_fullest(uid);
            }
        }
    }

    /// Unclaimed offers over these channels.
    pub(super) fn unclaimed(&self, over: impl Fn(&Channel) -> bool) -> usize {
        let channels = self.channels.iter().filter(|(_, at)| over(at));
        channels.map(|(_, at)| at.offers.len()).sum()
    }

    /// Unmaps the oldest unclaimed offer of these channels.
    fn drop_oldest(&mut self, of: impl Fn(&Channel) -> bool) {
        let channels = self.channels.iter().filter(|(_, at)| of(at));
        let aged = channels.filter_map(|(key, at)| Some((at.offers.oldest()?, key)));
        if let Some((_, key)) = aged.min()
            && let Some(channel) = self.channels.at_mut(key)
        {
            channel.offers.unclaimed.pop_front();
        }
    }

    /// Unmaps the oldest unclaimed offer of the channel that has most of a user's.
    fn drop_of_fullest(&mut self, uid: u32) {
        let channels = self.channels.iter().filter(|(_, at)| at.uid == uid);
        let fullest = channels.max_by_key(|(_, at)| at.offers.len());
        if let Some((key, _)) = fullest
            && let Some(channel) = self.channels.at_mut(key)
        {
            channel.offers.unclaimed.pop_front();
        }
    }
}
