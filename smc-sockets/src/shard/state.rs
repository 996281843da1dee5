//! What the lock protects.

use std::net::{IpAddr, TcpStream};
use std::sync::Arc;
use std::task::Waker;

use smc_proto::endpoint::ConnOptions;
use smc_proto::id::{ConnId, GroupId};
use smc_proto::time::Instant;
use smc_proto::wire::clc::{MAX_LENGTH, Subnets};
use smc_proto::wire::types::BufferSize;
use smc_transport_ism::device::MAX_DMB_LEN;
use smc_transport_ism::shared::pairing::{Owners, Peer};

use super::closing::Closing;
use super::driver_waker::DriverWaker;
use super::handshakes::{Handshake, PendingHandshake};
use super::polling::Polling;
use super::transports::Transports;
use super::viewing::Published;
use crate::listening::Arrival;
use crate::socket::Socket;
use crate::system;
use crate::tracing::Engine;

/// An endpoint, its transports, and the connections.
pub(crate) struct State {
    pub(crate) engine: Engine,
    pub(crate) transports: Transports,
    /// By their places at the endpoint.
    pub(super) sockets: Vec<Option<Entry>>,
    /// The driver wakes at this time.
    pub(super) armed: Option<Instant>,
    /// The timer is not set before the driver's turn ends.
    pub(super) defers_timer: bool,
    /// The timer is to be set when the driver's turn ends.
    pub(super) timer_is_due: bool,
    pub(super) polling: Polling,
    /// For messages on their way from the engine to TCP.
    pub(super) clc: Box<[u8; MAX_LENGTH]>,
    /// Link groups that are up.
    pub(super) groups: Vec<GroupId>,
    /// The driver ends then, if not before.
    pub(super) goodbye: Option<Instant>,
    /// Tasks that became ready under the lock.
    pub(super) wakes: Vec<Waker>,
    /// Connections whose CLC messages go over shared memory, until they are decided.
    pub(super) handshakes: Vec<PendingHandshake>,
    /// Peers that the connection is announced to that is just begun.
    pub(super) announced_to: Vec<Peer>,
    /// Announcements of this side that were answered.
    pub(super) answers: u64,
    /// Whether a peer has rung for handshakes since they were last received.
    pub(super) handshakes_rung: bool,
    /// Number of calls of [`State::receive_handshakes`].
    #[cfg(test)]
    pub(super) receptions: usize,
    /// Connections that were accepted and whose CLC messages come over TCP, until they are
    /// decided.
    pub(super) negotiating: Vec<ConnId>,
    /// Asks the kernel for the other ends of their TCP connections.
    pub(super) owners: Option<Owners>,
    pub(super) driver_waker: Arc<DriverWaker>,
    /// Data paths that are lent.
    pub(super) lent: usize,
    /// Connections whose data paths were used when they were to be taken back.
    pub(super) put_off: Vec<ConnId>,
    /// Closed connections that event loops poll for.
    pub(super) closing: Closing,
    /// What this process publishes of it.
    pub(super) published: Published,
}

/// A connection of the endpoint.
pub(super) struct Entry {
    pub(super) conn: ConnId,
    pub(super) socket: Arc<Socket>,
    /// Paired with this side: the device at the other end.
    pub(super) peer: Option<Peer>,
    /// Where it is handed out once it is known what carries it.
    pub(super) arrival: Option<Arrival>,
    /// Whether the driver has to handle at once whatever happens to it.
    pub(super) urgent: bool,
    /// CLC messages of the connection go over shared memory.
    pub(super) handshake: Option<Handshake>,
    /// TCP was closed in order.
    pub(super) tcp_closed: bool,
}

impl State {
    pub(super) fn new(
        engine: Engine,
        transports: Transports,
        driver_waker: Arc<DriverWaker>,
    ) -> Self {
        Self {
            engine,
            transports,
            sockets: Vec::new(),
            armed: None,
            defers_timer: false,
            timer_is_due: false,
            polling: Polling::default(),
            clc: Box::new([0; MAX_LENGTH]),
            groups: Vec::new(),
            goodbye: None,
            wakes: Vec::new(),
            handshakes: Vec::new(),
            announced_to: Vec::new(),
            answers: 0,
            handshakes_rung: false,
            #[cfg(test)]
            receptions: 0,
            negotiating: Vec::new(),
            owners: Owners::open().ok(),
            driver_waker,
            lent: 0,
            put_off: Vec::new(),
            closing: Closing::default(),
            published: Published::default(),
        }
    }

