//! One endpoint of version 2 and a peer that is played by hand, byte by byte, as a
//! Linux host would send them.

mod linux;

use std::collections::VecDeque;

use smc_proto::command::{RdmaCommand, TcpCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::Config;
use smc_proto::endpoint::{ClcError, ClcProgress, ConnOptions, Endpoint};
use smc_proto::event::Event;
use smc_proto::id::{ConnId, DeviceId, LinkId};
use smc_proto::path::{LocalPath, RoceVersion};
use smc_proto::storage::{Limits, Owned};
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::cdc::{CDC_TYPE, Cdc};
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH, Subnets};
use smc_proto::wire::types::{Gid, Mac, PeerId};

use super::{Kind, Nic, Output, Outputs, ipv4_gid, large, local_port};
use crate::versions::eid;

/// An endpoint, its RNICs, and all that it sent.
#[derive(Debug)]
pub struct Rig {
    /// The endpoint.
    pub endpoint: Endpoint<Owned>,
    /// The time.
    pub now: Instant,
    /// Ports of the endpoint, each on an RNIC of its own, for version 2.
    pub paths: Vec<LocalPath>,
    /// CLC messages as bytes.
    pub clc: VecDeque<Vec<u8>>,
    /// LLC messages as bytes, and the links that carried them.
    pub llc: VecDeque<(LinkId, Vec<u8>)>,
    /// CDC messages.
    pub cdc: VecDeque<Cdc>,
    /// RNICs of the endpoint.
    pub nic: Nic,
    /// All commands that they were given.
    pub commands: Vec<RdmaCommand>,
    /// Everything else.
    pub events: Vec<Event>,
    /// Commands that ended TCP connections.
    pub tcp: Vec<TcpCommand>,
    /// Whether SENDs complete at once.
    pub completes: bool,
    /// Whether there are queue pairs left.
    pub creates: bool,
    posted: VecDeque<RdmaCommand>,
    outputs: Outputs,
}

/// MAC of a port: of host 1 ours, of host 2 the peer's.
#[must_use]
pub const fn mac(host: u8, rnic: u8) -> Mac {
    Mac([2, 0, 0, 0, rnic, host])
}

/// GID of a port, an IPv4 address.
#[must_use]
pub const fn gid(host: u8, rnic: u8) -> Gid {
    ipv4_gid([10, 0, rnic, host])
}

impl Rig {
    /// An endpoint with so many RNICs.
    #[must_use]
    pub fn new(rnics: u8, change: impl FnOnce(&mut Config)) -> Self {
        let mut config = Config::new(PeerId::new(1, mac(1, 0)));
        config.v2.ueids.push(eid("COMMON")).expect("the first");
        change(&mut config);
        let paths = (0..rnics).map(|rnic| {
            let mut path = local_port(DeviceId(rnic), 1, gid(1, rnic), mac(1, rnic));
            path.roce = RoceVersion::V2;
            path
        });
        Self {
            endpoint: Endpoint::new(config, 0x5eed, Owned::new(Limits::for_connections(8))),
            now: Instant::from_nanos(1),
            paths: paths.collect(),
            clc: VecDeque::new(),
            llc: VecDeque::new(),
            cdc: VecDeque::new(),
            nic: Nic::default(),
            commands: Vec::new(),
            events: Vec::new(),
            tcp: Vec::new(),
            completes: true,
            creates: true,
            posted: VecDeque::new(),
            outputs: Outputs::new(rnics),
        }
    }

    /// Opens a connection.
    pub fn connect(&mut self) -> ConnId {
        let options = ConnOptions::new(Subnets::default());
        let conn = self.endpoint.connect(self.now, options, &self.paths);
        self.pump();
        conn.expect("a free slot")
    }

    /// Accepts a TCP connection.
    pub fn listen(&mut self) -> ConnId {
        let options = ConnOptions::new(Subnets::default());
        self.endpoint
            .listen(self.now, options)
            .expect("a free slot")
    }

    /// The peer's CLC message, which has to be one that is due.
    #[track_caller]
    pub fn receive_clc(&mut self, conn: ConnId, message: &ClcMessage) {
        let mut bytes = [0; MAX_LENGTH];
        let length = message.emit(&mut bytes).expect("the longest fits");
        let progress = self.receive_clc_bytes(conn, &bytes[..length]);
        assert!(matches!(progress, Ok(ClcProgress::Consumed { len, .. }) if len == length));
    }

