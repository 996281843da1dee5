//! The peer's end of the wire.

use core::time::Duration;

use smc_proto::completion::{LinkFailure, RdmaCompletion};
use smc_proto::endpoint::TcpEvent;
use smc_proto::time::Instant;

use super::Direct;
use crate::scripts::story::Kind;
use crate::scripts::wire::{Failed, Heard, Target, Wire};

impl Wire for Direct {
    fn now(&self) -> Duration {
        Duration::from_nanos(self.now.as_nanos())
    }

    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    fn pass(&mut self, until: Duration) {
        let end = Instant::ZERO.after(until);
        while self.heard.is_empty() && self.seen.is_empty() {
            if !self.run_timers(end) {
                self.now = self.now.max(end);
                return;
            }
        }
    }

    fn heard(&mut self) -> Option<Heard> {
        self.heard.pop_front()
    }

    fn tcp(&mut self, conn: u8, octets: &[u8]) {
        let stream = self.streams.entry(conn).or_default();
        stream.pending.extend_from_slice(octets);
        self.show(conn);
    }

    fn fin(&mut self, conn: u8) {
        self.tell_tcp(conn, TcpEvent::PeerFin);
    }

    fn reset(&mut self, conn: u8) {
        self.tell_tcp(conn, TcpEvent::PeerReset);
    }

    fn join(&mut self, _: u8, _: Kind, _: &[u8]) -> Result<(), Failed> {
        Ok(())
    }

    fn send(&mut self, over: Target, octets: &[u8]) -> Result<(), Failed> {
        match over {
            Target::Qp(qpn) => {
                let link = self.link_of(qpn)?;
                let payload = octets;
                let received = RdmaCompletion::Received { link, payload };
                self.endpoint.handle_rdma(self.now, received);
            }
            Target::Dmb(token) => self.signal(token, octets)?,
        }
        self.pump();
        Ok(())
    }

    fn write(&mut self, over: Target, key: u64, address: u64, octets: &[u8]) -> Result<(), Failed> {
        match over {
            Target::Qp(_) => self.memory.write(key, address, octets),
            Target::Dmb(token) => self.ism.write(token, address, octets),
        }
    }

    fn breaks(&mut self, over: Target) -> Result<(), Failed> {
        match over {
            Target::Qp(qpn) => {
                let link = self.link_of(qpn)?;
                let failed = RdmaCompletion::LinkFailed {
                    link,
                    cause: LinkFailure::RetriesExhausted,
                    conn: None,
                };
                self.endpoint.handle_rdma(self.now, failed);
            }
            Target::Dmb(_) => self.vanish(),
        }
        self.pump();
        Ok(())
    }
}