    /// What the engine has to know of a TCP connection whose ends both speak SMC.
    pub(crate) fn options(&self, local: IpAddr, peer: IpAddr, tcp: &TcpStream) -> ConnOptions {
        let (receive_buffer, send_buffer) = wished_buffers(tcp);
        let verbs = self.transports.verbs.as_ref();
        let mut options = ConnOptions::new(Subnets::default());
        options.subnets = verbs.and_then(|verbs| verbs.subnets(local));
        options.ipv4 = peer.to_canonical().is_ipv4();
        options.vlan = verbs.and_then(|verbs| verbs.vlan(local));
        (options.receive_buffer, options.send_buffer) = (receive_buffer, send_buffer);
        // Announcing bytes costs two stores: nothing is gained by waiting.
        options.nodelay = true;
        // Sockets put them in their place themselves.
        options.urgent_inline = false;
        options
    }

    /// Enters a connection that the endpoint has just begun.
    pub(crate) fn enter(
        &mut self,
        conn: ConnId,
        socket: Arc<Socket>,
        peer: Option<Peer>,
        arrival: Option<Arrival>,
    ) {
        socket.entered(conn);
        self.trace_entered(conn, &socket);
        let at = conn.index() as usize;
        if self.sockets.len() <= at {
            self.sockets.resize_with(at + 1, || None);
        }
        if let Some(entry) = self.sockets.get_mut(at) {
            *entry = Some(Entry {
                conn,
                socket,
                peer,
                arrival,
                urgent: false,
                handshake: None,
                tcp_closed: false,
            });
        }
        self.set_urgent(conn, true);
    }

    /// Enters a connection that was accepted and whose CLC messages come over TCP.
    pub(crate) fn enter_accepted(
        &mut self,
        conn: ConnId,
        socket: Arc<Socket>,
        peer: Option<Peer>,
        arrival: Arrival,
    ) {
        self.enter(conn, socket, peer, Some(arrival));
        self.forget_decided();
        self.negotiating.push(conn);
    }

    /// The connection with this place and generation.
    pub(crate) fn conn_at(&self, index: u32, generation: u32) -> Option<ConnId> {
        let entry = self.sockets.get(index as usize)?.as_ref()?;
        Some(entry.conn).filter(|conn| conn.generation() == generation)
    }

    /// Whether the endpoint has no connections.
    pub(crate) fn is_empty(&self) -> bool {
        self.sockets.iter().all(Option::is_none)
    }

    pub(super) fn entry(&self, conn: ConnId) -> Option<&Entry> {
        let entry = self.sockets.get(conn.index() as usize)?.as_ref();
        entry.filter(|entry| entry.conn == conn)
    }

    pub(super) fn entry_mut(&mut self, conn: ConnId) -> Option<&mut Entry> {
        let entry = self.sockets.get_mut(conn.index() as usize)?.as_mut();
        entry.filter(|entry| entry.conn == conn)
    }

    pub(super) fn remove(&mut self, conn: ConnId) -> Option<Entry> {
        self.set_urgent(conn, false);
        self.end_handshake(conn);
        let slot = self.sockets.get_mut(conn.index() as usize)?;
        if slot.as_ref().is_some_and(|entry| entry.conn == conn) {
            slot.take()
        } else {
            None
        }
    }
}

/// What a program wants to receive into and to send from, if it has said so to TCP: half
/// of what the kernel reports, which doubles it for TCP's own needs.
fn wished_buffers(tcp: &TcpStream) -> (Option<BufferSize>, Option<BufferSize>) {
    use rustix::net::sockopt;
    let (receive, send) = system::are_buffers_set(tcp);
    let size = |size: rustix::io::Result<usize>| {
        let half = u32::try_from(size.ok()? / 2).unwrap_or(u32::MAX);
        Some(BufferSize::at_least(half.min(MAX_DMB_LEN)))
    };
    // Most programs set neither, and are not asked for them.
    let receive = receive.then(|| size(sockopt::socket_recv_buffer_size(tcp)));
    let send = send.then(|| size(sockopt::socket_send_buffer_size(tcp)));
    (receive.flatten(), send.flatten())
}
