//! A capture that the simulator could have written: every message there is,
//! over IPv4 and IPv6, with and without VLAN.

use core::net::{Ipv4Addr, Ipv6Addr};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;

use smc_capture::writer::{CaptureWriter, Direction, QpPath, TcpEnd, TcpFlow};
use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use smc_proto::wire::clc::{AcceptConfirm, ClcMessage, ClcVersion, Decline, MAX_LENGTH, PeerOs};
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{AlertToken, Cursor, DiagnosisCode, Gid, PeerId, Psn, Qpn, RKey};

use super::messages::{CLIENT_MAC, SERVER_MAC, TOKEN, accept, link_messages, proposal};

/// What was written: the message as its bytes, or what else is to be found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Written {
    Option {
        syn_ack: bool,
    },
    Message(Vec<u8>),
    Write {
        rkey: RKey,
        address: u64,
        payload: Vec<u8>,
    },
}

/// Addresses of the two hosts in one family.
struct Hosts {
    client: Gid,
    server: Gid,
    flow: TcpFlow,
}

fn hosts(ipv6: bool, vlan: Option<u16>) -> Hosts {
    let (client, server) = if ipv6 {
        let address = |last| Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, last);
        (address(2), address(1))
    } else {
        let address = |last| Ipv4Addr::new(10, 9, 9, last).to_ipv6_mapped();
        (address(2), address(1))
    };
    let end = |mac, address: Ipv6Addr, port| TcpEnd {
        mac,
        address: (address.to_canonical(), port).into(),
    };
    Hosts {
        client: Gid(client.octets()),
        server: Gid(server.octets()),
        flow: TcpFlow {
            client: end(CLIENT_MAC, client, 40_000),
            server: end(SERVER_MAC, server, 12_865),
            vlan,
        },
    }
}

/// A capture being written, and what is in it.
struct Session {
    writer: CaptureWriter<BufWriter<File>>,
    hosts: Hosts,
    time: u64,
    psn: [u32; 2],
    written: Vec<Written>,
}

impl Session {
    fn now(&mut self) -> u64 {
        self.time += 1_234_567;
        self.time
    }

    fn path(&self, to_server: bool) -> QpPath {
        let client = (CLIENT_MAC, self.hosts.client);
        let server = (SERVER_MAC, self.hosts.server);
        let mut path = if to_server {
            QpPath::new(client, server, Qpn::new(0x11))
        } else {
            QpPath::new(server, client, Qpn::new(0x22))
        };
        path.ethernet.vlan = self.hosts.flow.vlan;
        path
    }

    /// The next packet number of a direction.
    fn psn(&mut self, to_server: bool, packets: u32) -> Psn {
        let next = &mut self.psn[usize::from(to_server)];
        let psn = Psn::new(*next);
        *next += packets;
        psn
    }

    fn handshake(&mut self, server_smc: bool) {
        let time = self.now();
        let flow = self.hosts.flow;
        self.writer.comment("the client's SYN");
        self.writer
            .tcp_handshake(time, &flow, true, server_smc)
            .unwrap();
        self.written.push(Written::Option { syn_ack: false });
        if server_smc {
            self.written.push(Written::Option { syn_ack: true });
        }
    }

    fn clc(&mut self, direction: Direction, message: &ClcMessage) {
        let mut buffer = [0; MAX_LENGTH];
        let length = message.emit(&mut buffer).unwrap();
        let (time, flow) = (self.now(), self.hosts.flow);
        self.writer
            .tcp_data(time, &flow, direction, &buffer[..length])
            .unwrap();
        self.written
            .push(Written::Message(buffer[..length].to_vec()));
    }

    fn send(&mut self, to_server: bool, octets: [u8; 44]) {
        let (time, path) = (self.now(), self.path(to_server));
        let psn = self.psn(to_server, 1);
        self.writer
            .rdma_send(time, &path, psn, &octets, true)
            .unwrap();
        self.writer
            .rdma_ack(time + 1_000, &self.path(!to_server), psn, 1)
            .unwrap();
        self.written.push(Written::Message(octets.to_vec()));
    }

    fn llc(&mut self, to_server: bool, message: LlcMessage<'static>) {
        self.send(to_server, message.emit_short(SmcVersion::V1).unwrap());
    }

