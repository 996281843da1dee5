//! Messages on their way to a peer: sent at once, or queued while its socket has no room.
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
//! One flush may send offers of many DMBs. Each outcome is kept until the device takes it,
//! whichever call flushed and whether or not the flush failed later.

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

/// Messages that may wait for room in the socket before further ones are refused.
const BACKLOG: usize = 64;

/// How long a peer may leave its socket full before the offers that wait for room fail.
pub(super) const STALLED: Duration = Duration::from_secs(5);

/// Pause before a message is sent again for which the kernel had no memory.
const RETRY: Duration = Duration::from_millis(100);

/// A message that waits for room.
#[derive(Debug)]
struct Waiting {
    message: Message,
    freight: Freight,
}

/// What a message has with it.
#[derive(Debug)]
enum Freight {
    None,
    /// The DMB it offers.
    Offer(Key, OwnedFd),
    /// A further page of doorbells.
    Page(OwnedFd),
    /// What the peer does without if it cannot be sent.
    File(OwnedFd),
}

impl Freight {
    fn descriptor(&self) -> Option<&OwnedFd> {
        match self {
            Self::None => None,
            Self::Offer(_, fd) | Self::Page(fd) | Self::File(fd) => Some(fd),
        }
    }

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
    /// The peer has read nothing since then.
    Full {
        since: Instant,
    },
    /// The kernel had no memory for a message that must not be lost.
    Starved {
        until: Instant,
    },
    /// The peer takes no messages any more.
    Broken,
}

/// The queue of messages to one peer.
#[derive(Debug)]
pub(super) struct Outbox {
    waiting: VecDeque<Waiting>,
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
    /// A queue behind the first message, which has a descriptor and was sent.
    pub(super) fn new() -> Self {
        Self {
            waiting: VecDeque::new(),
            outcomes: Vec::new(),
            state: State::Open,
            unread: 1,
            broke: false,
            lost_page: false,
        }
    }

    /// Whether one more message can be queued.
    ///
    /// # Errors
    /// [`IsmError::Busy`] if too many wait, [`IsmError::Unreachable`] if the peer has not
    /// read for [`STALLED`] or takes no more.
    //= SHM-028
    pub(super) fn check_room(&self, now: Instant) -> Result<(), IsmError> {
        match self.state {
            State::Broken => Err(IsmError::Unreachable),
            State::Full { since } if now.duration_since(since) >= STALLED => {
                Err(IsmError::Unreachable)
            }
            _ if self.waiting.len() >= BACKLOG => Err(IsmError::Busy),
            _ => Ok(()),
        }
    }

    /// Queues a message; [`Self::flush`] sends it.
    pub(super) fn push(&mut self, message: Message, offer: Option<(Key, OwnedFd)>) {
        let freight = offer.map_or(Freight::None, |(dmb, fd)| Freight::Offer(dmb, fd));
        self.waiting.push_back(Waiting { message, freight });
    }

    /// Queues a further page of doorbells; [`Self::flush`] sends it.
    pub(super) fn push_page(&mut self, (at, rung): (u32, bool), fd: OwnedFd) {
        self.waiting.push_back(Waiting {
            message: Message::Page { at, rung },
            freight: Freight::Page(fd),
        });
    }

    /// Queues a message with a file that the peer can do without; [`Self::flush`] sends it.
    pub(super) fn push_file(&mut self, message: Message, fd: OwnedFd) {
        let freight = Freight::File(fd);
        self.waiting.push_back(Waiting { message, freight });
    }

    /// Whether a page of doorbells waits. The next one is to come behind it, and only if it was
    /// sent.
    pub(super) fn has_page(&self) -> bool {
        let is_page = |at: &Waiting| matches!(at.freight, Freight::Page(_));
        self.waiting.iter().any(is_page)
    }

    /// Whether a page of doorbells could not be sent since the last call.
    pub(super) fn take_lost_page(&mut self) -> bool {
        std::mem::take(&mut self.lost_page)
    }

