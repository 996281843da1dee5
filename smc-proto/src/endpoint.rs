//! The facade: every input, every output, and nothing that decides.

mod conn;
mod error;
mod events;
mod looking;
mod queries;
mod timeouts;

pub use conn::ConnMut;
pub use error::{AnswerError, OpenError};
pub use looking::Looked;
pub use queries::{LinkStatus, Usage};

pub use crate::command::BufferSpans;
use crate::command::{DataTurn, IsmCommand, RdmaCommand, Signal, TcpCommand};
use crate::completion::{IsmCompletion, RdmaCompletion};
use crate::config::Config;
use crate::connection::ApiMisuse;
use crate::connection_record::Pending;
use crate::data_path::{DataPath, Rest};
use crate::engine::{Core, Engine};
use crate::event::Event;
use crate::id::{BufferId, ConnId, DeviceId, GroupId, LinkId, WrId};
use crate::link_group::{Follows, Role, owner_of};
use crate::path::{PathEvent, Paths};
pub use crate::rendezvous::{ClcError, ClcProgress, ConnOptions, Next, Proposed, ProposedV2};
use crate::storage::Storage;
use crate::time::{Instant, earliest};
use crate::wire::BufferTooSmall;
use crate::wire::cdc_ism::CDC_ISM_LENGTH;
use crate::wire::types::DiagnosisCode;

/// One SMC stack: any number of connections, link groups and RNICs.
///
/// Methods are of four kinds.
///
/// - **Inputs** (`handle_*`) tell what happened in the world. They never fail
///   because of the peer, and each does a bounded amount of work.
/// - **Commands** (`connect`, `listen`, `accept`, `decline`, and everything on
///   [`ConnMut`]) are the application's.
/// - **Outputs** (`poll_*`) are drained until they give nothing, after any of
///   the above: CLC octets, TCP commands, RDMA commands per device, events.
///   What they give is derived from state when asked: an output that is not
///   polled is not lost and does not pile up.
/// - **Queries** change nothing.
#[derive(Clone, Debug)]
pub struct Endpoint<S> {
    core: Core,
    storage: S,
}

/// What happened to a TCP connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum TcpEvent {
    /// The peer sent FIN.
    PeerFin,
    /// The peer sent RST.
    PeerReset,
    /// The connection timed out or failed in another way.
    Failed,
}

impl<S: Storage> Endpoint<S> {
    /// A stack with these settings and tables.
    ///
    /// `random_seed` must be unpredictable to peers and differ between starts:
    /// alert tokens and packet sequence numbers come from it.
    pub const fn new(config: Config, random_seed: u64, storage: S) -> Self {
        Self {
            core: Core::new(config, random_seed),
            storage,
        }
    }

    /// The tables, to look at what was asked of them and to ration them.
    #[cfg(feature = "rations")]
    pub const fn storage(&mut self) -> &mut S {
        &mut self.storage
    }

