//! The verbs of TCP: open, send, close, reset, read.

use smc_proto::time::Duration;
use smc_proto::wire::clc::{ClcHeader, ClcKind};

use super::event::Event;
use super::{Fabric, HostId};
use crate::fault::{FaultAction, Operation, TcpFate};
use crate::observe::TcpSegment;
use crate::tcp::{
    Side, SmcOption, TcpConnection, TcpEnd, TcpEvent, TcpId, TcpItem, TcpNotice, TcpNoticeKind,
    TcpSplit,
};

/// Two segments of one direction never arrive at the same time, so that each is
/// seen alone.
const SEGMENT_GAP: Duration = Duration::from_micros(1);
const LARGEST_SEGMENT: usize = 32 << 10;

impl Fabric {
    /// Opens a TCP connection. Both sides get a notice when it is established.
    pub fn tcp_open(&mut self, client: HostId, server: HostId, option: SmcOption) -> TcpId {
        let tcp = TcpId(self.tcp.connections.len() as u32);
        let latency = self.config.tcp_latency;
        self.tcp.connections.push(TcpConnection {
            option,
            rendezvous: option.client_offers && option.server_answers,
            client: TcpEnd::new(client, latency),
            server: TcpEnd::new(server, latency),
        });
        self.tcp_emit(tcp, Side::Client, TcpItem::Syn);
        tcp
    }

    /// Sends bytes; does nothing after a FIN or a RST.
    pub fn tcp_send(&mut self, tcp: TcpId, side: Side, mut bytes: &[u8]) {
        self.watch_rendezvous(tcp, bytes);
        let Some(end) = self.tcp.end_mut(tcp, side) else {
            return;
        };
        if end.fin_sent || end.reset || !end.established {
            return;
        }
        let host = end.host;
        let count = bytes.len() as u64;
        let struck = self
            .plan
            .strike_first(host, Operation::TcpByte, count, &mut self.random);
        let mut reset = false;
        if let Some((at, actions)) = struck {
            for (fault, action) in actions {
                match action {
                    FaultAction::TcpReset => {
                        bytes = bytes.get(..at as usize).unwrap_or(bytes);
                        reset = true;
                        self.note_fault(fault, host);
                    }
                    other => self.apply(&[(fault, other)], host, None),
                }
            }
        }
        while !bytes.is_empty() {
            let split = match self.tcp.get(tcp) {
                Some(connection) if connection.end(side).sent < self.config.tcp_cut => {
                    self.tcp.split(host)
                }
                _ => TcpSplit::Whole,
            };
            let most = match split {
                TcpSplit::Whole => LARGEST_SEGMENT,
                TcpSplit::Every(size) => size.max(1).into(),
                TcpSplit::Random(size) => 1 + self.random.below(size.max(1).into()) as usize,
            };
            if most < bytes.len().min(LARGEST_SEGMENT)
                && let Some(fault) = self.tcp.split_hit(host)
            {
                self.note_fault(fault, host);
            }
            let (segment, rest) = bytes.split_at(most.min(bytes.len()));
            self.tcp_emit(tcp, side, TcpItem::Bytes(segment.to_vec()));
            bytes = rest;
        }
        if reset {
            self.tcp_break(tcp);
        }
    }

    /// Sends a FIN; this side still receives.
    pub fn tcp_close(&mut self, tcp: TcpId, side: Side) {
        if let Some(end) = self.tcp.end_mut(tcp, side)
            && !end.fin_sent
            && !end.reset
        {
            end.fin_sent = true;
            self.tcp_emit(tcp, side, TcpItem::Fin);
        }
    }

    /// Resets the connection: at once on this side, without a notice.
    pub fn tcp_reset(&mut self, tcp: TcpId, side: Side) {
        if let Some(end) = self.tcp.end_mut(tcp, side)
            && !end.reset
        {
            end.reset = true;
            end.incoming.clear();
            end.read = 0;
            self.tcp_emit(tcp, side, TcpItem::Reset);
        }
    }

    /// Bytes that arrived and were not consumed.
    #[must_use]
    pub fn tcp_unread(&self, tcp: TcpId, side: Side) -> &[u8] {
        self.tcp
            .get(tcp)
            .map_or(&[], |connection| connection.end(side).unread())
    }

