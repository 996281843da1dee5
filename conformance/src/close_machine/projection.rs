//! What the engine does, seen as states of the abstract [model](super::model).
//!
//! One step of the model is several of the engine: what is decided is sent at once, and
//! the peer's RNIC acknowledges it at once, so that flags may be sent while bytes are
//! in flight. What the model does not know is not sent: that bytes were read. A link that
//! fails is one that the connection does not use, until the last one does.
//!
//! Of each state of the model only so many states of the engine are followed: what is
//! covered is covered, what is not may hide behind others.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};
use std::hash::Hash;

use smc_proto::connection::CloseState::{self, Closed, PeerAbortWait, ProcessAbort};
use smc_proto::connection::{FatalCause, Shutdown};
use smc_proto::wire::cdc::ConnectionFlags;

use super::model::{ABORTED, CLOSED, DONE, Peer, State};
use super::side::Application;
use super::world::{CONFIG, NOW, ahead};
use super::{Bounds, World};
use crate::explore::{self, Progress};

/// A row of the table of the close handshake, and a column.
pub type Cell = (CloseState, Event);

/// An event of a connection that affects how it ends.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Event {
    /// The application shuts its sending direction down.
    ShutDown,
    /// The application closes.
    Close,
    /// The application aborts.
    Abort,
    /// The peer sends no more.
    PeerDone,
    /// The peer closed.
    PeerClosed,
    /// The peer aborted.
    PeerAborted,
    /// A deadline passes.
    Deadline,
    /// The last link is gone.
    LinksLost,
}

impl Event {
    /// All there are.
    pub const ALL: [Self; 8] = [
        Self::ShutDown,
        Self::Close,
        Self::Abort,
        Self::PeerDone,
        Self::PeerClosed,
        Self::PeerAborted,
        Self::Deadline,
        Self::LinksLost,
    ];

    /// Returns the event that new flags announce.
    fn of(changes: ConnectionFlags) -> Option<Self> {
        [
            (ConnectionFlags::ABNORMAL_CLOSE, Self::PeerAborted),
            (ConnectionFlags::PEER_CONNECTION_CLOSED, Self::PeerClosed),
            (ConnectionFlags::SENDING_DONE, Self::PeerDone),
        ]
        .into_iter()
        .find_map(|(flag, event)| changes.contains(flag).then_some(event))
    }
}

/// What was found.
#[derive(Clone, Debug, Default)]
pub struct Projection {
    /// The states of the model that the engine reaches, each with how many of its own
    /// stand for it.
    pub states: HashMap<State, u8>,
    /// What happened in which state.
    pub cells: BTreeSet<Cell>,
}

/// A state that may follow, and what happened to which side.
type Next = (Projected, Option<(usize, Event)>);

/// Two connections, and what the model remembers of them.
#[derive(Clone)]
struct Projected {
    world: World,
    bounds: Bounds,
    /// Bytes posted.
    posted: [u8; 2],
    /// Of each message in flight, whether it published bytes.
    bytes: [VecDeque<bool>; 2],
    got: [ConnectionFlags; 2],
    /// Whether a side was notified that the last link is gone, or ended after that.
    lost: [bool; 2],
}

impl Projected {
    fn new(bounds: Bounds) -> Self {
        Self {
            world: World::new(bounds),
            bounds,
            posted: [0; 2],
            bytes: Default::default(),
            got: [ConnectionFlags::empty(); 2],
            lost: [false; 2],
        }
    }

    fn project(&self) -> State {
        State {
            peers: [0, 1].map(|side| self.peer(side)),
            channels: [0, 1].map(|side| {
                let messages = self.world.sides[side].under_way.iter();
                let taken = self.world.sides[1 - side].taken;
                let messages = messages.zip(&self.bytes[side]).map(|(posted, bytes)| {
                    // What was overtaken has no effect any more.
                    match ahead(posted.cdc.sequence, taken) {
                        true => (bits(posted.cdc.connection_flags), *bytes),
                        false => Default::default(),
                    }
                });
                messages.collect()
            }),
            links: self.world.links,
        }
    }