    fn engine(&mut self, now: Instant) -> Engine<'_> {
        let engine = Engine::new(&mut self.core, self.storage.tables());
        engine.core.begin(now);
        engine
    }

    #[inline(always)]
    fn quiet_engine(&mut self) -> Engine<'_> {
        Engine::new(&mut self.core, self.storage.tables())
    }

    /// The tables that the data path needs; the others are not even looked at
    /// once this is inlined.
    #[inline(always)]
    fn data_path(&mut self) -> DataPath<'_> {
        DataPath::new(&mut self.core, self.storage.tables())
    }

    // ---- inputs --------------------------------------------------------------

    /// Shows octets received on a connection's TCP stream during its rendezvous,
    /// always from the first one not consumed yet.
    ///
    /// # Errors
    /// The octets broke the protocol; the connection is being reset, which
    /// [`Endpoint::poll_tcp`] tells (RFC 7609 C.6).
    pub fn handle_clc(
        &mut self,
        now: Instant,
        conn: ConnId,
        octets: &[u8],
    ) -> Result<ClcProgress, ClcError> {
        let mut engine = self.engine(now);
        let Some(index) = engine.live_conn(conn) else {
            return Ok(ClcProgress::NotClc);
        };
        let result = engine.on_clc(index, octets);
        engine.run_wakes();
        result
    }

    /// Tells what happened to a connection's TCP connection.
    pub fn handle_tcp(&mut self, now: Instant, conn: ConnId, event: TcpEvent) {
        let mut engine = self.engine(now);
        if let Some(index) = engine.live_conn(conn) {
            engine.on_tcp(index, event);
        }
        engine.run_wakes();
    }

    /// Tells what an RNIC answered or received. At most the payload of one
    /// message is looked at.
    #[inline]
    pub fn handle_rdma(&mut self, now: Instant, completion: RdmaCompletion<'_>) {
        self.core.begin(now);
        self.core.step();
        match completion {
            RdmaCompletion::Received { link, payload } => self.on_received(link, payload),
            RdmaCompletion::Sent { link, wr_id } => self.on_sent(link, wr_id),
            _ => self.finish_completion(&completion, Rest::Nothing),
        }
    }

    #[inline(never)]
    fn on_received(&mut self, link: LinkId, payload: &[u8]) {
        if !self.core.wakes.is_empty() || !self.data_path().ordinary_received(link, payload) {
            self.on_any_received(link, payload);
        }
    }

    #[inline(never)]
    fn on_any_received(&mut self, link: LinkId, payload: &[u8]) {
        let rest = self.data_path().on_received(link, payload);
        if rest != Rest::Nothing || !self.core.wakes.is_empty() {
            self.finish_completion(&RdmaCompletion::Received { link, payload }, rest);
        }
    }

    #[inline(never)]
    fn on_sent(&mut self, link: LinkId, wr_id: WrId) {
        if !self.core.wakes.is_empty() || !self.data_path().ordinary_sent(link, wr_id) {
            self.on_any_sent(link, wr_id);
        }
    }

    #[inline(never)]
    fn on_any_sent(&mut self, link: LinkId, wr_id: WrId) {
        let rest = self.data_path().on_sent(link, wr_id);
        if rest != Rest::Nothing || !self.core.wakes.is_empty() {
            self.finish_completion(&RdmaCompletion::Sent { link, wr_id }, rest);
        }
    }

    #[cold]
    #[inline(never)]
    fn finish_completion(&mut self, completion: &RdmaCompletion<'_>, rest: Rest) {
        let mut engine = self.quiet_engine();
        engine.on_completion(completion, rest);
        engine.run_wakes();
    }

    /// Tells what an ISM device answered or reported. At most one CDC message is
    /// looked at.
    pub fn handle_ism(&mut self, now: Instant, completion: IsmCompletion) {
        self.core.begin(now);
        self.core.step();
        let IsmCompletion::Signalled { buffer, cdc } = &completion else {
            return self.on_other_ism(&completion);
        };
        match self.on_usual_signal(*buffer, cdc) {
            Some((index, Follows::Readable)) => self.data_path().tell(index, Pending::READABLE),
            Some((_, Follows::Rest(Rest::Nothing))) => {}
            Some((_, Follows::Rest(rest))) => self.carry_out(rest),
            None => self.on_other_ism(&completion),
        }
    }

    #[inline(always)]
    fn on_usual_signal(
        &mut self,
        buffer: BufferId,
        cdc: &[u8; CDC_ISM_LENGTH],
    ) -> Option<(u32, Follows)> {
        let tables = self.storage.tables();
        let owner = owner_of(&tables.buffers, &tables.connections, buffer)?;
        let follows = DataPath::new(&mut self.core, tables).on_usual_signal(owner, cdc)?;
        Some((owner, follows))
    }

    #[inline(never)]
    fn on_other_ism(&mut self, completion: &IsmCompletion) {
        let mut engine = self.quiet_engine();
        engine.on_ism(completion);
        engine.run_wakes();
    }

    /// Tells of a change of a port or a device.
    pub fn handle_path(&mut self, now: Instant, event: PathEvent) {
        let mut engine = self.engine(now);
        engine.on_path(event);
        engine.run_wakes();
    }

    /// Lets timers fire; calling early or often is harmless.
    pub fn handle_timeout(&mut self, now: Instant) {
        let mut engine = self.engine(now);
        engine.on_timeout();
        engine.run_wakes();
    }

    // ---- commands ------------------------------------------------------------

    /// Client: starts the rendezvous of a TCP connection that is established.
    /// `paths` are the ports and devices that may carry it, the preferred one first; without
    /// any the connection is declined.
    ///
    /// # Errors
    /// [`OpenError::Full`]; the TCP connection is untouched. If both SYNs carried
    /// the SMC option, the server expects a CLC message before anything else: send
    /// a Decline ([`ClcMessage::Decline`](crate::wire::clc::ClcMessage)) before the
    /// application's first octet (CLC-072).
    pub fn connect<'p>(
        &mut self,
        now: Instant,
        options: ConnOptions,
        paths: impl Into<Paths<'p>>,
    ) -> Result<ConnId, OpenError> {
        let mut engine = self.engine(now);
        let index = engine.open(Role::Client, options, paths.into())?;
        Ok(engine.conn_id(index))
    }

    /// Server: starts the rendezvous of a TCP connection that was accepted.
    ///
    /// # Errors
    /// [`OpenError::Full`]; the TCP connection is untouched. If both SYNs carried
    /// the SMC option, the client may propose: answer its Proposal with a Decline
    /// ([`ClcMessage::Decline`](crate::wire::clc::ClcMessage)), or reset the TCP
    /// connection.
    pub fn listen(&mut self, now: Instant, options: ConnOptions) -> Result<ConnId, OpenError> {
        let mut engine = self.engine(now);
        let index = engine.open(Role::Server, options, Paths::default())?;
        Ok(engine.conn_id(index))
    }

    /// Server: answers [`Event::Proposed`] with the ports that may carry the
    /// connection; the engine chooses and decides (RENDEZVOUS-002).
    ///
    /// # Errors
    /// [`AnswerError::NotProposed`].
    pub fn accept<'p>(
        &mut self,
        now: Instant,
        conn: ConnId,
        paths: impl Into<Paths<'p>>,
    ) -> Result<(), AnswerError> {
        let mut engine = self.engine(now);
        let index = engine.live_conn(conn).ok_or(AnswerError::NotProposed)?;
        engine.accept(index, paths.into())?;
        engine.run_wakes();
        Ok(())
    }

    /// Server: answers [`Event::Proposed`] with Decline.
    ///
    /// # Errors
    /// [`AnswerError::NotProposed`].
    pub fn decline(
        &mut self,
        now: Instant,
        conn: ConnId,
        why: DiagnosisCode,
    ) -> Result<(), AnswerError> {
        let mut engine = self.engine(now);
        let index = engine.live_conn(conn).ok_or(AnswerError::NotProposed)?;
        engine.refuse(index, why)
    }

    /// Ends a link group in order; its connections are reset (CLOSE-038).
    pub fn delete_group(&mut self, now: Instant, group: GroupId) {
        let mut engine = self.engine(now);
        if engine.groups.is_live(group.index, group.generation) {
            engine.delete_group(group.index);
        }
        engine.run_wakes();
    }

    /// Deletes a link in order; its connections move to another one. The last link
    /// of a group takes the group along. A client asks the server to do it.
    pub fn delete_link(&mut self, now: Instant, link: LinkId) {
        let mut engine = self.engine(now);
        if engine.links.is_live(link.index, link.generation) {
            engine.delete_link(link.index);
        }
        engine.run_wakes();
    }

    /// A connection for reading and writing, unless the handle is stale.
    #[inline]
    pub fn conn(&mut self, conn: ConnId) -> Option<ConnMut<'_>> {
        let engine = Engine::looking_on(&mut self.core, self.storage.tables());
        let index = engine.live_conn(conn)?;
        Some(ConnMut { engine, index })
    }

    /// [`ConnMut::read`] of a connection; `None` if the handle is stale.
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was freed.
    #[inline]
    pub fn read(
        &mut self,
        now: Instant,
        conn: ConnId,
        take: impl FnOnce(&BufferSpans) -> u32,
    ) -> Option<Result<u32, ApiMisuse>> {
        self.core.begin(now);
        let mut path = self.data_path();
        let live = path.connections.is_live(conn.index, conn.generation);
        live.then(|| path.read(conn.index, take))
    }

    /// [`ConnMut::write`] to a connection, and what tells the peer of it, if the octets lie
    /// in memory that the peer reads and nobody comes first; `None` if the handle is stale.
    /// That is to be executed as an [`IsmCommand::Signal`], before the next call of any kind.
    /// Whatever else follows is polled as ever.
    ///
    /// # Errors
    /// [`ApiMisuse`]: nothing was sent.
    #[inline]
    pub fn write_and_tell(
        &mut self,
        now: Instant,
        conn: ConnId,
        fill: impl FnOnce(&BufferSpans) -> u32,
    ) -> Option<Result<(u32, Option<Signal>), ApiMisuse>> {
        self.core.begin(now);
        let mut rest = Rest::Nothing;
        let mut path = self.data_path();
        if !path.connections.is_live(conn.index, conn.generation) {
            return None;
        }
        let written = path.write_and_tell(conn.index, fill, &mut rest);
        if rest != Rest::Nothing {
            self.carry_out(rest);
        }
        Some(written)
    }

    // ---- outputs -------------------------------------------------------------

    /// Writes the next CLC message into `buffer`: for which connection, and how
    /// many octets. Send them before anything else on that TCP connection.
    ///
    /// # Errors
    /// [`BufferTooSmall`]: nothing happened; a buffer of
    /// [`MAX_LENGTH`](crate::wire::clc::MAX_LENGTH) octets always suffices.
    #[inline]
    pub fn poll_clc(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
    ) -> Result<Option<(ConnId, usize)>, BufferTooSmall> {
        if !self.core.has_clc_work() {
            return Ok(None);
        }
        self.next_clc(now, buffer)
    }

    #[inline(never)]
    fn next_clc(
        &mut self,
        now: Instant,
        buffer: &mut [u8],
    ) -> Result<Option<(ConnId, usize)>, BufferTooSmall> {
        let mut engine = self.engine(now);
        let result = engine.next_clc(buffer);
        engine.run_wakes();
        result
    }

    /// The next command for a TCP connection.
    #[inline]
    pub fn poll_tcp(&mut self) -> Option<(ConnId, TcpCommand)> {
        if self.core.tcp_out.is_empty() {
            return None;
        }
        self.next_tcp()
    }

    #[inline(never)]
    fn next_tcp(&mut self) -> Option<(ConnId, TcpCommand)> {
        let mut engine = self.quiet_engine();
        let index = engine.core.tcp_out.pop_front(&mut engine.connections)?;
        let command = engine.connections.at_mut(index)?.tcp.take()?;
        let conn = engine.conn_id(index);
        engine.release(index);
        Some((conn, command))
    }

    /// The next command for an RNIC. Poll only while the device can take one.
    #[inline]
    pub fn poll_rdma(&mut self, now: Instant, device: DeviceId) -> Option<RdmaCommand> {
        if !self.core.has_work(device) {
            return None;
        }
        self.next_rdma(now, device)
    }

    #[inline(never)]
    fn next_rdma(&mut self, now: Instant, device: DeviceId) -> Option<RdmaCommand> {
        self.engine(now).next_rdma(device)
    }

    /// Writes the message of [`RdmaCommand::SendLarge`] into `buffer` and tells its
    /// length, which is that of the command; 0 if its link is gone. To be called as soon
    /// as the command was polled.
    ///
    /// # Errors
    /// [`BufferTooSmall`]: nothing was written;
    /// [`LLC_V2_MAX_LENGTH`](crate::wire::llc::v2::LLC_V2_MAX_LENGTH) octets always
    /// suffice.
    pub fn emit_llc(
        &mut self,
        link: LinkId,
        wr_id: WrId,
        buffer: &mut [u8],
    ) -> Result<usize, BufferTooSmall> {
        let mut engine = self.quiet_engine();
        if !engine.links.is_live(link.index, link.generation) {
            return Ok(0);
        }
        engine.emit_large(link.index, wr_id.0, buffer)
    }

    /// Puts all that one connection sends in its turn into `turn`, if that is next
    /// for the device: whether it is. Otherwise [`Endpoint::poll_rdma`] tells what
    /// is; it also gives each step of a turn by itself, so that calling this is
    /// optional. Poll only while the device can take three work requests.
    #[inline]
    pub fn poll_data(&mut self, now: Instant, device: DeviceId, turn: &mut DataTurn) -> bool {
        self.core.has_work(device) && self.next_turn(now, device, turn)
    }

    #[inline(never)]
    fn next_turn(&mut self, now: Instant, device: DeviceId, turn: &mut DataTurn) -> bool {
        self.core.begin(now);
        self.data_path().ordinary_turn(device, turn) || self.next_any_turn(device, turn)
    }

    #[inline(never)]
    fn next_any_turn(&mut self, device: DeviceId, turn: &mut DataTurn) -> bool {
        loop {
            let mut rest = Rest::Nothing;
            let taken = self.data_path().next_turn(device, turn, &mut rest);
            if rest == Rest::Nothing {
                return taken;
            }
            self.carry_out(rest);
            if taken {
                return true;
            }
        }
    }

    /// Whether there is nothing to poll but commands for other devices than this ISM
    /// device.
    #[inline]
    pub fn is_quiet(&self, device: DeviceId) -> bool {
        let core = &self.core;
        !core.has_ism_work(device)
            && !core.has_clc_work()
            && core.tcp_out.is_empty()
            && !core.has_events()
    }

    /// The next command for an ISM device. Poll only while the device can take one,
    /// and execute it before the next call of any kind.
    #[inline]
    pub fn poll_ism(&mut self, now: Instant, device: DeviceId) -> Option<IsmCommand> {
        if !self.core.has_ism_work(device) {
            return None;
        }
        self.next_ism(now, device)
    }

    #[inline(never)]
    fn next_ism(&mut self, now: Instant, device: DeviceId) -> Option<IsmCommand> {
        self.core.begin(now);
        let mut rest = Rest::Nothing;
        if let Some(signal) = self.data_path().next_signal(device, &mut rest) {
            if rest != Rest::Nothing {
                self.carry_out(rest);
            }
            return Some(signal);
        }
        self.next_other_ism(device)
    }

    #[inline(never)]
    fn next_other_ism(&mut self, device: DeviceId) -> Option<IsmCommand> {
        let mut engine = self.quiet_engine();
        let command = engine.next_ism(device);
        engine.run_wakes();
        command
    }

    #[cold]
    #[inline(never)]
    fn carry_out(&mut self, rest: Rest) {
        self.quiet_engine().carry_out(rest);
    }

    /// The next event.
    #[inline]
    pub fn poll_event(&mut self) -> Option<Event> {
        if let Some(event) = self.data_path().next_of_octets() {
            return Some(event);
        }
        if self.core.has_events() {
            return self.next_event();
        }
        None
    }

    #[inline(never)]
    fn next_event(&mut self) -> Option<Event> {
        self.quiet_engine().next_event()
    }

    /// When to call [`Endpoint::handle_timeout`] at the latest.
    #[inline]
    pub fn poll_timeout(&mut self) -> Option<Instant> {
        let tables = self.storage.tables();
        // Most often nobody waits for anything.
        let waits = tables.connections.has_deadlines()
            || tables.handshakes.has_deadlines()
            || tables.groups.has_deadlines()
            || tables.links.has_deadlines()
            || tables.buffers.has_deadlines();
        if waits { self.first_timeout() } else { None }
    }

    #[inline(never)]
    fn first_timeout(&mut self) -> Option<Instant> {
        let tables = self.storage.tables();
        let deadlines = [
            tables.connections.earliest(),
            tables.handshakes.earliest(),
            tables.groups.earliest(),
            tables.links.earliest(),
            tables.buffers.earliest(),
        ];
        deadlines.into_iter().fold(None, |first, next| {
            earliest(first, next.map(|(deadline, _)| deadline))
        })
    }
}
