//! CLC messages of connections that are being made, in shared memory.
//!
//! ```text
//!   client                                      server
//!   announce: Proposal, cookie of its socket
//!   connect ───────────── SYN ────────────────► accept
//!                                               take_announcement, by the cookie that the
//!                                               kernel names for the other end
//!                 ◄──── Accept, or Decline ──── send, which rings
//!   Confirm, or Decline ──────────────────────► which rings
//!                                 done ◄─────── end: the client may use the slot again
//! ```
//!
//! Whoever takes an announcement out of the index, the server with the connection or the client that
//! gives it up, does so in one atomic step: so the client knows whether the server has it.
//!
//! Each side of a channel makes one memory file, which its peer writes to: an index of the
//! announcements that wait, and a slot for each connection that is being made, for either role.
//! A slot has one writer and holds one message at a time. Nothing of it is trusted: messages are
//! copied out before they are parsed, and an announcement is only what the kernel names.

mod file;

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use super::channel::Channel;
use super::device::Device;
use super::message::Message;
use super::pairing::{Peer, belongs};
use crate::device::{DeviceEvent, IsmError, IsmReport};
use crate::doorbell::{self, Ring};
use crate::memory::Reaper;
use crate::slots::Key;
#[cfg(test)]
pub(super) use file::LENGTH;
use file::{MESSAGE, MessageFile, Place, SLOTS, Stamp};

/// How long a slot is left alone whose server has not ended the handshake: longer than any
/// handshake takes.
const ABANDONED: Duration = Duration::from_secs(30);
/// Most slots that a server has not ended yet and that are checked for each new announcement while
/// there are free ones.
const CHECKS: usize = 16;
/// Code of the event that is reported when a peer has rung for handshakes.
pub const HANDSHAKES: u32 = 0x534d_4343;
/// Stands for the handshakes among the DMBs that a peer rings for.
pub(super) const RUNG: Key = (u32::MAX, u32::MAX);

/// A handshake over shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HandshakeId {
    channel: Key,
    slot: usize,
    number: u32,
    is_client: bool,
}

impl HandshakeId {
    /// Where this side writes.
    const fn place(self) -> Place {
        Place {
            slot: self.slot,
            from_client: self.is_client,
        }
    }

    /// Where the peer writes.
    const fn place_of_peer(self) -> Place {
        Place {
            slot: self.slot,
            from_client: !self.is_client,
        }
    }
}

/// A message of a handshake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Clc {
    /// Cookie of the sender's TCP socket.
    pub cookie: u64,
    /// The CLC message.
    pub bytes: Vec<u8>,
}

/// A connection whose client has announced it.
#[derive(Debug)]
pub struct Announced {
    /// The handshake.
    pub id: HandshakeId,
    /// The client.
    pub peer: Peer,
    /// Proposal of the client.
    pub proposal: Vec<u8>,
}

/// One side's part of a slot pair.
#[derive(Clone, Copy, Debug, Default)]
struct Slot {
    /// Number of the handshake; 0 before the first.
    number: u32,
    is_open: bool,
    /// Whether it is a client's announcement that counts among those that wait.
    is_waiting: bool,
    /// Messages sent, and the number of the last one received.
    sent: u32,
    received: u32,
}

/// Handshakes over one channel.
#[derive(Debug, Default)]
pub(super) struct Handshakes {
    /// What the peer writes.
    ours: Option<MessageFile>,
    /// What this side writes, and where the peer is rung for it.
    theirs: Option<(MessageFile, Ring)>,
    /// The peer's file, not mapped yet, as pages of its user could not be freed when it came.
    put_off: Option<(OwnedFd, Ring)>,
    clients: Vec<Slot>,
    servers: Vec<Slot>,
    /// Slots of clients that are not in use.
    free: Vec<usize>,
    /// Slots of clients, no more in use, that a server may still read.
    closing: VecDeque<(Instant, usize)>,
    last: u32,
    /// Announcements of this side that wait.
    waiting: u64,
    /// The peer has rung.
    is_rung: bool,
    /// How often the peer has asked to be accepted, as far as that is known here.
    calls: u64,
}

