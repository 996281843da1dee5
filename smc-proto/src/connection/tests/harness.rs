//! Two connections, real memory behind them, and a network that obeys.

use super::fast::Beside;
use crate::command::{DataTransmit, DataWrite};
use crate::config::ConnectionConfig;
use crate::connection::*;
use crate::time::Instant;
use crate::wire::cdc::{Cdc, ConnectionFlags, ProducerFlags};
use crate::wire::types::AlertToken;
use std::collections::VecDeque;
use std::vec::Vec;

/// A message on the way to the peer, in the order of its link.
pub(super) enum Message {
    Write { offset: usize, bytes: Vec<u8> },
    Cdc(Cdc, NotifyRecord),
}

pub(super) struct Side {
    pub(super) conn: Connection,
    pub(super) send_ring: Vec<u8>,
    pub(super) rmbe: Vec<u8>,
    /// Emitted, not yet arrived at the peer.
    pub(super) link: VecDeque<Message>,
    /// Arrived at the peer, completion not yet reported.
    pub(super) done: VecDeque<NotifyRecord>,
    /// Bytes committed and read so far; byte n of a stream is `byte(n)`.
    pub(super) committed: u64,
    pub(super) read: u64,
    pub(super) notices: Notices,
    pub(super) closed_notices: u32,
    /// C or A is out.
    pub(super) silent: bool,
    pub(super) outcomes: Vec<CdcOutcome>,
    pub(super) cdcs: Vec<Cdc>,
}

pub(super) struct Pair {
    pub(super) now: Instant,
    pub(super) cfg: ConnectionConfig,
    pub(super) sides: [Side; 2],
}

/// What a connection transmits at once.
#[derive(PartialEq, Eq, Debug)]
pub(super) struct Transmitted {
    pub(super) writes: Vec<DataWrite>,
    pub(super) cdc: Cdc,
    pub(super) record: NotifyRecord,
}

/// The next transmit of a connection whose peer's element is at address 0.
pub(super) fn take_transmit(
    conn: &mut Connection,
    now: Instant,
    cfg: &ConnectionConfig,
) -> Option<Transmitted> {
    let wanted = conn.wants_work();
    let mut transmit = DataTransmit::EMPTY;
    let beside = Beside::transmit(conn);
    let sent = conn.next_transmit(now, cfg, 0, &mut transmit);
    beside.compare_transmit(conn, sent, &transmit);
    assert_eq!(
        wanted,
        sent.is_some(),
        "wants_work and next_transmit differ: {conn:?}"
    );
    let Sent {
        record,
        bytes,
        blocked,
    } = sent?;
    // Over the wire.
    let cdc = transmit.cdc;
    assert_eq!(
        blocked,
        cdc.producer_flags.contains(ProducerFlags::WRITER_BLOCKED)
    );
    let [first, second] = transmit.writes;
    assert!(second.is_empty() || !first.is_empty());
    assert_eq!(bytes, first.len() + second.len());
    let writes = transmit
        .writes
        .into_iter()
        .filter(|write| !write.is_empty());
    Some(Transmitted {
        writes: writes.collect(),
        cdc,
        record,
    })
}

pub(super) fn octet(n: u64) -> u8 {
    (n ^ (n >> 8) ^ 0x5a) as u8
}

pub(super) fn params(receive: Ring, peer: Ring, send_buffer: u32) -> ConnectionParams {
    ConnectionParams {
        alert_token_peer: AlertToken(7),
        receive,
        peer,
        send_buffer,
        nodelay: false,
        urgent_inline: true,
    }
}

impl Side {
    fn new(params: &ConnectionParams, cfg: &ConnectionConfig) -> Self {
        Self {
            conn: Connection::new(params, cfg),
            send_ring: std::vec![0; params.send_buffer as usize],
            rmbe: std::vec![0xee; params.receive.end() as usize],
            link: VecDeque::new(),
            done: VecDeque::new(),
            committed: 0,
            read: 0,
            notices: Notices::empty(),
            closed_notices: 0,
            silent: false,
            outcomes: Vec::new(),
            cdcs: Vec::new(),
        }
    }

