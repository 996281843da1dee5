//! One connection of a replay: what the captured application did, and how far
//! ours came.

use std::collections::VecDeque;

use smc_capture::follow::RdmaWrite;
use smc_proto::command::TcpCommand;
use smc_proto::event::CloseReason;
use smc_proto::id::ConnId;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::types::{BufferSize, Cursor, LinkNumber, RKey};

use super::script::Half;

/// U and P.
const URGENT: ProducerFlags = ProducerFlags::URGENT_PENDING.union(ProducerFlags::URGENT_PRESENT);

pub(super) struct Connection {
    pub(super) id: ConnId,
    /// The link of the capture that carries it.
    pub(super) link: LinkNumber,
    /// The captured halves: of the end we replace, and of the other one.
    pub(super) own: Half,
    pub(super) peer: Half,
    /// CLC messages of ours, not yet compared.
    pub(super) clc: VecDeque<ClcMessage>,
    pub(super) first_contact: Option<bool>,
    pub(super) closed: Option<CloseReason>,
    pub(super) tcp: Vec<TcpCommand>,
    /// The stream of the captured application, as far as it was written.
    pub(super) sent: Vec<u8>,
    /// Bytes of it that our application sent, and that our endpoint wrote.
    pub(super) committed: usize,
    written: usize,
    /// The stream of the other end, as far as it was written.
    pub(super) received: Vec<u8>,
    pub(super) consumed: usize,
    /// CDC messages of ours, not yet compared.
    pub(super) emitted: Vec<Cdc>,
    pub(super) last: Option<Cdc>,
    /// The last CDC message of the captured end that ours has to match.
    pub(super) captured: Option<Cdc>,
    /// Whether the other end aborted.
    pub(super) peer_aborted: bool,
    /// Whether our end took the link group away under it.
    pub(super) killed: bool,
}

/// What the captured application did before a CDC message.
pub(super) struct Acts {
    pub(super) read: usize,
    pub(super) write: Vec<u8>,
    pub(super) urgent: bool,
    /// Connection flags that this message is the first to have.
    pub(super) flags: ConnectionFlags,
}

impl Connection {
    pub(super) fn new(id: ConnId, link: LinkNumber, own: Half, peer: Half) -> Self {
        Self {
            id,
            link,
            own,
            peer,
            clc: VecDeque::new(),
            first_contact: None,
            closed: None,
            tcp: Vec::new(),
            sent: Vec::new(),
            committed: 0,
            written: 0,
            received: Vec::new(),
            consumed: 0,
            emitted: Vec::new(),
            last: None,
            captured: None,
            peer_aborted: false,
            killed: false,
        }
    }

    /// The first byte of the client names the application.
    pub(super) fn application(&self, as_client: bool) -> char {
        let stream = if as_client {
            &self.sent
        } else {
            &self.received
        };
        stream.first().map_or('?', |byte| char::from(*byte))
    }

    /// The captured end wrote.
    pub(super) fn captured_write(
        &mut self,
        link: LinkNumber,
        write: &RdmaWrite,
    ) -> Result<(), String> {
        self.check_link(link)?;
        let at = write.address.wrapping_sub(element(&self.peer));
        if at != ring(self.sent.len(), self.peer.buffer_size) {
            return Err(format!("the captured write is at {at} of its element"));
        }
        self.sent.extend(payload(write));
        Ok(())
    }

    /// Our endpoint wrote: the same bytes to the same place?
    pub(super) fn own_write(
        &mut self,
        link: LinkNumber,
        rkey: RKey,
        address: u64,
        bytes: &[u8],
    ) -> Result<(), String> {
        self.check_link(link)?;
        let at = address.wrapping_sub(element(&self.peer));
        if rkey != self.peer.rtoken.rkey || at != ring(self.written, self.peer.buffer_size) {
            return Err(format!("our write to {rkey}, {at} of the element"));
        }
        let end = self.written + bytes.len();
        if at + bytes.len() as u64 > u64::from(self.peer.buffer_size.octets()) {
            return Err("our write runs over the element's end".into());
        }
        if self.sent.get(self.written..end) != Some(bytes) {
            return Err(format!("our write has other octets, {} on", self.written));
        }
        self.written = end;
        Ok(())
    }

