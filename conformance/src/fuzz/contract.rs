//! The device of an endpoint that is fuzzed: it holds the engine to its contract, as long
//! as it keeps that itself.

mod memory;

use smc_proto::command::RdmaCommand;
use smc_proto::completion::RdmaCompletion;
use smc_proto::id::{BufferId, LinkId, WrId};
use smc_proto::wire::types::{RKey, RToken};

use crate::rig::{Nic, Numbers, nic};
use memory::Memory;

/// A queue pair, and whether it was reported as failed.
pub(super) type QueuePair = nic::QueuePair<bool>;

/// All of one host.
#[derive(Clone, Debug)]
pub(super) struct Contract {
    pub(super) nic: Nic<Memory, bool>,
    /// All links and buffers that there were, in the order of their making.
    pub(super) links: Vec<LinkId>,
    pub(super) buffers: Vec<BufferId>,
    /// Whether the device keeps the contract; if not, neither must the engine.
    pub(super) trusted: bool,
}

/// Numbers of a device that remembers nothing.
const BLIND: Numbers = Numbers {
    rtoken: |_, _, buffer, _| RToken {
        rkey: RKey(buffer.index()),
        address: Numbers::BASE,
    },
    ..Numbers::COUNTED
};

impl Contract {
    /// A device whose numbers of queue pairs begin from one, and whose keys are those of
    /// buffers.
    pub(super) fn new(base_qpn: u32) -> Self {
        let numbers = Numbers {
            first: base_qpn,
            rtoken: |_, buffer, _, _| RToken {
                rkey: RKey(buffer.map_or(0, |buffer| buffer.serial)),
                address: Numbers::BASE,
            },
            ..Numbers::COUNTED
        };
        Self {
            nic: Nic::new(numbers),
            links: Vec::new(),
            buffers: Vec::new(),
            trusted: true,
        }
    }

    /// The memory of a buffer.
    pub(super) fn memory(&mut self, buffer: BufferId) -> &mut Memory {
        self.nic.memory_of(buffer).expect("a buffer that is there")
    }

    /// The link made last of which this holds.
    pub(super) fn newest(&self, of: impl Fn(&QueuePair) -> bool) -> Option<LinkId> {
        let qps = self.nic.qps().filter(|qp| of(qp));
        qps.max_by_key(|qp| qp.serial).map(|qp| qp.link)
    }

    /// Checks that a command is one that the device can execute now.
    pub(super) fn issue(&mut self, command: &RdmaCommand) {
        if !self.trusted {
            return;
        }
        if let Err(breach) = self.nic.issue(command) {
            panic!("{breach}");
        }
        match *command {
            RdmaCommand::CreateQp { link, .. } => {
                assert!(!self.links.contains(&link), "{link} twice");
                self.links.push(link);
            }
            RdmaCommand::AllocBuffer { buffer, .. } => {
                assert!(!self.buffers.contains(&buffer), "{buffer} twice");
                self.buffers.push(buffer);
            }
            _ => {}
        }
    }

    /// Executes a control command and returns what to answer.
    pub(super) fn done(&mut self, command: &RdmaCommand) -> Option<RdmaCompletion<'static>> {
        match self.trusted {
            true => self.nic.done(command),
            false => Nic::<()>::new(BLIND).done(command),
        }
    }

    /// Lets a control command fail and returns what to answer.
    pub(super) fn refused(&mut self, command: &RdmaCommand) -> Option<RdmaCompletion<'static>> {
        match self.trusted {
            true => self.nic.refused(command),
            false => Nic::<()>::new(BLIND).done(command),
        }
    }

    /// A SEND and all before it on its link completed.
    pub(super) fn sent(&mut self, link: LinkId, wr_id: WrId) {
        if self.trusted {
            self.nic.sent(link, wr_id);
        }
    }

    /// Nothing of the device is left.
    pub(super) fn check_empty(&self) {
        if let Err(left) = self.nic.is_empty() {
            panic!("forgotten: {left}");
        }
    }
}