impl Handshakes {
    /// Takes the file that the peer has sent.
    fn take_theirs(&mut self, file: MessageFile, ring: Ring) {
        self.theirs = Some((file, ring));
        self.clients = vec![Slot::default(); SLOTS];
        // The lowest first, so that few pages are touched.
        self.free = (0..SLOTS).rev().collect();
    }

    /// Whether this side can announce connections, and the peer can answer: each has mapped the
    /// file that the other one has sent.
    fn are_mutual(&self) -> bool {
        self.theirs.is_some() && self.ours.as_ref().is_some_and(MessageFile::is_mapped)
    }

    /// The peer has rung for handshakes; whether that is not known yet.
    pub(super) fn rung(&mut self) -> bool {
        !std::mem::replace(&mut self.is_rung, true)
    }

    fn slot(&mut self, id: HandshakeId) -> Option<&mut Slot> {
        let slots = if id.is_client {
            &mut self.clients
        } else {
            &mut self.servers
        };
        let slot = slots.get_mut(id.slot)?;
        (slot.is_open && slot.number == id.number).then_some(slot)
    }

    /// A slot whose server has nothing to read there any more.
    fn take_free(&mut self, now: Instant) -> Option<usize> {
        // One that the server does not end keeps no other back: it is checked again later.
        let mut checks: usize = CHECKS;
        for _ in 0..self.closing.len() {
            let Some((since, slot)) = self.closing.pop_front() else {
                break;
            };
            let number = self.clients.get(slot).map_or(0, |at| at.number);
            let ours = self.ours.as_ref();
            let is_ended = ours.is_some_and(|ours| ours.is_ended(slot, number));
            if is_ended || now.saturating_duration_since(since) >= ABANDONED {
                self.free.push(slot);
                continue;
            }
            self.closing.push_back((since, slot));
            checks = checks.saturating_sub(1);
            if checks == 0 && !self.free.is_empty() {
                break;
            }
        }
        self.free.pop()
    }

    /// Adds the announcement in a slot to the index.
    fn add_to_index(&mut self, slot: usize, cookie: u64) {
        let (Some((theirs, _)), Some(client)) = (&self.theirs, self.clients.get_mut(slot)) else {
            return;
        };
        theirs.add(slot, cookie);
        if !std::mem::replace(&mut client.is_waiting, true) {
            self.waiting += 1;
        }
        theirs.set_waiting(self.waiting);
    }

    /// Removes the announcement in a slot from the index. Returns whether it was there, that is, the
    /// peer had not taken it.
    fn remove_from_index(&mut self, slot: usize) -> bool {
        let (Some((theirs, _)), Some(client)) = (&self.theirs, self.clients.get_mut(slot)) else {
            return false;
        };
        let was_there = theirs.remove(slot);
        if std::mem::take(&mut client.is_waiting) {
            self.waiting = self.waiting.saturating_sub(1);
            theirs.set_waiting(self.waiting);
        }
        was_there
    }

    /// Whether the peer has announced connections that wait.
    fn has_announcements(&self) -> bool {
        self.ours
            .as_ref()
            .is_some_and(MessageFile::has_announcements)
    }
}

impl Channel {
    /// Whether the peer can be offered the file for its messages now: it was not, and the outbox
    /// has room.
    fn wants_handshakes(&self) -> bool {
        self.handshakes.ours.is_none() && self.outbox.check_room(Instant::now()).is_ok()
    }

    /// Offers the peer the file for its messages. `reaper` frees its pages if the peer is a
    /// stranger's.
    fn offer_handshakes(&mut self, reaper: Option<Reaper>) {
        let Ok((file, fd)) = MessageFile::create(reaper) else {
            return;
        };
        let Some(slot) = self.take_slot(RUNG) else {
            return;
        };
        self.handshakes.ours = Some(file);
        self.handshakes.servers = vec![Slot::default(); SLOTS];
        let Ring { slot, generation } = Ring::new(slot.0, slot.1);
        self.outbox
            .push_file(Message::Handshakes { slot, generation }, fd);
        self.outbox.flush(&self.socket);
    }
}

