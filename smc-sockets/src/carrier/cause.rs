//! What led to TCP.

use std::fmt;

use smc_proto::wire::types::DiagnosisCode;

use super::Side;
use crate::policy::Rule;
use crate::tcp_option::OptionError;

/// What led to TCP, as far as this side knows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Cause {
    /// Both sides exchanged CLC messages; the codes name the outcome.
    Negotiation,
    /// The policy of this side.
    Policy(Rule),
    /// The other side did not offer SMC: it called no process for shared memory, and there
    /// was no TCP option.
    NotOffered,
    /// The peer did not answer the TCP option that this side sent.
    NoOption,
    /// The peer is not on this host, and there is no RNIC to reach it with.
    NoDevice,
    /// The peer is not on this host, and the TCP option cannot be set.
    CannotAsk(OptionMissing),
    /// The listener was made by other code, which did not ask for the TCP option in time.
    AskedTooLate,
    /// The server misunderstood a Proposal lately.
    Shunned,
    /// The other process is on this host, and did not pair in time.
    NotPaired,
    /// The process belongs to the user of those unknown to the kernel (65534,
    /// "nobody"): no process of this host pairs with it.
    UnknownUser(u32),
    /// A limit of this side's was reached.
    Limit(Limit),
    /// The listener was made by the process that this one was forked from, and this one can have no
    /// stack of its own.
    Inherited,
}

/// A limit of this side's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Limit {
    /// SMC connections of the stack.
    Connections(usize),
    /// Bytes of memory that the policy permits.
    PolicyMemory(u64),
    /// Bytes that the process may lock (`RLIMIT_MEMLOCK`), which an RNIC needs.
    LockedMemory(u64),
    /// Clients of a listener that have not decided yet.
    Undecided(usize),
    /// Bytes of a file of this process (`RLIMIT_FSIZE`), as memory that is shared is one.
    FileSize(u64),
    /// Mappings of this process (`vm.max_map_count`), as shared memory has its share of them.
    Mappings(usize),
}

/// Why SMC's TCP option cannot be set.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum OptionMissing {
    /// The policy says so.
    Never,
    /// The process lacks these capabilities.
    Capabilities(&'static str),
    /// The process is in no cgroup of version 2.
    NoCgroup,
    /// The kernel has no such BPF.
    KernelTooOld,
    /// The kernel refused for another reason, by its number.
    Refused(i32),
}

impl From<&OptionError> for OptionMissing {
    fn from(error: &OptionError) -> Self {
        match error {
            OptionError::MissingCapabilities(names) => Self::Capabilities(names),
            OptionError::NoCgroup => Self::NoCgroup,
            OptionError::KernelTooOld => Self::KernelTooOld,
            OptionError::Refused(_, error) => Self::Refused(error.raw_os_error().unwrap_or(0)),
        }
    }
}

impl Cause {
    /// The diagnosis code of the causes on this side.
    pub(crate) const fn code(self) -> DiagnosisCode {
        match self {
            Self::Policy(_) => DiagnosisCode::CONFIGURATION,
            Self::NoDevice => DiagnosisCode::NO_SMCR_DEVICE,
            Self::Limit(_) => DiagnosisCode::MEMORY,
            Self::Negotiation
            | Self::NotOffered
            | Self::NoOption
            | Self::CannotAsk(_)
            | Self::AskedTooLate
            | Self::Shunned
            | Self::NotPaired
            | Self::UnknownUser(_)
            | Self::Inherited => DiagnosisCode::PEER_NO_SMC,
        }
    }

    /// Side that decided; `None` if only the codes show it.
    pub(super) const fn side(self) -> Option<Side> {
        match self {
            Self::Negotiation => None,
            Self::NotOffered | Self::NoOption | Self::NotPaired => Some(Side::Peer),
            Self::Policy(_)
            | Self::NoDevice
            | Self::CannotAsk(_)
            | Self::AskedTooLate
            | Self::Shunned
            | Self::Inherited
            | Self::UnknownUser(_)
            | Self::Limit(_) => Some(Side::Here),
        }
    }

    /// Reason, where the codes have none.
    pub(super) fn sentence(self) -> Option<String> {
        Some(match self {
            Self::Negotiation | Self::NotOffered => return None,
            Self::Policy(rule) => format!("This side's policy keeps it on TCP: {rule}."),
            Self::NoOption => "This side asked by the TCP option, and the other side did not \
                               answer it."
                .to_owned(),
            Self::NoDevice => "The peer is on another host, and there is no RNIC here that \
                               could reach it."
                .to_owned(),
            Self::CannotAsk(why) => {
                format!("The peer is on another host, and cannot be asked: {why}.")
            }
            Self::AskedTooLate => "The listener began to listen before it could ask for the \
                                   TCP option."
                .to_owned(),
            Self::Shunned => "This server did not understand SMC's Proposal lately, and is \
                              not asked for a while."
                .to_owned(),
            Self::NotPaired => "The other process is on this host and knows SMC, but did not \
                                take this connection up in time, or is this very process."
                .to_owned(),
            Self::Inherited => "The listener was made before this process was forked, which \
                                cannot have a stack of its own."
                .to_owned(),
            Self::UnknownUser(uid) => format!(
                "This process belongs to user {uid}, which stands for all users unknown to the \
                 kernel, and no process of this host pairs with that one."
            ),
            Self::Limit(limit) => format!("This side has no room for it: {limit}."),
        })
    }

