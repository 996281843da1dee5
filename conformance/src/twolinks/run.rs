//! A world run to its end, and what must hold there.

use smc_proto::connection::CloseState;
use smc_proto::endpoint::Usage;
use smc_proto::event::{CloseReason, Event};
use smc_proto::time::{Duration, Instant};

use super::app::{Action, Reading};
use super::world::name;
use super::{Failure, World};

/// Longer than keepalive, its answer and the answer to DELETE LINK.
const SILENCE: Duration = Duration::from_secs(40);
/// A failure that is reported must not wait for more than the shortest timers.
const AT_ONCE: Duration = Duration::from_millis(200);
/// Longer than the wait for the answer to an abort.
const ABORT: Duration = Duration::from_secs(6);

/// How a connection must end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Expect {
    /// In order, with all bytes delivered.
    Clean,
    /// Somehow, but at both ends; no wrong byte.
    Ended,
    /// The connection ends as planned, or the group was lost with its last link.
    GroupLost,
    /// By the loss of data that was reported to this side as delivered.
    DataLost(usize),
}

impl World {
    /// One round of everything; whether anything moved.
    fn round(&mut self) -> bool {
        let mut moved = false;
        for side in 0..2 {
            moved |= self.clc(side);
            while self.post(side) {
                moved = true;
            }
            moved |= self.deliver(side);
            moved |= self.complete(side);
            moved |= self.collect(side);
        }
        for side in 0..2 {
            for app in 0..self.hosts[side].apps.len() {
                moved |= self.act(side, app);
                if moved && self.hosts[side].apps[app].reading == Reading::Late {
                    continue;
                }
                moved |= self.read(side, app, u32::MAX);
            }
        }
        moved || self.drain()
    }

    /// Runs until all connections ended, or nothing moves until this time.
    pub fn run_idle_until(&mut self, end: Instant) {
        for _ in 0..100_000 {
            if !self.round() && (self.is_over() || !self.advance(end.since(self.now))) {
                return;
            }
            if self.errors.len() > 4 {
                return;
            }
        }
        self.error("no end of it");
    }

    fn is_over(&self) -> bool {
        self.hosts
            .iter()
            .all(|host| host.apps.iter().all(|app| app.end.is_some()))
    }

    fn in_rendezvous(&self) -> bool {
        self.hosts
            .iter()
            .any(|host| host.apps.iter().any(|app| !app.established))
    }

    /// Closes every connection of which all is read; with `force` any, whatever
    /// its application still meant to do.
    fn close_what_is_read(&mut self, force: bool) -> bool {
        let mut any = false;
        for side in 0..2 {
            for app in 0..self.hosts[side].apps.len() {
                let own = &self.hosts[side].apps[app];
                let peer = &self.hosts[1 - side].apps[app];
                let all = own.done == own.script.len()
                    && peer.done == peer.script.len()
                    && own.read == peer.committed;
                let open = !matches!(own.closing, Some(Action::Close | Action::Abort));
                if (all || force) && open && own.end.is_none() && own.established {
                    let own = &mut self.hosts[side].apps[app];
                    own.script.truncate(own.done);
                    own.script.push(Action::Close);
                    any = true;
                }
            }
        }
        any
    }

    /// Runs a world in which a link has failed to the end and checks everything.
    pub fn finish(&mut self, failure: Failure, expect: Expect) {
        let start = self.now;
        let timeout = match (failure, expect) {
            (Failure::Silence, _) | (_, Expect::GroupLost) => SILENCE,
            _ if self.patient || self.in_rendezvous() => SILENCE,
            (_, Expect::Clean) => AT_ONCE,
            // One that sent C does not answer an abort, which waits (ABORT-014).
            _ => ABORT,
        };
        self.run_idle_until(start.after(timeout));
        let start = self.now;
        for _ in 0..3 {
            if self.close_what_is_read(matches!(expect, Expect::Ended | Expect::GroupLost)) {
                self.run_idle_until(start.after(timeout));
            }
        }
        self.check_ends(expect);
        if expect != Expect::GroupLost {
            self.check_survival(failure);
        }
        self.delete_everything();
    }

    fn check_ends(&mut self, expect: Expect) {
        for side in 0..2 {
            for app in 0..self.hosts[side].apps.len() {
                let [own, peer] = [side, 1 - side].map(|side| &self.hosts[side].apps[app]);
                if !own.established && !peer.established {
                    // I12: both on TCP or neither.
                    let fell = [own, peer].map(|a| matches!(a.end, Some(Event::FellBack { .. })));
                    if fell[0] != fell[1] || own.end.is_none() {
                        let ends = [own.end, peer.end];
                        self.error(format!("ends of connection {app} differ: {ends:?}"));
                    }
                    continue;
                }
                let a = &self.hosts[side].apps[app];
                let (reason, read, all) =
                    (a.reason(), a.read, self.hosts[1 - side].apps[app].committed);
                let established = a.established;
                let state = self.state(side, app);
                if state.is_some_and(|state| state != CloseState::Closed) || reason.is_none() {
                    self.error(format!(
                        "{} connection {app} did not end: {state:?}, established {established}, read {read} of {all}",
                        name(side)
                    ));
                    continue;
                }
                let right = match expect {
                    Expect::Clean => reason == Some(CloseReason::Normal),
                    Expect::Ended | Expect::GroupLost => reason.is_some(),
                    Expect::DataLost(from) if from == side => {
                        reason == Some(CloseReason::PeerAbort)
                    }
                    Expect::DataLost(_) => reason == Some(CloseReason::DataLost),
                };
                if !right {
                    self.error(format!("{} ended {reason:?}", name(side)));
                }
                if expect == Expect::Clean && read != all {
                    self.error(format!("{} read {read} octets of {all}", name(side)));
                }
            }
        }
    }

    fn check_survival(&mut self, failure: Failure) {
        for side in 0..2 {
            let events = &self.hosts[side].events;
            let down = events.iter().any(|e| matches!(e, Event::GroupDown { .. }));
            let lost = events
                .iter()
                .filter(|e| matches!(e, Event::LinkDown { .. }))
                .count();
            if down {
                self.error(format!("{} lost the group", name(side)));
            }
            // With silence no side may have noticed before the connection was over.
            if !matches!(failure, Failure::No | Failure::Silence) && lost == 0 {
                self.error(format!("{} was not notified of the link's end", name(side)));
            }
        }
    }

    fn delete_everything(&mut self) {
        let group = self.hosts[1].events.iter().find_map(|event| match event {
            Event::GroupUp { group } => Some(*group),
            _ => None,
        });
        let Some(group) = group else {
            self.error("no group");
            return;
        };
        self.note(|| "B deletes the group".into());
        self.hosts[1].endpoint.delete_group(self.now, group);
        for _ in 0..10_000 {
            if !self.round() && (self.usages() == [Usage::default(); 2] || !self.advance(SILENCE)) {
                break;
            }
        }
        for (side, usage) in self.usages().into_iter().enumerate() {
            if usage != Usage::default() {
                self.error(format!("{} has leftovers: {usage:?}", name(side)));
            }
            let host = &self.hosts[side];
            if host.nic.is_empty().is_err() {
                self.error(format!("{}'s RNIC has leftovers", name(side)));
            }
        }
    }

    /// What both endpoints hold.
    pub fn usages(&mut self) -> [Usage; 2] {
        [0, 1].map(|side| self.hosts[side].endpoint.usage())
    }
}
