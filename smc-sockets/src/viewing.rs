//! What this process publishes of itself, see [`smc_view`].
//!
//! Rows are written when something is decided or changes its state, and before the program waits.
//! On the way of bytes there are two additions to words that only this connection writes.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::{IntoRawFd, OwnedFd};
use std::sync::atomic::{AtomicU8, AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::io::Errno;
use smc_proto::connection::{CloseState, Progress};
use smc_proto::id::{ConnId, GroupId, LinkId};
use smc_proto::version::{SmcVersion, Technology};
use smc_view::trace::{self, TraceWriter};
use smc_view::{Connection, ConnectionRow, Extra, Publisher, Role, Side, state};

use crate::carrier::{Carrier, Cause, WhyTcp};
use crate::descriptors;
use crate::process::PerProcess;
use crate::system;

/// Variable that keeps the process from publishing anything, by the value `0`.
const VARIABLE: &str = "SMC_VIEW";

/// The view of this process.
struct View {
    publisher: &'static Publisher,
    /// The descriptor by which readers find it.
    file: Kept,
    /// Where events are written, if there is room for them.
    tracer: Option<TraceWriter>,
    /// The descriptor by which readers find those.
    trace: Kept,
}

/// A descriptor that is kept open, and its inode, until it is given up.
#[derive(Default)]
struct Kept(Mutex<Option<(OwnedFd, u64)>>);

impl Kept {
    fn new(file: OwnedFd) -> Self {
        let of = inode(&file);
        Self(Mutex::new(Some((file, of))))
    }

    /// Closes the descriptor; whether that makes room.
    fn give_up(&self) -> bool {
        let file = self.0.lock().ok().and_then(|mut file| file.take());
        let Some((file, of)) = file else {
            return false;
        };
        if inode(&file) == of {
            return true;
        }
        // A program that has closed all its descriptors has another one there.
        let _ = file.into_raw_fd();
        false
    }
}

static OF_PROCESS: PerProcess<Option<View>> = PerProcess::new();

/// What this process publishes to, unless it does not.
pub(crate) fn publisher() -> Option<&'static Publisher> {
    let make = || -> io::Result<_> {
        let is_off = !system::is_secure() && std::env::var_os(VARIABLE).is_some_and(|at| at == "0");
        // Without memory for it there is none, as long as the process lives.
        Ok(if is_off { None } else { start() })
    };
    let view = OF_PROCESS.get_or_make(make).ok()?.as_ref();
    view.map(|view| view.publisher)
}

/// Where this process writes events, if it publishes anything.
pub(crate) fn tracer() -> Option<&'static TraceWriter> {
    publisher()?;
    OF_PROCESS.get()?.as_ref()?.tracer.as_ref()
}

/// Gives a descriptor up in a process that has none left, that of the events and then that of the
/// view; whether that makes room. Readers find the process no more by it.
pub(crate) fn make_room() -> bool {
    let view = OF_PROCESS.get().and_then(Option::as_ref);
    view.is_some_and(|view| view.trace.give_up() || view.file.give_up())
}

/// Whether a publisher is that of this process.
fn is_own(publisher: &'static Publisher) -> bool {
    let view = OF_PROCESS.get().and_then(Option::as_ref);
    view.is_some_and(|view| std::ptr::eq(view.publisher, publisher))
}

/// Begins to publish, with a descriptor among those that the program does not see.
fn start() -> Option<View> {
    let mut publisher = None;
    let file = descriptors::keep(|| {
        let (file, started) = Publisher::start().map_err(|_| Errno::NFILE)?;
        publisher = Some(started);
        Ok(file)
    });
    let file = file.ok()?;
    publisher?.set_own(is_own);
    let (tracer, trace) = start_tracer();
    Some(View {
        publisher: publisher?,
        file: Kept::new(file),
        tracer,
        trace,
    })
}

