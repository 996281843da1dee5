//! What an RNIC does for SMC-R. [`Binding`](crate::binding::Binding) makes such a device
//! the engine's; real ones are behind the feature `rdma`.
//!
//! Devices are shared with threads that wait for slow answers, hence `&self`.

mod outcome;

use std::os::fd::BorrowedFd;
use std::sync::Arc;

use smc_proto::command::{QpAddress, Segment};
use smc_proto::wire::types::{Mtu, Psn, Qpn, RToken};

use crate::memory::Memory;
use crate::ports::Port;
pub use outcome::{DeviceEvent, PostError, RnicError, Status, WorkCompletion};

/// Work requests that may wait on the send side of a queue pair: the 16 SENDs that
/// the engine has in flight on a link, with two WRITEs each, and some more.
pub const SEND_DEPTH: u32 = 64;
/// Receives that are kept posted on a queue pair. Peers have at most 16 SENDs in flight by
/// default; Linux may be configured for 2,048 (`smcr_max_send_wr`). A SEND that finds no
/// receive is repeated by its RNIC, by ours without limit (`rnr_retry` 7). Linux posts 48
/// receives, or as few as 2 (`smcr_max_recv_wr`).
pub const RECEIVE_DEPTH: u32 = 64;
/// Most requests posted at once: two WRITEs and the SEND that announces them.
pub const MAX_CHAIN: usize = 3;

/// An RNIC, opened.
pub trait Rnic: Send + Sync + 'static {
    /// A queue pair with its protection domain and completion queue. Dropping it
    /// destroys these, after which the device touches no memory on its behalf.
    type QueuePair: Send + Sync + 'static;
    /// Memory registered in the protection domain of a queue pair. Dropping it undoes
    /// that; it keeps the memory.
    type Region: Send + 'static;

    /// Ports of the RNIC as they are now.
    ///
    /// # Errors
    /// [`RnicError`]: the device may be gone.
    fn ports(&self) -> Result<Vec<Port>, RnicError>;

    /// Creates a reliable-connected queue pair in state INIT, with a protection domain
    /// and a completion queue of its own that is armed.
    ///
    /// # Errors
    /// [`RnicError`].
    fn create_queue_pair(
        &self,
        spec: &QueuePairSpec,
    ) -> Result<(Self::QueuePair, QueuePairFacts), RnicError>;

    /// Binds the queue pair to the peer's and moves it to RTR. May take a second or more
    /// where the peer's MAC has to be asked for.
    ///
    /// # Errors
    /// [`RnicError`]: the queue pair is as before.
    fn connect(&self, queue_pair: &Self::QueuePair, to: &Connect) -> Result<(), RnicError>;

    /// Moves the queue pair to RTS.
    ///
    /// # Errors
    /// [`RnicError`].
    fn activate(&self, queue_pair: &Self::QueuePair, psn: Psn) -> Result<(), RnicError>;

    /// Moves the queue pair to the error state, in which everything posted is flushed.
    ///
    /// # Errors
    /// [`RnicError`]: the device may be gone.
    fn to_error(&self, queue_pair: &Self::QueuePair) -> Result<(), RnicError>;

    /// Registers memory.
    ///
    /// # Errors
    /// [`RnicError`]; [`RnicError::is_memory_limit`] if the process may not lock so much.
    fn register(
        &self,
        queue_pair: &Self::QueuePair,
        memory: &Arc<Memory>,
        access: Access,
    ) -> Result<Self::Region, RnicError>;

    /// Bytes of memory that the process may still register, `None` without a limit.
    fn lockable(&self) -> Option<u64>;

    /// Bytes of memory that the process may register in all, `None` without a limit.
    fn lock_limit(&self) -> Option<u64>;

    /// How the peer addresses registered memory.
    fn token(&self, region: &Self::Region) -> RToken;

    /// Posts a receive into pieces of registered memory.
    ///
    /// # Errors
    /// [`RnicError`]: the queue pair is of no more use.
    fn post_receive(
        &self,
        queue_pair: &Self::QueuePair,
        number: u64,
        into: Piece<'_, Self::Region>,
    ) -> Result<(), RnicError>;

    /// Posts WRITEs and SENDs, at most [`MAX_CHAIN`], which are carried out in this
    /// order, with one doorbell.
    ///
    /// # Errors
    /// [`PostError`]: the first ones may be posted; the queue pair is of no more use.
    fn post_send(
        &self,
        queue_pair: &Self::QueuePair,
        requests: &[SendRequest<'_, Self::Region>],
    ) -> Result<(), PostError>;

    /// Takes completions from the queue pair's completion queue: how many. Fewer than
    /// there is room for means that the queue was empty.
    fn poll(&self, queue_pair: &Self::QueuePair, into: &mut [WorkCompletion]) -> usize;

    /// The token of a queue pair whose completion queue has something; `None` if none has.
    /// Its queue is armed again, so it is to be polled until it is empty.
    fn next_ready(&self) -> Option<u32>;

    /// Something that happened to the device, unless nothing did.
    fn next_event(&self) -> Option<DeviceEvent>;

    /// Readable when [`Self::next_ready`] has something to give.
    fn completions_fd(&self) -> BorrowedFd<'_>;

    /// Readable when [`Self::next_event`] has something to give.
    fn events_fd(&self) -> BorrowedFd<'_>;
}

/// What a new queue pair is to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePairSpec {
    /// Comes back from [`Rnic::next_ready`] and in events.
    pub token: u32,
    /// Port of the device, from 1.
    pub port: u8,
    /// Index of its GID.
    pub gid_index: u16,
    /// Bytes that are to be sent without being fetched from registered memory, if the
    /// device can.
    pub inline: u32,
}

/// What a queue pair became.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueuePairFacts {
    /// Number of the queue pair.
    pub qpn: Qpn,
    /// Most bytes that can be posted inline.
    pub inline: u32,
}

/// The other end of a queue pair, and the way there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Connect {
    /// The other end. Its MAC is for the reader: devices find it by the GID.
    pub peer: QpAddress,
    /// Path MTU.
    pub mtu: Mtu,
    /// Hop limit: 1 without a gateway.
    pub hop_limit: u8,
}

/// Access rights to registered memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// The device reads and writes it by local work requests.
    Local,
    /// The peer may write it, under an address that reveals nothing of where it is.
    RemoteWrite,
}

/// Up to two pieces of registered memory, the unused one of length 0.
#[derive(Debug)]
pub struct Piece<'a, Region> {
    /// The registration.
    pub region: &'a Region,
    /// Pieces, from its first byte.
    pub segments: [Segment; 2],
}

impl<Region> Clone for Piece<'_, Region> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<Region> Copy for Piece<'_, Region> {}

/// A work request of the send side.
#[derive(Debug)]
pub struct SendRequest<'a, Region> {
    /// Comes back in the completion.
    pub number: u64,
    /// What to do.
    pub work: Work,
    /// Where the bytes are.
    pub source: Source<'a, Region>,
}

/// What a work request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Work {
    /// RDMA WRITE, unsignalled.
    Write {
        /// Key of the peer's memory.
        rkey: u32,
        /// Address there of the first byte.
        address: u64,
    },
    /// SEND, signalled and solicited.
    Send,
}

/// Where the bytes of a work request are.
#[derive(Debug)]
pub enum Source<'a, Region> {
    /// In registered memory, from which the device fetches them.
    Fetched(Piece<'a, Region>),
    /// There, but taken while the request is posted.
    Inline(Piece<'a, Region>),
    /// Here, and taken while the request is posted.
    Octets(&'a [u8]),
}
