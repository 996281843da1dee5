//! Writes what an observer sees as a capture.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

use smc_proto::time::Instant;
use smc_proto::wire::types::{Gid, Mac, Qpn, RKey};

use crate::fabric::{HostId, PortConfig};
use crate::observe::{Acknowledgement, Arrival, Observer, Outcome, RdmaFlow, TcpSegment};
use smc_capture::CaptureError;
use smc_capture::frame::{emit_roce, gid_address};
use smc_capture::roce::{Aeth, Bth, Opcode, RocePacket};
use smc_capture::writer::{CaptureWriter, Direction, QpPath, TcpEnd, TcpFlow};

/// An observer that writes a capture, with the times of the simulation.
///
/// TCP runs between the addresses of the hosts' first ports. After an error
/// nothing more is written, and [`Recorder::finish`] returns it.
pub struct Recorder<W: Write> {
    capture: Option<CaptureWriter<W>>,
    error: Option<CaptureError>,
    addresses: BTreeMap<HostId, (Mac, IpAddr)>,
    /// Requests each receiving queue pair completed, as its answers show.
    completed: BTreeMap<(Gid, Qpn), u32>,
}

/// TCP port of all servers of a simulation.
const SERVER_PORT: u16 = 7609;
const FIRST_CLIENT_PORT: u16 = 0xc000;

impl<W: Write> Recorder<W> {
    /// Writes into this capture.
    #[must_use]
    pub const fn new(capture: CaptureWriter<W>) -> Self {
        Self {
            capture: Some(capture),
            error: None,
            addresses: BTreeMap::new(),
            completed: BTreeMap::new(),
        }
    }

    /// Frames written so far, 0 once the capture was ended.
    #[must_use]
    pub fn frames(&self) -> u64 {
        self.capture.as_ref().map_or(0, CaptureWriter::frames)
    }

    /// Whether there was an error, so that a long run need not go on.
    #[must_use]
    pub const fn has_failed(&self) -> bool {
        self.error.is_some()
    }

    /// Ends the capture: what was written into, `None` if it was ended before.
    ///
    /// # Errors
    /// The first error there was.
    pub fn finish(&mut self) -> Result<Option<W>, CaptureError> {
        let finished = self.capture.take().map(CaptureWriter::finish).transpose();
        match self.error.take() {
            Some(error) => Err(error),
            None => finished,
        }
    }

    fn write(&mut self, put: impl FnOnce(&mut CaptureWriter<W>) -> Result<(), CaptureError>) {
        if self.error.is_none()
            && let Some(capture) = &mut self.capture
        {
            self.error = put(capture).err();
        }
    }

    fn end(&self, host: HostId, port: u16) -> TcpEnd {
        let (mac, address) = self.addresses.get(&host).copied().unwrap_or_else(|| {
            // A host without RNICs: addresses that no other host has.
            let [high, low] = host.0.to_be_bytes();
            let mac = Mac([2, 0xff, 0, 0, high, low]);
            (mac, IpAddr::V4(Ipv4Addr::new(198, 18, high, low)))
        });
        TcpEnd {
            mac,
            address: SocketAddr::new(address, port),
        }
    }

    fn tcp_flow(&self, segment: &TcpSegment<'_>) -> TcpFlow {
        let (client, server) = if segment.from_client {
            (segment.source, segment.destination)
        } else {
            (segment.destination, segment.source)
        };
        let ports = u32::from(u16::MAX - FIRST_CLIENT_PORT) + 1;
        let client_port = FIRST_CLIENT_PORT + (segment.tcp.0 % ports) as u16;
        TcpFlow {
            client: self.end(client, client_port),
            server: self.end(server, SERVER_PORT),
            vlan: None,
        }
    }
}

const fn nanoseconds(at: Instant) -> u64 {
    at.as_nanos()
}

const fn path(flow: &RdmaFlow) -> QpPath {
    let (source, destination) = (flow.source, flow.destination);
    QpPath::new(
        (source.mac, source.gid),
        (destination.mac, destination.gid),
        destination.qpn,
    )
}

const fn remark(outcome: Outcome) -> Option<&'static str> {
    match outcome {
        Outcome::Accepted | Outcome::ReceiverNotReady | Outcome::Refused => None,
        Outcome::Duplicate => Some("sent again, had arrived before"),
        Outcome::Dropped => Some("lost: no queue pair takes this packet"),
    }
}

