//! DMBs of a peer to which connections have written that have ended, until the peer takes
//! them back.
//!
//! ```text
//!   attached ── end, peer's last word not seen ──► unread:   all of it stays readable
//!            └─ end, peer's last word seen ──────► finished: the head stays readable
//!   unread, finished ── WITHDRAW, end of the peer ──► pages given back, unmapped
//! ```
//!
//! Pages that this side touched first are charged to its memory cgroup as long as the peer
//! keeps the file. Only this side's mapping can give them back, so it stays until then.

use std::collections::VecDeque;
use std::sync::Arc;

use super::channel::Channel;
use super::device::{Device, is_stranger};
use crate::device::{DmbToken, IsmError};
use crate::memory::{Reaper, SharedRegion};
use crate::slots::Key;

/// Bytes of DMBs that a user other than root and this process's own may keep unread.
pub(super) const UNREAD_OF_A_STRANGER: usize = 16 << 20;

/// What an unread DMB counts at least, as each is a mapping.
const AT_LEAST: usize = 256 << 10;

/// Last words of this side that are kept for a peer of such a user.
pub(super) const FINISHED_OF_A_STRANGER: usize = 16;

/// Last words of this side that are kept for a peer of another user.
const FINISHED: usize = 1024;

/// A DMB that is mapped, under the name that its owner gave it.
type Named = (DmbToken, Arc<SharedRegion>);

/// The DMBs of one peer whose connections have ended.
#[derive(Debug, Default)]
pub(super) struct Kept {
    unread: Vec<Named>,
    /// The oldest first.
    finished: VecDeque<Named>,
}

impl Kept {
    /// Takes a DMB that an attachment has let go of. With `finished` its owner reads nothing
    /// more but the head, of which at most `most` are kept.
    fn keep(&mut self, (token, region): Named, finished: bool, most: usize) {
        if self.unread.iter().any(|(_, of)| Arc::ptr_eq(of, &region)) {
            return;
        }
        if !finished {
            self.unread.push((token, region));
            return;
        }
        // Of several attachments the last decides.
        if Arc::strong_count(&region) > 1 {
            return;
        }
        region.discard_ring();
        self.finished.push_back((token, region));
        while self.finished.len() > most {
            self.finished
                .pop_front()
                .inspect(|(_, oldest)| oldest.discard());
        }
    }

    /// The peer took a DMB back.
    pub(super) fn discard(&mut self, token: DmbToken) {
        let keeps = |(of, region): &Named| {
            let other = *of != token;
            if !other {
                region.discard();
            }
            other
        };
        self.unread.retain(keeps);
        self.finished.retain(keeps);
    }

    /// What the unread DMBs count.
    pub(super) fn unread(&self) -> usize {
        let counts = self
            .unread
            .iter()
            .map(|(_, region)| region.len().max(AT_LEAST));
        counts.sum()
    }
}

/// The peer has gone. Another process may have got its files.
//= SHM-051
impl Drop for Kept {
    fn drop(&mut self) {
        let all = self.unread.iter().chain(&self.finished);
        all.for_each(|(_, region)| region.discard());
    }
}

impl Device {
    /// Keeps a DMB that was attached over a channel, as long as that lasts.
    //= SHM-051
    pub(super) fn keep(&mut self, channel: Key, dmb: Named, finished: bool) {
        if let Some(channel) = self.channels.at_mut(channel) {
            let most = if is_stranger(channel.uid) {
                FINISHED_OF_A_STRANGER
            } else {
                FINISHED
            };
            channel.kept.keep(dmb, finished, most);
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