    /// The peer's bytes over TCP.
    pub fn receive_clc_bytes(
        &mut self,
        conn: ConnId,
        bytes: &[u8],
    ) -> Result<ClcProgress, ClcError> {
        let progress = self.endpoint.handle_clc(self.now, conn, bytes);
        self.pump();
        progress
    }

    /// Our next CLC message.
    #[track_caller]
    pub fn sent_clc(&mut self) -> ClcMessage {
        let bytes = self.clc.pop_front().expect("a CLC message");
        ClcMessage::parse(&bytes)
            .expect("what is emitted can be read")
            .0
    }

    /// A SEND of the peer on a link.
    pub fn receive(&mut self, link: LinkId, payload: &[u8]) {
        let size = self.nic.qp(link).expect("a queue pair").receive_size as usize;
        assert!(payload.len() <= size, "it would break the queue pair");
        self.endpoint
            .handle_rdma(self.now, RdmaCompletion::Received { link, payload });
        self.pump();
    }

    /// Our next LLC message on a link.
    #[track_caller]
    pub fn sent_llc(&mut self, link: LinkId) -> Vec<u8> {
        let (on, bytes) = self.llc.pop_front().expect("an LLC message");
        assert_eq!(on, link);
        bytes
    }

    /// The link made `n`th, from 0.
    #[track_caller]
    pub fn link(&self, n: usize) -> LinkId {
        self.nic.qps().nth(n).expect("so many links").link
    }

    /// Time passes, with every timer at its time.
    pub fn wait(&mut self, time: Duration) {
        let until = self.now.after(time);
        while let Some(deadline) = self.endpoint.poll_timeout().filter(|d| *d <= until) {
            self.now = self.now.max(deadline);
            self.pump();
        }
        self.now = until;
        self.pump();
    }

    /// All SENDs that were posted complete.
    pub fn complete(&mut self) {
        while let Some(command) = self.posted.pop_front() {
            if let Some(completion) = self.nic.done(&command) {
                self.endpoint.handle_rdma(self.now, completion);
            }
        }
        self.pump();
    }

    /// Whether an event came.
    #[must_use]
    pub fn happened(&self, what: impl Fn(&Event) -> bool) -> bool {
        self.events.iter().any(what)
    }

    /// Does what the endpoint wants until it wants nothing more.
    pub fn pump(&mut self) {
        if self.endpoint.poll_timeout().is_some_and(|d| d <= self.now) {
            self.endpoint.handle_timeout(self.now);
        }
        while let Some(output) = self.outputs.next(&mut self.endpoint, self.now) {
            match output {
                Output::Clc(_, bytes) => self.clc.push_back(bytes.to_vec()),
                Output::Tcp(_, command) => self.tcp.push(command),
                Output::Rdma(command) => self.execute(&command),
                Output::Ism(_, command) => panic!("no ISM device does {command:?}"),
                Output::Event(event) => {
                    if let Event::Proposed { conn } = event {
                        let answered = self.endpoint.accept(self.now, conn, &self.paths);
                        answered.expect("it was proposed");
                    }
                    self.events.push(event);
                }
            }
        }
    }

    fn execute(&mut self, command: &RdmaCommand) {
        if let Err(breach) = self.nic.issue(command) {
            panic!("{breach}");
        }
        self.commands.push(*command);
        match *command {
            RdmaCommand::Send { link, payload, .. } if payload[0] != CDC_TYPE => {
                self.llc.push_back((link, payload.to_vec()));
            }
            RdmaCommand::Send { payload, .. } => {
                self.cdc.push_back(Cdc::parse(&payload).expect("ours"));
            }
            RdmaCommand::SendLarge {
                link,
                wr_id,
                length,
            } => {
                let bytes = large(&mut self.endpoint, link, wr_id, length);
                let bytes = bytes.unwrap_or_else(|breach| panic!("{breach}"));
                self.llc.push_back((link, bytes));
            }
            _ => {}
        }
        let completion = match Kind::of(command) {
            Kind::CreateQp if !self.creates => self.nic.refused(command),
            Kind::Send if !self.completes => return self.posted.push_back(*command),
            _ => self.nic.done(command),
        };
        if let Some(completion) = completion {
            self.endpoint.handle_rdma(self.now, completion);
        }
    }
}
