//! Mappings of a peer's DMBs that are kept after the connection has ended, until the peer
//! withdraws the DMB or ends itself.
//!
//! ```text
//!   attached ── end, peer has not read everything ──► unread:   all pages stay
//!            └─ end, peer has read everything ──────► finished: the page of the head stays
//!   finished ── announced again by the peer ────────► attached
//!   unread, finished ── WITHDRAW, end of the peer ──► pages freed, unmapped
//!   unread, finished ── end of this device ─────────► unmapped; of finished ones the rings are freed
//! ```
//!
//! A mapping is kept for three reasons:
//!
//! - The peer may not have read what this side has written. Of a finished DMB that is the CDC
//!   message at the head. A busy peer reads late, so each head stays for [`TIME_TO_READ`] at
//!   least; a few stay longer.
//! - Pages that this side has touched first are charged to its memory cgroup as long as the peer
//!   keeps the file. Only a mapping of this side can free them.
//! - The peer uses a DMB again for its next connection. Its finished DMBs are kept for
//!   [`WHOLE_FOR`], a few of them with all pages, so that attaching again costs nothing. Of a
//!   stranger, that is a user other than root and this process's own, a thread frees the pages;
//!   while it does so, an attachment of the DMB is [busy](IsmError::Busy).

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::device::{Device, is_stranger};
use crate::device::{DmbToken, IsmError};
use crate::doorbell::Ring;
use crate::memory::{Reaper, SharedRegion};
use crate::slots::Key;

/// Most bytes of unread DMBs of one stranger. It gets no further memory of this side beyond that.
pub(super) const UNREAD_OF_A_STRANGER: usize = 16 << 20;

/// Bytes that an unread DMB counts at least, since each one costs a mapping.
const AT_LEAST: usize = 256 << 10;

/// Heads of finished DMBs that are kept without a time limit for a peer of a stranger.
pub(super) const FINISHED_OF_A_STRANGER: usize = 16;

/// How long further heads are kept for a peer of a stranger, which has to read the last CDC message
/// there. Every peer that runs is much faster.
pub(super) const TIME_TO_READ: Duration = Duration::from_secs(10);

/// Most heads of finished DMBs that are kept longer than [`WHOLE_FOR`], for all peers of one stranger
/// together.
pub(super) const FINISHED_OF_A_USER: usize = 1024;

/// Most heads of finished DMBs that are kept for all peers of one stranger together.
pub(super) const NEWLY_FINISHED_OF_A_USER: usize = 4096;

/// Most heads of finished DMBs that are kept longer than [`WHOLE_FOR`], for a peer of root or of
/// this process's own user.
pub(super) const FINISHED: usize = 1024;

/// How long a finished DMB is kept in any case, for the peer's next connection. Longer than the peer's
/// engine keeps the DMB for that.
pub(super) const WHOLE_FOR: Duration = Duration::from_millis(1500);

/// How long an attachment waits for a thread that takes pages out of the DMB, which takes less than a
/// millisecond unless the peer locks the file or the machine is busy.
pub(super) const BUSY_FOR: Duration = Duration::from_millis(200);

/// Most finished DMBs that are given up at a time for [`FINISHED_OF_A_USER`].
const GIVEN_UP: usize = 16;

/// Pause before more are.
const PAUSE: Duration = Duration::from_millis(10);

/// Most bytes that this side has written to the finished DMBs of one peer that keep all pages. A
/// peer keeps far fewer for its next connections, and withdraws the others at once, pages and all:
/// to free those pages here would be done twice.
pub(super) const WHOLE: usize = 64 << 20;

/// Most finished DMBs of one peer that keep all pages.
pub(super) const MOST_WHOLE: usize = 512;

/// Most bytes that this side has written to the finished DMBs of all peers of one stranger that
/// keep all pages.
pub(super) const WHOLE_OF_A_STRANGER: usize = 16 << 20;

/// A mapped DMB of a peer.
#[derive(Debug)]
pub(super) struct Named {
    /// Token by which its owner has announced it.
    pub(super) token: DmbToken,
    pub(super) region: Arc<SharedRegion>,
    /// Doorbell that is rung for it.
    pub(super) ring: Ring,
}

