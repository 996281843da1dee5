//! Two hosts with what is between them, and what may happen next.

use std::hash::Hash;

use smc_proto::endpoint::TcpEvent;
use smc_proto::path::{IsmPath, LocalPath};
use smc_proto::time::Duration;

use super::host::{Host, Outcome};
use super::scenario::Scenario;
use super::tcp::Wire;
use super::{Action, Bounds};
use crate::explore::{self, Machine};

/// A deadline that is further off passes only when nothing else moves.
pub(super) const TIMEOUT: Duration = Duration::from_secs(25);

/// Two hosts with what is between them.
#[derive(Clone, Debug)]
pub struct World {
    pub(super) scenario: Scenario,
    pub(super) hosts: [Host; 2],
    /// To the peer of each side.
    pub(super) wires: [Wire; 2],
    left: Bounds,
    fault: Option<String>,
}

impl World {
    /// Two hosts with a TCP connection, of which neither has sent anything.
    ///
    /// # Panics
    /// If the connection before that does not come about.
    #[must_use]
    pub fn new(scenario: &Scenario, bounds: Bounds) -> Self {
        let mut world = Self {
            scenario: *scenario,
            hosts: [0, 1].map(|side| Host::new(scenario, side)),
            wires: Default::default(),
            left: Bounds::default(),
            fault: None,
        };
        if scenario.subsequent {
            world.open_both();
            while !world.is_over() {
                let next = world.usual().expect("it comes about");
                world.act(next).expect("nothing is wrong");
            }
            assert_eq!(world.outcomes(), [Outcome::Smc; 2]);
        }
        world.left = bounds;
        for (side, host) in (0..).zip(&mut world.hosts) {
            let held = scenario.held.filter(|held| held.side == side);
            host.commands_to_go = held.map(|held| held.nth);
        }
        world.open_both();
        world
    }

    fn open_both(&mut self) {
        for side in [0, 1] {
            self.open(side);
        }
        for side in [0, 1] {
            self.pump(side);
        }
    }

    /// What happens next if nothing is slow.
    fn usual(&self) -> Option<Action> {
        let mut actions = Vec::new();
        self.actions(&mut actions);
        let wait = |action: &Action| match action {
            Action::Deadline(side) => self.hosts[usize::from(*side)].next_timeout(),
            _ => Some(Duration::ZERO),
        };
        actions.into_iter().min_by_key(wait)
    }

    /// Returns the outcome of each application.
    #[must_use]
    pub fn outcomes(&self) -> [Outcome; 2] {
        self.hosts.each_ref().map(|host| host.outcome)
    }

    /// Whether a device has kept the command waiting that it was to.
    #[must_use]
    pub fn has_held(&self) -> bool {
        self.hosts.iter().any(Host::holds_command)
    }

    pub(super) fn rnics(&self, side: usize) -> Vec<LocalPath> {
        self.scenario.rnics(side as u8)
    }

    pub(super) fn ism(&self, side: usize) -> Vec<IsmPath> {
        self.scenario.ism(side as u8)
    }

    /// Something is wrong.
    pub(super) fn find(&mut self, what: String) {
        self.fault.get_or_insert(what);
    }

    fn moves(&self) -> bool {
        self.wires.iter().any(|wire| !wire.is_empty())
            || self.hosts.iter().any(|host| {
                host.has_posted()
                    || host.holds_command()
                    || host.break_unreported
                    || host.met_failure()
            })
    }

    /// What the side of `name` may do or meet next.
    fn actions_of(&self, name: u8, into: &mut Vec<Action>) {
        let side = usize::from(name);
        let (host, wire) = (&self.hosts[side], &self.wires[side]);
        if !wire.is_empty() {
            into.push(Action::Arrive(name));
            if self.left.cuts > 0 {
                into.extend(wire.cuts().map(|cut| Action::ArrivePart(name, cut)));
            }
        }
        if host.has_posted() {
            into.push(Action::Receive(name));
        }
        if host.holds_command() {
            into.push(Action::Answer(name, true));
            into.push(Action::Answer(name, false));
        }
        if host.met_failure() {
            into.push(Action::ReportFailure(name));
        }
        if host.rdma.has_unreported(false) {
            into.push(Action::PortDown(name));
        }
        if host.break_unreported {
            into.push(Action::ReportBreak(name, TcpEvent::PeerReset));
            into.push(Action::ReportBreak(name, TcpEvent::Failed));
        }
        if self.left.endings > 0 && !host.application_is_done && host.outcome != Outcome::Over {
            into.push(Action::Close(name));
            into.push(Action::Abort(name));
        }
        if self.left.breaks > 0 && !wire.is_closed() && host.outcome != Outcome::Over {
            into.push(Action::Fin(name));
        }
    }
}

