//! What can be seen on the wires of a simulation: the seam of the capture
//! writer, the message ladder and the invariant checks.

use std::sync::{Arc, Mutex};

use smc_proto::time::Instant;
use smc_proto::wire::cdc_ism::CDC_ISM_LENGTH;
use smc_proto::wire::types::{Gid, Mac, Mtu, Psn, Qpn, RKey};

use crate::fabric::{HostId, PortConfig};
use crate::tcp::TcpId;

/// One end of a queue pair's wire.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct RdmaEnd {
    /// The host, `None` if no host has this address.
    pub host: Option<HostId>,
    /// GID of the port.
    pub gid: Gid,
    /// MAC of the port.
    pub mac: Mac,
    /// Queue pair number.
    pub qpn: Qpn,
}

/// Where a work request comes from and goes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct RdmaFlow {
    /// Sender.
    pub source: RdmaEnd,
    /// Receiver.
    pub destination: RdmaEnd,
    /// Bytes per packet.
    pub mtu: Mtu,
}

/// What the receiver's RNIC did with a work request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, PartialOrd, Ord)]
pub enum Outcome {
    /// Executed.
    Accepted,
    /// Had been executed before; acknowledged again.
    Duplicate,
    /// Ignored: no such queue pair, a port down, a wrong sender or PSN.
    Dropped,
    /// A SEND without a receive to take it.
    ReceiverNotReady,
    /// A SEND longer than the receive, or a WRITE that its key does not allow.
    Refused,
}

/// A work request at its arrival, all its packets at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival<'a> {
    /// Now: the last packet is in.
    pub at: Instant,
    /// When its first packet left.
    pub sent_at: Instant,
    /// From where to where.
    pub flow: RdmaFlow,
    /// PSN of the first packet; the others count up.
    pub first_psn: Psn,
    /// Number of packets.
    pub packets: u32,
    /// The bytes of all packets.
    pub payload: &'a [u8],
    /// What becomes of it.
    pub outcome: Outcome,
}

/// An acknowledgement at its arrival, negative ones included.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Acknowledgement {
    /// Now.
    pub at: Instant,
    /// From the receiver of the work to its sender.
    pub flow: RdmaFlow,
    /// PSN of the last packet it speaks of.
    pub psn: Psn,
    /// The outcome of the packet.
    pub outcome: Outcome,
    /// Whether it answers an RDMA WRITE; else a SEND.
    pub of_write: bool,
}

/// A segment of a TCP connection at its arrival.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TcpSegment<'a> {
    /// Now.
    pub at: Instant,
    /// When it left.
    pub sent_at: Instant,
    /// The connection.
    pub tcp: TcpId,
    /// The sender.
    pub source: HostId,
    /// The receiver.
    pub destination: HostId,
    /// Whether the sender opened the connection.
    pub from_client: bool,
    /// Bytes the sender sent before this segment; SYN and FIN do not count.
    pub sequence: u64,
    /// Bytes the sender had received when it sent this.
    pub acknowledged: u64,
    /// SYN bit.
    pub syn: bool,
    /// ACK bit.
    pub ack: bool,
    /// FIN bit.
    pub fin: bool,
    /// RST bit.
    pub rst: bool,
    /// Whether a SYN carries the SMC option.
    pub smc_option: bool,
    /// Bytes of the stream.
    pub payload: &'a [u8],
}

