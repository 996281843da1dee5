//! What a fault can be tied to.

use smc_proto::time::Instant;

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
    /// At the operation with this number, counted from 1, and at each one after it.
    From {
        /// Operations that count.
        operation: Operation,
        /// The first of them.
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

impl Trigger {
    /// The operation it is tied to, if it is not tied to a time.
    #[must_use]
    pub const fn operation(&self) -> Option<Operation> {
        match self {
            Self::At(_) => None,
            Self::Nth { operation, .. }
            | Self::From { operation, .. }
            | Self::Chance { operation, .. } => Some(*operation),
        }
    }
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
    /// Posting a SEND that carries an LLC message.
    SendLlc,
    /// Posting a SEND that carries DELETE LINK.
    SendDeleteLink,
    /// Posting a SEND that carries CONFIRM RKEY, one of its CONTINUATIONs or DELETE
    /// RKEY.
    SendRkey,
    /// Posting a SEND that carries TEST LINK.
    SendTestLink,
    /// A SEND about to be reported as sent.
    Sent,
    /// Registering a DMB.
    RegisterDmb,
    /// Taking a DMB back.
    UnregisterDmb,
    /// Zeroing a DMB.
    ClearDmb,
    /// Binding a send buffer to a DMB of a peer.
    AttachDmb,
    /// Undoing that.
    DetachDmb,
    /// Moving bytes or a CDC message to a DMB of a peer.
    Move,
    /// Sending one byte over TCP.
    TcpByte,
}

impl Operation {
    /// Whether it is answered by its own completion.
    #[must_use]
    pub const fn is_control(self) -> bool {
        !matches!(
            self,
            Self::Write
                | Self::Send
                | Self::SendLlc
                | Self::SendDeleteLink
                | Self::SendRkey
                | Self::SendTestLink
                | Self::Sent
                | Self::TcpByte
                | Self::Move
                | Self::AnyControl
        )
    }

    pub(super) fn matches(self, happened: Self) -> bool {
        let llc = matches!(
            happened,
            Self::SendLlc | Self::SendDeleteLink | Self::SendRkey | Self::SendTestLink
        );
        self == happened
            || (self == Self::AnyControl && happened.is_control())
            || (llc && matches!(self, Self::Send | Self::SendLlc))
    }
}
