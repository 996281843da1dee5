//! The abstract machine of closing and aborting: RFC 7609 4.8, with timers, and
//! nothing of how an engine does it.
//!
//! A peer is its state, what its application did, whether bytes wait to be sent or read,
//! and the flags that it sent and got. A channel holds messages, each the flags of its
//! sender and whether bytes came with it.

use std::collections::{HashSet, VecDeque};

use smc_proto::connection::CloseState::{
    self, Active, AppCloseWait1, AppCloseWait2, AppFinCloseWait, Closed, PeerAbortWait,
    PeerCloseWait1, PeerCloseWait2, PeerFinCloseWait, ProcessAbort,
};

use super::Bounds;
use super::rules::Rules;

/// Sending is done.
pub(super) const DONE: u8 = 1;
/// Everything is.
pub(super) const CLOSED: u8 = 2;
/// The connection was aborted.
pub(super) const ABORTED: u8 = 4;

/// One peer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer {
    /// State of the close handshake.
    pub state: CloseState,
    /// Whether its application has shut its sending direction down (1), or closed (2).
    pub application: u8,
    /// Bytes that are not sent yet.
    pub pending: u8,
    /// Whether bytes are not read yet.
    pub unread: bool,
    /// Flags it sent.
    pub sent: u8,
    /// Flags it got.
    pub got: u8,
}

/// Both peers and what is between them.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct State {
    /// The peers.
    pub peers: [Peer; 2],
    /// Messages of each peer: flags, and whether bytes came with it.
    pub channels: [Vec<(u8, bool)>; 2],
    /// Links that are left.
    pub links: u8,
}

impl State {
    /// Nothing has happened.
    #[must_use]
    pub const fn first(links: u8) -> Self {
        let peer = Peer {
            state: Active,
            application: 0,
            pending: 0,
            unread: false,
            sent: 0,
            got: 0,
        };
        Self {
            peers: [peer; 2],
            channels: [Vec::new(), Vec::new()],
            links,
        }
    }

    /// A peer changes its state, and perhaps sends something.
    fn with(&self, side: usize, peer: Peer, message: Option<(u8, bool)>) -> Self {
        let mut next = self.clone();
        next.peers[side] = peer;
        if self.links > 0 {
            next.channels[side].extend(message);
        }
        next
    }

    /// Every state that may follow.
    fn follow(&self, bounds: &Bounds, rules: Rules, into: &mut Vec<Self>) {
        for side in [0, 1] {
            self.writes(side, bounds, rules, into);
            self.shuts_down(side, rules, into);
            self.closes(side, rules, into);
            self.aborts(side, rules, into);
            self.loses_links(side, rules, into);
            self.waits_in_vain(side, rules, into);
            self.receives(side, bounds, rules, into);
        }
        if self.links > 1 {
            let links = self.links - 1;
            into.push(Self {
                links,
                ..self.clone()
            });
        } else if self.links == 1 {
            into.push(Self {
                peers: self.peers,
                channels: Default::default(),
                links: 0,
            });
        }
    }

    fn writes(&self, side: usize, bounds: &Bounds, rules: Rules, into: &mut Vec<Self>) {
        let peer = self.peers[side];
        let Peer {
            state,
            application,
            pending,
            ..
        } = peer;
        let may_write = application == 0 && matches!(state, Active | AppCloseWait1);
        let is_taken = !rules.early || peer.got & CLOSED == 0;
        if may_write && is_taken && pending < bounds.bytes {
            let pending = pending + 1;
            into.push(self.with(side, Peer { pending, ..peer }, None));
        }
        let lives = !matches!(state, Closed | ProcessAbort | PeerAbortWait);
        let room = self.links > 0 && self.channels[side].len() < bounds.queue;
        if pending > 0 && room && lives && peer.sent == 0 {
            let pending = if rules.together { 0 } else { pending - 1 };
            let message = (peer.sent, true);
            let next = self.with(side, Peer { pending, ..peer }, Some(message));
            into.push(if pending == 0 {
                next.drained(side)
            } else {
                next
            });
        }
        if peer.unread && application < 2 {
            let read = Peer {
                unread: false,
                ..peer
            };
            into.push(self.with(side, read, None));
        }
    }

