//! DMBs of a peer to which connections have written that have ended, until the peer takes
//! them back.
//!
//! ```text
//!   attached ── end, last message not seen ────► unread:   all of it stays readable
//!            └─ end, last message seen ────────► finished: the head stays readable
//!   finished ── named again by the peer ────────────► attached
//!   unread, finished ── WITHDRAW, end of the peer ──► pages given back, unmapped
//! ```
//!
//! A peer of this process's own user uses a DMB again for its next connection, for a second or
//! so. For that time its finished DMBs are kept however many there are, a few of them with all of
//! their pages. Pages of a stranger's DMB are taken out by a thread of its own, at some time: it is
//! not attached again.
//!
//! Pages that this side touched first are charged to its memory cgroup as long as the peer
//! keeps the file. Only this side's mapping can give them back, so it stays until then.
//!
//! A peer that is busy reads heads late, and one that ends many connections at once has many
//! to read: each stays for [`TIME_TO_READ`] at least, and beyond that a few do.

use std::collections::VecDeque;
use std::ops::RangeFrom;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::channel::Channel;
use super::device::{Device, is_own_user, is_stranger};
use crate::device::{DmbToken, IsmError};
use crate::doorbell::Ring;
use crate::memory::{Reaper, SharedRegion};
use crate::slots::Key;

/// Bytes of DMBs that a user other than root and this process's own may keep unread.
pub(super) const UNREAD_OF_A_STRANGER: usize = 16 << 20;

/// What an unread DMB counts at least, as each is a mapping.
const AT_LEAST: usize = 256 << 10;

/// Heads of finished DMBs that are kept without a time limit for a peer of such a user.
pub(super) const FINISHED_OF_A_STRANGER: usize = 16;

/// How long further heads are kept for such a peer, which is to read this side's last CDC
/// message there: much longer than a peer takes that runs at all.
pub(super) const TIME_TO_READ: Duration = Duration::from_secs(10);

/// Heads of finished DMBs that are kept for all peers of one such user, at any time.
pub(super) const FINISHED_OF_A_USER: usize = 1024;

/// Heads of finished DMBs that are kept for a peer of root or of this process's own user longer
/// than [`WHOLE_FOR`].
pub(super) const FINISHED: usize = 1024;

/// How long a finished DMB is kept in any case, with all of its pages if few are, for the peer's
/// next connection: longer than the peer's engine keeps it spare.
pub(super) const WHOLE_FOR: Duration = Duration::from_millis(1500);

/// Bytes of the finished DMBs of one peer that keep all of their pages.
pub(super) const WHOLE: usize = 8 << 20;

/// A DMB that is mapped, under the name that its owner gave it, and where it is rung for.
#[derive(Debug)]
pub(super) struct Named {
    pub(super) token: DmbToken,
    pub(super) region: Arc<SharedRegion>,
    pub(super) ring: Ring,
}

/// A DMB of which nothing but the head is read.
#[derive(Debug)]
struct Finished {
    /// When its connection ended.
    since: Instant,
    dmb: Named,
    /// All of its pages are there still.
    is_whole: bool,
}

impl Finished {
    /// Gives all pages back but that of the head.
    fn cut(&mut self) {
        if std::mem::take(&mut self.is_whole) {
            self.dmb.region.discard_ring();
        }
    }
}

/// The DMBs of one peer whose connections have ended.
#[derive(Debug, Default)]
pub(super) struct Kept {
    unread: Vec<Named>,
    /// The oldest first.
    finished: VecDeque<Finished>,
}

impl Kept {
    /// Takes a DMB that an attachment has let go of. With `finished` its owner reads nothing
    /// more but the head. With `reusable` its owner may use it again.
    fn keep(&mut self, dmb: Named, finished: bool, reusable: bool, now: Instant) {
        let is_it = |of: &Named| Arc::ptr_eq(&of.region, &dmb.region);
        if self.unread.iter().any(is_it) {
            return;
        }
        if !finished {
            self.unread.push(dmb);
            return;
        }
        // Of several attachments the last decides.
        if Arc::strong_count(&dmb.region) > 1 {
            return;
        }
        let since = now;
        self.finished.push_back(Finished {
            since,
            dmb,
            is_whole: true,
        });
        let most = if reusable { WHOLE } else { 0 };
        self.cut_beyond(most);
    }

    /// Gives pages back of the oldest DMBs, until those that have all of theirs are no longer
    /// than this together.
    fn cut_beyond(&mut self, most: usize) {
        let whole = self.whole();
        let lengths = self.finished.range(whole.clone());
        let mut bytes: usize = lengths.map(|at| at.dmb.region.len()).sum();
        for at in self.finished.range_mut(whole) {
            if bytes <= most {
                return;
            }
            bytes -= at.dmb.region.len();
            at.cut();
        }
    }

    /// The DMBs that have all of their pages: the newest, as the oldest are cut first.
    fn whole(&self) -> RangeFrom<usize> {
        let newest_first = self.finished.iter().rev();
        let count = newest_first.take_while(|at| at.is_whole).count();
        self.finished.len() - count..
    }

    /// Gives pages back of DMBs that were not used again in time; when the next one is due.
    fn cut_old(&mut self, now: Instant) -> Option<Instant> {
        let whole = self.whole();
        for at in self.finished.range_mut(whole) {
            let until = at.since + WHOLE_FOR;
            if now < until {
                return Some(until);
            }
            at.cut();
        }
        None
    }

