//! Two hosts with one RNIC each, and one queue pair between them.

use std::sync::{Arc, Mutex};

use smc_proto::command::{BufferKind, QpAddress, Segment};
use smc_proto::completion::LinkFailure;
use smc_proto::id::{DeviceId, WrId};
use smc_proto::time::Instant;
use smc_proto::wire::types::{Gid, Mac, Mtu, Psn, Qpn, RToken};

use crate::completion::{Completion, FabricCompletion};
use crate::fabric::*;
use crate::observe::Counter;

pub(super) const LINK: QueuePairKey = QueuePairKey(1);
pub(super) const RMB: BufferKey = BufferKey(10);
pub(super) const SEND: BufferKey = BufferKey(20);
pub(super) const OWNER: WorkOwner = WorkOwner(77);
pub(super) const ELEMENT: u32 = 1 << 14;

#[derive(Clone)]
pub(super) struct World {
    pub(super) fabric: Fabric,
    pub(super) hosts: [HostId; 2],
    pub(super) qpn: [Qpn; 2],
    pub(super) rmb: [RToken; 2],
    pub(super) seen: Arc<Mutex<Counter>>,
}

pub(super) fn address(number: u8) -> (Gid, Mac) {
    let mut gid = [0; 16];
    [gid[10], gid[11], gid[12], gid[15]] = [0xff, 0xff, 10, number];
    (Gid(gid), Mac([2, 0, 0, 0, 0, number]))
}

/// Takes everything out of a host's completion queue.
pub(super) fn completions(fabric: &mut Fabric, host: HostId) -> Vec<FabricCompletion> {
    std::iter::from_fn(|| fabric.next_fabric_completion(host)).collect()
}

impl World {
    /// Hosts, ports and buffers, registered with a queue pair in state INIT.
    pub(super) fn created(config: FabricConfig, seed: u64) -> Self {
        let mut fabric = Fabric::new(config, seed);
        let seen = Arc::new(Mutex::new(Counter::default()));
        fabric.observe(Box::new(seen.clone()));
        let hosts = [fabric.add_host("a"), fabric.add_host("b")];
        let mut qpn = [Qpn::new(0); 2];
        let mut rmb = [RToken::default(); 2];
        for (number, host) in hosts.into_iter().enumerate() {
            let (gid, mac) = address(number as u8 + 1);
            let (device, port, mtu) = (DeviceId(0), 1, Mtu::M1024);
            fabric.add_port(
                host,
                PortConfig {
                    device,
                    port,
                    gid,
                    mac,
                    mtu,
                    subnet: 0,
                },
            );
            fabric.create_queue_pair(host, LINK, device, port, 44);
            fabric.allocate_buffer(host, RMB, BufferKind::Rmb, 2, ELEMENT);
            fabric.allocate_buffer(host, SEND, BufferKind::Send, 1, ELEMENT);
            fabric.register_buffer(host, RMB, LINK);
            fabric.register_buffer(host, SEND, LINK);
            while fabric.step() {}
            for completion in completions(&mut fabric, host) {
                match completion {
                    Completion::QpCreated { qpn: created, .. } => qpn[number] = created,
                    Completion::BufferRegistered {
                        buffer: RMB,
                        rtoken,
                        ..
                    } => {
                        rmb[number] = rtoken;
                    }
                    _ => {}
                }
            }
        }
        Self {
            fabric,
            hosts,
            qpn,
            rmb,
            seen,
        }
    }

    pub(super) fn address_of(&self, side: usize) -> QpAddress {
        let (gid, mac) = address(side as u8 + 1);
        QpAddress::new(self.qpn[side], first_psn(side), gid, mac)
    }

    /// Both queue pairs ready to send.
    pub(super) fn connected(config: FabricConfig, seed: u64) -> Self {
        let mut world = Self::created(config, seed);
        for side in [0, 1] {
            world.connect(side, world.address_of(1 - side));
        }
        world.run();
        assert_eq!(world.fabric.violations(), []);
        world
    }

    pub(super) fn new() -> Self {
        Self::connected(FabricConfig::default(), 1)
    }

    pub(super) fn connect(&mut self, side: usize, peer: QpAddress) {
        let host = self.hosts[side];
        self.fabric.connect_queue_pair(host, LINK, peer, Mtu::M1024);
        self.fabric.activate_queue_pair(host, LINK, first_psn(side));
    }

    /// Runs until nothing happens any more; returns the completions of each host.
    pub(super) fn run(&mut self) -> [Vec<FabricCompletion>; 2] {
        let mut reported = [Vec::new(), Vec::new()];
        while self.fabric.step() {
            for (host, reported) in self.hosts.into_iter().zip(&mut reported) {
                reported.extend(completions(&mut self.fabric, host));
            }
        }
        reported
    }

    pub(super) fn write(&mut self, side: usize, bytes: &[u8], rtoken: RToken) {
        let host = self.hosts[side];
        let source = [
            Segment {
                offset: 0,
                length: bytes.len() as u32,
            },
            Segment::default(),
        ];
        self.fabric.fill_buffer(host, SEND, source, bytes).unwrap();
        self.fabric
            .post_write(host, LINK, OWNER, SEND, source, rtoken.rkey, rtoken.address);
    }

    pub(super) fn send(&mut self, side: usize, number: u32, bytes: &[u8]) {
        self.fabric
            .post_send(self.hosts[side], LINK, WrId(number), bytes);
    }

    pub(super) fn read(&self, side: usize, offset: u32, length: u32) -> Vec<u8> {
        let mut bytes = Vec::new();
        let spans = [Segment { offset, length }, Segment::default()];
        self.fabric
            .copy_buffer(self.hosts[side], RMB, spans, &mut bytes)
            .unwrap();
        bytes
    }

    pub(super) fn at(&self) -> Instant {
        self.fabric.now()
    }
}

pub(super) fn first_psn(side: usize) -> Psn {
    // Near the end, so that PSNs wrap in each test.
    Psn::new(0x00ff_fffe + side as u32)
}

pub(super) fn failed(cause: LinkFailure, conn: Option<WorkOwner>) -> FabricCompletion {
    Completion::LinkFailed {
        link: LINK,
        cause,
        conn,
    }
}

pub(super) fn received(bytes: &[u8]) -> FabricCompletion {
    Completion::Received {
        link: LINK,
        payload: bytes.to_vec(),
    }
}

pub(super) fn sent(number: u32) -> FabricCompletion {
    Completion::Sent {
        link: LINK,
        wr_id: WrId(number),
    }
}
