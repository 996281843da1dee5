//! The memory of one connection as an object of its own, which one thread uses while another one
//! uses the device.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use smc_proto::command::{BufferSpans, Signal};
use smc_proto::wire::cdc_ism::Endianness;

use super::device::{Attached, Device};
use crate::device::{CDC_LEN, Cdc, Dmb, IsmError, RemoteDmb, check_bounds};
use crate::memory::{DoorbellPage, FLAGS, PRODUCER, SharedRegion};

/// Bytes of a cache line of most processors.
const LINE: u32 = 64;

/// A DMB of this device, and the attached DMB of a peer to which the same connection writes.
///
/// Both stay mapped for as long as this lives. What is written after the peer has taken its DMB
/// back goes nowhere.
#[derive(Debug)]
pub struct Lane {
    own: Arc<SharedRegion>,
    /// The head of the own DMB as it was last polled, if it was.
    head: Option<[u64; 2]>,
    /// Behind what was read last: what comes next most likely lies there.
    next: u32,
    remote: RemoteDmb,
    theirs: Arc<SharedRegion>,
    len: usize,
    /// The unit of the head of the peer's DMB with the flags, as this side wrote it last.
    flags: Arc<AtomicU64>,
    doorbells: Arc<DoorbellPage>,
}

impl Lane {
    /// Copies bytes into free space of the peer's DMB: how many fitted.
    ///
    /// # Errors
    /// [`IsmError::Bounds`].
    #[inline(always)]
    pub fn fill(&self, space: &BufferSpans, bytes: &[u8]) -> Result<u32, IsmError> {
        let mut left = bytes;
        for segment in space.segments {
            let (now, rest) = left.split_at(left.len().min(segment.length as usize));
            if now.is_empty() {
                break;
            }
            check_bounds(segment.offset, now.len(), self.len)?;
            self.theirs.copy_in(segment.offset, now)?;
            left = rest;
        }
        // At most the length of a DMB.
        Ok((bytes.len() - left.len()) as u32)
    }

    /// Writes a CDC message to the head of the peer's DMB: whether the caller is to ring for it
    /// by [`Device::ring`].
    #[inline(always)]
    pub fn write_signal(&self, signal: &Signal) -> bool {
        let cdc = signal.cdc.emit(Endianness::NATIVE);
        // Every DMB has a head.
        let _ = self.theirs.write_cdc(0, &cdc, &self.flags);
        !self.doorbells.doorbells().suppresses_rings()
    }

    /// The attachment for which [`Self::write_signal`] is to ring.
    #[must_use]
    pub fn remote(&self) -> RemoteDmb {
        self.remote
    }

    /// Copies readable bytes out of the own DMB: how many fitted.
    ///
    /// # Errors
    /// [`IsmError::Bounds`].
    #[inline(always)]
    pub fn take(&mut self, readable: &BufferSpans, into: &mut [u8]) -> Result<u32, IsmError> {
        let mut taken = 0;
        for segment in readable.segments {
            let room = into.get_mut(taken..).unwrap_or_default();
            let len = room.len().min(segment.length as usize);
            let Some(now) = room.get_mut(..len).filter(|now| !now.is_empty()) else {
                break;
            };
            self.own.copy_out(segment.offset, now)?;
            taken += len;
            // It fits, as has just been checked.
            self.next = segment.offset.wrapping_add(len as u32);
        }
        Ok(taken as u32)
    }

    /// Reads the head of the own DMB, if it may be another than the last one that was read here.
    //= SHM-034
    #[inline(always)]
    pub fn poll_head(&mut self, head: &mut Cdc) -> bool {
        if self.head.is_some_and(|known| !self.own.is_other(known)) {
            return false;
        }
        self.own.fetch_ahead(self.next);
        self.own.fetch_ahead(self.next.saturating_add(LINE));
        let _ = self.own.read_cdc_into(0, head);
        let units = head.as_chunks().0;
        let unit = |at: usize| units.get(at).map_or(0, |unit| u64::from_ne_bytes(*unit));
        self.head = Some([unit(PRODUCER), unit(FLAGS)]);
        true
    }
}

impl Device {
    /// The memory of a connection that receives in `dmb` and writes to `remote`, if both are there.
    pub(crate) fn lane(&self, dmb: Dmb, remote: RemoteDmb) -> Option<Lane> {
        let own = self.dmbs.at(dmb.0)?;
        let Some(Attached::Live {
            channel,
            region,
            len,
            flags,
            ..
        }) = self.attached.at(remote.0)
        else {
            return None;
        };
        Some(Lane {
            own: own.region.clone(),
            head: None,
            next: own.next.load(std::sync::atomic::Ordering::Relaxed),
            remote,
            theirs: region.clone(),
            len: *len as usize,
            flags: flags.clone(),
            doorbells: self.channels.at(*channel)?.theirs().clone(),
        })
    }

    /// Rings for a peer's DMB into whose head a CDC message was written.
    pub fn ring(&mut self, remote: RemoteDmb) {
        if let Some(Attached::Live { channel, ring, .. }) = self.attached.at(remote.0) {
            let (channel, ring) = (*channel, *ring);
            if let Some(channel) = self.channels.at_mut(channel) {
                channel.ring(ring);
            }
        }
    }
}

const _: () = assert!(CDC_LEN == 4 * size_of::<u64>());