/// Handshakes with peers that this device has a channel to.
impl Device {
    /// Lets the peer of a channel announce connections, unless that was done. If the peer's user is
    /// a stranger that has too many descriptors in flight or locks its files, the next pairing
    /// tries again.
    //= SHM-065
    pub(super) fn offer_handshakes(&mut self, key: Key) {
        let Some(channel) = self.channels.at(key) else {
            return;
        };
        let uid = channel.uid;
        if !channel.wants_handshakes() || self.check_in_flight(uid).is_err() {
            return;
        }
        let Ok(reaper) = self.reaper_toward(key) else {
            return;
        };
        if let Some(channel) = self.channels.at_mut(key) {
            channel.offer_handshakes(reaper);
            self.after_send(key);
        }
    }

    /// Maps the peer's file for this side's messages, and sends the peer one in return: of several
    /// channels between two processes each side may have chosen another for its own file. Returns
    /// `false` if the peer may not send the file: it must be the first, and of a kind that
    /// [`MessageFile::open`] maps. The file of a stranger whose pages cannot be freed at the moment
    /// is kept, and mapped at the next pairing; nothing is announced over the channel before.
    //= SHM-065
    pub(super) fn take_handshakes(&mut self, key: Key, ring: Ring, fd: OwnedFd) -> bool {
        let Some(channel) = self.channels.at(key) else {
            return true;
        };
        let Handshakes {
            theirs, put_off, ..
        } = &channel.handshakes;
        if ring.slot >= doorbell::SLOTS || theirs.is_some() || put_off.is_some() {
            return false;
        }
        self.map_handshakes(key, ring, fd)
    }

    /// Maps the file that [`Self::take_handshakes`] has put off, if there is one. Returns `false` if
    /// the peer may not have sent it.
    //= SHM-065
    pub(super) fn retry_handshakes(&mut self, key: Key) -> bool {
        let channel = self.channels.at_mut(key);
        match channel.and_then(|channel| channel.handshakes.put_off.take()) {
            Some((fd, ring)) => self.map_handshakes(key, ring, fd),
            None => true,
        }
    }

    /// Maps the peer's file, or keeps it for the next pairing. Returns `false` if it is of another kind
    /// than [`MessageFile::open`] maps.
    fn map_handshakes(&mut self, key: Key, ring: Ring, fd: OwnedFd) -> bool {
        let file = match self.reaper_toward(key) {
            Ok(reaper) => MessageFile::open(&fd, reaper),
            Err(_) => {
                if let Some(channel) = self.channels.at_mut(key) {
                    channel.handshakes.put_off = Some((fd, ring));
                }
                return true;
            }
        };
        match file {
            Ok(file) => {
                if let Some(channel) = self.channels.at_mut(key) {
                    channel.handshakes.take_theirs(file, ring);
                }
                self.offer_handshakes(key);
                true
            }
            // A lack of memory at this side is not an error of the peer.
            Err(error) => matches!(error, IsmError::System { .. }),
        }
    }

    /// The channel over which connections can be announced to a peer.
    fn announcing(&self, peer: &Peer) -> Option<Key> {
        //= SHM-065
        let can = |at: &Channel| at.owner() == *peer && at.handshakes.are_mutual();
        let found = self.channels.iter().find(|(_, at)| can(at));
        found.map(|(key, _)| key)
    }

    /// Whether connections can be announced to a peer: each side has mapped the file that the
    /// other one has sent.
    #[must_use]
    pub fn can_announce(&self, peer: &Peer) -> bool {
        self.announcing(peer).is_some()
    }