    fn peer(&self, side: usize) -> Peer {
        let this = &self.world.sides[side];
        let state = this.connection.state();
        let is_closed = this.application == Application::Closed;
        let lost = if self.lost[side] { ABORTED } else { 0 };
        let (sent, got) = (bits(this.final_flags) | lost, bits(self.got[side]) | lost);
        // The engine is done with its echo; the model lets the application close, too.
        let echoed = state == Closed && !is_closed && lost == 0;
        let over = matches!(state, Closed | PeerAbortWait | ProcessAbort);
        Peer {
            state: if echoed { ProcessAbort } else { state },
            application: match this.application {
                Application::Open => 0,
                Application::ShutDown => 1,
                Application::Closed => 2,
            },
            pending: match over {
                true => 0,
                false => this.written.wrapping_sub(self.posted[side]),
            },
            unread: !is_closed && !this.connection.readable().is_empty(),
            sent,
            got,
        }
    }

    /// Hash that distinguishes it from others that are seen as the same.
    fn print(&self) -> u128 {
        explore::fingerprint(|hasher| {
            self.project().hash(hasher);
            self.world.hash(hasher);
        })
    }

    /// Every state that may follow.
    fn follow(&self) -> Vec<Next> {
        let mut all = Vec::new();
        for side in [0, 1] {
            self.applications(side, &mut all);
            self.bytes_leave(side, &mut all);
            for place in 0..self.world.sides[side].under_way.len() {
                if place == 0 || self.bounds.reorder {
                    let flags = self.world.sides[side].under_way[place].cdc.connection_flags;
                    let event = Event::of(flags.difference(self.got[1 - side]));
                    let happens = event.map(|event| (1 - side, event));
                    all.push(self.after(happens, |next| next.arrive(side, place)));
                }
            }
            let connection = &self.world.sides[side].connection;
            if let Some(at) = connection.next_timeout().filter(|_| self.world.links > 0) {
                all.push(self.after(Some((side, Event::Deadline)), |next| {
                    next.world.sides[side].connection.on_timeout(at, &CONFIG);
                }));
            }
            let over = self.peer(side).state == Closed;
            if self.world.links == 0 && !over {
                let happens = Some((side, Event::LinksLost));
                all.push(self.after(happens, |next| next.report_loss(side)));
            }
        }
        if self.world.links > 0 {
            all.push(self.after(None, Self::lose_link));
        }
        all
    }

    fn applications(&self, side: usize, all: &mut Vec<Next>) {
        let this = &self.world.sides[side];
        let open = this.application == Application::Open;
        let pending = this.written.wrapping_sub(self.posted[side]);
        let room = !this.connection.send_space().is_empty();
        if open && pending < self.bounds.bytes && room {
            all.push(self.after(None, |next| {
                let this = &mut next.world.sides[side];
                this.written = this.written.wrapping_add(1);
                let _ = this.connection.commit(NOW, &CONFIG, 1);
            }));
        }
        if this.application == Application::Closed {
            return;
        }
        let unread = this.connection.readable().len();
        if unread > 0 {
            all.push(self.after(None, |next| {
                let _ = next.world.sides[side].connection.consume(unread);
            }));
        }
        if open && self.world.links > 0 {
            all.push(self.after(Some((side, Event::ShutDown)), |next| {
                next.shut(side, Shutdown::Write, Application::ShutDown);
            }));
        }
        all.push(self.after(Some((side, Event::Close)), |next| {
            next.shut(side, Shutdown::Both, Application::Closed);
        }));
        all.push(self.after(Some((side, Event::Abort)), |next| {
            next.report_if_lost(side);
            let this = &mut next.world.sides[side];
            this.application = Application::Closed;
            this.connection.abort(NOW, &CONFIG);
        }));
    }

