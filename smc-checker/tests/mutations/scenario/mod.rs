//! Forged captures: a conversation line by line, in which a test changes one thing.

pub(crate) mod valid;

use core::net::{Ipv4Addr, SocketAddr};
use std::collections::HashMap;

use smc_capture::writer::{CaptureWriter, Direction, QpPath, TcpEnd, TcpFlow};
use smc_checker::Report;
use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::{ClcMessage, MAX_LENGTH};
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{AlertToken, Cursor, Gid, Mac, Psn, Qpn, RKey};

pub(crate) const SERVER: usize = 0;
pub(crate) const CLIENT: usize = 1;

/// What crosses the wire.
#[derive(Clone)]
#[allow(clippy::large_enum_variant, reason = "a scenario has some dozen lines")]
pub(crate) enum What {
    /// Both SYNs, with the option or without.
    Handshake { client: bool, server: bool },
    /// A CLC message.
    Clc(ClcMessage),
    /// Bytes on TCP.
    Tcp(Vec<u8>),
    /// An LLC message.
    Llc(LlcMessage<'static>),
    /// A CDC message.
    Cdc(Cdc),
    /// An RDMA WRITE of so many bytes, in packets of so many.
    Write {
        rkey: u32,
        address: u64,
        length: u32,
        mtu: u16,
    },
}

/// One line of a conversation.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) name: &'static str,
    /// TCP connection, or link counted from 0.
    pub(crate) on: usize,
    pub(crate) from: usize,
    pub(crate) what: What,
    /// Bytes that are changed after all.
    pub(crate) patch: Option<(usize, u8)>,
    /// Packets of the sender that are missing before it.
    pub(crate) missing: u32,
    /// Milliseconds before it.
    pub(crate) pause: u64,
}

impl Line {
    pub(crate) fn new(name: &'static str, on: usize, from: usize, what: What) -> Self {
        Self {
            name,
            on,
            from,
            what,
            patch: None,
            missing: 0,
            pause: 1,
        }
    }

    pub(crate) fn clc(&mut self) -> &mut ClcMessage {
        match &mut self.what {
            What::Clc(message) => message,
            _ => panic!("{} is no CLC message", self.name),
        }
    }

    pub(crate) fn cdc(&mut self) -> &mut Cdc {
        match &mut self.what {
            What::Cdc(cdc) => cdc,
            _ => panic!("{} is no CDC message", self.name),
        }
    }

    pub(crate) fn llc(&mut self) -> &mut LlcMessage<'static> {
        match &mut self.what {
            What::Llc(message) => message,
            _ => panic!("{} is no LLC message", self.name),
        }
    }

    fn octets(&self) -> Vec<u8> {
        let mut bytes = match &self.what {
            What::Clc(message) => {
                let mut buffer = [0; MAX_LENGTH];
                let length = message.emit(&mut buffer).expect("room");
                buffer[..length].to_vec()
            }
            What::Tcp(bytes) => bytes.clone(),
            What::Llc(message) => message.emit_short(SmcVersion::V1).unwrap().to_vec(),
            What::Cdc(cdc) => cdc.emit().to_vec(),
            What::Handshake { .. } | What::Write { .. } => Vec::new(),
        };
        if let Some((place, byte)) = self.patch {
            bytes[place] = byte;
        }
        bytes
    }
}

/// A conversation.
#[derive(Clone)]
pub(crate) struct Scenario(pub(crate) Vec<Line>);

impl Scenario {
    #[track_caller]
    pub(crate) fn place(&self, name: &str) -> usize {
        let place = self.0.iter().position(|line| line.name == name);
        place.unwrap_or_else(|| panic!("no line {name}"))
    }

    #[track_caller]
    pub(crate) fn line(&mut self, name: &str) -> &mut Line {
        let place = self.place(name);
        &mut self.0[place]
    }

    #[track_caller]
    pub(crate) fn remove(&mut self, name: &str) -> Line {
        let place = self.place(name);
        self.0.remove(place)
    }

