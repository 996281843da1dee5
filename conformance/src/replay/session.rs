//! The replay of one capture.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use smc_proto::config::Config;
use smc_proto::endpoint::{ClcProgress, ConnOptions, TcpEvent};
use smc_proto::event::Event;
use smc_proto::id::{ConnId, DeviceId, GroupId};
use smc_proto::path::LocalPath;
use smc_proto::time::{Duration, Instant};
use smc_proto::wire::clc::{ClcMessage, Subnets};
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{Gid, Mac, Mtu, PeerId, RKey};

use super::connection::Connection;
use super::host::{Host, Output};
use super::identity::Identities;
use super::script::{End, Script, Step, What};
use super::{Completions, Counts, Deviation, Failure, Report, Rmbs, Setup};

pub(super) struct Session<'a> {
    pub(super) script: &'a Script,
    pub(super) setup: Setup,
    pub(super) host: Host,
    pub(super) identities: Identities,
    pub(super) connections: BTreeMap<u64, Connection>,
    streams: BTreeMap<ConnId, u64>,
    /// LLC messages of ours, not yet compared.
    pub(super) llc: VecDeque<LlcMessage>,
    /// Requests of the captured end that ours did not make, by type and key: the
    /// answers to them are not fed in.
    pub(super) unasked: BTreeMap<(u8, RKey), Deviation>,
    /// RMBs that the capture announced on another link, by owner.
    pub(super) foreign: BTreeSet<(End, RKey)>,
    pub(super) group: Option<GroupId>,
    pub(super) group_down: bool,
    pub(super) counts: Counts,
    deviations: BTreeMap<Deviation, Vec<u64>>,
    pub(super) frame: u64,
    transcript: Vec<String>,
}

impl<'a> Session<'a> {
    pub(super) fn new(script: &'a Script, setup: Setup) -> Self {
        let mac = Mac([2, 0, 0, 0xa5, 0xa5, 0xa5]);
        let mut config = Config::new(PeerId::new(0xa5a5, mac));
        if setup.rmbs == Rmbs::Withdrawn {
            config.timeouts.rmb_idle = Duration::ZERO;
        }
        let own = script
            .halves
            .iter()
            .find(|((_, end), _)| *end == setup.ours);
        if let Some((_, half)) = own {
            config.receive_buffer = half.buffer_size;
            config.send_buffer = half.buffer_size;
        }
        (setup.configure)(&mut config);
        let path = LocalPath {
            device: DeviceId(0),
            port: 1,
            gid_index: 0,
            gid: Gid([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 0, 2, 165]),
            mac,
            mtu: own.map_or(Mtu::M1024, |(_, half)| half.mtu),
            lan: smc_proto::id::LanId(0),
            subnet_match: true,
        };
        Self {
            script,
            setup,
            host: Host::new(config, path, setup.completions == Completions::Late),
            identities: Identities::default(),
            connections: BTreeMap::new(),
            streams: BTreeMap::new(),
            llc: VecDeque::new(),
            unasked: BTreeMap::new(),
            foreign: BTreeSet::new(),
            group: None,
            group_down: false,
            counts: Counts::default(),
            deviations: BTreeMap::new(),
            frame: 0,
            transcript: Vec::new(),
        }
    }

    pub(super) fn run(mut self) -> Result<Report, Failure> {
        let script = self.script;
        let mut result = Ok(());
        for step in &script.steps {
            self.frame = step.frame;
            result = self.step(step);
            if result.is_err() {
                break;
            }
        }
        let result = result
            .map_err(|what| format!("frame {}: {what}", self.frame))
            .and_then(|()| self.finish());
        match result {
            Ok(connections) => Ok(Report {
                connections,
                counts: self.counts,
                deviations: self.deviations,
                statistics: *self.host.endpoint.statistics(),
                transcript: self.transcript,
            }),
            Err(what) => Err(Failure {
                what,
                transcript: self.transcript,
            }),
        }
    }

