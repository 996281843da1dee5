//! The memory file with the CLC messages of a channel in one direction.
//!
//! ```text
//!   number of announcements that wait │ slots in use │ a cookie for each slot │ calls │ mapped
//!   slots of clients' messages
//!   slots of servers' messages
//! ```
//!
//! All of it but the slots is the index. A slot has one writer, and one message at a time: its stamp, the
//! cookie of the writer's TCP socket, the length of the message and the message. The side that made the
//! file reads messages, the other side writes them. What the other side is to be notified of is not
//! done here.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering, fence};

use super::Clc;
use crate::device::IsmError;
use crate::memory::{Reaper, SharedRegion};

/// Connections of one role that can be made at a time over a channel.
pub(super) const SLOTS: usize = 256;
/// Bytes of a slot: three words, and a message.
const SLOT: usize = 512;
/// Longest message, in bytes.
pub(super) const MESSAGE: usize = SLOT - 24;
/// Bytes of the index.
const INDEX: usize = 4096;
/// Bytes of the file.
pub(in crate::shared) const LENGTH: u32 = (INDEX + 2 * SLOTS * SLOT) as u32;
/// Number of the message by which a server ends a handshake.
const DONE: u32 = u32::MAX;

/// Word of the index: how many announcements wait.
const WAITING: usize = 0;
/// Word of the index: how many of the first slots were used for announcements.
const USED: usize = 1;
/// First word of the index that has the cookie of a slot's announcement, or 0.
const COOKIES: usize = 2;
/// Word of the index: how often the writer has asked to be accepted.
const CALLS: usize = COOKIES + SLOTS;
/// Word of the index: 1 once the writer has mapped the file, so that it can answer.
const MAPPED: usize = CALLS + 1;

const _: () = assert!(8 * (MAPPED + 1) <= INDEX);

/// A message in a slot: of which handshake, and the number that it has there, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    handshake: u32,
    message: u32,
}

impl Stamp {
    pub(super) const fn new(handshake: u32, message: u32) -> Self {
        Self { handshake, message }
    }

    const fn word(self) -> u64 {
        (self.handshake as u64) << 32 | self.message as u64
    }

    const fn of(word: u64) -> Self {
        Self::new((word >> 32) as u32, word as u32)
    }
}

/// Which slot, and who writes to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) slot: usize,
    pub(super) from_client: bool,
}

impl Place {
    /// The slot with the client's message.
    pub(super) const fn of_client(slot: usize) -> Self {
        let from_client = true;
        Self { slot, from_client }
    }

    /// The slot with the server's message.
    pub(super) const fn of_server(slot: usize) -> Self {
        let from_client = false;
        Self { slot, from_client }
    }

    /// Offset in bytes: slots of messages that clients send come first.
    const fn offset(self) -> u32 {
        let index = match self.from_client {
            true => self.slot,
            false => SLOTS + self.slot,
        };
        (INDEX + index * SLOT) as u32
    }
}

/// A mapped file of messages.
#[derive(Debug)]
pub(super) struct MessageFile(SharedRegion);

impl MessageFile {
    /// Makes a file for the peer to write to, and the descriptor that gives it to the peer. `reaper`
    /// frees its pages if the peer is a stranger's.
    pub(super) fn create(reaper: Option<Reaper>) -> io::Result<(Self, OwnedFd)> {
        let (mut region, fd) = SharedRegion::create(LENGTH, false)?;
        reaper.into_iter().for_each(|by| region.discard_by(by));
        Ok((Self(region), fd))
    }

    /// Maps a file that a peer has made, and lets the peer know.
    ///
    /// # Errors
    /// The errors of [`SharedRegion::open`].
    pub(super) fn open(fd: &OwnedFd, reaper: Option<Reaper>) -> Result<Self, IsmError> {
        let mut region = SharedRegion::open(fd, LENGTH)?;
        reaper.into_iter().for_each(|by| region.discard_by(by));
        let file = Self(region);
        file.store(MAPPED, 1);
        Ok(file)
    }

    /// Frees all pages.
    //= SHM-051
    pub(super) fn discard(&self) {
        self.0.discard();
    }

    fn word(&self, at: usize) -> Option<&AtomicU64> {
        self.0.unit((8 * at) as u32).ok()
    }

    fn load(&self, word: usize) -> u64 {
        self.word(word)
            .map_or(0, |word| word.load(Ordering::Acquire))
    }

    fn store(&self, word: usize, value: u64) {
        if let Some(word) = self.word(word) {
            word.store(value, Ordering::Release);
        }
    }

    /// Whether the peer has mapped the file.
    pub(super) fn is_mapped(&self) -> bool {
        self.load(MAPPED) != 0
    }

