//! A reliable-connected queue pair: its state and the work in flight.

use std::collections::VecDeque;
use std::ops::RangeInclusive;

use smc_proto::command::QpAddress;
use smc_proto::id::{DeviceId, WrId};
use smc_proto::time::Instant;
use smc_proto::wire::types::{Mtu, Qpn, RKey};

use super::HostId;
use super::fault_span::FaultSpan;
use crate::clock::Ticket;
use crate::memory::Regions;

/// Name of a queue pair of one host, chosen by that host.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct QueuePairKey(pub u64);

/// On whose behalf a WRITE was posted: comes back if it breaks the queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct WorkOwner(pub u64);

/// States of a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum QueuePairState {
    /// Created.
    Init,
    /// Ready to receive.
    ReadyToReceive,
    /// Ready to send.
    ReadyToSend,
    /// Broken or stopped by its host.
    Error,
}

/// A queue pair in the whole fabric.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(super) struct QueuePairId {
    pub(super) host: HostId,
    pub(super) qpn: Qpn,
}

impl QueuePairId {
    pub(super) fn all_of(host: HostId) -> RangeInclusive<Self> {
        let qpn = Qpn::new(0);
        let last = Qpn::new(u32::MAX);
        Self { host, qpn }..=Self { host, qpn: last }
    }
}

#[derive(Clone, Debug)]
pub(super) struct QueuePair {
    pub(super) key: QueuePairKey,
    pub(super) device: DeviceId,
    /// Local port, as an index of the fabric.
    pub(super) port: usize,
    pub(super) receive_size: u32,
    pub(super) state: QueuePairState,
    pub(super) peer: Option<Peer>,
    pub(super) regions: Regions,
    /// PSN of the next packet sent.
    pub(super) next_psn: u32,
    /// PSN of the next packet accepted.
    pub(super) expected_psn: u32,
    /// Packets accepted, to distinguish a repeated one from a foreign one.
    pub(super) accepted: u64,
    /// Receives posted now.
    pub(super) receives: u32,
    /// Number of the next work request.
    pub(super) next_number: u64,
    /// Work not yet acknowledged, by rising number.
    pub(super) outstanding: VecDeque<Request>,
    pub(super) retry_timer: Option<Ticket>,
    pub(super) last_progress: Instant,
    pub(super) retries: u8,
    pub(super) not_ready: u8,
    /// A delayed completion holds back those behind it until then.
    pub(super) completions_not_before: Instant,
    /// Packets that vanish.
    pub(super) lost_sent: FaultSpan,
    pub(super) lost_received: FaultSpan,
    /// What arrives is acknowledged and not placed.
    pub(super) losing: FaultSpan,
    /// What is sent is not reported as sent.
    pub(super) unreported: FaultSpan,
}

#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Peer {
    pub(super) address: PeerAddress,
    pub(super) mtu: Mtu,
    /// The port with the peer's GID, if there is one.
    pub(super) port: Option<usize>,
}

/// Where a queue pair's peer is; unlike [`QpAddress`] without the PSN, and hashable.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct PeerAddress {
    pub(super) qpn: Qpn,
    pub(super) gid: smc_proto::wire::types::Gid,
    pub(super) mac: smc_proto::wire::types::Mac,
}

impl From<QpAddress> for PeerAddress {
    fn from(address: QpAddress) -> Self {
        Self {
            qpn: address.qpn,
            gid: address.gid,
            mac: address.mac,
        }
    }
}

#[derive(Clone, Debug, Hash)]
pub(super) struct Request {
    pub(super) number: u64,
    pub(super) first_psn: u32,
    pub(super) packets: u32,
    pub(super) work: Work,
    pub(super) payload: Vec<u8>,
    /// When its transmission on the lane began and ended, at the last attempt.
    pub(super) starts: Instant,
    pub(super) ends: Instant,
    /// When it arrives, if it is on its way.
    pub(super) arrives: Option<Instant>,
}

#[derive(Clone, Copy, Debug, Hash)]
pub(super) enum Work {
    Send {
        wr_id: WrId,
    },
    Write {
        owner: WorkOwner,
        rkey: RKey,
        address: u64,
    },
}

/// Place of an arriving packet in the order of PSNs.
pub(super) enum Order {
    Next,
    Repeated,
    Foreign,
}

const PSN_MASK: u32 = 0x00ff_ffff;

impl QueuePair {
    /// Takes the PSNs of a request of so many bytes: the first and their number.
    pub(super) fn take_psns(&mut self, bytes: usize) -> (u32, u32) {
        let mtu = self.peer.and_then(|peer| peer.mtu.octets()).unwrap_or(256);
        let packets = (bytes as u64).div_ceil(u64::from(mtu)).max(1) as u32;
        let first = self.next_psn;
        self.next_psn = first.wrapping_add(packets) & PSN_MASK;
        (first, packets)
    }

    pub(super) fn order(&self, first_psn: u32) -> Order {
        let behind = self.expected_psn.wrapping_sub(first_psn) & PSN_MASK;
        if behind == 0 {
            Order::Next
        } else if u64::from(behind) <= self.accepted {
            Order::Repeated
        } else {
            Order::Foreign
        }
    }

    pub(super) fn accept(&mut self, packets: u32) {
        self.expected_psn = self.expected_psn.wrapping_add(packets) & PSN_MASK;
        self.accepted += u64::from(packets);
    }

    pub(super) fn request_mut(&mut self, number: u64) -> Option<&mut Request> {
        let found = self
            .outstanding
            .binary_search_by_key(&number, |request| request.number);
        self.outstanding.get_mut(found.ok()?)
    }

    pub(super) fn can_receive(&self) -> bool {
        matches!(
            self.state,
            QueuePairState::ReadyToReceive | QueuePairState::ReadyToSend
        )
    }
}
