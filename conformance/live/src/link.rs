//! A queue pair of the peer: what it sends, and what comes over it.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use smc_proto::command::Segment;
use smc_proto::wire::types::Psn;
use smc_transport_verbs::memory::Memory;
use smc_transport_verbs::rnic::{
    Access, Connect, Piece, QueuePairSpec, RECEIVE_DEPTH, Rnic, SendRequest, Source, Status, Work,
    WorkCompletion,
};

/// Bytes of the longest message.
const MESSAGE: u32 = 8192;
/// Messages in flight to the engine.
const SENDS: u32 = 16;
/// Bytes for what is written.
const WRITES: u32 = 256 << 10;
const SENDS_AT: u32 = RECEIVE_DEPTH * MESSAGE;
const WRITES_AT: u32 = SENDS_AT + SENDS * MESSAGE;
const LENGTH: u32 = WRITES_AT + WRITES;
/// Numbers of receives; sends have theirs behind them.
const FIRST_SEND: u64 = 1 << 32;
/// How long the engine's RNIC may leave messages unanswered.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A queue pair and what is registered at it, which goes first.
pub(crate) struct Link<R: Rnic> {
    /// By connection.
    pub(crate) rmbs: BTreeMap<u8, R::Region>,
    region: R::Region,
    memory: Arc<Memory>,
    pair: R::QueuePair,
    /// The RNIC it is of.
    pub(crate) rnic: usize,
    pub(crate) qpn: u32,
    pub(crate) psn: Psn,
    /// The engine's, once it is known.
    pub(crate) peer: Option<u32>,
    sent: u64,
    done: u64,
    written: u32,
    pub(crate) broken: bool,
    received: VecDeque<Vec<u8>>,
}

impl<R: Rnic> Link<R> {
    pub(crate) fn new(rnics: &[super::Nic<R>], rnic: usize, number: u8) -> Result<Self, String> {
        let of = rnics.get(rnic).ok_or("the peer has no such RNIC")?;
        let spec = QueuePairSpec {
            token: number.into(),
            port: of.port,
            gid_index: of.gid_index,
            inline: 0,
        };
        let describe = |error: smc_transport_verbs::rnic::RnicError| error.to_string();
        let (pair, facts) = of.rnic.create_queue_pair(&spec).map_err(describe)?;
        let memory = Memory::new(LENGTH as usize).map_err(|error| error.to_string())?;
        let memory = Arc::new(memory);
        let region = of.rnic.register(&pair, &memory, Access::Local);
        let link = Self {
            rmbs: BTreeMap::new(),
            region: region.map_err(describe)?,
            memory,
            pair,
            rnic,
            qpn: facts.qpn.value(),
            psn: Psn::new(0x0077_0000 + u32::from(number)),
            peer: None,
            sent: 0,
            done: 0,
            written: 0,
            broken: false,
            received: VecDeque::new(),
        };
        for slot in 0..RECEIVE_DEPTH {
            link.receive(&of.rnic, slot)?;
        }
        Ok(link)
    }

    /// Binds it to the engine's.
    pub(crate) fn join(&mut self, rnic: &R, to: &Connect) -> Result<(), String> {
        rnic.connect(&self.pair, to).map_err(|e| e.to_string())?;
        rnic.activate(&self.pair, self.psn)
            .map_err(|e| e.to_string())?;
        self.peer = Some(to.peer.qpn.value());
        Ok(())
    }

    pub(crate) fn register(
        &mut self,
        rnic: &R,
        conn: u8,
        memory: &Arc<Memory>,
    ) -> Result<(), String> {
        if !self.rmbs.contains_key(&conn) {
            let region = rnic.register(&self.pair, memory, Access::RemoteWrite);
            self.rmbs.insert(conn, region.map_err(|e| e.to_string())?);
        }
        Ok(())
    }

    fn piece(&self, offset: u32, length: u32) -> Piece<'_, R::Region> {
        Piece {
            region: &self.region,
            segments: [Segment { offset, length }, Segment::default()],
        }
    }

    fn receive(&self, rnic: &R, slot: u32) -> Result<(), String> {
        let into = self.piece(slot * MESSAGE, MESSAGE);
        let posted = rnic.post_receive(&self.pair, slot.into(), into);
        posted.map_err(|error| error.to_string())
    }

    /// A SEND.
    pub(crate) fn send(&mut self, rnic: &R, bytes: &[u8]) -> Result<(), String> {
        let begun = Instant::now();
        while self.sent - self.done >= SENDS.into() && !self.broken {
            self.poll(rnic);
            if begun.elapsed() > TIMEOUT {
                return Err("the engine's RNIC does not take it".to_owned());
            }
        }
        let slot = (self.sent % u64::from(SENDS)) as u32;
        let offset = SENDS_AT + slot * MESSAGE;
        if bytes.len() > MESSAGE as usize {
            return Err(format!("{} octets are too many for a message", bytes.len()));
        }
        let copied = self.memory.copy_in(offset.into(), bytes);
        copied.map_err(|error| error.to_string())?;
        let request = SendRequest {
            number: FIRST_SEND + self.sent,
            work: Work::Send,
            source: Source::Fetched(self.piece(offset, bytes.len() as u32)),
        };
        let posted = rnic.post_send(&self.pair, &[request]);
        posted.map_err(|error| error.to_string())?;
        self.sent += 1;
        Ok(())
    }

    /// An RDMA WRITE. Its bytes stay where they are until all that room was used.
    pub(crate) fn write(
        &mut self,
        rnic: &R,
        (rkey, address): (u32, u64),
        bytes: &[u8],
    ) -> Result<(), String> {
        let length = bytes.len() as u32;
        if length > WRITES {
            return Err(format!("{length} octets are too many to be written"));
        }
        if self.written + length > WRITES {
            self.written = 0;
        }
        let offset = WRITES_AT + self.written;
        let copied = self.memory.copy_in(offset.into(), bytes);
        copied.map_err(|error| error.to_string())?;
        self.written += length;
        let request = SendRequest {
            number: 0,
            work: Work::Write { rkey, address },
            source: Source::Fetched(self.piece(offset, length)),
        };
        let posted = rnic.post_send(&self.pair, &[request]);
        posted.map_err(|error| error.to_string())
    }

    /// Takes in what the RNIC has done.
    fn poll(&mut self, rnic: &R) {
        let mut completions = [WorkCompletion::default(); 32];
        loop {
            let count = rnic.poll(&self.pair, &mut completions);
            for completion in completions.iter().take(count) {
                self.completed(rnic, completion);
            }
            if count < completions.len() {
                return;
            }
        }
    }

    fn completed(&mut self, rnic: &R, completion: &WorkCompletion) {
        if completion.number >= FIRST_SEND {
            self.done += 1;
        }
        if completion.status != Status::Success {
            self.broken = true;
        } else if let Ok(slot @ 0..RECEIVE_DEPTH) = u32::try_from(completion.number) {
            let mut bytes = vec![0; completion.length as usize];
            let offset = u64::from(slot * MESSAGE);
            if self.memory.copy_out(offset, &mut bytes).is_ok() {
                self.received.push_back(bytes);
            }
            self.broken |= self.receive(rnic, slot).is_err();
        }
    }

    /// The next message of the engine.
    pub(crate) fn next(&mut self, rnic: &R) -> Option<Vec<u8>> {
        self.poll(rnic);
        self.received.pop_front()
    }
}
