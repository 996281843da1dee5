//! What the engine's parts cost. `cargo bench -p conformance --bench engine`

use std::hint::black_box;
use std::time::{Duration, Instant};

use conformance::direct::{DEVICE, Pair};
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use smc_proto::command::RdmaCommand;
use smc_proto::completion::RdmaCompletion;
use smc_proto::connection::Shutdown;
use smc_proto::endpoint::ConnOptions;
use smc_proto::event::Event;
use smc_proto::id::{ConnId, LinkId};
use smc_proto::wire::cdc::{CDC_LENGTH, Cdc};
use smc_proto::wire::clc::{
    AcceptConfirm, ClcMessage, ClcVersion, Decline, MAX_LENGTH, OfferedPath, PeerOs, Proposal,
    Subnets,
};
use smc_proto::wire::types::{
    AlertToken, BufferSize, Cursor, DiagnosisCode, Gid, Mac, Mtu, PeerId, Psn, Qpn, RKey, RToken,
    RmbeIndex,
};

/// Bytes each CDC message of these benchmarks announces.
const STEP: u32 = 64;

/// The CDC messages a peer would send for writes of `STEP` bytes each.
struct Announcements {
    next: Cdc,
    ring: u32,
}

impl Announcements {
    /// Lets the client write, to learn a valid message: these, and the link they
    /// arrive on. The message itself is not delivered.
    fn start(pair: &mut Pair, client: ConnId) -> (Self, LinkId) {
        let now = pair.now;
        pair.hosts[0].write(now, client, &[0; STEP as usize]);
        let send = core::iter::from_fn(|| pair.hosts[0].endpoint.poll_rdma(now, DEVICE)).find_map(
            |command| match command {
                RdmaCommand::Send { link, payload, .. } => Some((link, payload)),
                _ => None,
            },
        );
        // Both ends have one link, the first: its handle is the same.
        let (link, payload) = send.expect("a CDC message");
        let next = Cdc::parse(&payload).expect("a CDC message");
        let ring = BufferSize::K64.octets();
        (Self { next, ring }, link)
    }

    fn next(&mut self) -> [u8; CDC_LENGTH] {
        let bytes = self.next.emit();
        self.next.sequence = self.next.sequence.wrapping_add(1);
        let Cursor { wrap, count } = &mut self.next.producer;
        *count += STEP;
        if *count >= self.ring {
            *count -= self.ring;
            *wrap = wrap.wrapping_add(1);
        }
        bytes
    }
}

fn cdc(c: &mut Criterion) {
    let mut pair = Pair::new(4);
    let (a, b) = pair.open();
    let (mut messages, link) = Announcements::start(&mut pair, a);
    let mut group = c.benchmark_group("cdc");
    group.throughput(Throughput::Elements(1));
    let bytes = messages.next.emit();
    group.bench_function("parse", |bench| {
        bench.iter(|| Cdc::parse(black_box(&bytes)));
    });
    let cdc = messages.next;
    group.bench_function("emit", |bench| bench.iter(|| black_box(&cdc).emit()));
    group.bench_function("parse and apply", |bench| {
        bench.iter_custom(|iterations| {
            let mut time = Duration::ZERO;
            let mut left = iterations;
            while left > 0 {
                // Half a ring of bytes at a time, then the receiver reads them all.
                let batch = left.min(512);
                left -= batch;
                let bytes: Vec<_> = (0..batch).map(|_| messages.next()).collect();
                let now = pair.now;
                let endpoint = &mut pair.hosts[1].endpoint;
                let start = Instant::now();
                for payload in &bytes {
                    endpoint.handle_rdma(now, RdmaCompletion::Received { link, payload });
                }
                time += start.elapsed();
                let mut connection = endpoint.conn(b).expect("a connection");
                let readable = connection.readable().map_or(0, |spans| spans.len());
                assert_eq!(u64::from(readable), batch * u64::from(STEP));
                connection.consume(now, readable).expect("it was readable");
                while endpoint.poll_event().is_some() {}
                // A cursor update goes nowhere, but its completion comes back.
                while let Some(command) = endpoint.poll_rdma(now, DEVICE) {
                    if let RdmaCommand::Send { link, wr_id, .. } = command {
                        endpoint.handle_rdma(now, RdmaCompletion::Sent { link, wr_id });
                    }
                }
            }
            time
        });
    });
    group.finish();
}