    fn write(&mut self, to_server: bool, payload: &[u8], mtu: u16) {
        let (time, path) = (self.now(), self.path(to_server));
        let (rkey, address) = (TOKEN.rkey, TOKEN.address + 4);
        let packets = payload.len().div_ceil(usize::from(mtu)).max(1) as u32;
        let psn = self.psn(to_server, packets);
        let used = self
            .writer
            .rdma_write(time, &path, psn, rkey, address, payload, mtu);
        assert_eq!(used.unwrap(), packets);
        let payload = payload.to_vec();
        self.written.push(Written::Write {
            rkey,
            address,
            payload,
        });
    }
}

/// Writes a capture and returns what is in it.
pub(crate) fn write_everything(file: &Path) -> Vec<Written> {
    let file = BufWriter::new(File::create(file).unwrap());
    let mut session = Session {
        writer: CaptureWriter::new(file).unwrap(),
        hosts: hosts(false, None),
        time: 1_700_000_000_000_000_000,
        psn: [0xff_fffe, 7],
        written: Vec::new(),
    };
    for (ipv6, vlan) in [(false, None), (true, Some(42))] {
        session.hosts = hosts(ipv6, vlan);
        conversation(&mut session, ipv6);
        session.hosts.flow.client.address.set_port(40_001);
        declined(&mut session);
        session.hosts.flow.client.address.set_port(40_002);
        session.handshake(false);
        let (time, flow) = (session.now(), session.hosts.flow);
        session
            .writer
            .tcp_data(time, &flow, Direction::ToServer, b"hello")
            .unwrap();
        session
            .writer
            .tcp_reset(time, &flow, Direction::ToClient)
            .unwrap();
    }
    session.writer.finish().unwrap();
    session.written
}

fn declined(session: &mut Session) {
    session.handshake(true);
    let offer = proposal(session.hosts.client, false);
    session.clc(Direction::ToServer, &ClcMessage::Proposal(offer));
    let decline = Decline {
        version: ClcVersion::V1,
        out_of_sync: false,
        peer_id: PeerId::new(0x19b4, SERVER_MAC),
        diagnosis: DiagnosisCode::NO_SMCR_DEVICE,
        os: PeerOs(0),
    };
    session.clc(Direction::ToClient, &ClcMessage::Decline(decline));
    let (time, flow) = (session.now(), session.hosts.flow);
    session
        .writer
        .tcp_data(time, &flow, Direction::ToServer, &[0xe2; 3000])
        .unwrap();
    session
        .writer
        .tcp_fin(time, &flow, Direction::ToServer)
        .unwrap();
}

fn conversation(session: &mut Session, ipv6: bool) {
    session.handshake(true);
    let offer = proposal(session.hosts.client, ipv6);
    session.clc(Direction::ToServer, &ClcMessage::Proposal(offer));
    let server = accept(session.hosts.server);
    session.clc(Direction::ToClient, &ClcMessage::Accept(server));
    let client = AcceptConfirm {
        peer_id: PeerId::new(0x643d, CLIENT_MAC),
        gid: session.hosts.client,
        mac: CLIENT_MAC,
        qpn: Qpn::new(0x22),
        psn: Psn::new(7),
        ..server
    };
    session.clc(Direction::ToServer, &ClcMessage::Confirm(client));
    for message in link_messages(session.hosts.client, session.hosts.server) {
        let reply = message.is_reply();
        session.llc(reply, message);
    }
    let payload: Vec<u8> = (0..2500_u32).map(|index| index as u8).collect();
    session.write(true, &payload, 1024);
    let mut cdc = Cdc {
        sequence: 1,
        alert_token: AlertToken(0xdead_beef),
        producer: Cursor {
            wrap: 0,
            count: 2504,
        },
        consumer: Cursor { wrap: 0, count: 4 },
        producer_flags: ProducerFlags::URGENT_PENDING | ProducerFlags::URGENT_PRESENT,
        connection_flags: ConnectionFlags::empty(),
    };
    session.send(true, cdc.emit());
    session.write(false, b"x", 1024);
    session.write(false, &payload[..2048], 1024);
    cdc.producer = Cursor {
        wrap: 3,
        count: 65_535,
    };
    cdc.producer_flags = ProducerFlags::WRITER_BLOCKED;
    cdc.connection_flags = ConnectionFlags::SENDING_DONE;
    session.send(false, cdc.emit());
}
