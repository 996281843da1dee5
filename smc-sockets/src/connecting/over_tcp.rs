//! Servers that are not on this host, or do not use this crate: they may speak SMC
//! nevertheless.

use std::io;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::Instant;

use super::{Attempt, Stage, connect_to, socket};
use crate::carrier::Cause;
use crate::discovery::{Discovery, blame_own_user, is_near, unmet};
use crate::opening::Opening;
use crate::shard::Place;
use crate::socket::Socket;

impl Attempt {
    /// Goes on with a server that is not paired, although it was called or not; else why
    /// it is TCP.
    pub(super) fn negotiate_over_tcp(
        &mut self,
        place: Option<Place>,
        called: bool,
    ) -> io::Result<Result<Stage, Cause>> {
        let shard = self.shard.clone();
        let verdict = shard.asking.after_connect(&self.tcp, self.to, self.wish);
        let full = place.is_none().then_some(shard.limit);
        let known = match verdict.speaks {
            Ok(known) => known,
            Err(cause) => {
                let local = self.tcp.local_addr()?.ip();
                let near = is_near(local, self.to.ip());
                let cause = match cause {
                    Cause::NotOffered if self.wish.lacks_room() => Cause::Limit(shard.limit),
                    cause => cause,
                };
                let full = full.or(shard.memory_limit());
                let cause = unmet(cause, full, called, near);
                return Ok(Err(blame_own_user(cause, near && shard.pairs)));
            }
        };
        self.known = Some(known);
        // A server that was promised CLC gets it, if only to learn that nothing comes of it.
        let declines = verdict.declines.or(full.map(Cause::Limit));
        match (place, declines) {
            (Some(place), None) => self.propose(place, None).map(Ok),
            (_, declines) => {
                let cause = declines.unwrap_or(Cause::Limit(shard.limit));
                let tcp = self.tcp.clone();
                let declined = shard.decline(tcp, cause, Opening::MaybeDecline);
                Ok(Ok(Stage::Declined(declined)))
            }
        }
    }

    /// Whether the server took a Proposal for something else: it had sent the TCP option
    /// back, and said no word of CLC.
    pub(super) fn is_misunderstood(&self, socket: &Socket) -> bool {
        self.known == Some(Discovery::Option) && !socket.has_heard_clc()
    }

    /// Connects once more, without a word of SMC. The application has not sent anything.
    pub(super) fn again(&mut self) -> io::Result<()> {
        let asking = &self.shard.asking;
        asking.shunned.remember(self.to, Instant::now());
        let socket = socket(self.to)?;
        self.wish = asking.without_option(self.to);
        self.known = None;
        connect_to(&socket, self.to)?;
        self.tcp = Arc::new(TcpStream::from(socket));
        self.stage = Stage::Tcp(None, None);
        Ok(())
    }
}
