//! Completions that own their bytes.

use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::id::{BufferId, ConnId, LinkId, WrId};
use smc_proto::wire::types::{Qpn, RToken};

use crate::fabric::{BufferKey, QueuePairKey, WorkOwner};

/// [`RdmaCompletion`] with bytes of its own, over any kind of names for
/// queue pairs (`L`), buffers (`B`) and connections (`C`). The variants mean
/// what they mean there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs)]
pub enum Completion<L, B, C> {
    QpCreated {
        link: L,
        qpn: Qpn,
    },
    QpConnected {
        link: L,
    },
    QpActive {
        link: L,
    },
    QpDrained {
        link: L,
    },
    QpDestroyed {
        link: L,
    },
    BufferAllocated {
        buffer: B,
    },
    BufferRegistered {
        buffer: B,
        link: L,
        rtoken: RToken,
    },
    BufferDeregistered {
        buffer: B,
        link: L,
    },
    BufferFreed {
        buffer: B,
    },
    ElementCleared {
        buffer: B,
        offset: u32,
    },
    Sent {
        link: L,
        wr_id: WrId,
    },
    Received {
        link: L,
        payload: Vec<u8>,
    },
    LinkRefused {
        link: L,
    },
    BufferRefused {
        buffer: B,
    },
    LinkFailed {
        link: L,
        cause: LinkFailure,
        conn: Option<C>,
    },
    EyeCatcherDamaged {
        conn: C,
    },
}

/// Completion of a fabric for direct users of its queue pairs.
pub type FabricCompletion = Completion<QueuePairKey, BufferKey, WorkOwner>;

/// What a fabric reports to an engine.
pub type OwnedCompletion = Completion<LinkId, BufferId, ConnId>;

impl<L, B, C> Completion<L, B, C> {
    /// Translates the handles of a completion; `None` if one is not known.
    pub fn rename<L2, B2, C2>(
        self,
        link_name: impl Fn(L) -> Option<L2>,
        buffer_name: impl Fn(B) -> Option<B2>,
        conn_name: impl Fn(C) -> Option<C2>,
    ) -> Option<Completion<L2, B2, C2>> {
        use Completion as To;
        Some(match self {
            Self::QpCreated { link, qpn } => To::QpCreated {
                link: link_name(link)?,
                qpn,
            },
            Self::QpConnected { link } => To::QpConnected {
                link: link_name(link)?,
            },
            Self::QpActive { link } => To::QpActive {
                link: link_name(link)?,
            },
            Self::QpDrained { link } => To::QpDrained {
                link: link_name(link)?,
            },
            Self::QpDestroyed { link } => To::QpDestroyed {
                link: link_name(link)?,
            },
            Self::BufferAllocated { buffer } => To::BufferAllocated {
                buffer: buffer_name(buffer)?,
            },
            Self::BufferRegistered {
                buffer,
                link,
                rtoken,
            } => To::BufferRegistered {
                buffer: buffer_name(buffer)?,
                link: link_name(link)?,
                rtoken,
            },
            Self::BufferDeregistered { buffer, link } => To::BufferDeregistered {
                buffer: buffer_name(buffer)?,
                link: link_name(link)?,
            },
            Self::BufferFreed { buffer } => To::BufferFreed {
                buffer: buffer_name(buffer)?,
            },
            Self::ElementCleared { buffer, offset } => To::ElementCleared {
                buffer: buffer_name(buffer)?,
                offset,
            },
            Self::Sent { link, wr_id } => To::Sent {
                link: link_name(link)?,
                wr_id,
            },
            Self::Received { link, payload } => To::Received {
                link: link_name(link)?,
                payload,
            },
            Self::LinkRefused { link } => To::LinkRefused {
                link: link_name(link)?,
            },
            Self::BufferRefused { buffer } => To::BufferRefused {
                buffer: buffer_name(buffer)?,
            },
            Self::LinkFailed { link, cause, conn } => To::LinkFailed {
                link: link_name(link)?,
                cause,
                conn: conn.and_then(conn_name),
            },
            Self::EyeCatcherDamaged { conn } => To::EyeCatcherDamaged {
                conn: conn_name(conn)?,
            },
        })
    }
}

impl OwnedCompletion {
    /// Borrows the completion in the form that the engine takes.
    #[must_use]
    pub fn as_ref(&self) -> RdmaCompletion<'_> {
        use RdmaCompletion as To;
        match *self {
            Self::QpCreated { link, qpn } => To::QpCreated { link, qpn },
            Self::QpConnected { link } => To::QpConnected { link },
            Self::QpActive { link } => To::QpActive { link },
            Self::QpDrained { link } => To::QpDrained { link },
            Self::QpDestroyed { link } => To::QpDestroyed { link },
            Self::BufferAllocated { buffer } => To::BufferAllocated { buffer },
            Self::BufferRegistered {
                buffer,
                link,
                rtoken,
            } => To::BufferRegistered {
                buffer,
                link,
                rtoken,
            },
            Self::BufferDeregistered { buffer, link } => To::BufferDeregistered { buffer, link },
            Self::BufferFreed { buffer } => To::BufferFreed { buffer },
            Self::ElementCleared { buffer, offset } => To::ElementCleared { buffer, offset },
            Self::Sent { link, wr_id } => To::Sent { link, wr_id },
            Self::Received { link, ref payload } => To::Received { link, payload },
            Self::LinkRefused { link } => To::LinkRefused { link },
            Self::BufferRefused { buffer } => To::BufferRefused { buffer },
            Self::LinkFailed { link, cause, conn } => To::LinkFailed { link, cause, conn },
            Self::EyeCatcherDamaged { conn } => To::EyeCatcherDamaged { conn },
        }
    }
}
