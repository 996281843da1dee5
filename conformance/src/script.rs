//! One real endpoint against a peer that a test plays by hand.
//!
//! A test reads like the conversation it is about:
//!
//! ```
//! use conformance::script::Script;
//!
//! let mut s = Script::client();
//! let conn = s.connect();
//! s.expect_proposal(conn);
//! s.accept(conn, s.peer.accept(1));
//! s.expect_confirm(conn);
//! s.send(s.peer.confirm_link());
//! s.expect_confirm_link_reply();
//! s.send(s.peer.add_link());
//! s.expect_add_link_rejection();
//! s.expect_established(conn);
//! s.end();
//! ```
//!
//! Time is virtual. RDMA commands are carried out at once by an [`Adapter`] that
//! checks their order; a test may have it refuse or hold some. Whatever the engine sends
//! waits until the test expects it, in order per kind. A failed expectation prints
//! the conversation so far.

mod adapter;
mod agreement;
mod expect;
mod flows;
mod flows_links;
mod links;
mod waiting;

use core::fmt::Display;
use std::collections::{BTreeMap, VecDeque};

pub use crate::rig::Kind;
pub use crate::rig::peer::Peer;
pub use adapter::Adapter;
pub(crate) use adapter::Answered;
pub use links::{Over, rnic};
use smc_proto::command::{RdmaCommand, TcpCommand};
use smc_proto::completion::RdmaCompletion;
use smc_proto::config::{Config, MAX_DEVICES};
use smc_proto::endpoint::{ClcError, ClcProgress, ConnOptions, Endpoint, Next, TcpEvent, Usage};
use smc_proto::event::Event;
use smc_proto::id::{ConnId, DeviceId, GroupId, LinkId};
use smc_proto::path::{LocalPath, PathEvent};
use smc_proto::storage::Limits;
use smc_proto::time::{Duration, Instant};
use smc_proto::version::SmcVersion;
use smc_proto::wire::cdc::Cdc;
use smc_proto::wire::clc::{AcceptConfirm, ClcMessage, Subnets};
use smc_proto::wire::llc::LlcMessage;
use smc_proto::wire::types::{DiagnosisCode, Mac, PeerId};
use smc_transport_sim::sim::{Tables, tables_of_test};
pub use waiting::Waiting;

use crate::rig::{Output, Outputs, ipv4_gid, local_port};

/// Compares what was found with what was expected; if they differ, fails with
/// the conversation of the script.
#[macro_export]
macro_rules! check {
    ($script:ident, $found:expr, $expected:expr $(,)?) => {{
        let (found, expected) = ($found, $expected);
        $script.expect_eq(found, expected);
    }};
}

/// The first RNIC of the endpoint, and the only one of most scripts.
pub const DEVICE: DeviceId = DeviceId(0);

/// An endpoint, its adapter and the peer played by the test.
#[derive(Clone, Debug)]
pub struct Script {
    /// The engine under test.
    pub endpoint: Endpoint<Tables>,
    /// Executor of its RDMA commands.
    pub adapter: Adapter,
    /// What the peer sends of itself unless the test changes it.
    pub peer: Peer,
    /// Ports given to `connect` and `accept`.
    pub paths: Vec<LocalPath>,
    /// Virtual time.
    pub now: Instant,
    transcript: Vec<String>,
    clc: VecDeque<(ConnId, ClcMessage)>,
    tcp: VecDeque<(ConnId, TcpCommand)>,
    /// Connections on TCP whose peer may yet decline.
    watching: Vec<ConnId>,
    llc: VecDeque<(LinkId, LlcMessage<'static>)>,
    cdc: VecDeque<(LinkId, Cdc)>,
    events: VecDeque<Event>,
    /// `LinkUp` and `LinkDown`, which few scripts are about.
    pub link_events: VecDeque<Event>,
    /// Links by the number that the engine's messages gave them.
    numbers: BTreeMap<u8, LinkId>,
    /// The group that came up last.
    pub group: Option<GroupId>,
    /// Whether CLC messages are left unpolled: TCP takes nothing.
    pub hold_clc: bool,
    /// Bytes the engine wrote into the peer's memory: key, address, length.
    pub writes: Vec<(u32, u64, u32)>,
}

/// How much an endpoint of a script can hold.
pub const LIMITS: Limits = Limits::new(300, 300, 16, 32, 620, 620);

impl Script {
    /// An endpoint with default settings whose peer is a server.
    #[must_use]
    pub fn client() -> Self {
        Self::with(|_| {})
    }

    /// An endpoint with default settings whose peer is a client.
    #[must_use]
    pub fn server() -> Self {
        Self::with(|_| {})
    }

    /// An endpoint with these settings.
    #[must_use]
    pub fn with(configure: impl FnOnce(&mut Config)) -> Self {
        Self::limited(LIMITS, configure)
    }

