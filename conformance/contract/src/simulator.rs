//! The simulator's fabric.

use std::collections::BTreeSet;

use smc_proto::command::{BufferSpans, RdmaCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::id::{BufferId, ConnId, LinkId, WrId};
use smc_proto::time::Duration;
use smc_proto::wire::types::{Gid, Mac, Mtu};
use smc_transport_sim::fabric::{Fabric, FabricConfig, HostId, PortConfig};
use smc_transport_sim::fault::{FaultAction, FaultPlan, Operation, Trigger};

use crate::{Adapters, DEVICE, Side};

/// Two hosts of a fabric.
#[derive(Debug)]
pub struct Simulated {
    fabric: Fabric,
    hosts: [HostId; 2],
    links: [BTreeSet<LinkId>; 2],
    buffers: [BTreeSet<BufferId>; 2],
}

impl Simulated {
    /// A fabric of its own; what is drawn in it is drawn from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut fabric = Fabric::new(FabricConfig::default(), seed);
        let hosts = [fabric.add_host("a"), fabric.add_host("b")];
        for (side, host) in hosts.into_iter().enumerate() {
            let (gid, mac) = address(side);
            let port = PortConfig {
                device: DEVICE,
                port: 1,
                gid,
                mac,
                mtu: Mtu::M1024,
                subnet: 0,
            };
            fabric.add_port(host, port);
        }
        Self {
            fabric,
            hosts,
            links: Default::default(),
            buffers: Default::default(),
        }
    }
}

fn address(side: Side) -> (Gid, Mac) {
    let number = side as u8 + 1;
    let mut gid = [0; 16];
    (gid[10], gid[11], gid[12], gid[15]) = (0xff, 0xff, 10, number);
    (Gid(gid), Mac([2, 0, 0, 0, 0, number]))
}

impl Adapters for Simulated {
    fn address(&self, side: Side) -> (u16, Gid, Mac) {
        let (gid, mac) = address(side);
        (0, gid, mac)
    }

    fn execute(&mut self, side: Side, command: RdmaCommand) {
        self.fabric.execute(self.hosts[side], command);
    }

    fn send_large(&mut self, side: Side, link: LinkId, wr_id: WrId, bytes: &[u8]) {
        self.fabric.send_large(self.hosts[side], link, wr_id, bytes);
    }

    fn poll(&mut self, side: Side, listener: &mut dyn FnMut(RdmaCompletion<'_>)) -> bool {
        let Some(completion) = self.fabric.next_completion(self.hosts[side]) else {
            return false;
        };
        let completion = completion.as_ref();
        match completion {
            RdmaCompletion::QpCreated { link, .. } => _ = self.links[side].insert(link),
            RdmaCompletion::QpDestroyed { link } => _ = self.links[side].remove(&link),
            RdmaCompletion::BufferAllocated { buffer } => _ = self.buffers[side].insert(buffer),
            RdmaCompletion::BufferFreed { buffer } => _ = self.buffers[side].remove(&buffer),
            _ => {}
        }
        listener(completion);
        true
    }

    fn wait(&mut self) -> bool {
        self.fabric.step()
    }

    fn pause(&mut self) {
        let end = self.fabric.now().after(Duration::from_millis(1));
        while !self.fabric.run_until(end) && self.fabric.next_event().is_some_and(|at| at <= end) {}
    }

    fn fill(&mut self, side: Side, spans: &BufferSpans, bytes: &[u8]) {
        self.fabric
            .fill_send(self.hosts[side], spans.buffer, spans.segments, bytes)
            .expect("pieces of a send buffer");
    }

    fn take(&mut self, side: Side, conn: ConnId, spans: &BufferSpans) -> Option<Vec<u8>> {
        let (host, mut bytes) = (self.hosts[side], Vec::new());
        let BufferSpans {
            buffer,
            segments,
            eye_catcher_at,
            ..
        } = *spans;
        self.fabric
            .read_rmb(host, conn, buffer, segments, eye_catcher_at, &mut bytes)
            .expect("pieces of an RMB")
            .then_some(bytes)
    }

    fn possessions(&self, side: Side) -> usize {
        self.links[side].len() + self.buffers[side].len()
    }

    fn refuse_registrations(&mut self) -> bool {
        let trigger = Trigger::From {
            operation: Operation::RegisterBuffer,
            number: 1,
        };
        let plan = FaultPlan::none().with(trigger, None, FaultAction::Refuse);
        self.fabric.set_faults(plan);
        true
    }

    fn complaints(&self) -> Vec<String> {
        self.fabric
            .violations()
            .iter()
            .map(ToString::to_string)
            .collect()
    }
}