    /// Writes a message, of the TCP socket with a cookie, of [`MESSAGE`] bytes at most.
    pub(super) fn write(&self, place: Place, stamp: Stamp, (cookie, bytes): (u64, &[u8])) {
        let (region, at) = (&self.0, place.offset());
        let (Ok(first), Ok(of_cookie), Ok(length)) =
            (region.unit(at), region.unit(at + 8), region.unit(at + 16))
        else {
            return;
        };
        first.store(0, Ordering::Relaxed);
        fence(Ordering::Release);
        of_cookie.store(cookie, Ordering::Relaxed);
        length.store(bytes.len() as u64, Ordering::Relaxed);
        // It fits, as callers have checked.
        let _ = region.copy_in(at + 24, bytes);
        first.store(stamp.word(), Ordering::Release);
    }

    /// The message in a slot, with its number, if it is of this handshake and newer than number `known`.
    pub(super) fn read(&self, place: Place, handshake: u32, known: u32) -> Option<(u32, Clc)> {
        let (region, at) = (&self.0, place.offset());
        let first = region.unit(at).ok()?;
        let word = first.load(Ordering::Acquire);
        let stamp = Stamp::of(word);
        if stamp.handshake != handshake || stamp.message <= known || stamp.message == DONE {
            return None;
        }
        let cookie = region.unit(at + 8).ok()?.load(Ordering::Relaxed);
        let length = region.unit(at + 16).ok()?.load(Ordering::Relaxed);
        let mut bytes = vec![0; usize::try_from(length).ok().filter(|len| *len <= MESSAGE)?];
        region.copy_out(at + 24, &mut bytes).ok()?;
        fence(Ordering::Acquire);
        // The peer may have written the next one meanwhile, which then comes with a ring.
        let is_same = first.load(Ordering::Relaxed) == word;
        is_same.then_some((stamp.message, Clc { cookie, bytes }))
    }

    /// Number of the handshake of which a slot has a message; 0 if it has none.
    pub(super) fn handshake(&self, place: Place) -> u32 {
        self.stamp(place).handshake
    }

    fn stamp(&self, place: Place) -> Stamp {
        let first = self.0.unit(place.offset());
        Stamp::of(first.map_or(0, |at| at.load(Ordering::Acquire)))
    }

    /// Ends a handshake that this side was the server of: its client may use the slot again.
    pub(super) fn end(&self, slot: usize, handshake: u32) {
        if let Ok(first) = self.0.unit(Place::of_server(slot).offset()) {
            first.store(Stamp::new(handshake, DONE).word(), Ordering::Release);
        }
    }

    /// Whether the server has ended a handshake.
    pub(super) fn is_ended(&self, slot: usize, handshake: u32) -> bool {
        self.stamp(Place::of_server(slot)) == Stamp::new(handshake, DONE)
    }

    /// Adds the announcement of a TCP socket to the index.
    pub(super) fn add(&self, slot: usize, cookie: u64) {
        self.store(COOKIES + slot, cookie);
        let used = self.load(USED);
        self.store(USED, used.max(slot as u64 + 1));
    }

    /// Removes an announcement from the index. Returns whether it was there, that is, the peer had not
    /// taken it.
    pub(super) fn remove(&self, slot: usize) -> bool {
        let entry = self.word(COOKIES + slot);
        entry.is_some_and(|entry| entry.swap(0, Ordering::AcqRel) != 0)
    }

    /// Writes how many announcements wait.
    pub(super) fn set_waiting(&self, count: u64) {
        self.store(WAITING, count);
    }

    /// Whether the peer has announced connections that wait.
    pub(super) fn has_announcements(&self) -> bool {
        self.load(WAITING) != 0
    }

    /// The slot in which the peer announced the TCP socket with this cookie.
    pub(super) fn find(&self, cookie: u64) -> Option<usize> {
        if !self.has_announcements() {
            return None;
        }
        let used = usize::try_from(self.load(USED)).unwrap_or(SLOTS).min(SLOTS);
        (0..used).find(|slot| self.load(COOKIES + slot) == cookie)
    }

    /// Takes the announcement of the TCP socket with this cookie out of the index, for this side to
    /// answer. Returns `false` if its client has given it up.
    //= SHM-066
    pub(super) fn take(&self, slot: usize, cookie: u64) -> bool {
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let entry = self.word(COOKIES + slot);
        entry.is_some_and(|at| at.compare_exchange(cookie, 0, success, failure).is_ok())
    }

    /// Asks the peer to accept.
    pub(super) fn call(&self) {
        self.store(CALLS, self.load(CALLS).wrapping_add(1));
    }

    /// How often the peer has asked to be accepted.
    pub(super) fn calls(&self) -> u64 {
        self.load(CALLS)
    }
}