/// Sees everything that crosses between hosts, in the order of arrival.
#[allow(unused_variables)]
pub trait Observer {
    /// A host was added.
    fn on_host(&mut self, host: HostId, name: &str) {}
    /// A host got a port.
    fn on_port(&mut self, host: HostId, port: &PortConfig) {}
    /// A SYN or SYN/ACK arrived.
    fn on_tcp_syn(&mut self, segment: &TcpSegment<'_>) {}
    /// Any later segment arrived.
    fn on_tcp_segment(&mut self, segment: &TcpSegment<'_>) {}
    /// A SEND arrived.
    fn on_send(&mut self, send: &Arrival<'_>) {}
    /// An RDMA WRITE arrived.
    fn on_write(&mut self, write: &Arrival<'_>, rkey: RKey, address: u64) {}
    /// An acknowledgement arrived.
    fn on_ack(&mut self, acknowledgement: &Acknowledgement) {}
    /// An ISM device moved something to another one.
    fn on_ism(&mut self, moved: &IsmMoved<'_>) {}
}

/// Sharing lets the owner read what the observer collected.
impl<T: Observer> Observer for Arc<Mutex<T>> {
    fn on_host(&mut self, host: HostId, name: &str) {
        with(self, |observer| observer.on_host(host, name));
    }
    fn on_port(&mut self, host: HostId, port: &PortConfig) {
        with(self, |observer| observer.on_port(host, port));
    }
    fn on_tcp_syn(&mut self, segment: &TcpSegment<'_>) {
        with(self, |observer| observer.on_tcp_syn(segment));
    }
    fn on_tcp_segment(&mut self, segment: &TcpSegment<'_>) {
        with(self, |observer| observer.on_tcp_segment(segment));
    }
    fn on_send(&mut self, send: &Arrival<'_>) {
        with(self, |observer| observer.on_send(send));
    }
    fn on_write(&mut self, write: &Arrival<'_>, rkey: RKey, address: u64) {
        with(self, |observer| observer.on_write(write, rkey, address));
    }
    fn on_ack(&mut self, acknowledgement: &Acknowledgement) {
        with(self, |observer| observer.on_ack(acknowledgement));
    }
    fn on_ism(&mut self, moved: &IsmMoved<'_>) {
        with(self, |observer| observer.on_ism(moved));
    }
}

/// Something that one ISM device wrote or signalled to another.
#[derive(Clone, Copy, Debug)]
pub struct IsmMoved<'a> {
    /// When.
    pub at: Instant,
    /// Whose device wrote.
    pub source: HostId,
    /// Whose device has it now.
    pub destination: HostId,
    /// What it is.
    pub what: IsmContent<'a>,
}

/// What an ISM device wrote.
#[derive(Clone, Copy, Debug)]
pub enum IsmContent<'a> {
    /// Bytes, to this offset of a DMB.
    Data {
        /// The first byte.
        offset: u32,
        /// The bytes.
        bytes: &'a [u8],
    },
    /// A CDC message, signalled.
    Cdc(&'a [u8; CDC_ISM_LENGTH]),
    /// A software event.
    Event {
        /// What it is about.
        code: u32,
        /// What goes with it.
        info: u64,
    },
}

fn with<T>(shared: &Mutex<T>, act: impl FnOnce(&mut T)) {
    // A poisoned lock means that another holder panicked; what it holds is only shown.
    act(&mut shared
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner()));
}

/// The observers of a fabric. A clone of a fabric is not observed: otherwise
/// runs that branch off one state would mix in one capture.
#[derive(Default)]
pub(crate) struct Observers(Vec<Box<dyn Observer + Send>>);

impl Observers {
    pub(crate) fn add(&mut self, observer: Box<dyn Observer + Send>) {
        self.0.push(observer);
    }
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
    pub(crate) fn each(&mut self, mut show: impl FnMut(&mut dyn Observer)) {
        for observer in &mut self.0 {
            show(observer.as_mut());
        }
    }
}

impl Clone for Observers {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl std::fmt::Debug for Observers {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} observers", self.0.len())
    }
}

/// Counts and hashes what it sees.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counter {
    /// Segments of TCP, SYNs included.
    pub tcp_segments: u64,
    /// Bytes in TCP segments.
    pub tcp_bytes: u64,
    /// SENDs, whatever their outcome.
    pub sends: u64,
    /// RDMA WRITEs, whatever their outcome.
    pub writes: u64,
    /// Bytes in RDMA WRITEs.
    pub write_bytes: u64,
    /// Acknowledgements.
    pub acknowledgements: u64,
    /// Work requests that were not accepted.
    pub not_accepted: u64,
    trace: crate::random::StreamHash,
}

impl Counter {
    /// Hash of everything seen, with times and addresses: equal for equal runs.
    #[must_use]
    pub fn trace_hash(&self) -> u64 {
        self.trace.value()
    }

    fn arrival(&mut self, arrival: &Arrival<'_>) {
        use std::hash::Hash;
        (arrival.at, arrival.sent_at, arrival.flow, arrival.first_psn).hash(&mut self.trace);
        (arrival.packets, arrival.outcome).hash(&mut self.trace);
        self.trace.update(arrival.payload);
        self.not_accepted += u64::from(arrival.outcome != Outcome::Accepted);
    }
}

impl Observer for Counter {
    fn on_tcp_syn(&mut self, segment: &TcpSegment<'_>) {
        self.on_tcp_segment(segment);
    }
    fn on_tcp_segment(&mut self, segment: &TcpSegment<'_>) {
        use std::hash::Hash;
        self.tcp_segments += 1;
        self.tcp_bytes += segment.payload.len() as u64;
        (
            segment.at,
            segment.tcp,
            segment.from_client,
            segment.sequence,
        )
            .hash(&mut self.trace);
        (segment.syn, segment.fin, segment.rst, segment.smc_option).hash(&mut self.trace);
        self.trace.update(segment.payload);
    }
    fn on_send(&mut self, send: &Arrival<'_>) {
        self.sends += 1;
        self.arrival(send);
    }
    fn on_write(&mut self, write: &Arrival<'_>, rkey: RKey, address: u64) {
        use std::hash::Hash;
        self.writes += 1;
        self.write_bytes += write.payload.len() as u64;
        (rkey, address).hash(&mut self.trace);
        self.arrival(write);
    }
    fn on_ack(&mut self, acknowledgement: &Acknowledgement) {
        use std::hash::Hash;
        self.acknowledgements += 1;
        (
            acknowledgement.at,
            acknowledgement.flow,
            acknowledgement.psn,
        )
            .hash(&mut self.trace);
    }
}