    /// Announces to a peer that the TCP socket with this cookie will be connected to it, and
    /// proposes. `None` if it cannot be announced there.
    //= SHM-066
    pub fn announce(&mut self, peer: &Peer, cookie: u64, proposal: &[u8]) -> Option<HandshakeId> {
        let channel = self.announcing(peer)?;
        let handshakes = &mut self.channels.at_mut(channel)?.handshakes;
        if proposal.len() > MESSAGE {
            return None;
        }
        let index = handshakes.take_free(Instant::now())?;
        handshakes.last = handshakes.last.checked_add(1).unwrap_or(1);
        let number = handshakes.last;
        *handshakes.clients.get_mut(index)? = Slot {
            number,
            is_open: true,
            is_waiting: false,
            sent: 1,
            received: 0,
        };
        if let Some((theirs, _)) = &handshakes.theirs {
            let stamp = Stamp::new(number, 1);
            theirs.write(Place::of_client(index), stamp, (cookie, proposal));
        }
        handshakes.add_to_index(index, cookie);
        self.expect_offer(channel);
        Some(HandshakeId {
            channel,
            slot: index,
            number,
            is_client: true,
        })
    }

    /// Whether any peer has announced connections that were not taken yet.
    #[must_use]
    pub fn has_announcements(&self) -> bool {
        let mut channels = self.channels.iter();
        channels.any(|(_, at)| at.handshakes.has_announcements())
    }

    /// Takes the announcement of an accepted connection out: of the socket with this cookie,
    /// which is `uid`'s, as the kernel reports the owner of the other end.
    //= SHM-067
    pub fn take_announcement(&mut self, cookie: u64, uid: u32) -> Option<Announced> {
        let may = |at: &Channel| belongs(at.uid, uid) && at.handshakes.theirs.is_some();
        let peers = self.channels.iter().filter(|(_, at)| may(at));
        let found = { peers }.find_map(|(key, at)| {
            let ours = at.handshakes.ours.as_ref()?;
            Some((key, ours.find(cookie)?))
        });
        let (channel, slot) = found?;
        let at = self.channels.at_mut(channel)?;
        let peer = at.owner();
        let ours = at.handshakes.ours.as_ref()?;
        let number = ours.handshake(Place::of_client(slot));
        let (received, clc) = ours.read(Place::of_client(slot), number, 0)?;
        // Behind its first message the client has given it up.
        if received != 1 || clc.cookie != cookie {
            return None;
        }
        let is_new = at.handshakes.servers.get(slot)?.number != number;
        if !is_new || !ours.take(slot, cookie) {
            return None;
        }
        *at.handshakes.servers.get_mut(slot)? = Slot {
            number,
            is_open: true,
            is_waiting: false,
            sent: 0,
            received,
        };
        let id = HandshakeId {
            channel,
            slot,
            number,
            is_client: false,
        };
        let proposal = clc.bytes;
        self.expect_offer(channel);
        Some(Announced { id, peer, proposal })
    }

    /// Sends a message of a handshake, of the TCP socket with this cookie, and rings; whether it
    /// could be sent.
    pub fn send_clc(&mut self, id: HandshakeId, cookie: u64, bytes: &[u8]) -> bool {
        let Some(channel) = self.channels.at_mut(id.channel) else {
            return false;
        };
        if bytes.len() > MESSAGE {
            return false;
        }
        let Some(slot) = channel.handshakes.slot(id) else {
            return false;
        };
        slot.sent += 1;
        let stamp = Stamp::new(id.number, slot.sent);
        let Some((theirs, ring)) = &channel.handshakes.theirs else {
            return false;
        };
        let ring = *ring;
        theirs.write(id.place(), stamp, (cookie, bytes));
        channel.ring(ring);
        true
    }

    /// The next message of a handshake, if it has come.
    pub fn receive_clc(&mut self, id: HandshakeId) -> Option<Clc> {
        let handshakes = &mut self.channels.at_mut(id.channel)?.handshakes;
        let known = handshakes.slot(id)?.received;
        let ours = handshakes.ours.as_ref()?;
        let (message, clc) = ours.read(id.place_of_peer(), id.number, known)?;
        handshakes.slot(id)?.received = message;
        if id.is_client {
            handshakes.remove_from_index(id.slot);
        }
        Some(clc)
    }

