//! The ways in which a link comes to its end.

use core::fmt;

use smc_proto::command::RdmaCommand;
use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::LinkId;
use smc_proto::path::PathEvent;

use super::World;
use super::world::name;

/// What still happens on a queue pair between the engine's order to take it down
/// and `QpDrained`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub enum Late {
    /// Nothing: what had not arrived is flushed.
    #[default]
    Nothing,
    /// Everything posted arrives; no completion is reported.
    Arrives,
    /// Everything posted arrives and completes.
    Completes,
}

/// How a link fails, and how its ends learn of it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Failure {
    /// The link does not fail.
    No,
    /// The queue pair of one side breaks; the other side is notified by DELETE LINK.
    Broken(usize, Late),
    /// Both queue pairs break; this side learns first, the other before any
    /// message about it.
    BothBroken(usize),
    /// Both break; the side given learns when the other has moved already.
    BrokenLater(usize),
    /// The port of one side goes down.
    PortDown(usize, Late),
    /// Nothing passes any more, and only TEST LINK finds out.
    Silence,
    /// The application of one side deletes the link in order.
    Deleted(usize, Late),
    /// The RNIC of this side acknowledged what the peer's never placed; then the
    /// link breaks.
    Lied(usize),
}

impl Failure {
    /// Every failure that loses no acknowledged data.
    pub const ALL: [Self; 17] = [
        Self::No,
        Self::Broken(0, Late::Nothing),
        Self::Broken(0, Late::Completes),
        Self::Broken(1, Late::Nothing),
        Self::Broken(1, Late::Completes),
        Self::BothBroken(0),
        Self::BothBroken(1),
        Self::BrokenLater(0),
        Self::BrokenLater(1),
        Self::PortDown(0, Late::Nothing),
        Self::PortDown(0, Late::Arrives),
        Self::PortDown(1, Late::Nothing),
        Self::PortDown(1, Late::Arrives),
        Self::PortDown(1, Late::Completes),
        Self::Silence,
        Self::Deleted(0, Late::Nothing),
        Self::Deleted(1, Late::Nothing),
    ];

    /// The failure of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .chain([Self::Lied(0), Self::Lied(1)])
            .find(|failure| failure.to_string() == name)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::No => f.write_str("none"),
            Self::Broken(side, late) => write!(f, "broken-{}-{late:?}", name(side)),
            Self::BothBroken(side) => write!(f, "both-broken-{}", name(side)),
            Self::BrokenLater(side) => write!(f, "broken-later-{}", name(side)),
            Self::PortDown(side, late) => write!(f, "port-down-{}-{late:?}", name(side)),
            Self::Silence => f.write_str("silence"),
            Self::Deleted(side, late) => write!(f, "deleted-{}-{late:?}", name(side)),
            Self::Lied(side) => write!(f, "lied-{}", name(side)),
        }
    }
}

impl World {
    /// The link that carries connections, or else the first one: both ends' handles.
    pub fn busy_link(&mut self) -> Option<[LinkId; 2]> {
        let links: Vec<_> = self.hosts[0]
            .nic
            .qps()
            .filter(|qp| !qp.work.broken)
            .map(|qp| qp.link)
            .collect();
        let endpoint = &mut self.hosts[0].endpoint;
        let busy = links
            .iter()
            .copied()
            .find(|link| endpoint.link(*link).is_some_and(|l| l.connections > 0))
            .or(links.first().copied())?;
        Some([busy, self.other_end(0, busy)?])
    }

    /// The handle of the other end of a link.
    pub fn other_end(&mut self, side: usize, link: LinkId) -> Option<LinkId> {
        let to = self.hosts[side].nic.qp(link)?.bound?.peer.qpn;
        self.hosts[1 - side].nic.numbered(to).map(|qp| qp.link)
    }

    /// Whether both ends have another link that connections may use.
    pub fn survives(&mut self, ends: [LinkId; 2]) -> bool {
        (0..2).all(|side| {
            let host = &mut self.hosts[side];
            let others: Vec<_> = host
                .nic
                .qps()
                .filter(|qp| !qp.work.broken && qp.link != ends[side])
                .map(|qp| qp.link)
                .collect();
            others
                .into_iter()
                .any(|link| host.endpoint.link(link).is_some_and(|l| l.active))
        })
    }

