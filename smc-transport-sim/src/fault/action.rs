//! The faults that the simulator can inject.

use std::fmt;

use smc_proto::completion::LinkFailure;
use smc_proto::id::DeviceId;
use smc_proto::time::Duration;

use crate::tcp::TcpSplit;

/// The effect of a fault. Each action says what it affects. If that is a queue pair or a port, and
/// the fault is tied to an operation on a queue pair, it affects that queue pair or its port;
/// otherwise it affects all queue pairs or ports that match. A time of [`Duration::MAX`] means until
/// [`Fabric::end_faults`](crate::fabric::Fabric::end_faults).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum FaultAction {
    /// The control command (creating or connecting a queue pair, registering memory, and others: see
    /// [`Operation`](super::Operation)) is refused and has no effect.
    Refuse,
    /// The answer to the control command, or the completion, comes later by this time.
    Delay(Duration),
    /// Connected queue pairs break.
    FailLink {
        /// Only queue pairs of this RNIC.
        device: Option<DeviceId>,
        /// Ends whose RNIC reports the failure at once. The other end notices when it next sends.
        ends: Ends,
        /// What they report.
        cause: LinkFailure,
    },
    /// Packets of queue pairs vanish for a while, without a report.
    SilenceLink {
        /// Only queue pairs of this RNIC.
        device: Option<DeviceId>,
        /// Which packets.
        lost: Lost,
        /// How long.
        time: Duration,
    },
    /// Packets of ports vanish for a while, without a report.
    SilencePort {
        /// Which ports.
        port: PortSelector,
        /// Which packets.
        lost: Lost,
        /// How long.
        time: Duration,
    },
    /// Ports lose their carrier for a while; their host is notified.
    PortDown {
        /// Which ports.
        port: PortSelector,
        /// How long.
        time: Duration,
    },
    /// The carrier of ports comes and goes.
    PortFlap {
        /// Which ports.
        port: PortSelector,
        /// Number of carrier losses.
        times: u16,
        /// Time from one loss to the next. The port is down for half of it.
        period: Duration,
    },
    /// RNICs leave the host for a while: their queue pairs break, and nothing can
    /// be made on them.
    RemoveDevice {
        /// Which RNIC; `None` is the one of the operation, or all of them.
        device: Option<DeviceId>,
        /// How long.
        time: Duration,
    },
    /// For this time the peer's RNIC acknowledges what arrives on queue pairs and places none of
    /// it. Queue pairs that have lost something then break. Only the validation of a failover (CDC
    /// with F) can reveal the loss.
    AcknowledgeAndLose(Duration),
    /// For this time the RNIC reports nothing as sent, though it arrives. The queue pair then breaks,
    /// if a report was lost. Tied to [`Operation::Sent`](super::Operation::Sent).
    LoseCompletions(Duration),
    /// Completions of the data path are held back for this time and then reported all at once.
    HoldCompletions(Duration),
    /// The host has no receives posted for this time: those already posted vanish, too.
    WithholdReceives(Duration),
    /// The host keeps few receives posted for a while, so that a burst overruns
    /// them.
    FewReceives {
        /// How many on each queue pair.
        receives: u32,
        /// How long.
        time: Duration,
    },
    /// The send queues of the host take nothing more for this time.
    Busy(Duration),
    /// The wires of ports take longer for a while. Packets stay in order on each wire, and not
    /// between wires.
    SlowPort {
        /// Which ports.
        port: PortSelector,
        /// How much longer.
        by: Duration,
        /// How long.
        time: Duration,
    },
    /// The host crashes and comes back as another instance with the same GIDs.
    Restart {
        /// Time without the host.
        down: Duration,
        /// What its peers see of its TCP connections.
        tcp: TcpFate,
    },
    /// The host's clock jumps forward.
    JumpClock(Duration),
    /// The host's clock stands still, then shows the right time again.
    FreezeClock(Duration),
    /// The host's timers fire late for a while.
    LateTimers {
        /// How late.
        by: Duration,
        /// How long.
        time: Duration,
    },
    /// The host's TCP connections are reset; with
    /// [`Operation::TcpByte`](super::Operation::TcpByte) the one that was about
    /// to send the byte, which does not leave.
    TcpReset,
    /// From now on the host's TCP bytes are cut like this.
    TcpSplit(TcpSplit),
    /// A write of an ISM device to a DMB of a peer fails. Tied to
    /// [`Operation::Move`](super::Operation::Move).
    FailMove,
    /// Each ISM device of the host reports that one of its DMBs does not work any more.
    FailDmb,
    /// The host's ISM devices report signals late for a while.
    LateSignals {
        /// How late.
        by: Duration,
        /// How long.
        time: Duration,
    },
    /// Each ISM device of the host reports that one of the peers that it writes to is gone.
    PeerVanishes,
    /// The host's ISM devices leave it for good.
    RemoveIsm,
}