/// Makes a ring for events: that of the process that started the program to read them, or an own
/// one.
fn start_tracer() -> (Option<TraceWriter>, Kept) {
    let given = std::env::var_os(trace::VARIABLE).filter(|_| !system::is_secure());
    if let Some(writer) = given.and_then(|path| TraceWriter::join(path.as_ref()).ok()) {
        return (Some(writer), Kept::default());
    }
    let mut writer = None;
    let file = descriptors::keep(|| {
        let (file, started) = TraceWriter::start().map_err(|_| Errno::NFILE)?;
        writer = Some(started);
        Ok(file)
    });
    (writer, file.map(Kept::new).unwrap_or_default())
}

/// Whether a call is about more bytes than a buffer has, whose size is 0 while it is not known.
#[inline(always)]
fn is_above(bytes: usize, size: &AtomicU32) -> bool {
    let size = size.load(Ordering::Relaxed);
    size != 0 && bytes > size as usize
}

/// Whether a call is about as many bytes as a buffer has, or more, whose size is 0 while it is not
/// known.
#[inline(always)]
fn reaches(bytes: usize, size: &AtomicU32) -> bool {
    let size = size.load(Ordering::Relaxed);
    size != 0 && bytes >= size as usize
}

/// The row of a connection, once it is decided what carries it.
#[derive(Default)]
pub(crate) struct Row {
    row: OnceLock<Option<ConnectionRow>>,
    /// The state that was published last, by the kernel's number.
    state: AtomicU8,
    /// Bytes of the smaller of the buffers that are written to, and of the one that is read; 0
    /// while they are not known.
    sizes: [AtomicU32; 2],
}

impl Row {
    #[inline(always)]
    fn get(&self) -> Option<&ConnectionRow> {
        self.row.get()?.as_ref()
    }

    /// Counts bytes that one call sent, of those that it had to send. Callers have the connection
    /// alone.
    #[inline(always)]
    pub(crate) fn sent(&self, bytes: usize, of: usize) {
        if let Some(row) = self.get() {
            row.sent(bytes);
            if is_above(of, &self.sizes[0]) {
                self.too_small_to_send(of);
            }
        }
    }

    /// Counts bytes that one call received, into room for so many, of those that were in the receive
    /// buffer. Callers have the connection alone.
    #[inline(always)]
    pub(crate) fn received(&self, bytes: usize, room: usize, available: u32) {
        if let Some(row) = self.get() {
            row.received(bytes);
            if reaches(room.max(available as usize), &self.sizes[1]) {
                self.received_much(row, room, available as usize);
            }
        }
    }

    #[cold]
    fn received_much(&self, row: &ConnectionRow, room: usize, available: usize) {
        self.had_room(room);
        if reaches(available, &self.sizes[1]) {
            row.receive_full();
        }
    }

    /// Counts a call that had room for more bytes than the receive buffer has.
    #[inline(always)]
    pub(crate) fn had_room(&self, room: usize) {
        if is_above(room, &self.sizes[1]) {
            self.extra(Extra::ReceiveBufferTooSmall);
        }
    }

    #[cold]
    fn too_small_to_send(&self, bytes: usize) {
        let Some(at) = self.get().and_then(ConnectionRow::get) else {
            return;
        };
        for (size, extra) in [
            (at.send_buffer, Extra::SendBufferTooSmall),
            (at.peer_buffer, Extra::PeerBufferTooSmall),
        ] {
            if size > 0 && bytes > size as usize {
                self.extra(extra);
            }
        }
    }

    /// A write finds no room: whether at the peer, or in the send buffer alone, is asked only if that
    /// is published. Callers have the connection alone.
    #[inline]
    pub(crate) fn stalled(&self, peer_full: impl FnOnce() -> bool) {
        if let Some(row) = self.get() {
            row.stalled(peer_full());
        }
    }