    /// Takes the offer of a DMB back if it was not sent yet; whether that was so. No
    /// outcome of the DMB is reported later.
    pub(super) fn cancel(&mut self, dmb: Key) -> bool {
        self.outcomes.retain(|(of, _)| *of != dmb);
        let before = self.waiting.len();
        let is_its = |at: &Waiting| at.freight.dmb() == Some(dmb);
        self.waiting.retain(|at| !is_its(at));
        self.waiting.len() != before
    }

    /// Sends what waits, as far as there is room.
    pub(super) fn flush(&mut self, socket: &Socket) {
        if self.is_broken() {
            return self.fail_offers(IsmError::Unreachable);
        }
        while let Some(front) = self.waiting.front() {
            let fd = front.freight.descriptor().map(AsFd::as_fd);
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
                Err(error) if !is_own_want(&error) => {
                    (self.state, self.broke) = (State::Broken, true);
                    return self.fail_offers(IsmError::Unreachable);
                }
                // A withdrawal must not be lost: the peer would write on.
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

    fn finish_front(&mut self, outcome: Result<(), IsmError>) {
        match self.waiting.pop_front().map(|at| at.freight) {
            Some(Freight::Offer(dmb, _)) => self.outcomes.push((dmb, outcome)),
            Some(Freight::Page(_)) => self.lost_page |= outcome.is_err(),
            Some(Freight::None | Freight::File(_)) | None => {}
        }
    }

    /// The DMBs whose offers were sent, or failed, and were not taken yet.
    pub(super) fn take_outcomes(&mut self) -> Vec<(Key, Result<(), IsmError>)> {
        std::mem::take(&mut self.outcomes)
    }

    /// Whether messages wait until the socket is writable.
    pub(super) fn is_full(&self) -> bool {
        matches!(self.state, State::Full { .. })
    }

    /// Whether the peer takes no messages any more.
    pub(super) fn is_broken(&self) -> bool {
        self.state == State::Broken
    }

    /// Whether the peer has ceased to take messages since the last call.
    pub(super) fn take_breakage(&mut self) -> bool {
        std::mem::take(&mut self.broke)
    }

    /// Messages with a descriptor that wait for room.
    pub(super) fn descriptors(&self) -> usize {
        let with_one = |at: &&Waiting| at.freight.descriptor().is_some();
        self.waiting.iter().filter(with_one).count()
    }

    /// Descriptors that wait, and that the peer may not have received yet: at most so many.
    pub(super) fn in_flight(&self) -> usize {
        self.unread + self.descriptors()
    }

    /// Asks the kernel what the peer has received; how many descriptors it may not have.
    pub(super) fn count_unread(&mut self, socket: &Socket) -> usize {
        if self.unread > 0 {
            self.unread = self.unread.min(socket.unread());
        }
        self.unread
    }

    /// When to call [`Self::handle_timeout`], if time alone may change something.
    pub(super) fn timeout(&self) -> Option<Instant> {
        match self.state {
            State::Full { since } if self.descriptors() > 0 => Some(since + STALLED),
            State::Starved { until } => Some(until),
            _ => None,
        }
    }

    /// Fails the offers that have waited too long, and retries what had no memory.
    pub(super) fn handle_timeout(&mut self, socket: &Socket, now: Instant) {
        match self.state {
            State::Full { since } if now.duration_since(since) >= STALLED => {
                self.fail_offers(IsmError::Unreachable);
            }
            State::Starved { until } if now >= until => self.flush(socket),
            _ => {}
        }
    }

    /// Fails all offers that wait, and drops a page that waits.
    pub(super) fn fail_offers(&mut self, error: IsmError) {
        self.lost_page |= self.has_page();
        let offers = self.waiting.iter().filter_map(|at| at.freight.dmb());
        self.outcomes.extend(offers.map(|dmb| (dmb, Err(error))));
        self.waiting.retain(|at| at.freight.descriptor().is_none());
    }
}

/// Whether sending failed for want of resources at this side: the channel is as good as
/// before.
fn is_own_want(error: &io::Error) -> bool {
    let is_in_flight = error.raw_os_error() == Some(Errno::TOOMANYREFS.raw_os_error());
    is_in_flight || descriptors::is_short_of_room(error)
}
