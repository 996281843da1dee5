//! Two connections with what is between them, and what may happen next.

use std::collections::VecDeque;
use std::hash::{Hash, Hasher};

use smc_proto::command::DataTransmit;
use smc_proto::config::ConnectionConfig;
use smc_proto::connection::{
    CdcOutcome, CloseCause, CloseState, Connection, ConnectionParams, FatalCause, Notices, Ring,
    Shutdown,
};
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::cdc::ConnectionFlags;
use smc_proto::wire::types::AlertToken;

use super::side::{Application, Posted, Side};
use super::{Action, Bounds};
use crate::explore::{self, Machine};

/// All that happens does so now; a deadline that passes leaves the clock where it was. So
/// deadlines differ by what they are for, and not by when.
pub(super) const NOW: Instant = Instant::from_nanos(1);

/// Waits of whole seconds, none like another.
pub(super) const CONFIG: ConnectionConfig = {
    let mut config = ConnectionConfig::DEFAULT;
    config.close_wait = Duration::from_secs(7);
    config.abort_wait = Duration::from_secs(5);
    config.linger = Duration::from_secs(3);
    config.cursor_lag = Duration::from_secs(1);
    config
};

/// Two connections with what is between them.
#[derive(Clone, Debug)]
pub struct World {
    pub(super) sides: [Side; 2],
    pub(super) links: u8,
    bounds: Bounds,
}

impl World {
    /// Both connections ACTIVE, with rings that hold all bytes of the bounds.
    #[must_use]
    pub fn new(bounds: Bounds) -> Self {
        let ring = Ring::new(0, 256).expect("a ring");
        let mut params = ConnectionParams::new(AlertToken(7), ring, ring, 256);
        params.nodelay = true;
        let side = Side {
            connection: Connection::new(&params, &CONFIG),
            application: Application::Open,
            written: 0,
            under_way: VecDeque::new(),
            arrived: VecDeque::new(),
            posted: 0,
            taken: 0,
            cut_off: false,
            closed: false,
            final_flags: ConnectionFlags::empty(),
        };
        Self {
            sides: [side.clone(), side],
            links: bounds.links,
            bounds,
        }
    }

    /// States of the close handshake.
    #[must_use]
    pub fn states(&self) -> [CloseState; 2] {
        self.sides.each_ref().map(|side| side.connection.state())
    }

    fn side(&mut self, side: u8) -> &mut Side {
        &mut self.sides[usize::from(side)]
    }

    pub(super) fn shut(&mut self, side: u8, how: Shutdown, then: Application) {
        let side = self.side(side);
        side.application = then;
        side.connection.shutdown(NOW, &CONFIG, how);
    }

    pub(super) fn transmit(&mut self, side: u8) -> Result<(), String> {
        let links = self.links;
        let side = self.side(side);
        let mut transmit = DataTransmit::EMPTY;
        let sent = side
            .connection
            .next_transmit(NOW, &CONFIG, 0, &mut transmit);
        let sent = sent.ok_or("a connection that wanted to transmit sends nothing")?;
        let cdc = transmit.cdc;
        let posted = Posted {
            cdc,
            record: sent.record,
            stale: false,
        };
        // Of a validation nothing but its number counts.
        if !posted.is_validation() {
            side.check_order(&cdc, sent.bytes)?;
            side.final_flags |= cdc.connection_flags;
            side.posted = cdc.sequence;
        }
        // What is posted to a link that has failed goes nowhere.
        if !side.cut_off && links > 0 {
            side.under_way.push_back(posted);
        }
        Ok(())
    }

    pub(super) fn arrive(&mut self, side: u8, place: u8) -> Result<(), String> {
        let posted = self.side(side).under_way.remove(place.into());
        let posted = posted.ok_or("no such message")?;
        let peer = self.side(1 - side);
        let outcome = peer.connection.on_cdc(NOW, &CONFIG, &posted.cdc);
        match outcome {
            CdcOutcome::Misbehaved(what) => return Err(format!("{}: {what}", posted.cdc)),
            CdcOutcome::DataLost => return Err(format!("{}: data lost", posted.cdc)),
            CdcOutcome::Applied | CdcOutcome::BackwardCursor | CdcOutcome::Ignored(_) => {
                if !posted.is_validation() && ahead(posted.cdc.sequence, peer.taken) {
                    peer.taken = posted.cdc.sequence;
                }
            }
            CdcOutcome::Stale | CdcOutcome::Validated => {}
        }
        if posted.stale {
            return Ok(());
        }
        self.side(side).arrived.push_back(posted);
        if !self.bounds.late_completions {
            self.complete(side);
        }
        Ok(())
    }

    fn complete(&mut self, side: u8) {
        let side = self.side(side);
        if let Some(posted) = side.arrived.pop_front() {
            side.connection
                .on_notify_completed(NOW, &CONFIG, posted.record);
        }
    }

    /// Takes the events of the connections.
    fn drain(&mut self) -> Result<(), String> {
        for side in &mut self.sides {
            let notices = side.connection.take_notices();
            let is_closed = side.connection.state() == CloseState::Closed;
            match (side.closed, notices.contains(Notices::CLOSED), is_closed) {
                (false, true, true) => side.closed = true,
                (closed, false, is_closed) if closed == is_closed => {}
                (_, reported, _) => {
                    let state = side.connection.state();
                    return Err(format!("{state:?}, CLOSED reported just now: {reported}"));
                }
            }
        }
        let orderly = |side: &Side| side.connection.cause() == Some(CloseCause::Orderly);
        let orderly = self.sides.iter().all(|side| side.closed && orderly(side));
        for [writer, reader] in [[0, 1], [1, 0]].map(|pair| pair.map(|side| &self.sides[side])) {
            let arrived = reader.connection.stats().bytes_received;
            if arrived > writer.written.into() {
                return Err("more octets arrived than were written".into());
            }
            if orderly && arrived < writer.written.into() {
                return Err("an orderly end, and octets are missing".into());
            }
        }
        Ok(())
    }

