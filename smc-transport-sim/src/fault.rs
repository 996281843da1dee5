//! What goes wrong in a run, and when. A plan and a seed replay a run exactly.

use smc_proto::completion::LinkFailure;
use smc_proto::id::DeviceId;
use smc_proto::time::{Duration, Instant};

use crate::fabric::HostId;
use crate::random::Random;
use crate::tcp::TcpSplit;

/// Faults of one run, in the order in which they are considered.
#[derive(Clone, Debug, Default, Hash)]
pub struct FaultPlan {
    faults: Vec<Fault>,
    /// How often each fault saw its operation.
    seen: Vec<u64>,
}

/// One fault: what happens to whom and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Fault {
    /// When.
    pub trigger: Trigger,
    /// At which host; `None` for any host, or for all hosts with [`Trigger::At`].
    pub host: Option<HostId>,
    /// What.
    pub action: FaultAction,
}

/// When a fault happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Trigger {
    /// Once, at this time.
    At(Instant),
    /// Once, at the operation with this number, counted from 1.
    Nth {
        /// Operations that count.
        operation: Operation,
        /// Which of them.
        number: u64,
    },
    /// At each operation with this probability.
    Chance {
        /// Operations it can strike.
        operation: Operation,
        /// Probability in millionths.
        per_million: u32,
    },
}

/// What a host does that a fault can strike.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Operation {
    /// Any control command.
    AnyControl,
    /// Creating a queue pair.
    CreateQueuePair,
    /// Connecting a queue pair.
    ConnectQueuePair,
    /// Activating a queue pair.
    ActivateQueuePair,
    /// Moving a queue pair to the error state.
    QueuePairToError,
    /// Destroying a queue pair.
    DestroyQueuePair,
    /// Allocating a buffer.
    AllocateBuffer,
    /// Registering a buffer.
    RegisterBuffer,
    /// Undoing a registration.
    DeregisterBuffer,
    /// Freeing a buffer.
    FreeBuffer,
    /// Clearing an element.
    ClearElement,
    /// Posting an RDMA WRITE.
    Write,
    /// Posting a SEND.
    Send,
    /// A SEND about to be reported as sent.
    Sent,
    /// Sending one octet over TCP.
    TcpOctet,
}

impl Operation {
    /// Whether it is answered by its own completion.
    #[must_use]
    pub const fn is_control(self) -> bool {
        !matches!(
            self,
            Self::Write | Self::Send | Self::Sent | Self::TcpOctet | Self::AnyControl
        )
    }
    fn matches(self, happened: Self) -> bool {
        self == happened || (self == Self::AnyControl && happened.is_control())
    }
}

/// What happens. Each action says with which triggers it makes sense; with
/// others it does nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum FaultAction {
    /// The control command is refused and has no effect.
    Refuse,
    /// The answer to the control command, or the completion, comes later.
    Delay(Duration),
    /// Queue pairs break: the one of the operation, or with [`Trigger::At`]
    /// every connected one of the host.
    FailLink {
        /// Only queue pairs of this RNIC.
        device: Option<DeviceId>,
        /// Who notices at once. An end that does not notices when it next sends.
        ends: Ends,
        /// What they report.
        cause: LinkFailure,
    },
    /// The host posts no receives for a while: those posted vanish.
    WithholdReceives(Duration),
    /// The host's TCP connections are reset; with [`Operation::TcpOctet`] the
    /// one that was about to send the octet, which does not leave.
    TcpReset,
    /// From now on the host's TCP octets are cut like this.
    TcpSplit(TcpSplit),
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

impl FaultPlan {
    /// No faults.
    #[must_use]
    pub const fn none() -> Self {
        Self {
            faults: Vec::new(),
            seen: Vec::new(),
        }
    }

    /// Adds a fault.
    pub fn push(&mut self, fault: Fault) {
        self.faults.push(fault);
        self.seen.push(0);
    }

    /// Adds a fault.
    #[must_use]
    pub fn with(
        mut self,
        trigger: Trigger,
        host: impl Into<Option<HostId>>,
        action: FaultAction,
    ) -> Self {
        self.push(Fault {
            trigger,
            host: host.into(),
            action,
        });
        self
    }

    /// The faults.
    #[must_use]
    pub fn faults(&self) -> &[Fault] {
        &self.faults
    }

    /// What strikes an operation that is about to happen.
    pub(crate) fn strike(
        &mut self,
        host: HostId,
        operation: Operation,
        random: &mut Random,
    ) -> Vec<FaultAction> {
        self.strike_first(host, operation, 1, random)
            .map_or_else(Vec::new, |(_, actions)| actions)
    }

    /// The first of `count` equal operations that is struck, counted from 0,
    /// and by what. Operations after it do not count as seen.
    pub(crate) fn strike_first(
        &mut self,
        host: HostId,
        operation: Operation,
        count: u64,
        random: &mut Random,
    ) -> Option<(u64, Vec<FaultAction>)> {
        if !self.concerns(host, operation) {
            return None;
        }
        (0..count).find_map(|index| {
            let actions: Vec<_> = self
                .faults
                .iter()
                .zip(&mut self.seen)
                .filter(|(fault, _)| fault.host.is_none_or(|only| only == host))
                .filter_map(|(fault, seen)| {
                    let struck = match fault.trigger {
                        Trigger::Nth {
                            operation: on,
                            number,
                        } if on.matches(operation) => {
                            *seen += 1;
                            *seen == number
                        }
                        Trigger::Chance {
                            operation: on,
                            per_million,
                        } if on.matches(operation) => random.chance(per_million),
                        _ => false,
                    };
                    struck.then_some(fault.action)
                })
                .collect();
            (!actions.is_empty()).then_some((index, actions))
        })
    }

    fn concerns(&self, host: HostId, operation: Operation) -> bool {
        self.faults.iter().any(|fault| {
            fault.host.is_none_or(|only| only == host)
                && match fault.trigger {
                    Trigger::At(_) => false,
                    Trigger::Nth { operation: on, .. } | Trigger::Chance { operation: on, .. } => {
                        on.matches(operation)
                    }
                }
        })
    }
}
