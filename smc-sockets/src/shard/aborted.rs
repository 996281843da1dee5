//! What a peer wrote before it aborted the connection.
//!
//! The engine discards it with the message that says so (ABORT-008). Over TCP, Linux leaves to the
//! application what arrived before a reset: a server that refuses a request without reading all of
//! it is understood. So bytes over shared memory are saved before the engine has that message.

use smc_proto::completion::IsmCompletion;
use smc_proto::id::{BufferId, ConnId};
use smc_proto::time::Instant;
use smc_proto::wire::cdc::ConnectionFlags;
use smc_proto::wire::cdc_ism::{CDC_ISM_LENGTH, CONSUMER, CdcIsm, Endianness};

use super::{State, Via};
use crate::socket::Socket;

/// The octet of a message with the state of the sender's connection.
const FLAGS: usize = CONSUMER.end - 1;

/// Whether a message says that the peer aborted the connection. The engine ends the connection
/// with such a message. It does not with a head that is no message, whatever flags that has: a peer
/// that writes one repeatedly must not have bytes saved each time.
#[inline(always)]
pub(super) fn is_abort(cdc: &[u8; CDC_ISM_LENGTH]) -> bool {
    let flag = ConnectionFlags::ABNORMAL_CLOSE.bits();
    cdc[FLAGS] & flag != 0 && CdcIsm::parse(cdc, Endianness::NATIVE).is_ok()
}

impl State {
    /// Reports a message of shared memory to the engine.
    #[inline]
    pub(in crate::shard) fn receive_signal(
        &mut self,
        buffer: BufferId,
        cdc: [u8; CDC_ISM_LENGTH],
        now: Instant,
    ) {
        if is_abort(&cdc) {
            self.save_before_abort(buffer, cdc, now);
        }
        let completion = IsmCompletion::Signalled { buffer, cdc };
        self.engine.handle_ism(now, completion);
    }

    /// Receives and saves what the peer has sent over shared memory, before the engine learns that it
    /// took its memory back, or reset TCP. A peer does both when it aborts, and either may be noticed
    /// before its last message is.
    #[cold]
    pub(super) fn save_last(&mut self, socket: &Socket, now: Instant) {
        let Some(conn) = socket.conn() else {
            return;
        };
        if socket.via() == Via::Ism && !socket.lane.is_lent() {
            // The device may be parked, so that it reports nothing. To receive a message twice does
            // no harm.
            if let Some((buffer, cdc)) = self.transports.read_head(&mut self.engine, conn, now) {
                self.receive_signal(buffer, cdc, now);
            }
            self.save_octets_of(conn, now);
        }
    }

    /// Does for a connection what [`Self::save_last`] does.
    #[cold]
    pub(in crate::shard) fn save_last_of(&mut self, conn: ConnId, now: Instant) {
        if let Some(socket) = self.entry(conn).map(|entry| entry.socket.clone()) {
            self.save_last(&socket, now);
        }
    }

    /// Saves the bytes that the peer wrote before it aborted, also those that the same message
    /// announces. An urgent byte is saved first, as the others cannot be read past it.
    #[cold]
    fn save_before_abort(&mut self, buffer: BufferId, mut cdc: [u8; CDC_ISM_LENGTH], now: Instant) {
        let Some(conn) = self.engine.receiver(buffer) else {
            return;
        };
        cdc[FLAGS] &= !ConnectionFlags::ABNORMAL_CLOSE.bits();
        let completion = IsmCompletion::Signalled { buffer, cdc };
        self.engine.handle_ism(now, completion);
        self.keep_urgent(conn, now);
        self.save_octets_of(conn, now);
    }
}