    /// Publishes a connection once it is known what carries it: its addresses are those of this end
    /// and of the peer's.
    pub(crate) fn decided(
        &self,
        tcp: &TcpStream,
        ends: Option<(SocketAddr, SocketAddr)>,
        carrier: &Carrier,
        role: Role,
    ) {
        crate::subscribed::decided(ends, carrier, role);
        let Some(publisher) = publisher() else {
            return;
        };
        let mut row = basis(tcp, ends, role);
        row.state = state::ACTIVE;
        match carrier {
            Carrier::Smc(terms) => {
                row.technology = technology(terms.technology);
                row.version = version(terms.version);
            }
            Carrier::Tcp(why) => {
                row.technology = smc_view::Technology::Tcp;
                (row.reason, row.peer_reason) = reasons(why);
                row.sentence = publisher.sentence(&why.sentence());
                row.remedy = publisher.sentence(&why.remedy());
            }
        }
        self.row.get_or_init(|| {
            // Once for a connection.
            if let Carrier::Tcp(why) = carrier {
                let (own, peer) = reasons(why);
                publisher.fell_back(side(role), smc_view::deciding_code(own, peer));
            }
            self.state.store(row.state, Ordering::Relaxed);
            publisher.connection(&row)
        });
    }

    /// What the engine knows of a connection that SMC carries; the role of this side, as published.
    pub(crate) fn established(&self, known: &Known) -> Role {
        let Some((row, mut at)) = self.get().and_then(|row| Some((row, row.get()?))) else {
            return Role::Unknown;
        };
        let progress = &known.progress;
        (at.token, at.peer_token) = (known.token, progress.peer_token.0);
        (at.send_buffer, at.receive_buffer) = (progress.send_buffer, progress.receive_buffer);
        at.peer_buffer = progress.peer_buffer;
        at.group = Some(number_of_group(known.group));
        at.link = known.link;
        (at.gid, at.peer_gid) = known.gids;
        let written = [at.send_buffer, at.peer_buffer];
        let least = written.into_iter().filter(|size| *size > 0).min();
        let sizes = [least.unwrap_or(0), at.receive_buffer];
        for (size, is) in self.sizes.iter().zip(sizes) {
            size.store(is, Ordering::Relaxed);
        }
        at.stack = known.stack;
        at.conn = Some(number_of_conn(known.conn));
        row.set(&at);
        if let Some(publisher) = publisher() {
            let buffers = [at.send_buffer, at.receive_buffer];
            let (technology, side) = (at.technology, side(at.role));
            publisher.established(technology, side, at.version, buffers, known.reused);
        }
        at.role
    }

    /// Publishes how far a connection has got at a time in nanoseconds since 1970, and its state if
    /// that has changed.
    #[inline(never)]
    pub(crate) fn progress(&self, progress: &Progress, at: u64) {
        let Some(row) = self.get() else {
            return;
        };
        let mut published = smc_view::Progress::default();
        published.written = progress.written;
        published.completed = progress.completed;
        published.peer_consumed = progress.peer_consumed;
        published.arrived = progress.received;
        published.messages = progress.messages.into();
        published.at = at;
        row.progress(&published);
        self.state(progress.state);
    }

    /// Publishes the state of a connection, if it has changed.
    #[inline]
    pub(crate) fn state(&self, state: CloseState) {
        let code = code(state);
        if self.state.load(Ordering::Relaxed) != code {
            self.change_state(code);
        }
    }

    #[inline(never)]
    fn change_state(&self, code: u8) {
        if let Some(row) = self.get() {
            self.state.store(code, Ordering::Relaxed);
            row.set_state(code);
        }
    }

    /// Counts a call that the statistics name.
    #[cold]
    pub(crate) fn extra(&self, extra: Extra) {
        if let (Some(publisher), Some(at)) = (publisher(), self.get().and_then(ConnectionRow::get))
        {
            publisher.extra(at.technology, extra);
        }
    }

    /// A direction was shut down.
    pub(crate) fn shut(&self, reading: bool) {
        if let Some(row) = self.get() {
            row.set_shut(reading);
        }
    }
}

/// What the engine knows of a connection when it is established.
pub(crate) struct Known {
    pub(crate) conn: ConnId,
    pub(crate) progress: Progress,
    pub(crate) token: u32,
    pub(crate) group: GroupId,
    pub(crate) link: u8,
    pub(crate) gids: (u64, u64),
    pub(crate) stack: u32,
    /// Whether the send and the receive buffer are of an earlier connection.
    pub(crate) reused: [bool; 2],
}

/// The address of an end that has none.
const NOWHERE: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0);