/// A finished DMB: its owner reads nothing more but perhaps the head.
#[derive(Debug)]
struct Finished {
    /// When its connection ended.
    since: Instant,
    dmb: Named,
    /// Bytes that this side has written to it, if it has all pages still and not the head's alone.
    whole: Option<usize>,
    /// Since when attaching it has been [busy](IsmError::Busy).
    busy_since: Option<Instant>,
}

impl Finished {
    /// Frees all pages but the head's. Returns how many bytes no longer count as written.
    fn free_ring(&mut self) -> usize {
        let written = self.whole.take();
        if written.is_some() {
            self.dmb.region.discard_ring();
        }
        written.unwrap_or(0)
    }
}

/// Kept DMBs of one peer. Dropping them leaves to the peer what it may still read.
#[derive(Debug, Default)]
pub(super) struct Kept {
    unread: Vec<Named>,
    /// The oldest first. Those with all pages are the newest.
    finished: VecDeque<Finished>,
    /// Number of the finished DMBs that have all pages.
    whole: usize,
    /// Bytes that this side has written to these.
    written: usize,
}

impl Kept {
    /// Keeps a DMB that an attachment no longer uses. `finished`: its owner reads nothing more but
    /// the head, and may announce it again.
    fn keep(&mut self, dmb: Named, finished: bool, now: Instant) {
        let is_same_memory = |of: &Named| Arc::ptr_eq(&of.region, &dmb.region);
        if self.unread.iter().any(is_same_memory) {
            return;
        }
        if !finished {
            self.unread.push(dmb);
            return;
        }
        // The memory is attached elsewhere, too: the last attachment keeps it.
        if Arc::strong_count(&dmb.region) > 1 {
            return;
        }
        let written = dmb.region.written();
        self.whole += 1;
        self.written += written;
        self.finished.push_back(Finished {
            since: now,
            dmb,
            whole: Some(written),
            busy_since: None,
        });
        while self.whole > 0 && (self.whole > MOST_WHOLE || self.written > WHOLE) {
            self.free_oldest_ring();
        }
    }

    /// The oldest of the finished DMBs that have all pages.
    fn oldest_whole(&self) -> Option<&Finished> {
        let place = self.finished.len().checked_sub(self.whole)?;
        self.finished.get(place)
    }

    /// Frees pages of the oldest DMB that has all of them.
    fn free_oldest_ring(&mut self) {
        let place = self.finished.len().saturating_sub(self.whole);
        self.whole = self.whole.saturating_sub(1);
        if let Some(finished) = self.finished.get_mut(place) {
            self.written = self.written.saturating_sub(finished.free_ring());
        }
    }

    /// Takes out a finished DMB.
    fn remove(&mut self, place: usize) -> Option<Named> {
        let finished = self.finished.remove(place)?;
        if let Some(written) = finished.whole {
            self.whole = self.whole.saturating_sub(1);
            self.written = self.written.saturating_sub(written);
        }
        Some(finished.dmb)
    }

    /// Frees pages of DMBs that were not announced again within [`WHOLE_FOR`]. Returns when the
    /// next one is due.
    fn expire_whole(&mut self, now: Instant) -> Option<Instant> {
        while let Some(oldest) = self.oldest_whole() {
            let until = oldest.since + WHOLE_FOR;
            if now < until {
                return Some(until);
            }
            self.free_oldest_ring();
        }
        None
    }

    /// Place of the newest finished DMB with this token.
    pub(super) fn find(&self, token: DmbToken) -> Option<usize> {
        let is_it = |finished: &Finished| finished.dmb.token == token;
        self.finished.iter().rposition(is_it)
    }

    /// Takes out the finished DMB at a place, to attach it again.
    ///
    /// # Errors
    /// [`IsmError::Length`] if it is shorter than `len`; [`IsmError::Busy`] if a thread takes
    /// pages out of it at the moment, and [`IsmError::Exhausted`] once that takes longer than
    /// [`BUSY_FOR`]. It stays there.
    //= SHM-057
    pub(super) fn take(&mut self, place: usize, len: u32, now: Instant) -> Result<Named, IsmError> {
        let finished = self.finished.get_mut(place).ok_or(IsmError::Token)?;
        if len as usize > finished.dmb.region.len() {
            return Err(IsmError::Length);
        }
        if !finished.dmb.region.keep_ring() {
            // A stranger can keep its file locked as long as it likes.
            let since = *finished.busy_since.get_or_insert(now);
            return Err(match now.duration_since(since) < BUSY_FOR {
                true => IsmError::Busy,
                false => IsmError::Exhausted,
            });
        }
        self.remove(place).ok_or(IsmError::Token)
    }

