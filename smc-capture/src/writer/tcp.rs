//! Writing the segments of TCP connections, with sequence numbers that the writer counts.

use core::net::SocketAddr;
use std::io::Write;

use smc_proto::wire::types::Mac;

use super::CaptureWriter;
use crate::CaptureError;
use crate::frame::{EthernetPath, TcpFlags, TcpSegment, emit_tcp};

/// TCP options: maximum segment size 1460, as on Ethernet; two no-operations as padding; and the
/// experimental option 254 with the SMC-R magic number `E2D4 C3D9` (RFC 7609, 3.1).
const SYN_OPTIONS: [u8; 12] = [2, 4, 0x05, 0xb4, 1, 1, 0xfe, 6, 0xe2, 0xd4, 0xc3, 0xd9];

/// One end of a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpEnd {
    /// MAC of its network interface.
    pub mac: Mac,
    /// IP address and port.
    pub address: SocketAddr,
}

/// A TCP connection. Both addresses are IPv4 or both IPv6.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpFlow {
    /// The end that connects.
    pub client: TcpEnd,
    /// The end that listens.
    pub server: TcpEnd,
    /// VLAN identifier, `None` for untagged frames.
    pub vlan: Option<u16>,
}

/// The direction of a segment.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Direction {
    /// The client, to the server.
    ToServer,
    /// The server, to the client.
    ToClient,
}

/// The next sequence number of each end.
#[derive(Clone, Copy)]
pub(super) struct FlowState {
    client: u32,
    server: u32,
}

impl FlowState {
    /// Initial sequence numbers: different for each pair of ports, and the same in each run.
    fn new(flow: &TcpFlow) -> Self {
        let ports =
            u32::from(flow.client.address.port()) << 16 | u32::from(flow.server.address.port());
        Self {
            client: ports.wrapping_mul(0x9e37_79b1),
            server: ports.wrapping_mul(0x85eb_ca77),
        }
    }

    /// The sender's sequence number, to be advanced, and its acknowledgement number.
    fn sequence_and_ack(&mut self, direction: Direction) -> (&mut u32, u32) {
        match direction {
            Direction::ToServer => (&mut self.client, self.server),
            Direction::ToClient => (&mut self.server, self.client),
        }
    }
}

impl<W: Write> CaptureWriter<W> {
    /// The client's SYN, with the SMC option or without.
    ///
    /// # Errors
    /// [`CaptureError::Io`], [`CaptureError::MixedFamilies`].
    pub fn tcp_syn(&mut self, time: u64, flow: &TcpFlow, smc: bool) -> Result<(), CaptureError> {
        let flags = TcpFlags {
            syn: true,
            ..TcpFlags::default()
        };
        self.flows.insert(key(flow), FlowState::new(flow));
        self.segment(
            time,
            flow,
            Direction::ToServer,
            flags,
            syn_options(smc),
            &[],
        )
    }

    /// The server's SYN-ACK, with the SMC option or without.
    ///
    /// # Errors
    /// [`CaptureError::Io`], [`CaptureError::MixedFamilies`].
    pub fn tcp_syn_ack(
        &mut self,
        time: u64,
        flow: &TcpFlow,
        smc: bool,
    ) -> Result<(), CaptureError> {
        let flags = TcpFlags {
            syn: true,
            ack: true,
            ..TcpFlags::default()
        };
        self.segment(
            time,
            flow,
            Direction::ToClient,
            flags,
            syn_options(smc),
            &[],
        )
    }

    /// The whole handshake at one time: SYN, SYN-ACK and ACK.
    ///
    /// # Errors
    /// [`CaptureError::Io`], [`CaptureError::MixedFamilies`].
    pub fn tcp_handshake(
        &mut self,
        time: u64,
        flow: &TcpFlow,
        client_smc: bool,
        server_smc: bool,
    ) -> Result<(), CaptureError> {
        self.tcp_syn(time, flow, client_smc)?;
        self.tcp_syn_ack(time, flow, server_smc)?;
        self.tcp_ack(time, flow, Direction::ToServer)
    }

    /// An acknowledgement without data.
    ///
    /// # Errors
    /// [`CaptureError::Io`], [`CaptureError::MixedFamilies`].
    pub fn tcp_ack(
        &mut self,
        time: u64,
        flow: &TcpFlow,
        direction: Direction,
    ) -> Result<(), CaptureError> {
        let flags = TcpFlags {
            ack: true,
            ..TcpFlags::default()
        };
        self.segment(time, flow, direction, flags, &[], &[])
    }

