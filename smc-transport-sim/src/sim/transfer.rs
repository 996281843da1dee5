//! Bytes between applications and what carries them.

use smc_proto::command::Segment;
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::BufferSpans;
use smc_proto::storage::Storage;

use super::socket::Clc;
use super::{Simulation, Transport};
use crate::app::Ending;

/// Most bytes of one direction of plain TCP that are not read yet.
const TCP_WINDOW: usize = 1 << 20;

impl<S: Storage> Simulation<S> {
    /// Lets one application write and read as much as it can.
    pub(super) fn pump(&mut self, index: usize) -> bool {
        let Some(socket) = self.sockets.get_mut(index) else {
            return false;
        };
        // The applications of a host that crashed just now are gone, too.
        if self.fabric.is_away(socket.host) || !std::mem::take(&mut socket.awake) {
            return false;
        }
        match socket.state.transport {
            Transport::None => false,
            Transport::Tcp => self.pump_tcp(index),
            Transport::Smc => {
                let wrote = self.write_smc(index);
                let read = self.read_smc(index);
                self.meet_closed_peer(index);
                let ended = self.end_smc(index);
                wrote | read | ended
            }
        }
    }

    /// What the clock of a socket's host shows.
    fn now_of(&self, index: usize) -> smc_proto::time::Instant {
        let host = self.sockets.get(index).map(|socket| socket.host);
        self.host_now(host.unwrap_or(crate::fabric::HostId(0)))
    }

    /// What `EPIPE` means to other applications: after the end of the stream, a peer
    /// that closed takes nothing any more.
    fn meet_closed_peer(&mut self, index: usize) {
        let now = self.now_of(index);
        if let Some(socket) = self.sockets.get_mut(index)
            && socket.app.is_at_end()
            && !socket.app.is_all_written()
            && let Some(host) = self.hosts.get_mut(usize::from(socket.host.0))
            && let Some(mut conn) = socket.state.conn.and_then(|id| host.endpoint.conn(id))
            && conn.commit(now, 0).is_err()
        {
            socket.app.give_up_writing();
        }
    }

    fn write_smc(&mut self, index: usize) -> bool {
        let now = self.now_of(index);
        let mut moved = false;
        while let Some(socket) = self.sockets.get_mut(index)
            && let Some(host) = self.hosts.get_mut(usize::from(socket.host.0))
            && let Some(id) = socket.state.conn
            && let Some(mut conn) = host.endpoint.conn(id)
            && let Some(space) = conn.send_space()
            && !space.is_empty()
            && !socket.app.is_all_written()
        {
            self.scratch.clear();
            socket
                .app
                .take_to_write(space.len() as usize, &mut self.scratch);
            let length = self.scratch.len() as u32;
            let spans = first_bytes(space.segments, length);
            let filled = self
                .fabric
                .fill_send(host.id, space.buffer, spans, &self.scratch);
            let urgent = socket.app.is_urgent() && socket.app.is_all_written();
            let committed = match urgent {
                true => conn.commit_urgent(now, length),
                false => conn.commit(now, length),
            };
            let side = (socket.tcp, socket.side);
            self.flights
                .entry(side)
                .or_default()
                .on_written(&self.scratch);
            let whose = host.id;
            if let Err(error) = filled {
                self.finding(whose, format!("send space is not there: {error:?}"));
                return moved;
            }
            if let Err(error) = committed {
                self.finding(whose, format!("send space cannot be used: {error:?}"));
                return moved;
            }
            moved = true;
        }
        moved
    }

