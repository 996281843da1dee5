//! Registered memory.

use std::ffi::c_int;
use std::io;
use std::ptr::NonNull;
use std::sync::Arc;

use rdma_sys as ibv;
use smc_proto::command::Segment;

use super::{Context, QueuePair, made};
use crate::memory::Memory;
use crate::rnic::Access;

/// A protection domain.
pub(super) struct Domain {
    domain: NonNull<ibv::ibv_pd>,
    /// Open as long as this is there.
    _context: Arc<Context>,
}

impl Domain {
    pub(super) fn new(context: &Arc<Context>) -> io::Result<Arc<Self>> {
        // SAFETY: the context is open.
        let domain = made(unsafe { ibv::ibv_alloc_pd(context.0.as_ptr()) })?;
        let _context = context.clone();
        Ok(Arc::new(Self { domain, _context }))
    }

    pub(super) fn raw(&self) -> *mut ibv::ibv_pd {
        self.domain.as_ptr()
    }
}

// SAFETY: as of `Context`.
unsafe impl Send for Domain {}
// SAFETY: as of `Context`.
unsafe impl Sync for Domain {}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: queue pairs and regions hold it, and so are gone.
        unsafe { ibv::ibv_dealloc_pd(self.domain.as_ptr()) };
    }
}

impl QueuePair {
    /// Registers memory; a peer finds its first byte at `address`.
    pub(in crate::rdma) fn register(
        &self,
        memory: &Arc<Memory>,
        access: Access,
        address: u64,
    ) -> io::Result<Region> {
        let at = memory.address().cast();
        let local = ibv::ibv_access_flags::IBV_ACCESS_LOCAL_WRITE.0;
        let remote = ibv::ibv_access_flags::IBV_ACCESS_REMOTE_WRITE.0;
        let domain = self.domain().raw();
        // SAFETY: the domain exists; `len` bytes from there are mapped and stay so,
        // because the region holds the memory. No references to them exist.
        let region = made(unsafe {
            match access {
                Access::Local => ibv::ibv_reg_mr(domain, at, memory.len(), local as c_int),
                Access::RemoteWrite => {
                    let access = (local | remote) as c_int;
                    ibv::ibv_reg_mr_iova(domain, at, memory.len(), address, access)
                }
            }
        })?;
        let base = match access {
            Access::Local => at as u64,
            Access::RemoteWrite => address,
        };
        Ok(Region {
            region,
            base,
            memory: memory.clone(),
            _domain: self.domain().clone(),
        })
    }
}

/// Registered memory.
pub struct Region {
    region: NonNull<ibv::ibv_mr>,
    /// How work requests and peers address the first byte.
    base: u64,
    memory: Arc<Memory>,
    _domain: Arc<Domain>,
}

// SAFETY: as of `Context`.
unsafe impl Send for Region {}

/// Pieces as the library takes them, and how many.
pub(super) type Pieces = ([ibv::ibv_sge; 2], c_int);

impl Region {
    pub(in crate::rdma) fn rkey(&self) -> u32 {
        // SAFETY: the region exists; its keys never change.
        unsafe { (*self.region.as_ptr()).rkey }
    }

    pub(in crate::rdma) fn base(&self) -> u64 {
        self.base
    }

    /// Returns the pieces as the device addresses them.
    pub(super) fn pieces(&self, of: [Segment; 2]) -> io::Result<Pieces> {
        self.pieces_from(of, self.base)
    }

    /// Returns the pieces as this process addresses them.
    pub(super) fn host_pieces(&self, of: [Segment; 2]) -> io::Result<Pieces> {
        self.pieces_from(of, self.memory.address() as u64)
    }

    fn pieces_from(&self, of: [Segment; 2], base: u64) -> io::Result<Pieces> {
        // SAFETY: the region exists; its keys never change.
        let lkey = unsafe { (*self.region.as_ptr()).lkey };
        // An unused second piece is not counted; a first one may be of length 0.
        let [first, second] = of;
        let count = if second.length == 0 { 1 } else { 2 };
        let piece = |segment: Segment| {
            let end = u64::from(segment.offset) + u64::from(segment.length);
            if end > self.memory.len() as u64 {
                return Err(io::Error::from(io::ErrorKind::InvalidInput));
            }
            Ok(ibv::ibv_sge {
                addr: base.wrapping_add(segment.offset.into()),
                length: segment.length,
                lkey,
            })
        };
        Ok(([piece(first)?, piece(second)?], count))
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        // SAFETY: it was registered and is deregistered once, before its memory goes.
        unsafe { ibv::ibv_dereg_mr(self.region.as_ptr()) };
    }
}
