//! Octets that cross from a host to a DMB of another.

use smc_proto::command::Segment;
use smc_proto::completion::IsmCompletion;
use smc_proto::id::BufferId;
use smc_proto::wire::cdc_ism::CDC_ISM_LENGTH;

use super::{Attachment, Fabric};
use crate::fabric::{BufferKey, HostId};
use crate::memory::MemoryError;
use crate::observe::{IsmContent, IsmMoved};

impl Fabric {
    /// What a buffer of a host is bound to.
    pub(super) fn attachment(&self, host: HostId, buffer: BufferKey) -> Option<Attachment> {
        let host = self.hosts.get(usize::from(host.0))?;
        host.ism.attached.get(&buffer).copied()
    }

    /// The DMB behind a buffer that is mapped to it.
    pub(in crate::fabric) fn mapping(
        &self,
        host: HostId,
        buffer: BufferKey,
    ) -> Option<(HostId, BufferKey)> {
        let at = self.attachment(host, buffer).filter(|at| at.mapped)?;
        Some((at.owner, at.dmb))
    }

    /// Writes octets to the DMB that a buffer is bound to, if it is still there.
    pub(super) fn ism_place(
        &mut self,
        at: Attachment,
        offset: u32,
        octets: &[u8],
    ) -> Result<(), MemoryError> {
        let owner = self.hosts.get_mut(usize::from(at.owner.0));
        let owner = owner.ok_or(MemoryError::NoBuffer)?;
        if !owner.ism.dmbs.contains_key(&at.dmb) {
            return Err(MemoryError::NoBuffer);
        }
        let length = u32::try_from(octets.len()).map_err(|_| MemoryError::OutOfRange)?;
        let spans = [Segment { offset, length }, Segment::default()];
        owner.memory.fill(at.dmb, spans, octets)
    }

    /// Tells the owner of a DMB that there is news, unless it is about to hear that.
    pub(super) fn ism_signal(&mut self, at: Attachment) {
        let Some(owner) = self.hosts.get_mut(usize::from(at.owner.0)) else {
            return;
        };
        let Some(dmb) = owner.ism.dmbs.get_mut(&at.dmb) else {
            return;
        };
        if std::mem::replace(&mut dmb.signalled, true) {
            return;
        }
        let (device, buffer) = (dmb.device, dmb.buffer);
        let port = owner.ism.ports.iter().find(|port| port.device == device);
        let latency = port.map(|port| port.signal_latency).unwrap_or_default();
        let cdc = [0; CDC_ISM_LENGTH];
        let report = IsmCompletion::Signalled { buffer, cdc };
        self.ism_report_at(latency, at.owner, report);
    }

    /// Writes to a DMB of another host as a hostile peer would: anything, anywhere
    /// within it, and signals it if asked to.
    ///
    /// # Errors
    /// If `buffer` is bound to no DMB, or the octets leave it.
    pub fn ism_write(
        &mut self,
        host: HostId,
        buffer: BufferId,
        offset: u32,
        octets: &[u8],
        signal: bool,
    ) -> Result<(), MemoryError> {
        let at = self.attachment(host, buffer.into());
        let at = at.ok_or(MemoryError::NoBuffer)?;
        self.ism_place(at, offset, octets)?;
        let what = match octets.try_into() {
            Ok(cdc) if signal => IsmContent::Cdc(cdc),
            _ => IsmContent::Data { offset, octets },
        };
        self.observe_ism(host, at.owner, what);
        if signal {
            self.ism_signal(at);
        }
        Ok(())
    }

    /// Shows what an application wrote to memory of a peer.
    pub(in crate::fabric) fn observe_mapped(
        &mut self,
        source: HostId,
        destination: HostId,
        spans: [Segment; 2],
        octets: &[u8],
    ) {
        let mut left = octets;
        for span in spans {
            let (octets, rest) = left.split_at(left.len().min(span.length as usize));
            left = rest;
            if !octets.is_empty() {
                let offset = span.offset;
                self.observe_ism(source, destination, IsmContent::Data { offset, octets });
            }
        }
    }

    /// Shows what one device wrote to another.
    pub(super) fn observe_ism(
        &mut self,
        source: HostId,
        destination: HostId,
        what: IsmContent<'_>,
    ) {
        let moved = IsmMoved {
            at: self.queue.now(),
            source,
            destination,
            what,
        };
        self.observers.each(|observer| observer.on_ism(&moved));
    }
}
