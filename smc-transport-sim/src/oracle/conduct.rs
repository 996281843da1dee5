//! Gathering what is known of a connection from a simulation.

use smc_proto::event::CloseReason;
use smc_proto::storage::Storage;
use smc_proto::time::Instant;

use super::{Conduct, End};
use crate::fabric::{HostHarm, WorkOwner};
use crate::sim::{Life, Simulation, SocketId, Transport};

impl<S: Storage> Simulation<S> {
    /// What is known of a connection now, for the oracle. `planned` bytes each
    /// end was to write, the client's first.
    #[must_use]
    pub fn conduct(
        &self,
        ends: (SocketId, SocketId),
        planned: [u64; 2],
        graceful: bool,
    ) -> Option<Conduct> {
        let end = |socket: SocketId, planned: u64| {
            let app = self.app(socket)?;
            Some(End {
                state: *self.state(socket)?,
                planned,
                written: app.written().length(),
                read: app.read().length(),
                at_end: app.is_at_end(),
            })
        };
        let [client, server] = planned;
        Some(Conduct {
            ends: [end(ends.0, client)?, end(ends.1, server)?],
            graceful,
            survivable: self.survivable(ends).unwrap_or(false),
        })
    }

    /// Whether one link of the connection's group was there before both ends were
    /// established, and unharmed until both had ended, and nothing else excuses
    /// an end.
    fn survivable(&self, ends: (SocketId, SocketId)) -> Option<bool> {
        let [one, other] = [self.life(ends.0)?, self.life(ends.1)?];
        for socket in [ends.0, ends.1] {
            let state = self.state(socket)?;
            if state.transport != Transport::Smc || state.crashed {
                return Some(false);
            }
        }
        let begin = one.established?.max(other.established?);
        let end = match (one.ended, other.ended) {
            (Some(one), Some(other)) => one.max(other),
            _ => Instant::MAX,
        };
        let fabric = self.wires();
        let excused = |host, life: &Life| {
            let mut harmed = fabric.harmed_hosts().iter();
            harmed.any(|harm| harm.host == host && harm.until >= life.opened && harm.from <= end)
        };
        let lost = |host, life: &Life| {
            let owner = life.conn.map(WorkOwner::from);
            owner.is_some_and(|owner| fabric.lost_write(host, owner))
                || life
                    .alert_token
                    .is_some_and(|token| fabric.lost_message(host, token))
        };
        for life in [&one, &other] {
            if excused(life.host, life) || lost(life.host, life) {
                return Some(false);
            }
        }
        // Until the peer has reached it over SMC, a client takes a reset of TCP to mean
        // that the server did not take its Confirm; over SMC-D that could be either end
        // whose DMB was not bound (D-058).
        let queue_pair = one.queue_pair.or(other.queue_pair);
        let confirming = if queue_pair.is_some() { 1 } else { 2 };
        for socket in [ends.0, ends.1].into_iter().take(confirming) {
            let state = self.state(socket)?;
            if state.tcp_reset && state.closed == Some(CloseReason::TcpReset) {
                return Some(false);
            }
        }
        let Some((host, qpn)) = queue_pair else {
            // SMC-D: its way is there as long as nothing harms a device.
            let from = one.opened.min(other.opened);
            let mut harms = fabric.harmed_ism().iter();
            let ends = [one.host, other.host];
            let concerns = |harm: &HostHarm| {
                ends.contains(&harm.host) && from <= harm.until && harm.from <= end
            };
            return Some(!harms.any(concerns));
        };
        let group = fabric.group_of(host, qpn)?;
        let links = fabric.links().iter().filter(|link| link.group == group);
        let through = links.clone().any(|link| link.carries(begin, end));
        Some(through)
    }
}