/// Ends of a link.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Ends {
    /// Only the end at the host of the fault.
    Near,
    /// Only the other end.
    Far,
    /// Both.
    Both,
}

/// Which packets vanish, as seen from the host of the fault.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Lost {
    /// Packets it sends.
    Sent,
    /// Packets it should receive.
    Received,
    /// Both.
    Both,
}

impl Lost {
    pub(crate) const fn sent(self) -> bool {
        matches!(self, Self::Sent | Self::Both)
    }
    pub(crate) const fn received(self) -> bool {
        matches!(self, Self::Received | Self::Both)
    }
}

/// Ports of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct PortSelector {
    /// Only of this RNIC.
    pub device: Option<DeviceId>,
    /// Only with this number.
    pub port: Option<u8>,
}

impl PortSelector {
    /// The port of the operation, or all ports of the host.
    pub const ANY: Self = Self {
        device: None,
        port: None,
    };
}

/// What becomes of the TCP connections of a host that crashed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TcpFate {
    /// The host resets them when it is back.
    Reset,
    /// The peers give up after so long.
    TimeOut(Duration),
}

/// The kind of a [`FaultAction`], for statistics.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
#[allow(missing_docs)]
pub enum FaultKind {
    Refuse,
    Delay,
    FailLink,
    SilenceLink,
    SilencePort,
    PortDown,
    PortFlap,
    RemoveDevice,
    AcknowledgeAndLose,
    LoseCompletions,
    HoldCompletions,
    WithholdReceives,
    FewReceives,
    Busy,
    SlowPort,
    Restart,
    JumpClock,
    FreezeClock,
    LateTimers,
    TcpReset,
    TcpSplit,
    FailMove,
    FailDmb,
    LateSignals,
    PeerVanishes,
    RemoveIsm,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [Self; 26] = [
        Self::Refuse,
        Self::Delay,
        Self::FailLink,
        Self::SilenceLink,
        Self::SilencePort,
        Self::PortDown,
        Self::PortFlap,
        Self::RemoveDevice,
        Self::AcknowledgeAndLose,
        Self::LoseCompletions,
        Self::HoldCompletions,
        Self::WithholdReceives,
        Self::FewReceives,
        Self::Busy,
        Self::SlowPort,
        Self::Restart,
        Self::JumpClock,
        Self::FreezeClock,
        Self::LateTimers,
        Self::TcpReset,
        Self::TcpSplit,
        Self::FailMove,
        Self::FailDmb,
        Self::LateSignals,
        Self::PeerVanishes,
        Self::RemoveIsm,
    ];

    /// Faults of simulations of SMC-D. Eight of them are also in [`Self::SMCR`].
    pub const SMCD: [Self; 13] = [
        Self::Refuse,
        Self::Delay,
        Self::Restart,
        Self::JumpClock,
        Self::FreezeClock,
        Self::LateTimers,
        Self::TcpReset,
        Self::TcpSplit,
        Self::FailMove,
        Self::FailDmb,
        Self::LateSignals,
        Self::PeerVanishes,
        Self::RemoveIsm,
    ];

