//! A channel between two devices: a socket for what is rare, doorbells for what is not.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use super::device::is_own_user;
use super::handshakes::{self, Handshakes};
use super::kept::Kept;
use super::message::Message;
use super::offers::Offers;
use super::outbox::Outbox;
use super::pairing::Peer;
use super::socket::{Received, Socket};
use crate::device::{DmbToken, Gid128, IsmError};
use crate::doorbell::{FIRST_PAGE, Listener, ParkTarget, Ring, SLOTS, Waker, pages_for};
use crate::memory::{DoorbellPage, PagesOf, SharedRegion};
use crate::slots::{Key, Slots};

/// A channel of which this side has sent its first message.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) socket: Socket,
    ours: DoorbellPage,
}

impl Begun {
    /// Sends the first message: the GID of this end, and its doorbells.
    pub(super) fn begin(socket: Socket, gid: Gid128) -> io::Result<Self> {
        let (ours, fd) = DoorbellPage::create()?;
        socket.set_window()?;
        socket.send(Message::Hello { gid }, Some(fd.as_fd()))?;
        Ok(Self { socket, ours })
    }

    /// Takes the peer's first message.
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
    pub(super) fn finish(self, deadline: Instant) -> io::Result<Channel> {
        match self.socket.receive_by(deadline)? {
            (Message::Hello { gid }, Some(fd)) => {
                self.complete(gid, &fd).map_err(|(error, _)| error)
            }
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

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

/// Why there is no channel after all.
pub(super) enum NotMade {
    /// The peer's first message is still to come.
    Yet(Begun),
    /// The peer has sent something else, or nothing, over this socket.
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
    /// The user the peer belonged to when the channel was made.
    pub(super) uid: u32,
    ours: DoorbellPage,
    theirs: Arc<DoorbellPage>,
    /// A thread waits at the peer's futex word, and not at the socket.
    pub(super) at_futex_word: bool,
    listener: Listener,
    /// Further pages of this side's doorbells.
    our_pages: PagesOf,
    /// Further pages of the peer's doorbells.
    their_pages: PagesOf,
    /// The own DMBs for the peer, by the slots at which the peer rings for them.
    dmbs: Slots<Key>,
    /// Attachments of DMBs that the peer offered over this channel.
    pub(super) attached: u32,
    /// Most of those at a time.
    most_attached: u32,
    /// The slots of the DMBs that were ever attached over this channel lie below this.
    rung_below: u32,
    /// Whether the own side has rung where it had no page.
    rung_without_page: bool,
    #[cfg(test)]
    lose_page: bool,
    waker: Waker,
    pub(super) outbox: Outbox,
    /// The device's poller reports room in the socket.
    pub(super) awaits_room: bool,
    pub(super) offers: Offers,
    pub(super) kept: Kept,
    pub(super) handshakes: Handshakes,
    /// Number of readable events of the device when the end was first seen.
    pub(super) ended: Option<u32>,
}

/// What a channel brought.
pub(super) enum Arrival {
    /// A DMB of the peer's, not mapped yet.
    Offer {
        token: DmbToken,
        len: u32,
        ring: Ring,
        fd: OwnedFd,
    },
    Withdrawn(DmbToken),
    Event {
        code: u32,
        info: u64,
    },
    /// A message that concerns the channel alone.
    Inner,
    /// The peer rang while this side was parked.
    Wake,
    Nothing,
    /// The peer has gone.
    End,
    /// The peer broke the rules of this channel.
    Breach,
}

impl Channel {
    /// DMBs of this side for the peer.
    pub(super) fn dmbs(&self) -> usize {
        self.dmbs.len()
    }

    /// Takes a slot for a DMB for the peer, if there is one.
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

    /// Takes the slot of a DMB back that the peer did not get, or that was withdrawn.
    pub(super) fn free_slot(&mut self, slot: Key) {
        self.dmbs.remove(slot);
    }

    /// Counts an attachment of the peer's DMB at a slot.
    pub(super) fn attach(&mut self, ring: Ring) {
        self.attached += 1;
        self.most_attached = self.most_attached.max(self.attached);
        self.rung_below = self.rung_below.max(ring.slot.saturating_add(1));
    }

    /// Whether a further page of this side's doorbells is to be made: the next one, once the
    /// one before it was sent. The peer chooses the slots: no page is made for many more of
    /// them than there were attachments.
    pub(super) fn wants_page(&self) -> bool {
        let slots = self.rung_below.min(self.most_attached.saturating_mul(2));
        self.our_pages.len() < pages_for(slots)
            && !self.outbox.has_page()
            && self.outbox.check_room(Instant::now()).is_ok()
    }

    /// Makes a further page of this side's doorbells and sends it; whether it was sent at once.
    ///
    /// Without it, rings at its slots take the peer more work.
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

    /// Gives the last page of this side's doorbells up if it could not be sent.
    pub(super) fn drop_lost_page(&mut self) {
        if self.outbox.take_lost_page() {
            self.our_pages.take_back();
            // What rang there is lost with it.
            self.rung_without_page = true;
        }
    }

    /// Takes a further page of the peer's doorbells, or notes that it got lost here; whether the
    /// peer may send it: it is the next one, and the peer got a DMB with a slot in it.
    //= SHM-072
    fn take_page(&mut self, (at, rung): (u32, bool), fd: Option<&OwnedFd>) -> bool {
        #[cfg(test)]
        let fd = fd.filter(|_| !std::mem::take(&mut self.lose_page));
        let count = self.their_pages.len();
        let slots = self.dmbs.used();
        if usize::try_from(at) != Ok(count) || count >= pages_for(slots) {
            return false;
        }
        let is_taken = self.their_pages.open(fd).is_ok();
        if rung {
            self.listener
                .add_rung_page(self.theirs.bells(), count, slots);
        }
        is_taken
    }

    /// Maps the file for this side's messages of handshakes; whether the peer may send it: it is
    /// of the kind that [`SharedRegion::open`] maps, and the first.
    //= SHM-065
    fn take_handshakes(&mut self, ring: Ring, fd: &OwnedFd) -> bool {
        if !is_own_user(self.uid) || ring.slot >= SLOTS {
            return false;
        }
        match SharedRegion::open(fd, handshakes::LENGTH) {
            Ok(region) => self.handshakes.take_theirs(region, ring),
            // A want of memory here is no fault of the peer's.
            Err(IsmError::System { .. }) => true,
            Err(_) => false,
        }
    }

    /// Announces to the peer that a DMB is no more; never refused.
    pub(super) fn withdraw(&mut self, dmb: Key, token: DmbToken) {
        // There are no more of these than DMBs: they need no bound of their own.
        if !self.outbox.cancel(dmb) {
            self.outbox.push(Message::Withdraw { token }, None);
            self.outbox.flush(&self.socket);
        }
    }

    /// Sends the peer an event.
    ///
    /// # Errors
    /// See [`Outbox::check_room`]; nothing is sent then.
    pub(super) fn event(&mut self, code: u32, info: u64) -> Result<(), IsmError> {
        self.outbox.check_room(Instant::now())?;
        self.outbox.push(Message::Event { code, info }, None);
        self.outbox.flush(&self.socket);
        Ok(())
    }

    /// Takes one message from the peer. Behind its end there is none.
    pub(super) fn receive(&mut self) -> Arrival {
        if self.ended.is_some() {
            return Arrival::End;
        }
        match self.socket.receive() {
            // A peer that takes no messages has gone, once all that it sent is read.
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
            Received::Message(Message::Handshakes { slot, generation }, Some(fd))
                if self.take_handshakes(Ring { slot, generation }, &fd) =>
            {
                Arrival::Inner
            }
            // Connections are not announced then.
            Received::Stripped(Message::Handshakes { .. }) => Arrival::Inner,
            // This process has no descriptor left: no fault of the peer's. The token stays
            // unknown here.
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

    /// GID and user of the peer: a process of another user may claim the GID alone.
    pub(super) fn owner(&self) -> Peer {
        Peer {
            gid: self.peer,
            uid: self.uid,
        }
    }

    /// Rings for the peer's DMB, and wakes the peer if it is parked.
    #[inline]
    pub(super) fn ring(&mut self, ring: Ring) {
        if !self.ours.bells().ring(&self.our_pages, ring) {
            self.rung_without_page = true;
        }
        if let Some(target) = self.waker.must_wake(self.theirs.bells()) {
            self.wake(target);
        }
    }

    /// Rings for the peer's DMB after a CDC message, unless the peer suppresses rings.
    //= SHM-075
    #[inline]
    pub(super) fn ring_after_cdc(&mut self, ring: Ring) {
        if !self.theirs.bells().suppresses_rings() {
            self.ring(ring);
        }
    }

    /// Asks the peer not to ring for DMBs.
    pub(super) fn suppress_rings(&self) {
        self.ours.bells().suppress_rings();
    }

    /// Asks the peer to ring for DMBs again.
    pub(super) fn restore_rings(&self) {
        self.ours.bells().restore_rings();
    }

    #[cold]
    //= SHM-027
    fn wake(&self, target: ParkTarget) {
        match target {
            // No room means that messages wait there to be read: they wake it as well.
            // Any other failure shows when the channel is next read.
            ParkTarget::Socket => drop(self.socket.send(Message::Wake, None)),
            ParkTarget::FutexWord => super::futex_words::wake(self.ours.bells()),
        }
    }

    /// The peer's doorbells, for threads that wait at their futex word.
    pub(super) fn theirs(&self) -> &Arc<DoorbellPage> {
        &self.theirs
    }

    /// Whether the peer rang where its page of doorbells is still to be read from the socket:
    /// without it, more DMBs than rang would be reported.
    #[inline]
    pub(super) fn awaits_page(&self) -> bool {
        let slots = self.dmbs.used();
        let (bells, pages) = (self.theirs.bells(), self.their_pages.len());
        slots > FIRST_PAGE && self.listener.lacks_page(bells, pages, slots)
    }

    /// The next ring of the peer's.
    #[inline]
    pub(super) fn next_ring(&mut self) -> Option<Ring> {
        let slots = self.dmbs.used();
        self.listener
            .next(self.theirs.bells(), &self.their_pages, slots)
    }

    /// The DMB that a ring is for, if there is one.
    //= SHM-025
    #[inline]
    pub(super) fn rung(&self, ring: Ring) -> Option<Key> {
        let ((_, generation), dmb) = self.dmbs.at_index(ring.slot)?;
        ring.is_for(generation).then_some(*dmb)
    }

    /// Further pages of doorbells that this side has made, and that it has taken.
    #[cfg(test)]
    pub(super) fn pages(&self) -> [usize; 2] {
        [self.our_pages.len(), self.their_pages.len()]
    }

    /// The next page of the peer's gets lost at this side.
    #[cfg(test)]
    pub(super) fn lose_next_page(&mut self) {
        self.lose_page = true;
    }

    /// Most rings that can have been made before a call and that [`Self::next_ring`] may not
    /// have returned yet.
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
        self.ours.bells().park(target);
    }

    /// Announces to the peer that this side is no longer parked.
    pub(super) fn unpark(&self) {
        self.ours.bells().unpark();
    }
}
