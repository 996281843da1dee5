//! The run: client and server as applications on two engines.

mod outcome;
mod setup;
mod transfer;
mod trouble;

use std::fs::File;
use std::io::BufWriter;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant as RealInstant;

use sha2::Sha256;
use smc_proto::event::CloseReason;
use smc_proto::time::Duration;
use smc_transport_sim::fabric::HostId;
use smc_transport_sim::record::Recorder;
use smc_transport_sim::sim::{self, Simulation, SocketId};

use super::links::Links;
use super::script::Script;
use super::source::Source;
use super::watch::Watch;
use super::{Capture, hosts};
use crate::output::Failure;

pub use outcome::Outcome;
pub use setup::{Carrier, Hooks, Place, Setup};

/// Bytes read from the source at once, and the most an application queues.
const PIECE: u64 = 64 << 10;
/// Virtual time without any progress after which a run is given up.
const TIMEOUT: Duration = Duration::from_secs(120);

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
    /// Most bytes the server holds between reading and writing.
    relay: u64,
    digests: [Sha256; 3],
    bytes: u64,
    sent_all: bool,
    /// Whether the client ended its stream.
    ended: bool,
    back: u64,
    first_byte: Option<smc_proto::time::Instant>,
    last_byte: smc_proto::time::Instant,
    steps: u64,
    watch: Arc<Mutex<Watch>>,
    links: Links,
    script: Script,
    /// When something of it happened last.
    acted: smc_proto::time::Instant,
    /// Whether links were to die.
    troubled: bool,
    /// Bytes the source will have, if links are to die.
    length: u64,
    /// Whether applications write into the peer's memory themselves.
    in_place: bool,
    /// Whether links that are deleted from now on are left out of the table.
    is_ending: bool,
}

/// Carries the source from one host to the other and back, closes, and takes the
/// link group down.
///
/// # Errors
/// [`Failure::Problem`] if the source cannot be read, the capture cannot be
/// written, the connection is not carried by SMC, or an engine misbehaves.
/// Bytes that arrived changed are no error here; see [`Outcome::sha256_ok`]. Nor
/// is a connection whose links were to die and did; see [`Outcome::failure`].
pub fn carry(
    setup: &Setup,
    source: &mut Source,
    capture: Option<&Capture>,
    hooks: &mut Hooks<'_>,
) -> Result<Outcome, Failure> {
    let start = RealInstant::now();
    let mut run = Run::new(setup, source, capture)?;
    let failure = match run.whole(hooks) {
        Ok(()) => None,
        Err(failure) => Some(run.broken().ok_or(failure)?),
    };
    run.outcome(start, failure)
}

impl<'a> Run<'a> {
    fn new(
        setup: &Setup,
        source: &'a mut Source,
        capture: Option<&'a Capture>,
    ) -> Result<Self, Failure> {
        let script = Script::new(&setup.kills, setup.revive, setup.seed);
        let length = source.length();
        if length.is_none() && !script.is_empty() {
            let name = source.name();
            return Err(problem(&format!(
                "{name}: its length is unknown, so no percentage of it is known either"
            )));
        }
        let (mut simulation, hosts) = hosts::build(setup);
        let [client, server] = hosts;
        let troubled = !script.is_empty();
        let watch = Arc::new(Mutex::new(Watch::new(client)));
        lock(&watch).several_links = setup.rnics > 1 || troubled;
        simulation.fabric().observe(Box::new(watch.clone()));
        if let Some(capture) = capture {
            let recorder = capture.recorder.clone();
            simulation.fabric().observe(Box::new(recorder));
        }
        let ends = simulation.connect_with(client, server, setup.option);
        for end in [ends.0, ends.1] {
            if let Some(app) = simulation.app_mut(end) {
                app.skip_hashes();
            }
        }
        Ok(Self {
            simulation,
            hosts,
            sockets: [ends.0, ends.1],
            source,
            capture,
            relay: u64::from(setup.ring.octets()),
            digests: Default::default(),
            bytes: 0,
            sent_all: false,
            ended: false,
            back: 0,
            first_byte: None,
            last_byte: smc_proto::time::Instant::ZERO,
            steps: 0,
            watch,
            links: Links::new(hosts),
            script,
            acted: smc_proto::time::Instant::ZERO,
            troubled,
            length: length.unwrap_or(0),
            in_place: setup.carrier == Carrier::SmcD { in_place: true },
            is_ending: false,
        })
    }

    fn whole(&mut self, hooks: &mut Hooks<'_>) -> Result<(), Failure> {
        self.until("the rendezvous did not end", Run::is_established)?;
        self.transfer(hooks)?;
        self.until("the connection was not closed", Run::is_closed)?;
        self.take_down()
    }

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
        if !self.is_ending {
            self.follow_links();
        }
        Ok(())
    }

    /// Steps until something holds.
    fn until(
        &mut self,
        otherwise: &str,
        mut holds: impl FnMut(&mut Self) -> Result<bool, Failure>,
    ) -> Result<(), Failure> {
        let deadline = self.simulation.now().after(TIMEOUT);
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
        match (state.transport, state.closed) {
            (_, Some(reason)) if reason != CloseReason::Normal => {
                Err(problem(&format!("the connection failed: {reason}")))
            }
            (sim::Transport::Tcp, _) => Err(problem(&match state.fell_back {
                Some(why) => format!("the connection fell back to TCP: {why}"),
                None => "the connection fell back to TCP".to_owned(),
            })),
            (sim::Transport::Smc, _) => Ok(true),
            (sim::Transport::None, _) => Ok(false),
        }
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
        self.is_ending = true;
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
}

fn problem(text: &str) -> Failure {
    Failure::Problem(text.to_owned())
}
