//! Checks of whole hosts: no side waits in vain, and nothing is left at the end.

use smc_proto::endpoint::Usage;
use smc_proto::storage::Storage;

use super::{HostId, Simulation, Transport};
use crate::fabric::Violation;
use crate::invariants::{Breach, Rule};

/// Wakes are checked at every so manieth step, and whenever nothing is on its way:
/// one that is lost stays lost.
const EVERY: u64 = 64;

impl<S: Storage> Simulation<S> {
    /// I7 and I8, after a step: everything at this moment has happened.
    pub(super) fn check_idle(&mut self) {
        let idle = self.fabric.next_event().is_none();
        if !idle && !self.steps.is_multiple_of(EVERY) {
            return;
        }
        for index in 0..self.sockets.len() {
            if let Some((host, rule, what)) = self.stuck(index, idle) {
                let at = self.fabric.now();
                let breach = Breach::new(at, host, rule, &what);
                // Once is enough: it is stuck for good.
                if !self.findings.contains(&breach.violation) {
                    self.findings.push(breach.violation);
                }
            }
        }
    }

    /// Why a socket waits in vain, if it does.
    fn stuck(&mut self, index: usize, idle: bool) -> Option<(HostId, Rule, String)> {
        let socket = self.sockets.get(index)?;
        let (host, transport) = (socket.host, socket.state.transport);
        if socket.stuck_reported || socket.state.closed.is_some() || socket.state.crashed {
            return None;
        }
        let conn = socket.state.conn?;
        let writes = !socket.app.is_all_written();
        let reads = socket.app.wants_to_read();
        // Links are tested: a host on one waits for its peer at least.
        let on_link = transport == Transport::Smc && socket.life.queue_pair.is_some();
        let waits = transport == Transport::None || socket.app.is_closed() || on_link;
        let owner = self.hosts.get_mut(usize::from(host.0))?;
        if owner.full_until > self.fabric.now() {
            return None;
        }
        let endpoint = &mut owner.endpoint;
        let mut found = None;
        if transport == Transport::Smc
            && let Some(conn) = endpoint.conn(conn)
        {
            let space = conn.send_space().is_some_and(|spans| !spans.is_empty());
            let bytes = conn.readable().is_some_and(|spans| !spans.is_empty());
            if writes && space {
                found = Some((Rule::Wake, "a writer was not notified of its space"));
            } else if reads && bytes {
                found = Some((Rule::Wake, "a reader was not notified of its octets"));
            }
        }
        let over = transport == Transport::Tcp;
        if found.is_none() && idle && waits && !over && endpoint.poll_timeout().is_none() {
            found = Some((Rule::Timer, "waits for the network without a timer"));
        }
        let (rule, what) = found?;
        if let Some(socket) = self.sockets.get_mut(index) {
            socket.stuck_reported = true;
        }
        Some((host, rule, format!("{what}: socket {index}")))
    }

    /// I11, after everything ended: what engines and RNICs still hold.
    pub fn leftovers(&mut self) -> Vec<Violation> {
        let mut found = Vec::new();
        let at = self.fabric.now();
        let mut left = |host, what: String| {
            found.push(Breach::new(at, host, Rule::Left, &what).violation);
        };
        for host in &mut self.hosts {
            let usage = host.endpoint.usage();
            if usage != Usage::default() {
                left(host.id, format!("the engine keeps {usage:?}"));
            }
            let in_use = self.fabric.in_use(host.id);
            if in_use != [0, 0, 0] {
                let what = "buffers, queue pairs and registrations";
                left(host.id, format!("the RNICs keep {in_use:?} {what}"));
            }
        }
        found
    }
}