    /// Frees the finished DMB that has been kept longest.
    fn drop_oldest(&mut self) {
        self.remove(0).inspect(|dmb| dmb.region.discard());
    }

    /// Frees finished DMBs that have been kept for `time`, down to `most`, and pages of those that
    /// were not used again. Returns when to call again, if anything will be due.
    fn expire(&mut self, most: usize, time: Duration, now: Instant) -> Option<Instant> {
        let next_whole = self.expire_whole(now);
        while self.finished.len() > most {
            let until = self.finished.front().map(|oldest| oldest.since + time);
            if until.is_some_and(|until| now < until) {
                return until.into_iter().chain(next_whole).min();
            }
            self.drop_oldest();
        }
        next_whole
    }

    /// Frees a DMB that the peer has withdrawn.
    pub(super) fn discard(&mut self, token: DmbToken) {
        for dmb in self.unread.extract_if(.., |dmb| dmb.token == token) {
            dmb.region.discard_withdrawn();
        }
        // Peers withdraw the oldest first, most often: removing that moves no others.
        let is_it = |finished: &Finished| finished.dmb.token == token;
        while let Some(place) = self.finished.iter().position(is_it) {
            self.remove(place)
                .inspect(|dmb| dmb.region.discard_withdrawn());
        }
    }

    /// Frees the pages of all DMBs: the peer has ended. Another process may still have its files,
    /// and their charge.
    //= SHM-051
    pub(super) fn discard_all(&mut self) {
        (self.whole, self.written) = (0, 0);
        let finished = self.finished.drain(..).map(|finished| finished.dmb);
        let all = self.unread.drain(..).chain(finished);
        all.for_each(|dmb| dmb.region.discard());
    }

    /// Number of finished DMBs.
    #[cfg(test)]
    pub(super) fn finished(&self) -> usize {
        self.finished.len()
    }

    /// Bytes that the unread DMBs count.
    pub(super) fn unread(&self) -> usize {
        let counts = self.unread.iter().map(|dmb| dmb.region.len().max(AT_LEAST));
        counts.sum()
    }
}

/// The device ends before the peer, which may read what was not read yet as late as it likes.
//= SHM-051
//= SHM-053
impl Drop for Kept {
    fn drop(&mut self) {
        for finished in &mut self.finished {
            finished.free_ring();
        }
    }
}

impl Device {
    /// Keeps a DMB that was attached over a channel until the peer withdraws it, or the channel
    /// ends. `finished`: the peer reads nothing more of it but the head.
    //= SHM-051
    pub(super) fn keep(&mut self, key: Key, dmb: Named, finished: bool) {
        let now = Instant::now();
        if let Some(channel) = self.channels.at_mut(key) {
            let uid = channel.uid;
            channel.kept.keep(dmb, finished, now);
            if is_stranger(uid) && finished {
                self.limit_whole(uid);
            }
            self.expire_finished(key, now);
        }
    }

    /// Frees finished DMBs that a peer has had the time to read or use again, and sets the alarm for
    /// the next ones.
    //= SHM-051
    pub(super) fn expire_finished(&mut self, key: Key, now: Instant) {
        let Some(channel) = self.channels.at_mut(key) else {
            return;
        };
        let (most, time) = if is_stranger(channel.uid) {
            (FINISHED_OF_A_STRANGER, TIME_TO_READ)
        } else {
            (FINISHED, WHOLE_FOR)
        };
        let uid = channel.uid;
        if let Some(at) = channel.kept.expire(most, time, now) {
            self.alarm.set_by(at);
        }
        if is_stranger(uid) {
            self.limit_finished(uid, now);
        }
    }