    fn read_smc(&mut self, index: usize) -> bool {
        let now = self.now_of(index);
        let mut moved = false;
        while let Some(socket) = self.sockets.get_mut(index)
            && socket.app.wants_to_read()
            && let Some(host) = self.hosts.get_mut(usize::from(socket.host.0))
            && let Some(id) = socket.state.conn
            && let Some(mut conn) = host.endpoint.conn(id)
            && let Some(spans) = conn.readable()
        {
            if spans.is_empty() {
                if conn.is_end_of_stream() {
                    socket.app.on_end();
                }
                break;
            }
            if let Some(invariants) = &mut self.invariants {
                invariants.on_readable(host.id, id, &spans);
            }
            self.scratch.clear();
            let BufferSpans {
                buffer,
                segments,
                eye_catcher_at,
                ..
            } = spans;
            let read = self.fabric.read_rmb(
                host.id,
                id,
                buffer,
                segments,
                eye_catcher_at,
                &mut self.scratch,
            );
            let whose = host.id;
            match read {
                Ok(true) => {}
                Ok(false) => return true,
                Err(error) => {
                    self.finding(whose, format!("readable octets are not there: {error:?}"));
                    return moved;
                }
            }
            let consumed = conn.consume(now, spans.len());
            socket.app.on_bytes(&self.scratch);
            let side = (socket.tcp, socket.side.other());
            let checked = self.flights.entry(side).or_default().on_read(&self.scratch);
            if let Err(error) = consumed {
                self.finding(
                    whose,
                    format!("readable octets cannot be consumed: {error:?}"),
                );
                return moved;
            }
            if let Err(place) = checked {
                self.finding(
                    whose,
                    format!("octet {place} of {} is not as written", spans.len()),
                );
                return moved;
            }
            moved = true;
        }
        moved
    }

    fn end_smc(&mut self, index: usize) -> bool {
        let now = self.now_of(index);
        if let Some(socket) = self.sockets.get_mut(index)
            && let Some(host) = self.hosts.get_mut(usize::from(socket.host.0))
            && let Some(mut conn) = socket.state.conn.and_then(|id| host.endpoint.conn(id))
            && let Some(ending) = socket.app.take_ending()
        {
            let how = match ending {
                Ending::Closed => Shutdown::Both,
                _ => Shutdown::Write,
            };
            conn.shutdown(now, how);
            return true;
        }
        false
    }

    fn pump_tcp(&mut self, index: usize) -> bool {
        let Some(socket) = self.sockets.get_mut(index) else {
            return false;
        };
        let (tcp, side) = (socket.tcp, socket.side);
        self.scratch.clear();
        let flight = self.flights.entry((tcp, side)).or_default();
        let room = TCP_WINDOW.saturating_sub(flight.len());
        socket.app.take_to_write(room, &mut self.scratch);
        flight.on_written(&self.scratch);
        let mut moved = !self.scratch.is_empty();
        self.fabric.tcp_send(tcp, side, &self.scratch);
        if socket.app.take_ending().is_some() {
            self.fabric.tcp_close(tcp, side);
        }
        if socket.clc != Clc::Over || !socket.app.wants_to_read() {
            return moved;
        }
        let bytes = self.fabric.tcp_unread(tcp, side);
        let length = bytes.len();
        moved |= length > 0;
        socket.app.on_bytes(bytes);
        let checked = self
            .flights
            .entry((tcp, side.other()))
            .or_default()
            .on_read(bytes);
        self.fabric.tcp_consume(tcp, side, length);
        if self.fabric.tcp_at_end(tcp, side) {
            socket.app.on_end();
        }
        let host = socket.host;
        // Ends come in pairs: the other one may write again.
        if length > 0
            && let Some(peer) = self.sockets.get_mut(index ^ 1)
        {
            peer.awake = true;
        }
        if let Err(place) = checked {
            self.finding(
                host,
                format!("octet {place} of {length} over TCP is not as written"),
            );
        }
        moved
    }
}

/// The part of two pieces that holds the first `length` bytes.
fn first_bytes([first, second]: [Segment; 2], length: u32) -> [Segment; 2] {
    let head = first.length.min(length);
    let tail = second.length.min(length - head);
    [
        Segment {
            length: head,
            ..first
        },
        Segment {
            length: tail,
            ..second
        },
    ]
}
