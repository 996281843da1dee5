//! Properties of ports, wires and RNICs.

use smc_proto::id::DeviceId;
use smc_proto::time::Duration;
use smc_proto::wire::types::{Gid, Mac, Mtu};

/// A port of an RNIC.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PortConfig {
    /// The RNIC.
    pub device: DeviceId,
    /// Port of the RNIC, from 1.
    pub port: u8,
    /// The only GID of the port; its index is 0.
    pub gid: Gid,
    /// MAC of the port.
    pub mac: Mac,
    /// Active MTU.
    pub mtu: Mtu,
    /// Ports of one subnet reach each other.
    pub subnet: u32,
}

/// The wire between two ports, the same in both directions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct PathConfig {
    /// From the last byte sent to the last byte received.
    pub latency: Duration,
    /// Bandwidth; 0 means unlimited.
    pub bits_per_second: u64,
}

impl Default for PathConfig {
    /// 25 Gbit/s over a few metres.
    fn default() -> Self {
        Self {
            latency: Duration::from_micros(2),
            bits_per_second: 25_000_000_000,
        }
    }
}

/// Properties of all RNICs of a fabric.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct FabricConfig {
    /// Path of two ports for which none was set.
    pub path: PathConfig,
    /// From a control command to its answer.
    pub control_latency: Duration,
    /// Without an acknowledgement for so long, work is sent again.
    pub retry_timeout: Duration,
    /// How often work is sent again before the queue pair breaks.
    pub retry_count: u8,
    /// Pause after a peer was not ready to receive.
    pub receiver_not_ready_delay: Duration,
    /// How often such a pause is made before the queue pair breaks.
    pub receiver_not_ready_count: u8,
    /// Receives kept posted on each queue pair.
    pub receives: u32,
    /// Work requests in flight on one queue pair before its RNIC takes no more.
    pub send_queue_depth: usize,
    /// One-way latency of TCP.
    pub tcp_latency: Duration,
    /// Number of bytes at the beginning of each TCP stream that are cut as faults demand,
    /// the others are not.
    pub tcp_cut: u64,
}

impl Default for FabricConfig {
    fn default() -> Self {
        Self {
            path: PathConfig::default(),
            control_latency: Duration::from_micros(50),
            retry_timeout: Duration::from_millis(64),
            retry_count: 7,
            receiver_not_ready_delay: Duration::from_millis(1),
            receiver_not_ready_count: 7,
            receives: 64,
            send_queue_depth: 256,
            tcp_latency: Duration::from_micros(25),
            tcp_cut: u64::MAX,
        }
    }
}

impl PathConfig {
    /// How long so many bytes keep the wire busy.
    pub(super) fn time_for(&self, bytes: u64) -> Duration {
        let nanoseconds = u128::from(bytes) * 8_000_000_000;
        let time = nanoseconds
            .checked_div(self.bits_per_second.into())
            .unwrap_or(0);
        Duration::from_nanos(u64::try_from(time).unwrap_or(u64::MAX))
    }
}
