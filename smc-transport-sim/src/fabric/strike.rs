//! Carrying out the actions of a fault plan.

use smc_proto::completion::LinkFailure;
use smc_proto::id::DeviceId;
use smc_proto::time::Duration;

use super::event::Event;
use super::fault_span::FaultSpan;
use super::queue_pair::QueuePairId;
use super::watch::TOLERATED_DELAY;
use super::{Fabric, HostEvent, HostId};
use crate::fault::{Ends, Fault, FaultAction, FaultPlan, Lost, Trigger};
use crate::tcp::TcpSplit;

impl Fabric {
    /// Replaces the faults to come.
    pub fn set_faults(&mut self, plan: FaultPlan) {
        for (index, fault) in plan.faults().iter().enumerate() {
            if let Trigger::At(at) = fault.trigger {
                self.queue.schedule(at, Event::Fault { index });
            }
        }
        self.plan = plan;
    }

    /// Adds a fault to those to come.
    pub fn add_fault(&mut self, fault: Fault) {
        if let Trigger::At(at) = fault.trigger {
            let index = self.plan.faults().len();
            self.queue.schedule(at, Event::Fault { index });
        }
        self.plan.push(fault);
    }

    /// The faults, and which of them took effect.
    #[must_use]
    pub const fn faults(&self) -> &FaultPlan {
        &self.plan
    }

    /// The quiet phase begins: no fault strikes any more, and what lasts is over.
    pub fn end_faults(&mut self) {
        self.plan.disarm();
        self.heal();
    }

    /// What lasts is over: ports and RNICs are back, wires are fast, receives are
    /// posted. Faults to come still come.
    pub fn heal(&mut self) {
        let now = self.queue.now();
        self.restore_ports();
        self.signal_in_time();
        for host in self.hosts() {
            if let Some(state) = self.hosts.get_mut(usize::from(host.0)) {
                for span in [
                    &mut state.withheld,
                    &mut state.few,
                    &mut state.busy,
                    &mut state.held,
                ] {
                    span.end(now);
                }
            }
            self.post_receives(host);
        }
        let mut doomed = Vec::new();
        for (id, queue_pair) in &mut self.queue_pairs {
            queue_pair.lost_sent.end(now);
            queue_pair.lost_received.end(now);
            for span in [&mut queue_pair.losing, &mut queue_pair.unreported] {
                if span.end(now) && span.is_noted() {
                    doomed.push(*id);
                }
            }
        }
        for id in doomed {
            self.break_both(id, LinkFailure::RetriesExhausted);
        }
    }

    /// Notes that a fault, by its number in the plan, took effect at a host. For
    /// what is built on the fabric and carries out faults of its own.
    pub fn note_fault(&mut self, fault: usize, host: HostId) {
        let phase = self.phase_of_host(host);
        self.plan.note(fault, phase);
    }

    /// A fault whose time has come.
    pub(super) fn timed_fault(&mut self, index: usize) {
        let Some(fault) = self.plan.armed(index) else {
            return;
        };
        let concerned = |host: &HostId| fault.host.is_none_or(|h| h == *host);
        for host in self.hosts().filter(concerned) {
            self.apply(&[(index, fault.action)], host, None);
        }
    }

    /// Applies faults that struck a host, or its work on a queue pair.
    pub(super) fn apply(
        &mut self,
        struck: &[(usize, FaultAction)],
        host: HostId,
        link: Option<QueuePairId>,
    ) {
        for &(fault, action) in struck {
            self.apply_one(fault, action, host, link);
        }
    }

