//! The TCP connections of a [`Net`].

use smc_proto::command::TcpCommand;
use smc_proto::endpoint::{ClcProgress, Next, TcpEvent};

use super::super::stream::show;
use super::Net;

/// What an application sends first on a connection that fell back.
pub(in super::super) const GREETING: &[u8] = b"\xe2\xd4GREETING";

/// One direction of a TCP connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Stream {
    /// Bytes on their way.
    pub(super) sent: Vec<u8>,
    /// Bytes that arrived and that were not taken.
    pub(super) arrived: Vec<u8>,
    /// What the receiving application got.
    pub(super) application: Vec<u8>,
    /// The receiving engine wants to see no more.
    pub(super) stopped: bool,
    /// The sending engine's last command.
    pub(super) command: Option<TcpCommand>,
}

impl Net {
    pub(super) fn execute(
        &mut self,
        at: usize,
        side: usize,
        command: Option<TcpCommand>,
        first: bool,
    ) {
        let id = self.tcp[at].ids[1 - side];
        let other = &mut self.sides[1 - side];
        match command {
            None => {}
            Some(TcpCommand::HandOver { .. }) => {
                if first {
                    self.tcp[at].streams[side].sent.extend(GREETING);
                } else {
                    // A Decline whose rest took longer than the watch is not distinguished
                    // from application bytes.
                    self.tcp[at].disturbed = true;
                }
                self.feed(at, side);
            }
            Some(TcpCommand::Close) => other.tcp(id, TcpEvent::PeerFin),
            Some(TcpCommand::Reset) => {
                for stream in &mut self.tcp[at].streams {
                    stream.sent.clear();
                    stream.arrived.clear();
                }
                other.tcp(id, TcpEvent::PeerReset);
            }
        }
    }

    /// Lets `n` bytes from a side arrive.
    pub(in super::super) fn move_bytes(&mut self, at: usize, from: usize, n: usize) -> bool {
        let stream = &mut self.tcp[at].streams[from];
        let n = n.min(stream.sent.len());
        stream.arrived.extend(stream.sent.drain(..n));
        if n > 0 {
            self.feed(at, 1 - from);
        }
        n > 0
    }

    /// Gives arrived bytes to the engine of a side, or to its application.
    fn feed(&mut self, at: usize, to: usize) {
        let id = self.tcp[at].ids[to];
        loop {
            let tcp = &mut self.tcp[at];
            let command = tcp.streams[to].command;
            let stream = &mut tcp.streams[1 - to];
            if stream.arrived.is_empty() {
                return;
            }
            let watches = match command {
                None => !stream.stopped,
                Some(TcpCommand::HandOver { watch_for_decline }) => {
                    if !watch_for_decline || stream.stopped && !stream.application.is_empty() {
                        stream.application.append(&mut stream.arrived);
                        return;
                    }
                    true
                }
                Some(_) => return,
            };
            if !watches {
                return;
            }
            let side = &mut self.sides[to];
            let progress = show(&mut side.endpoint, side.now, id, &stream.arrived);
            side.check();
            match progress {
                Ok(ClcProgress::NeedMore { .. }) => return,
                Ok(ClcProgress::Consumed { len, next }) => {
                    stream.arrived.drain(..len);
                    stream.stopped = next == Next::Stop;
                }
                Ok(ClcProgress::NotClc) => {
                    stream.stopped = true;
                    if command.is_some() {
                        stream.application.append(&mut stream.arrived);
                    }
                    return;
                }
                Err(_) => {
                    stream.arrived.clear();
                    return;
                }
            }
        }
    }

    /// What the application of a side received over TCP.
    pub(in super::super) fn received(&self, at: usize, side: usize) -> &[u8] {
        &self.tcp[at].streams[1 - side].application
    }

    /// Resets a TCP connection from the outside.
    pub(in super::super) fn reset(&mut self, at: usize) {
        self.tcp[at].disturbed = true;
        for side in 0..2 {
            let id = self.tcp[at].ids[side];
            let host = &mut self.sides[side];
            host.tcp(id, TcpEvent::PeerReset);
        }
    }
}
