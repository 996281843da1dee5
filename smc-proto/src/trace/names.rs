//! Fields with named values: types of their own here, and names for types of the engine.

use super::Value;
use super::field::{Field, Reader, Writer};
use crate::command::BufferKind;
use crate::completion::LinkFailure;
use crate::connection::{CloseCause, CloseState, FatalCause, PeerMisbehaved};
use crate::event::CloseReason;
use crate::version::{SmcVersion, Technology};
use crate::wire::clc::ClcKind;

/// Makes fields of enums: each value with its octet and its name.
macro_rules! named {
    ($($type:ident { $($variant:ident $(($inner:path))? = $octet:literal $name:literal,)* })*) => {$(
        impl Field for $type {
            const OCTETS: usize = 1;
            #[inline(always)]
            fn put(self, out: &mut Writer) {
                let octet: u8 = match self {
                    $(Self::$variant $(($inner))? => $octet,)*
                };
                octet.put(out);
            }
            fn get(from: &mut Reader) -> Option<Self> {
                Some(match u8::get(from)? {
                    $($octet => Self::$variant $(($inner))?,)*
                    _ => return None,
                })
            }
            fn value(self) -> Value {
                Value::Name(match self {
                    $(Self::$variant $(($inner))? => $name,)*
                })
            }
        }
    )*};
}