    /// Data, in as many segments as needed; none for no data.
    ///
    /// # Errors
    /// [`CaptureError::Io`], [`CaptureError::MixedFamilies`].
    pub fn tcp_data(
        &mut self,
        time: u64,
        flow: &TcpFlow,
        direction: Direction,
        payload: &[u8],
    ) -> Result<(), CaptureError> {
        let count = payload.len().div_ceil(self.maximum_segment);
        for (index, chunk) in payload.chunks(self.maximum_segment).enumerate() {
            let flags = TcpFlags {
                ack: true,
                push: index + 1 == count,
                ..TcpFlags::default()
            };
            self.segment(time, flow, direction, flags, &[], chunk)?;
        }
        Ok(())
    }

    /// The sender has no more data: FIN.
    ///
    /// # Errors
    /// [`CaptureError::Io`], [`CaptureError::MixedFamilies`].
    pub fn tcp_fin(
        &mut self,
        time: u64,
        flow: &TcpFlow,
        direction: Direction,
    ) -> Result<(), CaptureError> {
        let flags = TcpFlags {
            ack: true,
            fin: true,
            ..TcpFlags::default()
        };
        self.segment(time, flow, direction, flags, &[], &[])
    }

    /// Reset.
    ///
    /// # Errors
    /// [`CaptureError::Io`], [`CaptureError::MixedFamilies`].
    pub fn tcp_reset(
        &mut self,
        time: u64,
        flow: &TcpFlow,
        direction: Direction,
    ) -> Result<(), CaptureError> {
        let flags = TcpFlags {
            ack: true,
            reset: true,
            ..TcpFlags::default()
        };
        // The sequence numbers are kept, as the other end may still be sending.
        self.segment(time, flow, direction, flags, &[], &[])
    }

    /// A segment whose sequence numbers the caller counts, for simulations that
    /// repeat and lose segments. A payload above the maximum segment size is
    /// written as several segments, of which the last one has FIN and PSH.
    ///
    /// # Errors
    /// [`CaptureError::Io`], [`CaptureError::MixedFamilies`].
    pub fn tcp_segment(
        &mut self,
        time: u64,
        path: EthernetPath,
        segment: &TcpSegment<'_>,
    ) -> Result<(), CaptureError> {
        let mut part = segment.clone();
        let mut rest = segment.payload;
        loop {
            let payload;
            (payload, rest) = rest.split_at(rest.len().min(self.maximum_segment));
            part.payload = payload;
            part.flags.fin = segment.flags.fin && rest.is_empty();
            part.flags.push = segment.flags.push && rest.is_empty();
            let bytes = emit_tcp(path, &part)?;
            self.frame(time, &bytes)?;
            part.sequence = part.sequence.wrapping_add(payload.len() as u32);
            if rest.is_empty() {
                return Ok(());
            }
        }
    }

    /// Writes one segment, and advances the sender's sequence number.
    fn segment(
        &mut self,
        time: u64,
        flow: &TcpFlow,
        direction: Direction,
        flags: TcpFlags,
        options: &[u8],
        payload: &[u8],
    ) -> Result<(), CaptureError> {
        let state = self
            .flows
            .entry(key(flow))
            .or_insert_with(|| FlowState::new(flow));
        let (sequence, acknowledgement) = state.sequence_and_ack(direction);
        let (from, to) = match direction {
            Direction::ToServer => (flow.client, flow.server),
            Direction::ToClient => (flow.server, flow.client),
        };
        let path = EthernetPath {
            source: from.mac,
            destination: to.mac,
            vlan: flow.vlan,
        };
        let segment = TcpSegment {
            source: from.address,
            destination: to.address,
            sequence: *sequence,
            acknowledgement: if flags.ack { acknowledgement } else { 0 },
            flags,
            options,
            payload,
            missing: 0,
        };
        let bytes = emit_tcp(path, &segment)?;
        // SYN and FIN take one sequence number each.
        let length = payload.len() + usize::from(flags.syn) + usize::from(flags.fin);
        *sequence = sequence.wrapping_add(length as u32);
        self.frame(time, &bytes)
    }
}

/// The key of a connection among those that the writer counts for.
fn key(flow: &TcpFlow) -> (SocketAddr, SocketAddr) {
    (flow.client.address, flow.server.address)
}

/// The TCP options of a SYN or SYN-ACK: maximum segment size, and the SMC
/// option if wanted.
#[must_use]
pub fn syn_options(smc: bool) -> &'static [u8] {
    let (plain, _) = SYN_OPTIONS.split_at(4);
    if smc { &SYN_OPTIONS } else { plain }
}