    /// The next thing that can be done, in turn; whether there was one.
    pub fn nudge(&mut self) -> bool {
        let apps = self.hosts[0].apps.len();
        let kinds = 5 + 2 * apps;
        for _ in 0..2 * kinds {
            self.turn = (self.turn + 1) % (2 * kinds);
            let side = self.turn % 2;
            let moved = match self.turn / 2 {
                0 => self.clc(side),
                1 => self.post(side),
                2 => self.deliver(side),
                3 => self.complete(side),
                4 => self.collect(side),
                n if n < 5 + apps => self.act(side, n - 5),
                n => self.read(side, n - 5 - apps, u32::MAX),
            };
            if moved {
                return true;
            }
        }
        false
    }

    /// Breaks the queue pair of a side without notifying its engine.
    pub fn sever(&mut self, side: usize, link: LinkId) {
        self.note(|| format!("  {link} of {} breaks", name(side)));
        if let Some(qp) = self.hosts[side].nic.qp_mut(link) {
            qp.work.break_down();
        }
    }

    /// Notifies a side's engine that a queue pair broke.
    pub fn report(&mut self, side: usize, link: LinkId) {
        self.note(|| format!("{} LinkFailed {link}", name(side)));
        self.hosts[side].endpoint.handle_rdma(
            self.now,
            RdmaCompletion::LinkFailed {
                link,
                cause: LinkFailure::RetriesExhausted,
                conn: None,
            },
        );
    }

    /// Lets the link that carries the connection fail.
    pub fn fail(&mut self, failure: Failure) {
        let Some(ends) = self.busy_link() else {
            return;
        };
        self.fail_link(failure, ends);
    }

    /// Lets a link fail.
    pub fn fail_link(&mut self, failure: Failure, ends: [LinkId; 2]) {
        self.note(|| format!("  FAILURE: {failure}"));
        match failure {
            Failure::No => {}
            Failure::Broken(side, late) => {
                self.late = late;
                self.sever(side, ends[side]);
                self.report(side, ends[side]);
            }
            Failure::BothBroken(first) => {
                self.sever(0, ends[0]);
                self.sever(1, ends[1]);
                self.report(first, ends[first]);
                self.report(1 - first, ends[1 - first]);
            }
            Failure::BrokenLater(late) => {
                self.sever(0, ends[0]);
                self.sever(1, ends[1]);
                self.report(1 - late, ends[1 - late]);
                // The other side moves and sends; its validation stays on the way.
                while self.post(1 - late) {}
                for _ in 0..64 {
                    self.report_completions_of(1 - late);
                }
                self.report(late, ends[late]);
            }
            Failure::PortDown(side, late) => {
                self.late = late;
                if let Some(qp) = self.hosts[side].nic.qp(ends[side]) {
                    let device = qp.device;
                    self.note(|| format!("{} PortDown {device:?}", name(side)));
                    self.hosts[side]
                        .endpoint
                        .handle_path(self.now, PathEvent::PortDown { device, port: 1 });
                }
            }
            Failure::Silence => self.cut.extend((0..).zip(ends)),
            Failure::Deleted(side, late) => {
                self.late = late;
                self.note(|| format!("{} deletes {}", name(side), ends[side]));
                self.hosts[side].endpoint.delete_link(self.now, ends[side]);
            }
            Failure::Lied(side) => {
                self.note(|| format!("{}'s RNIC lies", name(side)));
                if let Some(qp) = self.hosts[side].nic.qp_mut(ends[side]) {
                    qp.work.arrived = qp.work.posted.len();
                }
                while self.complete_on(side, ends[side]) {}
                self.sever(0, ends[0]);
                self.sever(1, ends[1]);
                self.report(side, ends[side]);
                self.report(1 - side, ends[1 - side]);
            }
        }
    }

    fn report_completions_of(&mut self, side: usize) {
        self.deliver(side);
        self.complete(side);
        self.post(side);
    }

    /// The engine gives a queue pair up.
    pub(super) fn give_up(&mut self, side: usize, link: LinkId) {
        if self.late != Late::Nothing {
            while self.deliver_on(side, link) {}
        }
        if self.late == Late::Completes {
            while self.complete_on(side, link) {}
        }
        if let Some(qp) = self.hosts[side].nic.qp_mut(link) {
            qp.work.break_down();
        }
        self.draining.push((side, link));
        if !self.slow_drain {
            self.drain();
        }
    }

    /// Reports `QpDrained` for the queue pairs that were given up.
    pub fn drain(&mut self) -> bool {
        let draining = core::mem::take(&mut self.draining);
        for (side, link) in &draining {
            self.note(|| format!("{} QpDrained {link}", name(*side)));
            let host = &mut self.hosts[*side];
            let drained = RdmaCommand::QpToError { link: *link };
            if let Some(completion) = host.nic.done(&drained) {
                host.endpoint.handle_rdma(self.now, completion);
            }
        }
        !draining.is_empty()
    }
}