/// Declares enums that are fields.
macro_rules! declared {
    ($($(#[$doc:meta])* $type:ident {
        $($(#[$of:meta])* $variant:ident = $octet:literal $name:literal,)*
    })*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
            #[non_exhaustive]
            pub enum $type {
                $($(#[$of])* $variant,)*
            }
        )*
        named! { $($type { $($variant = $octet $name,)* })* }
    };
}

declared! {
    /// Side of a rendezvous.
    Side {
        /// Opens the TCP connection.
        Client = 1 "client",
        /// Accepts the TCP connection.
        Server = 2 "server",
    }

    /// State of a rendezvous.
    RendezvousStep {
        /// Client: the Proposal is to be sent.
        Proposing = 1 "proposing",
        /// Client: the Accept is awaited.
        AwaitingAccept = 2 "awaiting_accept",
        /// Links and buffers are made ready.
        Preparing = 3 "preparing",
        /// Client: the Confirm is to be sent.
        Confirming = 4 "confirming",
        /// Server: the Proposal is awaited.
        AwaitingProposal = 5 "awaiting_proposal",
        /// Server: the embedder is to answer the Proposal.
        Proposed = 6 "proposed",
        /// The first contact of another connection is waited for.
        Queued = 7 "queued",
        /// Server: the Accept is to be sent.
        Accepting = 8 "accepting",
        /// Server: the Confirm is awaited.
        AwaitingConfirm = 9 "awaiting_confirm",
        /// CONFIRM LINK is exchanged over the first link.
        Forming = 10 "forming",
        /// A Decline is to be sent.
        Declining = 11 "declining",
    }

    /// What the embedder is to do with a TCP connection.
    TcpAction {
        /// Give it to the application.
        HandOver = 1 "hand_over",
        /// Give it to the application, but watch for a Decline that crossed this side's.
        HandOverWatched = 2 "hand_over_watched",
        /// Close it in order.
        Close = 3 "close",
        /// Reset it.
        Reset = 4 "reset",
    }

    /// State of a link group.
    GroupStep {
        /// First contact is in progress.
        Forming = 1 "forming",
        /// Connections can be added.
        Active = 2 "active",
        /// Being taken down.
        Ending = 3 "ending",
    }

    /// State of a link.
    LinkStep {
        /// Server: offered by ADD LINK, not accepted yet.
        Offered = 1 "offered",
        /// Being made, not confirmed.
        Adding = 2 "adding",
        /// Confirmed: connections may use it.
        Active = 3 "active",
        /// Failed, or being deleted.
        Removing = 4 "removing",
    }

    /// State of a queue pair.
    QpStep {
        /// Not created, or destroyed.
        Absent = 1 "absent",
        /// INIT.
        Init = 2 "init",
        /// RTR: receives.
        Rtr = 3 "rtr",
        /// RTS: sends.
        Rts = 4 "rts",
        /// Flushed in the error state.
        Drained = 5 "drained",
    }

    /// Control command of a buffer.
    BufferStep {
        /// Provide memory.
        Allocate = 1 "allocate",
        /// Register with an RNIC, or attach to the DMB of the peer.
        Register = 2 "register",
        /// Zero an element.
        Clear = 3 "clear",
        /// Undo a registration.
        Deregister = 4 "deregister",
        /// Give the memory back.
        Free = 5 "free",
    }

    /// What a timer is for.
    TimerKind {
        /// The wait of a rendezvous.
        Rendezvous = 1 "rendezvous",
        /// Closing, coalescing or a cork of a connection; or the wait for a crossing Decline.
        Connection = 2 "connection",
        /// An LLC exchange, an idle group, or another attempt to add a link.
        Group = 3 "group",
        /// Keepalive of a link, or its removal.
        Link = 4 "link",
        /// An idle RMB, or the wait for an answer about it.
        Buffer = 5 "buffer",
    }

    /// Type of an LLC message, of either version.
    LlcKind {
        /// CONFIRM LINK.
        ConfirmLink = 0x01 "confirm_link",
        /// ADD LINK.
        AddLink = 0x02 "add_link",
        /// ADD LINK CONTINUATION.
        AddLinkContinuation = 0x03 "add_link_continuation",
        /// DELETE LINK.
        DeleteLink = 0x04 "delete_link",
        /// REQUEST ADD LINK, of version 2.
        RequestAddLink = 0x05 "request_add_link",
        /// CONFIRM RKEY.
        ConfirmRkey = 0x06 "confirm_rkey",
        /// TEST LINK.
        TestLink = 0x07 "test_link",
        /// CONFIRM RKEY CONTINUATION.
        ConfirmRkeyContinuation = 0x08 "confirm_rkey_continuation",
        /// DELETE RKEY.
        DeleteRkey = 0x09 "delete_rkey",
        /// Another type.
        Other = 0xff "other",
    }
}

named! {
    ClcKind {
        Proposal = 1 "proposal",
        Accept = 2 "accept",
        Confirm = 3 "confirm",
        Decline = 4 "decline",
    }
    Technology {
        SmcR = 1 "smc_r",
        SmcD = 2 "smc_d",
    }
    SmcVersion {
        V1 = 1 "v1",
        V2 = 2 "v2",
    }
    BufferKind {
        Rmb = 1 "rmb",
        Send = 2 "send",
    }
    CloseState {
        Active = 1 "active",
        PeerCloseWait1 = 2 "peer_close_wait_1",
        PeerCloseWait2 = 3 "peer_close_wait_2",
        AppFinCloseWait = 4 "app_fin_close_wait",
        AppCloseWait1 = 5 "app_close_wait_1",
        AppCloseWait2 = 6 "app_close_wait_2",
        PeerFinCloseWait = 7 "peer_fin_close_wait",
        PeerAbortWait = 8 "peer_abort_wait",
        ProcessAbort = 9 "process_abort",
        Closed = 10 "closed",
    }
    CloseReason {
        Normal = 1 "normal",
        LocalAbort = 2 "local_abort",
        PeerAbort = 3 "peer_abort",
        TcpReset = 4 "tcp_reset",
        CloseTimeout = 5 "close_timeout",
        LinksLost = 6 "links_lost",
        PeerMisbehaved = 7 "peer_misbehaved",
        RendezvousFailed = 8 "rendezvous_failed",
        EyeCatcherDamaged = 9 "eye_catcher_damaged",
        DataLost = 10 "data_lost",
        RmbeConflict = 11 "rmbe_conflict",
    }
    CloseCause {
        Orderly = 1 "graceful",
        Aborted = 2 "aborted",
        UnreadData = 3 "unread_data",
        PeerClosedEarly = 4 "peer_closed_early",
        PeerAborted = 5 "peer_aborted",
        LingerExpired = 6 "linger_expired",
        CloseWaitExpired = 7 "close_wait_expired",
        TcpReset = 8 "tcp_reset",
        Fatal(FatalCause::LinkLost) = 16 "link_lost",
        Fatal(FatalCause::MemoryOutOfReach) = 17 "memory_out_of_reach",
        Fatal(FatalCause::RmbeConflict) = 18 "rmbe_conflict",
        Fatal(FatalCause::EyeCatcherDamaged) = 19 "eye_catcher_damaged",
        Fatal(FatalCause::DataLost) = 20 "data_lost",
        Fatal(FatalCause::AccessRefused) = 21 "access_refused",
        Fatal(FatalCause::TcpData) = 22 "tcp_data",
        PeerMisbehaved(PeerMisbehaved::ProducerOutsideRing) = 32 "producer_outside_ring",
        PeerMisbehaved(PeerMisbehaved::ProducerBeyondWindow) = 33 "producer_beyond_window",
        PeerMisbehaved(PeerMisbehaved::ProducerFarBack) = 34 "producer_far_back",
        PeerMisbehaved(PeerMisbehaved::ConsumerOutsideRing) = 35 "consumer_outside_ring",
        PeerMisbehaved(PeerMisbehaved::ConsumerBeyondPublished) = 36 "consumer_beyond_published",
        PeerMisbehaved(PeerMisbehaved::ConsumerFarBack) = 37 "consumer_far_back",
        PeerMisbehaved(PeerMisbehaved::ForeignHead) = 38 "foreign_head",
    }
    PeerMisbehaved {
        ProducerOutsideRing = 1 "producer_outside_ring",
        ProducerBeyondWindow = 2 "producer_beyond_window",
        ProducerFarBack = 3 "producer_far_back",
        ConsumerOutsideRing = 4 "consumer_outside_ring",
        ConsumerBeyondPublished = 5 "consumer_beyond_published",
        ConsumerFarBack = 6 "consumer_far_back",
        ForeignHead = 7 "foreign_head",
    }
    LinkFailure {
        RetriesExhausted = 1 "retries_exhausted",
        ReceiverNotReady = 2 "receiver_not_ready",
        RemoteAccess = 3 "remote_access",
        PortDown = 4 "port_down",
        DeviceRemoved = 5 "device_removed",
        Other = 6 "other",
    }
}
