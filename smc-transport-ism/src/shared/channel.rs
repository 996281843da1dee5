//! A channel to one peer device in another process: a Unix socket for DMBs offered and withdrawn,
//! events and wakes, and doorbells in shared memory for signals of CDC messages. The wire format
//! of the socket is in [`super::message`], the rules are SHM-020 to SHM-028 and SHM-070 to
//! SHM-072 of `docs/shared-memory.md`.
//!
//! The [`super::device`] owns its channels and is the only caller, besides the pairing that makes
//! them. Nothing here blocks but [`Begun::finish`].

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use super::handshakes::Handshakes;
use super::kept::Kept;
use super::message::Message;
use super::offers::Offers;
use super::outbox::Outbox;
use super::pairing::Peer;
use super::socket::{Received, Socket};
use crate::device::{DmbToken, Gid128, IsmError};
use crate::doorbell::{FIRST_PAGE, Listener, ParkTarget, Ring, SLOTS, Waker, pages_for};
use crate::memory::{DoorbellPage, PagesOf};
use crate::slots::{Key, Slots};

/// A channel of which this side has sent its first message.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) socket: Socket,
    ours: DoorbellPage,
}

impl Begun {
    /// Creates this side's doorbells, and sends them in the first message, with this side's GID.
    ///
    /// # Errors
    /// The errors of creating the memory and of sending.
    pub(super) fn begin(socket: Socket, gid: Gid128) -> io::Result<Self> {
        let (ours, fd) = DoorbellPage::create()?;
        socket.set_window()?;
        socket.send(Message::Hello { gid }, Some(fd.as_fd()))?;
        Ok(Self { socket, ours })
    }

    /// Receives the peer's first message if it has arrived; does not wait.
    ///
    /// # Errors
    /// [`NotMade`] returns this side's half of the channel, or the socket.
    pub(super) fn poll(self) -> Result<Channel, NotMade> {
        match self.socket.receive() {
            Received::Message(Message::Hello { gid }, Some(fd)) => self
                .complete(gid, &fd)
                .map_err(|(_, socket)| NotMade::Never(socket)),
            Received::Nothing => Err(NotMade::Yet(self)),
            Received::Message(..) | Received::Stripped(_) | Received::Malformed | Received::End => {
                Err(NotMade::Never(self.socket))
            }
        }
    }

