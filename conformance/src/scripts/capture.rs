//! What was on the wire as a capture that Wireshark reads.

use core::net::{Ipv4Addr, SocketAddr};
use core::time::Duration;
use std::collections::BTreeMap;
use std::io::Write;

use smc_capture::CaptureError;
use smc_capture::writer::{CaptureWriter, Direction, QpPath, TcpEnd, TcpFlow};
use smc_proto::wire::types::{Gid, Mac, Psn, Qpn, RKey};

use crate::rig::ipv4_gid;

/// Something on the wire.
#[derive(Clone, Debug)]
pub struct Record {
    /// When, since the script began.
    pub at: Duration,
    /// What.
    pub what: Recorded,
}

/// What was on the wire.
#[derive(Clone, Debug)]
pub enum Recorded {
    /// A TCP connection, opened with the SMC option.
    Open {
        /// The connection.
        conn: u8,
        /// The end that opened it.
        engine_is_client: bool,
    },
    /// Bytes over TCP.
    Tcp {
        /// The connection.
        conn: u8,
        /// Their sender.
        by_engine: bool,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// TCP FIN.
    Fin {
        /// The connection.
        conn: u8,
        /// The sender.
        by_engine: bool,
    },
    /// TCP RST.
    Reset {
        /// The connection.
        conn: u8,
        /// The sender.
        by_engine: bool,
    },
    /// A SEND.
    Send {
        /// The link.
        link: u8,
        /// The sender.
        by_engine: bool,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// An RDMA WRITE.
    Write {
        /// The link.
        link: u8,
        /// The sender.
        by_engine: bool,
        /// The key.
        key: u64,
        /// The address.
        address: u64,
        /// The bytes.
        bytes: Vec<u8>,
    },
}

/// The MTU of all links.
const MTU: u16 = 1024;

fn end(engine: bool, number: u8) -> (Mac, Gid, Ipv4Addr) {
    let host = u8::from(!engine);
    let gid = ipv4_gid([10, 0, host, number]);
    let mac = Mac([2, 0, 0, 0, host, number]);
    (mac, gid, Ipv4Addr::new(10, 0, host, number))
}

fn flow(conn: u8, engine_is_client: bool) -> TcpFlow {
    let tcp = |engine: bool, port: u16| {
        let (mac, _, address) = end(engine, 1);
        let address = SocketAddr::from((address, port));
        TcpEnd { mac, address }
    };
    TcpFlow {
        client: tcp(engine_is_client, 0xc000 + u16::from(conn)),
        server: tcp(!engine_is_client, 7609),
        vlan: None,
    }
}

fn path(link: u8, by_engine: bool) -> QpPath {
    let number = (link % 10).max(1);
    let (source, destination) = (end(by_engine, number), end(!by_engine, number));
    let qpn = 0x4710 + u32::from(link) + if by_engine { 0 } else { 0x1000 };
    QpPath::new(
        (source.0, source.1),
        (destination.0, destination.1),
        Qpn::new(qpn),
    )
}

/// Writes what was recorded as pcapng. Data of SMC-D, which no wire carries, is left
/// out.
///
/// # Errors
/// [`CaptureError`].
pub fn write<W: Write>(record: &[Record], into: W) -> Result<W, CaptureError> {
    let mut capture = CaptureWriter::new(into)?;
    let mut clients: BTreeMap<u8, bool> = BTreeMap::new();
    let mut psns: BTreeMap<(u8, bool), u32> = BTreeMap::new();
    for Record { at, what } in record {
        let time = at.as_nanos() as u64;
        let tcp = |clients: &BTreeMap<u8, bool>, conn: u8, by_engine: bool| {
            let engine_is_client = clients.get(&conn).copied().unwrap_or(true);
            let direction = if by_engine == engine_is_client {
                Direction::ToServer
            } else {
                Direction::ToClient
            };
            (flow(conn, engine_is_client), direction)
        };
        let mut next = |link: u8, by_engine: bool, packets: u32| {
            let psn = psns.entry((link, by_engine)).or_insert(0);
            let first = Psn::new(*psn);
            *psn = psn.wrapping_add(packets);
            first
        };
        match what {
            Recorded::Open {
                conn,
                engine_is_client,
            } => {
                clients.insert(*conn, *engine_is_client);
                capture.tcp_handshake(time, &flow(*conn, *engine_is_client), true, true)?;
            }
            Recorded::Tcp {
                conn,
                by_engine,
                bytes,
            } => {
                let (flow, direction) = tcp(&clients, *conn, *by_engine);
                capture.tcp_data(time, &flow, direction, bytes)?;
            }
            Recorded::Fin { conn, by_engine } => {
                let (flow, direction) = tcp(&clients, *conn, *by_engine);
                capture.tcp_fin(time, &flow, direction)?;
            }
            Recorded::Reset { conn, by_engine } => {
                let (flow, direction) = tcp(&clients, *conn, *by_engine);
                capture.tcp_reset(time, &flow, direction)?;
            }
            Recorded::Send {
                link,
                by_engine,
                bytes,
            } if bytes.len() != 32 => {
                let psn = next(*link, *by_engine, 1);
                let path = path(*link, *by_engine);
                capture.rdma_send(time, &path, psn, bytes, true)?;
            }
            Recorded::Write {
                link,
                by_engine,
                key,
                address,
                bytes,
            } => {
                let packets = bytes.len().div_ceil(usize::from(MTU)).max(1) as u32;
                let psn = next(*link, *by_engine, packets);
                let (path, key) = (path(*link, *by_engine), RKey(*key as u32));
                capture.rdma_write(time, &path, psn, key, *address, bytes, MTU)?;
            }
            Recorded::Send { .. } => {}
        }
    }
    capture.finish()
}
