//! Runs of SMC-D: hosts with ISM devices, and what can go wrong with those.

use smc_proto::config::{Config, Offers};
use smc_proto::id::DeviceId;
use smc_proto::storage::Limits;
use smc_proto::time::{Duration, Instant};
use smc_proto::version::Technology;
use smc_proto::wire::types::{BufferSize, Chid, Eid, IsmGid, Mac, PeerId, Release};

use super::fault::{action, between, one_of};
use super::script::ACTIVE;
use crate::fabric::{HostId, IsmConfig};
use crate::fault::{Fault, FaultKind, Operation, Trigger};
use crate::random::Random;
use crate::sim::Simulation;

/// What the hosts of a seed have: every fourth one ISM devices, the others RNICs.
#[must_use]
pub const fn technology(seed: u64) -> Technology {
    match seed % 4 {
        3 => Technology::SmcD,
        _ => Technology::SmcR,
    }
}

/// How all hosts of a run speak: in one version, over one channel.
#[derive(Clone, Copy)]
pub(super) struct Mode {
    offers: Offers,
    chid: Chid,
}

impl Mode {
    pub(super) fn draw(random: &mut Random) -> Self {
        let (offers, chid) = match random.below(4) {
            0 => (Offers::SMCD_V1, Chid(0x07c1)),
            1 => (Offers::SMCD_V2, Chid(0x07c1)),
            2 => (Offers::SMCD_V2, Chid::LOOPBACK),
            // Those of version 1 are offered, too.
            _ => (Offers::SMCD, Chid(0x07c1)),
        };
        Self { offers, chid }
    }
}

/// A host with one ISM device, which maps memory of its peers or not.
pub(super) fn host(
    simulation: &mut Simulation,
    number: u8,
    mode: Mode,
    random: &mut Random,
) -> HostId {
    let mac = Mac([2, 0, 0, 0, 0, number + 1]);
    let mut config = Config::new(PeerId::new(u16::from(number) + 1, mac));
    config.offers = mode.offers;
    config.receive_buffer = BufferSize::K16;
    config.send_buffer = BufferSize::K16;
    config.connections_per_group = [255, 4][random.below(2) as usize];
    if let Ok(eid) = Eid::user("A") {
        // It is the only one.
        let _ = config.v2.ueids.push(eid);
    }
    config.v2.release = Release::new(random.below(4).min(1) as u8);
    config.timeouts.group_idle_server = Duration::from_secs(20);
    config.timeouts.group_idle_client = Duration::from_secs(22);
    config.timeouts.rmb_idle = Duration::from_secs(5);
    let name = ["anna", "bert", "carl"][usize::from(number) % 3];
    let host = simulation.add_host(name, config, limits(random), &[]);
    let gid = IsmGid {
        gid: 0x1000 + u64::from(number),
        gid_ext: if mode.chid.is_emulated() { 9 } else { 0 },
        chid: mode.chid,
    };
    let device = IsmConfig {
        attaches: random.below(2) == 0,
        most_dmbs: [1888, 1888, 1888, 3][random.below(4) as usize],
        signal_latency: between(random, 0, 3),
        ..IsmConfig::new(DeviceId(0), gid)
    };
    simulation.add_ism(host, device);
    host
}

/// Mostly enough of everything; sometimes a table that is too small.
fn limits(random: &mut Random) -> Limits {
    let mut limits = Limits::for_connections(48);
    if random.below(5) == 0 {
        let few = 2 + random.below(5) as usize;
        match random.below(4) {
            0 => limits.connections = few,
            1 => limits.handshakes = few,
            2 => limits.groups = few,
            _ => limits.buffers = 2 * few,
        }
    }
    limits
}

/// Kinds that end much are drawn once a run.
pub(super) const ONCE: [FaultKind; 2] = [FaultKind::Restart, FaultKind::RemoveIsm];

/// A fault of any kind that hosts with ISM devices can meet.
pub(super) fn draw(
    now: Instant,
    hosts: &[HostId],
    spared: &[FaultKind],
    random: &mut Random,
) -> Fault {
    let kind = loop {
        let kind = one_of(random, &FaultKind::SMCD, FaultKind::Delay);
        if !spared.contains(&kind) {
            break kind;
        }
    };
    let tied = operation(kind, random);
    let action = action(kind, true, random);
    let trigger = match tied {
        Some(operation) if random.below(3) == 0 => Trigger::Chance {
            operation,
            per_million: 5_000 * (1 + random.below(9) as u32),
        },
        Some(operation) => Trigger::Nth {
            operation,
            number: 1 + match operation {
                Operation::Move => random.below(150),
                Operation::TcpByte => random.below(1_000),
                _ => random.below(20),
            },
        },
        None => {
            let later = random.below(ACTIVE.as_micros() as u64);
            Trigger::At(now.after(Duration::from_micros(later)))
        }
    };
    // What comes again and again must not end everything each time.
    let trigger = match (trigger, kind) {
        (
            Trigger::Chance { operation, .. },
            FaultKind::Restart | FaultKind::RemoveIsm | FaultKind::TcpReset,
        ) => Trigger::Nth {
            operation,
            number: 1 + random.below(60),
        },
        (trigger, _) => trigger,
    };
    let host = Some(one_of(random, hosts, HostId(0)));
    Fault {
        trigger,
        host,
        action,
    }
}

/// What a fault is tied to; `None` for a time.
fn operation(kind: FaultKind, random: &mut Random) -> Option<Operation> {
    // What gives something back is not refused: it could not be given back then.
    const REFUSABLE: [Operation; 4] = [
        Operation::RegisterDmb,
        Operation::AllocateBuffer,
        Operation::AttachDmb,
        Operation::ClearDmb,
    ];
    const ANY: [Operation; 5] = [
        Operation::RegisterDmb,
        Operation::AttachDmb,
        Operation::Move,
        Operation::Move,
        Operation::AnyControl,
    ];
    match kind {
        FaultKind::Refuse => Some(one_of(random, &REFUSABLE, Operation::RegisterDmb)),
        FaultKind::Delay => Some(Operation::AnyControl),
        FaultKind::FailMove => Some(Operation::Move),
        FaultKind::TcpReset if random.below(2) == 0 => Some(Operation::TcpByte),
        FaultKind::TcpSplit => None,
        _ if random.below(2) == 0 => Some(one_of(random, &ANY, Operation::Move)),
        _ => None,
    }
}