    /// Nothing waits any more for which a close was put off.
    fn drained(self, side: usize) -> Self {
        let peer = self.peers[side];
        let mut next = Vec::new();
        match (peer.application, peer.state) {
            (1, Active | AppCloseWait1) => {
                let open = Peer {
                    application: 0,
                    ..peer
                };
                self.with(side, open, None)
                    .shuts_down(side, Rules::NONE, &mut next);
            }
            (2, Active | AppCloseWait1) => {
                let open = Peer {
                    application: 1,
                    ..peer
                };
                self.with(side, open, None)
                    .closes(side, Rules::NONE, &mut next);
            }
            _ => {}
        }
        next.pop().unwrap_or(self)
    }

    fn shuts_down(&self, side: usize, rules: Rules, into: &mut Vec<Self>) {
        let peer = self.peers[side];
        if peer.application != 0 || self.links == 0 {
            return;
        }
        if peer.pending > 0 {
            if rules.lingers && matches!(peer.state, Active | AppCloseWait1) {
                let later = Peer {
                    application: 1,
                    ..peer
                };
                into.push(self.with(side, later, None));
            }
            return;
        }
        let state = match peer.state {
            Active => PeerCloseWait1,
            AppCloseWait1 => AppCloseWait2,
            _ => return,
        };
        let sent = peer.sent | DONE;
        let done = Peer {
            state,
            application: 1,
            sent,
            ..peer
        };
        into.push(self.with(side, done, Some((sent, false))));
    }

    /// close(), which is an abort if bytes were neither sent nor read.
    fn closes(&self, side: usize, rules: Rules, into: &mut Vec<Self>) {
        let peer = self.peers[side];
        if peer.application == 2 {
            return;
        }
        let may_linger = matches!(peer.state, Active | AppCloseWait1) && self.links > 0;
        if rules.lingers && may_linger && peer.pending > 0 && !peer.unread {
            let later = Peer {
                application: 2,
                ..peer
            };
            into.push(self.with(side, later, None));
            return;
        }
        if peer.state == Closed {
            into.push(self.with(side, peer.over(Closed, peer.sent), None));
        }
        if self.links == 0 {
            return;
        }
        let has_sent_last = peer.sent & (CLOSED | ABORTED) != 0;
        let lives = !matches!(peer.state, Closed | ProcessAbort | PeerAbortWait);
        let aborts = peer.unread || peer.pending > 0;
        let sent = peer.sent | if aborts { ABORTED } else { CLOSED };
        let (state, sends) = match peer.state {
            _ if aborts && lives && !has_sent_last => (PeerAbortWait, true),
            Active => (PeerCloseWait1, true),
            AppCloseWait1 | AppCloseWait2 if peer.got & CLOSED != 0 => (Closed, true),
            AppCloseWait1 | AppCloseWait2 => (PeerFinCloseWait, true),
            PeerCloseWait1 | PeerCloseWait2 if !has_sent_last => (peer.state, true),
            AppFinCloseWait => (Closed, !has_sent_last),
            PeerAbortWait => (PeerAbortWait, false),
            ProcessAbort => (Closed, peer.sent & ABORTED == 0),
            _ => return,
        };
        let sent = match (peer.state, sends) {
            (_, false) => peer.sent,
            (ProcessAbort, true) => peer.sent | ABORTED,
            _ => sent,
        };
        let message = sends.then_some((sent, false));
        into.push(self.with(side, peer.over(state, sent), message));
    }

    fn aborts(&self, side: usize, rules: Rules, into: &mut Vec<Self>) {
        let peer = self.peers[side];
        let over = matches!(peer.state, Closed | ProcessAbort | PeerAbortWait);
        if rules.aborts && peer.application < 2 && !over && self.links > 0 {
            let (peer, message) = peer.aborted();
            let peer = Peer {
                application: 2,
                ..peer
            };
            into.push(self.with(side, peer, Some((message, false))));
        }
    }

    fn loses_links(&self, side: usize, rules: Rules, into: &mut Vec<Self>) {
        let peer = self.peers[side];
        if self.links > 0 {
            return;
        }
        let lost = Peer {
            state: Closed,
            pending: 0,
            sent: peer.sent | ABORTED,
            got: peer.got | ABORTED,
            unread: peer.unread && !rules.purges,
            application: peer.application,
        };
        if peer.state != Closed {
            into.push(self.with(side, lost, None));
        }
        if peer.application < 2 {
            let closed = Peer {
                application: 2,
                unread: false,
                ..lost
            };
            into.push(self.with(side, closed, None));
        }
    }