    /// What to do, where the codes have no remedy.
    pub(crate) fn remedy(self) -> Option<String> {
        Some(match self {
            Self::Negotiation | Self::NotOffered | Self::NoOption => return None,
            Self::Policy(rule) => rule.remedy(),
            Self::NoDevice => "Use an RNIC in the peer's network; `smcx devices` shows what \
                               there is."
                .to_owned(),
            Self::CannotAsk(why) => why.remedy(),
            Self::AskedTooLate => {
                "Let the listener be made by `SmcListener::bind`, or name its clients in \
                 `assume-smc`."
                    .to_owned()
            }
            Self::Shunned => "Nothing, if the server does not speak SMC; see `shun` in the \
                              policy for how long it is left alone."
                .to_owned(),
            Self::NotPaired => "Check whether the process that accepts runs as user 65534 \
                                (\"nobody\", as workers of nginx without a `user` do): it needs a \
                                user of its own. Otherwise check whether it is short of time, and \
                                give both more (`pairing-grace` in the policy, or \
                                `Settings::pairing_timeouts`)."
                .to_owned(),
            Self::Inherited => "Make the listener after the fork, with the RNICs of the child, or \
                                leave the process more descriptors."
                .to_owned(),
            Self::UnknownUser(uid) => {
                format!("Run it as a user of its own, and not as {uid} (\"nobody\").")
            }
            Self::Limit(limit) => limit.remedy().to_owned(),
        })
    }
}

impl Limit {
    pub(crate) const fn remedy(self) -> &'static str {
        match self {
            Self::Connections(_) => "Raise `Settings::connections`.",
            Self::PolicyMemory(_) => {
                "Raise `max-memory` in the policy, or use smaller buffers (`Settings::buffer`)."
            }
            Self::LockedMemory(_) => {
                "Raise the limit of locked memory (`ulimit -l`, or `LimitMEMLOCK=` of the \
                 service), or use smaller buffers or fewer connections."
            }
            Self::FileSize(_) => {
                "Raise the limit of file sizes (`ulimit -f`, or `LimitFSIZE=` of the service), \
                 or use smaller buffers (`Settings::buffer`)."
            }
            Self::Mappings(_) => {
                "Raise `vm.max_map_count` (sysctl), or let the program have fewer connections."
            }
            Self::Undecided(_) => "Nothing, if it passes: further clients are asked again.",
        }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Connections(most) => write!(f, "all {most} connections are in use"),
            Self::PolicyMemory(most) => {
                write!(
                    f,
                    "the policy permits {most} bytes of memory, which are in use"
                )
            }
            Self::LockedMemory(most) => write!(
                f,
                "the process may lock {most} bytes of memory (RLIMIT_MEMLOCK), \
                 and an RNIC needs more"
            ),
            Self::FileSize(most) => write!(
                f,
                "files of the process may have {most} bytes (RLIMIT_FSIZE), \
                 and shared memory needs more"
            ),
            Self::Mappings(most) => write!(
                f,
                "the process may have {most} mappings (vm.max_map_count), of which shared \
                 memory has three quarters"
            ),
            Self::Undecided(most) => write!(f, "{most} clients have not decided yet"),
        }
    }
}

impl OptionMissing {
    fn remedy(self) -> String {
        match self {
            Self::Never => {
                "If that is not what you want, change `tcp-option` in the policy.".to_owned()
            }
            Self::Capabilities(names) => format!(
                "Give this process {names}, or let a process that has them hand its map on \
                 (`Settings::marks`); between ends of your own, `assume-smc` in both policies \
                 does without."
            ),
            Self::NoCgroup => "Mount the cgroups of version 2 where this process sees its own, \
                               or name the peer in `assume-smc`."
                .to_owned(),
            Self::KernelTooOld => {
                "Use Linux 5.10 or later with BPF, or name the peer in `assume-smc`.".to_owned()
            }
            Self::Refused(_) => "Check the kernel's messages and its lockdown, or name the \
                                 peer in `assume-smc`."
                .to_owned(),
        }
    }
}

/// What is missing, as part of a sentence.
impl fmt::Display for OptionMissing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Never => f.write_str("the policy says tcp-option = \"never\""),
            Self::Capabilities(names) => {
                write!(f, "this process lacks {names} to set the TCP option")
            }
            Self::NoCgroup => {
                f.write_str("this process is in no cgroup of version 2 to set the TCP option for")
            }
            Self::KernelTooOld => {
                f.write_str("this kernel has no BPF that could set the TCP option")
            }
            Self::Refused(number) => {
                let error = std::io::Error::from_raw_os_error(*number);
                write!(f, "the kernel did not let the TCP option be set ({error})")
            }
        }
    }
}
