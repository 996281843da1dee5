//! TCP connections whose SYN carries the SMC option.

use core::net::SocketAddr;
use std::collections::{HashMap, VecDeque};

use smc_proto::wire::clc::ClcKind;
use smc_proto::wire::tcp_option;

use super::clc::Phase;
use super::direction::{Direction, Found};
use super::item::{Content, Item, Path, Protocol, TcpOption, TcpPath, TcpSign};
use super::{Limits, Moment};
use crate::frame::TcpSegment;

/// Client and server.
type Ends = (SocketAddr, SocketAddr);

/// One TCP connection.
struct Stream {
    number: u64,
    /// Initial sequence number of the client, once its SYN was seen.
    client_start: Option<u32>,
    server_start: Option<u32>,
    to_server: Direction,
    to_client: Direction,
    reset: bool,
    /// Last frame of the connection.
    last: Moment,
}

/// Follows TCP connections.
#[derive(Default)]
pub(super) struct TcpFollower {
    limits: Limits,
    streams: HashMap<Ends, Stream>,
    /// Their order of appearance, the oldest first.
    order: VecDeque<(Ends, u64)>,
    next_number: u64,
    /// Whether data, FIN and RST are reported as well.
    all: bool,
}

impl TcpFollower {
    pub(super) fn new(limits: Limits) -> Self {
        Self {
            limits,
            ..Self::default()
        }
    }

    /// Reports data, FIN and RST from now on.
    pub(super) fn report_all(&mut self) {
        self.all = true;
    }

    pub(super) fn push(&mut self, at: Moment, segment: &TcpSegment<'_>, items: &mut Vec<Item>) {
        if segment.flags.syn {
            self.handshake(at, segment, items);
        }
        if segment.flags.reset {
            self.reset(segment);
        }
        let to_server = (segment.source, segment.destination);
        let to_client = (segment.destination, segment.source);
        let (ends, up) = if self.streams.contains_key(&to_server) {
            (to_server, true)
        } else {
            (to_client, false)
        };
        let Some(stream) = self.streams.get_mut(&ends) else {
            return;
        };
        if !segment.payload.is_empty() || segment.missing > 0 {
            let data = stream.data(at, segment, up, ends, items);
            if self.all && data > 0 {
                items.push(stream.sign(at, ends, up, TcpSign::Data { bytes: data }));
            }
        }
        if self.all && segment.flags.reset {
            items.push(stream.sign(at, ends, up, TcpSign::Reset));
        } else if self.all && segment.flags.fin {
            items.push(stream.sign(at, ends, up, TcpSign::Fin));
        }
    }

    /// A connection that was reset carries nothing more, whatever is still seen of
    /// it; a message that it cut off stays unfinished.
    fn reset(&mut self, segment: &TcpSegment<'_>) {
        let (source, destination) = (segment.source, segment.destination);
        for ends in [(source, destination), (destination, source)] {
            if let Some(stream) = self.streams.get_mut(&ends) {
                stream.reset = true;
            }
        }
    }

    fn handshake(&mut self, at: Moment, segment: &TcpSegment<'_>, items: &mut Vec<Item>) {
        let smc = tcp_option::find_in_options(segment.options);
        let syn_ack = segment.flags.ack;
        let ends = if syn_ack {
            (segment.destination, segment.source)
        } else {
            (segment.source, segment.destination)
        };
        let start = segment.sequence;
        let same = self.streams.get(&ends).is_some_and(|stream| {
            if syn_ack {
                // Of an older connection with the same ports, if not of this one.
                stream.server_start.is_none_or(|known| known == start)
            } else {
                stream.client_start == Some(start)
            }
        });
        if !same {
            self.streams.remove(&ends);
            if !smc {
                return;
            }
            self.open(ends, at);
        }
        let Some(stream) = self.streams.get_mut(&ends) else {
            return;
        };
        stream.last = at;
        let known = if syn_ack {
            stream.server_start.replace(start)
        } else {
            stream.client_start.replace(start)
        };
        let first = start.wrapping_add(1);
        if known.is_none() {
            if syn_ack {
                stream.to_client.start(first);
            } else {
                stream.to_server.start(first);
            }
        }
        // Without the option in both, TCP is all there will be.
        if syn_ack && !smc {
            stream.to_server.phase = Phase::Ended;
            stream.to_client.phase = Phase::Ended;
        }
        if smc {
            items.push(Item {
                frame: at.frame,
                time: at.time,
                path: stream.path(ends, !syn_ack),
                retransmission: known.is_some(),
                content: Content::TcpOption(TcpOption { syn_ack }),
                bytes: Vec::new(),
            });
        }
    }

