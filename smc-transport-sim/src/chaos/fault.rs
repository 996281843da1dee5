//! Faults drawn from a seed.

use smc_proto::completion::LinkFailure;
use smc_proto::id::DeviceId;
use smc_proto::time::{Duration, Instant};

use super::script::ACTIVE;
use crate::fabric::HostId;
use crate::fault::{
    Ends, Fault, FaultAction, FaultKind, Lost, Operation, PortSelector, TcpFate, Trigger,
};
use crate::random::Random;
use crate::tcp::TcpSplit;

/// A duration of any magnitude between two powers of ten of microseconds.
pub(super) fn between(random: &mut Random, least: u32, most: u32) -> Duration {
    let decade = least + random.below(u64::from(most - least)) as u32;
    Duration::from_micros(10u64.pow(decade) * (1 + random.below(9)))
}

pub(super) fn one_of<T: Copy>(random: &mut Random, all: &[T], other: T) -> T {
    let index = random.below(all.len() as u64) as usize;
    all.get(index).copied().unwrap_or(other)
}

/// Kinds that take effect in some phase only seldom, drawn more often.
const RARE: [FaultKind; 16] = [
    FaultKind::AcknowledgeAndLose,
    FaultKind::FewReceives,
    FaultKind::FreezeClock,
    FaultKind::FreezeClock,
    FaultKind::FreezeClock,
    FaultKind::FreezeClock,
    FaultKind::HoldCompletions,
    FaultKind::HoldCompletions,
    FaultKind::LateTimers,
    FaultKind::LoseCompletions,
    FaultKind::Refuse,
    FaultKind::Refuse,
    FaultKind::Refuse,
    FaultKind::TcpSplit,
    FaultKind::TcpSplit,
    FaultKind::WithholdReceives,
];

/// A fault of any kind, at a host, from `now` on. `spared` kinds are not drawn.
pub(super) fn draw(
    now: Instant,
    hosts: &[HostId],
    spared: &[FaultKind],
    random: &mut Random,
) -> Fault {
    let kind = loop {
        let kind = match random.below(2) {
            0 => one_of(random, &RARE, FaultKind::FailLink),
            _ => one_of(random, &FaultKind::SMCR, FaultKind::FailLink),
        };
        if !spared.contains(&kind) {
            break kind;
        }
    };
    let tied = operation(kind, random);
    let mut action = action(kind, tied.is_some(), random);
    let trigger = match tied {
        // Short, and again and again: so it strikes in every phase.
        Some(operation) if may_repeat(kind, operation) && random.below(2) == 0 => {
            action = shortened(action, random);
            Trigger::Chance {
                operation,
                per_million: 10_000 * (1 + random.below(9) as u32),
            }
        }
        Some(operation) => {
            if let (FaultAction::HoldCompletions(time), Operation::ConnectQueuePair) =
                (&mut action, operation)
            {
                *time = between(random, 4, 6);
            }
            Trigger::Nth {
                operation,
                number: 1 + number(random, operation),
            }
        }
        None => {
            let later = random.below(ACTIVE.as_micros() as u64);
            Trigger::At(now.after(Duration::from_micros(later)))
        }
    };
    let host = Some(one_of(random, hosts, HostId(0)));
    Fault {
        trigger,
        host,
        action,
    }
}

/// Whether a run bears many of a kind, and many of them have something to strike.
const fn may_repeat(kind: FaultKind, operation: Operation) -> bool {
    match kind {
        FaultKind::HoldCompletions => !matches!(operation, Operation::ConnectQueuePair),
        FaultKind::Refuse | FaultKind::Busy | FaultKind::FreezeClock | FaultKind::LateTimers => {
            true
        }
        _ => false,
    }
}

/// Shortens a fault so far that what it strikes still goes on when it ends.
fn shortened(action: FaultAction, random: &mut Random) -> FaultAction {
    let time = between(random, 1, 4);
    match action {
        FaultAction::Busy(_) => FaultAction::Busy(time),
        FaultAction::FreezeClock(_) => FaultAction::FreezeClock(time),
        FaultAction::HoldCompletions(_) => FaultAction::HoldCompletions(time),
        FaultAction::LateTimers { .. } => FaultAction::LateTimers {
            by: time,
            time: between(random, 3, 7),
        },
        other => other,
    }
}

/// How many operations of a kind came before the one that is struck. There are
/// some hundreds of the data path in a run, some tens of those on buffers, and a
/// few of the others.
fn number(random: &mut Random, operation: Operation) -> u64 {
    match operation {
        Operation::Write | Operation::Send | Operation::Sent => random.below(200),
        Operation::TcpByte => random.below(1_000),
        Operation::SendLlc => random.below(24),
        Operation::SendDeleteLink | Operation::SendTestLink => random.below(3),
        Operation::SendRkey => random.below(8),
        Operation::CreateQueuePair | Operation::ConnectQueuePair | Operation::ActivateQueuePair => {
            random.below(10)
        }
        _ => random.below(60),
    }
}