    fn bytes_leave(&self, side: usize, all: &mut Vec<Next>) {
        let this = &self.world.sides[side];
        let pending = this.written.wrapping_sub(self.posted[side]) > 0;
        let room = self.world.links > 0 && this.under_way.len() < self.bounds.queue;
        if pending && room && this.connection.wants_work() {
            all.push(self.after(None, |next| next.transmit(side)));
        }
    }

    fn after(&self, happens: Option<(usize, Event)>, change: impl FnOnce(&mut Self)) -> Next {
        let mut next = self.clone();
        change(&mut next);
        for side in [0, 1] {
            next.send(side);
        }
        (next, happens)
    }

    /// Sends what is decided and was not sent.
    fn send(&mut self, side: usize) {
        let this = &self.world.sides[side];
        if this.connection.wants_work() && self.world.links > 0 {
            let mut peek = self.clone();
            peek.transmit(side);
            if peek.world.sides[side].final_flags != this.final_flags {
                *self = peek;
            }
        }
    }

    fn transmit(&mut self, side: usize) {
        let bytes = self.peer(side).pending > 0;
        if self.world.transmit(side as u8).is_err() {
            return;
        }
        let this = &mut self.world.sides[side];
        if let Some(posted) = this.under_way.back_mut() {
            // The peer's RNIC has it.
            posted.stale = true;
            let record = posted.record;
            this.connection.on_notify_completed(NOW, &CONFIG, record);
            self.bytes[side].push_back(bytes);
            self.posted[side] = this.written;
        }
    }

    fn arrive(&mut self, side: usize, place: usize) {
        let cdc = self.world.sides[side].under_way[place].cdc;
        self.bytes[side].remove(place);
        self.got[1 - side] |= cdc.connection_flags;
        let _ = self.world.arrive(side as u8, place as u8);
    }

    fn shut(&mut self, side: usize, how: Shutdown, then: Application) {
        self.report_if_lost(side);
        self.world.shut(side as u8, how, then);
    }

    /// Notifies a side that asks for anything first that no link is left.
    fn report_if_lost(&mut self, side: usize) {
        if self.world.links == 0 {
            self.report_loss(side);
        }
    }

    fn lose_link(&mut self) {
        self.world.links -= 1;
        if self.world.links == 0 {
            for side in &mut self.world.sides {
                side.under_way.clear();
            }
            self.bytes = Default::default();
        }
    }

    fn report_loss(&mut self, side: usize) {
        self.lost[side] = true;
        let connection = &mut self.world.sides[side].connection;
        connection.on_link_changed(NOW, &CONFIG);
        connection.on_fatal(NOW, &CONFIG, FatalCause::LinkLost);
    }
}

fn bits(flags: ConnectionFlags) -> u8 {
    let of = |flag, bit| if flags.contains(flag) { bit } else { 0 };
    of(ConnectionFlags::SENDING_DONE, DONE)
        | of(ConnectionFlags::PEER_CONNECTION_CLOSED, CLOSED)
        | of(ConnectionFlags::ABNORMAL_CLOSE, ABORTED)
}

/// Lets everything happen in every order; of each state of the model so many states of
/// the engine are followed.
#[must_use]
pub fn project(bounds: Bounds, each: u8, mut progress: impl FnMut(Progress)) -> Projection {
    let first = Projected::new(bounds);
    let mut found = Projection::default();
    found.states.insert(first.project(), 1);
    let mut waiting = VecDeque::from([first]);
    let mut kept = HashSet::new();
    let mut explored = 0;
    while let Some(state) = waiting.pop_front() {
        for (next, happens) in state.follow() {
            found.cells.extend(happens.map(|(side, event)| {
                let connection = &state.world.sides[side].connection;
                (connection.state(), event)
            }));
            let count = found.states.entry(next.project()).or_insert(0);
            if *count < each && kept.insert(next.print()) {
                *count += 1;
                waiting.push_back(next);
            }
        }
        explored += 1;
        if explored % 0x4000 == 0 {
            let found = explored + waiting.len();
            progress(Progress { found, explored });
        }
    }
    found
}
