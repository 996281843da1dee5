//! One connection of the modelled kernel. Positions are totals of bytes.

mod receive;
mod send;

use std::collections::VecDeque;

use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::types::{AlertToken, Cursor};

use receive::Receiving;
pub(super) use receive::UrgentState;
use send::Sending;

/// What a side has put on its link, in order.
pub(super) enum Item<R> {
    /// Bytes for the peer's ring.
    Write { offset: usize, bytes: Vec<u8> },
    /// A CDC message, and what its completion is reported with.
    Message(Cdc, R),
}

/// What the completion of a CDC message of the kernel carries.
#[derive(Clone, Copy)]
pub(super) struct Completed {
    sent: u64,
    sequence: u16,
}

/// A cursor of a ring at a position.
fn cursor(position: u64, ring: u64) -> Cursor {
    Cursor {
        wrap: (position / ring) as u16,
        count: (position % ring) as u32,
    }
}

/// Bytes from one cursor to another, negative if that is before it.
fn distance(from: Cursor, to: Cursor, ring: u64) -> i64 {
    let wraps = to.wrap.wrapping_sub(from.wrap).cast_signed();
    i64::from(wraps) * ring.cast_signed() + i64::from(to.count) - i64::from(from.count)
}

/// A modelled connection.
pub(super) struct Kernel {
    pub(super) out: Sending,
    pub(super) inbound: Receiving,
    pub(super) link: VecDeque<Item<Completed>>,
    /// Messages that arrived, whose completions are not reported.
    pub(super) done: VecDeque<Completed>,
    sequence: u16,
    completed_sequence: u16,
    pending: u32,
    own_flags: ConnectionFlags,
    pub(super) peer_flags: ConnectionFlags,
    shutdown_waits: bool,
}

impl Kernel {
    pub(super) fn new(receive: u64, peer: u64, buffer: u64, inline: bool) -> Self {
        Self {
            out: Sending::new(buffer, peer),
            inbound: Receiving::new(receive, inline),
            link: VecDeque::new(),
            done: VecDeque::new(),
            sequence: 0,
            completed_sequence: 0,
            pending: 0,
            own_flags: ConnectionFlags::empty(),
            peer_flags: ConnectionFlags::empty(),
            shutdown_waits: false,
        }
    }

    /// Emits a CDC message with what is known now.
    fn send_message(&mut self) {
        let completed = Completed {
            sent: self.out.sent,
            sequence: self.sequence,
        };
        self.sequence = self.sequence.wrapping_add(1);
        let cdc = Cdc {
            sequence: self.sequence,
            alert_token: AlertToken(7),
            producer: cursor(self.out.sent, self.out.ring),
            consumer: cursor(self.inbound.consumed, self.inbound.ring),
            producer_flags: self.out.flags,
            connection_flags: self.own_flags,
        };
        self.inbound.confirmed = self.inbound.consumed;
        self.inbound.asked = false;
        self.pending += 1;
        self.link.push_back(Item::Message(cdc, completed));
    }

    /// Writes what the peer's window has room for, and notifies the peer.
    pub(super) fn transmit(&mut self) {
        if self.out.prepared() == 0 || self.out.window() == 0 {
            return;
        }
        if !self.out.flags.contains(ProducerFlags::URGENT_PRESENT) {
            for (offset, bytes) in self.out.write() {
                self.link.push_back(Item::Write { offset, bytes });
            }
        }
        self.send_message();
        if self.out.flags.contains(ProducerFlags::URGENT_PRESENT) {
            let both = ProducerFlags::URGENT_PRESENT | ProducerFlags::URGENT_PENDING;
            self.out.flags.remove(both);
        }
        self.finish_shutdown();
    }

    /// `send`, without waiting: how many bytes were taken.
    pub(super) fn write(&mut self, bytes: &[u8], urgent: bool) -> usize {
        let taken = self.out.take(bytes, urgent);
        let corked = self.pending > 0 && self.out.prepared() <= self.out.size() / 2;
        if taken > 0 && !corked {
            self.transmit();
        }
        taken
    }