    fn open(&mut self, ends: Ends, at: Moment) {
        while self.streams.len() >= self.limits.streams.max(1)
            || self.order.len() > 4 * self.limits.streams.max(1)
        {
            let Some((oldest, number)) = self.order.pop_front() else {
                break;
            };
            if self
                .streams
                .get(&oldest)
                .is_some_and(|stream| stream.number == number)
            {
                self.streams.remove(&oldest);
            }
        }
        let number = self.next_number;
        self.next_number += 1;
        self.order.push_back((ends, number));
        self.streams.insert(
            ends,
            Stream {
                number,
                client_start: None,
                server_start: None,
                to_server: Direction::new(self.limits.stream_bytes),
                to_client: Direction::new(self.limits.stream_bytes),
                reset: false,
                last: at,
            },
        );
    }

    /// Reports CLC messages that the capture does not hold to their end.
    pub(super) fn finish(&mut self, items: &mut Vec<Item>) {
        let mut open: Vec<_> = self.streams.drain().collect();
        open.sort_by_key(|(_, stream)| stream.number);
        self.order.clear();
        for (ends, stream) in open {
            for (to_server, direction) in [(true, &stream.to_server), (false, &stream.to_client)] {
                if let Some((have, need, bytes)) = direction.unfinished() {
                    items.push(Item {
                        frame: stream.last.frame,
                        time: stream.last.time,
                        path: stream.path(ends, to_server),
                        retransmission: false,
                        content: Content::Cut {
                            protocol: Protocol::Clc,
                            have,
                            need,
                        },
                        bytes,
                    });
                }
            }
        }
    }
}

impl Stream {
    fn path(&self, (client, server): Ends, to_server: bool) -> Path {
        let (source, destination) = if to_server {
            (client, server)
        } else {
            (server, client)
        };
        Path::Tcp(TcpPath {
            stream: self.number,
            source,
            destination,
            to_server,
        })
    }

    fn sign(&self, at: Moment, ends: Ends, to_server: bool, sign: TcpSign) -> Item {
        Item {
            frame: at.frame,
            time: at.time,
            path: self.path(ends, to_server),
            retransmission: false,
            content: Content::Tcp(sign),
            bytes: Vec::new(),
        }
    }

    /// Takes a segment with bytes, and returns how many new ones of them are none
    /// of CLC.
    fn data(
        &mut self,
        at: Moment,
        segment: &TcpSegment<'_>,
        to_server: bool,
        ends: Ends,
        items: &mut Vec<Item>,
    ) -> u64 {
        if self.reset {
            return 0;
        }
        let path = self.path(ends, to_server);
        // If the server's SYN-ACK is not in the capture, its option is not
        // known either; then only what looks like CLC is taken for CLC.
        let certain = self.client_start.is_some() && self.server_start.is_some();
        let (own, other) = if to_server {
            (&mut self.to_server, &mut self.to_client)
        } else {
            (&mut self.to_client, &mut self.to_server)
        };
        self.last = at;
        let sequence = segment.sequence.wrapping_add(u32::from(segment.flags.syn));
        let mut found = Vec::new();
        own.push(
            sequence,
            segment.payload,
            segment.missing,
            certain,
            &mut found,
        );
        let data = own.take_data();
        for Found {
            content,
            bytes,
            retransmission,
        } in found
        {
            let over = match &content {
                Content::Clc(message) => message.kind() == ClcKind::Decline,
                content => content.is_malformed(),
            };
            if over && other.phase == Phase::Clc {
                // What follows is data, or a Decline that crossed this one.
                other.phase = Phase::MaybeDecline;
            }
            items.push(Item {
                frame: at.frame,
                time: at.time,
                path: path.clone(),
                retransmission,
                content,
                bytes,
            });
        }
        data
    }
}
