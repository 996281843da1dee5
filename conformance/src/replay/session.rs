//! The replay of one capture.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use smc_proto::config::{Config, Offers};
use smc_proto::endpoint::TcpEvent;
use smc_proto::event::Event;
use smc_proto::id::{ConnId, DeviceId, GroupId};
use smc_proto::path::{LocalPath, RoceVersion};
use smc_proto::time::{Duration, Instant};
use smc_proto::version::SmcVersion;
use smc_proto::wire::types::{LinkNumber, Mac, Mtu, PeerId, PeerOs, RKey};

use super::connection::Connection;
use super::host::{Host, Output};
use super::identity::Identities;
use super::message::Llc;
use super::script::{End, Script, Step, What};
use super::{Completions, Counts, Deviation, Failure, Ports, Report, Rmbs, Setup};

pub(super) struct Session<'a> {
    pub(super) script: &'a Script,
    pub(super) setup: Setup,
    pub(super) host: Host,
    pub(super) identities: Identities,
    pub(super) connections: BTreeMap<u64, Connection>,
    pub(super) streams: BTreeMap<ConnId, u64>,
    /// LLC messages of ours, not yet compared, and the links that carried them.
    pub(super) llc: VecDeque<(LinkNumber, Llc)>,
    /// Requests of the captured end that ours did not make, by type, link and key:
    /// the answers to them are not fed in.
    pub(super) unasked: BTreeSet<(u8, LinkNumber, RKey)>,
    pub(super) group: Option<GroupId>,
    pub(super) group_down: bool,
    pub(super) counts: Counts,
    deviations: BTreeMap<Deviation, Vec<u64>>,
    pub(super) frame: u64,
    transcript: Vec<String>,
}

impl<'a> Session<'a> {
    pub(super) fn new(script: &'a Script, setup: Setup) -> Self {
        let own = script
            .halves
            .iter()
            .find(|((_, end), half)| *end == setup.ours && half.first_contact)
            .map(|(_, half)| *half);
        let peer_id = own.map_or(PeerId::new(0, Mac::default()), |half| half.peer_id);
        let mut config = Config::new(peer_id);
        if setup.rmbs == Rmbs::Withdrawn {
            config.timeouts.rmb_idle = Duration::ZERO;
        }
        if let Some(half) = own {
            config.receive_buffer = half.buffer_size;
            config.send_buffer = half.buffer_size;
        }
        if let Some(v2) = own.and_then(|half| half.v2) {
            config.offers = Offers::SMCR_V2;
            config.v2.hostname = v2.extension.hostname;
            config.v2.os = PeerOs::LINUX;
            config.v2.ueids.push(v2.eid).unwrap_or_default();
        }
        (setup.configure)(&mut config);
        let roce = match own.and_then(|half| half.v2) {
            None => RoceVersion::V1,
            Some(_) => RoceVersion::V2,
        };
        let mtu = own.map_or(Mtu::M1024, |half| half.mtu);
        let mut paths = ports(script, setup.ours, mtu, roce);
        if setup.ports == Ports::One {
            paths.truncate(1);
        }
        let late = setup.completions == Completions::Late;
        Self {
            script,
            setup,
            host: Host::new(config, paths, script.links.clone(), late),
            identities: Identities::new(setup.rmbs == Rmbs::Kept),
            connections: BTreeMap::new(),
            streams: BTreeMap::new(),
            llc: VecDeque::new(),
            unasked: BTreeSet::new(),
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
        let posted = self.host.posted();
        let own = step.by == self.setup.ours;
        if own {
            self.complete(posted)?;
        }
        // No link has number 0: that is TCP.
        let link = step.link.unwrap_or_default();
        match (&step.what, own) {
            (What::Option { stream }, _) => self.open(*stream, step.by)?,
            (What::Clc { stream, message }, true) => self.own_clc(*stream, message, step)?,
            (What::Clc { stream, .. }, false) => self.feed_clc(*stream, step)?,
            (What::Llc { message }, true) => self.own_llc(link, message, step)?,
            (What::Llc { message }, false) => {
                // Of version 2 the order of the sender's machine is not ours (V2-151).
                if message.version == SmcVersion::V1 {
                    unaltered(&message.emit(), step)?;
                }
                self.feed_llc(link, message, step)?;
            }
            (What::Cdc { stream, cdc }, true) => self.own_cdc(link, *stream, cdc)?,
            (What::Cdc { stream, cdc }, false) => {
                unaltered(&cdc.emit(), step)?;
                self.feed_cdc(link, *stream, *cdc)?;
            }
            (What::Write { stream, write }, true) => {
                self.connection(*stream)?.captured_write(link, write)?;
            }
            (What::Write { stream, write }, false) => self.feed_write(link, *stream, write)?,
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

    pub(super) fn record(&mut self, text: &str) {
        self.transcript.push(format!("       ours     {text}"));
    }

    pub(super) fn delete_group(&mut self) -> Result<(), String> {
        let group = self.group.ok_or("no link group")?;
        self.host.endpoint.delete_group(self.host.now, group);
        self.host.pump()?;
        self.collect()
    }

    // ---- our end -----------------------------------------------------------

    /// Sorts the output of our end.
    pub(super) fn collect(&mut self) -> Result<(), String> {
        for output in core::mem::take(&mut self.host.outputs) {
            match output {
                Output::Clc(id, message) => {
                    self.record(&message.to_string());
                    self.connection_of(id)?.clc.push_back(*message);
                }
                Output::Llc(link, message) => {
                    self.record(&format!("on link {link}: {message}"));
                    self.llc.push_back((link, message));
                }
                Output::Cdc(link, cdc) => {
                    self.record(&format!("on link {link}: {cdc}"));
                    self.on_own_cdc(link, cdc)?;
                }
                Output::Write {
                    link,
                    conn,
                    rkey,
                    address,
                    bytes,
                } => {
                    let length = bytes.len();
                    self.record(&format!(
                        "on link {link}: write {rkey} at 0x{address:x}, {length} octets"
                    ));
                    self.counts.writes += 1;
                    self.connection_of(conn)?
                        .own_write(link, rkey, address, &bytes)?;
                }
                Output::Event(event) => {
                    self.record(&format!("{event:?}"));
                    self.on_event(event)?;
                }
                Output::Tcp(id, command) => {
                    self.record(&format!("TCP {command:?}"));
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

/// The ports of an end, each on an RNIC of its own and all on one LAN. The first
/// one is in the subnet that the client proposes.
fn ports(script: &Script, end: End, mtu: Mtu, roce: RoceVersion) -> Vec<LocalPath> {
    let ports = script.ports.get(&end).map_or(&[][..], Vec::as_slice);
    ports
        .iter()
        .enumerate()
        .map(|(index, (gid, mac))| {
            let mut path = LocalPath::new(DeviceId(index as u8), 1, *gid, *mac);
            path.mtu = mtu;
            path.subnet_match = index == 0;
            path.roce = roce;
            path
        })
        .collect()
}

/// Whether decoding and encoding a message leaves it as it is: then rewriting it
/// changes what is rewritten, and nothing else.
fn unaltered(emitted: &[u8], step: &Step) -> Result<(), String> {
    if emitted == step.bytes {
        Ok(())
    } else {
        Err("the captured message is encoded as other octets".into())
    }
}
