//! Links that die and come back in the course of a run.

use smc_proto::completion::LinkFailure;
use smc_proto::event::CloseReason;
use smc_proto::id::DeviceId;
use smc_proto::time::{Duration, Instant};
use smc_transport_sim::fault::{Ends, Fault, FaultAction, PortSelector, Trigger};

use super::{Run, lock};
use crate::demo::links::{LinkState, NAMES, Note};
use crate::demo::rung::Effect;
use crate::demo::script::{Act, Death};
use crate::output::{Failure, size};

/// Without an LLC message for so long after an act, links are not being added or
/// deleted.
const CALM: Duration = Duration::from_millis(1);
/// Longest wait for that.
const LONGEST: Duration = Duration::from_millis(50);
/// The ends of a broken connection are notified within this time.
const AFTERMATH: Duration = Duration::from_secs(10);

impl Run<'_> {
    /// Observes the outcome of links.
    pub(super) fn follow_links(&mut self) {
        let mut notes = Vec::new();
        self.links.follow(&mut self.simulation, &mut notes);
        notes.into_iter().for_each(|note| self.note(note));
    }

    fn note(&self, note: Note) {
        let mut watch = lock(&self.watch);
        if watch.several_links {
            watch.note(note.at, note.link, note.mood, note.text);
        }
    }

    /// Bytes came back: lets happen what is due. What follows from one act comes
    /// first, then the next one, in the middle of the data again. True if the
    /// applications rested meanwhile.
    pub(super) fn act(&mut self) -> Result<bool, Failure> {
        loop {
            let over = self.sent_all && self.back == self.bytes;
            let due = over || self.script.is_due(self.back, self.length);
            if self.script.is_empty() || !due {
                return Ok(false);
            }
            if !self.is_calm() {
                self.until_calm()?;
                if !over {
                    return Ok(true);
                }
            }
            self.acted = self.simulation.now();
            match self.script.next() {
                Some(Act::Kill(death, end)) => self.kill(death, end),
                Some(Act::Revive) => self.revive(),
                None => {}
            }
            if !over {
                return Ok(false);
            }
        }
    }

    fn is_calm(&self) -> bool {
        self.simulation.now() >= self.calm_at()
    }

    fn calm_at(&self) -> Instant {
        let latest = lock(&self.watch).latest_llc;
        latest.max(self.acted).after(CALM)
    }

    /// Whether applications pause until no link is being added or deleted.
    fn until_calm(&mut self) -> Result<(), Failure> {
        let deadline = self.simulation.now().after(LONGEST);
        while !self.is_calm() && self.simulation.now() < deadline {
            for socket in self.sockets {
                self.carrier_is_smc(socket)?;
            }
            // What was written is taken in first, so that the next event is known.
            self.simulation.run_for(Duration::ZERO);
            let calm = self.calm_at();
            if self.simulation.next_time().is_none_or(|next| next > calm) {
                let left = calm.since(self.simulation.now());
                self.simulation.run_for(left);
                self.follow_links();
            } else {
                self.step()?;
            }
        }
        Ok(())
    }

    /// A link that carries data dies at one end: where its RNIC serves no other
    /// link, if there is such an end.
    fn kill(&mut self, death: Death, end: usize) {
        let Some((mut rnic, number)) = self.links.carrying(end, &mut self.simulation) else {
            return;
        };
        let mut end = end;
        let other = 1 - end;
        let there = self.links.rnic_of(other, number);
        if self.links.on(end, rnic).count() > 1
            && let Some(there) = there
            && self.links.on(other, there).count() == 1
        {
            (end, rnic) = (other, there);
        }
        let (now, name) = (self.simulation.now(), NAMES.get(end).copied().unwrap_or(""));
        let device = Some(DeviceId(rnic));
        let (action, of, text) = match death {
            Death::PortDown => (
                FaultAction::PortDown {
                    port: PortSelector { device, port: None },
                    time: Duration::MAX,
                },
                format!("{name}: port down"),
                format!("the port of the {name}'s RNIC {} is down", rnic + 1),
            ),
            Death::QueuePair => (
                FaultAction::FailLink {
                    device,
                    ends: Ends::Near,
                    cause: LinkFailure::RetriesExhausted,
                },
                format!("{name}: queue pair failed"),
                format!("its queue pair at the {name} fails"),
            ),
        };
        for life in self.links.on(end, rnic) {
            life.state = LinkState::Died;
            life.died = Some((now, of.clone()));
        }
        let text = format!("✗ link {number} dies: {text}");
        self.note(Note::new(now, number, Effect::Bad, text));
        let trigger = Trigger::At(now);
        let host = self.hosts.get(end).copied();
        self.simulation.fabric().add_fault(Fault {
            trigger,
            host,
            action,
        });
    }

    /// Ports that are down come back.
    fn revive(&mut self) {
        let now = self.simulation.now();
        let text = "✓ all ports are up again".to_owned();
        self.note(Note::general(now, Effect::Good, text));
        self.simulation.fabric().restore_ports();
    }

    /// Why the transfer ended early, if the last link died as it was to.
    pub(super) fn broken(&mut self) -> Option<String> {
        if !self.troubled {
            return None;
        }
        let reasons = self.note_ends([None; 2]);
        let reason = reasons.into_iter().flatten().next()?;
        let (back, length) = (size(self.back), size(self.length));
        let text = format!("the transfer ended with {back} of {length} back: {reason}");
        let sockets = self.sockets;
        self.simulation.drive(AFTERMATH, |simulation| {
            let ended = |socket: &_| {
                let state = simulation.state(*socket);
                state.is_some_and(|state| state.closed.is_some())
            };
            sockets.iter().all(ended)
        });
        self.note_ends(reasons);
        Some(text)
    }

    /// Notes how ends of the connection broke that had not when this was called
    /// before; those that did.
    fn note_ends(&self, before: [Option<CloseReason>; 2]) -> [Option<CloseReason>; 2] {
        let now = self.simulation.now();
        let reasons = self.sockets.map(|socket| {
            let reason = self.simulation.state(socket)?.closed?;
            (reason != CloseReason::Normal).then_some(reason)
        });
        for ((name, before), reason) in NAMES.iter().zip(before).zip(reasons) {
            if let (None, Some(reason)) = (before, reason) {
                let text = format!("✗ the {name}'s connection ends: {reason}");
                self.note(Note::general(now, Effect::Bad, text));
            }
        }
        reasons
    }
}
