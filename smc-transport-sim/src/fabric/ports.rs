//! Ports that lose their carrier, RNICs that leave, and both coming back.

use smc_proto::completion::LinkFailure;
use smc_proto::id::DeviceId;
use smc_proto::time::{Duration, Instant};

use super::event::Event;
use super::fault_span::FaultSpan;
use super::queue_pair::QueuePairId;
use super::{Fabric, HostEvent, HostId, PortConfig};
use crate::fault::PortSelector;

#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) host: HostId,
    pub(super) config: PortConfig,
    pub(super) sends: bool,
    pub(super) receives: bool,
    /// Without carrier.
    pub(super) down: FaultSpan,
    /// The RNIC of the port is gone.
    pub(super) gone: FaultSpan,
    pub(super) lost_sent: FaultSpan,
    pub(super) lost_received: FaultSpan,
    pub(super) slow: FaultSpan,
    pub(super) slow_by: Duration,
    /// The host was notified that it is down, and not yet that it is up again.
    pub(super) reported_down: bool,
}

impl Port {
    pub(super) const fn new(host: HostId, config: PortConfig) -> Self {
        Self {
            host,
            config,
            sends: true,
            receives: true,
            down: FaultSpan::OVER,
            gone: FaultSpan::OVER,
            lost_sent: FaultSpan::OVER,
            lost_received: FaultSpan::OVER,
            slow: FaultSpan::OVER,
            slow_by: Duration::ZERO,
            reported_down: false,
        }
    }

    /// Whether it is there and has its carrier.
    pub(super) fn is_up(&self, now: Instant) -> bool {
        !self.down.is_on(now) && !self.gone.is_on(now)
    }

    pub(super) fn passes_sent(&self, now: Instant) -> bool {
        self.sends && self.is_up(now) && !self.lost_sent.is_on(now)
    }

    pub(super) fn passes_received(&self, now: Instant) -> bool {
        self.receives && self.is_up(now) && !self.lost_received.is_on(now)
    }

    /// How much longer its wires take now.
    pub(super) fn extra_latency(&self, now: Instant) -> Duration {
        if self.slow.is_on(now) {
            self.slow_by
        } else {
            Duration::ZERO
        }
    }
}

impl Fabric {
    /// Ports of a host that have their carrier.
    pub fn ports_up(&self, host: HostId) -> impl Iterator<Item = &PortConfig> {
        let now = self.queue.now();
        let up = move |port: &&Port| port.host == host && port.is_up(now);
        self.ports.iter().filter(up).map(|port| &port.config)
    }

    /// Ports of a host that a fault strikes: the one of the operation, unless
    /// the selector names others.
    pub(super) fn selected_ports(
        &self,
        host: HostId,
        link: Option<QueuePairId>,
        selector: PortSelector,
    ) -> Vec<usize> {
        let of_link = link.and_then(|id| Some(self.queue_pairs.get(&id)?.port));
        if let (Some(port), PortSelector::ANY) = (of_link, selector) {
            return vec![port];
        }
        let fits = |port: &Port| {
            port.host == host
                && selector.device.is_none_or(|d| d == port.config.device)
                && selector.port.is_none_or(|p| p == port.config.port)
        };
        let numbered = self.ports.iter().enumerate();
        numbered.filter(|(_, p)| fits(p)).map(|(i, _)| i).collect()
    }

    /// A port loses its carrier. Its queue pairs live on and find out by
    /// themselves; the host is notified at once.
    pub(super) fn port_down(&mut self, fault: usize, port: usize, time: Duration) {
        let now = self.queue.now();
        let in_use = self.links_of_port(port);
        let Some(state) = self.ports.get_mut(port) else {
            return;
        };
        if state.down.is_on(now) {
            return;
        }
        state.down = FaultSpan::new(fault, now, time);
        let (host, config) = (state.host, state.config);
        if !std::mem::replace(&mut state.reported_down, true) {
            let (device, port) = (config.device, config.port);
            self.report(host, HostEvent::PortDown { device, port });
        }
        if time < Duration::MAX {
            self.queue.schedule_after(time, Event::PortReturns { port });
        }
        if let Some(id) = in_use.first() {
            let phase = self.phase_of(*id);
            if let Some(fault) = self.ports.get_mut(port).and_then(|p| p.down.hit(now)) {
                self.plan.note(fault, phase);
            }
        }
        for id in in_use {
            self.harm_link(id);
        }
    }

