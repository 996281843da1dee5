//! The run: client and server as applications on two engines.

use std::fs::File;
use std::io::BufWriter;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant as RealInstant;

use sha2::{Digest, Sha256};
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_proto::wire::types::BufferSize;
use smc_transport_sim::fabric::HostId;
use smc_transport_sim::record::Recorder;
use smc_transport_sim::sim::{Carrier, Simulation, SocketId};
use smc_transport_sim::tcp::SmcOption;

use super::source::Source;
use super::tally::{Family, Tally};
use super::watch::Watch;
use super::{Capture, hosts};
use crate::output::Failure;

/// Octets read from the source at once, and the most an application queues.
const PIECE: u64 = 64 << 10;
/// Virtual time without any progress after which a run is given up.
const PATIENCE: Duration = Duration::from_secs(120);

/// Where octets arrive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    /// At the server.
    Server,
    /// Back at the client.
    Client,
}

/// How a run is made.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// Seed of the engines and the wires.
    pub seed: u64,
    /// Size of all rings.
    pub ring: BufferSize,
    /// Whose SYN has the SMC option.
    pub option: SmcOption,
}

/// What a run is shown to, and may be disturbed by.
pub struct Hooks<'a> {
    /// Told how many octets are back, now and then.
    pub progress: &'a mut dyn FnMut(u64),
    /// Sees what an application read, and may change it before it is looked at.
    pub on_read: &'a mut dyn FnMut(Place, &mut [u8]),
}

/// What a run was.
#[derive(Debug)]
pub struct Outcome {
    /// Octets that the source had.
    pub bytes: u64,
    /// SHA-256 of the source, of what the server read and of what came back.
    pub sha256: [[u8; 32]; 3],
    /// Real seconds.
    pub seconds: f64,
    /// Virtual seconds from opening the connection to the end.
    pub virtual_seconds: f64,
    /// Virtual seconds from the first octet to the last one that came back.
    pub transfer_seconds: f64,
    /// Messages seen on the wires.
    pub tally: Tally,
    /// Work that was repeated or refused.
    pub not_accepted: u64,
    /// Times a sender met a full window: client, and server.
    pub window_stalls: [u64; 2],
    /// Frames in the capture.
    pub frames: u64,
    pub(super) watch: Arc<Mutex<Watch>>,
}

impl Outcome {
    /// Whether what arrived is what was sent, both ways.
    #[must_use]
    pub fn sha256_ok(&self) -> bool {
        let [sent, there, back] = &self.sha256;
        sent == there && sent == back
    }

    /// Octets of the source as 10^9 bits in each real second.
    #[must_use]
    pub fn gbit_per_s(&self) -> f64 {
        rate(self.bytes, self.seconds)
    }

    /// The same in virtual time, of the transfer only.
    #[must_use]
    pub fn virtual_gbit_per_s(&self) -> f64 {
        rate(self.bytes, self.transfer_seconds)
    }
}

fn rate(octets: u64, seconds: f64) -> f64 {
    if seconds > 0.0 {
        octets as f64 * 8e-9 / seconds
    } else {
        0.0
    }
}

pub(super) type FileRecorder = Arc<Mutex<Recorder<BufWriter<File>>>>;

pub(super) fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared
        .lock()
        .unwrap_or_else(|poisoned| poisoned.into_inner())
}

struct Run<'a> {
    simulation: Simulation,
    hosts: [HostId; 2],
    sockets: [SocketId; 2],
    source: &'a mut Source,
    capture: Option<&'a Capture>,
    /// Most octets the server holds between reading and writing.
    relay: u64,
    digests: [Sha256; 3],
    bytes: u64,
    sent_all: bool,
    back: u64,
    first_octet: Option<smc_proto::time::Instant>,
    last_octet: smc_proto::time::Instant,
    steps: u64,
}