    /// Takes a finished DMB out that its owner has named again.
    pub(super) fn take(&mut self, token: DmbToken) -> Option<Named> {
        let mut newest_first = self.finished.iter().rev();
        let behind = newest_first.position(|at| at.dmb.token == token)?;
        let at = self.finished.len() - 1 - behind;
        self.finished.remove(at).map(|at| at.dmb)
    }

    /// Length of a finished DMB that can be attached again, in bytes.
    pub(super) fn len_of(&self, token: DmbToken) -> Option<usize> {
        let mut newest_first = self.finished.iter().rev();
        let found = newest_first.find(|at| at.dmb.token == token);
        // The process may have been of another user when it mapped it.
        let usable = found.filter(|at| !at.dmb.region.has_reaper());
        usable.map(|at| at.dmb.region.len())
    }

    /// Gives the head up that has been kept longest.
    fn drop_oldest(&mut self) {
        let oldest = self.finished.pop_front();
        oldest.inspect(|at| at.dmb.region.discard());
    }

    /// Gives up what exceeds `most` heads and has been kept for a time; when more is to be
    /// given up, if anything is.
    fn expire(&mut self, most: usize, time: Duration, now: Instant) -> Option<Instant> {
        let cut = self.cut_old(now);
        while self.finished.len() > most {
            let until = self.finished.front().map(|at| at.since + time);
            if until.is_some_and(|until| now < until) {
                return until.into_iter().chain(cut).min();
            }
            self.drop_oldest();
        }
        cut
    }

    /// The peer took a DMB back.
    pub(super) fn discard(&mut self, token: DmbToken) {
        let is_it = |of: &Named| of.token == token;
        for dmb in self.unread.extract_if(.., |at| is_it(at)) {
            dmb.region.discard();
        }
        // Most often it is one of the first, which is removed at no cost.
        while let Some(at) = self.finished.iter().position(|at| is_it(&at.dmb)) {
            let removed = self.finished.remove(at);
            removed.inspect(|at| at.dmb.region.discard());
        }
    }

    /// DMBs of which the head is kept.
    #[cfg(test)]
    pub(super) fn finished(&self) -> usize {
        self.finished.len()
    }

    /// What the unread DMBs count.
    pub(super) fn unread(&self) -> usize {
        let counts = self.unread.iter().map(|at| at.region.len().max(AT_LEAST));
        counts.sum()
    }
}

/// The peer has gone. Another process may have got its files.
//= SHM-051
impl Drop for Kept {
    fn drop(&mut self) {
        let finished = self.finished.iter().map(|at| &at.dmb);
        let all = self.unread.iter().chain(finished);
        all.for_each(|dmb| dmb.region.discard());
    }
}

impl Device {
    /// Keeps a DMB that was attached over a channel, as long as that lasts.
    //= SHM-051
    pub(super) fn keep(&mut self, key: Key, dmb: Named, finished: bool) {
        let now = Instant::now();
        if let Some(channel) = self.channels.at_mut(key) {
            let uid = channel.uid;
            channel.kept.keep(dmb, finished, is_own_user(uid), now);
            if is_stranger(uid) && channel.kept.finished.len() > FINISHED_OF_A_STRANGER {
                self.limit_finished(uid);
            }
            self.expire_finished(key, now);
        }
    }

    /// Gives heads up that a peer has had the time to read.
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
        if let Some(at) = channel.kept.expire(most, time, now) {
            self.alarm.set_by(at);
        }
    }

    /// Gives up what exceeds the heads that are kept for one user: of the channel that has
    /// most, the oldest.
    //= SHM-051
    fn limit_finished(&mut self, uid: u32) {
        let of_user = self.channels.iter().filter(|(_, at)| at.uid == uid);
        let counts = of_user.map(|(key, at)| (at.kept.finished.len(), key));
        let counts: Vec<_> = counts.collect();
        if counts.iter().map(|(count, _)| count).sum::<usize>() <= FINISHED_OF_A_USER {
            return;
        }
        if let Some((_, fullest)) = counts.into_iter().max()
            && let Some(channel) = self.channels.at_mut(fullest)
        {
            channel.kept.drop_oldest();
        }
    }

    /// What gives pages of files back that a channel's peer has, if its user is neither root
    /// nor this process's own.
    ///
    /// # Errors
    /// [`IsmError::Exhausted`] if that is held up, as such a user can bring about.
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

    /// Whether the user of a channel's peer may have further memory of this side's: what it
    /// keeps of connections that have ended is charged to this process.
    ///
    /// # Errors
    /// [`IsmError::Exhausted`].
    //= SHM-053
    pub(super) fn check_unread(&self, channel: Key) -> Result<(), IsmError> {
        let stranger = self.channels.at(channel).map(|channel| channel.uid);
        let Some(uid) = stranger.filter(|uid| is_stranger(*uid)) else {
            return Ok(());
        };
        if self.reapers.of(uid).is_behind() {
            return Err(IsmError::Exhausted);
        }
        let of_user = self.channels.iter().filter(|(_, at)| at.uid == uid);
        let unread = |of: (Key, &Channel)| of.1.kept.unread();
        if of_user.map(unread).sum::<usize>() >= UNREAD_OF_A_STRANGER {
            return Err(IsmError::Exhausted);
        }
        Ok(())
    }
}