    /// An endpoint with tables of these sizes.
    #[must_use]
    pub fn limited(limits: Limits, configure: impl FnOnce(&mut Config)) -> Self {
        let path = path(1);
        let mut config = Config::new(PeerId::new(1, path.mac));
        // Scripts name what happens; a pause would only be waited for.
        config.timeouts.confirm_link_delay = Duration::ZERO;
        configure(&mut config);
        Self {
            endpoint: Endpoint::new(config, 7, tables_of_test(limits)),
            adapter: Adapter::default(),
            peer: Peer::default(),
            paths: vec![path],
            now: Instant::ZERO,
            transcript: Vec::new(),
            clc: VecDeque::new(),
            tcp: VecDeque::new(),
            watching: Vec::new(),
            llc: VecDeque::new(),
            cdc: VecDeque::new(),
            events: VecDeque::new(),
            link_events: VecDeque::new(),
            numbers: BTreeMap::new(),
            group: None,
            hold_clc: false,
            writes: Vec::new(),
        }
    }

    /// Adds a line to the conversation.
    pub fn note(&mut self, line: impl Display) {
        // A flood needs no transcript of its own.
        if self.transcript.len() < 5_000 {
            let at = format!("{:?}", self.now);
            self.transcript.push(format!("{at:>12}  {line}"));
        }
    }

    /// The conversation so far.
    #[must_use]
    pub fn transcript(&self) -> String {
        self.transcript.join("\n")
    }

    // ---- what the endpoint's host does ---------------------------------------

    /// Opens a connection as client.
    #[track_caller]
    pub fn connect(&mut self) -> ConnId {
        self.connect_with(ConnOptions::new(Subnets::default()))
    }

    /// Opens a connection as client with these options.
    #[track_caller]
    pub fn connect_with(&mut self, options: ConnOptions) -> ConnId {
        let paths = self.paths.clone();
        let opened = self.endpoint.connect(self.now, options, &paths);
        let conn = opened.expect("a free slot");
        self.note(format_args!("connect {conn}"));
        self.pump();
        conn
    }

    /// Accepts a TCP connection as server.
    #[track_caller]
    pub fn listen(&mut self) -> ConnId {
        self.listen_with(ConnOptions::new(Subnets::default()))
    }

    /// Accepts a TCP connection as server with these options.
    #[track_caller]
    pub fn listen_with(&mut self, options: ConnOptions) -> ConnId {
        let opened = self.endpoint.listen(self.now, options);
        let conn = opened.expect("a free slot");
        self.note(format_args!("listen {conn}"));
        self.pump();
        conn
    }

    /// Answers a Proposal with all ports.
    #[track_caller]
    pub fn take_proposal(&mut self, conn: ConnId) {
        self.expect_event(Event::Proposed { conn });
        let paths = self.paths.clone();
        let answer = self.endpoint.accept(self.now, conn, &paths);
        answer.expect("a Proposal that waits");
        self.pump();
    }

    /// Sends `length` bytes on a connection.
    #[track_caller]
    pub fn write(&mut self, conn: ConnId, length: u32) {
        self.note(format_args!("{conn} writes {length}"));
        let now = self.now;
        let mut c = self.endpoint.conn(conn).expect("a live connection");
        c.commit(now, length).expect("space");
        self.pump();
    }

    /// Bytes that can be read.
    pub fn readable(&mut self, conn: ConnId) -> u32 {
        let spans = self.endpoint.conn(conn).and_then(|c| c.readable());
        spans.map_or(0, |spans| spans.len())
    }