    /// Frees pages of finished DMBs of the channel that has most of them, as long as those of a
    /// user, over all its channels, have more than [`WHOLE_OF_A_STRANGER`].
    //= SHM-051
    fn limit_whole(&mut self, uid: u32) {
        while self.sum_of(uid, |kept| kept.written) > WHOLE_OF_A_STRANGER {
            match self.fullest_of(uid, |kept| kept.written) {
                Some(fullest) if fullest.whole > 0 => fullest.free_oldest_ring(),
                _ => return,
            }
        }
    }

    /// Frees the oldest finished DMBs of a user's channels with the most, [`GIVEN_UP`] at a time, as
    /// long as the user has more than [`FINISHED_OF_A_USER`] over all channels. Those that the peer
    /// may still announce again are freed beyond [`NEWLY_FINISHED_OF_A_USER`] only.
    //= SHM-051
    fn limit_finished(&mut self, uid: u32, now: Instant) {
        let count = |kept: &Kept| kept.finished.len();
        for _ in 0..GIVEN_UP {
            let sum = self.sum_of(uid, count);
            if sum <= FINISHED_OF_A_USER {
                return;
            }
            let is_due = |kept: &Kept| {
                let oldest = kept.finished.front();
                oldest.is_some_and(|oldest| oldest.since + WHOLE_FOR <= now)
            };
            let of_due = |kept: &Kept| if is_due(kept) { count(kept) } else { 0 };
            let fullest = match sum > NEWLY_FINISHED_OF_A_USER {
                true => self.fullest_of(uid, count),
                false => self.fullest_of(uid, of_due).filter(|kept| is_due(kept)),
            };
            match fullest {
                Some(fullest) => fullest.drop_oldest(),
                None => break,
            }
        }
        self.alarm.set_by(now + PAUSE);
    }

    /// Sum of what `count` counts of the kept DMBs of a user's channels.
    fn sum_of(&self, uid: u32, count: impl Fn(&Kept) -> usize) -> usize {
        let channels = self.channels.iter();
        let of_user = channels.filter(|(_, channel)| channel.uid == uid);
        of_user.map(|(_, channel)| count(&channel.kept)).sum()
    }

    /// Kept DMBs of that channel of a user for which `count` is greatest.
    fn fullest_of(&mut self, uid: u32, count: impl Fn(&Kept) -> usize) -> Option<&mut Kept> {
        let channels = self.channels.iter();
        let of_user = channels.filter(|(_, channel)| channel.uid == uid);
        let (fullest, _) = of_user.max_by_key(|(_, channel)| count(&channel.kept))?;
        self.channels
            .at_mut(fullest)
            .map(|channel| &mut channel.kept)
    }

    /// The thread that frees pages of a peer's files, if the peer is a stranger's. Freeing could
    /// block this thread as long as the stranger wants.
    ///
    /// # Errors
    /// [`IsmError::Exhausted`] if that thread is blocked.
    //= SHM-056
    pub(super) fn reaper_toward(&self, channel: Key) -> Result<Option<Reaper>, IsmError> {
        let uid = self.channels.at(channel).map(|channel| channel.uid);
        let Some(uid) = uid.filter(|uid| is_stranger(*uid)) else {
            return Ok(None);
        };
        let reaper = self.reapers.of(uid);
        if reaper.is_behind() {
            return Err(IsmError::Exhausted);
        }
        Ok(Some(reaper))
    }

    /// Checks that a channel's peer may have further memory of this side. What it keeps unread of
    /// ended connections is charged to this process.
    ///
    /// # Errors
    /// [`IsmError::Exhausted`] if the peer's user is a stranger with too much unread memory, or
    /// whose pages cannot be freed at the moment.
    //= SHM-053
    pub(super) fn check_unread(&self, channel: Key) -> Result<(), IsmError> {
        let stranger = self.channels.at(channel).map(|channel| channel.uid);
        let Some(uid) = stranger.filter(|uid| is_stranger(*uid)) else {
            return Ok(());
        };
        if self.reapers.of(uid).is_behind()
            || self.sum_of(uid, Kept::unread) >= UNREAD_OF_A_STRANGER
        {
            return Err(IsmError::Exhausted);
        }
        Ok(())
    }
}