    pub(super) fn last_cdc(&self) -> Cdc {
        *self.cdcs.last().expect("a CDC message was sent")
    }
}

impl Pair {
    pub(super) fn new(a: Ring, b: Ring, send_buffer: u32) -> Self {
        Self::with(a, b, send_buffer, true)
    }

    pub(super) fn with(a: Ring, b: Ring, send_buffer: u32, inline: bool) -> Self {
        Self::configured(ConnectionConfig::DEFAULT, a, b, send_buffer, inline)
    }

    /// Connections of SMC-D: the peer may give back the memory that it has written once it has C
    /// or A (D-061).
    #[cfg(feature = "smc-d")]
    pub(super) fn over_smcd(mut self) -> Self {
        for side in &mut self.sides {
            side.conn = side.conn.clone().over_smcd();
        }
        self
    }

    pub(super) fn configured(
        cfg: ConnectionConfig,
        a: Ring,
        b: Ring,
        send_buffer: u32,
        inline: bool,
    ) -> Self {
        let mut pa = params(a, b, send_buffer);
        let mut pb = params(b, a, send_buffer);
        pa.urgent_inline = inline;
        pb.urgent_inline = inline;
        Self {
            now: Instant::from_nanos(1_000),
            cfg,
            sides: [Side::new(&pa, &cfg), Side::new(&pb, &cfg)],
        }
    }

    /// Two sides with rings of `usable` bytes from 0 and send buffers as large.
    pub(super) fn of(usable: u32) -> Self {
        let ring = Ring::new(0, usable).expect("a ring");
        Self::new(ring, ring, usable)
    }

    pub(super) fn conn(&mut self, side: usize) -> &mut Connection {
        &mut self.sides[side].conn
    }

    /// Commits up to `len` bytes, as many as there is space for.
    pub(super) fn send(&mut self, side: usize, len: u32, urgent: bool) -> u32 {
        let s = &mut self.sides[side];
        let space = s.conn.send_space();
        let len = len.min(space.len());
        let mut n = s.committed;
        for span in space.iter() {
            for at in span.offset..span.offset + span.len {
                if n - s.committed < u64::from(len) {
                    s.send_ring[at as usize] = octet(n);
                    n += 1;
                }
            }
        }
        let result = if urgent {
            s.conn.commit_urgent(self.now, &self.cfg, len)
        } else {
            s.conn.commit(self.now, &self.cfg, len)
        };
        match result {
            Ok(()) => {
                s.committed += u64::from(len);
                self.check();
                len
            }
            Err(_) => 0,
        }
    }

    /// Reads up to `len` bytes and compares them with what was sent.
    pub(super) fn recv(&mut self, side: usize, len: u32) -> u32 {
        let s = &mut self.sides[side];
        let readable = s.conn.readable();
        let len = len.min(readable.len());
        let mut left = len;
        for span in readable.iter() {
            for at in span.offset..span.offset + span.len.min(left) {
                assert_eq!(s.rmbe[at as usize], octet(s.read), "octet {}", s.read);
                s.read += 1;
                left -= 1;
            }
        }
        match s.conn.consume(len) {
            // An urgent byte that was taken out of line is stepped over.
            Ok(()) if len > 0 => s.read = s.conn.rx.consumed.total,
            Ok(()) => {}
            Err(_) => assert_eq!(len, 0),
        }
        self.check();
        len
    }