/// The row of a listener.
pub(crate) fn listener(address: SocketAddr, fd: impl std::os::fd::AsFd) -> Option<ConnectionRow> {
    let publisher = publisher()?;
    let mut row = Connection::new(address, NOWHERE);
    (row.state, row.role, row.inode) = (state::LISTEN, Role::Server, inode(fd));
    publisher.connection(&row)
}

/// What the kernel knows of a connection.
fn basis(tcp: &TcpStream, ends: Option<(SocketAddr, SocketAddr)>, role: Role) -> Connection {
    // One that has ended may have an address of its own still.
    let alone = || (tcp.local_addr().unwrap_or(NOWHERE), NOWHERE);
    let (local, peer) = ends.unwrap_or_else(alone);
    let mut row = Connection::new(local, peer);
    (row.role, row.inode) = (role, inode(tcp));
    row
}

/// The time in nanoseconds since 1970.
pub(crate) fn wall_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| {
        u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
    })
}

fn inode(fd: impl std::os::fd::AsFd) -> u64 {
    rustix::fs::fstat(fd).map_or(0, |stat| stat.st_ino)
}

pub(crate) fn number_of_conn(conn: ConnId) -> u64 {
    u64::from(conn.generation()) << 32 | u64::from(conn.index())
}

pub(crate) fn number_of_group(group: GroupId) -> u64 {
    u64::from(group.generation()) << 32 | u64::from(group.index())
}

pub(crate) fn number_of_link(link: LinkId) -> u64 {
    u64::from(link.generation()) << 32 | u64::from(link.index())
}

pub(crate) const fn technology(of: Technology) -> smc_view::Technology {
    match of {
        Technology::SmcD => smc_view::Technology::SmcD,
        Technology::SmcR => smc_view::Technology::SmcR,
    }
}

pub(crate) const fn version(of: SmcVersion) -> u8 {
    match of {
        SmcVersion::V1 => 1,
        SmcVersion::V2 => 2,
    }
}

const fn side(role: Role) -> Side {
    match role {
        Role::Server => Side::Server,
        _ => Side::Client,
    }
}

/// Counts and publishes an accepted connection that is plain TCP from its first byte, and the kernel's
/// alone from then on.
pub(crate) fn plain(cause: Cause, tcp: &TcpStream) {
    let Some(publisher) = publisher() else {
        return;
    };
    let why = WhyTcp::here(cause);
    let (reason, peer_reason) = reasons(&why);
    publisher.fell_back(Side::Server, smc_view::deciding_code(reason, peer_reason));
    let ends = tcp.local_addr().ok().zip(tcp.peer_addr().ok());
    let mut row = basis(tcp, ends, Role::Server);
    (row.state, row.technology) = (state::ACTIVE, smc_view::Technology::Tcp);
    (row.reason, row.peer_reason) = (reason, peer_reason);
    row.sentence = publisher.sentence(&why.sentence());
    row.remedy = publisher.sentence(&why.remedy());
    publisher.unattended(&row);
}

/// The codes of this side and of the peer.
fn reasons(why: &WhyTcp) -> (u32, u32) {
    let reason = why.reason();
    let peer = reason.peer_diagnosis.map_or(0, |code| code.0);
    (reason.code.0, peer)
}

/// The kernel's number of a state.
const fn code(of: CloseState) -> u8 {
    match of {
        CloseState::Active => state::ACTIVE,
        CloseState::PeerCloseWait1 => state::PEER_CLOSE_WAIT_1,
        CloseState::PeerCloseWait2 => state::PEER_CLOSE_WAIT_2,
        CloseState::AppFinCloseWait => state::APP_FIN_CLOSE_WAIT,
        CloseState::AppCloseWait1 => state::APP_CLOSE_WAIT_1,
        CloseState::AppCloseWait2 => state::APP_CLOSE_WAIT_2,
        CloseState::PeerFinCloseWait => state::PEER_FIN_CLOSE_WAIT,
        CloseState::PeerAbortWait => state::PEER_ABORT_WAIT,
        CloseState::ProcessAbort => state::PROCESS_ABORT,
        CloseState::Closed => state::CLOSED,
    }
}
