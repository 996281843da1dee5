//! Queue of messages to a peer, which are sent as far as its socket has room.
//!
//! ```text
//!   push ──► queue ── flush ──► socket
//!                       ├─ sent ─────────────► outcome of the DMB it offers: announced
//!                       ├─ no room ──────────► Full: flush again when writable
//!                       ├─ no resources here ► an offer fails alone, a page of doorbells is
//!                       │                      dropped, a withdrawal is retried
//!                       └─ anything else ────► Broken: the peer takes no more
//! ```
//!
//! One flush may send offers of many DMBs. The outcome of each one is kept until the device takes it
//! ([`Outbox::take_outcomes`]), even if the flush fails behind it.
//!
//! A channel has one outbox. The device pushes and flushes, flushes again when the socket is writable,
//! and calls [`Outbox::handle_timeout`] at the time of [`Outbox::timeout`].

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use rustix::io::Errno;

use super::message::Message;
use super::socket::Socket;
use crate::descriptors;
use crate::device::IsmError;
use crate::memory::system;
use crate::slots::Key;

/// Most messages in the queue before further ones are refused.
const BACKLOG: usize = 64;

/// How long the peer may read nothing from a full socket before the offers in the queue fail.
pub(super) const STALLED: Duration = Duration::from_secs(5);

/// Pause before a withdrawal is sent again for which the kernel had no memory.
const RETRY: Duration = Duration::from_millis(100);

/// A message in the queue.
#[derive(Debug)]
struct Queued {
    message: Message,
    attachment: Attachment,
}

/// Descriptor that is sent with a message.
#[derive(Debug)]
enum Attachment {
    None,
    /// The memory of the DMB that the message offers.
    Offer(Key, OwnedFd),
    /// A further page of doorbells.
    Page(OwnedFd),
    /// A file that the peer can do without.
    File(OwnedFd),
}

impl Attachment {
    fn descriptor(&self) -> Option<&OwnedFd> {
        match self {
            Self::None => None,
            Self::Offer(_, fd) | Self::Page(fd) | Self::File(fd) => Some(fd),
        }
    }

    /// The DMB that is offered.
    fn dmb(&self) -> Option<Key> {
        match self {
            Self::Offer(dmb, _) => Some(*dmb),
            Self::None | Self::Page(_) | Self::File(_) => None,
        }
    }
}

/// Whether the peer's socket takes messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    /// The socket has no room, and the peer has read nothing since then.
    Full {
        since: Instant,
    },
    /// The kernel had no memory for a withdrawal, which is sent again then.
    Starved {
        until: Instant,
    },
    /// Sending has failed for good.
    Broken,
}

/// Queue of messages to one peer.
#[derive(Debug)]
pub(super) struct Outbox {
    queue: VecDeque<Queued>,
    /// Outcomes of offers that the device has not taken yet.
    outcomes: Vec<(Key, Result<(), IsmError>)>,
    state: State,
    /// Descriptors that were sent and that the peer may not have received yet.
    unread: usize,
    /// The state became [`State::Broken`], and [`Self::take_breakage`] has not reported it yet.
    broke: bool,
    /// A page of doorbells could not be sent, and [`Self::take_lost_page`] has not reported it
    /// yet.
    lost_page: bool,
}

