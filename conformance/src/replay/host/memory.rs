//! The memory of our end, and what reads and writes it.

use smc_proto::command::Segment;
use smc_proto::endpoint::BufferSpans;
use smc_proto::id::{BufferId, ConnId, LinkId};
use smc_proto::wire::types::RToken;

use super::Host;

/// A registration of a buffer on a queue pair.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Registration {
    pub(super) buffer: BufferId,
    pub(super) link: LinkId,
    pub(super) address: u64,
}

impl Host {
    pub(super) fn register(&mut self, buffer: BufferId, link: LinkId, rtoken: RToken) {
        let registration = Registration {
            buffer,
            link,
            address: rtoken.address,
        };
        self.registered.insert(rtoken.rkey, registration);
    }

    pub(super) fn deregister(&mut self, buffer: BufferId, link: LinkId) {
        self.registered
            .retain(|_, r| (r.buffer, r.link) != (buffer, link));
    }

    /// The buffer that an RToken of ours names on a link.
    pub(super) fn buffer_of(&self, link: LinkId, token: RToken) -> Result<BufferId, String> {
        match self.registered.get(&token.rkey) {
            Some(r) if r.address == token.address && r.link == link => Ok(r.buffer),
            other => Err(format!("{token} on {link:?} is registered as {other:?}")),
        }
    }

    pub(super) fn slice(
        &mut self,
        buffer: BufferId,
        offset: u32,
        length: u32,
    ) -> Result<&mut [u8], String> {
        let (start, length) = (offset as usize, length as usize);
        self.nic
            .memory_of(buffer)
            .and_then(|memory| memory.get_mut(start..start + length))
            .ok_or_else(|| format!("{length} octets at {start} are not all in {buffer:?}"))
    }

    pub(super) fn gather(
        &mut self,
        buffer: BufferId,
        segments: [Segment; 2],
    ) -> Result<Vec<u8>, String> {
        let mut bytes = Vec::new();
        for Segment { offset, length } in segments {
            bytes.extend_from_slice(self.slice(buffer, offset, length)?);
        }
        Ok(bytes)
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
        let start = u32::try_from(offset).map_err(|_| "an RDMA WRITE out of the RMB")?;
        let length = u32::try_from(bytes.len()).map_err(|_| "an RDMA WRITE too long")?;
        self.slice(buffer, start, length)?.copy_from_slice(bytes);
        Ok(())
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
        let mut rest = data;
        for Segment { offset, length } in space.segments {
            let (head, tail) = rest.split_at(rest.len().min(length as usize));
            self.slice(space.buffer, offset, head.len() as u32)?
                .copy_from_slice(head);
            rest = tail;
        }
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
        let spans: BufferSpans = self
            .endpoint
            .conn(id)
            .and_then(|conn| conn.readable())
            .ok_or("no such connection")?;
        let mut bytes = self.gather(spans.buffer, spans.segments)?;
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