    /// Neither end moves a connection to another link.
    pub(super) fn check_link(&self, link: LinkNumber) -> Result<(), String> {
        if link == self.link {
            Ok(())
        } else {
            Err(format!("on link {link}, not {}", self.link))
        }
    }

    /// What the captured application did since its last CDC message.
    pub(super) fn acts(&self, cdc: &Cdc, prompt: bool) -> Result<Acts, String> {
        let consumed = total(cdc.consumer, self.own.buffer_size);
        let produced = total(cdc.producer, self.peer.buffer_size);
        let read = match consumed.checked_sub(self.consumed) {
            None if prompt => Some(0),
            read => read,
        };
        let write = self.sent.get(self.committed..produced);
        let before = self.captured.map(|last| last.connection_flags);
        match (read, write) {
            (Some(read), Some(write)) => Ok(Acts {
                read,
                write: write.to_vec(),
                urgent: !write.is_empty()
                    && cdc.producer_flags.contains(ProducerFlags::URGENT_PRESENT),
                flags: cdc
                    .connection_flags
                    .difference(before.unwrap_or(ConnectionFlags::empty())),
            }),
            _ => Err("the captured cursors do not fit the writes".into()),
        }
    }

    /// How many bytes a CDC message of this end announces as consumed.
    pub(super) fn announced(&self, cdc: &Cdc) -> usize {
        total(cdc.consumer, self.own.buffer_size)
    }

    /// Whether our message equals the captured one. A prompt reader may
    /// have consumed more.
    pub(super) fn compare(&self, ours: &Cdc, captured: &Cdc, prompt: bool) -> Result<(), String> {
        let consumed = (self.announced(ours), self.announced(captured));
        let pairs = [
            ("producer cursor", ours.producer == captured.producer),
            (
                "consumer cursor",
                consumed.0 == consumed.1 || prompt && consumed.0 > consumed.1,
            ),
            (
                "connection flags",
                ours.connection_flags == captured.connection_flags,
            ),
            (
                "urgent flags",
                ours.producer_flags & URGENT == captured.producer_flags & URGENT,
            ),
            (
                "other producer flags",
                (ours.producer_flags | captured.producer_flags)
                    .difference(URGENT | ProducerFlags::WRITER_BLOCKED)
                    .is_empty(),
            ),
            ("token", ours.alert_token == captured.alert_token),
        ];
        match pairs.iter().find(|(_, equal)| !equal) {
            Some((what, _)) => Err(format!("{what} differs: ours is {ours}")),
            None => Ok(()),
        }
    }

    /// How the connection must have ended.
    pub(super) fn expected_reason(&self) -> CloseReason {
        let aborted = |cdc: &Cdc| {
            cdc.connection_flags
                .contains(ConnectionFlags::ABNORMAL_CLOSE)
        };
        if self.killed {
            CloseReason::LinksLost
        } else if self.captured.as_ref().is_some_and(aborted) {
            CloseReason::LocalAbort
        } else if self.peer_aborted {
            CloseReason::PeerAbort
        } else {
            CloseReason::Normal
        }
    }
}

/// The payload of a write; bytes that the capture cut off are 0.
pub(super) fn payload(write: &RdmaWrite) -> Vec<u8> {
    let mut bytes = vec![0; write.length as usize];
    for piece in &write.pieces {
        let start = piece.offset as usize;
        if let Some(place) = bytes.get_mut(start..start + piece.bytes.len()) {
            place.copy_from_slice(&piece.bytes);
        }
    }
    bytes
}

/// Address of the RMB element that a half describes.
pub(super) fn element(half: &Half) -> u64 {
    let index = u64::from(half.rmbe_index.0).saturating_sub(1);
    half.rtoken
        .address
        .wrapping_add(index * u64::from(half.buffer_size.octets()))
}

/// Place of a stream's byte in its ring.
fn ring(total: usize, size: BufferSize) -> u64 {
    total as u64 % u64::from(size.octets())
}

/// Bytes of a stream before a cursor: rings without eye catcher, from 0.
fn total(cursor: Cursor, size: BufferSize) -> usize {
    usize::from(cursor.wrap) * size.octets() as usize + cursor.count as usize
}
