//! What happens to a host as a whole: ports and RNICs that come and go, clocks
//! that go wrong, and its end and new beginning.

use smc_proto::path::PathEvent;
use smc_proto::storage::Storage;
use smc_proto::time::Duration;

use super::socket::Clc;
use super::{HostId, Simulation};
use crate::fabric::HostEvent;

/// A jump of this length or more makes waits of engines expire.
const LONG: Duration = Duration::from_millis(500);

impl<S: Storage> Simulation<S> {
    pub(super) fn on_host_event(&mut self, id: HostId, event: HostEvent) {
        let at = self.fabric.now();
        match event {
            HostEvent::PortDown { device, port } => {
                self.notify_path(id, PathEvent::PortDown { device, port });
            }
            HostEvent::PortUp(port) => {
                let paths = self.paths(&port);
                let others = self.fabric.hosts().filter(|other| *other != id);
                let shared = others
                    .flat_map(|other| self.fabric.ports(other))
                    .any(|other| other.subnet == port.subnet);
                for mut path in paths {
                    path.subnet_match = shared;
                    self.notify_path(id, PathEvent::PortUp(path));
                }
            }
            HostEvent::DeviceRemoved { device } => {
                self.notify_path(id, PathEvent::DeviceRemoved { device });
            }
            HostEvent::Restarted => self.begin_anew(id),
            HostEvent::ClockJumps { fault, by } => {
                let Some(host) = self.hosts.get_mut(usize::from(id.0)) else {
                    return;
                };
                let shown = host.clock.show(at);
                host.clock.jump(by);
                let deadline = host.endpoint.poll_timeout();
                if deadline.is_some_and(|d| d > shown && d <= shown.after(by)) {
                    self.fabric.note_fault(fault, id);
                }
                self.late(id, by, Duration::ZERO);
            }
            HostEvent::ClockFreezes { fault, time } => {
                if let Some(host) = self.hosts.get_mut(usize::from(id.0)) {
                    host.clock.freeze(fault, at, time);
                }
                self.late(id, time, time);
            }
            HostEvent::TimersLate { fault, by, time } => {
                if let Some(host) = self.hosts.get_mut(usize::from(id.0)) {
                    host.clock.delay(fault, at, by, time);
                }
                self.late(id, by, time.saturating_add(by));
            }
        }
    }

    /// What a wrong clock may cost: whatever waits for a message meanwhile.
    fn late(&mut self, host: HostId, by: Duration, time: Duration) {
        if let Some(invariants) = &mut self.invariants {
            invariants.on_wrong_clock(host);
        }
        if by >= LONG {
            self.fabric.harm_host(host, time);
        }
    }

    fn notify_path(&mut self, id: HostId, event: PathEvent) {
        let now = self.host_now(id);
        if let Some(host) = self.hosts.get_mut(usize::from(id.0)) {
            host.endpoint.handle_path(now, event);
        }
        self.count_steps(id);
    }

    /// The host crashed: its applications and its engine are gone, and another
    /// instance of the engine begins with nothing.
    fn begin_anew(&mut self, id: HostId) {
        for socket in self.sockets.iter_mut().filter(|s| s.host == id) {
            socket.state.crashed = true;
            socket.state.conn = None;
            socket.clc = Clc::Over;
            socket.awake = false;
        }
        let seed = self.fabric.draw();
        if let Some(invariants) = &mut self.invariants {
            invariants.on_restart(id);
        }
        let Some(host) = self.hosts.get_mut(usize::from(id.0)) else {
            return;
        };
        host.conns.clear();
        host.groups.clear();
        host.links.clear();
        if !host.engine_anew(seed) {
            self.finding(
                id,
                "a host with tables of its own cannot begin anew".to_owned(),
            );
        }
    }
}