    /// The carrier of a port comes and goes `left` times more.
    pub(super) fn port_flaps(&mut self, fault: usize, port: usize, left: u16, period: Duration) {
        if left == 0 || self.plan.armed(fault).is_none() {
            return;
        }
        self.port_down(fault, port, period / 2);
        let left = left - 1;
        let again = Event::PortFlaps {
            fault,
            port,
            left,
            period,
        };
        self.queue.schedule_after(period, again);
    }

    /// An RNIC leaves: its queue pairs break, then the host is notified.
    pub(super) fn remove_device(
        &mut self,
        fault: usize,
        host: HostId,
        device: DeviceId,
        time: Duration,
    ) {
        let now = self.queue.now();
        let selector = PortSelector {
            device: Some(device),
            port: None,
        };
        let ports = self.selected_ports(host, None, selector);
        let is_gone = |port: &usize| self.ports.get(*port).is_none_or(|p| p.gone.is_on(now));
        if ports.iter().all(is_gone) {
            return;
        }
        let mine: Vec<_> = self
            .queue_pairs
            .range(QueuePairId::all_of(host))
            .filter(|(_, queue_pair)| queue_pair.device == device)
            .map(|(id, _)| *id)
            .collect();
        let phase = mine.first().map(|id| self.phase_of(*id));
        for port in &ports {
            if let Some(port) = self.ports.get_mut(*port) {
                port.gone = FaultSpan::new(fault, now, time);
                port.reported_down = true;
            }
            if time < Duration::MAX {
                let port = *port;
                self.queue.schedule_after(time, Event::PortReturns { port });
            }
        }
        for id in mine {
            self.fail(id, LinkFailure::DeviceRemoved, None);
        }
        self.report(host, HostEvent::DeviceRemoved { device });
        if let Some(phase) = phase {
            self.note_gone(&ports, phase);
        }
    }

    /// The removal of an RNIC hit something, for the first time.
    fn note_gone(&mut self, ports: &[usize], phase: crate::fault::Phase) {
        let now = self.queue.now();
        let mut hit = None;
        for port in ports {
            hit = self
                .ports
                .get_mut(*port)
                .and_then(|p| p.gone.hit(now))
                .or(hit);
        }
        if let Some(fault) = hit {
            self.plan.note(fault, phase);
        }
    }

    /// Whether the RNIC of a port is gone; if so, that this mattered is noted.
    pub(super) fn is_gone(&mut self, port: usize) -> bool {
        let now = self.queue.now();
        let Some(state) = self.ports.get(port) else {
            return true;
        };
        let (gone, host) = (state.gone.is_on(now), state.host);
        if gone {
            let phase = self.phase_of_host(host);
            self.note_gone(&[port], phase);
        }
        gone
    }

    /// A port may have its carrier and its RNIC again.
    pub(super) fn port_returns(&mut self, port: usize) {
        let now = self.queue.now();
        if let Some(state) = self.ports.get_mut(port)
            && state.is_up(now)
            && std::mem::take(&mut state.reported_down)
        {
            let (host, config) = (state.host, state.config);
            self.report(host, HostEvent::PortUp(config));
        }
    }

    /// Queue pairs of a port that are connected and not broken.
    fn links_of_port(&self, port: usize) -> Vec<QueuePairId> {
        let uses = |queue_pair: &super::queue_pair::QueuePair| {
            queue_pair.port == port && queue_pair.can_receive()
        };
        let all = self.queue_pairs.iter();
        all.filter(|(_, q)| uses(q)).map(|(id, _)| *id).collect()
    }

    /// Notes for what a packet that a port did not pass was lost.
    pub(super) fn note_lost_packet(&mut self, port: usize, sent: bool, phase: crate::fault::Phase) {
        let now = self.queue.now();
        let Some(state) = self.ports.get_mut(port) else {
            return;
        };
        let lost = if sent {
            &mut state.lost_sent
        } else {
            &mut state.lost_received
        };
        let hits = [lost.hit(now), state.down.hit(now)];
        for fault in hits.into_iter().flatten() {
            self.plan.note(fault, phase);
        }
    }

    /// Ends everything that ails ports. Faults still to come are not affected.
    pub fn restore_ports(&mut self) {
        let now = self.queue.now();
        for port in 0..self.ports.len() {
            if let Some(state) = self.ports.get_mut(port) {
                for span in [
                    &mut state.down,
                    &mut state.gone,
                    &mut state.lost_sent,
                    &mut state.lost_received,
                    &mut state.slow,
                ] {
                    span.end(now);
                }
                (state.sends, state.receives) = (true, true);
            }
            self.port_returns(port);
        }
    }
}