    /// Gives up an announcement of this side that was not answered. Returns whether the peer had
    /// taken it: it takes the connection for one of this handshake then, which the client is to
    /// decline, and otherwise for one that was not announced.
    //= SHM-066
    #[must_use]
    pub fn give_up_announcement(&mut self, id: HandshakeId) -> bool {
        let channel = self.channels.at_mut(id.channel);
        channel.is_some_and(|at| {
            let is_open = id.is_client && at.handshakes.slot(id).is_some();
            is_open && !at.handshakes.remove_from_index(id.slot)
        })
    }

    /// Asks the server's process to accept the connection of a handshake: its program may do
    /// something else meanwhile.
    //= SHM-068
    pub fn ask_to_accept(&mut self, id: HandshakeId) {
        if let Some(channel) = self.channels.at_mut(id.channel)
            && let Some((theirs, ring)) = &channel.handshakes.theirs
        {
            let ring = *ring;
            theirs.call();
            channel.ring(ring);
        }
    }

    /// Whether a peer has asked to be accepted since the last call. To be called for each event
    /// with the code [`HANDSHAKES`], before messages are received.
    pub fn take_calls_to_accept(&mut self) -> bool {
        let mut any = false;
        self.channels.for_each(|at| {
            let handshakes = &mut at.handshakes;
            if std::mem::take(&mut handshakes.is_rung) {
                let now = handshakes.ours.as_ref().map_or(0, MessageFile::calls);
                any |= std::mem::replace(&mut handshakes.calls, now) != now;
            }
        });
        any
    }

    /// Ends a handshake: what else comes of it is not received.
    pub fn end_handshake(&mut self, id: HandshakeId) {
        let Some(channel) = self.channels.at_mut(id.channel) else {
            return;
        };
        let Some(slot) = channel.handshakes.slot(id) else {
            return;
        };
        slot.is_open = false;
        if id.is_client {
            channel.handshakes.remove_from_index(id.slot);
            let now = Instant::now();
            channel.handshakes.closing.push_back((now, id.slot));
        } else if let Some((theirs, _)) = &channel.handshakes.theirs {
            // The client reads that when it next wants a slot.
            theirs.end(id.slot, id.number);
        }
    }

    /// Takes an announcement back that its peer does not answer, as another process has accepted the
    /// connection: by a Decline, of the TCP socket with this cookie. The slot may be used again at
    /// once.
    //= SHM-080
    pub fn take_back(&mut self, id: HandshakeId, cookie: u64, decline: &[u8]) {
        let Some(channel) = self.channels.at_mut(id.channel) else {
            return;
        };
        let handshakes = &mut channel.handshakes;
        let is_first = |at: &&mut Slot| id.is_client && at.sent == 1;
        let Some(slot) = handshakes.slot(id).filter(is_first) else {
            return;
        };
        slot.is_open = false;
        handshakes.remove_from_index(id.slot);
        if let Some((theirs, _)) = &handshakes.theirs
            && decline.len() <= MESSAGE
        {
            theirs.write(id.place(), Stamp::new(id.number, 2), (cookie, decline));
        }
        handshakes.free.push(id.slot);
        // The peer offers no DMB for it.
        channel.offers.claim();
    }

    /// The report of a ring for handshakes, if none of that channel is due already.
    pub(super) fn rung_for_handshakes(&mut self, key: Key) -> Option<IsmReport> {
        let channel = self.channels.at_mut(key)?;
        let peer = channel.peer;
        let event = DeviceEvent::software(peer, HANDSHAKES, 0);
        channel.handshakes.rung().then_some(IsmReport::Event(event))
    }
}

/// The peer keeps the files as long as it likes.
//= SHM-051
impl Drop for Handshakes {
    fn drop(&mut self) {
        let theirs = self.theirs.as_ref().map(|(file, _)| file);
        self.ours
            .iter()
            .chain(theirs)
            .for_each(MessageFile::discard);
    }
}