fn clc(c: &mut Criterion) {
    let (mac, gid) = (Mac([2, 0, 0, 0, 0, 1]), Gid([7; 16]));
    let peer_id = PeerId::new(1, mac);
    let proposal = ClcMessage::Proposal(Proposal {
        version: ClcVersion::V1,
        v1: OfferedPath::SmcR,
        peer_id,
        gid,
        mac,
        ism: None,
        subnets: Subnets::default(),
        v2_offer: None,
    });
    let accept = ClcMessage::Accept(AcceptConfirm {
        first_contact: true,
        peer_id,
        gid,
        mac,
        qpn: Qpn::new(1),
        rtoken: RToken {
            rkey: RKey(1),
            address: 0x1000,
        },
        rmbe_index: RmbeIndex(1),
        alert_token: AlertToken(1),
        buffer_size: BufferSize::K64,
        mtu: Mtu::M1024,
        psn: Psn::new(1),
        v2: None,
    });
    let decline = ClcMessage::Decline(Decline {
        version: ClcVersion::V1,
        out_of_sync: false,
        peer_id,
        diagnosis: DiagnosisCode::NO_DEVICE,
        os: PeerOs::UNKNOWN,
    });
    let mut group = c.benchmark_group("clc");
    group.throughput(Throughput::Elements(1));
    for message in [proposal, accept, decline] {
        let mut bytes = [0; MAX_LENGTH];
        let length = message.emit(&mut bytes).expect("room for every message");
        let bytes = &bytes[..length];
        let name = format!("parse {}", message.kind());
        group.bench_function(name, |bench| {
            bench.iter(|| ClcMessage::parse(black_box(bytes)));
        });
    }
    group.finish();
}

/// One write, its delivery, and its reading by the other side.
fn deliver(pair: &mut Pair, from: usize, ends: [ConnId; 2], data: &[u8], into: &mut [u8]) -> usize {
    let now = pair.now;
    let written = pair.hosts[from].write(now, ends[from], data);
    pair.pump_data(from);
    while pair.hosts[1 - from].endpoint.poll_event().is_some() {}
    let read = pair.hosts[1 - from].read(now, ends[1 - from], into);
    debug_assert_eq!(written, read);
    read
}

fn data(c: &mut Criterion) {
    let mut bytes = vec![0; 64 << 10];
    let mut group = c.benchmark_group("data");
    group.bench_function("round trip of 64 octets", |bench| {
        let mut pair = Pair::new(1);
        let (a, b) = pair.open();
        bench.iter(|| {
            deliver(&mut pair, 0, [a, b], &[7; 64], &mut bytes)
                + deliver(&mut pair, 1, [a, b], &[7; 64], &mut bytes)
        });
    });
    for size in [64, 4 << 10, 64 << 10] {
        group.throughput(Throughput::Bytes(size as u64));
        group.bench_function(format!("stream in writes of {size}"), |bench| {
            let mut pair = Pair::new(1);
            let (a, b) = pair.open();
            let data = vec![7; size];
            bench.iter(|| {
                let mut left = size;
                while left > 0 {
                    left -= deliver(&mut pair, 0, [a, b], &data[..left], &mut bytes);
                    // Cursor updates of the reader.
                    pair.pump_data(1);
                    while pair.hosts[0].endpoint.poll_event().is_some() {}
                }
            });
        });
    }
    group.finish();
}

fn small_buffers() -> ConnOptions {
    let mut options = ConnOptions::new(Subnets::default());
    options.receive_buffer = Some(BufferSize::K16);
    options.send_buffer = Some(BufferSize::K16);
    options
}

fn close(pair: &mut Pair, ends: [ConnId; 2]) {
    let now = pair.now;
    for (side, conn) in ends.into_iter().enumerate() {
        if let Some(mut connection) = pair.hosts[side].endpoint.conn(conn) {
            connection.shutdown(now, Shutdown::Both);
        }
    }
    pair.pump();
    for host in &mut pair.hosts {
        assert!(matches!(host.events.last(), Some(Event::Closed { .. })));
        host.events.clear();
        host.tcp.clear();
    }
}

fn connections(c: &mut Criterion) {
    let mut group = c.benchmark_group("connections");
    group.throughput(Throughput::Elements(1));
    // Both ends, CLC messages of both, buffers of 16 KiB reused and zeroed.
    group.bench_function("subsequent contact and close", |bench| {
        let mut pair = Pair::new(2);
        pair.open_with(small_buffers(), small_buffers());
        bench.iter(|| {
            let (a, b) = pair.open_with(small_buffers(), small_buffers());
            close(&mut pair, [a, b]);
        });
    });
    // Queue pairs, buffers and registrations made, LLC messages of both ends.
    group.bench_function("first contact", |bench| {
        bench.iter_batched(
            || Pair::new(1),
            |mut pair| {
                pair.open_with(small_buffers(), small_buffers());
                pair
            },
            BatchSize::SmallInput,
        );
    });
    group.finish();
}

criterion_group!(engine, cdc, clc, data, connections);
criterion_main!(engine);
