//! The lives of the links of a demo, as its two engines report them.

mod life;

use smc_proto::endpoint::LinkStatus;
use smc_proto::id::LinkId;
use smc_proto::time::Instant;
use smc_transport_sim::fabric::HostId;
use smc_transport_sim::sim::Simulation;

use super::rung::Effect;

pub(super) use life::Note;
pub use life::{LinkEnd, LinkLife, LinkState};

/// Names of the two hosts.
pub(super) const NAMES: [&str; 2] = ["client", "server"];

/// Follows the links of both hosts.
#[derive(Debug)]
pub(super) struct Links {
    hosts: [HostId; 2],
    /// Links that are up at each host, and which lives they have.
    known: [Vec<(LinkId, usize)>; 2],
    pub(super) lives: Vec<LinkLife>,
    carrying: [Option<u8>; 2],
    failovers: [u64; 2],
}

impl Links {
    pub(super) const fn new(hosts: [HostId; 2]) -> Self {
        Self {
            hosts,
            known: [const { Vec::new() }; 2],
            lives: Vec::new(),
            carrying: [None; 2],
            failovers: [0; 2],
        }
    }

    /// Observes both hosts and notes what is new. Most of the time nothing is.
    pub(super) fn follow(&mut self, simulation: &mut Simulation, notes: &mut Vec<Note>) {
        for (side, host) in self.hosts.into_iter().enumerate() {
            let links = simulation.links(host);
            let known = self.known.get(side).map_or(&[][..], Vec::as_slice);
            let same = links.iter().eq(known.iter().map(|(id, _)| id));
            let failovers = simulation
                .endpoint(host)
                .map_or(0, |endpoint| endpoint.statistics().failovers);
            if !same {
                self.compare(side, simulation, notes);
            }
            let moved = self
                .failovers
                .get_mut(side)
                .is_some_and(|seen| core::mem::replace(seen, failovers) != failovers);
            if !same || moved {
                self.find_carrying(side, moved, simulation, notes);
            }
        }
    }

    fn compare(&mut self, side: usize, simulation: &mut Simulation, notes: &mut Vec<Note>) {
        let now = simulation.now();
        let Some(host) = self.hosts.get(side).copied() else {
            return;
        };
        let links = simulation.links(host).to_vec();
        let gone = |(id, _): &(LinkId, usize)| !links.contains(id);
        for (_, life) in self
            .known
            .get(side)
            .into_iter()
            .flatten()
            .copied()
            .filter(gone)
        {
            if let Some(life) = self.lives.get_mut(life)
                && life.state == LinkState::Active
            {
                life.state = LinkState::Deleted;
                life.died = Some((now, LinkState::Deleted.name().to_owned()));
                let text = format!("link {} is deleted in order", life.number);
                notes.push(Note::new(now, life.number, Effect::Neutral, text));
            }
        }
        let mut known = Vec::new();
        for id in links {
            let old = self.known.get(side).into_iter().flatten();
            let life = match old.copied().find(|(old, _)| *old == id) {
                Some((_, life)) => life,
                None => match status(simulation, host, id) {
                    Some(status) => self.came_up(side, now, &status, notes),
                    None => continue,
                },
            };
            known.push((id, life));
        }
        if let Some(all) = self.known.get_mut(side) {
            *all = known;
        }
    }

    fn came_up(
        &mut self,
        side: usize,
        now: Instant,
        status: &LinkStatus,
        notes: &mut Vec<Note>,
    ) -> usize {
        let number = status.number.0;
        // The other end may have reported it before.
        let half = self.lives.iter().rposition(|life| {
            life.number == number && life.ends.get(side).is_some_and(Option::is_none)
        });
        let index = half.unwrap_or_else(|| {
            self.lives.push(LinkLife {
                number,
                ends: [None; 2],
                asymmetric: false,
                up_at: None,
                state: LinkState::Active,
                died: None,
            });
            self.lives.len() - 1
        });
        if let Some(life) = self.lives.get_mut(index) {
            if let Some(end) = life.ends.get_mut(side) {
                *end = Some(LinkEnd {
                    rnic: status.path.device.0 + 1,
                    gid: status.path.gid,
                });
            }
            life.asymmetric |= status.asymmetric;
            if let [Some(client), Some(server)] = life.ends {
                life.up_at = Some(now);
                // The first one is not reported.
                if index == 0 {
                    return index;
                }
                let (client, server) = (client.rnic, server.rnic);
                let kind = if life.asymmetric { ", asymmetric" } else { "" };
                let text = format!(
                    "✓ link {number} is up: RNIC {client} of the client, RNIC {server} of the \
                     server{kind}"
                );
                notes.push(Note::new(now, number, Effect::Good, text));
            }
        }
        index
    }

    fn find_carrying(
        &mut self,
        side: usize,
        moved: bool,
        simulation: &mut Simulation,
        notes: &mut Vec<Note>,
    ) {
        let now = simulation.now();
        let carrying = self.carrying(side, simulation).map(|(_, number)| number);
        let before = self
            .carrying
            .get_mut(side)
            .and_then(|before| core::mem::replace(before, carrying));
        let name = NAMES.get(side).copied().unwrap_or_default();
        if moved && let (Some(before), Some(after)) = (before, carrying) {
            let text =
                format!("↷ the {name}'s connection moves from link {before} to link {after}");
            notes.push(Note::new(now, after, Effect::Neutral, text));
        }
    }

    /// The link over which a host's connection writes: the RNIC, and its number.
    pub(super) fn carrying(&self, side: usize, simulation: &mut Simulation) -> Option<(u8, u8)> {
        let host = self.hosts.get(side).copied()?;
        let links = simulation.links(host).to_vec();
        let mut all = links
            .into_iter()
            .filter_map(|id| status(simulation, host, id));
        let found = all.find(|status| status.connections > 0)?;
        Some((found.path.device.0, found.number.0))
    }

    /// The RNIC that a living link uses at a host.
    pub(super) fn rnic_of(&self, side: usize, number: u8) -> Option<u8> {
        let living = |life: &&LinkLife| life.number == number && life.state == LinkState::Active;
        let life = self.lives.iter().rev().find(living)?;
        Some(life.ends.get(side).copied().flatten()?.rnic - 1)
    }

    /// Links that use an RNIC of a host and live.
    pub(super) fn on(&mut self, side: usize, rnic: u8) -> impl Iterator<Item = &mut LinkLife> {
        self.lives.iter_mut().filter(move |life| {
            let end = life.ends.get(side).copied().flatten();
            life.state == LinkState::Active && end.is_some_and(|end| end.rnic == rnic + 1)
        })
    }
}

fn status(simulation: &mut Simulation, host: HostId, id: LinkId) -> Option<LinkStatus> {
    simulation.endpoint(host)?.link(id)
}