/// Carries the source from one host to the other and back, closes, and takes the
/// link group down.
///
/// # Errors
/// [`Failure::Problem`] if the source cannot be read, the capture cannot be
/// written, the connection is not carried by SMC-R, or an engine misbehaves.
/// Octets that arrived changed are no error here; see [`Outcome::sha256_ok`].
pub fn carry(
    setup: &Setup,
    source: &mut Source,
    capture: Option<&Capture>,
    hooks: &mut Hooks<'_>,
) -> Result<Outcome, Failure> {
    let start = RealInstant::now();
    let (mut simulation, client, server) = hosts::build(setup.seed, setup.ring);
    let watch = Arc::new(Mutex::new(Watch::new(client)));
    simulation.fabric().observe(Box::new(watch.clone()));
    if let Some(capture) = capture {
        simulation
            .fabric()
            .observe(Box::new(capture.recorder.clone()));
    }
    let ends = simulation.connect_with(client, server, setup.option);
    for end in [ends.0, ends.1] {
        if let Some(app) = simulation.app_mut(end) {
            app.skip_hashes();
        }
    }
    let mut run = Run {
        simulation,
        hosts: [client, server],
        sockets: [ends.0, ends.1],
        source,
        capture,
        relay: u64::from(setup.ring.octets()),
        digests: Default::default(),
        bytes: 0,
        sent_all: false,
        back: 0,
        first_octet: None,
        last_octet: smc_proto::time::Instant::ZERO,
        steps: 0,
    };
    run.until("the rendezvous did not end", Run::is_established)?;
    run.transfer(hooks)?;
    run.until("the connection was not closed", Run::is_closed)?;
    run.take_down()?;
    run.outcome(start, watch)
}