/// What a fault is tied to; `None` for a time.
fn operation(kind: FaultKind, random: &mut Random) -> Option<Operation> {
    // What gives resources back is not refused: they could not be given back then.
    const REFUSABLE: [Operation; 6] = [
        Operation::CreateQueuePair,
        Operation::ConnectQueuePair,
        Operation::ActivateQueuePair,
        Operation::AllocateBuffer,
        Operation::RegisterBuffer,
        Operation::ClearElement,
    ];
    const ANY: [Operation; 9] = [
        Operation::AnyControl,
        Operation::Write,
        Operation::Send,
        Operation::SendLlc,
        Operation::SendLlc,
        Operation::SendDeleteLink,
        Operation::SendRkey,
        Operation::SendTestLink,
        Operation::Sent,
    ];
    let tied = random.below(2) == 0;
    match kind {
        FaultKind::Refuse => Some(one_of(random, &REFUSABLE, Operation::RegisterBuffer)),
        FaultKind::Delay if tied => Some(Operation::AnyControl),
        FaultKind::Delay => Some(Operation::Sent),
        FaultKind::LoseCompletions if tied => Some(Operation::Sent),
        FaultKind::LoseCompletions => Some(one_of(random, &ANY, Operation::Sent)),
        FaultKind::TcpReset if tied => Some(Operation::TcpByte),
        // The first message may come before the queue pair is ready to send, but
        // not at once.
        FaultKind::HoldCompletions if tied && random.below(2) == 0 => {
            Some(Operation::ConnectQueuePair)
        }
        _ if tied => Some(one_of(random, &ANY, Operation::Send)),
        _ => None,
    }
}

/// What it does. One that is tied to an operation strikes where that happens.
pub(super) fn action(kind: FaultKind, tied: bool, random: &mut Random) -> FaultAction {
    const LOST: [Lost; 3] = [Lost::Sent, Lost::Received, Lost::Both];
    // From much shorter than retries take to much longer.
    let time = between(random, 2, 7);
    let device = (!tied && random.below(6) > 0).then(|| {
        // The first RNIC has most of the links.
        DeviceId([0, 0, 0, 1, 1, 2][random.below(6) as usize])
    });
    let port = PortSelector { device, port: None };
    match kind {
        FaultKind::Refuse => FaultAction::Refuse,
        FaultKind::Delay => FaultAction::Delay(time),
        FaultKind::SilenceLink => FaultAction::SilenceLink {
            device,
            lost: one_of(random, &LOST, Lost::Both),
            time,
        },
        FaultKind::SilencePort => FaultAction::SilencePort {
            port,
            lost: one_of(random, &LOST, Lost::Both),
            time,
        },
        FaultKind::PortDown => FaultAction::PortDown { port, time },
        FaultKind::PortFlap => FaultAction::PortFlap {
            port,
            times: 1 + random.below(20) as u16,
            period: between(random, 2, 5),
        },
        FaultKind::RemoveDevice => FaultAction::RemoveDevice { device, time },
        FaultKind::AcknowledgeAndLose => {
            FaultAction::AcknowledgeAndLose(Duration::from_micros(1 + random.below(3_000)))
        }
        FaultKind::LoseCompletions => FaultAction::LoseCompletions(between(random, 1, 5)),
        FaultKind::HoldCompletions => FaultAction::HoldCompletions(between(random, 1, 7)),
        FaultKind::WithholdReceives => FaultAction::WithholdReceives(between(random, 2, 6)),
        FaultKind::FewReceives => FaultAction::FewReceives {
            receives: 1 + random.below(3) as u32,
            time,
        },
        FaultKind::Busy => FaultAction::Busy(between(random, 1, 7)),
        FaultKind::SlowPort => FaultAction::SlowPort {
            port,
            by: between(random, 1, 4),
            time,
        },
        FaultKind::Restart => FaultAction::Restart {
            down: between(random, 1, 5),
            tcp: match random.below(2) {
                0 => TcpFate::Reset,
                _ => TcpFate::TimeOut(between(random, 5, 7)),
            },
        },
        FaultKind::JumpClock => {
            let hour = Duration::from_secs(3_600);
            let jumps = [Duration::from_millis(100), 10 * SECOND, hour];
            FaultAction::JumpClock(one_of(random, &jumps, hour))
        }
        FaultKind::FreezeClock => FaultAction::FreezeClock(between(random, 3, 7)),
        FaultKind::LateTimers => FaultAction::LateTimers {
            by: between(random, 2, 7),
            time: 10 * SECOND,
        },
        FaultKind::TcpReset => FaultAction::TcpReset,
        FaultKind::TcpSplit => FaultAction::TcpSplit(match random.below(2) {
            0 => TcpSplit::Every(1),
            _ => TcpSplit::Random(1 + random.below(90) as u16),
        }),
        FaultKind::FailLink => FaultAction::FailLink {
            device,
            ends: one_of(random, &[Ends::Near, Ends::Far, Ends::Both], Ends::Both),
            cause: LinkFailure::Other,
        },
        FaultKind::FailMove => FaultAction::FailMove,
        FaultKind::FailDmb => FaultAction::FailDmb,
        // Shorter than any wait of an engine.
        FaultKind::LateSignals => FaultAction::LateSignals {
            by: between(random, 1, 5),
            time: between(random, 3, 7),
        },
        FaultKind::PeerVanishes => FaultAction::PeerVanishes,
        FaultKind::RemoveIsm => FaultAction::RemoveIsm,
    }
}

const SECOND: Duration = Duration::from_secs(1);