    /// The timers of close states: first an abort, then the end.
    fn waits_in_vain(&self, side: usize, rules: Rules, into: &mut Vec<Self>) {
        let peer = self.peers[side];
        let lingers = peer.application == 2 && matches!(peer.state, Active | AppCloseWait1);
        if self.links > 0 && rules.lingers && lingers {
            let (peer, message) = peer.aborted();
            into.push(self.with(side, peer, Some((message, false))));
            return;
        }
        if self.links > 0 && peer.state == PeerAbortWait && peer.application < 2 {
            let state = ProcessAbort;
            into.push(self.with(side, Peer { state, ..peer }, None));
            return;
        }
        let waits = matches!(
            peer.state,
            PeerCloseWait1 | PeerCloseWait2 | PeerFinCloseWait | PeerAbortWait
        );
        if self.links == 0 || !waits || peer.application < 2 {
            return;
        }
        let final_message = rules.final_message && peer.sent & CLOSED != 0;
        if peer.state != PeerAbortWait && peer.sent & ABORTED == 0 && !final_message {
            let sent = peer.sent | ABORTED;
            into.push(self.with(side, peer.over(PeerAbortWait, sent), Some((sent, false))));
        } else {
            into.push(self.with(side, peer.over(Closed, peer.sent), None));
        }
    }

    /// A message of a peer arrives, whichever it is.
    fn receives(&self, side: usize, bounds: &Bounds, rules: Rules, into: &mut Vec<Self>) {
        let other = 1 - side;
        let places = match bounds.reorder {
            true => self.channels[side].len(),
            false => self.channels[side].len().min(1),
        };
        for place in 0..places {
            let mut next = self.clone();
            let (flags, mut bytes) = next.channels[side].remove(place);
            if rules.newest {
                for overtaken in &mut next.channels[side][..place] {
                    bytes |= std::mem::take(overtaken).1;
                }
            }
            let peer = &mut next.peers[other];
            peer.got |= flags;
            peer.unread |= bytes && peer.application < 2 && peer.state != Closed;
            let answer = peer.receive(rules);
            if self.links > 0 {
                next.channels[other].extend(answer.map(|flags| (flags, false)));
            }
            into.push(next);
        }
    }
}

impl Peer {
    /// The application of the peer has gone, with whatever was pending or unread.
    fn over(&self, state: CloseState, sent: u8) -> Self {
        Self {
            state,
            application: 2,
            pending: 0,
            unread: false,
            sent,
            got: self.got,
        }
    }

    /// The peer has aborted, and sends that.
    fn aborted(&self) -> (Self, u8) {
        let sent = self.sent | ABORTED;
        let peer = Self {
            state: PeerAbortWait,
            pending: 0,
            unread: false,
            sent,
            ..*self
        };
        (peer, sent)
    }

    /// Effect of the flags that the peer got, and its answer.
    fn receive(&mut self, rules: Rules) -> Option<u8> {
        let mut answer = None;
        if self.state == Closed {
            return None;
        }
        if self.got & ABORTED != 0 {
            let has_aborted = self.state == PeerAbortWait;
            let final_message = rules.final_message && self.sent & CLOSED != 0;
            if self.sent & ABORTED == 0 && !has_aborted && !final_message {
                self.sent |= ABORTED;
                answer = Some(self.sent);
            }
            self.state = match has_aborted && !rules.early || self.application == 2 {
                true => Closed,
                false => ProcessAbort,
            };
            (self.pending, self.unread) = (0, false);
        } else if self.got != 0 {
            let closed = self.got & CLOSED != 0;
            let has_sent_last = self.sent & (CLOSED | ABORTED) != 0;
            let lives = matches!(self.state, Active | AppCloseWait1);
            if rules.early && closed && lives && self.pending > 0 {
                let (peer, message) = self.aborted();
                *self = peer;
                return Some(message);
            }
            self.state = match self.state {
                Active => AppCloseWait1,
                PeerCloseWait1 | PeerCloseWait2 if closed => {
                    match self.application == 2 && has_sent_last {
                        true => Closed,
                        false => AppFinCloseWait,
                    }
                }
                PeerCloseWait1 => PeerCloseWait2,
                PeerFinCloseWait if closed => Closed,
                state => state,
            };
        }
        answer
    }
}

/// Every state of the model within the bounds: the completions in them do not matter.
#[must_use]
pub fn states(bounds: &Bounds, rules: Rules) -> HashSet<State> {
    let first = State::first(bounds.links);
    let mut seen = HashSet::from([first.clone()]);
    let mut waiting = VecDeque::from([first]);
    let mut next = Vec::new();
    while let Some(state) = waiting.pop_front() {
        state.follow(bounds, rules, &mut next);
        for state in next.drain(..) {
            if seen.insert(state.clone()) {
                waiting.push_back(state);
            }
        }
    }
    seen
}