impl Outbox {
    /// An empty queue. The first message of the channel, which has a descriptor, was sent already.
    pub(super) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            outcomes: Vec::new(),
            state: State::Open,
            unread: 1,
            broke: false,
            lost_page: false,
        }
    }

    /// Checks that one more message can be queued.
    ///
    /// # Errors
    /// [`IsmError::Busy`] if too many are queued, [`IsmError::Unreachable`] if the peer has not
    /// read for [`STALLED`], or sending has failed for good.
    //= SHM-028
    pub(super) fn check_room(&self, now: Instant) -> Result<(), IsmError> {
        match self.state {
            State::Broken => Err(IsmError::Unreachable),
            State::Full { since } if now.duration_since(since) >= STALLED => {
                Err(IsmError::Unreachable)
            }
            _ if self.queue.len() >= BACKLOG => Err(IsmError::Busy),
            _ => Ok(()),
        }
    }

    /// Queues a message, perhaps the offer of a DMB. [`Self::flush`] sends it.
    pub(super) fn push(&mut self, message: Message, offer: Option<(Key, OwnedFd)>) {
        let attachment = offer.map_or(Attachment::None, |(dmb, fd)| Attachment::Offer(dmb, fd));
        self.queue.push_back(Queued {
            message,
            attachment,
        });
    }

    /// Queues a further page of doorbells. [`Self::flush`] sends it.
    pub(super) fn push_page(&mut self, (at, rung): (u32, bool), fd: OwnedFd) {
        self.queue.push_back(Queued {
            message: Message::Page { at, rung },
            attachment: Attachment::Page(fd),
        });
    }

    /// Queues a message with a file that the peer can do without. [`Self::flush`] sends it.
    pub(super) fn push_file(&mut self, message: Message, fd: OwnedFd) {
        self.queue.push_back(Queued {
            message,
            attachment: Attachment::File(fd),
        });
    }

    /// Whether a page of doorbells is queued. A further page may be pushed only when it was sent.
    pub(super) fn has_page(&self) -> bool {
        let is_page = |queued: &Queued| matches!(queued.attachment, Attachment::Page(_));
        self.queue.iter().any(is_page)
    }

    /// Whether a page of doorbells could not be sent since the last call.
    pub(super) fn take_lost_page(&mut self) -> bool {
        std::mem::take(&mut self.lost_page)
    }

    /// Removes the offer of a DMB from the queue, and its outcome. Returns whether it was queued,
    /// that is, not sent yet.
    pub(super) fn cancel(&mut self, dmb: Key) -> bool {
        self.outcomes.retain(|(of, _)| *of != dmb);
        let before = self.queue.len();
        self.queue
            .retain(|queued| queued.attachment.dmb() != Some(dmb));
        self.queue.len() != before
    }

    /// Sends messages of the queue, as far as the socket has room.
    pub(super) fn flush(&mut self, socket: &Socket) {
        if self.is_broken() {
            return self.fail_offers(IsmError::Unreachable);
        }
        while let Some(front) = self.queue.front() {
            let fd = front.attachment.descriptor().map(AsFd::as_fd);
            match socket.send(front.message, fd) {
                Ok(()) => {
                    self.state = State::Open;
                    self.unread += usize::from(fd.is_some());
                    self.finish_front(Ok(()));
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if !matches!(self.state, State::Full { .. }) {
                        let since = Instant::now();
                        self.state = State::Full { since };
                    }
                    return;
                }
                Err(error) if !is_local_shortage(&error) => {
                    (self.state, self.broke) = (State::Broken, true);
                    return self.fail_offers(IsmError::Unreachable);
                }
                // A withdrawal must not be lost: the peer would go on writing to the DMB.
                Err(_) if matches!(front.message, Message::Withdraw { .. }) => {
                    let until = Instant::now() + RETRY;
                    self.state = State::Starved { until };
                    return;
                }
                Err(error) => self.finish_front(Err(system(&error))),
            }
        }
        self.state = State::Open;
    }

    /// Removes the first message, which was sent or failed.
    fn finish_front(&mut self, outcome: Result<(), IsmError>) {
        match self.queue.pop_front().map(|front| front.attachment) {
            Some(Attachment::Offer(dmb, _)) => self.outcomes.push((dmb, outcome)),
            Some(Attachment::Page(_)) => self.lost_page |= outcome.is_err(),
            Some(Attachment::None | Attachment::File(_)) | None => {}
        }
    }

    /// Outcomes of the offers that were sent or failed since the last call.
    pub(super) fn take_outcomes(&mut self) -> Vec<(Key, Result<(), IsmError>)> {
        std::mem::take(&mut self.outcomes)
    }

    /// Whether the queue waits for room in the socket.
    pub(super) fn is_full(&self) -> bool {
        matches!(self.state, State::Full { .. })
    }

    /// Whether sending has failed for good.
    pub(super) fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    /// Whether sending has failed for good since the last call.
    pub(super) fn take_breakage(&mut self) -> bool {
        std::mem::take(&mut self.broke)
    }

    /// Number of descriptors in the queue.
    pub(super) fn descriptors(&self) -> usize {
        let has_one = |queued: &&Queued| queued.attachment.descriptor().is_some();
        self.queue.iter().filter(has_one).count()
    }

    /// Upper bound of the descriptors that the peer has not received yet: those in the queue, and those
    /// sent since [`Self::count_unread`] has last asked the kernel.
    pub(super) fn in_flight(&self) -> usize {
        self.unread + self.descriptors()
    }

    /// Asks the kernel what the peer has received. Returns an upper bound of the descriptors that
    /// were sent and that it has not received.
    pub(super) fn count_unread(&mut self, socket: &Socket) -> usize {
        if self.unread > 0 {
            self.unread = self.unread.min(socket.unread());
        }
        self.unread
    }

    /// When to call [`Self::handle_timeout`], if ever.
    pub(super) fn timeout(&self) -> Option<Instant> {
        match self.state {
            State::Full { since } if self.descriptors() > 0 => Some(since + STALLED),
            State::Starved { until } => Some(until),
            _ => None,
        }
    }

    /// Fails offers that were queued too long, and sends a withdrawal again.
    pub(super) fn handle_timeout(&mut self, socket: &Socket, now: Instant) {
        match self.state {
            State::Full { since } if now.duration_since(since) >= STALLED => {
                self.fail_offers(IsmError::Unreachable);
            }
            State::Starved { until } if now >= until => self.flush(socket),
            _ => {}
        }
    }

    /// Fails all offers in the queue, and drops every other message with a descriptor.
    pub(super) fn fail_offers(&mut self, error: IsmError) {
        self.lost_page |= self.has_page();
        let offers = self.queue.iter();
        let offers = offers.filter_map(|queued| queued.attachment.dmb());
        self.outcomes.extend(offers.map(|dmb| (dmb, Err(error))));
        self.queue
            .retain(|queued| queued.attachment.descriptor().is_none());
    }
}

/// Whether sending failed because this process or the kernel lacks resources. The channel still
/// works then.
fn is_local_shortage(error: &io::Error) -> bool {
    let is_in_flight = error.raw_os_error() == Some(Errno::TOOMANYREFS.raw_os_error());
    is_in_flight || descriptors::is_short_of_room(error)
}
