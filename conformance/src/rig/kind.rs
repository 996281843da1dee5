//! Kinds of RDMA commands.

use core::fmt;

use smc_proto::command::RdmaCommand;

/// Kinds of commands, named as the commands are.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    CreateQp,
    ConnectQp,
    ActivateQp,
    QpToError,
    DestroyQp,
    Alloc,
    Register,
    Deregister,
    Free,
    Clear,
    Write,
    Send,
}

impl Kind {
    /// All that are answered by a completion of their own.
    pub const CONTROL: [Self; 10] = [
        Self::CreateQp,
        Self::ConnectQp,
        Self::ActivateQp,
        Self::QpToError,
        Self::DestroyQp,
        Self::Alloc,
        Self::Register,
        Self::Deregister,
        Self::Free,
        Self::Clear,
    ];

    /// Kind of a command.
    #[must_use]
    pub const fn of(command: &RdmaCommand) -> Self {
        match command {
            RdmaCommand::CreateQp { .. } => Self::CreateQp,
            RdmaCommand::ConnectQp { .. } => Self::ConnectQp,
            RdmaCommand::ActivateQp { .. } => Self::ActivateQp,
            RdmaCommand::QpToError { .. } => Self::QpToError,
            RdmaCommand::DestroyQp { .. } => Self::DestroyQp,
            RdmaCommand::AllocBuffer { .. } => Self::Alloc,
            RdmaCommand::RegisterBuffer { .. } => Self::Register,
            RdmaCommand::DeregisterBuffer { .. } => Self::Deregister,
            RdmaCommand::FreeBuffer { .. } => Self::Free,
            RdmaCommand::ClearElement { .. } => Self::Clear,
            RdmaCommand::Write { .. } => Self::Write,
            RdmaCommand::Send { .. } | RdmaCommand::SendLarge { .. } => Self::Send,
        }
    }

    /// Whether such a command provides something: it may be refused, or take its time, and
    /// the engine goes on without.
    #[must_use]
    pub const fn provides(self) -> bool {
        matches!(
            self,
            Self::CreateQp
                | Self::ConnectQp
                | Self::ActivateQp
                | Self::Alloc
                | Self::Register
                | Self::Clear
        )
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}
