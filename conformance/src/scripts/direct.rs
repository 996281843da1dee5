//! One engine, an adapter of plain memory, and virtual time.

pub use app::bytes;

mod app;
mod ism;
mod memory;
mod settings;
mod wire;

use std::collections::{BTreeMap, VecDeque};

use smc_proto::command::{RdmaCommand, TcpCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::MAX_DEVICES;
use smc_proto::endpoint::{ClcProgress, ConnOptions, Endpoint, Next, TcpEvent, Usage};
use smc_proto::event::Event;
use smc_proto::id::{ConnId, GroupId, LinkId};
use smc_proto::path::{IsmPath, LocalPath, Paths};
use smc_proto::storage::Owned;
use smc_proto::time::Instant;

use super::parsed::Setup;
use super::text::Unclear;
use super::wire::{End, Failed, Received, Seen};
use crate::rig::{Kind, Output, Outputs, large};
use crate::script::{Adapter, Answered};

/// A TCP connection as the engine's host sees it.
#[derive(Debug, Default)]
struct Stream {
    /// Bytes of the peer that were not taken yet.
    pending: Vec<u8>,
    /// The bytes of the peer are the application's.
    plain: bool,
    /// The peer's Decline may still come.
    watching: bool,
    /// The engine reset the connection.
    over: bool,
    /// What the application got.
    got: Vec<u8>,
}

/// The engine under test and its host.
#[derive(Debug)]
pub struct Direct {
    endpoint: Endpoint<Owned>,
    adapter: Adapter<Vec<u8>>,
    ism: ism::Device,
    paths: Vec<LocalPath>,
    ism_paths: Vec<IsmPath>,
    options: ConnOptions,
    answers: bool,
    now: Instant,
    conns: BTreeMap<u8, ConnId>,
    streams: BTreeMap<u8, Stream>,
    qpns: BTreeMap<LinkId, u32>,
    groups: Vec<GroupId>,
    received: VecDeque<Received>,
    seen: VecDeque<(u8, Seen)>,
    fault: Option<String>,
    /// Internal events, as text, for finding a cause.
    inside: Vec<String>,
}

impl Direct {
    /// An engine set up like this.
    ///
    /// # Errors
    /// A setting that is none.
    pub fn new(setup: &Setup) -> Result<Self, Unclear> {
        let made = settings::apply(setup)?;
        Ok(Self {
            endpoint: Endpoint::new(made.config, 7, Owned::new(made.limits)),
            adapter: Adapter::default(),
            ism: ism::Device::default(),
            paths: made.paths,
            ism_paths: made.ism_paths,
            options: made.options,
            answers: made.answers,
            now: Instant::ZERO,
            conns: BTreeMap::new(),
            streams: BTreeMap::new(),
            qpns: BTreeMap::new(),
            groups: Vec::new(),
            received: VecDeque::new(),
            seen: VecDeque::new(),
            fault: None,
            inside: Vec::new(),
        })
    }

    fn note(&mut self, line: String) {
        // A flood needs no transcript of its own.
        if self.inside.len() < 2_000 {
            let at = format!("{:?}", self.now);
            self.inside.push(format!("{at:>12}  {line}"));
        }
    }

    fn fail(&mut self, why: impl Into<String>) {
        if self.fault.is_none() {
            self.fault = Some(why.into());
        }
    }

    fn number_of(&self, conn: ConnId) -> u8 {
        let mut conns = self.conns.iter();
        let named = conns.find(|(_, known)| **known == conn);
        named.map_or(0, |(number, _)| *number)
    }

    fn link_of(&self, qpn: u32) -> Result<LinkId, Failed> {
        let mut qpns = self.qpns.iter();
        qpns.find(|(_, known)| **known == qpn)
            .map(|(link, _)| *link)
            .ok_or_else(|| format!("the engine has no queue pair {qpn:#x}"))
    }

    /// Does everything the engine asks for.
    fn pump(&mut self) {
        let mut outputs = Outputs::new(MAX_DEVICES as u8);
        while let Some(output) = outputs.next(&mut self.endpoint, self.now) {
            match output {
                Output::Clc(conn, bytes) => {
                    let (conn, bytes) = (self.number_of(conn), bytes.to_vec());
                    self.received.push_back(Received::Tcp { conn, bytes });
                }
                Output::Tcp(conn, command) => self.tcp_command(conn, command),
                Output::Rdma(command) => self.execute(&command),
                Output::Ism(device, command) => self.execute_ism(device, &command),
                Output::Event(event) => self.event(event),
            }
        }
    }

    fn tcp_command(&mut self, conn: ConnId, command: TcpCommand) {
        self.note(format!("{conn} TCP {command:?}"));
        let number = self.number_of(conn);
        let stream = self.streams.entry(number).or_default();
        match command {
            TcpCommand::HandOver { watch_for_decline } => {
                stream.watching = watch_for_decline;
                if !watch_for_decline {
                    stream.plain = true;
                }
                if !stream.pending.is_empty() {
                    self.show(number);
                }
            }
            TcpCommand::Close => self.received.push_back(Received::Fin { conn: number }),
            TcpCommand::Reset => {
                stream.over = true;
                self.received.push_back(Received::Reset { conn: number });
            }
        }
    }

    /// Shows the engine what came over TCP, as its contract asks for.
    fn show(&mut self, number: u8) {
        let Some(conn) = self.conns.get(&number).copied() else {
            return;
        };
        loop {
            let stream = self.streams.entry(number).or_default();
            if stream.over {
                stream.pending.clear();
                return;
            }
            if stream.plain {
                let rest = std::mem::take(&mut stream.pending);
                stream.got.extend(rest);
                return;
            }
            if stream.pending.is_empty() {
                return;
            }
            let pending = stream.pending.clone();
            let progress = self.endpoint.handle_clc(self.now, conn, &pending);
            let stream = self.streams.entry(number).or_default();
            match progress {
                Ok(ClcProgress::Consumed { len, next }) => {
                    stream.pending.drain(..len.min(pending.len()));
                    stream.plain = next == Next::Stop;
                }
                Ok(ClcProgress::NeedMore { total }) => {
                    if total <= pending.len() {
                        let has = pending.len();
                        self.fail(format!("the engine wants {total} octets and has {has}"));
                    }
                    self.pump();
                    return;
                }
                Ok(ClcProgress::NotClc) => stream.plain = true,
                Err(error) => {
                    stream.over = true;
                    self.note(format!("{conn} {error}"));
                }
            }
            self.pump();
        }
    }

    fn execute(&mut self, command: &RdmaCommand) {
        let kind = Kind::of(command);
        self.note(format!("command {kind}"));
        let (completion, refused) = match self.adapter.issue(command) {
            Err(breach) => return self.fail(format!("{kind}: {breach}")),
            Ok(Answered::Held) => (None, false),
            Ok(Answered::Refused(completion)) => (completion, true),
            Ok(Answered::Done(completion)) => (completion, false),
        };
        // What was posted arrives whether or not its completion is reported.
        if !refused {
            self.arrive(command);
        }
        self.report(completion);
    }

    fn arrive(&mut self, command: &RdmaCommand) {
        let end = |qpns: &BTreeMap<LinkId, u32>, link| {
            End::Qp(qpns.get(link).copied().unwrap_or_default())
        };
        match command {
            RdmaCommand::Send { link, payload, .. } => {
                let (end, bytes) = (end(&self.qpns, link), payload.to_vec());
                self.received.push_back(Received::Sent { end, bytes });
            }
            RdmaCommand::SendLarge {
                link,
                wr_id,
                length,
            } => {
                let bytes = match large(&mut self.endpoint, *link, *wr_id, *length) {
                    Ok(bytes) => bytes,
                    Err(breach) => return self.fail(breach),
                };
                let end = end(&self.qpns, link);
                self.received.push_back(Received::Sent { end, bytes });
            }
            RdmaCommand::Write {
                link,
                buffer,
                source,
                rkey,
                address,
                ..
            } => {
                let nic = &mut self.adapter.nic;
                let bytes = memory::octets(nic, &mut self.ism.device, *buffer, source);
                self.received.push_back(Received::Wrote {
                    end: end(&self.qpns, link),
                    key: rkey.0.into(),
                    address: *address,
                    bytes,
                });
            }
            _ => {}
        }
    }

    fn report(&mut self, completion: Option<RdmaCompletion<'static>>) {
        if let Some(RdmaCompletion::QpCreated { link, qpn }) = completion {
            self.qpns.insert(link, qpn.value());
        }
        if let Some(completion) = completion {
            self.endpoint.handle_rdma(self.now, completion);
        }
    }

    fn event(&mut self, event: Event) {
        self.note(format!("{event:?}"));
        let qpn = |qpns: &BTreeMap<LinkId, u32>, link| qpns.get(&link).copied().unwrap_or(0);
        let (conn, seen) = match event {
            Event::Proposed { conn } if self.answers => {
                self.answer(conn);
                return;
            }
            Event::Proposed { conn } => (Some(conn), Seen::Proposed),
            Event::Established { conn, .. } => (Some(conn), Seen::Established),
            Event::FellBack { conn, why } => {
                let peer = why.peer_diagnosis.map(|code| code.0);
                (Some(conn), Seen::FellBack(why.code.0, peer))
            }
            Event::Closed { conn, reason } => (Some(conn), Seen::Closed(format!("{reason:?}"))),
            Event::LinkUp { link, .. } => (None, Seen::LinkUp(qpn(&self.qpns, link))),
            Event::LinkDown { link, .. } => (None, Seen::LinkDown(qpn(&self.qpns, link))),
            Event::GroupUp { group } => {
                self.groups.push(group);
                return;
            }
            Event::GroupDown { .. } => (None, Seen::GroupDown),
            _ => return,
        };
        let number = conn.map_or(0, |conn| self.number_of(conn));
        self.seen.push_back((number, seen));
    }

    fn answer(&mut self, conn: ConnId) {
        let paths = Paths::new(&self.paths, &self.ism_paths);
        if self.endpoint.accept(self.now, conn, paths).is_err() {
            self.fail("a Proposal was reported that does not wait");
        }
    }

    fn report_tcp(&mut self, conn: u8, event: TcpEvent) {
        if let Some(conn) = self.conns.get(&conn).copied() {
            self.endpoint.handle_tcp(self.now, conn, event);
        }
        self.pump();
    }

    fn run_timers(&mut self, until: Instant) -> bool {
        match self.endpoint.poll_timeout() {
            Some(deadline) if deadline <= until => {
                self.now = self.now.max(deadline);
                self.endpoint.handle_timeout(self.now);
                self.pump();
                true
            }
            _ => false,
        }
    }

    fn what_is_left(&mut self) -> Result<(), Failed> {
        let usage = self.endpoint.usage();
        if usage != Usage::default() {
            return Err(format!("something is left in the engine: {usage:?}"));
        }
        self.adapter
            .is_empty()
            .map_err(|left| format!("the adapter still has {left}"))?;
        self.ism.is_empty()
    }

    /// Lets time pass until nothing is due any more.
    fn run_down(&mut self) -> Result<(), Failed> {
        for _ in 0..10_000 {
            if let Some(fault) = &self.fault {
                return Err(fault.clone());
            }
            match self.endpoint.poll_timeout() {
                Some(deadline) => {
                    self.run_timers(deadline);
                }
                None => return Ok(()),
            }
        }
        Err("timers never end".to_owned())
    }
}
