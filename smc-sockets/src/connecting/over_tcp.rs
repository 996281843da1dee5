//! Connections whose server does not pair, as it is on another host or does not use this crate. CLC
//! goes over TCP if the server is known to speak it; otherwise the connection is TCP.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use super::{Attempt, Stage, Step, connect_to, socket};
use crate::carrier::{Cause, Limit};
use crate::discovery::{Discovery, blame_own_user, is_near, most_specific_cause};
use crate::opening::Opening;
use crate::shard::Place;
use crate::socket::Socket;

impl Attempt {
    /// Goes on with a server that has not paired, to the stage in which CLC goes over TCP. Returns
    /// the stream's socket if the connection is TCP. `called` is whether the server, or a process
    /// that shares its listener, was called or announced the connection before.
    pub(super) fn negotiate_over_tcp(
        &mut self,
        place: Option<Place>,
        called: bool,
    ) -> io::Result<Option<Step>> {
        let shard = self.shard.clone();
        let verdict = shard
            .opt_in
            .after_connect(&self.tcp, self.to, self.client_opt_in);
        let full = place.is_none().then_some(shard.limit);
        match verdict.discovery {
            Ok(discovery) => self.discovery = Some(discovery),
            Err(cause) => {
                let cause = self.cause_of_tcp(cause, full, called)?;
                return self.plain(cause).map(Some);
            }
        }
        // A server that expects CLC gets it, if only to learn that the connection is TCP.
        let declines = verdict.declines.or(full.map(Cause::Limit));
        self.stage = match (place, declines) {
            (Some(place), None) => self.propose(place, None)?,
            (_, declines) => {
                let cause = declines.unwrap_or(Cause::Limit(shard.limit));
                let tcp = self.tcp.clone();
                Stage::Decided(shard.decline(tcp, cause, Opening::MaybeDecline))
            }
        };
        Ok(None)
    }

    /// Why a connection is TCP whose server is not known to speak SMC: the most specific of the
    /// causes that hold.
    pub(super) fn cause_of_tcp(
        &self,
        cause: Cause,
        full: Option<Limit>,
        called: bool,
    ) -> io::Result<Cause> {
        let shard = &self.shard;
        let local = self.tcp.local_addr()?.ip();
        let near = is_near(local, self.to.ip());
        let cause = match cause {
            Cause::NotOffered if self.client_opt_in.lacks_room() => Cause::Limit(shard.limit),
            cause => cause,
        };
        let full = full.or(shard.memory_limit());
        let cause = most_specific_cause(cause, full, called, near);
        Ok(blame_own_user(cause, near && shard.pairs))
    }

    /// Whether the server took the Proposal for something else: it had sent the TCP option back, and
    /// no CLC message since.
    pub(super) fn has_misread_proposal(&self, socket: &Socket) -> bool {
        self.discovery == Some(Discovery::Option) && !socket.has_received_clc()
    }

    /// Connects once more, without the TCP option and CLC. The application has not sent anything.
    pub(super) fn reconnect_without_option(&mut self) -> io::Result<()> {
        let opt_in = &self.shard.opt_in;
        opt_in.shunned.remember(self.to, Instant::now());
        let socket = socket(self.to)?;
        self.client_opt_in = opt_in.without_option(self.to);
        self.discovery = None;
        connect_to(&socket, self.to)?;
        self.tcp = Arc::new(TcpStream::from(socket));
        self.stage = Stage::Tcp(None, None);
        Ok(())
    }
}