    /// Calls a method of a connection, then does what follows.
    #[track_caller]
    pub fn on<R>(
        &mut self,
        conn: ConnId,
        act: impl FnOnce(&mut smc_proto::endpoint::ConnMut<'_>, Instant) -> R,
    ) -> R {
        let now = self.now;
        let mut c = self.endpoint.conn(conn).expect("a live connection");
        let result = act(&mut c, now);
        self.pump();
        result
    }

    /// Notifies the engine of an event of TCP.
    pub fn tcp(&mut self, conn: ConnId, event: TcpEvent) {
        self.note(format_args!("{conn} TCP {event:?}"));
        self.endpoint.handle_tcp(self.now, conn, event);
        self.pump();
    }

    /// Notifies the engine of an event of a port.
    pub fn path(&mut self, event: PathEvent) {
        self.note(format_args!("{event:?}"));
        self.endpoint.handle_path(self.now, event);
        self.pump();
    }

    // ---- what the peer does --------------------------------------------------

    /// Sends a CLC message, which must be taken: what comes behind it.
    #[track_caller]
    pub fn clc(&mut self, conn: ConnId, message: &ClcMessage) -> Next {
        let bytes = Peer::octets(message);
        self.note(format_args!("{conn} <- {message}"));
        match self.feed(conn, &bytes) {
            Ok(ClcProgress::Consumed { len, next }) if len == bytes.len() => next,
            other => self.fail(format_args!("the message was not taken: {other:?}")),
        }
    }

    /// Sends an Accept.
    #[track_caller]
    pub fn accept(&mut self, conn: ConnId, accept: AcceptConfirm) {
        let _ = self.clc(conn, &ClcMessage::Accept(accept));
    }

    /// Sends a Confirm.
    #[track_caller]
    pub fn confirm(&mut self, conn: ConnId, confirm: AcceptConfirm) {
        let _ = self.clc(conn, &ClcMessage::Confirm(confirm));
    }

    /// Sends bytes over TCP: what the engine makes of them.
    pub fn octets(&mut self, conn: ConnId, bytes: &[u8]) -> Result<ClcProgress, ClcError> {
        self.note(format_args!(
            "{conn} <- {} octets {:02x?}",
            bytes.len(),
            &bytes[..bytes.len().min(12)]
        ));
        let result = self.feed(conn, bytes);
        self.note(format_args!("{conn} {result:?}"));
        result
    }

    fn feed(&mut self, conn: ConnId, bytes: &[u8]) -> Result<ClcProgress, ClcError> {
        let result = self.endpoint.handle_clc(self.now, conn, bytes);
        self.pump();
        result
    }

    /// Sends an LLC message on the latest link.
    #[track_caller]
    pub fn send(&mut self, message: LlcMessage<'static>) {
        let link = self.link();
        self.send_on(link, message);
    }

    /// Sends an LLC message on a link.
    pub fn send_on(&mut self, link: LinkId, message: LlcMessage<'static>) {
        self.note(format_args!("{link} <- {message}"));
        self.send_raw(link, &message.emit_short(SmcVersion::V1).unwrap());
    }

    /// Sends a CDC message on a link.
    pub fn send_cdc(&mut self, link: LinkId, cdc: Cdc) {
        self.note(format_args!("{link} <- {cdc}"));
        self.send_raw(link, &cdc.emit());
    }

    /// Sends any bytes on a link.
    pub fn send_raw(&mut self, link: LinkId, payload: &[u8]) {
        let received = RdmaCompletion::Received { link, payload };
        self.endpoint.handle_rdma(self.now, received);
        self.pump();
    }

    /// The first link there is: the one that carries connections.
    #[track_caller]
    pub fn link(&self) -> LinkId {
        match self.adapter.links().next() {
            Some(link) => link,
            None => self.fail("there is no link"),
        }
    }

    // ---- time and work -------------------------------------------------------

    /// Lets time pass; timers fire when they are due.
    pub fn wait(&mut self, time: Duration) {
        let end = self.now.after(time);
        while let Some(deadline) = self.endpoint.poll_timeout()
            && deadline <= end
        {
            self.now = self.now.max(deadline);
            self.endpoint.handle_timeout(self.now);
            self.pump();
        }
        self.now = end;
    }

    /// Reports a completion.
    pub fn complete(&mut self, completion: RdmaCompletion<'_>) {
        self.note(format_args!("{completion:?}"));
        self.endpoint.handle_rdma(self.now, completion);
        self.pump();
    }

    /// Lets the adapter answer what it held back.
    pub fn release(&mut self) {
        self.adapter.hold = None;
        self.adapter.hold_link = None;
        self.hold_clc = false;
        for command in std::mem::take(&mut self.adapter.held) {
            self.note(format_args!("late: {}", Kind::of(&command)));
            let completion = self.adapter.done(&command);
            self.report(completion);
        }
        self.pump();
    }

    /// Has the adapter refuse what it held back.
    pub fn refuse_held(&mut self) {
        self.adapter.hold = None;
        for command in std::mem::take(&mut self.adapter.held) {
            self.note(format_args!("late refusal: {}", Kind::of(&command)));
            let completion = self.adapter.nic.refused(&command);
            self.report(completion);
        }
        self.pump();
    }

    /// Lets the adapter answer the first thing it held back, and holds on.
    pub fn release_one(&mut self) {
        if !self.adapter.held.is_empty() {
            let command = self.adapter.held.remove(0);
            self.note(format_args!("late: {}", Kind::of(&command)));
            let completion = self.adapter.done(&command);
            self.report(completion);
        }
        self.pump();
    }

    /// Does everything the endpoint asks for.
    pub fn pump(&mut self) {
        let mut outputs = Outputs::new(MAX_DEVICES as u8);
        outputs.hold_clc = self.hold_clc;
        while let Some(output) = outputs.next(&mut self.endpoint, self.now) {
            match output {
                Output::Clc(conn, bytes) => self.sent_clc(conn, bytes),
                Output::Tcp(conn, command) => {
                    self.note(format_args!("{conn} TCP {command:?}"));
                    if let TcpCommand::HandOver { watch_for_decline } = command
                        && watch_for_decline
                    {
                        self.watching.push(conn);
                    }
                    self.tcp.push_back((conn, command));
                }
                Output::Rdma(command) => self.execute(&command),
                Output::Ism(_, command) => self.fail(format_args!("{command:?}")),
                Output::Event(event) => {
                    self.note(format_args!("event {event:?}"));
                    if let Event::GroupUp { group } = event {
                        self.group = Some(group);
                    }
                    match event {
                        Event::LinkUp { .. } | Event::LinkDown { .. } => {
                            self.link_events.push_back(event);
                        }
                        event => self.events.push_back(event),
                    }
                }
            }
        }
    }

    fn sent_clc(&mut self, conn: ConnId, bytes: &[u8]) {
        let (message, _) = ClcMessage::parse(bytes).expect("what is emitted can be read");
        self.note(format_args!("{conn} -> {message}"));
        if let ClcMessage::Decline(decline) = &message {
            // The peer gives up its link group for it.
            let lost = decline.diagnosis == DiagnosisCode::OUT_OF_SYNC;
            self.expect_eq(decline.out_of_sync, lost);
        }
        self.clc.push_back((conn, message));
    }

    fn execute(&mut self, command: &RdmaCommand) {
        let kind = Kind::of(command);
        match command {
            RdmaCommand::Send { link, payload, .. } => {
                match LlcMessage::parse(payload, SmcVersion::V1) {
                    Ok(message) => {
                        self.note(format_args!("{link} -> {message}"));
                        self.note_number(&message);
                        let message = message.to_static().expect("no list of version 1 is long");
                        self.llc.push_back((*link, message));
                    }
                    Err(_) => {
                        let cdc = Cdc::parse(payload).expect("what is emitted can be read");
                        self.note(format_args!("{link} -> {cdc}"));
                        self.cdc.push_back((*link, cdc));
                    }
                }
            }
            RdmaCommand::Write {
                source,
                rkey,
                address,
                ..
            } => {
                let length = source.iter().map(|piece| piece.length).sum();
                self.note(format_args!("WRITE {length} to {rkey}@{address:x}"));
                self.writes.push((rkey.0, *address, length));
            }
            RdmaCommand::AllocBuffer {
                eye_catcher: true, ..
            } => self.note("command Alloc with eye catcher"),
            _ => self.note(format_args!("command {kind}")),
        }
        let completion = match self.adapter.issue(command) {
            Err(breach) => self.fail(breach),
            Ok(Answered::Held) => None,
            Ok(Answered::Refused(completion)) => {
                self.note(format_args!("refused: {kind}"));
                completion
            }
            Ok(Answered::Done(completion)) => completion,
        };
        self.report(completion);
    }

    fn report(&mut self, completion: Option<RdmaCompletion<'static>>) {
        if let Some(completion) = completion {
            self.endpoint.handle_rdma(self.now, completion);
        }
    }

    // ---- the end -------------------------------------------------------------

    /// Lets everything run out, timers included, and finds nothing left (I11):
    /// no object in the endpoint's tables, nothing at the adapter.
    #[track_caller]
    pub fn end(mut self) {
        self.give_up();
        let usage = self.endpoint.usage();
        if usage != Usage::default() {
            self.fail(format_args!("something is left: {usage:?}"));
        }
        if let Err(left) = self.adapter.is_empty() {
            self.fail(format_args!("the adapter still has {left}"));
        }
    }

    /// Lets everything run out, and applications that fell back give their TCP
    /// connections up: no Decline of the peer is waited for any more.
    #[track_caller]
    pub fn give_up(&mut self) {
        self.run_out();
        for conn in std::mem::take(&mut self.watching) {
            if let Some(mut conn) = self.endpoint.conn(conn) {
                conn.abort(self.now);
            }
        }
        self.run_out();
    }

    /// Lets time pass until nothing is due any more.
    #[track_caller]
    pub fn run_out(&mut self) {
        self.release();
        for _ in 0..10_000 {
            match self.endpoint.poll_timeout() {
                Some(deadline) => self.wait(deadline.since(self.now)),
                None => return,
            }
        }
        self.fail("timers never end");
    }

    /// Fails the test with the conversation so far.
    #[track_caller]
    pub fn fail(&self, why: impl Display) -> ! {
        let events = self.endpoint.observer_ref();
        panic!("{why}\n{}\nevents:\n{events}\n", self.transcript());
    }
}

/// A port of the endpoint's RNIC.
#[must_use]
pub fn path(port: u8) -> LocalPath {
    let (gid, mac) = (ipv4_gid([10, 0, 0, port]), Mac([2, 0, 0, 0, 0, port]));
    local_port(DEVICE, port, gid, mac)
}
