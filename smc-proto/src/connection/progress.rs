//! How far a connection has got, for observers outside of it.

use super::{CloseState, Connection};
#[cfg(feature = "trace")]
use crate::trace::Marks;
#[cfg(feature = "trace")]
use crate::wire::cdc::ProducerFlags;
use crate::wire::types::AlertToken;

/// Positions and sizes of a connection. Positions are bytes since the connection began.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Progress {
    /// State of the close handshake.
    pub state: CloseState,
    /// The peer's alert token.
    pub peer_token: AlertToken,
    /// Bytes of the send buffer.
    pub send_buffer: u32,
    /// Bytes of the ring that the peer writes to.
    pub receive_buffer: u32,
    /// Bytes of the ring at the peer that this side writes to.
    pub peer_buffer: u32,
    /// Bytes that the application gave.
    pub produced: u64,
    /// Bytes that were written to the peer's ring.
    pub written: u64,
    /// Bytes that are free in the send buffer again.
    pub completed: u64,
    /// Bytes that the peer has read, as far as it announced that.
    pub peer_consumed: u64,
    /// Bytes that the peer has written to the ring of this side.
    pub received: u64,
    /// Bytes that the application read.
    pub consumed: u64,
    /// CDC messages sent.
    pub messages: u32,
}

impl Connection {
    /// How far the connection has got.
    #[must_use]
    pub fn progress(&self) -> Progress {
        Progress {
            state: self.close.state,
            peer_token: self.tx.alert_token_peer,
            send_buffer: self.tx.buffer.usable(),
            receive_buffer: self.rx.ring.usable(),
            peer_buffer: self.tx.peer.usable(),
            produced: self.tx.produced,
            written: self.tx.written.total,
            completed: self.tx.completed,
            peer_consumed: self.tx.consumer.total,
            received: self.rx.received.total,
            consumed: self.rx.consumed.total,
            messages: self.tx.emitted,
        }
    }

    /// What events are made of.
    #[cfg(feature = "trace")]
    pub(crate) fn marks(&self) -> Marks {
        let announced = ProducerFlags::URGENT_PENDING.union(ProducerFlags::URGENT_PRESENT);
        Marks {
            state: self.close.state,
            cause: self.close.cause,
            produced: self.tx.produced,
            written: self.tx.written.total,
            completed: self.tx.completed,
            peer_consumed: self.tx.consumer.total,
            received: self.rx.received.total,
            consumed: self.rx.consumed.total,
            window: self.tx.window(),
            exhausted: self.tx.exhausted,
            urgent: (
                self.rx.peer_flags.intersects(announced),
                self.rx.peer_flags.contains(ProducerFlags::URGENT_PRESENT),
            ),
        }
    }
}