    pub(super) fn hash(&self, hasher: &mut impl Hasher) {
        self.links.hash(hasher);
        for (side, peer) in [(0, 1), (1, 0)].map(|(a, b)| (&self.sides[a], &self.sides[b])) {
            side.connection.fingerprint(NOW, hasher);
            (side.application, side.written, side.cut_off).hash(hasher);
            (side.closed, side.final_flags).hash(hasher);
            side.posted.wrapping_sub(peer.taken).hash(hasher);
            for posted in [&side.under_way, &side.arrived] {
                posted.len().hash(hasher);
                for posted in posted {
                    let number = side.posted.wrapping_sub(posted.cdc.sequence);
                    (number, posted.cdc.producer, posted.cdc.consumer).hash(hasher);
                    (posted.cdc.producer_flags, posted.cdc.connection_flags).hash(hasher);
                    posted.stale.hash(hasher);
                }
            }
        }
    }
}

impl Machine for World {
    type Action = Action;

    fn fingerprint(&mut self) -> u128 {
        explore::fingerprint(|hasher| self.hash(hasher))
    }

    fn actions(&self, into: &mut Vec<Action>) {
        let bounds = &self.bounds;
        for (name, side) in (0..).zip(&self.sides) {
            let connection = &side.connection;
            let open = side.application == Application::Open;
            if open && side.written < bounds.bytes && !connection.send_space().is_empty() {
                into.push(Action::Write(name));
            }
            if side.application != Application::Closed {
                if !connection.readable().is_empty() {
                    into.push(Action::Read(name));
                }
                into.push(Action::Close(name));
                into.push(Action::Abort(name));
            }
            if open {
                into.push(Action::ShutdownWrite(name));
            }
            if connection.wants_work() && side.under_way.len() < bounds.queue {
                into.push(Action::Transmit(name));
            }
            if connection.next_timeout().is_some() {
                into.push(Action::Deadline(name));
            }
            if bounds.late_completions && !side.arrived.is_empty() {
                into.push(Action::Complete(name));
            }
            let first_validation = side.under_way.iter().position(Posted::is_validation);
            let may_overtake = match (bounds.reorder, first_validation) {
                (false, _) | (true, Some(0)) => 1,
                (true, Some(before)) => before,
                (true, None) => side.under_way.len(),
            };
            for place in 0..may_overtake.min(side.under_way.len()) {
                into.push(Action::Arrive(name, place as u8));
            }
            if side.cut_off {
                into.push(Action::Move(name));
            }
        }
        if self.links > 1 && !self.sides.iter().any(|side| side.cut_off) {
            let lengths = self.sides.each_ref().map(|side| side.under_way.len() as u8);
            for first in 0..=lengths[0] {
                for second in 0..=lengths[1] {
                    into.push(Action::Fail(first, second));
                }
            }
        } else if self.links == 1 && self.states() != [CloseState::Closed; 2] {
            into.push(Action::FailLast);
        }
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Write(side) => {
                let side = self.side(side);
                side.written += 1;
                let done = side.connection.commit(NOW, &CONFIG, 1);
                done.map_err(|error| format!("there was space: {error}"))?;
            }
            Action::Read(side) => {
                let side = self.side(side);
                let all = side.connection.readable().len();
                let done = side.connection.consume(all);
                done.map_err(|error| format!("there was data: {error}"))?;
            }
            Action::ShutdownWrite(side) => self.shut(side, Shutdown::Write, Application::ShutDown),
            Action::Close(side) => self.shut(side, Shutdown::Both, Application::Closed),
            Action::Abort(side) => {
                let side = self.side(side);
                side.application = Application::Closed;
                side.connection.abort(NOW, &CONFIG);
            }
            Action::Transmit(side) => self.transmit(side)?,
            Action::Arrive(side, place) => self.arrive(side, place)?,
            Action::Complete(side) => self.complete(side),
            Action::Deadline(side) => {
                let connection = &mut self.side(side).connection;
                if let Some(at) = connection.next_timeout() {
                    connection.on_timeout(at, &CONFIG);
                }
            }
            Action::Fail(first, second) => {
                self.links -= 1;
                for (side, arrive) in self.sides.iter_mut().zip([first, second]) {
                    side.under_way.truncate(arrive.into());
                    side.arrived.clear();
                    for posted in &mut side.under_way {
                        posted.stale = true;
                    }
                    side.cut_off = true;
                }
            }
            Action::Move(side) => {
                let side = self.side(side);
                side.cut_off = false;
                side.connection.on_link_changed(NOW, &CONFIG);
            }
            Action::FailLast => {
                self.links = 0;
                for side in &mut self.sides {
                    side.under_way.clear();
                    side.arrived.clear();
                    side.cut_off = false;
                    side.connection.on_link_changed(NOW, &CONFIG);
                    side.connection.on_fatal(NOW, &CONFIG, FatalCause::LinkLost);
                }
            }
        }
        self.drain()
    }

    fn is_over(&self) -> bool {
        self.sides.iter().all(|side| {
            side.connection.is_finished()
                && side.closed
                && side.connection.next_timeout().is_none()
                && side.application == Application::Closed
        })
    }

    fn leads_out(&self, action: Action) -> bool {
        !matches!(action, Action::Fail(..) | Action::FailLast)
    }
}

/// Whether a number comes behind another one.
pub(super) fn ahead(number: u16, of: u16) -> bool {
    number.wrapping_sub(of) as i16 > 0
}
