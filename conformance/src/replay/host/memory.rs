//! The memory of our end, and what reads and writes it.

use smc_proto::command::Segment;
use smc_proto::id::{BufferId, ConnId, LinkId};
use smc_proto::wire::types::RToken;

use super::Host;
use crate::rig::memory::{gather, scatter};

impl Host {
    /// The buffer that an RToken of ours names on a link.
    pub(super) fn buffer_of(&self, link: LinkId, token: RToken) -> Result<BufferId, String> {
        match self.nic.registered(link, token.rkey) {
            Some((buffer, address)) if address == token.address => Ok(buffer.id),
            other => Err(format!("{token} on {link:?} is registered as {other:?}")),
        }
    }

    /// Bytes of pieces of a buffer.
    pub(super) fn octets(
        &mut self,
        buffer: BufferId,
        pieces: &[Segment],
    ) -> Result<Vec<u8>, String> {
        let memory = self.nic.memory_of(buffer);
        memory
            .and_then(|memory| gather(memory, pieces))
            .ok_or_else(|| format!("{pieces:?} are not all in {buffer:?}"))
    }

    /// Copies bytes into pieces of a buffer: how many.
    fn put(&mut self, buffer: BufferId, pieces: &[Segment], bytes: &[u8]) -> Result<usize, String> {
        let memory = self.nic.memory_of(buffer);
        memory
            .and_then(|memory| scatter(memory, pieces, bytes))
            .ok_or_else(|| format!("{pieces:?} are not all in {buffer:?}"))
    }

    /// Carries out an RDMA WRITE of the peer, which came on the link that the key
    /// is for.
    pub(in crate::replay) fn write(
        &mut self,
        link: LinkId,
        to: RToken,
        offset: u64,
        bytes: &[u8],
    ) -> Result<(), String> {
        let buffer = self.buffer_of(link, to)?;
        let offset = u32::try_from(offset).map_err(|_| "an RDMA WRITE out of the RMB")?;
        let length = u32::try_from(bytes.len()).map_err(|_| "an RDMA WRITE too long")?;
        self.put(buffer, &[Segment { offset, length }], bytes)
            .map(drop)
    }

    /// The application sends bytes; the last one is urgent if asked for.
    pub(in crate::replay) fn commit(
        &mut self,
        id: ConnId,
        data: &[u8],
        urgent: bool,
    ) -> Result<(), String> {
        let space = self
            .endpoint
            .conn(id)
            .and_then(|conn| conn.send_space())
            .ok_or("no such connection")?;
        if (space.len() as usize) < data.len() {
            return Err(format!(
                "{} octets to send, but room for {}",
                data.len(),
                space.len()
            ));
        }
        self.put(space.buffer, &space.segments, data)?;
        let (now, length) = (self.now, data.len() as u32);
        let mut conn = self.endpoint.conn(id).ok_or("no such connection")?;
        if urgent {
            conn.commit_urgent(now, length)
        } else {
            conn.commit(now, length)
        }
        .map_err(|e| format!("{e:?}"))
    }

    /// How many bytes the application can read.
    pub(in crate::replay) fn readable(&mut self, id: ConnId) -> usize {
        let spans = self.endpoint.conn(id).and_then(|conn| conn.readable());
        spans.map_or(0, |spans| spans.len() as usize)
    }

    /// The application reads so many bytes.
    pub(in crate::replay) fn consume(
        &mut self,
        id: ConnId,
        count: usize,
    ) -> Result<Vec<u8>, String> {
        let spans = self
            .endpoint
            .conn(id)
            .and_then(|conn| conn.readable())
            .ok_or("no such connection")?;
        let mut bytes = self.octets(spans.buffer, &spans.segments)?;
        if bytes.len() < count {
            return Err(format!(
                "{count} octets to read, but {} are there",
                bytes.len()
            ));
        }
        bytes.truncate(count);
        let now = self.now;
        self.endpoint
            .conn(id)
            .ok_or("no such connection")?
            .consume(now, count as u32)
            .map_err(|e| format!("{e:?}"))?;
        Ok(bytes)
    }
}
