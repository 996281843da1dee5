//! What the application does: the same calls on either transport.

use smc_proto::command::{BufferSpans, EYE_CATCHER};
use smc_proto::completion::RdmaCompletion;
use smc_proto::connection::Shutdown;
use smc_proto::time::Instant;
use smoltcp::socket::tcp;

use crate::driver::{Host, Transport};
use crate::rnic::Rnic;

impl Host {
    /// Sends bytes: how many there was room for.
    pub(crate) fn write(
        &mut self,
        now: Instant,
        rnic: &mut Rnic,
        number: usize,
        data: &[u8],
    ) -> usize {
        let c = &self.connections[number];
        match c.transport {
            Transport::Undecided | Transport::Closed => 0,
            Transport::Tcp => self.stack.socket(c.socket).send_slice(data).unwrap_or(0),
            Transport::Smc => {
                let Some(mut connection) = c.conn.and_then(|conn| self.engine.conn(conn)) else {
                    return 0;
                };
                let written = connection.write(now, |space| copy_in(rnic, space, data));
                written.map_or(0, |bytes| bytes as usize)
            }
        }
    }

    /// Takes received bytes: how many there were.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        rnic: &mut Rnic,
        number: usize,
        data: &mut [u8],
    ) -> usize {
        let c = &self.connections[number];
        match c.transport {
            Transport::Undecided | Transport::Closed => 0,
            // A Decline of the peer may still be before its first byte.
            Transport::Tcp if c.clc => 0,
            Transport::Tcp => self.stack.socket(c.socket).recv_slice(data).unwrap_or(0),
            Transport::Smc => {
                let Some(conn) = c.conn else {
                    return 0;
                };
                let Some(mut connection) = self.engine.conn(conn) else {
                    return 0;
                };
                let mut intact = true;
                let read = connection.read(now, |bytes| {
                    intact = is_intact(rnic, bytes);
                    if intact {
                        copy_out(rnic, bytes, data)
                    } else {
                        0
                    }
                });
                if !intact {
                    let damaged = RdmaCompletion::EyeCatcherDamaged { conn };
                    self.engine.handle_rdma(now, damaged);
                }
                read.map_or(0, |bytes| bytes as usize)
            }
        }
    }

    /// Closes one end in order.
    pub(crate) fn close(&mut self, now: Instant, number: usize) {
        let c = &mut self.connections[number];
        match c.transport {
            Transport::Tcp => {
                self.stack.socket(c.socket).close();
                c.transport = Transport::Closed;
            }
            _ => {
                if let Some(mut connection) = c.conn.and_then(|conn| self.engine.conn(conn)) {
                    connection.shutdown(now, Shutdown::Both);
                }
            }
        }
    }

    /// Whether the TCP connection of an end is over.
    pub(crate) fn is_tcp_closed(&mut self, number: usize) -> bool {
        let state = self.stack.socket(self.connections[number].socket).state();
        matches!(state, tcp::State::Closed | tcp::State::TimeWait)
    }
}

/// Copies bytes into pieces of a send buffer: how many.
fn copy_in(rnic: &mut Rnic, space: &BufferSpans, data: &[u8]) -> u32 {
    let memory = rnic.memory(space.buffer);
    let mut rest = data;
    for piece in space.segments {
        let (head, tail) = rest.split_at(rest.len().min(piece.length as usize));
        memory[piece.offset as usize..][..head.len()].copy_from_slice(head);
        rest = tail;
    }
    (data.len() - rest.len()) as u32
}

/// Copies bytes out of pieces of an RMB: how many.
fn copy_out(rnic: &mut Rnic, bytes: &BufferSpans, data: &mut [u8]) -> u32 {
    let memory = rnic.memory(bytes.buffer);
    let mut read = 0;
    for piece in bytes.segments {
        let n = (data.len() - read).min(piece.length as usize);
        data[read..][..n].copy_from_slice(&memory[piece.offset as usize..][..n]);
        read += n;
    }
    read as u32
}

/// Whether nothing wrote before the start of an element; otherwise nothing in it can
/// be trusted. Only `Config::eye_catcher` makes that detectable.
fn is_intact(rnic: &mut Rnic, bytes: &BufferSpans) -> bool {
    bytes.eye_catcher_at.is_none_or(|at| {
        rnic.memory(bytes.buffer)[at as usize..][..EYE_CATCHER.len()] == EYE_CATCHER
    })
}