    /// The oldest completion is reported; false if there is none.
    pub(super) fn complete(&mut self) -> bool {
        let Some(completed) = self.done.pop_front() else {
            return false;
        };
        self.out.finished = self.out.finished.max(completed.sent);
        self.completed_sequence = completed.sequence;
        self.pending -= 1;
        if self.pending == 0 {
            self.transmit();
        }
        true
    }

    /// `shutdown(SHUT_WR)`: once everything is written.
    pub(super) fn shutdown(&mut self) {
        self.shutdown_waits = true;
        self.transmit();
        self.finish_shutdown();
    }

    fn finish_shutdown(&mut self) {
        if self.shutdown_waits && self.out.prepared() == 0 {
            self.shutdown_waits = false;
            self.own_flags |= ConnectionFlags::SENDING_DONE;
            self.send_message();
        }
    }

    /// `close`, with all bytes sent.
    pub(super) fn close(&mut self) {
        self.own_flags |= match self.inbound.available() {
            0 => ConnectionFlags::PEER_CONNECTION_CLOSED,
            _ => ConnectionFlags::ABNORMAL_CLOSE,
        };
        self.send_message();
    }

    /// Whether the last message of this side is out.
    pub(super) const fn is_closed(&self) -> bool {
        self.own_flags
            .contains(ConnectionFlags::PEER_CONNECTION_CLOSED)
    }

    /// Work goes to another link: what is not known to have arrived is written again.
    pub(super) fn change_link(&mut self) {
        self.link.clear();
        self.done.clear();
        self.pending = 0;
        self.out.rewind();
        let validation = Cdc {
            sequence: self.completed_sequence,
            alert_token: AlertToken(7),
            producer: cursor(0, 1),
            consumer: cursor(0, 1),
            producer_flags: ProducerFlags::FAILOVER_VALIDATION,
            connection_flags: ConnectionFlags::empty(),
        };
        let completed = Completed {
            sent: self.out.sent,
            sequence: self.completed_sequence,
        };
        self.pending += 1;
        self.link.push_back(Item::Message(validation, completed));
        self.transmit();
    }

    /// A CDC message of the peer.
    pub(super) fn on_message(&mut self, cdc: &Cdc, numbered: bool) -> Result<(), String> {
        let flags = cdc.producer_flags;
        let behind = self
            .inbound
            .sequence
            .wrapping_sub(cdc.sequence)
            .cast_signed();
        if flags.contains(ProducerFlags::FAILOVER_VALIDATION) {
            return match behind < 0 {
                true => Err(format!("validation of {} which never came", cdc.sequence)),
                false => Ok(()),
            };
        }
        if numbered && behind > 0 {
            return Ok(());
        }
        self.inbound.sequence = cdc.sequence;
        let consumed = self.out.on_consumer(cdc.consumer)?;
        self.inbound.on_producer(cdc.producer, flags)?;
        self.peer_flags = cdc.connection_flags;
        let asked = flags
            .intersects(ProducerFlags::URGENT_PENDING | ProducerFlags::CURSOR_UPDATE_REQUESTED);
        if consumed || asked {
            self.transmit();
        }
        if consumed {
            self.out.acknowledge_urgent();
        }
        Ok(())
    }

    /// `recv`, without waiting: position and value of each byte.
    pub(super) fn read(&mut self, most: usize) -> Vec<(u64, u8)> {
        let mut all = Vec::new();
        while all.len() < most {
            if self.inbound.available() == 0 {
                if self.inbound.urgent == UrgentState::Valid {
                    self.consume(0);
                }
                break;
            }
            let bytes = self.inbound.copy(most - all.len());
            let read = bytes.len();
            all.extend(bytes);
            if self.consume(read) {
                break;
            }
        }
        all
    }

    /// `recv` with `MSG_OOB`: position and value of the byte.
    pub(super) fn read_urgent(&mut self) -> Option<(u64, u8)> {
        let byte = self.inbound.take_urgent()?;
        self.consume(0);
        Some(byte)
    }

    /// Moves the consumer cursor; whether the read has to end there.
    fn consume(&mut self, read: usize) -> bool {
        let (ends, force) = self.inbound.consume(read as u64);
        if self.inbound.owes_update(force) {
            self.send_message();
        }
        self.inbound.unblock();
        ends
    }
}