    #[track_caller]
    pub(crate) fn insert_behind(&mut self, name: &str, line: Line) {
        let place = self.place(name);
        self.0.insert(place + 1, line);
    }

    #[track_caller]
    pub(crate) fn move_behind(&mut self, name: &str, after: &str) {
        let line = self.remove(name);
        self.insert_behind(after, line);
    }

    /// The conversation up to a line.
    #[track_caller]
    pub(crate) fn up_to(mut self, name: &str) -> Self {
        let end = self.place(name) + 1;
        self.0.truncate(end);
        self
    }

    /// The capture of it.
    pub(crate) fn written(&self) -> Vec<u8> {
        let mut writer = CaptureWriter::new(Vec::new()).expect("memory");
        let mut psns: HashMap<(usize, usize), u32> = HashMap::new();
        let mut time = 0;
        for line in &self.0 {
            time += line.pause * 1_000_000;
            let flow = flow(line.on);
            let direction = [Direction::ToClient, Direction::ToServer][line.from];
            match line.what {
                What::Handshake { client, server } => {
                    writer.tcp_handshake(time, &flow, client, server)
                }
                What::Clc(_) | What::Tcp(_) => {
                    writer.tcp_data(time, &flow, direction, &line.octets())
                }
                What::Llc(_) | What::Cdc(_) | What::Write { .. } => {
                    let next = psns.entry((line.on, line.from));
                    let next = next.or_insert_with(|| valid::psn(line.on, line.from).value());
                    *next += line.missing;
                    let psn = Psn::new(*next);
                    let path = path(line.on, line.from);
                    if let What::Write {
                        rkey,
                        address,
                        length,
                        mtu,
                    } = line.what
                    {
                        let payload = vec![7; length as usize];
                        let packets = writer
                            .rdma_write(time, &path, psn, RKey(rkey), address, &payload, mtu)
                            .expect("memory");
                        *next += packets;
                        Ok(())
                    } else {
                        *next += 1;
                        writer.rdma_send(time, &path, psn, &line.octets(), true)
                    }
                }
            }
            .expect("memory");
        }
        writer.finish().expect("memory")
    }

    /// Returns the report of the checker.
    pub(crate) fn judged(&self) -> Report {
        smc_checker::check(self.written().as_slice()).expect("a capture")
    }
}

pub(crate) fn gid(host: usize, rnic: usize) -> Gid {
    let address = Ipv4Addr::new(10, 9, 9 - rnic as u8, host as u8 + 1);
    Gid(address.to_ipv6_mapped().octets())
}

pub(crate) fn mac(host: usize, rnic: usize) -> Mac {
    Mac([2, 0, 0, 0, rnic as u8, host as u8 + 1])
}

pub(crate) fn qpn(link: usize, host: usize) -> Qpn {
    Qpn::new(0x11 + 0x10 * link as u32 + host as u32)
}

fn flow(connection: usize) -> TcpFlow {
    let end = |host, port| TcpEnd {
        mac: mac(host, 0),
        address: SocketAddr::from((Ipv4Addr::new(10, 9, 9, host as u8 + 1), port)),
    };
    TcpFlow {
        client: end(CLIENT, 40_000 + connection as u16),
        server: end(SERVER, 5000),
        vlan: None,
    }
}

fn path(link: usize, from: usize) -> QpPath {
    let to = 1 - from;
    QpPath::new(
        (mac(from, link), gid(from, link)),
        (mac(to, link), gid(to, link)),
        qpn(link, to),
    )
}

/// A CDC message without flags.
pub(crate) fn cdc(sequence: u16, token: u32, produced: u32, consumed: u32) -> Cdc {
    let cursor = |count| Cursor { wrap: 0, count };
    Cdc {
        sequence,
        alert_token: AlertToken(token),
        producer: cursor(produced),
        consumer: cursor(consumed),
        producer_flags: ProducerFlags::empty(),
        connection_flags: ConnectionFlags::empty(),
    }
}