    fn step(&mut self, step: &Step) -> Result<(), String> {
        self.host.advance_to(Instant::from_nanos(step.time))?;
        self.collect()?;
        let arrow = if step.by == self.setup.ours {
            "captured"
        } else {
            "fed in  "
        };
        let words = step.to_string();
        self.transcript
            .push(format!("{:>6} {arrow} {words}", step.frame));
        if step
            .stream()
            .is_some_and(|stream| self.script.elsewhere.contains(&stream))
        {
            self.deviate(Deviation::OtherLink);
            return Ok(());
        }
        let posted = self.host.posted();
        let own = step.by == self.setup.ours;
        if own {
            self.complete(posted)?;
        }
        match (&step.what, own) {
            (What::Option { stream }, _) => self.open(*stream, step.by)?,
            (What::Clc { stream, message }, true) => self.own_clc(*stream, message, step)?,
            (What::Clc { stream, .. }, false) => self.feed_clc(*stream, step)?,
            (What::Llc { message, elsewhere }, true) => self.own_llc(message, *elsewhere, step)?,
            (What::Llc { message, elsewhere }, false) => {
                unaltered(&message.emit(), step)?;
                self.feed_llc(message, *elsewhere)?;
            }
            (What::Cdc { stream, cdc }, true) => self.own_cdc(*stream, cdc)?,
            (What::Cdc { stream, cdc }, false) => {
                unaltered(&cdc.emit(), step)?;
                self.feed_cdc(*stream, *cdc)?;
            }
            (What::Write { stream, write }, true) => {
                self.connection(*stream)?.captured_write(write)?;
            }
            (What::Write { stream, write }, false) => self.feed_write(*stream, write)?,
            (What::Fin { .. } | What::Reset { .. }, true) => {}
            (What::Fin { stream }, false) => {
                self.counts.fins_fed += 1;
                self.feed_tcp(*stream, TcpEvent::PeerFin)?;
            }
            (What::Reset { stream }, false) => self.feed_tcp(*stream, TcpEvent::PeerReset)?,
        }
        self.host.pump()?;
        self.collect()?;
        self.read_promptly()?;
        if !own {
            self.complete(posted)?;
        }
        Ok(())
    }

    pub(super) fn complete(&mut self, count: usize) -> Result<(), String> {
        self.host.complete(count.min(self.host.posted()))?;
        self.collect()
    }

    pub(super) fn connection(&mut self, stream: u64) -> Result<&mut Connection, String> {
        self.connections
            .get_mut(&stream)
            .ok_or_else(|| format!("connection {stream} is not open"))
    }

    pub(super) fn deviate(&mut self, why: Deviation) {
        self.deviations.entry(why).or_default().push(self.frame);
        self.transcript
            .push(format!("{:>6} deviates {why:?}", self.frame));
    }

    pub(super) fn say(&mut self, words: &str) {
        self.transcript.push(format!("       ours     {words}"));
    }

    // ---- rendezvous --------------------------------------------------------

    /// SYN-ACK: the TCP connection is as good as established.
    fn open(&mut self, stream: u64, by: End) -> Result<(), String> {
        if by == End::Client {
            return Ok(());
        }
        let half = |end| self.script.halves.get(&(stream, end)).copied();
        let (Some(own), Some(peer)) = (half(self.setup.ours), half(self.setup.ours.other())) else {
            return Err("the capture has no Accept and Confirm for this connection".into());
        };
        let options = ConnOptions::new(self.subnets(stream));
        let now = self.host.now;
        let path = self.host.path;
        let endpoint = &mut self.host.endpoint;
        let id = match self.setup.ours {
            End::Client => endpoint.connect(now, options, &[path]),
            End::Server => endpoint.listen(now, options),
        }
        .map_err(|e| e.to_string())?;
        self.streams.insert(id, stream);
        self.connections
            .insert(stream, Connection::new(id, own, peer));
        Ok(())
    }

    /// The subnets that the captured client proposed.
    fn subnets(&self, stream: u64) -> Subnets {
        let proposed = self.script.steps.iter().find_map(|step| match &step.what {
            What::Clc { stream: s, message } if *s == stream => match &**message {
                ClcMessage::Proposal(proposal) => Some(proposal.subnets.clone()),
                _ => None,
            },
            _ => None,
        });
        proposed.unwrap_or_default()
    }

