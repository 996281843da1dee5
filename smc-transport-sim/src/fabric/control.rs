//! Control commands. Each takes effect when it is given and is answered later,
//! so that a slow answer never hides a fast peer.

use smc_proto::command::QpAddress;
use smc_proto::id::DeviceId;
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::types::{Mtu, Psn, Qpn};

use super::fault_span::FaultSpan;
use super::queue_pair::{Peer, QueuePair, QueuePairId, QueuePairState};
use super::watch::TOLERATED_DELAY;
use super::{Fabric, HostId, QueuePairKey};
use crate::completion::{Completion, FabricCompletion};
use crate::fault::{FaultAction, Operation};
use crate::memory::Regions;

/// The answer to a command, or why it is refused.
pub(super) type Answer = Result<FabricCompletion, Refusal>;

/// Why a command is refused.
pub(super) enum Refusal {
    /// The command is a mistake of the host.
    Mistake(String),
    /// The queue pair of the command broke or the RNIC of the command is gone, which the host may
    /// not know yet.
    Gone,
}

impl From<String> for Refusal {
    fn from(what: String) -> Self {
        Self::Mistake(what)
    }
}

impl From<&str> for Refusal {
    fn from(what: &str) -> Self {
        Self::Mistake(what.to_owned())
    }
}

impl Fabric {
    /// Creates a queue pair on a port and keeps receives of `receive_size` bytes
    /// posted. Answer: `QpCreated`.
    pub fn create_queue_pair(
        &mut self,
        host: HostId,
        key: QueuePairKey,
        device: DeviceId,
        port: u8,
        receive_size: u32,
    ) {
        self.control_link(host, key, Operation::CreateQueuePair, |fabric| {
            let here = |p: &super::Port| {
                p.host == host && (p.config.device, p.config.port) == (device, port)
            };
            let found = fabric.ports.iter().position(here);
            let port = found.ok_or_else(|| format!("no port {port} of {device:?}"))?;
            if fabric.is_gone(port) {
                return Err(Refusal::Gone);
            }
            let id = fabric.fresh_queue_pair_id(host);
            let owner = fabric
                .hosts
                .get_mut(usize::from(host.0))
                .ok_or("no such host")?;
            if owner.queue_pairs.contains_key(&key) {
                return Err(format!("{key:?} exists").into());
            }
            owner.queue_pairs.insert(key, id);
            let receives = fabric.receives_of(host);
            fabric.watch_created(id);
            fabric.queue_pairs.insert(
                id,
                QueuePair {
                    key,
                    device,
                    port,
                    receive_size,
                    state: QueuePairState::Init,
                    peer: None,
                    regions: Regions::default(),
                    next_psn: 0,
                    expected_psn: 0,
                    accepted: 0,
                    receives,
                    next_number: 0,
                    outstanding: std::collections::VecDeque::new(),
                    retry_timer: None,
                    last_progress: Instant::ZERO,
                    retries: 0,
                    not_ready: 0,
                    completions_not_before: Instant::ZERO,
                    lost_sent: FaultSpan::OVER,
                    lost_received: FaultSpan::OVER,
                    losing: FaultSpan::OVER,
                    unreported: FaultSpan::OVER,
                },
            );
            let qpn = id.qpn;
            Ok(Completion::QpCreated { link: key, qpn })
        });
    }

    /// Binds a queue pair to its peer, ready to receive. Answer: `QpConnected`.
    pub fn connect_queue_pair(
        &mut self,
        host: HostId,
        key: QueuePairKey,
        peer: QpAddress,
        mtu: Mtu,
    ) {
        self.control_link(host, key, Operation::ConnectQueuePair, |fabric| {
            let port = fabric.port_of.get(&peer.gid).copied();
            let queue_pair = fabric.queue_pair_in(host, key, QueuePairState::Init)?;
            if mtu.octets().is_none() {
                return Err(format!("reserved MTU {mtu}").into());
            }
            queue_pair.state = QueuePairState::ReadyToReceive;
            queue_pair.expected_psn = peer.psn.value();
            let address = peer.into();
            queue_pair.peer = Some(Peer { address, mtu, port });
            fabric.watch_key(host, key);
            Ok(Completion::QpConnected { link: key })
        });
    }

    /// Makes a queue pair ready to send. Answer: `QpActive`.
    pub fn activate_queue_pair(&mut self, host: HostId, key: QueuePairKey, psn: Psn) {
        self.control_link(host, key, Operation::ActivateQueuePair, |fabric| {
            let queue_pair = fabric.queue_pair_in(host, key, QueuePairState::ReadyToReceive)?;
            queue_pair.state = QueuePairState::ReadyToSend;
            queue_pair.next_psn = psn.value();
            fabric.watch_key(host, key);
            Ok(Completion::QpActive { link: key })
        });
    }