    fn apply_one(
        &mut self,
        fault: usize,
        action: FaultAction,
        host: HostId,
        link: Option<QueuePairId>,
    ) {
        match action {
            FaultAction::FailLink {
                device,
                ends,
                cause,
            } => {
                for id in self.selected_links(host, link, device) {
                    self.break_link(fault, id, ends, cause);
                }
            }
            FaultAction::SilenceLink { device, lost, time } => {
                for id in self.selected_links(host, link, device) {
                    self.silence_link(fault, id, lost, time);
                }
            }
            FaultAction::SilencePort { port, lost, time } => {
                for port in self.selected_ports(host, link, port) {
                    self.silence_port(fault, port, lost, time);
                }
            }
            FaultAction::PortDown { port, time } => {
                for port in self.selected_ports(host, link, port) {
                    self.port_down(fault, port, time);
                }
            }
            FaultAction::PortFlap {
                port,
                times,
                period,
            } => {
                for port in self.selected_ports(host, link, port) {
                    self.port_flaps(fault, port, times, period);
                }
            }
            FaultAction::RemoveDevice { device, time } => {
                for device in self.selected_devices(host, link, device) {
                    self.remove_device(fault, host, device, time);
                }
            }
            FaultAction::AcknowledgeAndLose(time) => {
                for id in self.selected_links(host, link, None) {
                    self.acknowledge_and_lose(fault, id, time);
                }
            }
            FaultAction::LoseCompletions(time) => {
                for id in self.selected_links(host, link, None) {
                    self.lose_completions(fault, id, time);
                }
            }
            FaultAction::SlowPort { port, by, time } => {
                let span = FaultSpan::new(fault, self.queue.now(), time);
                for port in self.selected_ports(host, link, port) {
                    if let Some(port) = self.ports.get_mut(port) {
                        (port.slow, port.slow_by) = (span, by);
                    }
                }
            }
            FaultAction::HoldCompletions(time) => self.hold_completions(fault, host, time),
            FaultAction::WithholdReceives(time) => self.withhold_receives(fault, host, time),
            FaultAction::FewReceives { receives, time } => {
                self.few_receives(fault, host, receives, time);
            }
            FaultAction::Busy(time) => self.busy(fault, host, time),
            FaultAction::Restart { down, tcp } => self.restart(fault, host, down, tcp),
            FaultAction::JumpClock(by) => self.report(host, HostEvent::ClockJumps { fault, by }),
            FaultAction::FreezeClock(time) => {
                self.report(host, HostEvent::ClockFreezes { fault, time });
            }
            FaultAction::LateTimers { by, time } => {
                self.report(host, HostEvent::TimersLate { fault, by, time });
            }
            FaultAction::TcpReset => {
                if self.tcp_reset_all(host) {
                    self.note_fault(fault, host);
                }
            }
            FaultAction::TcpSplit(split) => self.split_tcp(fault, host, split),
            FaultAction::FailDmb => self.fail_dmb(fault, host),
            FaultAction::LateSignals { by, time } => self.late_signals(fault, host, by, time),
            FaultAction::PeerVanishes => self.peer_vanishes(fault, host),
            FaultAction::RemoveIsm => self.remove_all_ism(fault, host),
            // The executor of the command sees to these.
            FaultAction::Refuse | FaultAction::Delay(_) | FaultAction::FailMove => {}
        }
    }

    /// TCP bytes of a host are cut from now on.
    pub(super) fn split_tcp(&mut self, fault: usize, host: HostId, split: TcpSplit) {
        self.tcp.set_split(host, split, fault);
    }

    /// Queue pairs that a fault strikes: the one of the operation, or all
    /// connected ones of the host.
    fn selected_links(
        &self,
        host: HostId,
        link: Option<QueuePairId>,
        device: Option<DeviceId>,
    ) -> Vec<QueuePairId> {
        let mine = self.queue_pairs.range(QueuePairId::all_of(host));
        mine.filter(|(id, queue_pair)| {
            link.is_none_or(|only| only == **id)
                && device.is_none_or(|only| only == queue_pair.device)
                && queue_pair.can_receive()
        })
        .map(|(id, _)| *id)
        .collect()
    }

