//! The engine's connection, the kernel's, and what is between them.

use std::collections::VecDeque;

use smc_proto::command::DataTransmit;
use smc_proto::config::{ConnectionConfig, UrgentFlags};
use smc_proto::connection::{
    CdcOutcome, CloseCause, CloseState, Connection, ConnectionParams, NotifyRecord, Ring,
};
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::cdc_ism::CdcIsm;
use smc_proto::wire::types::AlertToken;
use smc_transport_sim::random::Random;

use super::applications::{EngineApp, KernelApp};
use super::kernel::{Item, Kernel};

/// How bytes and CDC messages travel from the engine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Medium {
    /// SMC-R: in order, with completions.
    Rdma,
    /// SMC-D: at once, and a CDC message overwrites the one before it.
    SharedMemory,
}

/// How the kernel's process reads urgent bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Reader {
    /// In their place.
    Inline,
    /// With `MSG_OOB`; at the mark it calls `recv` first, which steps over the byte.
    OutOfLine,
    /// With `MSG_OOB`, at any time.
    Careless,
}

/// What a run is made of.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// Decides sizes, applications and the order of events.
    pub seed: u64,
    /// Between both ends.
    pub medium: Medium,
    /// The engine's setting.
    pub flags: UrgentFlags,
    /// How the kernel's process reads.
    pub reader: Reader,
    /// Whether links change.
    pub failover: bool,
}

/// How a run ended, if nothing was lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// Every byte and mark arrived, and both ends closed.
    Complete,
    /// The kernel's reader took an urgent byte out of line with none before it, and never
    /// acknowledged it (URG-005).
    TakenAtTheMark,
}

/// Runs a case to its end.
///
/// # Errors
/// What was lost, or where it makes no progress.
pub fn run(case: Case) -> Result<Ending, String> {
    let mut world = World::new(case);
    let steps = 50 + world.random.below(400);
    for _ in 0..steps {
        world.step().map_err(|fault| format!("{case:?}: {fault}"))?;
    }
    world.finish().map_err(|fault| format!("{case:?}: {fault}"))
}

pub(super) struct World {
    pub(super) case: Case,
    pub(super) random: Random,
    now: Instant,
    config: ConnectionConfig,
    pub(super) engine: Connection,
    pub(super) send_buffer: Vec<u8>,
    pub(super) element: Vec<u8>,
    link: VecDeque<Item<NotifyRecord>>,
    done: VecDeque<NotifyRecord>,
    /// The CDC message in the kernel's memory that it has not read.
    head: Option<Cdc>,
    pub(super) kernel: Kernel,
    pub(super) engine_app: EngineApp,
    pub(super) kernel_app: KernelApp,
}

impl World {
    fn new(case: Case) -> Self {
        let mut random = Random::new(case.seed);
        let mut size = || 8 + random.below(57) as u32;
        let (engine_ring, kernel_ring) = (size(), size());
        let (engine_buffer, kernel_buffer) = (size(), size());
        let ring = |usable| Ring::new(0, usable).expect("a ring");
        let mut config = ConnectionConfig::DEFAULT;
        config.urgent_flags = case.flags;
        let mut params = ConnectionParams::new(
            AlertToken(7),
            ring(engine_ring),
            ring(kernel_ring),
            engine_buffer,
        );
        params.nodelay = random.chance(500_000);
        params.urgent_inline = random.chance(500_000);
        let engine = Connection::new(&params, &config);
        let engine_app = EngineApp::new(random.below(200), params.urgent_inline);
        let inline = case.reader == Reader::Inline;
        Self {
            case,
            now: Instant::from_nanos(1),
            config,
            engine: match case.medium {
                Medium::Rdma => engine,
                Medium::SharedMemory => engine.over_smcd(),
            },
            send_buffer: vec![0; engine_buffer as usize],
            element: vec![0; engine_ring as usize],
            link: VecDeque::new(),
            done: VecDeque::new(),
            head: None,
            kernel: Kernel::new(
                kernel_ring.into(),
                engine_ring.into(),
                kernel_buffer.into(),
                inline,
            ),
            engine_app,
            // Often the kernel only reads, and the engine may close at once.
            kernel_app: KernelApp::new(random.below(300).saturating_sub(100)),
            random,
        }
    }

    pub(super) fn time(&self) -> (Instant, ConnectionConfig) {
        (self.now, self.config)
    }

    /// One event, chosen at random.
    fn step(&mut self) -> Result<(), String> {
        let few = 1 + self.random.below(8);
        match self.random.below(40) {
            0..3 => self.engine_writes(few, false)?,
            3..5 => self.engine_writes(few, true)?,
            5..10 => drop(self.transmit()?),
            10..15 => drop(self.deliver_to_kernel()?),
            15..18 => drop(self.complete()),
            18..20 => drop(self.kernel_reads(few)?),
            20 => drop(self.kernel_takes_urgent()?),
            21..24 => drop(self.kernel_writes(few, false)),
            24 => drop(self.kernel_writes(few, true)),
            25..30 => drop(self.deliver_to_engine()?),
            30..33 => drop(self.kernel.complete()),
            33..36 => drop(self.engine_reads(few)?),
            36 => self.engine_takes_urgent()?,
            37 => drop(self.wait()),
            38 if self.case.failover => self.change_link_of_engine()?,
            39 if self.case.failover => self.change_link_of_kernel()?,
            _ => {}
        }
        Ok(())
    }