    /// Stops a queue pair. What it has on the wire still arrives at the peer;
    /// when it did, the answer is `QpDrained`.
    pub fn queue_pair_to_error(&mut self, host: HostId, key: QueuePairKey) {
        let id = self.queue_pair(host, key).map(|(id, _)| id);
        let mut settled = Duration::ZERO;
        if let Some(id) = id {
            self.watch_stopped(id);
            let flushed = self.flush(id);
            // Whatever is still to be reported comes first.
            let reported = self.queue_pairs.get(&id);
            let reported = reported.map_or(flushed, |q| q.completions_not_before);
            settled = flushed.max(reported).since(self.queue.now());
        }
        let effect = |_: &mut Self| {
            let drained = Completion::QpDrained { link: key };
            id.map(|_| drained)
                .ok_or_else(|| format!("no {key:?}").into())
        };
        let refused = Completion::LinkRefused { link: key };
        let (operation, link) = (Operation::QueuePairToError, id);
        self.control(host, link, operation, refused, settled, effect);
    }

    /// Destroys a queue pair and its protection domain. Answer: `QpDestroyed`.
    pub fn destroy_queue_pair(&mut self, host: HostId, key: QueuePairKey) {
        self.control_link(host, key, Operation::DestroyQueuePair, |fabric| {
            let (id, queue_pair) = fabric
                .queue_pair(host, key)
                .ok_or_else(|| format!("no {key:?}"))?;
            let busy = queue_pair.can_receive() || !queue_pair.outstanding.is_empty();
            if busy {
                return Err(format!("{key:?} destroyed before it was drained").into());
            }
            fabric.queue_pairs.remove(&id);
            let owner = fabric
                .hosts
                .get_mut(usize::from(host.0))
                .ok_or("no such host")?;
            owner.queue_pairs.remove(&key);
            Ok(Completion::QpDestroyed { link: key })
        });
    }

    fn control_link(
        &mut self,
        host: HostId,
        link: QueuePairKey,
        operation: Operation,
        effect: impl FnOnce(&mut Self) -> Answer,
    ) {
        let id = self.queue_pair(host, link).map(|(id, _)| id);
        let refused = Completion::LinkRefused { link };
        self.control(host, id, operation, refused, Duration::ZERO, effect);
    }

    /// Executes a command unless a fault refuses it, and answers it after the
    /// control latency, `at_least` and what faults add. A mistake of the host is
    /// recorded and refused.
    pub(super) fn control(
        &mut self,
        host: HostId,
        link: Option<QueuePairId>,
        operation: Operation,
        refused: FabricCompletion,
        at_least: Duration,
        effect: impl FnOnce(&mut Self) -> Answer,
    ) {
        let struck = self.plan.strike(host, operation, &mut self.random);
        let mut latency = self.config.control_latency.max(at_least);
        let mut completion = None;
        for action in &struck {
            let (fault, action) = *action;
            match action {
                FaultAction::Refuse => completion = Some(refused.clone()),
                FaultAction::Delay(time) => latency = latency.saturating_add(time),
                _ => continue,
            }
            let phase = link.map_or_else(|| self.phase_of_host(host), |id| self.phase_of(id));
            self.plan.note(fault, phase);
            self.harm_by_control(host, link, action);
        }
        let completion = completion.unwrap_or_else(|| match effect(self) {
            Ok(completion) => completion,
            Err(Refusal::Gone) => refused,
            Err(Refusal::Mistake(what)) => {
                self.violation(host, what);
                refused
            }
        });
        self.complete_at(self.queue.now().after(latency), host, completion);
        self.apply(&struck, host, link);
    }

    /// What a refused or late command may cost: a refused one its link, a late
    /// one everything that waits for it.
    fn harm_by_control(&mut self, host: HostId, link: Option<QueuePairId>, action: FaultAction) {
        match (action, link) {
            (FaultAction::Refuse, Some(link)) => self.harm_link(link),
            (FaultAction::Delay(time), _) if time >= TOLERATED_DELAY => self.harm_host(host, time),
            _ => {}
        }
    }

    /// The watch evaluates a queue pair again.
    fn watch_key(&mut self, host: HostId, key: QueuePairKey) {
        if let Some((id, _)) = self.queue_pair(host, key) {
            self.watch_bound(id);
        }
    }

    fn queue_pair_in(
        &mut self,
        host: HostId,
        key: QueuePairKey,
        state: QueuePairState,
    ) -> Result<&mut QueuePair, Refusal> {
        let id = self.queue_pair(host, key).map(|(id, _)| id);
        let queue_pair = id.and_then(|id| self.queue_pairs.get_mut(&id));
        match queue_pair {
            Some(queue_pair) if queue_pair.state == state => Ok(queue_pair),
            Some(queue_pair) if queue_pair.state == QueuePairState::Error => Err(Refusal::Gone),
            Some(queue_pair) => {
                Err(format!("{key:?} is {:?}, not {state:?}", queue_pair.state).into())
            }
            None => Err(format!("no {key:?}").into()),
        }
    }

    fn fresh_queue_pair_id(&mut self, host: HostId) -> QueuePairId {
        loop {
            let qpn = Qpn::new(2 + self.random.below((1 << 24) - 3) as u32);
            let id = QueuePairId { host, qpn };
            if !self.queue_pairs.contains_key(&id) {
                return id;
            }
        }
    }

    /// State of a queue pair.
    #[must_use]
    pub fn queue_pair_state(&self, host: HostId, key: QueuePairKey) -> Option<QueuePairState> {
        self.queue_pair(host, key)
            .map(|(_, queue_pair)| queue_pair.state)
    }
}