impl Machine for World {
    type Action = Action;

    fn fingerprint(&mut self) -> u128 {
        explore::fingerprint(|hasher| {
            for host in &mut self.hosts {
                host.hash(hasher);
            }
            for wire in &self.wires {
                wire.hash(hasher);
            }
            self.left.hash(hasher);
        })
    }

    fn actions(&self, into: &mut Vec<Action>) {
        if self.is_over() {
            return;
        }
        for side in [0, 1] {
            self.actions_of(side, into);
        }
        let moves = self.moves();
        for (side, host) in (0..).zip(&self.hosts) {
            let near = |wait: Duration| !moves || wait <= TIMEOUT;
            if host.next_timeout().is_some_and(near) {
                into.push(Action::Deadline(side));
            }
        }
        if self.left.failures > 0 && self.hosts.iter().any(Host::has_way) {
            into.push(Action::FailLink);
        }
        let tcp_matters = |host: &Host| host.outcome != Outcome::Over;
        // Also behind a FIN, which ends one direction.
        let whole = self.wires.iter().all(|wire| !wire.is_cut());
        if self.left.breaks > 0 && whole && self.hosts.iter().any(tcp_matters) {
            into.push(Action::BreakTcp);
        }
    }

    fn act(&mut self, action: Action) -> Result<(), String> {
        match action {
            Action::Arrive(side) => {
                let chunk = self.wires[usize::from(side)].take();
                self.on_chunk(usize::from(1 - side), chunk.ok_or("nothing arrives")?);
            }
            Action::ArrivePart(side, bytes) => {
                self.left.cuts -= 1;
                let chunk = self.wires[usize::from(side)].take_part(bytes);
                self.on_chunk(usize::from(1 - side), chunk.ok_or("nothing arrives")?);
            }
            Action::Receive(side) => {
                let side = usize::from(side);
                match self.hosts[side].ism.has_posted() {
                    true => self.receive_ism(side),
                    false => self.receive_rdma(side),
                }
            }
            Action::Deadline(side) => self.hosts[usize::from(side)].pass_deadline(),
            Action::Answer(side, done) => {
                self.hosts[usize::from(side)].answer(done);
                self.answer_ism(side.into(), done);
            }
            Action::FailLink => {
                self.left.failures -= 1;
                for host in &mut self.hosts {
                    host.rdma.fail();
                }
                if self.hosts.iter().any(|host| host.ism.has_way()) {
                    for host in &mut self.hosts {
                        host.ism.fail();
                    }
                }
            }
            Action::ReportFailure(side) if self.hosts[usize::from(side)].ism.has_unreported() => {
                self.report_apart(side.into());
            }
            Action::ReportFailure(side) => self.hosts[usize::from(side)].report_failure(true),
            Action::PortDown(side) => self.hosts[usize::from(side)].report_failure(false),
            Action::BreakTcp => {
                self.left.breaks -= 1;
                for (host, wire) in self.hosts.iter_mut().zip(&mut self.wires) {
                    wire.cut();
                    host.break_unreported = host.outcome != Outcome::Over;
                }
            }
            Action::ReportBreak(side, event) => {
                self.hosts[usize::from(side)].break_unreported = false;
                self.on_tcp(side.into(), event);
            }
            Action::Fin(side) => {
                self.left.breaks -= 1;
                self.wires[usize::from(side)].finish();
            }
            Action::Close(side) => {
                self.left.endings -= 1;
                self.end(side.into(), true);
            }
            Action::Abort(side) => {
                self.left.endings -= 1;
                self.end(side.into(), false);
            }
        }
        for side in [0, 1] {
            self.pump(side);
        }
        match self.fault.take() {
            Some(what) => Err(what),
            None => Ok(()),
        }
    }

    fn is_over(&self) -> bool {
        self.agree()
    }

    /// What TCP and links carry, and what a device was asked for; timers only when nothing
    /// else moves, since what is slow for ever is a failure.
    fn leads_out(&self, action: Action) -> bool {
        match action {
            Action::Arrive(_)
            | Action::Receive(_)
            | Action::Answer(_, true)
            | Action::ReportFailure(_)
            | Action::ReportBreak(..) => true,
            Action::Deadline(_) => !self.moves(),
            Action::ArrivePart(..)
            | Action::Answer(_, false)
            | Action::FailLink
            | Action::PortDown(_)
            | Action::BreakTcp
            | Action::Fin(_)
            | Action::Close(_)
            | Action::Abort(_) => false,
        }
    }
}
