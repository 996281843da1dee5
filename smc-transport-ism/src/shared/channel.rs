//! A channel between two devices: a socket for what is rare, bells for what is not.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::time::Instant;

use super::kept::Kept;
use super::message::Message;
use super::offers::Offers;
use super::outbox::Outbox;
use super::pairing::Peer;
use super::socket::{Received, Socket};
use crate::device::{DmbToken, Gid128, IsmError};
use crate::doorbell::{Bed, Listener, Ring, Waker};
use crate::memory::BellsOf;
use crate::slots::Key;

/// A channel of which this side has sent its first message.
#[derive(Debug)]
pub(super) struct Begun {
    pub(super) socket: Socket,
    ours: BellsOf,
}

impl Begun {
    /// Sends the first message: whose end this is, and its bells.
    pub(super) fn begin(socket: Socket, gid: Gid128) -> io::Result<Self> {
        let (ours, fd) = BellsOf::create()?;
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
        let theirs = match BellsOf::open(fd) {
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
            at_word: false,
            listener: Listener::new(),
            waker: Waker::default(),
            outbox: Outbox::new(),
            awaits_room: false,
            offers: Offers::default(),
            kept: Kept::default(),
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
    ours: BellsOf,
    theirs: Arc<BellsOf>,
    /// Somebody sleeps at the peer's word, and not at the socket.
    pub(super) at_word: bool,
    listener: Listener,
    waker: Waker,
    pub(super) outbox: Outbox,
    /// The device's poller reports room in the socket.
    pub(super) awaits_room: bool,
    pub(super) offers: Offers,
    pub(super) kept: Kept,
    /// How often the device had been told to look when the end was first seen.
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
    /// This side slept, and a bell rang.
    Wake,
    Nothing,
    /// The peer has gone.
    End,
    /// The peer broke the rules of this channel.
    Breach,
}

impl Channel {
    /// Offers the peer a DMB; the caller has checked [`Outbox::check_room`]. The outbox
    /// reports the outcome.
    pub(super) fn offer(&mut self, dmb: Key, token: DmbToken, len: u32, fd: OwnedFd) {
        let Ring { slot, generation } = ring_of(dmb);
        let message = Message::Offer {
            token,
            len,
            slot,
            generation,
        };
        self.outbox.push(message, Some((dmb, fd)));
        self.outbox.flush(&self.socket);
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
    /// As [`Outbox::check_room`]; nothing is sent then.
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
            // This process has no descriptor left: no fault of the peer's. The token stays
            // unknown here.
            Received::Stripped(Message::Offer { .. }) => Arrival::Inner,
            Received::Message(..) | Received::Stripped(_) | Received::Malformed => Arrival::Breach,
        }
    }

    /// The peer: its GID alone may be one that a process of another user claims.
    pub(super) fn owner(&self) -> Peer {
        Peer {
            gid: self.peer,
            uid: self.uid,
        }
    }

    /// Rings for the peer's DMB, and wakes the peer if it sleeps.
    #[inline]
    pub(super) fn ring(&mut self, ring: Ring) {
        self.ours.bells().ring(ring);
        if let Some(bed) = self.waker.must_wake(self.theirs.bells()) {
            self.wake(bed);
        }
    }

    #[cold]
    //= SHM-027
    fn wake(&self, bed: Bed) {
        match bed {
            // No room means that messages wait there to be read: they wake it as well.
            // Any other failure shows when the channel is next looked at.
            Bed::Socket => drop(self.socket.send(Message::Wake, None)),
            Bed::Word => super::words::wake(self.ours.bells()),
        }
    }

    /// The peer's bells, for who sleeps at their word.
    pub(super) fn theirs(&self) -> &Arc<BellsOf> {
        &self.theirs
    }

    /// The next DMB the peer rang for, as it names it.
    #[inline]
    pub(super) fn heard(&mut self, slots: u32) -> Option<Ring> {
        self.listener.next(self.theirs.bells(), slots)
    }

    /// Whether the peer rings faster than this side hears.
    #[inline]
    pub(super) fn is_crowded(&self) -> bool {
        self.listener.is_crowded()
    }

    /// Lets the peer know that this side sleeps.
    pub(super) fn park(&self) {
        let bed = if self.at_word { Bed::Word } else { Bed::Socket };
        self.ours.bells().park(bed);
    }

    /// Lets the peer know that it does no more.
    pub(super) fn unpark(&self) {
        self.ours.bells().unpark();
    }
}

/// How a DMB is named on the bells.
pub(super) fn ring_of((index, generation): Key) -> Ring {
    Ring {
        slot: index,
        generation: generation as u16,
    }
}