    /// Waits for the peer's first message, at most until `deadline`.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidData`] if the peer sent anything else; else the error of receiving.
    pub(super) fn finish(self, deadline: Instant) -> io::Result<Channel> {
        match self.socket.receive_by(deadline)? {
            (Message::Hello { gid }, Some(fd)) => {
                self.complete(gid, &fd).map_err(|(error, _)| error)
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Maps the peer's doorbells.
    fn complete(self, gid: Gid128, fd: &OwnedFd) -> Result<Channel, (io::Error, Socket)> {
        let uid = match crate::sys::peer_uid(&self.socket) {
            Ok(uid) => uid,
            Err(error) => return Err((error, self.socket)),
        };
        let theirs = match DoorbellPage::open(fd) {
            Ok(theirs) => Arc::new(theirs),
            Err(error) => {
                let error = io::Error::new(io::ErrorKind::InvalidData, error);
                return Err((error, self.socket));
            }
        };
        Ok(Channel {
            uid,
            socket: self.socket,
            peer: gid,
            ours: self.ours,
            theirs,
            at_futex_word: false,
            listener: Listener::new(),
            our_pages: PagesOf::default(),
            their_pages: PagesOf::default(),
            dmbs: Slots::new(SLOTS),
            attached: 0,
            most_attached: 0,
            rung_below: 0,
            rung_without_page: false,
            #[cfg(test)]
            lose_page: false,
            waker: Waker::default(),
            outbox: Outbox::new(),
            awaits_room: false,
            offers: Offers::default(),
            kept: Kept::default(),
            handshakes: Handshakes::default(),
            ended: None,
        })
    }
}

/// Why [`Begun::poll`] returned no channel.
pub(super) enum NotMade {
    /// The peer's first message has not arrived yet.
    Yet(Begun),
    /// The peer broke the rules of the channel or has gone.
    Never(Socket),
}

impl AsFd for Channel {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

impl AsFd for Begun {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// A channel to one peer.
#[derive(Debug)]
pub(super) struct Channel {
    pub(super) socket: Socket,
    pub(super) peer: Gid128,
    /// User ID of the peer's process when the channel was made.
    pub(super) uid: u32,
    ours: DoorbellPage,
    theirs: Arc<DoorbellPage>,
    /// Whether a thread of this side waits at the peer's futex word when this side is parked,
    /// instead of at the socket.
    pub(super) at_futex_word: bool,
    listener: Listener,
    /// Further pages of this side's doorbells.
    our_pages: PagesOf,
    /// Further pages of the peer's doorbells.
    their_pages: PagesOf,
    /// This side's DMBs for the peer, by the slots at which the peer rings for them.
    dmbs: Slots<Key>,
    /// Number of present attachments of DMBs that the peer offered over this channel.
    pub(super) attached: u32,
    /// Highest value that `attached` has had.
    most_attached: u32,
    /// One more than the highest slot of a DMB of the peer that was ever attached.
    rung_below: u32,
    /// Whether this side has rung at a slot for which it had no page.
    rung_without_page: bool,
    /// Makes the next page of the peer count as lost.
    #[cfg(test)]
    lose_page: bool,
    waker: Waker,
    /// Messages that wait for room in the socket.
    pub(super) outbox: Outbox,
    /// Whether the device's epoll waits for room in the socket.
    pub(super) awaits_room: bool,
    pub(super) offers: Offers,
    pub(super) kept: Kept,
    pub(super) handshakes: Handshakes,
    /// Number of readable events of the device when the end was first seen.
    pub(super) ended: Option<u32>,
}

/// Result of [`Channel::receive`].
pub(super) enum Arrival {
    /// The peer offers a DMB, which is not mapped yet.
    Offer {
        token: DmbToken,
        len: u32,
        ring: Ring,
        fd: OwnedFd,
    },
    /// The peer sends the file for this side's CLC messages, which is not mapped yet.
    Handshakes { ring: Ring, fd: OwnedFd },
    /// The peer withdrew a DMB.
    Withdrawn(DmbToken),
    /// The peer signalled an event.
    Event { code: u32, info: u64 },
    /// A message was processed that the device need not know of.
    Inner,
    /// The peer rang while this side was parked.
    Wake,
    /// No message has arrived.
    Nothing,
    /// The peer has gone.
    End,
    /// The peer broke the rules of this channel.
    Breach,
}

impl Channel {
    /// Number of this side's DMBs for the peer.
    pub(super) fn dmbs(&self) -> usize {
        self.dmbs.len()
    }

    /// Assigns a free slot to one of this side's DMBs for the peer; `None` if all are used.
    pub(super) fn take_slot(&mut self, dmb: Key) -> Option<Key> {
        self.dmbs.insert_with(|_| dmb)
    }

    /// Offers the peer a DMB at its slot; the caller has checked [`Outbox::check_room`]. The
    /// outbox reports the outcome.
    pub(super) fn offer(&mut self, (dmb, at): (Key, Key), token: DmbToken, len: u32, fd: OwnedFd) {
        let Ring { slot, generation } = Ring::new(at.0, at.1);
        let message = Message::Offer {
            token,
            len,
            slot,
            generation,
        };
        self.outbox.push(message, Some((dmb, fd)));
        self.outbox.flush(&self.socket);
    }

    /// Frees the slot of a DMB that was not sent to the peer, or was withdrawn.
    pub(super) fn free_slot(&mut self, slot: Key) {
        self.dmbs.remove(slot);
    }

    /// Counts an attachment of a DMB of the peer, at whose slot this side rings.
    pub(super) fn attach(&mut self, ring: Ring) {
        self.attached += 1;
        self.most_attached = self.most_attached.max(self.attached);
        self.rung_below = self.rung_below.max(ring.slot.saturating_add(1));
    }

    /// Whether this side should make its next page of doorbells: attached DMBs have slots there,
    /// the page before was sent, and the outbox has room. Pages are limited to twice as many slots
    /// as there were attachments at a time, since the peer chooses the slots.
    pub(super) fn wants_page(&self) -> bool {
        let slots = self.rung_below.min(self.most_attached.saturating_mul(2));
        self.our_pages.len() < pages_for(slots)
            && !self.outbox.has_page()
            && self.outbox.check_room(Instant::now()).is_ok()
    }

    /// Makes the next page of this side's doorbells and sends it. Returns whether it was sent at
    /// once. Without the page, rings at its slots still arrive, but cost the peer more work.
    //= SHM-070
    pub(super) fn add_page(&mut self) -> bool {
        let at = self.our_pages.len() as u32;
        let Ok(fd) = self.our_pages.create() else {
            return false;
        };
        self.outbox.push_page((at, self.rung_without_page), fd);
        self.outbox.flush(&self.socket);
        self.drop_lost_page();
        self.our_pages.len() > at as usize && !self.outbox.has_page()
    }

    /// Removes the last page of this side's doorbells if it could not be sent.
    pub(super) fn drop_lost_page(&mut self) {
        if self.outbox.take_lost_page() {
            self.our_pages.take_back();
            // The leaves of the rings in the page are lost with it.
            self.rung_without_page = true;
        }
    }

    /// Maps a further page of the peer's doorbells. If this process cannot map it, the page counts
    /// as lost. Returns `false` if the peer may not send the page or its file breaks the rules: the
    /// number must be the next one, and the peer must have been offered a DMB with a slot in it.
    //= SHM-072
    fn take_page(&mut self, (at, rung): (u32, bool), fd: Option<&OwnedFd>) -> bool {
        #[cfg(test)]
        let fd = fd.filter(|_| !std::mem::take(&mut self.lose_page));
        let count = self.their_pages.len();
        let slots = self.dmbs.used();
        if usize::try_from(at) != Ok(count) || count >= pages_for(slots) {
            return false;
        }
        let is_valid = self.their_pages.open(fd).is_ok();
        if rung {
            self.listener
                .add_rung_page(self.theirs.doorbells(), count, slots);
        }
        is_valid
    }

    /// Announces to the peer that a DMB is withdrawn. Waits in the outbox, without a limit, while
    /// the socket has no room.
    pub(super) fn withdraw(&mut self, dmb: Key, token: DmbToken) {
        // The number of DMBs bounds that of withdrawals.
        if !self.outbox.cancel(dmb) {
            self.outbox.push(Message::Withdraw { token }, None);
            self.outbox.flush(&self.socket);
        }
    }

    /// Sends the peer an event.
    ///
    /// # Errors
    /// The errors of [`Outbox::check_room`]; nothing is sent then.
    pub(super) fn event(&mut self, code: u32, info: u64) -> Result<(), IsmError> {
        self.outbox.check_room(Instant::now())?;
        self.outbox.push(Message::Event { code, info }, None);
        self.outbox.flush(&self.socket);
        Ok(())
    }

    /// Receives one message of the peer; does not wait. Once the end was seen, returns
    /// [`Arrival::End`].
    pub(super) fn receive(&mut self) -> Arrival {
        if self.ended.is_some() {
            return Arrival::End;
        }
        match self.socket.receive() {
            // A peer that receives no messages any more counts as gone once all that it sent is
            // read.
            Received::Nothing if self.outbox.is_broken() => Arrival::End,
            Received::Nothing => Arrival::Nothing,
            Received::End => Arrival::End,
            Received::Message(Message::Wake, None) => Arrival::Wake,
            Received::Message(Message::Event { code, info }, None) => Arrival::Event { code, info },
            Received::Message(Message::Withdraw { token }, None) => {
                self.offers.remove(token);
                self.kept.discard(token);
                Arrival::Withdrawn(token)
            }
            Received::Message(
                Message::Offer {
                    token,
                    len,
                    slot,
                    generation,
                },
                Some(fd),
            ) => Arrival::Offer {
                token,
                len,
                ring: Ring { slot, generation },
                fd,
            },
            Received::Message(Message::Handshakes { slot, generation }, Some(fd)) => {
                let ring = Ring { slot, generation };
                Arrival::Handshakes { ring, fd }
            }
            // A message is stripped if this process has no descriptor left, which is not an error
            // of the peer. Without the file connections are not announced to this peer.
            Received::Stripped(Message::Handshakes { .. }) => Arrival::Inner,
            // The token stays unknown here.
            Received::Stripped(Message::Offer { .. }) => Arrival::Inner,
            Received::Message(Message::Page { at, rung }, Some(fd))
                if self.take_page((at, rung), Some(&fd)) =>
            {
                Arrival::Inner
            }
            Received::Stripped(Message::Page { at, rung }) if self.take_page((at, rung), None) => {
                Arrival::Inner
            }
            Received::Message(..) | Received::Stripped(_) | Received::Malformed => Arrival::Breach,
        }
    }

    /// GID and user of the peer. The GID alone does not identify it: a process of another user may
    /// claim it.
    pub(super) fn owner(&self) -> Peer {
        Peer {
            gid: self.peer,
            uid: self.uid,
        }
    }

    /// Rings for the peer's DMB, and wakes the peer if it is parked.
    #[inline]
    pub(super) fn ring(&mut self, ring: Ring) {
        if !self.ours.doorbells().ring(&self.our_pages, ring) {
            self.rung_without_page = true;
        }
        if let Some(target) = self.waker.must_wake(self.theirs.doorbells()) {
            self.wake(target);
        }
    }

    /// Rings for the peer's DMB after a CDC message, unless the peer suppresses rings.
    //= SHM-075
    #[inline]
    pub(super) fn ring_after_cdc(&mut self, ring: Ring) {
        if !self.theirs.doorbells().suppresses_rings() {
            self.ring(ring);
        }
    }

    /// Asks the peer not to ring for DMBs.
    pub(super) fn suppress_rings(&self) {
        self.ours.doorbells().suppress_rings();
    }

    /// Asks the peer to ring for DMBs again.
    pub(super) fn restore_rings(&self) {
        self.ours.doorbells().restore_rings();
    }

    /// Wakes the peer where it is parked; never waits.
    #[cold]
    //= SHM-027
    fn wake(&self, target: ParkTarget) {
        match target {
            // A full socket holds messages that wake the peer as well. Any other error shows when
            // the channel is next read.
            ParkTarget::Socket => drop(self.socket.send(Message::Wake, None)),
            ParkTarget::FutexWord => super::futex_words::wake(self.ours.doorbells()),
        }
    }

    /// The first page of the peer's doorbells, which has the futex word to wait at.
    pub(super) fn theirs(&self) -> &Arc<DoorbellPage> {
        &self.theirs
    }

    /// Whether the peer rang in a page of doorbells that this side has not received yet. The
    /// caller reads the socket first, as otherwise more DMBs than rang would be reported.
    #[inline]
    pub(super) fn awaits_page(&self) -> bool {
        let slots = self.dmbs.used();
        let (doorbells, pages) = (self.theirs.doorbells(), self.their_pages.len());
        slots > FIRST_PAGE && self.listener.lacks_page(doorbells, pages, slots)
    }

    /// The next ring of the peer that this side has not processed.
    #[inline]
    pub(super) fn next_ring(&mut self) -> Option<Ring> {
        let slots = self.dmbs.used();
        self.listener
            .next(self.theirs.doorbells(), &self.their_pages, slots)
    }

    /// The DMB that a ring is for; `None` if its slot is free or has a later generation.
    //= SHM-025
    #[inline]
    pub(super) fn rung(&self, ring: Ring) -> Option<Key> {
        let ((_, generation), dmb) = self.dmbs.at_index(ring.slot)?;
        ring.is_for(generation).then_some(*dmb)
    }

    /// Number of further pages of doorbells that this side has made, and of those that it has
    /// received.
    #[cfg(test)]
    pub(super) fn pages(&self) -> [usize; 2] {
        [self.our_pages.len(), self.their_pages.len()]
    }

    /// Makes the next page of the peer count as lost at this side.
    #[cfg(test)]
    pub(super) fn lose_next_page(&mut self) {
        self.lose_page = true;
    }

    /// Upper bound of the rings that were made before this call and that [`Self::next_ring`] has
    /// not returned yet.
    pub(super) fn most_rings(&self) -> u32 {
        self.dmbs.used().saturating_mul(3).saturating_add(4)
    }

    /// Whether the peer rings faster than this side drains.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.listener.is_crowded()
    }

    /// Announces to the peer that this side is parked.
    pub(super) fn park(&self) {
        let target = if self.at_futex_word {
            ParkTarget::FutexWord
        } else {
            ParkTarget::Socket
        };
        self.ours.doorbells().park(target);
    }

    /// Announces to the peer that this side is no longer parked.
    pub(super) fn unpark(&self) {
        self.ours.doorbells().unpark();
    }
}