    fn selected_devices(
        &self,
        host: HostId,
        link: Option<QueuePairId>,
        device: Option<DeviceId>,
    ) -> Vec<DeviceId> {
        let of_link = link.and_then(|id| Some(self.queue_pairs.get(&id)?.device));
        if let Some(device) = device.or(of_link) {
            return vec![device];
        }
        let mut devices: Vec<_> = self.ports(host).map(|port| port.device).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    fn break_link(&mut self, fault: usize, id: QueuePairId, ends: Ends, cause: LinkFailure) {
        let phase = self.phase_of(id);
        let far = self.peer_of(id);
        let mut broke = false;
        if ends != Ends::Far {
            broke |= self.fail(id, cause, None);
        }
        if let (Ends::Far | Ends::Both, Some(far)) = (ends, far) {
            broke |= self.fail(far, cause, None);
        }
        if broke {
            self.plan.note(fault, phase);
        }
    }

    /// Breaks a queue pair and its peer.
    pub(super) fn break_both(&mut self, id: QueuePairId, cause: LinkFailure) {
        let far = self.peer_of(id);
        self.fail(id, cause, None);
        if let Some(far) = far {
            self.fail(far, cause, None);
        }
    }

    fn silence_link(&mut self, fault: usize, id: QueuePairId, lost: Lost, time: Duration) {
        let span = FaultSpan::new(fault, self.queue.now(), time);
        if let Some(queue_pair) = self.queue_pairs.get_mut(&id) {
            if lost.sent() {
                queue_pair.lost_sent = span;
            }
            if lost.received() {
                queue_pair.lost_received = span;
            }
        }
    }

    fn silence_port(&mut self, fault: usize, port: usize, lost: Lost, time: Duration) {
        let span = FaultSpan::new(fault, self.queue.now(), time);
        if let Some(port) = self.ports.get_mut(port) {
            if lost.sent() {
                port.lost_sent = span;
            }
            if lost.received() {
                port.lost_received = span;
            }
        }
    }

    /// The peer of a queue pair acknowledges without placing, then both break.
    fn acknowledge_and_lose(&mut self, fault: usize, id: QueuePairId, time: Duration) {
        let now = self.queue.now();
        let span = FaultSpan::new(fault, now, time);
        let Some(peer) = self.peer_of(id) else {
            return;
        };
        if let Some(queue_pair) = self.queue_pairs.get_mut(&peer)
            && queue_pair.can_receive()
            // What is lost already must break the link at its own time.
            && !queue_pair.losing.is_on(now)
        {
            queue_pair.losing = span;
            self.queue
                .schedule_after(time, Event::LosingEnds { id: peer });
        }
    }

    fn lose_completions(&mut self, fault: usize, id: QueuePairId, time: Duration) {
        let now = self.queue.now();
        let span = FaultSpan::new(fault, now, time);
        if let Some(queue_pair) = self.queue_pairs.get_mut(&id)
            && !queue_pair.unreported.is_on(now)
        {
            queue_pair.unreported = span;
            self.queue.schedule_after(time, Event::LosingEnds { id });
        }
    }

    /// What a queue pair was to lose is lost; it breaks, unless it came too late
    /// to lose anything.
    pub(super) fn losing_ends(&mut self, id: QueuePairId) {
        let now = self.queue.now();
        let Some(queue_pair) = self.queue_pairs.get_mut(&id) else {
            return;
        };
        let lost = [&queue_pair.losing, &queue_pair.unreported]
            .iter()
            .any(|span| span.until() == now && span.is_noted());
        if lost {
            self.break_both(id, LinkFailure::RetriesExhausted);
        }
    }

    fn hold_completions(&mut self, fault: usize, host: HostId, time: Duration) {
        let span = FaultSpan::new(fault, self.queue.now(), time);
        if let Some(state) = self.hosts.get_mut(usize::from(host.0)) {
            state.held = span;
        }
        if time >= TOLERATED_DELAY {
            self.harm_host(host, time);
        }
    }

    fn busy(&mut self, fault: usize, host: HostId, time: Duration) {
        let span = FaultSpan::new(fault, self.queue.now(), time);
        if let Some(state) = self.hosts.get_mut(usize::from(host.0)) {
            state.busy = span;
        }
        if time < Duration::MAX {
            self.queue.schedule_after(time, Event::Wake);
        }
        if time >= TOLERATED_DELAY {
            self.harm_host(host, time);
        }
    }
}