    /// Consumes bytes that arrived.
    pub fn tcp_consume(&mut self, tcp: TcpId, side: Side, bytes: usize) {
        if let Some(end) = self.tcp.end_mut(tcp, side) {
            end.consume(bytes);
        }
    }

    /// Whether the peer's FIN arrived and all bytes before it were consumed.
    #[must_use]
    pub fn tcp_at_end(&self, tcp: TcpId, side: Side) -> bool {
        let end = self.tcp.get(tcp).map(|connection| connection.end(side));
        end.is_none_or(|end| (end.fin_received && end.unread().is_empty()) || end.reset)
    }

    /// The next notice of a host.
    pub fn next_tcp_notice(&mut self, host: HostId) -> Option<TcpNotice> {
        self.hosts.get_mut(usize::from(host.0))?.notices.pop_front()
    }

    /// A reset from the middle of the network, to both sides. It arrives behind all that is
    /// in flight, in either direction, and before all that is sent later, so that nothing
    /// which is seen behind it has an effect.
    fn tcp_break(&mut self, tcp: TcpId) {
        let arrivals = [Side::Client, Side::Server]
            .map(|side| self.tcp.end_mut(tcp, side).map(|end| end.last_arrival));
        let latest = arrivals.into_iter().flatten().max();
        for side in [Side::Client, Side::Server] {
            if let (Some(end), Some(latest)) = (self.tcp.end_mut(tcp, side), latest) {
                end.last_arrival = latest;
            }
        }
        for side in [Side::Client, Side::Server] {
            if let Some(end) = self.tcp.end_mut(tcp, side)
                && !end.reset
            {
                self.tcp_emit(tcp, side, TcpItem::Reset);
            }
        }
    }

    /// Resets all connections of a host; false if there was none.
    pub(super) fn tcp_reset_all(&mut self, host: HostId) -> bool {
        let ids = self.tcp_of(host);
        for tcp in &ids {
            self.tcp_break(*tcp);
        }
        !ids.is_empty()
    }

    /// Connections of a host that are not over.
    fn tcp_of(&self, host: HostId) -> Vec<TcpId> {
        let alive = |c: &TcpConnection| {
            [&c.client, &c.server]
                .iter()
                .any(|end| end.host == host && !end.reset)
                && !(c.client.fin_received && c.server.fin_received)
        };
        let connections = self.tcp.connections.iter().zip(0..);
        connections
            .filter(|(connection, _)| alive(connection))
            .map(|(_, number)| TcpId(number))
            .collect()
    }

    /// The host's ends of its connections are gone without FIN or reset; its peers
    /// find out later. False if there was none.
    pub(super) fn tcp_crash(&mut self, host: HostId, down: Duration, fate: TcpFate) -> bool {
        let ids = self.tcp_of(host);
        let now = self.queue.now();
        for &tcp in &ids {
            for side in [Side::Client, Side::Server] {
                let Some(end) = self.tcp.end_mut(tcp, side).filter(|end| end.host == host) else {
                    continue;
                };
                end.reset = true;
                end.incoming.clear();
                end.read = 0;
                let (after, item) = match fate {
                    TcpFate::Reset => (down, TcpItem::Reset),
                    TcpFate::TimeOut(time) => (time, TcpItem::TimeOut),
                };
                let event = TcpEvent {
                    tcp,
                    to: side.other(),
                    sent_at: now,
                    sequence: end.sent,
                    acknowledged: end.received,
                    item,
                };
                self.queue.schedule_after(after, Event::Tcp(event));
            }
        }
        !ids.is_empty()
    }

    /// After a Confirm or a Decline no CLC message comes any more.
    fn watch_rendezvous(&mut self, tcp: TcpId, bytes: &[u8]) {
        let connection = self.tcp.connections.get_mut(tcp.0 as usize);
        if let Some(connection) = connection.filter(|connection| connection.rendezvous) {
            let header = ClcHeader::parse(bytes).map(|header| header.kind);
            connection.rendezvous = matches!(header, Ok(ClcKind::Proposal | ClcKind::Accept));
        }
    }