impl<W: Write> Observer for Recorder<W> {
    fn on_port(&mut self, host: HostId, port: &PortConfig) {
        self.addresses
            .entry(host)
            .or_insert((port.mac, gid_address(port.gid)));
    }

    fn on_tcp_syn(&mut self, segment: &TcpSegment<'_>) {
        let (time, flow, smc) = (
            nanoseconds(segment.at),
            self.tcp_flow(segment),
            segment.smc_option,
        );
        self.write(|capture| {
            if segment.ack {
                capture.tcp_syn_ack(time, &flow, smc)
            } else {
                capture.tcp_syn(time, &flow, smc)
            }
        });
    }

    fn on_tcp_segment(&mut self, segment: &TcpSegment<'_>) {
        let (time, flow) = (nanoseconds(segment.at), self.tcp_flow(segment));
        let direction = if segment.from_client {
            Direction::ToServer
        } else {
            Direction::ToClient
        };
        self.write(|capture| {
            if segment.rst {
                capture.tcp_reset(time, &flow, direction)
            } else if segment.fin {
                capture.tcp_fin(time, &flow, direction)
            } else if segment.payload.is_empty() {
                capture.tcp_ack(time, &flow, direction)
            } else {
                capture.tcp_data(time, &flow, direction, segment.payload)
            }
        });
    }

    fn on_send(&mut self, send: &Arrival<'_>) {
        self.write(|capture| {
            if let Some(text) = remark(send.outcome) {
                capture.comment(text);
            }
            let time = nanoseconds(send.at);
            capture.rdma_send(time, &path(&send.flow), send.first_psn, send.payload, true)
        });
    }

    fn on_write(&mut self, write: &Arrival<'_>, rkey: RKey, address: u64) {
        let mtu = write.flow.mtu.octets().unwrap_or(1024);
        self.write(|capture| {
            if let Some(text) = remark(write.outcome) {
                capture.comment(text);
            }
            let (time, path) = (nanoseconds(write.at), path(&write.flow));
            let (first, payload) = (write.first_psn, write.payload);
            capture
                .rdma_write(time, &path, first, rkey, address, payload, mtu)
                .map(drop)
        });
    }

    fn on_ack(&mut self, acknowledgement: &Acknowledgement) {
        let source = acknowledgement.flow.source;
        let completed = self.completed.entry((source.gid, source.qpn)).or_default();
        if acknowledgement.outcome == Outcome::Accepted {
            *completed = completed.wrapping_add(1) & 0x00ff_ffff;
        }
        let message_sequence = *completed;
        let (time, psn) = (nanoseconds(acknowledgement.at), acknowledgement.psn);
        let path = path(&acknowledgement.flow);
        let syndrome = match acknowledgement.outcome {
            Outcome::Accepted | Outcome::Duplicate => {
                return self.write(|capture| capture.rdma_ack(time, &path, psn, message_sequence));
            }
            // Receiver not ready, to be asked again after 1.28 ms.
            Outcome::ReceiverNotReady => 0x2e,
            Outcome::Refused if acknowledgement.of_write => REMOTE_ACCESS_ERROR,
            Outcome::Refused => INVALID_REQUEST,
            Outcome::Dropped => return,
        };
        let packet = RocePacket {
            bth: Bth {
                opcode: Opcode::ACKNOWLEDGE,
                solicited: false,
                partition_key: 0xffff,
                destination_qpn: path.destination_qpn,
                acknowledge_requested: false,
                psn,
            },
            reth: None,
            aeth: Some(Aeth {
                syndrome,
                message_sequence,
            }),
            immediate: None,
            payload: &[],
            missing: 0,
        };
        self.write(|capture| {
            let (source, destination) = (path.source, path.destination);
            let frame = emit_roce(path.ethernet, path.version, source, destination, &packet)?;
            capture.frame(time, &frame)
        });
    }
}

/// Syndromes of negative acknowledgements.
const INVALID_REQUEST: u8 = 0x61;
const REMOTE_ACCESS_ERROR: u8 = 0x62;

#[cfg(test)]
mod tests;
