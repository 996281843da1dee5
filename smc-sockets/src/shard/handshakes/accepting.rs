//! The server of a handshake over shared memory: takes the announcement of a connection that was
//! accepted, and answers it.

use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use smc_proto::wire::types::DiagnosisCode;
use smc_transport_ism::shared::Announced;
use smc_transport_ism::shared::pairing;
use smc_view::Role;

use super::Handshake;
use crate::carrier::{Carrier, Cause};
use crate::listening::Arrival;
use crate::opening;
use crate::shard::{Place, Shard, State};
use crate::socket::Socket;

impl State {
    /// Takes the announcement of a connection that was accepted, if its client has made one.
    //= SHM-067
    pub(crate) fn take_announcement(&mut self, tcp: &TcpStream) -> Option<Announced> {
        let device = self.transports.ism.device_mut();
        //= SHM-002
        if !device.has_announcements() {
            return None;
        }
        let (cookie, uid) = self.owners.as_ref()?.client(tcp)?;
        device.take_announcement(cookie, uid)
    }

    /// Takes the announcement of a client's socket, if there is one. The kernel gives its cookie and
    /// its user, as those of the other end of an accepted connection.
    //= SHM-067
    pub(crate) fn take_announcement_of(&mut self, (cookie, uid): (u64, u32)) -> Option<Announced> {
        let device = self.transports.ism.device_mut();
        let announced = device.has_announcements();
        announced.then(|| device.take_announcement(cookie, uid))?
    }

    /// The cookie and the user of the socket at the other end of an accepted connection, if its
    /// process takes calls or has announced it.
    pub(crate) fn calling_client(&self, near: SocketAddr, far: SocketAddr) -> Option<(u64, u32)> {
        self.owners.as_ref()?.calling_client(near, far)
    }

    /// The user who owns the other end of a connection, if that is on this host.
    pub(crate) fn other_end(&self, tcp: &TcpStream) -> Option<u32> {
        self.owners.as_ref()?.other_end(tcp)
    }

    /// Declines the announcement of a connection that was accepted: it goes on over TCP.
    pub(crate) fn decline_announcement(&mut self, shard: &Shard, of: &Announced, tcp: &TcpStream) {
        // The client believes the process that holds the connection. It goes on at once, whatever
        // fails here.
        let cookie = rustix::net::sockopt::socket_cookie(tcp).unwrap_or(0);
        let _ = pairing::let_go(tcp);
        let device = self.transports.ism.device_mut();
        if let Some(decline) = opening::decline(shard.peer_id, DiagnosisCode::MEMORY) {
            device.send_clc(of.id, cookie, &decline);
        }
        device.end_handshake(of.id);
    }

    /// Answers the announcement of a connection that was accepted: the engine takes its Proposal,
    /// and sends an Accept or a Decline over shared memory.
    pub(crate) fn accept_announced(
        &mut self,
        shard: &Arc<Shard>,
        socket: &Arc<Socket>,
        announced: Announced,
        (arrival, place): (Arrival, Place),
    ) {
        let now = shard.now();
        let from = arrival.address().ip();
        let local = socket.ends().map_or(from, |(near, _)| near.ip());
        let options = self.options(local, from, &socket.tcp);
        let cookie = rustix::net::sockopt::socket_cookie(&socket.tcp).ok();
        let begun = cookie.and_then(|of| Some((of, self.engine.listen(now, options).ok()?)));
        let Some((cookie, conn)) = begun else {
            // The engine has no other reason to refuse a connection that has a place.
            self.decline_announcement(shard, &announced, &socket.tcp);
            socket.decided(Carrier::tcp(Cause::Limit(shard.limit)), Role::Server);
            arrival.deliver(socket.clone());
            return;
        };
        socket.status().place = Some(place);
        let Announced { id, peer, proposal } = announced;
        if let Some(ticket) = &arrival.ticket {
            ticket.negotiates(conn);
        }
        self.enter(conn, socket.clone(), Some(peer), Some(arrival));
        let handshake = Handshake::Open {
            id,
            cookie,
            is_verified: true,
        };
        self.begin_handshake(shard, conn, handshake, false, now);
        self.handle_proposal(shard, conn, &proposal, now);
    }
}