    fn own_clc(&mut self, stream: u64, message: &ClcMessage, step: &Step) -> Result<(), String> {
        let ours = self
            .connection(stream)?
            .clc
            .pop_front()
            .ok_or("our end sends no CLC message here")?;
        self.host.check_clc(&ours)?;
        let octets = self.identities.pair_clc(message, &ours)?;
        if octets != step.octets {
            return Err(format!("ours is {ours}"));
        }
        self.counts.clc_equal += 1;
        Ok(())
    }

    fn feed_clc(&mut self, stream: u64, step: &Step) -> Result<(), String> {
        let id = self.connection(stream)?.id;
        let now = self.host.now;
        match self.host.endpoint.handle_clc(now, id, &step.octets) {
            Ok(ClcProgress::Consumed { len, .. }) if len == step.octets.len() => {
                self.counts.clc_fed += 1;
                Ok(())
            }
            other => Err(format!("the endpoint says {other:?}")),
        }
    }

    fn feed_tcp(&mut self, stream: u64, event: TcpEvent) -> Result<(), String> {
        let id = self.connection(stream)?.id;
        self.host.endpoint.handle_tcp(self.host.now, id, event);
        Ok(())
    }

    pub(super) fn delete_group(&mut self) -> Result<(), String> {
        let group = self.group.ok_or("no link group")?;
        self.host.endpoint.delete_group(self.host.now, group);
        self.host.pump()?;
        self.collect()
    }

    // ---- our end -----------------------------------------------------------

    /// Sorts what our end said.
    pub(super) fn collect(&mut self) -> Result<(), String> {
        for output in core::mem::take(&mut self.host.outputs) {
            match output {
                Output::Clc(id, message) => {
                    self.say(&message.to_string());
                    self.connection_of(id)?.clc.push_back(*message);
                }
                Output::Llc(message) => {
                    self.say(&message.to_string());
                    self.on_own_llc(message)?;
                }
                Output::Cdc(cdc) => {
                    self.say(&cdc.to_string());
                    self.on_own_cdc(cdc)?;
                }
                Output::Write {
                    conn,
                    rkey,
                    address,
                    octets,
                } => {
                    let length = octets.len();
                    self.say(&format!("write {rkey} at 0x{address:x}, {length} octets"));
                    self.counts.writes += 1;
                    self.connection_of(conn)?
                        .own_write(rkey, address, &octets)?;
                }
                Output::Event(event) => {
                    self.say(&format!("{event:?}"));
                    self.on_event(event)?;
                }
                Output::Tcp(id, command) => {
                    self.say(&format!("TCP {command:?}"));
                    self.connection_of(id)?.tcp.push(command);
                }
            }
        }
        Ok(())
    }

    fn connection_of(&mut self, id: ConnId) -> Result<&mut Connection, String> {
        let stream = *self
            .streams
            .get(&id)
            .ok_or_else(|| format!("{id:?} was never opened"))?;
        self.connection(stream)
    }

    fn on_event(&mut self, event: Event) -> Result<(), String> {
        match event {
            Event::Established {
                conn,
                first_contact,
                ..
            } => self.connection_of(conn)?.first_contact = Some(first_contact),
            Event::Closed { conn, reason } => {
                self.connection_of(conn)?.closed = Some(reason);
            }
            Event::FellBack { why, .. } => return Err(format!("our end falls back: {why}")),
            Event::GroupUp { group } => {
                let other = self.group.replace(group);
                if other.is_some() {
                    return Err("our end makes a second link group".into());
                }
            }
            Event::GroupDown { .. } => self.group_down = true,
            _ => {}
        }
        Ok(())
    }
}

/// Whether decoding and encoding a message leaves it as it is: then rewriting it
/// changes what is rewritten, and nothing else.
fn unaltered(emitted: &[u8], step: &Step) -> Result<(), String> {
    if emitted == step.octets {
        Ok(())
    } else {
        Err("the captured message is encoded as other octets".into())
    }
}
