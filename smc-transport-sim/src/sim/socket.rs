//! One end of a TCP connection that may become an SMC connection.

use std::hash::{Hash, Hasher};

use smc_proto::event::{CloseReason, FallbackReason};
use smc_proto::id::ConnId;
use smc_proto::storage::Storage;
use smc_proto::time::Instant;
use smc_proto::wire::clc::ClcMessage;
use smc_proto::wire::types::Qpn;

use super::Simulation;
use crate::app::App;
use crate::fabric::HostId;
use crate::tcp::{Side, TcpId};

/// An end of a connection, numbered in the order of `connect`, client first.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct SocketId(pub usize);

/// What carries the application's bytes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Transport {
    /// Nothing yet.
    None,
    /// RDMA.
    Smc,
    /// The TCP connection itself.
    Tcp,
}

/// What is known of a socket.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SocketState {
    /// What carries its bytes.
    pub transport: Transport,
    /// The engine's handle, while there is one.
    pub conn: Option<ConnId>,
    /// Whether the connection created its link group.
    pub first_contact: bool,
    /// Why it is plain TCP, if the engine reported so.
    pub fell_back: Option<FallbackReason>,
    /// How it ended, if it did as an SMC connection.
    pub closed: Option<CloseReason>,
    /// Whether its TCP connection was reset.
    pub tcp_reset: bool,
    /// Whether its host crashed meanwhile: no application is left to see an end.
    pub crashed: bool,
}

/// When a socket came, was established and ended, and by which names others
/// know it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life {
    /// Host of the socket.
    pub host: HostId,
    /// When it was opened.
    pub opened: Instant,
    /// When it was established as an SMC-R connection.
    pub established: Option<Instant>,
    /// When it had its last event.
    pub ended: Option<Instant>,
    /// The engine's handle; stays after the end.
    pub conn: Option<ConnId>,
    /// Alert token of the socket, once it was sent to the peer.
    pub alert_token: Option<u32>,
    /// The queue pair of this side that it named to the peer.
    pub queue_pair: Option<(HostId, Qpn)>,
}

#[derive(Clone, Debug)]
pub(super) struct Socket {
    pub(super) host: HostId,
    pub(super) tcp: TcpId,
    pub(super) side: Side,
    pub(super) state: SocketState,
    /// Whether bytes of TCP are shown to the engine.
    pub(super) clc: Clc,
    pub(super) app: App,
    /// Whether the application was notified that it may go on.
    pub(super) awake: bool,
    pub(super) life: Life,
    /// The socket was found to wait in vain.
    pub(super) stuck_reported: bool,
}

/// The owner of bytes that arrive over TCP.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Clc {
    /// Not decided yet.
    Unknown,
    /// To the engine.
    Engine,
    /// The engine had no room for the connection: a Proposal is answered with
    /// Decline, all else belongs to the application.
    Refusing,
    /// To the engine if they are a Decline, else to the application.
    Watching,
    /// To the application, or to none if RDMA carries it.
    Over,
}

impl Socket {
    pub(super) fn new(host: HostId, tcp: TcpId, side: Side, opened: Instant) -> Self {
        Self {
            host,
            tcp,
            side,
            state: SocketState {
                transport: Transport::None,
                conn: None,
                first_contact: false,
                fell_back: None,
                closed: None,
                tcp_reset: false,
                crashed: false,
            },
            clc: Clc::Unknown,
            app: App::default(),
            awake: true,
            life: Life {
                host,
                opened,
                established: None,
                ended: None,
                conn: None,
                alert_token: None,
                queue_pair: None,
            },
            stuck_reported: false,
        }
    }

    /// Notes that this side sends a CLC message.
    pub(super) fn note_clc(&mut self, bytes: &[u8]) {
        let message = ClcMessage::parse(bytes);
        if let Ok((ClcMessage::Accept(own) | ClcMessage::Confirm(own), _)) = message {
            self.life.alert_token = Some(own.alert_token.0);
            self.life.queue_pair = Some((self.host, own.qpn));
        }
    }

    pub(super) fn fingerprint<H: Hasher>(&self, hasher: &mut H) {
        (
            self.state.transport,
            self.clc,
            self.awake,
            self.state.closed,
        )
            .hash(hasher);
        (self.app.is_all_written(), self.app.is_at_end()).hash(hasher);
        self.app.wants_to_read().hash(hasher);
    }
}

impl<S: Storage> Simulation<S> {
    /// What is known of a socket.
    #[must_use]
    pub fn state(&self, socket: SocketId) -> Option<&SocketState> {
        Some(&self.sockets.get(socket.0)?.state)
    }

    /// When a socket came, was established and ended.
    #[must_use]
    pub fn life(&self, socket: SocketId) -> Option<Life> {
        Some(self.sockets.get(socket.0)?.life)
    }

    /// Returns the application of a socket, for inspection.
    #[must_use]
    pub fn app(&self, socket: SocketId) -> Option<&App> {
        Some(&self.sockets.get(socket.0)?.app)
    }

    /// The application of a socket, to give it something to do.
    pub fn app_mut(&mut self, socket: SocketId) -> Option<&mut App> {
        let socket = self.sockets.get_mut(socket.0)?;
        socket.awake = true;
        Some(&mut socket.app)
    }

    /// Writes bytes.
    pub fn write(&mut self, socket: SocketId, bytes: &[u8]) {
        if let Some(app) = self.app_mut(socket) {
            app.write(bytes);
        }
    }

    /// Ends sending after everything written was taken, and closes once the peer
    /// did the same and everything was read.
    pub fn finish(&mut self, socket: SocketId) {
        if let Some(app) = self.app_mut(socket) {
            app.finish();
        }
    }

    /// Closes after everything written was taken.
    pub fn close(&mut self, socket: SocketId) {
        if let Some(app) = self.app_mut(socket) {
            app.close();
        }
    }

    /// Takes what was read.
    pub fn read(&mut self, socket: SocketId) -> Vec<u8> {
        self.app_mut(socket)
            .map(App::take_received)
            .unwrap_or_default()
    }

    /// Ends a connection at once.
    pub fn abort(&mut self, socket: SocketId) {
        let Some(socket) = self.sockets.get(socket.0) else {
            return;
        };
        let now = self.host_now(socket.host);
        let state = &socket.state;
        if let Some(conn) = state.conn {
            let host = self.hosts.get_mut(usize::from(socket.host.0));
            if let Some(mut conn) = host.and_then(|host| host.endpoint.conn(conn)) {
                conn.abort(now);
            }
        }
        if state.conn.is_none() || state.transport == Transport::Tcp {
            self.fabric.tcp_reset(socket.tcp, socket.side);
        }
    }

    /// Bytes written at the other end of a socket and not read at this one.
    #[must_use]
    pub fn in_flight_to(&self, socket: SocketId) -> usize {
        let key = self
            .sockets
            .get(socket.0)
            .map(|socket| (socket.tcp, socket.side.other()));
        key.and_then(|key| self.flights.get(&key))
            .map_or(0, crate::app::InFlight::len)
    }
}