impl Run<'_> {
    /// One thing happens.
    fn step(&mut self) -> Result<(), Failure> {
        self.steps += 1;
        if self.steps.is_multiple_of(256)
            && let Some(capture) = self.capture
        {
            capture.check()?;
        }
        if !self.simulation.step() {
            return Err(problem("nothing happens any more"));
        }
        Ok(())
    }

    /// Steps until something holds.
    fn until(
        &mut self,
        otherwise: &str,
        mut holds: impl FnMut(&mut Self) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let deadline = self.simulation.now().after(PATIENCE);
        while !holds(self)? {
            if self.simulation.now() > deadline {
                return Err(problem(otherwise));
            }
            self.step()?;
        }
        Ok(())
    }

    fn is_established(&mut self) -> Result<bool, Failure> {
        let mut all = true;
        for socket in self.sockets {
            all &= self.carrier_is_smc(socket)?;
        }
        Ok(all)
    }

    fn carrier_is_smc(&self, socket: SocketId) -> Result<bool, Failure> {
        let Some(state) = self.simulation.state(socket) else {
            return Err(problem("the socket is gone"));
        };
        match (state.carrier, state.closed) {
            (_, Some(reason)) if reason != CloseReason::Normal => {
                Err(problem(&format!("the connection failed: {reason}")))
            }
            (Carrier::Tcp, _) => Err(problem(&match state.fell_back {
                Some(why) => format!("the connection fell back to TCP: {why}"),
                None => "the connection fell back to TCP".to_owned(),
            })),
            (Carrier::Smc, _) => Ok(true),
            (Carrier::None, _) => Ok(false),
        }
    }

    fn transfer(&mut self, hooks: &mut Hooks<'_>) -> Result<(), Failure> {
        let mut progress = self.simulation.now();
        loop {
            self.send()?;
            let echoed = self.echo(hooks);
            let received = self.receive(hooks);
            if echoed || received {
                progress = self.simulation.now();
            }
            if self.is_at_end(1) && self.queued(1) == 0 && self.is_at_end(0) {
                break;
            }
            for socket in self.sockets {
                self.carrier_is_smc(socket)?;
            }
            if self.simulation.now() > progress.after(PATIENCE) {
                let (back, bytes) = (self.back, self.bytes);
                let text = format!("the transfer stalled with {back} octets back of {bytes} sent");
                return Err(problem(&text));
            }
            self.step()?;
        }
        (hooks.progress)(self.back);
        Ok(())
    }

    fn queued(&self, end: usize) -> u64 {
        let app = self.sockets.get(end).and_then(|s| self.simulation.app(*s));
        app.map_or(0, |app| app.queued())
    }

    fn is_at_end(&self, end: usize) -> bool {
        let app = self.sockets.get(end).and_then(|s| self.simulation.app(*s));
        app.is_some_and(|app| app.is_at_end())
    }

    /// The client sends what the source has.
    fn send(&mut self) -> Result<(), Failure> {
        let [client, _] = self.sockets;
        while !self.sent_all && self.queued(0) < PIECE {
            let piece = self.source.piece(PIECE)?;
            self.bytes += piece.len() as u64;
            let [sent, ..] = &mut self.digests;
            sent.update(&piece);
            self.sent_all = piece.is_empty();
            self.first_octet.get_or_insert(self.simulation.now());
            if let Some(app) = self.simulation.app_mut(client) {
                if self.sent_all {
                    app.finish();
                } else {
                    app.write_owned(piece);
                }
            }
        }
        Ok(())
    }

    /// The server writes what it read, and reads no more while it has too much.
    fn echo(&mut self, hooks: &mut Hooks<'_>) -> bool {
        let [_, server] = self.sockets;
        let Some(app) = self.simulation.app(server) else {
            return false;
        };
        let (full, paused) = (app.queued() >= self.relay, !app.wants_to_read());
        let news = !app.received().is_empty();
        if !news && full == paused && !app.is_at_end() {
            return false;
        }
        let Some(app) = self.simulation.app_mut(server) else {
            return false;
        };
        if news {
            let mut octets = app.take_received();
            (hooks.on_read)(Place::Server, &mut octets);
            let [_, there, _] = &mut self.digests;
            there.update(&octets);
            app.write_owned(octets);
        }
        app.pause(full);
        if app.is_at_end() {
            app.finish();
        }
        news
    }

    /// The client reads what comes back.
    fn receive(&mut self, hooks: &mut Hooks<'_>) -> bool {
        let [client, _] = self.sockets;
        let news = self
            .simulation
            .app(client)
            .is_some_and(|app| !app.received().is_empty());
        if !news {
            return false;
        }
        let mut octets = self.simulation.read(client);
        (hooks.on_read)(Place::Client, &mut octets);
        let [_, _, back] = &mut self.digests;
        back.update(&octets);
        self.back += octets.len() as u64;
        self.last_octet = self.simulation.now();
        (hooks.progress)(self.back);
        true
    }

    fn is_closed(&mut self) -> Result<bool, Failure> {
        let mut all = true;
        for socket in self.sockets {
            self.carrier_is_smc(socket)?;
            let state = self.simulation.state(socket);
            all &= state.is_some_and(|state| state.closed.is_some());
        }
        Ok(all)
    }

    /// The server ends the link group, and both hosts give everything back.
    fn take_down(&mut self) -> Result<(), Failure> {
        let now = self.simulation.now();
        let [_, server] = self.hosts;
        let groups = self.simulation.groups(server).to_vec();
        if let Some(endpoint) = self.simulation.endpoint(server) {
            for group in groups {
                endpoint.delete_group(now, group);
            }
        }
        self.until("the link group was not taken down", |run| {
            let hosts = run.hosts;
            Ok(hosts.iter().all(|host| {
                run.simulation.groups(*host).is_empty()
                    && run.simulation.fabric().in_use(*host) == [0; 3]
            }))
        })
    }

    fn outcome(mut self, start: RealInstant, watch: Arc<Mutex<Watch>>) -> Result<Outcome, Failure> {
        let frames = self.capture.map_or(Ok(0), Capture::finish)?;
        let seconds = start.elapsed().as_secs_f64();
        if let Some(finding) = self.simulation.findings().next() {
            return Err(problem(&format!("the simulation complains: {finding}")));
        }
        let mut statistics = Vec::new();
        for host in self.hosts {
            statistics.extend(self.simulation.endpoint(host).map(|e| *e.statistics()));
        }
        let (tally, not_accepted) = {
            let watch = lock(&watch);
            (watch.tally, watch.not_accepted)
        };
        let sum = |of: fn(&smc_proto::stats::Statistics) -> u64| -> u64 {
            statistics.iter().map(of).sum()
        };
        let counted = [
            ("CLC messages", Family::Clc, sum(|s| s.clc_sent)),
            ("LLC messages", Family::Llc, sum(|s| s.llc_sent)),
            ("CDC messages", Family::Cdc, sum(|s| s.cdc_sent)),
            ("RDMA WRITEs", Family::Write, sum(|s| s.writes)),
        ];
        for (what, family, sent) in counted {
            let seen = tally.family(family);
            if seen != sent {
                return Err(problem(&format!(
                    "the engines sent {sent} {what}, on the wire there were {seen}"
                )));
            }
        }
        let first = self.first_octet.unwrap_or(self.last_octet);
        let stalls = |end: usize| statistics.get(end).map_or(0, |s| s.window_stalls);
        Ok(Outcome {
            bytes: self.bytes,
            sha256: self.digests.map(|digest| digest.finalize().into()),
            seconds,
            virtual_seconds: self.simulation.now().as_nanos() as f64 * 1e-9,
            transfer_seconds: self.last_octet.since(first).as_secs_f64(),
            tally,
            not_accepted,
            window_stalls: [stalls(0), stalls(1)],
            frames,
            watch,
        })
    }
}

fn problem(text: &str) -> Failure {
    Failure::Problem(text.to_owned())
}
