//! One end of a connection: its element, its cursors, how far it ended.

use smc_proto::config::ConnectionConfig;
use smc_proto::id::{BufferId, LinkId};
use smc_proto::time::Instant;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::types::Cursor;

use crate::fabric::HostId;
use crate::tcp::{Side, TcpId};

/// Place of a connection in an RMB.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Element {
    pub(super) buffer: BufferId,
    pub(super) offset: u32,
    pub(super) size: u32,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct ConnLedger {
    pub(super) tcp: TcpId,
    pub(super) side: Side,
    /// Whether this side and the peer exchange CLC messages.
    pub(super) spoke_clc: bool,
    /// One of these was a Decline.
    pub(super) declined: bool,
    pub(super) established: bool,
    pub(super) terminal: bool,
    pub(super) own: Option<Element>,
    /// The peer's host and the element there, once the peer announced it.
    pub(super) peer_own: Option<(HostId, Element)>,
    /// The peer sent its last CDC message: it writes no more.
    pub(super) peer_done: bool,
    /// Whether this side posted its last CDC message.
    pub(super) done: bool,
    /// When it posted an abort.
    pub(super) aborted: Option<Instant>,
    /// Where in the stream the next WRITE belongs.
    pub(super) written: u64,
    /// Bytes of the stream that were ever written.
    pub(super) announced: u64,
    /// The link of the last WRITE.
    pub(super) link: Option<LinkId>,
    /// Bytes of the stream that the peer announced as read.
    pub(super) peer_read: u64,
    /// A WRITE went to a host that was gone: what was written is not known.
    pub(super) blind: bool,
}

/// C or A: the last message of a side.
const LAST: ConnectionFlags =
    ConnectionFlags::PEER_CONNECTION_CLOSED.union(ConnectionFlags::ABNORMAL_CLOSE);

/// Bytes of the stream before a cursor.
fn total(cursor: Cursor, ring: u32) -> u64 {
    u64::from(cursor.wrap) * u64::from(ring) + u64::from(cursor.count)
}

impl ConnLedger {
    pub(super) const fn new(tcp: TcpId, side: Side) -> Self {
        Self {
            tcp,
            side,
            spoke_clc: false,
            declined: false,
            established: false,
            terminal: false,
            own: None,
            peer_own: None,
            peer_done: false,
            done: false,
            aborted: None,
            written: 0,
            announced: 0,
            link: None,
            peer_read: 0,
            blind: false,
        }
    }

    /// A CLC message of this connection was sent or taken.
    pub(super) fn note_clc(&mut self, message: &ClcMessage) {
        self.spoke_clc = true;
        self.declined |= matches!(message, ClcMessage::Decline(_));
    }

    /// Whether the peer may still write to the element. After an abort an engine
    /// waits no longer for the peer than the configured time (CLOSE-032).
    pub(super) fn exposed(&self, now: Instant) -> bool {
        let waited = |at: Instant| now.since(at) >= ConnectionConfig::DEFAULT.abort_wait;
        self.established && !self.peer_done && !self.aborted.is_some_and(waited)
    }

    /// Bytes are written over a link to a place of the peer's ring; why they may
    /// not be.
    pub(super) fn write(
        &mut self,
        link: LinkId,
        place: u32,
        length: u32,
        ring: u32,
    ) -> Result<(), String> {
        if self.done {
            return Err("WRITE after the last CDC message".to_owned());
        }
        if self.blind {
            return Ok(());
        }
        let (ring, place) = (u64::from(ring), u64::from(place));
        let mut behind = (self.written % ring + ring - place) % ring;
        if self.link.replace(link) == Some(link) {
            if behind != 0 {
                let expected = self.written % ring;
                return Err(format!("WRITE to place {place}, next is {expected}"));
            }
        } else if behind == 0 && self.written == self.peer_read + ring {
            // On another link bytes are written again, here all of the ring.
            behind = ring;
        }
        let from = self.written.saturating_sub(behind);
        let end = from + u64::from(length);
        if behind > self.written || from < self.peer_read.min(self.written) {
            return Err(format!("WRITE to {from}, read up to {}", self.peer_read));
        }
        if end > self.peer_read + ring {
            return Err(format!(
                "WRITE up to {end}, granted are {ring} octets from {}",
                self.peer_read
            ));
        }
        self.written = end;
        self.announced = self.announced.max(end);
        Ok(())
    }

    /// A CDC message is posted; why its cursor may not be.
    pub(super) fn post(&mut self, now: Instant, cdc: &Cdc, ring: u32) -> Result<(), String> {
        let flags = cdc.connection_flags;
        if flags.contains(ConnectionFlags::ABNORMAL_CLOSE) {
            self.aborted.get_or_insert(now);
        }
        self.done |= cdc.connection_flags.intersects(LAST);
        if self.blind {
            return Ok(());
        }
        let produced = total(cdc.producer, ring);
        if produced > self.announced {
            return Err(format!(
                "announces {produced} octets, wrote {}",
                self.announced
            ));
        }
        if produced > self.peer_read + u64::from(ring) {
            let read = self.peer_read;
            return Err(format!("announces {produced} octets, peer read {read}"));
        }
        Ok(())
    }

    /// A CDC message of the peer arrived.
    pub(super) fn receive(&mut self, cdc: &Cdc, peer_ring: Option<u32>) {
        // A failover validation means that nothing was lost, and nothing else:
        // its cursors come again in the message after it.
        let validates = ProducerFlags::FAILOVER_VALIDATION;
        if cdc.producer_flags.contains(validates) {
            return;
        }
        self.peer_done |= cdc.connection_flags.intersects(LAST);
        if let Some(ring) = peer_ring {
            self.peer_read = self.peer_read.max(total(cdc.consumer, ring));
            // What was to be written again and was read meanwhile is passed over.
            self.written = self.written.max(self.peer_read);
        }
    }
}