    /// Executes what the side wants on its link; returns the number of work requests.
    pub(super) fn poll(&mut self, side: usize) -> u32 {
        let mut steps = 0;
        loop {
            let (now, cfg) = (self.now, self.cfg);
            let s = &mut self.sides[side];
            let may_write = !s.conn.close.final_decided();
            let Some(transmit) = take_transmit(&mut s.conn, now, &cfg) else {
                return steps;
            };
            assert!(!s.silent, "{transmit:?} after C or A");
            steps += 1;
            assert!(steps < 10, "endless work");
            for write in transmit.writes {
                steps += 1;
                assert!(may_write, "write after C or A");
                self.write(side, &write);
            }
            let cdc = transmit.cdc;
            let s = &mut self.sides[side];
            s.silent = cdc.connection_flags.intersects(
                ConnectionFlags::PEER_CONNECTION_CLOSED | ConnectionFlags::ABNORMAL_CLOSE,
            ) && !cdc
                .producer_flags
                .contains(ProducerFlags::FAILOVER_VALIDATION);
            s.cdcs.push(cdc);
            s.link.push_back(Message::Cdc(cdc, transmit.record));
            self.check();
        }
    }

    fn write(&mut self, side: usize, write: &DataWrite) {
        let s = &mut self.sides[side];
        let bytes: Vec<u8> = write
            .source
            .iter()
            .flat_map(|piece| {
                let from = piece.offset as usize;
                s.send_ring[from..from + piece.length as usize].to_vec()
            })
            .collect();
        assert_eq!(bytes.len(), write.len() as usize);
        let offset = u32::try_from(write.address).expect("in the element");
        s.link.push_back(Message::Write {
            offset: offset as usize,
            bytes,
        });
        // What is written must fit behind what the peer has really read.
        let written = s.conn.tx.written.total;
        let peer = &self.sides[1 - side].conn.rx;
        assert!(offset >= peer.ring.base());
        assert!(offset + write.len() <= peer.ring.end());
        assert!(
            written <= peer.consumed.total + u64::from(peer.ring.usable()),
            "write outside the window"
        );
    }

    /// Delivers the next message of a side; false if there is none.
    pub(super) fn deliver(&mut self, from: usize) -> bool {
        let Some(message) = self.sides[from].link.pop_front() else {
            return false;
        };
        let (now, cfg) = (self.now, self.cfg);
        match message {
            Message::Write { offset, bytes } => {
                let peer = &mut self.sides[1 - from];
                peer.rmbe[offset..offset + bytes.len()].copy_from_slice(&bytes);
            }
            Message::Cdc(cdc, record) => {
                // Over the wire and back.
                let cdc = Cdc::parse(&cdc.emit()).expect("our own message");
                let peer = &mut self.sides[1 - from].conn;
                let beside = Beside::cdc(peer, &cdc);
                let outcome = peer.on_cdc(now, &cfg, &cdc);
                beside.compare_cdc(peer, outcome);
                assert!(!matches!(outcome, CdcOutcome::Misbehaved(_)), "{outcome:?}");
                self.sides[1 - from].outcomes.push(outcome);
                self.sides[from].done.push_back(record);
            }
        }
        self.check();
        true
    }

    /// Reports the oldest completion of a side; false if there is none.
    pub(super) fn complete(&mut self, side: usize) -> bool {
        let (now, cfg) = (self.now, self.cfg);
        let Some(record) = self.sides[side].done.pop_front() else {
            return false;
        };
        let conn = &mut self.sides[side].conn;
        let beside = Beside::completion(conn, record);
        conn.on_notify_completed(now, &cfg, record);
        beside.compare_completion(conn);
        self.check();
        true
    }

    /// Lets the network run until nothing moves.
    pub(super) fn run(&mut self) {
        for _ in 0..100_000 {
            let mut moved = false;
            for side in [0, 1] {
                moved |= self.poll(side) > 0;
                moved |= self.deliver(side);
                moved |= self.complete(side);
            }
            if !moved {
                return;
            }
        }
        panic!("the network does not come to rest");
    }

    pub(super) fn shutdown(&mut self, side: usize, how: Shutdown) {
        let (now, cfg) = (self.now, self.cfg);
        self.conn(side).shutdown(now, &cfg, how);
        self.check();
    }

    pub(super) fn abort(&mut self, side: usize) {
        let (now, cfg) = (self.now, self.cfg);
        self.conn(side).abort(now, &cfg);
        self.check();
    }

    pub(super) fn states(&self) -> [CloseState; 2] {
        [self.sides[0].conn.state(), self.sides[1].conn.state()]
    }
}