    fn tcp_emit(&mut self, tcp: TcpId, side: Side, item: TcpItem) {
        let now = self.queue.now();
        let Some(end) = self.tcp.end_mut(tcp, side) else {
            return;
        };
        let sequence = end.sent;
        if let TcpItem::Bytes(bytes) = &item {
            end.sent += bytes.len() as u64;
        }
        let arrives = now
            .after(end.latency)
            .max(end.last_arrival.after(SEGMENT_GAP));
        end.last_arrival = arrives;
        let event = TcpEvent {
            tcp,
            to: side.other(),
            sent_at: now,
            sequence,
            acknowledged: end.received,
            item,
        };
        self.queue.schedule(arrives, Event::Tcp(event));
    }

    pub(super) fn tcp_arrive(&mut self, event: TcpEvent) {
        let now = self.queue.now();
        if event.item != TcpItem::TimeOut {
            self.tcp_observe(&event);
        }
        let (tcp, side) = (event.tcp, event.to);
        let Some(option) = self.tcp.get(tcp).map(|connection| connection.option) else {
            return;
        };
        let Some(end) = self.tcp.end_mut(tcp, side) else {
            return;
        };
        let host = end.host;
        if end.reset {
            return;
        }
        let away = self.hosts.get(usize::from(host.0));
        if away.is_some_and(|host| host.down_until > now) {
            // The host is down: a client gets a reset in the end.
            end.reset = true;
            if event.item == TcpItem::Syn {
                self.tcp_emit(tcp, side, TcpItem::Reset);
            }
            return;
        }
        let connected = TcpNoticeKind::Connected {
            smc: option.client_offers && option.server_answers,
        };
        let (kind, answer) = match event.item {
            TcpItem::Syn => (None, Some(TcpItem::SynAck)),
            TcpItem::SynAck => {
                end.established = true;
                (Some(connected), Some(TcpItem::Ack))
            }
            TcpItem::Ack => {
                end.established = true;
                (Some(connected), None)
            }
            TcpItem::Bytes(bytes) => {
                end.received += bytes.len() as u64;
                end.incoming.extend_from_slice(&bytes);
                (Some(TcpNoticeKind::Readable), None)
            }
            TcpItem::Fin => {
                end.fin_received = true;
                (Some(TcpNoticeKind::PeerFin), None)
            }
            TcpItem::Reset => {
                end.reset = true;
                end.incoming.clear();
                end.read = 0;
                (Some(TcpNoticeKind::Reset), None)
            }
            TcpItem::TimeOut => {
                end.reset = true;
                end.incoming.clear();
                end.read = 0;
                (Some(TcpNoticeKind::TimedOut), None)
            }
        };
        if let Some(item) = answer {
            self.tcp_emit(tcp, side, item);
        }
        if let (Some(kind), Some(host)) = (kind, self.hosts.get_mut(usize::from(host.0))) {
            host.notices.push_back(TcpNotice { tcp, side, kind });
        }
    }

    fn tcp_observe(&mut self, event: &TcpEvent) {
        let Some(connection) = self.tcp.get(event.tcp) else {
            return;
        };
        let payload: &[u8] = match &event.item {
            TcpItem::Bytes(bytes) => bytes,
            _ => &[],
        };
        let option = connection.option;
        let segment = TcpSegment {
            at: self.queue.now(),
            sent_at: event.sent_at,
            tcp: event.tcp,
            source: connection.end(event.to.other()).host,
            destination: connection.end(event.to).host,
            from_client: event.to == Side::Server,
            sequence: event.sequence,
            acknowledged: event.acknowledged,
            syn: matches!(event.item, TcpItem::Syn | TcpItem::SynAck),
            ack: !matches!(event.item, TcpItem::Syn),
            fin: matches!(event.item, TcpItem::Fin),
            rst: matches!(event.item, TcpItem::Reset),
            smc_option: match event.item {
                TcpItem::Syn => option.client_offers,
                TcpItem::SynAck => option.client_offers && option.server_answers,
                _ => false,
            },
            payload,
        };
        self.observers.each(|observer| {
            if segment.syn {
                observer.on_tcp_syn(&segment);
            } else {
                observer.on_tcp_segment(&segment);
            }
        });
    }
}