    /// Lets both applications finish, and both ends close.
    fn finish(&mut self) -> Result<Ending, String> {
        loop {
            let mut moved = self.engine_finishes()?;
            moved |= self.transmit()?;
            moved |= self.deliver_to_kernel()?;
            moved |= self.complete();
            moved |= self.kernel_finishes()?;
            moved |= self.deliver_to_engine()?;
            moved |= self.kernel.complete();
            if !moved && !self.wait() {
                break;
            }
        }
        let closed = self.engine.state() == CloseState::Closed && self.kernel.is_closed();
        if !closed && self.kernel_app.took_at_the_mark {
            return Ok(Ending::TakenAtTheMark);
        }
        if !closed {
            return Err(format!(
                "no progress: {:?}, {:?}, {}",
                self.engine.state(),
                self.engine.stats(),
                self.kernel_app.describe(&self.kernel),
            ));
        }
        if self.engine.cause() != Some(CloseCause::Orderly) {
            return Err(format!("ended by {:?}", self.engine.cause()));
        }
        self.compare_marks()?;
        Ok(Ending::Complete)
    }

    /// The engine's connection sends what it wants to; false if that is nothing.
    fn transmit(&mut self) -> Result<bool, String> {
        let mut transmit = DataTransmit::EMPTY;
        let sent = self
            .engine
            .next_transmit(self.now, &self.config, 0, &mut transmit);
        let Some(sent) = sent else {
            return Ok(false);
        };
        for write in transmit.writes.iter().filter(|write| !write.is_empty()) {
            let pieces = write.source.iter().flat_map(|piece| {
                let from = piece.offset as usize;
                &self.send_buffer[from..from + piece.length as usize]
            });
            let (offset, bytes) = (write.address as usize, pieces.copied().collect());
            self.link.push_back(Item::Write { offset, bytes });
        }
        let cdc = transmit.cdc;
        self.engine_app.published = self
            .engine_app
            .published
            .max(self.engine.stats().bytes_sent);
        match self.case.medium {
            Medium::Rdma => self.link.push_back(Item::Message(cdc, sent.record)),
            Medium::SharedMemory => {
                for item in std::mem::take(&mut self.link) {
                    self.place(&item);
                }
                self.head = Some(cdc);
                self.engine
                    .on_signalled(self.now, &self.config, sent.record);
            }
        }
        Ok(true)
    }

    /// Bytes arrive in the kernel's ring.
    fn place(&mut self, item: &Item<NotifyRecord>) {
        if let Item::Write { offset, bytes } = item {
            let place = *offset..*offset + bytes.len();
            self.kernel.inbound.memory[place].copy_from_slice(bytes);
        }
    }

    fn deliver_to_kernel(&mut self) -> Result<bool, String> {
        if let Some(head) = self.head.take() {
            self.kernel.on_message(&head, false)?;
            return Ok(true);
        }
        let Some(item) = self.link.pop_front() else {
            return Ok(false);
        };
        self.place(&item);
        if let Item::Message(cdc, record) = item {
            self.kernel.on_message(&cdc, true)?;
            self.done.push_back(record);
        }
        Ok(true)
    }

    fn complete(&mut self) -> bool {
        let Some(record) = self.done.pop_front() else {
            return false;
        };
        self.engine
            .on_notify_completed(self.now, &self.config, record);
        true
    }

    fn deliver_to_engine(&mut self) -> Result<bool, String> {
        let Some(item) = self.kernel.link.pop_front() else {
            return Ok(false);
        };
        let (cdc, completed) = match item {
            Item::Write { offset, bytes } => {
                self.element[offset..offset + bytes.len()].copy_from_slice(&bytes);
                return Ok(true);
            }
            Item::Message(cdc, completed) => (cdc, completed),
        };
        self.kernel.done.push_back(completed);
        let outcome = match self.case.medium {
            Medium::Rdma => self.engine.on_cdc(self.now, &self.config, &cdc),
            Medium::SharedMemory => {
                self.engine
                    .on_cdc_ism(self.now, &self.config, &CdcIsm::from(cdc))
            }
        };
        match outcome {
            CdcOutcome::Misbehaved(_) | CdcOutcome::DataLost | CdcOutcome::Stale => {
                Err(format!("the engine takes {cdc:?} for {outcome:?}"))
            }
            _ => Ok(true),
        }
    }

    /// The link of one direction fails: some of what was sent arrives, no completion does.
    fn change_link_of_engine(&mut self) -> Result<(), String> {
        for _ in 0..self.random.below(4) {
            self.deliver_to_kernel()?;
        }
        self.link.clear();
        self.done.clear();
        self.engine.on_link_changed(self.now, &self.config);
        Ok(())
    }

    fn change_link_of_kernel(&mut self) -> Result<(), String> {
        for _ in 0..self.random.below(4) {
            self.deliver_to_engine()?;
        }
        self.kernel.change_link();
        Ok(())
    }

    /// Lets a short timer of the engine run out; a long one means that nothing moves.
    fn wait(&mut self) -> bool {
        let short = self.now.after(Duration::from_secs(1));
        let next = self.engine.next_timeout().filter(|next| *next <= short);
        let Some(next) = next else {
            return false;
        };
        self.now = self.now.max(next);
        self.engine.on_timeout(self.now, &self.config);
        true
    }
}