    /// Faults of simulations of SMC-R. Eight of them are also in [`Self::SMCD`].
    pub const SMCR: [Self; 21] = [
        Self::Refuse,
        Self::Delay,
        Self::FailLink,
        Self::SilenceLink,
        Self::SilencePort,
        Self::PortDown,
        Self::PortFlap,
        Self::RemoveDevice,
        Self::AcknowledgeAndLose,
        Self::LoseCompletions,
        Self::HoldCompletions,
        Self::WithholdReceives,
        Self::FewReceives,
        Self::Busy,
        Self::SlowPort,
        Self::Restart,
        Self::JumpClock,
        Self::FreezeClock,
        Self::LateTimers,
        Self::TcpReset,
        Self::TcpSplit,
    ];

    /// A few words for tables.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Refuse => "command refused",
            Self::Delay => "answer late",
            Self::FailLink => "link fails",
            Self::SilenceLink => "link silent",
            Self::SilencePort => "port silent",
            Self::PortDown => "port down",
            Self::PortFlap => "port flaps",
            Self::RemoveDevice => "RNIC removed",
            Self::AcknowledgeAndLose => "acknowledged, not placed",
            Self::LoseCompletions => "completions lost",
            Self::HoldCompletions => "completions batched",
            Self::WithholdReceives => "no receives",
            Self::FewReceives => "receives overrun",
            Self::Busy => "send queue full",
            Self::SlowPort => "slow wire",
            Self::Restart => "host restarts",
            Self::JumpClock => "clock jumps",
            Self::FreezeClock => "clock stands still",
            Self::LateTimers => "timers late",
            Self::TcpReset => "TCP reset",
            Self::TcpSplit => "TCP cut",
            Self::FailMove => "move fails",
            Self::FailDmb => "DMB fails",
            Self::LateSignals => "signals late",
            Self::PeerVanishes => "peer reported gone",
            Self::RemoveIsm => "ISM removed",
        }
    }
}

impl fmt::Display for FaultKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FaultAction {
    /// The action without its details.
    #[must_use]
    pub const fn kind(&self) -> FaultKind {
        match self {
            Self::Refuse => FaultKind::Refuse,
            Self::Delay(_) => FaultKind::Delay,
            Self::FailLink { .. } => FaultKind::FailLink,
            Self::SilenceLink { .. } => FaultKind::SilenceLink,
            Self::SilencePort { .. } => FaultKind::SilencePort,
            Self::PortDown { .. } => FaultKind::PortDown,
            Self::PortFlap { .. } => FaultKind::PortFlap,
            Self::RemoveDevice { .. } => FaultKind::RemoveDevice,
            Self::AcknowledgeAndLose(_) => FaultKind::AcknowledgeAndLose,
            Self::LoseCompletions(_) => FaultKind::LoseCompletions,
            Self::HoldCompletions(_) => FaultKind::HoldCompletions,
            Self::WithholdReceives(_) => FaultKind::WithholdReceives,
            Self::FewReceives { .. } => FaultKind::FewReceives,
            Self::Busy(_) => FaultKind::Busy,
            Self::SlowPort { .. } => FaultKind::SlowPort,
            Self::Restart { .. } => FaultKind::Restart,
            Self::JumpClock(_) => FaultKind::JumpClock,
            Self::FreezeClock(_) => FaultKind::FreezeClock,
            Self::LateTimers { .. } => FaultKind::LateTimers,
            Self::TcpReset => FaultKind::TcpReset,
            Self::TcpSplit(_) => FaultKind::TcpSplit,
            Self::FailMove => FaultKind::FailMove,
            Self::FailDmb => FaultKind::FailDmb,
            Self::LateSignals { .. } => FaultKind::LateSignals,
            Self::PeerVanishes => FaultKind::PeerVanishes,
            Self::RemoveIsm => FaultKind::RemoveIsm,
        }
    }
}
